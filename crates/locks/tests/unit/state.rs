//! Holds that are not measured: a state that tests from outside cannot reach at will.

use std::panic::Location;

use super::hold_limits::REMEMBERED;
use super::*;
use crate::time::ManualClock;
use crate::{LockOptions, Requester};

const MS: Duration = Duration::from_millis(1);

/// The state of a lock, taken through the sampled path and through the measured one.
struct Taken {
    state: LockState,
    manual: ManualClock,
    clock: Clock,
}

impl Taken {
    fn new() -> Self {
        let manual = ManualClock::new();
        let clock = manual.clock();
        let sampling = Sampling::new(&LockOptions::default().clock);
        let state = LockState::new(1, &LockOptions::new(), sampling);
        Self {
            state,
            manual,
            clock,
        }
    }

    fn take(&mut self, weight: Option<u16>) -> LockId {
        let at = self.clock.now();
        let requester = Requester {
            owner: &"ann".into(),
            label: None,
            call_site: Location::caller(),
            thread: 0,
            bound: true,
            transaction: false,
            hold_limit: None,
        };
        let since = weight.map_or_else(HoldStart::default, |weight| HoldStart {
            weight,
            ..HoldStart::now(at)
        });
        self.state.source().assign(&requester);
        let limit = self.state.hold_limit.map(PackedDuration::get);
        let overdue = limit.and_then(|limit| Overdue::after(limit, at));
        self.state.take(|| None, since, overdue).id()
    }

    /// Takes a step of the state at the present.
    fn step<T>(&mut self, step: impl FnOnce(&mut LockState) -> T) -> T {
        self.state.read_clock(&self.clock);
        step(&mut self.state)
    }

    /// Looks at the lock.
    fn look(&mut self) -> LockInfo {
        self.step(|state| state.current()).unwrap()
    }

    fn release(&mut self, id: LockId) {
        let next = self.step(|state| state.release(id)).unwrap();
        assert!(next.is_none());
    }

    fn stats(&mut self) -> LockStats {
        self.state.settle();
        self.state.now = self.clock.now();
        self.state.stats()
    }
}

#[test]
fn one_measured_hold_represents_the_unmeasured_holds() {
    let mut taken = Taken::new();
    for _ in 0..3 {
        let id = taken.take(Some(16));
        taken.manual.advance(2 * MS);
        taken.release(id);
        for _ in 0..15 {
            // They end without the mutex.
            taken.take(None);
        }
    }
    // A quiet lock: the hold stands for itself.
    let id = taken.take(Some(1));
    taken.manual.advance(51 * MS);
    taken.release(id);
    let stats = taken.stats();
    assert_eq!((stats.total_acquisitions, stats.total_releases), (49, 49));
    assert_eq!((stats.wait.count, stats.hold.count), (49, 49));
    assert_eq!(stats.hold.mean, (48 * 2 * MS + 51 * MS) / 49);
    let near = stats.hold.p95.as_secs_f64() / 2e-3 - 1.0;
    assert!((0.0..0.01).contains(&near), "{:?}", stats.hold.p95);
    assert_eq!(stats.hold.max, 51 * MS);
}

#[test]
fn a_hold_that_is_not_measured_is_counted_all_the_same() {
    let mut taken = Taken::new();
    taken.take(None);
    let stats = taken.stats();
    assert_eq!((stats.total_acquisitions, stats.total_releases), (1, 1));
    assert_eq!((stats.hold.count, stats.hold.max), (1, Duration::ZERO));
}

#[test]
fn an_unmeasured_hold_is_measured_from_the_first_look() {
    let mut taken = Taken::new();
    let id = taken.take(None);
    taken.manual.advance(5 * MS);
    let seen = taken.look();
    assert_eq!((seen.lock_id, seen.held_for), (id, Duration::ZERO));
    assert!(seen.at_least);
    assert!(
        seen.to_string().ends_with("held for at least 0ms"),
        "{seen}"
    );
    taken.manual.advance(3 * MS);
    let seen = taken.look();
    assert_eq!((seen.held_for, seen.at_least), (3 * MS, true));
    taken.release(id);
    let hold = taken.stats().hold;
    assert_eq!((hold.count, hold.mean), (1, 3 * MS));

    // The next hold is not affected.
    taken.take(Some(1));
    assert!(!taken.look().at_least);
}

#[test]
fn lock_10_a_look_revokes_no_holder_for_which_no_request_waits() {
    let mut taken = Taken::new();
    taken.state.hold_limit = PackedDuration::new(MS);
    let id = taken.take(Some(1));
    taken.manual.advance(2 * MS);
    taken.step(|state| state.revoke_overdue(|_| true));
    assert_eq!(taken.state.next_look, Deadline::NEVER);
    assert_eq!(taken.look().lock_id, id);
}

#[test]
fn lock_10_the_latest_revoked_grants_are_remembered() {
    let mut taken = Taken::new();
    for number in 0..=REMEMBERED as u64 {
        taken.state.remember_revocation(LockId { number, lock: 1 });
    }
    let mut learn = |number| taken.state.learn_of_revocation(LockId { number, lock: 1 });
    assert_eq!([learn(0), learn(1), learn(1)], [false, true, false]);
    assert!(learn(REMEMBERED as u64));
    assert_eq!(taken.state.revoked.len(), REMEMBERED - 2);
}
