//! Races for the lock of one key.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use doclock::{
    AcquireOptions, CancelToken, ExecutionError, KeyedLock, KeyedOptions, LockError, ManualClock,
    OwnerId,
};
use loom::thread::{self, JoinHandle};

use crate::model::check_all;

type Lock = KeyedLock<u8, u64>;

const KEY: u8 = 1;

/// A key in the other shard.
const ELSEWHERE: u8 = 2;

fn spawn<T: 'static>(lock: &Lock, work: impl FnOnce(Lock) -> T + 'static) -> JoinHandle<T> {
    let lock = lock.clone();
    thread::spawn(move || work(lock))
}

/// Nobody is there, and whoever had a turn gave it back.
fn at_rest(lock: &Lock, turns: u64) {
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
    /// A task: it looks who it is and whether anybody waits, and lets others come in if they can.
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

    /// Ids are numbered in the order of asking.
    fn are_in_order_of_asking(&self, count: usize) {
        let ids = self.ids.lock().unwrap();
        assert!(ids.len() == count && ids.is_sorted(), "{ids:?}");
    }

    fn did_anybody_wait(&self) -> bool {
        self.waited.load(Ordering::SeqCst)
    }
}

#[test]
fn keyed_eviction_against_a_new_task() {
    let outcomes = ["somebody waited", "the key was idle in between"];
    check_all(
        "keyed: eviction against new tasks",
        Some(5),
        outcomes,
        |seen| {
            let lock = Lock::new();
            let turns = Turns::default();
            let execute = |turns: Turns| {
                move |lock: Lock| lock.execute_exclusive(&KEY, || turns.take(&lock)).unwrap()
            };
            let others = [0; 2].map(|_| spawn(&lock, execute(turns.clone())));
            execute(turns.clone())(lock.clone());
            for other in others {
                other.join().unwrap();
            }

            turns.are_in_order_of_asking(3);
            at_rest(&lock, 3);
            seen.note(match turns.did_anybody_wait() {
                true => "somebody waited",
                false => "the key was idle in between",
            });
        },
    );
}

#[test]
fn keyed_cancel_against_hand_over_and_eviction() {
    let outcomes = ["granted", "cancelled in line", "refused"];
    check_all(
        "keyed: cancel against hand-over",
        Some(3),
        outcomes,
        |seen| {
            let lock = Lock::new();
            let turns = Turns::default();
            let token = CancelToken::new();
            let held = lock.reserve(&KEY).unwrap();
            let cancelled = {
                let options = AcquireOptions::new().cancel_token(&token);
                let turns = turns.clone();
                spawn(&lock, move |lock| {
                    lock.execute_exclusive_with(&KEY, "w0", options, || turns.take(&lock))
                })
            };
            let other = {
                let turns = turns.clone();
                spawn(&lock, move |lock| {
                    lock.execute_exclusive(&KEY, || turns.take(&lock)).unwrap()
                })
            };
            let canceller = thread::spawn({
                let token = token.clone();
                move || token.cancel()
            });
            drop(held);
            let outcome = cancelled.join().unwrap();
            other.join().unwrap();
            canceller.join().unwrap();

            turns.are_in_order_of_asking(1 + usize::from(outcome.is_ok()));
            at_rest(&lock, 2 + u64::from(outcome.is_ok()));
            assert!(
                format!("{token:?}").contains("waiting: 0"),
                "the token keeps nobody"
            );
            seen.note(match outcome {
                Ok(_) => "granted",
                Err(LockError::Cancelled(evidence)) => match evidence.stood {
                    Some(_) => "cancelled in line",
                    None => "refused",
                },
                Err(other) => panic!("{other}"),
            });
        },
    );
}

/// A waiter's own way through its deadline, against the grant that comes, and another behind it.
#[test]
fn keyed_expiry_against_hand_over() {
    let outcomes = ["granted", "timed out"];
    check_all(
        "keyed: expiry against hand-over",
        Some(3),
        outcomes,
        |seen| {
            let clock = ManualClock::new();
            let lock = Lock::with_options(KeyedOptions::new().clock(clock.clock()));
            let turns = Turns::default();
            let held = lock.reserve(&KEY).unwrap();
            let limited = AcquireOptions::new().wait_limit(Duration::from_millis(1));
            let impatient = lock.reserve_with(&KEY, "impatient", limited).unwrap();
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
            let mover = thread::spawn(move || clock.advance(Duration::from_millis(1)));
            drop(held);
            let outcome = impatient.join().unwrap();
            behind.join().unwrap();
            mover.join().unwrap();

            turns.are_in_order_of_asking(1 + usize::from(outcome.is_ok()));
            at_rest(&lock, 2 + u64::from(outcome.is_ok()));
            seen.note(match outcome {
                Ok(_) => "granted",
                Err(LockError::Timeout(_)) => "timed out",
                Err(other) => panic!("{other}"),
            });
        },
    );
}

/// A turn that is given up while it comes, in front of two that wait.
#[test]
fn keyed_a_turn_given_up_against_its_grant() {
    let outcomes = ["before it came", "when it had come"];
    check_all(
        "keyed: turn given up against its grant",
        None,
        outcomes,
        |seen| {
            let lock = Lock::new();
            let held = lock.reserve(&KEY).unwrap();
            let given_up = lock.reserve(&KEY).unwrap();
            let next = spawn(&lock, |lock| {
                lock.execute_exclusive(&KEY, || 7).unwrap();
            });
            let drops = thread::spawn(move || drop(given_up));
            drop(held);
            drops.join().unwrap();
            next.join().unwrap();

            let turns = lock.stats().total_acquisitions;
            at_rest(&lock, turns);
            seen.note(match turns {
                2 => "before it came",
                3 => "when it had come",
                other => panic!("{other} turns"),
            });
        },
    );
}

/// What whoever joined was told, and by whom.
type Joined = Option<(OwnerId, Result<u64, ExecutionError>)>;

/// Two execute tasks, a third joins whatever it finds.
fn join(task: fn() -> u64) -> (Joined, [Option<u64>; 2]) {
    let lock = Lock::new();
    let execute = move |lock: Lock, owner: &str, task: fn() -> u64| {
        let options = AcquireOptions::new();
        let execute = || lock.execute_exclusive_with(&KEY, owner, options, task);
        let result = catch_unwind(AssertUnwindSafe(execute)).ok();
        result.map(Result::unwrap)
    };
    let first = spawn(&lock, move |lock| execute(lock, "first", task));
    let second = spawn(&lock, move |lock| execute(lock, "second", || 2));
    let joined = lock.current_execution(&KEY).map(|execution| {
        let owner = execution.owner().clone();
        (owner, execution.join())
    });
    let results = [first.join().unwrap(), second.join().unwrap()];
    at_rest(&lock, 2);
    (joined, results)
}

/// The result, where it is that of the second task.
fn of_the_second(joined: &Joined) -> bool {
    matches!(joined, Some((owner, Ok(2))) if owner.as_str() == "second")
}

#[test]
fn keyed_join_against_completion() {
    let outcomes = ["joined the first", "joined the second", "nothing to join"];
    check_all("keyed: join against completion", None, outcomes, |seen| {
        let (joined, results) = join(|| 1);
        assert_eq!(results, [Some(1), Some(2)]);
        seen.note(match joined {
            None => "nothing to join",
            Some((owner, Ok(1))) if owner.as_str() == "first" => "joined the first",
            joined if of_the_second(&joined) => "joined the second",
            other => panic!("{other:?}"),
        });
    });
}

#[test]
fn keyed_join_against_panic() {
    let outcomes = [
        "joined the one that panics",
        "joined the other",
        "nothing to join",
    ];
    check_all("keyed: join against panic", None, outcomes, |seen| {
        let (joined, results) = join(|| std::panic::resume_unwind(Box::new("torn")));
        assert_eq!(results, [None, Some(2)]);
        seen.note(match joined {
            None => "nothing to join",
            Some((owner, Err(ExecutionError::Panicked(panic)))) => {
                assert_eq!(panic.message.as_deref(), Some("torn"));
                assert_eq!((owner.as_str(), panic.owner.as_str()), ("first", "first"));
                "joined the one that panics"
            }
            joined if of_the_second(&joined) => "joined the other",
            other => panic!("{other:?}"),
        });
    });
}

/// Whoever joins finds a turn that is being given up, or the next.
#[test]
fn keyed_join_against_a_turn_given_up() {
    let outcomes = ["given up", "joined the next", "nothing to join"];
    check_all(
        "keyed: join against a turn given up",
        None,
        outcomes,
        |seen| {
            let lock = Lock::new();
            let idler = lock.reserve_with(&KEY, "idler", AcquireOptions::new());
            let idler = idler.unwrap();
            let next = lock.reserve(&KEY).unwrap();
            let executing = thread::spawn(move || next.execute(|| 7));
            let joiner = spawn(&lock, |lock| {
                let execution = lock.current_execution(&KEY);
                execution.map(|execution| execution.join())
            });
            drop(idler);
            assert_eq!(executing.join().unwrap(), Ok(7));
            let joined = joiner.join().unwrap();
            at_rest(&lock, 2);
            seen.note(match joined {
                None => "nothing to join",
                Some(Ok(7)) => "joined the next",
                Some(Err(ExecutionError::Abandoned { owner, .. })) => {
                    assert_eq!(owner.as_str(), "idler");
                    "given up"
                }
                other => panic!("{other:?}"),
            });
        },
    );
}

/// Two have joined a task that ends, one of them changes its mind, a third looks.
#[test]
fn keyed_a_joiner_that_leaves_against_completion() {
    let outcomes = ["looked while it was executed", "looked when it had ended"];
    check_all(
        "keyed: a joiner that leaves against completion",
        Some(4),
        outcomes,
        move |seen| {
            let lock = Lock::new();
            let turn = lock.reserve(&KEY).unwrap();
            let [first, second] = [0; 2].map(|_| lock.current_execution(&KEY).unwrap());
            let leaves = thread::spawn(move || drop(first));
            let joins = thread::spawn(move || second.join());
            let looks = spawn(&lock, |lock| lock.is_active_key(&KEY));
            assert_eq!(turn.execute(|| 7), Ok(7));
            leaves.join().unwrap();
            assert_eq!(joins.join().unwrap(), Ok(7));
            let active = looks.join().unwrap();
            at_rest(&lock, 1);
            seen.note(outcomes[usize::from(!active)]);
        },
    );
}

/// Two join a task that ends while one of them is cancelled.
#[test]
fn keyed_join_against_cancel_against_completion() {
    let outcomes = ["shared", "cancelled"];
    check_all("keyed: join against cancel", Some(3), outcomes, |seen| {
        let lock = Lock::new();
        let token = CancelToken::new();
        let turn = lock.reserve(&KEY).unwrap();
        let executions = [0; 2].map(|_| lock.current_execution(&KEY).unwrap());
        let [first, second] = executions;
        let cancelled = {
            let options = AcquireOptions::new().cancel_token(&token);
            thread::spawn(move || first.join_with(options))
        };
        let patient = thread::spawn(move || second.join());
        let canceller = thread::spawn(move || token.cancel());
        assert_eq!(turn.execute(|| 7), Ok(7));
        let outcome = cancelled.join().unwrap();
        assert_eq!(patient.join().unwrap(), Ok(7));
        canceller.join().unwrap();
        at_rest(&lock, 1);
        seen.note(match outcome {
            Ok(7) => "shared",
            Err(ExecutionError::Lock(LockError::Cancelled(_))) => "cancelled",
            other => panic!("{other:?}"),
        });
    });
}

/// The own way of somebody who joined through its deadline, against the end of the task.
#[test]
fn keyed_join_against_its_deadline() {
    let outcomes = ["shared", "timed out"];
    check_all(
        "keyed: join against its deadline",
        Some(5),
        outcomes,
        |seen| {
            let clock = ManualClock::new();
            let lock = Lock::with_options(KeyedOptions::new().clock(clock.clock()));
            let turn = lock.reserve(&KEY).unwrap();
            let execution = lock.current_execution(&KEY).unwrap();
            let joiner = thread::spawn(move || {
                let limit = Duration::from_millis(1);
                execution.join_with(AcquireOptions::new().wait_limit(limit))
            });
            let mover = thread::spawn(move || clock.advance(Duration::from_millis(1)));
            assert_eq!(turn.execute(|| 7), Ok(7));
            mover.join().unwrap();
            let outcome = joiner.join().unwrap();
            at_rest(&lock, 1);
            seen.note(match outcome {
                Ok(7) => "shared",
                Err(ExecutionError::Lock(LockError::Timeout(_))) => "timed out",
                other => panic!("{other:?}"),
            });
        },
    );
}

/// One waits for all while two end that were there, of different keys in different shards, and a third comes.
#[test]
fn keyed_waiting_for_all_against_those_who_come_and_go() {
    let outcomes = ["the later one had ended", "the later one had not"];
    check_all("keyed: waiting for all", Some(3), outcomes, |seen| {
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
            spawn(&lock, move |lock| {
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
        later.join().unwrap();
        at_rest(&lock, 3);
        seen.note(match ended {
            12 => "the later one had ended",
            _ => "the later one had not",
        });
    });
}

/// Whoever comes while one waits for all is not waited for: here it has the key until the other has returned.
#[test]
fn keyed_waiting_for_all_against_a_later_task_that_does_not_end() {
    let outcomes = ["one came later", "nobody came"];
    check_all(
        "keyed: waiting for all against one who comes later",
        Some(5),
        outcomes,
        move |seen| {
            let lock = Lock::new();
            let token = CancelToken::new();
            let held = lock.reserve(&KEY).unwrap();
            let behind = lock.reserve(&KEY).unwrap();
            let executing = thread::spawn(move || behind.execute(|| 7));
            let waiting = {
                let options = AcquireOptions::new().cancel_token(&token);
                spawn(&lock, move |lock| {
                    lock.wait_for_all_existing_tasks_with("closing", options)
                })
            };
            let waits = format!("{token:?}").contains("waiting: 1");
            let later = waits.then(|| lock.reserve(&KEY).unwrap());
            drop(held);
            assert_eq!(waiting.join().unwrap(), Ok(()));
            assert_eq!(executing.join().unwrap(), Ok(7));
            seen.note(outcomes[usize::from(later.is_none())]);
            drop(later);
            at_rest(&lock, 2 + u64::from(waits));
        },
    );
}

/// Those who are waited for give up their turns, the one in the middle of the line too.
#[test]
fn keyed_waiting_for_all_against_turns_given_up() {
    let outcomes = ["found both", "found one", "found none"];
    check_all(
        "keyed: waiting for all against turns given up",
        None,
        outcomes,
        |seen| {
            let lock = Lock::new();
            let held = lock.reserve(&KEY).unwrap();
            let behind = lock.reserve(&KEY).unwrap();
            let drops = [behind, held].map(|turn| thread::spawn(move || drop(turn)));
            let there = lock.stats();
            lock.wait_for_all_existing_tasks().unwrap();
            assert_eq!(lock.active_keys_count(), 0);
            for thread in drops {
                thread.join().unwrap();
            }
            let turns = lock.stats().total_acquisitions;
            at_rest(&lock, turns);
            seen.note(match there.active_keys + there.queue_length {
                2 => "found both",
                1 => "found one",
                _ => "found none",
            });
        },
    );
}

/// Threads at one key and at another while the keys are told apart: a key is active in one shard at most, and its ids rise.
#[test]
fn keyed_a_key_that_moves_to_its_own_shard() {
    let outcomes = ["asked before", "asked after"];
    check_all("keyed: spread", Some(2), outcomes, |seen| {
        let lock = Lock::gathered();
        let turns = Turns::default();
        let others = [1, 2].map(|_| {
            let turns = turns.clone();
            spawn(&lock, move |lock| {
                lock.execute_exclusive(&KEY, || turns.take(&lock)).unwrap()
            })
        });
        let spread = spawn(&lock, |lock| lock.spread());
        lock.execute_exclusive(&KEY, || turns.take(&lock)).unwrap();
        spread.join().unwrap();
        let before = others.map(|other| other.join().unwrap());
        let last = lock.execute_exclusive(&KEY, || turns.take(&lock)).unwrap();
        assert!(before.into_iter().all(|id| id < last));
        turns.are_in_order_of_asking(4);
        at_rest(&lock, 4);
        seen.note(match turns.did_anybody_wait() {
            true => "asked before",
            false => "asked after",
        });
    });
}
