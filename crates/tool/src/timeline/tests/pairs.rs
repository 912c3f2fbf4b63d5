use std::collections::BTreeMap;

use super::*;
use crate::timeline::pairs::pairs;
use crate::timeline::{hold, length, wait};

/// `waiter holder: time in times overlaps`, with names.
fn named(timeline: &Timeline) -> BTreeMap<(String, String), (u64, u64)> {
    let layout = TimelineLayout::new(timeline);
    let name = |owner: Option<usize>| match owner {
        Some(owner) => layout.owners[owner].to_string(),
        None => "others".to_owned(),
    };
    let pairs = pairs(timeline, &layout).into_iter();
    pairs
        .map(|pair| {
            let names = (name(pair.waiter), name(pair.holder));
            (names, (pair.waited, pair.times))
        })
        .collect()
}

/// Compares each wait with each hold.
fn reference(timeline: &Timeline) -> BTreeMap<(String, String), (u64, u64)> {
    let layout = TimelineLayout::new(timeline);
    let mut pairs = BTreeMap::new();
    for (waits, waiter) in timeline.entries.iter().enumerate() {
        for (holds, holder) in timeline.entries.iter().enumerate() {
            let wait = wait(&layout, waits);
            let Some(hold) = hold(&layout, holds) else {
                continue;
            };
            let (from, to) = (wait.start.max(hold.start), wait.end.min(hold.end));
            let is_own = waiter.lock_id == holder.lock_id;
            if from < to && length(hold) > 0 && !is_own {
                let names = (waiter.owner_id.to_string(), holder.owner_id.to_string());
                let (time, times) = pairs.entry(names).or_insert((0, 0));
                *time += to - from;
                *times += 1;
            }
        }
    }
    pairs
}

/// Requests at random times, of few moments, so that many begin and end together.
fn random(seed: u64) -> Timeline {
    let mut dice = Dice(seed);
    let mut entries = Vec::new();
    for number in 0..40 {
        let requested = dice.below(20);
        let granted = requested + dice.below(6);
        let owner = ["ann", "ben", "cem", "dora"][dice.below(4) as usize];
        let outcome = [Released, Revoked, Holding, TimedOut, Extended, Waiting];
        let outcome = outcome[dice.below(6) as usize];
        // Some share an id: a wait for more nodes, and its grant.
        let entry = request(number / 2, requested, outcome).of(owner).on_nodes();
        let entry = match outcome {
            TimedOut => entry.ended(granted),
            Waiting => entry,
            Holding => entry.granted(granted),
            _ => entry.granted(granted).ended(granted + dice.below(6)),
        };
        entries.push(entry);
    }
    entries.sort_by_key(|entry| entry.ended_at.is_none());
    timeline(30, entries)
}

#[test]
fn a_wait_is_for_the_owners_that_held_during_it() {
    let entries = [
        released(1, "ann", 0, 0, 10),
        released(2, "ben", 4, 10, 30),
        request(3, 5, Waiting).of("cem"),
        request(4, 36, Holding).of("ann").granted(36),
    ];
    let pair = |waiter: &str, holder: &str| (waiter.to_owned(), holder.to_owned());
    let expected = [
        (pair("ben", "ann"), (6, 1)),
        (pair("cem", "ann"), (5 + 4, 2)),
        (pair("cem", "ben"), (20, 1)),
    ];
    assert_eq!(named(&timeline(40, entries)), expected.into());
}

#[test]
fn a_wait_for_more_nodes_is_not_for_the_grant_of_the_same_request() {
    let entries = [
        request(1, 5, Extended).granted(15).ended(15).on_nodes(),
        released(2, "ben", 0, 0, 15).on_nodes(),
        request(1, 0, Holding).granted(1).on_nodes(),
    ];
    let pair = |waiter: &str, holder: &str| (waiter.to_owned(), holder.to_owned());
    let expected = [(pair("ann", "ben"), (1 + 10, 2))];
    assert_eq!(named(&timeline(40, entries)), expected.into());
}

#[test]
fn the_sweep_agrees_with_a_comparison_of_each_wait_with_each_hold() {
    for seed in 0..300 {
        let timeline = simulated(seed, 120);
        assert_eq!(named(&timeline), reference(&timeline), "simulation {seed}");
    }
    for seed in 0..300 {
        let mut timeline = random(seed);
        // One grant an id.
        let mut seen = std::collections::HashSet::new();
        let holds = [Holding, Released, Revoked];
        timeline
            .entries
            .retain(|entry| !holds.contains(&entry.outcome) || seen.insert(entry.lock_id));
        assert_eq!(named(&timeline), reference(&timeline), "random {seed}");
    }
}

#[test]
fn owners_with_little_time_count_as_one() {
    let mut entries = vec![released(0, "ann", 0, 0, 1000)];
    for number in 1..400 {
        entries.push(released(
            number,
            &format!("owner-{number}"),
            900,
            1000,
            1000,
        ));
    }
    let named = named(&timeline(1000, entries));
    let waited: u64 = named.values().map(|(waited, _)| waited).sum();
    assert_eq!((named.len(), waited), (250, 399 * 100));
    let others = ("others".to_owned(), "ann".to_owned());
    assert_eq!(named[&others], (150 * 100, 150));
}
