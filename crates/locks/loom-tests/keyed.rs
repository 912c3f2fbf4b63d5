//! Races for the lock of one key.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use doclock_locks::{
    time::ManualClock,
    {
        AcquireOptions, CancelToken, LockError,
        keyed::{KeyedLock, KeyedOptions},
    },
};
use loom::thread::{self, JoinHandle};

use crate::model::{Actor, Model, Run};

pub(crate) type Lock = KeyedLock<u8, u64>;

pub(crate) const KEY: u8 = 1;

/// A key in the other shard.
const ELSEWHERE: u8 = 3;

pub(crate) fn spawn<T: 'static>(
    lock: &Lock,
    work: impl FnOnce(Lock) -> T + 'static,
) -> JoinHandle<T> {
    let lock = lock.clone();
    thread::spawn(move || work(lock))
}

/// Spawns as [`spawn`] does, for an actor.
pub(crate) fn act<T: 'static>(
    run: &Run,
    actor: &'static str,
    lock: &Lock,
    work: impl FnOnce(Lock) -> T + 'static,
) -> Actor<T> {
    let lock = lock.clone();
    run.spawn(actor, move || work(lock))
}

/// Checks that no key is active and every turn was given back.
pub(crate) fn at_rest(lock: &Lock, turns: u64) {
    let stats = lock.stats();
    assert_eq!((stats.active_keys, stats.queue_length), (0, 0));
    assert_eq!(stats.total_acquisitions, turns);
    assert_eq!(stats.total_releases, turns);
}

/// The turns at one key. Not loom's: it only records, and must not add to the interleavings.
#[derive(Clone, Default)]
struct Turns {
    ids: Arc<Mutex<Vec<u64>>>,
    inside: Arc<AtomicBool>,
    waited: Arc<AtomicBool>,
}

impl Turns {
    /// A task: it records its id and whether another request waits, and lets other threads run if
    /// they can.
    fn take(&self, lock: &Lock) -> u64 {
        assert!(!self.inside.swap(true, Ordering::SeqCst), "two at once");
        let current = lock.current(&KEY).expect("it holds the key");
        let id = current.lock_id.number();
        self.ids.lock().unwrap().push(id);
        if lock.queue_length(&KEY) > 0 {
            self.waited.store(true, Ordering::SeqCst);
        }
        self.inside.store(false, Ordering::SeqCst);
        id
    }

    /// Checks that ids are numbered in FIFO order.
    fn are_in_fifo_order(&self, count: usize) {
        let ids = self.ids.lock().unwrap();
        assert!(ids.len() == count && ids.is_sorted(), "{ids:?}");
    }

    fn any_task_waited(&self) -> bool {
        self.waited.load(Ordering::SeqCst)
    }
}

#[test]
fn keyed_eviction_against_a_new_task() {
    let model = Model::new("keyed: eviction against new tasks", 5)
        .reaches(["the key was idle in between"])
        .reaches_by("others", "a task waited");
    model.check(|run| {
        let lock = Lock::new();
        let turns = Turns::default();
        let execute = |turns: Turns| {
            move |lock: Lock| lock.execute_exclusive(&KEY, || turns.take(&lock)).unwrap()
        };
        let others = [(); 2].map(|()| act(run, "others", &lock, execute(turns.clone())));
        execute(turns.clone())(lock.clone());
        let count = 1 + others.into_iter().filter_map(Actor::join).count();

        turns.are_in_fifo_order(count);
        at_rest(&lock, count as u64);
        run.note(match turns.any_task_waited() {
            true => "a task waited",
            false => "the key was idle in between",
        });
    });
}

#[test]
fn keyed_cancel_against_hand_off_and_eviction() {
    let model = Model::new("keyed: cancel against hand-off", 3)
        .reaches(["granted"])
        .reaches_by("canceller", "cancelled in the queue")
        .reaches_by("canceller", "refused");
    model.check(|run| {
        let lock = Lock::new();
        let turns = Turns::default();
        let token = CancelToken::new();
        let held = lock.reserve(&KEY).unwrap();
        let cancelled = {
            let options = AcquireOptions::new().cancel_token(&token);
            let turns = turns.clone();
            spawn(&lock, move |lock| {
                let turn = lock.request(&KEY, "w0").options(options).wait()?;
                turn.execute(|| turns.take(&lock))
            })
        };
        let other = {
            let turns = turns.clone();
            spawn(&lock, move |lock| {
                lock.execute_exclusive(&KEY, || turns.take(&lock)).unwrap()
            })
        };
        let canceller = run.spawn("canceller", {
            let token = token.clone();
            move || token.cancel()
        });
        drop(held);
        let outcome = cancelled.join().unwrap();
        other.join().unwrap();
        canceller.join();

        turns.are_in_fifo_order(1 + usize::from(outcome.is_ok()));
        at_rest(&lock, 2 + u64::from(outcome.is_ok()));
        assert!(
            format!("{token:?}").contains("waiting: 0"),
            "the token keeps no request"
        );
        run.note(match outcome {
            Ok(_) => "granted",
            Err(LockError::Cancelled(evidence)) => match evidence.queued {
                Some(_) => "cancelled in the queue",
                None => "refused",
            },
            Err(other) => panic!("{other}"),
        });
    });
}

/// A waiter's own way through its deadline, against the grant and another waiter behind it.
#[test]
fn keyed_expiry_against_hand_off() {
    let model = Model::new("keyed: expiry against hand-off", 3)
        .reaches(["granted"])
        .reaches_by("mover", "timed out");
    model.check(|run| {
        let clock = ManualClock::new();
        let lock = Lock::with_options(KeyedOptions::new().clock(clock.clock()));
        let turns = Turns::default();
        let held = lock.reserve(&KEY).unwrap();
        let limited = AcquireOptions::new().timeout(Duration::from_millis(1));
        let impatient = lock
            .request(&KEY, "impatient")
            .options(limited)
            .reserve()
            .unwrap();
        let impatient = {
            let turns = turns.clone();
            spawn(&lock, move |lock| impatient.execute(|| turns.take(&lock)))
        };
        let behind = {
            let turns = turns.clone();
            spawn(&lock, move |lock| {
                lock.execute_exclusive(&KEY, || turns.take(&lock)).unwrap()
            })
        };
        let mover = run.spawn("mover", move || clock.advance(Duration::from_millis(1)));
        drop(held);
        let outcome = impatient.join().unwrap();
        behind.join().unwrap();
        mover.join();

        turns.are_in_fifo_order(1 + usize::from(outcome.is_ok()));
        at_rest(&lock, 2 + u64::from(outcome.is_ok()));
        run.note(match outcome {
            Ok(_) => "granted",
            Err(LockError::Timeout(_)) => "timed out",
            Err(other) => panic!("{other}"),
        });
    });
}

/// A turn that is given up while it is granted, in front of two that wait.
#[test]
fn keyed_a_dropped_reservation_against_its_grant() {
    let model = Model::new("keyed: turn given up against its grant", None)
        .reaches(["before it came"])
        .reaches_by("dropper", "when it had come");
    model.check(|run| {
        let lock = Lock::new();
        let held = lock.reserve(&KEY).unwrap();
        let given_up = lock.reserve(&KEY).unwrap();
        let next = spawn(&lock, |lock| {
            lock.execute_exclusive(&KEY, || 7).unwrap();
        });
        let dropper = run.spawn("dropper", move || drop(given_up));
        drop(held);
        dropper.join();
        next.join().unwrap();

        let turns = lock.stats().total_acquisitions;
        at_rest(&lock, turns);
        run.note(match turns {
            2 => "before it came",
            3 => "when it had come",
            other => panic!("{other} turns"),
        });
    });
}

/// One waits for all while two present tasks end, of different keys in different shards, and a
/// third comes.
#[test]
fn keyed_waiting_for_all_against_tasks_that_come_and_go() {
    let model = Model::new("keyed: waiting for all", 3)
        .reaches(["the later one had not ended"])
        .reaches_by("later", "the later one had ended");
    model.check(|run| {
        let lock = Lock::new();
        let done = Arc::new(AtomicU64::new(0));
        let turns = [KEY, ELSEWHERE].map(|key| lock.reserve(&key).unwrap());
        let [here, elsewhere] = &turns;
        assert_ne!(here.id().number() % 2, elsewhere.id().number() % 2);
        let executing = turns.map(|turn| {
            let done = Arc::clone(&done);
            thread::spawn(move || {
                turn.execute(|| done.fetch_add(1, Ordering::SeqCst))
                    .unwrap()
            })
        });
        let later = {
            let done = Arc::clone(&done);
            act(run, "later", &lock, move |lock| {
                let task = || done.fetch_add(10, Ordering::SeqCst);
                lock.execute_exclusive(&KEY, task).unwrap()
            })
        };
        lock.wait_for_all_existing_tasks().unwrap();
        let ended = done.load(Ordering::SeqCst);
        assert_eq!(ended % 10, 2, "what was there has ended");
        for thread in executing {
            thread.join().unwrap();
        }
        let turns = 2 + later.join().map_or(0, |_| 1);
        at_rest(&lock, turns);
        run.note(match ended {
            12 => "the later one had ended",
            _ => "the later one had not ended",
        });
    });
}

/// A wait for all does not wait for a later task: here the task has the key until the wait has
/// returned.
#[test]
fn keyed_waiting_for_all_against_a_later_task_that_does_not_end() {
    let model = Model::new("keyed: waiting for all against a later task", 5)
        .reaches(["no task came"])
        .reaches_by("waiter", "one came later");
    model.check(|run| {
        let lock = Lock::new();
        let token = CancelToken::new();
        let held = lock.reserve(&KEY).unwrap();
        let behind = lock.reserve(&KEY).unwrap();
        let executing = thread::spawn(move || behind.execute(|| 7));
        let waiting = {
            let options = AcquireOptions::new().cancel_token(&token);
            act(run, "waiter", &lock, move |lock| {
                lock.request_drain("closing").options(options).wait()
            })
        };
        let waits = format!("{token:?}").contains("waiting: 1");
        let later = waits.then(|| lock.reserve(&KEY).unwrap());
        drop(held);
        assert!(matches!(waiting.join(), Some(Ok(())) | None));
        assert_eq!(executing.join().unwrap(), Ok(7));
        run.note(match later {
            Some(_) => "one came later",
            None => "no task came",
        });
        drop(later);
        at_rest(&lock, 2 + u64::from(waits));
    });
}

/// The tasks of a wait for all give up their turns, including the one in the middle of the queue.
#[test]
fn keyed_waiting_for_all_against_dropped_reservations() {
    let model = Model::new("keyed: waiting for all against turns given up", None)
        .reaches(["found none"])
        .reaches_by("droppers", "found both")
        .reaches_by("droppers", "found one");
    model.check(|run| {
        let lock = Lock::new();
        let held = lock.reserve(&KEY).unwrap();
        let behind = lock.reserve(&KEY).unwrap();
        let droppers = [behind, held].map(|turn| run.spawn("droppers", move || drop(turn)));
        let there = lock.stats();
        lock.wait_for_all_existing_tasks().unwrap();
        assert_eq!(lock.active_keys_count(), 0);
        for dropper in droppers {
            dropper.join();
        }
        let turns = lock.stats().total_acquisitions;
        at_rest(&lock, turns);
        run.note(match there.active_keys + there.queue_length {
            2 => "found both",
            1 => "found one",
            _ => "found none",
        });
    });
}
