//! Races between requests that may overtake and the hand-off.

use doclock::{
    StoreOptions,
    lock::{AcquireOptions, LockError, Priority},
};

use crate::model::{Model, Run};
use crate::site::{Site, at_rest};

fn of(priority: Priority) -> AcquireOptions {
    AcquireOptions::new().priority(priority)
}

/// Returns how many later requests overtook this one; zero if it never came.
fn overtaken(site: &Site, name: &str) -> usize {
    let Some(asked) = site.asked(name) else {
        return 0;
    };
    let turns = site.turns();
    let before = turns.iter().take_while(|(named, _)| *named != name);
    before
        .filter(|(named, _)| site.asked(named) > Some(asked))
        .count()
}

/// `low` and two of high priority wait for `a`'s release.
fn insertion(run: &Run, bound: u32) -> (Site, usize) {
    let site = Site::new(run, StoreOptions::new().overtaking_bound(bound));
    let held = site.store.acquire_lock("a").unwrap();
    let low = site.spawn(|site| site.hold("low", of(Priority::Normal)));
    let highs = ["high 1", "high 2"]
        .map(|name| site.act("high", move |site| site.hold(name, of(Priority::High))));
    site.store.release_lock(held).unwrap();
    low.join().unwrap();
    for high in highs {
        high.join();
    }
    at_rest(&site.store.lock_stats());
    // No request overtakes one of its own priority or a higher one.
    for name in ["high 1", "high 2"] {
        assert_eq!(overtaken(&site, name), 0);
    }
    let by = overtaken(&site, "low");
    (site, by)
}

const BY: [&str; 3] = ["by none", "by one", "by two"];

#[test]
fn priorities_overtake_up_to_the_bound() {
    Model::new("overtaking, at most once", 2)
        .reaches(["by none"])
        .reaches_by("high", "by one")
        .check(|run| run.note(BY[insertion(run, 1).1]));
}

#[test]
fn priorities_overtake_within_the_bound() {
    Model::new("overtaking, as often as they ask", 2)
        .reaches(["by none"])
        .reaches_by("high", "by one")
        .reaches_by("high", "by two")
        .check(|run| run.note(BY[insertion(run, 2).1]));
}

#[test]
fn priorities_have_no_effect_with_an_overtaking_bound_of_zero() {
    Model::new("overtaking, never", 2)
        .reaches(["low first"])
        .reaches_by("high", "low second")
        .reaches_by("high", "low third")
        .check(|run| {
            let (site, by) = insertion(run, 0);
            assert_eq!(by, 0);
            site.are_in_fifo_order();
            let turns = site.turns();
            let low = turns.iter().position(|(name, _)| *name == "low").unwrap();
            run.note(["low first", "low second", "low third"][low]);
        });
}

#[test]
fn priorities_of_batches_that_a_combiner_executes() {
    Model::new("overtaking lists", 3)
        .reaches(["by none"])
        .reaches_by("high", "by one")
        .check(|run| {
            let site = Site::new(run, StoreOptions::new().overtaking_bound(1));
            let low = site.spawn_list("low", of(Priority::Low));
            let high = site.act("high", |site| site.submit("high", of(Priority::High)));
            let a = site.submit("a", of(Priority::Normal));
            let (low, high) = (low.join().unwrap(), high.join());
            let high = high.iter().map(|high| ("high", high));
            let outcomes: Vec<_> = [("a", &a), ("low", &low)].into_iter().chain(high).collect();
            site.at_rest(&outcomes);
            assert!(outcomes.iter().all(|(_, outcome)| outcome.is_ok()));
            assert_eq!(overtaken(&site, "high"), 0);
            assert!(overtaken(&site, "a") <= 1);
            run.note(BY[overtaken(&site, "low")]);
        });
}

#[test]
fn priorities_against_an_expiry() {
    Model::new("overtaking against expiry", 2)
        .reaches(["high overtakes", "in turn"])
        .reaches_by("timer", "high timed out")
        .check(|run| {
            let site = Site::new(run, StoreOptions::new());
            let held = site.store.acquire_lock("a").unwrap();
            let low = site.spawn(|site| site.hold("low", of(Priority::Low)));
            let high = site.spawn(|site| {
                let got = site.try_hold("high", of(Priority::High));
                match got {
                    Ok(()) | Err(LockError::Timeout(_)) => {}
                    Err(other) => panic!("{other}"),
                }
            });
            let timer = site.act("timer", |site| site.store.expire("high"));
            site.store.release_lock(held).unwrap();
            low.join().unwrap();
            high.join().unwrap();
            timer.join();
            at_rest(&site.store.lock_stats());
            run.note(match site.turns()[..] {
                [_] => "high timed out",
                [("high", _), _] if overtaken(&site, "low") == 1 => "high overtakes",
                _ => {
                    assert_eq!(overtaken(&site, "high"), 0);
                    "in turn"
                }
            });
        });
}
