//! Mutex, condition variable and thread identity: parking_lot's in a build, loom's in a model.
//!
//! This is the only file that names either crate, so everything above it is model-checked as it stands. Where
//! the two differ, this shim takes the smaller interface: a condition variable consumes and returns the guard.
//! One lie is inherent: loom has no time, so under loom [`Condvar::wait_for`] never times out. Models express
//! an expiry as a thread that calls the code which the timeout calls.

use std::time::Duration;

#[cfg(not(loom))]
mod imp {
    use super::Duration;
    use std::cell::Cell;
    use std::sync::atomic::{AtomicU64, Ordering};

    use parking_lot::MutexGuard;

    /// A mutual exclusion lock without poisoning.
    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(parking_lot::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(parking_lot::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock()
        }
    }

    #[derive(Debug, Default)]
    pub(crate) struct Condvar(parking_lot::Condvar);

    impl Condvar {
        pub(crate) fn wait<'a, T>(&self, mut guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
            self.0.wait(&mut guard);
            guard
        }

        pub(crate) fn wait_for<'a, T>(
            &self,
            mut guard: MutexGuard<'a, T>,
            limit: Duration,
        ) -> MutexGuard<'a, T> {
            self.0.wait_for(&mut guard, limit);
            guard
        }

        pub(crate) fn notify_one(&self) {
            self.0.notify_one();
        }
    }

    static NEXT_THREAD: AtomicU64 = AtomicU64::new(1);

    std::thread_local! {
        /// Zero until it is asked for: a constant needs no check whether it was initialized.
        static THIS_THREAD: Cell<u64> = const { Cell::new(0) };
    }

    /// A number for the calling thread, never zero and never reused; cheaper than
    /// `std::thread::current().id()`.
    #[inline]
    pub(crate) fn thread_number() -> u64 {
        THIS_THREAD.with(|number| {
            if number.get() == 0 {
                number.set(NEXT_THREAD.fetch_add(1, Ordering::Relaxed));
            }
            number.get()
        })
    }
}

#[cfg(loom)]
mod imp {
    use super::Duration;

    use loom::sync::MutexGuard;

    #[derive(Debug)]
    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T: Default> Default for Mutex<T> {
        fn default() -> Self {
            Self::new(T::default())
        }
    }

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().expect("loom does not poison across a model")
        }
    }

    #[derive(Debug)]
    pub(crate) struct Condvar(loom::sync::Condvar);

    impl Default for Condvar {
        fn default() -> Self {
            Self(loom::sync::Condvar::new())
        }
    }

    impl Condvar {
        pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
            self.0
                .wait(guard)
                .expect("loom does not poison across a model")
        }

        pub(crate) fn wait_for<'a, T>(
            &self,
            guard: MutexGuard<'a, T>,
            _limit: Duration,
        ) -> MutexGuard<'a, T> {
            self.wait(guard)
        }

        pub(crate) fn notify_one(&self) {
            self.0.notify_one();
        }
    }

    pub(crate) fn thread_number() -> u64 {
        let id = format!("{:?}", loom::thread::current().id());
        id.chars()
            .filter(char::is_ascii_digit)
            .fold(0, |number, digit| {
                number * 10 + u64::from(digit) - u64::from('0')
            })
            + 1
    }
}

pub(crate) use imp::{Condvar, Mutex, thread_number};
