//! Mutex, condition variable and thread identity: parking_lot's in a build, loom's in a model.
//!
//! This is the only file that names either crate, so everything above it is model-checked as it stands. Where
//! the two differ, this shim takes the smaller interface: a condition variable consumes and returns the guard.
//! Two lies are inherent. loom has no time, so under loom [`Condvar::wait_for`] never times out: models express
//! an expiry as a thread that calls the code which the timeout calls. And spinning would have no end there, so a
//! [`Hint`] is never seen by a model: what it hints at must also be found without it.

use std::time::Duration;

#[cfg(not(loom))]
mod imp {
    use super::Duration;
    use std::cell::Cell;
    use std::sync::atomic::{AtomicBool, Ordering};

    pub(crate) use parking_lot::MutexGuard;

    pub(crate) use std::sync::atomic::AtomicU64;

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

    /// Tells a spinning thread that it is worth looking. Carries no data and orders none.
    #[derive(Debug, Default)]
    pub(crate) struct Hint(AtomicBool);

    impl Hint {
        pub(crate) fn give(&self) {
            self.0.store(true, Ordering::Release);
        }

        /// Looks for it up to so many times, some tens of nanoseconds apart.
        pub(crate) fn spin(&self, looks: u32) -> bool {
            (0..looks).any(|_| {
                let seen = self.0.load(Ordering::Acquire);
                if !seen {
                    std::hint::spin_loop();
                }
                seen
            })
        }
    }

    /// Lets others have the processor, if any want it.
    pub(crate) fn yield_now() {
        std::thread::yield_now();
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

    pub(crate) use loom::sync::MutexGuard;

    pub(crate) use loom::sync::atomic::AtomicU64;

    #[derive(Debug, Default)]
    pub(crate) struct Hint;

    impl Hint {
        pub(crate) fn give(&self) {}

        pub(crate) fn spin(&self, _looks: u32) -> bool {
            false
        }
    }

    /// A model has the others take turns in any case.
    pub(crate) fn yield_now() {}

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

pub(crate) use imp::{AtomicU64, Condvar, Hint, Mutex, MutexGuard, thread_number, yield_now};
