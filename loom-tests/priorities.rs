//! Races between those who may overtake and the hand-off.

use doclock::{AcquireOptions, LockError, Priority, StoreOptions};

use crate::model::check_all;
use crate::site::{Site, at_rest};

fn of(priority: Priority) -> AcquireOptions {
    AcquireOptions::new().priority(priority)
}

/// By how many requests that asked later one was overtaken.
fn overtaken(site: &Site, name: &str) -> usize {
    let asked = site.asked(name);
    let turns = site.turns();
    let before = turns.iter().take_while(|(named, _)| *named != name);
    before
        .filter(|(named, _)| site.asked(named) > asked)
        .count()
}

/// `low` and two of high priority wait for `a`'s release.
fn insertion(bound: u32) -> (Site, usize) {
    let site = Site::new(StoreOptions::new().overtaking_bound(bound));
    let held = site.store.acquire_lock("a").unwrap();
    let low = site.spawn(|site| site.hold("low", of(Priority::Normal)));
    let highs = ["high 1", "high 2"]
        .map(|name| site.spawn(move |site| site.hold(name, of(Priority::High))));
    site.store.release_lock(held).unwrap();
    low.join().unwrap();
    highs.into_iter().for_each(|high| high.join().unwrap());
    at_rest(&site.store.lock_stats());
    // Nobody passes their own priority or a higher one.
    for name in ["high 1", "high 2"] {
        assert_eq!(overtaken(&site, name), 0);
    }
    let by = overtaken(&site, "low");
    (site, by)
}

#[test]
fn priorities_overtake_up_to_the_bound() {
    let outcomes = ["by none", "by one"];
    check_all(
        "overtaking, at most once",
        Some(2),
        outcomes,
        |seen| match insertion(1) {
            (_, 0) => seen.note("by none"),
            (_, 1) => seen.note("by one"),
            (site, _) => panic!("{:?}", site.turns()),
        },
    );
}

#[test]
fn priorities_overtake_within_the_bound() {
    let outcomes = ["by none", "by one", "by two"];
    check_all(
        "overtaking, as often as they ask",
        Some(2),
        outcomes,
        |seen| {
            seen.note(match insertion(2) {
                (_, 0) => "by none",
                (_, 1) => "by one",
                _ => "by two",
            });
        },
    );
}

#[test]
fn priorities_without_a_bound_on_overtaking_are_none() {
    check_all("overtaking, never", Some(2), [], |_| {
        let (site, _) = insertion(0);
        site.are_in_order_of_asking();
    });
}

#[test]
fn priorities_of_lists_that_others_execute() {
    let outcomes = ["by none", "by one"];
    check_all("overtaking lists", Some(3), outcomes, |seen| {
        let site = Site::new(StoreOptions::new().overtaking_bound(1));
        let low = site.spawn_list("low", of(Priority::Low));
        let high = site.spawn_list("high", of(Priority::High));
        let a = site.submit("a", of(Priority::Normal));
        let (low, high) = (low.join().unwrap(), high.join().unwrap());
        site.at_rest(&[("a", &a), ("low", &low), ("high", &high)]);
        assert!(a.is_ok() && low.is_ok() && high.is_ok());
        assert_eq!(overtaken(&site, "high"), 0);
        assert!(overtaken(&site, "a") <= 1);
        seen.note(match overtaken(&site, "low") {
            0 => "by none",
            1 => "by one",
            _ => "by two",
        });
    });
}

#[test]
fn priorities_against_an_expiry() {
    let outcomes = ["high timed out", "high overtakes", "in turn"];
    check_all("overtaking against expiry", Some(3), outcomes, |seen| {
        let site = Site::new(StoreOptions::new());
        let held = site.store.acquire_lock("a").unwrap();
        let low = site.spawn(|site| site.hold("low", of(Priority::Low)));
        let high = site.spawn(|site| {
            let got = site.try_hold("high", of(Priority::High));
            match got {
                Ok(()) | Err(LockError::Timeout(_)) => {}
                Err(other) => panic!("{other}"),
            }
        });
        let timer = site.spawn(|site| site.store.expire("high"));
        site.store.release_lock(held).unwrap();
        low.join().unwrap();
        high.join().unwrap();
        timer.join().unwrap();
        at_rest(&site.store.lock_stats());
        seen.note(match site.turns()[..] {
            [_] => "high timed out",
            [("high", _), _] if overtaken(&site, "low") == 1 => "high overtakes",
            _ => {
                assert_eq!(overtaken(&site, "high"), 0);
                "in turn"
            }
        });
    });
}
