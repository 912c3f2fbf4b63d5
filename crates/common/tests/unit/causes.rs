//! Unit tests of `src/causes.rs`.

use super::*;
use crate::cells::{WIDTH, width, wrapped};

/// A lock that a thread holds, for which requests wait.
struct Lock {
    name: &'static str,
    waiting: usize,
    thread: ThreadInfo,
}

/// The holder of a lock waits for another, or runs.
fn lock(at: u64, name: &'static str, waiting: usize, waits_for: Option<u64>) -> Lock {
    Lock {
        name,
        waiting,
        thread: ThreadInfo {
            name: format!("t{at}").into(),
            waits_in: None,
            waits: waits_for.is_some(),
            number: at + 1,
            waits_for: (1, waits_for.unwrap_or_default()),
        },
    }
}

fn held(locks: &[Lock]) -> Vec<Held<'_>> {
    let held = locks.iter().zip(0..).map(|(lock, at)| Held {
        name: lock.name.to_owned(),
        waiting: lock.waiting,
        spots: vec![(1, at)],
        holder: Holder::Thread(&lock.thread),
        ..Held::default()
    });
    held.collect()
}

fn sentences_of(locks: &[Lock]) -> Vec<String> {
    sentences(&held(locks))
}

const RUNS: &str = "it runs, or waits for something else";

#[test]
fn a_sentence_follows_a_chain_to_the_thread_that_runs() {
    let locks = [
        lock(0, "a", 3, Some(2)),
        lock(1, "b", 4, None),
        lock(2, "c", 1, Some(1)),
    ];
    let expected = format!(
        "3 requests wait for a, which thread `t0` holds; it waits for c, which thread `t2` holds; \
         it and 3 other requests wait for b, which thread `t1` holds: {RUNS}"
    );
    assert_eq!(sentences_of(&locks), [expected]);
}

#[test]
fn a_circle_ends_the_sentence_with_the_number_of_its_threads() {
    let circle = [
        lock(0, "a", 1, Some(1)),
        lock(1, "b", 1, Some(2)),
        lock(2, "c", 1, Some(0)),
    ];
    let expected = "1 request waits for a, which thread `t0` holds; it waits for b, which thread \
        `t1` holds; it waits for c, which thread `t2` holds; it waits for a: a deadlock between 3 \
        threads";
    assert_eq!(sentences_of(&circle), [expected]);
    // The request for `a` is not on the circle.
    let tail = [
        lock(0, "a", 1, Some(1)),
        lock(1, "b", 2, Some(2)),
        lock(2, "c", 1, Some(1)),
    ];
    let expected = "1 request waits for a, which thread `t0` holds; it and another request wait for \
        b, which thread `t1` holds; it waits for c, which thread `t2` holds; it waits for b: a \
        deadlock between 2 threads";
    assert_eq!(sentences_of(&tail), [expected]);
    let own = [lock(0, "a", 1, Some(0))];
    let expected =
        "1 request waits for a, which thread `t0` holds; it waits for a: it waits for itself";
    assert_eq!(sentences_of(&own), [expected]);
}

/// A request for a whole lock waits for each holder of nodes. The circle is behind a later one.
#[test]
fn a_circle_is_found_behind_each_holder_of_a_lock() {
    let of_nodes = |tail: bool| {
        let mut locks = vec![
            lock(0, "x", 1, None),
            lock(1, "y", 1, Some(2)),
            lock(2, "k", 1, Some(0)),
        ];
        // It leads to the circle, and comes first.
        locks.splice(0..0, tail.then(|| lock(3, "z", 1, Some(2))));
        locks
    };
    let x = format!("1 request waits for x, which thread `t0` holds: {RUNS}");
    let y = "1 request waits for y, which thread `t1` holds; it waits for k, which thread `t2` \
        holds; it waits for y: a deadlock between 2 threads";
    let z = "1 request waits for z, which thread `t3` holds; it waits for k, which thread `t2` \
        holds; it waits for y, which thread `t1` holds; it waits for k: a deadlock between 2 threads";
    for (tail, expected) in [(false, [x.as_str(), y]), (true, [z, &x])] {
        let locks = of_nodes(tail);
        let mut held = held(&locks);
        for (held, lock) in held.iter_mut().zip(&locks) {
            held.spots = match lock.name {
                "x" | "y" => vec![(1, 0)],
                _ => vec![(1, lock.thread.number - 1)],
            };
        }
        assert_eq!(sentences(&held), expected);
    }
}

#[test]
fn a_circle_through_one_of_several_slots_may_end() {
    let locks = [lock(0, "a", 1, Some(1)), lock(1, "a slot of b", 1, Some(0))];
    let mut held = held(&locks);
    held[1].has_others = true;
    let expected = "1 request waits for a, which thread `t0` holds; it waits for a slot of b, of \
        which thread `t1` has one; it waits for a: a deadlock between 2 threads, unless another \
        slot becomes free";
    assert_eq!(sentences(&held), [expected]);
}

#[test]
fn each_culprit_has_one_sentence_with_what_else_it_holds() {
    let mut locks = [
        lock(0, "a", 1, Some(2)),
        lock(1, "b", 1, Some(2)),
        lock(2, "c", 2, None),
        lock(3, "d", 5, None),
        lock(4, "e", 0, None),
    ];
    // It holds `c`, too.
    locks[3].thread = locks[2].thread.clone();
    let expected = format!(
        "1 request waits for a, which thread `t0` holds; it and another request wait for c, which \
         thread `t2` holds: {RUNS}; it also holds d, for which 5 requests wait"
    );
    assert_eq!(sentences_of(&locks), [expected]);
}

#[test]
fn the_middle_of_a_long_chain_is_counted() {
    let locks: Vec<_> = (0..10_000)
        .map(|at| lock(at, "it", 1, (at < 9_999).then_some(at + 1)))
        .collect();
    let expected = format!(
        "1 request waits for it, which thread `t0` holds; it waits for it, which thread `t1` \
         holds; it waits for it, which thread `t2` holds; it waits through 9995 others for it, \
         which thread `t9998` holds; it waits for it, which thread `t9999` holds: {RUNS}"
    );
    assert_eq!(sentences_of(&locks), [expected]);
}

#[test]
fn names_of_clients_keep_a_sentence_short_and_in_one_line() {
    for name in [
        "",
        "\n",
        "a\u{1b}[2J",
        &"long ".repeat(100_000),
        &"文".repeat(1_000),
    ] {
        let mut thread = lock(0, "", 1, None).thread;
        thread.name = name.into();
        let owner = OwnerId::from(name);
        let held = Held {
            name: format!("the key {} of {}", shown(name), quoted(name)),
            waiting: 1,
            holder: Holder::Thread(&thread),
            owner: Some(&owner),
            ..Held::default()
        };
        let [sentence] = &sentences(&[held])[..] else {
            panic!("there is one")
        };
        assert!(
            sentence.len() < 500 && !sentence.contains(char::is_control),
            "{sentence}"
        );
        let lines = wrapped(sentence, WIDTH - 16);
        assert!(
            lines.iter().all(|line| width(line) <= WIDTH - 16),
            "{lines:?}"
        );
        assert_eq!(&lines.join(" "), sentence);
    }
}

/// Follows each lock for which requests wait to its end, alone: a thread, or the circle with the
/// smallest lock in it.
fn ends(next: &[Option<u64>], waiting: &[usize]) -> Vec<u64> {
    let end = |start: usize| {
        let (mut at, mut steps) = (start, Vec::new());
        while let Some(to) = next[at] {
            if let Some(back) = steps.iter().position(|step| *step == at) {
                return steps[back..].iter().min().map_or(0, |least| *least as u64);
            }
            steps.push(at);
            at = to as usize;
        }
        at as u64
    };
    let starts = (0..next.len()).filter(|at| waiting[*at] > 0);
    let mut ends: Vec<_> = starts.map(end).collect();
    ends.sort_unstable();
    ends.dedup();
    ends
}

/// Draws numbers, from a seed that a failure prints.
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % bound
    }
}

#[test]
fn random_waits_have_a_sentence_for_each_end() {
    let seed = std::env::var("SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| crate::id::random_session().into());
    let mut draw = Draw(seed);
    for round in 0..2_000 {
        let count = 1 + draw.below(9);
        let next: Vec<_> = (0..count)
            .map(|_| (draw.below(3) > 0).then(|| draw.below(count)))
            .collect();
        // A thread waits for each lock that a holder waits for.
        let is_next = |at: u64| usize::from(next.contains(&Some(at)));
        let waiting: Vec<_> = (0..count)
            .map(|at| is_next(at) + draw.below(2) as usize)
            .collect();
        let locks: Vec<_> = (0..count)
            .map(|at| lock(at, "it", waiting[at as usize], next[at as usize]))
            .collect();
        let (found, ends) = (sentences_of(&locks), ends(&next, &waiting));
        let context = format!("SEED={seed}, round {round}: {next:?} {waiting:?} {found:?}");
        assert_eq!(found.len(), ends.len(), "{context}");
        for end in ends {
            let runs = next[end as usize].is_none();
            let thread = format!("which thread `t{end}` holds");
            let names = |it: &&String| match runs {
                true => it.ends_with(&format!("{thread}: {RUNS}")),
                false => it.contains(&thread) && !it.ends_with(RUNS),
            };
            // A long circle leaves out its middle.
            let left_out = found.iter().any(|it| it.contains("through"));
            assert!(found.iter().any(|it| names(&it)) || left_out, "{context}");
        }
    }
}
