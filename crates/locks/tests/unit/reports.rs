//! How often the keeper looks at requests, which is not observable from outside the crate.

use std::panic::Location;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use super::*;
use crate::keeper::Keeper;
use crate::time::ManualClock;
use crate::wait::blocking;
use crate::{AcquireOptions, FifoLock, LockOptions, WaiterKind};

const MS: Duration = Duration::from_millis(1);
const NANO: Duration = Duration::from_nanos(1);

/// Lets a thread wait for the lock.
fn waiting(lock: &FifoLock) -> JoinHandle<()> {
    let theirs = lock.clone();
    let waiter = thread::spawn(move || {
        let granted = theirs.request("waiter").no_timeout().wait();
        drop(granted.unwrap());
    });
    while lock.queue_length() == 0 {
        thread::yield_now();
    }
    waiter
}

/// Returns how often the keeper looks at the lock while it has a hundred other duties: work and
/// looks take turns.
fn looks_meanwhile(lock: &FifoLock) -> usize {
    let looks = || lock.0.state.lock().looks;
    let before = looks();
    for _ in 0..100 {
        let (done, is_done) = mpsc::channel();
        Keeper::of_process().take_over(Box::new(move |_| done.send(()).unwrap()));
        is_done.recv_timeout(Duration::from_secs(60)).unwrap();
    }
    looks() - before
}

/// Once the keeper looked without a pause as long as a request waited.
#[test]
fn the_keeper_does_not_look_when_nothing_is_left_to_report() {
    let options = LockOptions::new;
    for options in [
        options().report_waits(Duration::ZERO),
        options().report_waits(100 * MS),
        options().report_holds(Duration::ZERO),
        options().report_holds(NANO),
        options().report_holds(100 * MS),
        options().report_holds(NANO).report_waits(NANO),
    ] {
        let clock = ManualClock::new();
        let shown = format!("{options:?}");
        let lock = FifoLock::with_options(options.clock(clock.clock()));
        let reports = lock.reports().unwrap();
        let held = lock.acquire_lock("holder").unwrap();
        let waiter = waiting(&lock);
        clock.advance(100 * MS);
        reports.recv_timeout(Duration::from_secs(60)).unwrap();
        // The look of the report may still be under way.
        let looks = looks_meanwhile(&lock);
        assert!(looks <= 1, "{looks} looks with {shown}");
        for _ in 0..20 {
            clock.advance(100 * MS);
            assert!(looks_meanwhile(&lock) == 0, "looks again with {shown}");
        }
        lock.release_lock(held).unwrap();
        waiter.join().unwrap();
    }
}

#[test]
fn looks_have_a_distance_however_short_the_threshold_is() {
    let lock = FifoLock::with_options(LockOptions::new().report_waits(Duration::ZERO));
    let mut state = lock.0.state.lock();
    assert_eq!(
        state.look_within(Duration::ZERO),
        Deadline::after(MS, state.now)
    );
}

/// Once the keeper looked without a pause at such a holder if its limit was short.
#[test]
fn the_keeper_waits_before_it_looks_again_at_a_holder_that_cannot_be_revoked() {
    let clock = ManualClock::new();
    let options = LockOptions::new()
        .clock(clock.clock())
        .hold_limit(Duration::ZERO);
    let lock = FifoLock::with_options(options);
    let (owner, options) = (OwnerId::from("holder"), AcquireOptions::new());
    let requester = options.requester(&owner, Location::caller(), true);
    let granted = blocking(lock.grant_as(WaiterKind::Thread, &requester, &options));
    let grant = granted.unwrap();
    assert!(lock.seal(grant));
    let waiter = waiting(&lock);
    clock.advance(MS);
    // The advance may be noticed now.
    let looks = looks_meanwhile(&lock);
    assert!(looks <= 2, "{looks} looks");
    lock.leave_grant(grant.id());
    waiter.join().unwrap();
}
