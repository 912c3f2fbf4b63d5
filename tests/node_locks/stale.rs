//! A late withdrawal ends no other wait of the same guard (NODE LOCKS 1; LOCK 7).

use std::hint::spin_loop;
use std::sync::{Arc, Barrier};
use std::thread;

use doclock::lock::{CancelToken, LockError, node::Scope};

use super::common::{Dice, LateCancel, seed};
use super::{document, patient, take, until_waiting};

/// A cancellation collected for the first wait of a guard ended its second one, which had no token.
#[test]
fn node_locks_01_a_cancellation_that_comes_late_ends_no_other_wait() {
    let store = document();
    let locks = store.node_locks();
    let late = LateCancel::new();
    let a1 = take(&store, "holder", Scope::new().write("a1"));
    let b1 = take(&store, "holder", Scope::new().write("b1"));
    let ann = {
        let (locks, options) = (locks.clone(), patient().cancel_token(late.token()));
        thread::spawn(move || {
            let mut guard = locks
                .request("ann", Scope::new().write("a1"))
                .options(options)
                .wait()?;
            guard
                .request_more(Scope::new().write("b1"))
                .options(patient().clone())
                .wait()
        })
    };
    until_waiting(&locks, 1);
    let canceller = late.begin();
    // The first wait is collected. It is granted, and the guard waits again.
    drop(a1);
    while (locks.stats().total_acquisitions, locks.stats().waiting) != (3, 1) {
        thread::yield_now();
    }
    late.finish(canceller);
    let waiting = locks.stats().waiting;
    drop(b1);
    assert_eq!(ann.join().unwrap(), Ok(()), "its second wait has no token");
    assert_eq!(waiting, 1);
    let stats = locks.stats();
    assert_eq!((stats.total_cancellations, stats.entries), (0, 0));
}

/// As a race: the more requests a token withdraws first, the later a cancellation comes.
#[test]
fn node_locks_01_a_cancellation_against_a_grant_and_another_wait() {
    let seed = seed();
    let mut dice = Dice(seed);
    let mut granted = 0;
    for round in 0..200 {
        let store = document();
        let locks = store.node_locks();
        let token = CancelToken::new();
        let [a1, b1, b2] =
            ["a1", "b1", "b2"].map(|node| take(&store, "holder", Scope::new().write(node)));
        let before = dice.below(6);
        let others: Vec<_> = (0..before)
            .map(|nth| {
                let (locks, options) = (store.node_locks(), patient().cancel_token(&token));
                let other = thread::spawn(move || {
                    let guard = locks
                        .request("other", Scope::new().write("b2"))
                        .options(options)
                        .wait();
                    drop(guard);
                });
                until_waiting(&store.node_locks(), nth + 1);
                other
            })
            .collect();
        let ann = {
            let (locks, options) = (locks.clone(), patient().cancel_token(&token));
            thread::spawn(move || {
                let mut guard = locks
                    .request("ann", Scope::new().write("a1"))
                    .options(options)
                    .wait()?;
                Ok(guard
                    .request_more(Scope::new().write("b1"))
                    .options(patient().clone())
                    .wait())
            })
        };
        until_waiting(&locks, before + 1);
        let (start, spins) = (Arc::new(Barrier::new(2)), dice.below(4_000));
        let canceller = {
            let start = Arc::clone(&start);
            thread::spawn(move || {
                start.wait();
                token.cancel();
            })
        };
        start.wait();
        (0..spins).for_each(|_| spin_loop());
        drop(a1);
        canceller.join().unwrap();
        // In either wait, it is notified before the second can end.
        drop((b1, b2));
        match ann.join().unwrap() {
            Ok(extended) => {
                assert_eq!(extended, Ok(()), "SEED={seed}, round {round}");
                granted += 1;
            }
            Err(LockError::Cancelled(_)) => {}
            Err(other) => panic!("{other}"),
        }
        others.into_iter().for_each(|other| other.join().unwrap());
    }
    println!("{granted} of 200 granted before the cancellation");
}
