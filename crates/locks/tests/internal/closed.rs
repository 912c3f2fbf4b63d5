//! A lock that is closed by its store.

use std::panic::Location;
use std::thread;
use std::time::Duration;

use doclock_locks::internal::{Refused, Requester, Tree, blocking};
use doclock_locks::node::Scope;
use doclock_locks::time::ManualClock;
use doclock_locks::{
    AcquireOptions, CancelToken, FifoLock, LockError, LockOptions, NodeId, OwnerId, ReleaseError,
    SlowRequest, TimelineOutcome, WaiterKind,
};

const SECOND: Duration = Duration::from_secs(1);

fn close(lock: &FifoLock, change: u64, owner: &str) {
    let owner = OwnerId::from(owner);
    lock.set_closed(change, Some((&owner, Location::caller())));
}

fn until(condition: impl Fn() -> bool) {
    while !condition() {
        thread::yield_now();
    }
}

fn holder_named(error: &LockError) -> &str {
    match error {
        LockError::WouldBlock { holder, .. } => holder.owner_id.as_str(),
        LockError::Timeout(evidence) => evidence.holder.owner_id.as_str(),
        other => panic!("{other}"),
    }
}

#[test]
fn a_closed_lock_is_granted_to_nobody_and_holds_nothing() {
    let lock = FifoLock::new();
    close(&lock, 1, "disk");
    assert_eq!((lock.is_locked(), lock.current_lock()), (false, None));
    let closer = lock.diagnostics().closed_by.unwrap();
    assert_eq!(closer.owner_id.as_str(), "disk");
    assert!(lock.release_lock(closer.lock_id).is_err());
    assert_eq!(holder_named(&lock.try_lock("ann").unwrap_err()), "disk");
    let brief = lock.request("ann").timeout(Duration::from_millis(1));
    assert_eq!(holder_named(&brief.wait().unwrap_err()), "disk");
    lock.set_closed(2, None);
    drop(lock.try_lock("ann").unwrap());
    let stats = lock.lock_stats();
    assert_eq!((stats.total_acquisitions, stats.total_releases), (1, 1));
}

#[test]
fn an_earlier_change_that_comes_late_has_no_effect() {
    let lock = FifoLock::new();
    lock.set_closed(2, None);
    close(&lock, 1, "disk");
    drop(lock.try_lock("ann").unwrap());
    close(&lock, 4, "disk");
    lock.set_closed(3, None);
    assert!(lock.try_lock("ann").is_err());
}

/// The holder goes on, and the requests behind it wait for what closes the lock.
#[test]
fn a_lock_that_is_closed_under_a_holder_is_granted_when_it_is_opened() {
    let clock = ManualClock::new();
    let options = LockOptions::new().clock(clock.clock()).timeout(None);
    let lock = FifoLock::with_options(options.timeline(100));
    let held = lock.acquire_lock("ann").unwrap();
    thread::scope(|scope| {
        let waits = ["ben", "cem"].map(|owner| {
            let lock = &lock;
            let waits = scope.spawn(move || lock.lock(owner).map(|guard| guard.fencing_token()));
            until(|| lock.queue_length() == 1 + usize::from(owner == "cem"));
            waits
        });
        close(&lock, 1, "subscriber");
        assert_eq!(holder_named(&lock.try_lock("dan").unwrap_err()), "ann");
        clock.advance(SECOND);
        lock.release_lock(held).unwrap();
        assert_eq!(
            holder_named(&lock.try_lock("dan").unwrap_err()),
            "subscriber"
        );
        assert!(!lock.is_locked());
        clock.advance(SECOND);
        let closer = lock.diagnostics().closed_by.unwrap();
        assert_eq!(closer.held_for, SECOND, "since the holder has left");
        lock.set_closed(2, None);
        let tokens = waits.map(|waits| waits.join().unwrap().unwrap());
        assert!(tokens[0] < tokens[1]);
    });
    let entries = lock.timeline().unwrap().entries;
    let holds = entries.iter().map(|entry| {
        let hold = entry.granted_at.zip(entry.ended_at);
        let seconds = hold.map(|(from, to)| (from.as_secs(), to.as_secs()));
        (entry.owner_id.as_str(), seconds.unwrap(), entry.outcome)
    });
    let released = TimelineOutcome::Released;
    assert!(holds.eq([
        ("ann", (0, 1), released),
        ("subscriber", (1, 2), released),
        ("ben", (2, 2), released),
        ("cem", (2, 2), released),
    ]));
}

#[test]
fn what_closes_a_lock_for_long_is_reported_if_requests_have_come() {
    let clock = ManualClock::new();
    let options = LockOptions::new().clock(clock.clock()).timeout(None);
    let lock = FifoLock::with_options(options.report_holds(SECOND).timeline(100));
    let reports = lock.reports().unwrap();
    for comes in [false, true] {
        let change = 1 + 2 * u64::from(comes);
        close(&lock, change, "disk");
        if comes {
            let token = CancelToken::new();
            thread::scope(|scope| {
                let request = lock.request("ann").cancel_token(&token);
                let waits = scope.spawn(move || request.wait().map(drop));
                until(|| lock.queue_length() == 1);
                token.cancel();
                waits.join().unwrap().unwrap_err();
            });
        }
        clock.advance(SECOND);
        lock.set_closed(change + 1, None);
        let report = reports.try_recv().ok();
        assert_eq!(report.is_some(), comes);
        if let Some(report) = report {
            assert_eq!(report.slow, SlowRequest::Hold { ended: true });
            assert_eq!(report.holder.unwrap().owner_id.as_str(), "disk");
        }
        let entries = lock.timeline().unwrap().entries;
        let owners = entries.iter().map(|entry| entry.owner_id.as_str());
        assert!(owners.eq(["ann", "disk"].into_iter().take(2 * usize::from(comes))));
    }
}

/// To revoke a holder would help no request.
#[test]
fn no_holder_is_revoked_for_requests_that_wait_for_what_closes_the_lock() {
    let clock = ManualClock::new();
    let options = LockOptions::new().clock(clock.clock()).timeout(None);
    let lock = FifoLock::with_options(options.hold_limit(SECOND));
    let held = lock.acquire_lock("ann").unwrap();
    close(&lock, 1, "disk");
    thread::scope(|scope| {
        let waits = scope.spawn(|| lock.lock("ben").map(drop));
        until(|| lock.queue_length() == 1);
        clock.advance(3 * SECOND);
        let brief = lock.request("cem").timeout(Duration::from_millis(20));
        scope.spawn(move || brief.wait().map(drop).unwrap_err());
        until(|| lock.queue_length() == 2);
        clock.advance(SECOND);
        until(|| lock.queue_length() == 1);
        assert_eq!(lock.current_lock().unwrap().lock_id, held);
        lock.set_closed(2, None);
        waits.join().unwrap().unwrap();
    });
    assert!(matches!(
        lock.release_lock(held),
        Err(ReleaseError::Revoked { .. })
    ));
}

/// Nodes without ancestors.
struct Flat;

impl Tree for Flat {
    fn each_ancestor(&self, _: &NodeId, _: &mut dyn FnMut(&NodeId)) -> u64 {
        self.version()
    }

    fn version(&self) -> u64 {
        0
    }
}

/// A holder of nodes gets more of them, and no other request gets any.
#[test]
fn a_closed_lock_lets_no_request_for_nodes_in_beside_a_holder_of_others() {
    let clock = ManualClock::new();
    let lock = FifoLock::with_options(LockOptions::new().clock(clock.clock()));
    let options = AcquireOptions::new().no_wait();
    let (ann, ben) = (OwnerId::from("ann"), OwnerId::from("ben"));
    let by = |owner| Requester {
        thread: 0,
        ..options.requester(owner, Location::caller(), false)
    };
    let nodes = |id: &str| Scope::new().write(id);
    let held = lock
        .grant_nodes(&by(&ann), &options, nodes("a"), &Flat)
        .unwrap();
    close(&lock, 1, "disk");
    let refused = lock.grant_nodes(&by(&ben), &options, nodes("b"), &Flat);
    assert_eq!(holder_named(&refused.unwrap_err()), "disk");
    let refused = lock.request("ben").options(options.clone()).wait();
    assert_eq!(holder_named(&refused.unwrap_err()), "ann");
    let (thread, more) = (WaiterKind::Thread, nodes("c"));
    blocking(lock.extend_nodes(thread, held, &options, &more, &Flat, Refused::Itself)).unwrap();
    clock.advance(SECOND);
    lock.leave_grant(held.id());
    clock.advance(SECOND);
    let closer = lock.diagnostics().closed_by.unwrap();
    assert_eq!(closer.held_for, SECOND, "since the holder has left");
    let refused = lock.grant_nodes(&by(&ben), &options, nodes("b"), &Flat);
    assert_eq!(holder_named(&refused.unwrap_err()), "disk");
    lock.set_closed(2, None);
    let granted = lock.grant_nodes(&by(&ben), &options, nodes("b"), &Flat);
    lock.leave_grant(granted.unwrap().id());
    assert!(!lock.is_locked());
}
