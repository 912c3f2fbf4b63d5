//! How often the keeper looks for overdue holders, which is not observable from outside the crate.

use std::panic::Location;
use std::sync::mpsc;
use std::thread;

use super::*;
use crate::AcquireOptions;
use crate::id::NodeId;
use crate::node::{Scope, Tree};
use crate::steps::counter::counted;
use crate::time::ManualClock;
use crate::{FifoLock, LockOptions};

const LIMIT: Duration = Duration::from_millis(5);
const NANO: Duration = Duration::from_nanos(1);

/// Lets threads wait while others hold the lock one after another, each almost as long as the
/// limit. Returns how often the keeper looked.
fn looks(waiters: usize, holds: usize) -> usize {
    let clock = ManualClock::new();
    let lock = FifoLock::with_options(LockOptions {
        clock: clock.clock(),
        timeout: None,
        hold_limit: Some(LIMIT),
        ..LockOptions::default()
    });
    let mut held = lock.acquire_lock("first").unwrap();
    let (grants, granted) = mpsc::channel();
    let threads: Vec<_> = (1..=waiters)
        .map(|position| {
            let (theirs, grants) = (lock.clone(), grants.clone());
            let wait = move || grants.send(theirs.acquire_lock("waiter").unwrap());
            let thread = thread::Builder::new()
                .stack_size(64 * 1024)
                .spawn(wait)
                .unwrap();
            while lock.queue_length() < position {
                thread::yield_now();
            }
            thread
        })
        .collect();
    for _ in 0..holds {
        clock.advance(LIMIT - NANO);
        lock.release_lock(held).unwrap();
        held = granted.recv().unwrap();
    }
    for _ in holds..waiters {
        lock.release_lock(held).unwrap();
        held = granted.recv().unwrap();
    }
    lock.release_lock(held).unwrap();
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap().unwrap());
    assert_eq!(lock.lock_stats().total_revocations, 0, "all kept the limit");
    let state = lock.0.state.lock();
    state.looks
}

/// Once the limit woke each of 3,000 waiters whenever it could have passed. Throughput fell to a
/// thirteenth, and holders within the limit were revoked because they got no processor.
#[test]
fn lock_10_the_number_of_looks_does_not_depend_on_the_number_of_waiters() {
    let holds = 20;
    for waiters in [holds + 2, 200] {
        let looks = looks(waiters, holds);
        assert!(looks <= holds, "{looks} looks for {waiters} waiters");
        println!("{waiters} waiters, {holds} holds: {looks} looks");
    }
}

#[test]
fn lock_10_the_keeper_does_not_look_before_a_limit_passes() {
    assert_eq!(looks(200, 0), 0);
}

/// Once each request for a node listed all holders that delay any request. Eight nodes wanted by 64
/// threads took a quarter of the throughput.
#[test]
fn a_waiter_for_nodes_does_not_list_all_that_delay_any_request() {
    struct Flat;
    impl Tree for Flat {
        fn each_ancestor(&self, _: &NodeId, _: &mut dyn FnMut(&NodeId)) -> u64 {
            self.version()
        }

        fn version(&self) -> u64 {
            0
        }
    }
    let steps_of_the_last = |hold_limit| {
        let lock = FifoLock::with_options(LockOptions {
            timeout: None,
            hold_limit,
            ..LockOptions::default()
        });
        let grant = |lock: &FifoLock, number: usize| {
            let owner = OwnerId::from(format!("owner-{number}"));
            let options = AcquireOptions::new();
            let requester = options.requester(&owner, Location::caller(), false);
            let scope = Scope::new().write("node");
            lock.grant_nodes(&requester, &options, scope, &Flat)
                .unwrap()
        };
        let first = grant(&lock, 0);
        let waiters: Vec<_> = (1..=50)
            .map(|number| {
                let theirs = lock.clone();
                let waiter = thread::spawn(move || {
                    let (granted, steps) = counted(|| grant(&theirs, number));
                    theirs.release_lock(granted.id()).unwrap();
                    steps
                });
                while lock.0.state.lock().waiting_for_nodes() < number {
                    thread::yield_now();
                }
                waiter
            })
            .collect();
        lock.release_lock(first.id()).unwrap();
        let steps = waiters.into_iter().map(|waiter| waiter.join().unwrap());
        steps.last().unwrap()
    };
    let hour = Duration::from_secs(3600);
    let (without, with) = (steps_of_the_last(None), steps_of_the_last(Some(hour)));
    println!("{without} steps without a limit, {with} with one");
    // The list visits each of the 50.
    assert!(without < 20 && with < 30, "{without} and {with} steps");
}
