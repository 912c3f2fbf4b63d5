//! KEYED 1 and 3: keys and results whose code panics or uses the lock.

use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};

use doclock_locks::keyed::{Execution, KeyedLock};

use crate::*;

type Acts = Arc<Mutex<Option<(&'static str, Box<dyn Fn() + Send>)>>>;

/// A key one of whose functions runs an act, once.
#[derive(Default)]
struct Key {
    id: u8,
    acts: Acts,
}

impl Key {
    /// An equal key for another call.
    fn again(&self) -> Self {
        let acts = Arc::clone(&self.acts);
        Self { id: self.id, acts }
    }

    fn when(&self, called: &'static str, act: impl Fn() + Send + 'static) {
        *self.acts.lock().unwrap() = Some((called, Box::new(act)));
    }

    fn is_called(&self, what: &str) {
        let act = {
            let mut acts = self.acts.lock().unwrap();
            acts.take_if(|(called, _)| *called == what)
        };
        if let Some((_, act)) = act {
            act();
        }
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.is_called("hash");
        self.id.hash(state);
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.is_called("eq");
        self.id == other.id
    }
}

impl Eq for Key {}

impl Clone for Key {
    fn clone(&self) -> Self {
        self.is_called("clone");
        self.again()
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        self.is_called("drop");
    }
}

fn panics<T>(code: impl FnOnce() -> T) -> bool {
    match catch_unwind(AssertUnwindSafe(code)) {
        Ok(_) => false,
        Err(payload) => payload.downcast_ref() == Some(&"of the user's"),
    }
}

fn panic_of_users() {
    panic!("of the user's")
}

#[test]
fn keyed_01_a_panic_in_the_code_of_a_key_changes_nothing() {
    let lock: KeyedLock<Key, u32> = KeyedLock::new();
    let key = Key::default();
    for called in ["hash", "clone"] {
        key.when(called, panic_of_users);
        assert!(panics(|| lock.execute_exclusive(&key, || 0)), "{called}");
        assert_eq!(lock.active_keys_count(), 0);
        assert_eq!(lock.execute_exclusive(&key, || 1), Ok(1));
    }

    let turn = lock.reserve(&key).unwrap();
    for called in ["hash", "eq"] {
        key.when(called, panic_of_users);
        assert!(panics(|| lock.reserve(&key)), "{called}");
        key.when(called, panic_of_users);
        assert!(panics(|| lock.is_active_key(&key)), "{called}");
        key.when(called, panic_of_users);
        assert!(panics(|| lock.current_execution(&key)), "{called}");
        assert_eq!((lock.active_keys_count(), lock.queue_length(&key)), (1, 0));
    }
    key.when("clone", panic_of_users);
    assert!(panics(|| lock.active_keys()));
    assert_eq!(lock.active_keys().len(), 1);

    // The end of a hold calls none of them.
    for called in ["hash", "eq", "clone"] {
        key.when(called, panic_of_users);
    }
    assert_eq!(turn.execute(|| 2), Ok(2));
    *key.acts.lock().unwrap() = None;
    let stats = lock.stats();
    assert_eq!((stats.active_keys, stats.queue_length), (0, 0));
    assert_eq!((stats.total_acquisitions, stats.total_releases), (3, 3));
}

#[test]
fn keyed_01_a_key_that_panics_when_it_is_dropped_is_idle_all_the_same() {
    let lock: KeyedLock<Key, u32> = KeyedLock::new();
    let key = Key::default();
    let turn = lock.reserve(&key).unwrap();
    let joined = lock.current_execution(&key).unwrap();
    let all = {
        let lock = lock.clone();
        let token = CancelToken::new();
        let options = plain().cancel_token(&token);
        let all = thread::spawn(move || lock.request_drain("all").options(options).wait());
        until_waiting_with(&token, 1);
        all
    };
    key.when("drop", panic_of_users);
    assert!(panics(|| turn.execute(|| 1)));
    // All joins were notified before.
    assert_eq!(joined.join(), Ok(1));
    assert_eq!(all.join().unwrap(), Ok(()));
    assert_eq!(lock.active_keys_count(), 0);

    let turn = lock.reserve(&key).unwrap();
    key.when("drop", panic_of_users);
    assert!(panics(|| drop(turn)));
    assert_eq!(lock.active_keys_count(), 0);
    assert_eq!(lock.execute_exclusive(&key, || 2), Ok(2));
}

#[test]
fn keyed_01_a_key_may_use_the_lock_when_it_is_dropped_or_hashed() {
    let lock: KeyedLock<Key, u32> = KeyedLock::new();
    for called in ["hash", "drop"] {
        let key = Key::default();
        let (again, user) = (key.again(), lock.clone());
        let used = Arc::new(AtomicU32::new(0));
        let noted = Arc::clone(&used);
        key.when(called, move || {
            assert_eq!(user.execute_exclusive(&again, || 1), Ok(1));
            assert!(user.active_keys().is_empty());
            assert_eq!(user.wait_for_all_existing_tasks(), Ok(()));
            noted.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(lock.execute_exclusive(&key, || 2), Ok(2));
        assert_eq!(used.load(Ordering::Relaxed), 1, "{called}");
    }
    assert_eq!(lock.active_keys_count(), 0);
}

/// A result whose clones run acts when they are made and dropped.
struct Shared {
    plan: Arc<Plan>,
    /// The number of the clone; the original is zero.
    nth: u32,
}

impl Shared {
    fn new(plan: Plan) -> Self {
        let plan = Arc::new(plan);
        Self { plan, nth: 0 }
    }
}

#[derive(Default)]
struct Plan {
    clones: AtomicU32,
    leaves: Mutex<Option<Execution<u8, Shared>>>,
    /// The clone that panics on drop.
    torn: u32,
    uses: Option<KeyedLock<u8, Shared>>,
}

impl Clone for Shared {
    fn clone(&self) -> Self {
        let plan = Arc::clone(&self.plan);
        let nth = plan.clones.fetch_add(1, Ordering::Relaxed) + 1;
        drop(plan.leaves.lock().unwrap().take());
        if let Some(lock) = &plan.uses {
            let nested = lock.execute_exclusive(&1, || Self::new(Plan::default()));
            assert!(nested.is_ok() && !lock.is_active_key(&1));
        }
        Self { plan, nth }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if self.nth > 0 && self.nth == self.plan.torn {
            panic_of_users();
        }
    }
}

#[test]
fn keyed_03_a_panicking_clone_for_a_dropped_join_does_not_affect_other_joins() {
    let lock: KeyedLock<u8, Shared> = KeyedLock::new();
    let turn = lock.reserve(&1).unwrap();
    let [first, second, third] = [0; 3].map(|_| lock.current_execution(&1).unwrap());
    // While the first clone is made, the second join is dropped: its clone is dropped at once and
    // panics.
    let plan = Plan {
        leaves: Mutex::new(Some(second)),
        torn: 2,
        ..Plan::default()
    };
    assert!(panics(|| turn.execute(|| Shared::new(plan))));
    let (told, tells) = channel();
    for joined in [first, third] {
        let told = told.clone();
        thread::spawn(move || told.send(joined.join().is_ok()));
    }
    assert!(recv(&tells) && recv(&tells));
    assert_eq!(lock.active_keys_count(), 0);
}

#[test]
fn keyed_03_a_result_may_use_the_lock_while_it_is_cloned() {
    let lock: KeyedLock<u8, Shared> = KeyedLock::new();
    let turn = lock.reserve(&1).unwrap();
    let joined = lock.current_execution(&1).unwrap();
    let plan = Plan {
        uses: Some(lock.clone()),
        ..Plan::default()
    };
    assert!(turn.execute(|| Shared::new(plan)).is_ok());
    assert!(joined.join().is_ok());
    assert_eq!(lock.stats().total_acquisitions, 2);
}
