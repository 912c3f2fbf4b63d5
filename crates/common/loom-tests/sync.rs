//! What the models run in place of the mutexes, condition variables and thread numbers of
//! `src/sync.rs`: those of loom.

use super::Duration;

/// The rank is not used here: one thread runs all threads of a model.
pub type MutexGuard<'a, const RANK: u8, T> = loom::sync::MutexGuard<'a, T>;

/// loom explores every choice of the next thread anyway.
pub fn unlock_fair<T>(guard: loom::sync::MutexGuard<'_, T>) {
    drop(guard);
}

#[inline(always)]
pub fn assert_unlocked(_: &str) {}

pub use loom::sync::atomic::{AtomicBool, AtomicU64};

#[derive(Debug, Default)]
pub struct Hint;

impl Hint {
    pub fn give(&self) {}

    pub fn spin(&self, _spins: u32) -> bool {
        false
    }
}

/// loom explores every order of the threads anyway.
pub fn yield_now() {}

/// A value of one execution.
#[doc(hidden)]
#[macro_export]
macro_rules! global {
    ($(#[$doc:meta])* static $name:ident: $type:ty = $value:expr;) => {
        $crate::sync::lazy_static! {
            $(#[$doc])*
            static ref $name: $type = $value;
        }
    };
}

#[derive(Debug)]
pub struct Mutex<const RANK: u8, T>(loom::sync::Mutex<T>);

impl<const RANK: u8, T: Default> Default for Mutex<RANK, T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<const RANK: u8, T> Mutex<RANK, T> {
    pub fn new(value: T) -> Self {
        Self(loom::sync::Mutex::new(value))
    }

    pub fn lock(&self) -> MutexGuard<'_, RANK, T> {
        self.0.lock().expect("loom does not poison across a model")
    }

    /// Locks as [`lock`](Self::lock) does: a model has no time.
    pub fn lock_within(&self, _: Duration) -> Option<MutexGuard<'_, RANK, T>> {
        Some(self.lock())
    }

    /// Locks as [`lock`](Self::lock) does: models reach the other path of a failed attempt by
    /// themselves.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, RANK, T>> {
        Some(self.lock())
    }
}

#[derive(Debug)]
pub struct Condvar(loom::sync::Condvar);

impl Default for Condvar {
    fn default() -> Self {
        Self(loom::sync::Condvar::new())
    }
}

impl Condvar {
    pub fn wait<'a, T>(
        &self,
        guard: loom::sync::MutexGuard<'a, T>,
    ) -> loom::sync::MutexGuard<'a, T> {
        self.0
            .wait(guard)
            .expect("loom does not poison across a model")
    }

    pub fn wait_for<'a, T>(
        &self,
        guard: loom::sync::MutexGuard<'a, T>,
        _limit: Duration,
    ) -> loom::sync::MutexGuard<'a, T> {
        self.wait(guard)
    }

    pub fn notify_one(&self) {
        self.0.notify_one();
    }
}

pub fn thread_number() -> u64 {
    let id = format!("{:?}", loom::thread::current().id());
    id.chars()
        .filter(char::is_ascii_digit)
        .fold(0, |number, digit| {
            number * 10 + u64::from(digit) - u64::from('0')
        })
        + 1
}
