//! Keys, tasks and results of a keyed lock.

use std::sync::Arc;
use std::thread;

use doclock::lock::keyed::KeyedLock;

use crate::keys::{CODE, Ends, Key, Script};
use crate::{OnDrop, ends};

type Lock = KeyedLock<Key, u32>;
type Step = fn(&Lock, &Key);

/// Every public method. None waits for the end of another.
const STEPS: &[Step] = &[
    |lock, key| {
        if let Ok(turn) = lock.request(key, "ann").no_wait().wait() {
            drop(turn.execute(|| 1));
        }
    },
    |lock, key| {
        if !lock.is_active_key(key) {
            drop(lock.execute_exclusive(key, || 1));
        }
    },
    |lock, key| drop(lock.reserve(key)),
    |lock, key| drop(lock.request(key, "ann").no_wait().reserve()),
    |lock, key| {
        if let Some(running) = lock.current_execution(key) {
            let _ = format!("{running:?} {} {}", running.id(), running.owner());
            drop(running.request_result().no_wait().wait());
        }
    },
    |lock, key| drop(lock.current_execution(key)),
    |lock, _| drop(lock.request_drain("ann").no_wait().wait()),
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
        if let Ok(turn) = lock.request(key, "ann").no_wait().reserve() {
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

/// No mutex is locked while a key is hashed, dropped or formatted.
#[test]
fn keyed_01_keys_may_use_their_lock_when_they_are_hashed_dropped_or_formatted() {
    for code in ["hash", "drop", "debug"] {
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
        assert_eq!(outside, [true, false], "{code}");
        // Keys are never formatted.
        assert_eq!(inside, [code != "debug", false], "{code}");
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
        assert_eq!(outside, [true, code != "debug"], "{code}");
    }
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
        assert_eq!(noted.any(), [true, false]);
        is_at_rest(&lock);
    });
}
