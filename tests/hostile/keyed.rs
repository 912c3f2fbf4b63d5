//! Keys, tasks and results of a keyed lock.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use doclock::lock::{
    AcquireOptions, CancelToken, LockError,
    keyed::{Execution, KeyedLock},
};

use crate::keys::{CODE, Ends, Key, Script};
use crate::{OnDrop, ends, message};

type Lock = KeyedLock<Key, u32>;
type Step = fn(&Lock, &Key);

fn at_once() -> AcquireOptions {
    AcquireOptions::new().no_wait()
}

/// Every public method. None waits for the end of another.
const STEPS: &[Step] = &[
    |lock, key| drop(lock.execute_exclusive_with(key, "ann", at_once(), || 1)),
    |lock, key| {
        if !lock.is_active_key(key) {
            drop(lock.execute_exclusive(key, || 1));
        }
    },
    |lock, key| drop(lock.reserve(key)),
    |lock, key| drop(lock.reserve_with(key, "ann", at_once())),
    |lock, key| {
        if let Some(running) = lock.current_execution(key) {
            let _ = format!("{running:?} {} {}", running.id(), running.owner());
            drop(running.join_with(at_once()));
        }
    },
    |lock, key| drop(lock.current_execution(key)),
    |lock, _| drop(lock.wait_for_all_existing_tasks_with("ann", at_once())),
    |lock, _| {
        if lock.active_keys_count() == 0 {
            drop(lock.wait_for_all_existing_tasks());
        }
    },
    |lock, _| drop(lock.active_keys()),
    |lock, _| drop(lock.stats().to_string()),
    |lock, key| drop(lock.current(key)),
    |lock, key| {
        let _ = lock.queue_length(key);
    },
    |lock, key| drop(lock.queue_info(key)),
    |lock, _| drop(format!("{lock:?}")),
    |lock, key| {
        if let Ok(turn) = lock.reserve_with(key, "ann", at_once()) {
            let _ = format!("{turn:?} {}", turn.id());
            drop(turn.execute(|| 2));
        }
    },
];

/// All steps, for a held and for an idle key, each independent of the others.
fn go_through(lock: &Lock, script: &Script, ends: &Ends) {
    for id in [1, 2] {
        for step in STEPS {
            let key = Key::new(id, script);
            ends.note(|| step(lock, &key));
            // The test, not the lock, drops it.
            ends.note(move || drop(key));
        }
    }
}

fn is_at_rest(lock: &Lock) {
    let stats = lock.stats();
    assert_eq!((stats.active_keys, stats.queue_length), (0, 0), "{stats}");
    assert_eq!(stats.total_acquisitions, stats.total_releases);
    assert_eq!(
        lock.execute_exclusive(&Key::new(1, &Script::default()), || 3),
        Ok(3)
    );
}

/// A key whose `Eq` or `Clone` used its lock deadlocked.
#[test]
fn keyed_01_code_of_keys_that_uses_its_lock_does_not_hang() {
    for code in CODE {
        let [outside, inside] = ends(move || {
            let lock = Lock::new();
            let (script, inside) = (Script::default(), Arc::new(Ends::default()));
            let held = lock.reserve(&Key::new(1, &script)).unwrap();
            let (user, plain, noted) = (lock.clone(), Script::default(), Arc::clone(&inside));
            script.when(code, move || go_through(&user, &plain, &noted));
            let outside = Ends::default();
            go_through(&lock, &script, &outside);
            outside.note(|| assert_eq!(held.execute(|| 1), Ok(1)));
            script.end();
            is_at_rest(&lock);
            [outside.any(), inside.any()]
        });
        assert_eq!(outside, [true, false, false], "{code}");
        let expected = match code {
            "hash" | "drop" => [true, false, false],
            // Copied for the table without the mutex, and listed under it.
            "clone" => [true, true, false],
            "eq" => [false, true, false],
            // Never formatted.
            _ => [false; 3],
        };
        // Dropping a key uses no lock, so it succeeds even after a failed step.
        let inside = [inside[0] && code != "eq", inside[1], inside[2]];
        assert_eq!(inside, expected, "{code}");
    }
}

#[test]
fn keyed_01_a_panic_in_key_code_leaves_no_entry() {
    for code in CODE {
        let outside = ends(move || {
            let lock = Lock::new();
            let script = Script::default();
            let held = lock.reserve(&Key::new(1, &script)).unwrap();
            // A second panic, of a value of the test, would abort the test.
            script.when(code, || assert!(thread::panicking(), "torn"));
            let outside = Ends::default();
            go_through(&lock, &script, &outside);
            outside.note(|| drop(held.execute(|| 1)));
            script.end();
            is_at_rest(&lock);
            outside.any()
        });
        assert_eq!(outside, [true, false, code != "debug"], "{code}");
    }
}

/// Everything that must complete although the mutex of the keys is held: drops of turns and joins,
/// and a cancellation.
#[test]
fn keyed_04_drops_and_cancels_during_a_key_comparison_take_effect_after_it() {
    ends(|| {
        let lock = Lock::new();
        let (script, plain) = (Script::default(), Script::default());
        let (key, other) = (Key::new(1, &script), Key::new(2, &plain));
        let held = lock.reserve(&key).unwrap();
        let dropped = lock.reserve(&other).unwrap();
        let waits = lock.reserve(&other).unwrap();
        let refused = lock.reserve(&Key::new(3, &plain)).unwrap();
        let joined = lock.current_execution(&key).unwrap();
        let token = CancelToken::new();
        let waiting = {
            let options = AcquireOptions::new().cancel_token(&token);
            let turn = lock.reserve_with(&key, "bob", options).unwrap();
            thread::spawn(move || turn.execute(|| 1))
        };
        while !format!("{token:?}").contains("waiting: 1 ") {
            thread::yield_now();
        }
        let noted = Arc::new(Ends::default());
        let inside = Arc::clone(&noted);
        script.once("eq", move || {
            drop((dropped, waits, joined));
            token.cancel();
            inside.note(|| drop(refused.execute(|| 1)));
        });
        assert!(lock.is_active_key(&key));
        script.end();
        assert_eq!(noted.any(), [false, true, false]);
        let ended = waiting.join().unwrap();
        assert!(matches!(ended, Err(LockError::Cancelled(_))), "{ended:?}");
        assert_eq!(lock.active_keys_count(), 1);
        assert_eq!(held.execute(|| 2), Ok(2));
        is_at_rest(&lock);
    });
}

/// A result that panics on drop, as do its clones. Cloning it drops joins.
struct Torn {
    leave: Arc<Mutex<Vec<Execution<u8, Torn>>>>,
    drops: Arc<AtomicU32>,
}

impl Clone for Torn {
    fn clone(&self) -> Self {
        let leave = std::mem::take(&mut *self.leave.lock().unwrap());
        drop(leave);
        Self {
            leave: Arc::clone(&self.leave),
            drops: Arc::clone(&self.drops),
        }
    }
}

impl Drop for Torn {
    fn drop(&mut self) {
        self.drops.fetch_add(1, Ordering::Relaxed);
        panic!("torn");
    }
}

/// The second of two clones that panicked on drop aborted the program.
#[test]
fn keyed_03_every_result_that_panics_in_drop_is_dropped() {
    ends(|| {
        let lock: KeyedLock<u8, Torn> = KeyedLock::new();
        let turn = lock.reserve(&1).unwrap();
        let leave = [0; 3].map(|_| lock.current_execution(&1).unwrap());
        let last = lock.current_execution(&1).unwrap();
        let (leave, drops) = (Arc::new(Mutex::new(leave.into())), Arc::default());
        let result = Torn {
            leave,
            drops: Arc::clone(&drops),
        };
        let executed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            std::mem::forget(turn.execute(|| result));
        }));
        assert_eq!(message(&*executed.unwrap_err()), "torn");
        // Three clones with dropped joins, and the result without a receiver.
        assert_eq!(drops.load(Ordering::Relaxed), 4);
        std::mem::forget(last.join().map(std::mem::ManuallyDrop::new));
        assert_eq!(lock.active_keys_count(), 0);
    });
}

/// A task that panics while its key panics on drop aborted the program.
#[test]
fn keyed_01_a_panic_with_a_reservation_survives_a_key_that_panics_in_drop() {
    ends(|| {
        let lock = Lock::new();
        let script = Script::default();
        let key = Key::new(1, &script);
        let turn = lock.reserve(&key).unwrap();
        script.when("drop", || panic!("torn"));
        let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _turn = turn;
            panic!("first");
        }));
        assert_eq!(message(&*unwound.unwrap_err()), "first");
        script.end();
        is_at_rest(&lock);
    });
}

/// Tasks, and the values that they own, may use the lock.
#[test]
fn keyed_01_tasks_and_their_values_may_use_the_lock() {
    ends(|| {
        let lock = Lock::new();
        let plain = Script::default();
        let key = Key::new(1, &plain);
        let noted = Arc::new(Ends::default());
        let user = {
            let (lock, noted) = (lock.clone(), Arc::clone(&noted));
            move || go_through(&lock, &Script::default(), &noted)
        };
        let owned = OnDrop(user.clone());
        let task = move || {
            user();
            drop(owned);
            1
        };
        assert_eq!(lock.execute_exclusive(&key, task), Ok(1));
        assert_eq!(noted.any(), [true, false, false]);
        is_at_rest(&lock);
    });
}
