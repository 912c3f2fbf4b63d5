//! Mutex, condition variable and thread identity: parking_lot's in a build, loom's in a model.
//!
//! This is the only module that names either crate, so all others are model-checked without
//! changes. The part for models is in `loom-tests/sync.rs`. Where the two differ, this shim takes
//! the smaller interface: a condition variable consumes and returns the guard. Two differences
//! remain. loom has no time, so under loom [`Condvar::wait_for`] never times out: models express an
//! expiry as a thread that calls the code which the timeout calls. And spinning would not end
//! there, so a model never sees a [`Hint`]: the state that it hints at must also be found without
//! it.
//!
//! Each mutex has a [rank](rank), as part of its type. A thread locks mutexes only in the order of
//! their ranks, so no two threads can wait for each other. Debug builds assert the order in every
//! test, and assert that no code of a user runs under a mutex ([`assert_unlocked`]).

use std::time::Duration;

/// The ranks of the mutexes: a thread that holds one locks only mutexes of a higher rank. The
/// outermost come first.
pub mod rank {
    /// The keys of a keyed lock or a limiter, and their state. The only mutexes under which code of
    /// a user runs: it compares and clones keys.
    pub const KEYS: u8 = 0;
    /// An editor session.
    pub const SESSION: u8 = 1;
    /// The state of a lock.
    pub const LOCK: u8 = 2;
    /// The receipts and inboxes of a store.
    pub const BOOKKEEPING: u8 = 3;
    /// What the histories of editors know of a document.
    pub const PROVENANCE: u8 = 4;
    /// The commit log of a store.
    pub const LOG: u8 = 5;
    /// The published version.
    pub const PUBLISHED: u8 = 6;
    /// The reads of a transaction on nodes.
    pub const READS: u8 = 7;
    /// The hooks of a manager.
    pub const HOOKS: u8 = 8;
    /// The waits that a cancel token ends.
    pub const TOKEN: u8 = 9;
    /// The outcome of one request, and its work.
    pub const REQUEST: u8 = 10;
    /// The wake-up chain.
    pub const WAKE_CHAIN: u8 = 11;
    /// Metrics that have a mutex of their own.
    pub const METRICS: u8 = 12;
    /// The duties of the keeper.
    pub const KEEPER: u8 = 13;
    /// The waits that a manual clock ends.
    pub const LISTENERS: u8 = 14;
    /// The state of a durable store, for which calls wait.
    pub const DURABLE: u8 = 15;
    /// The threads of durable stores.
    pub const JOURNAL_THREADS: u8 = 16;
    /// The open documents of a pool.
    pub const POOL: u8 = 17;
    /// The calls of the thread that closes documents of a pool.
    pub const POOL_CLOSER: u8 = 18;
}

#[cfg(not(loom))]
mod imp {
    use super::Duration;
    use std::cell::Cell;
    use std::num::NonZeroU64;
    use std::ops::{Deref, DerefMut};
    use std::sync::atomic::Ordering;

    pub use std::sync::atomic::{AtomicBool, AtomicU64};

    /// A mutual exclusion lock of a [rank](super::rank), without poisoning.
    #[derive(Debug, Default)]
    pub struct Mutex<const RANK: u8, T>(parking_lot::Mutex<T>);

    impl<const RANK: u8, T> Mutex<RANK, T> {
        pub fn new(value: T) -> Self {
            Self(parking_lot::Mutex::new(value))
        }

        #[inline]
        pub fn lock(&self) -> MutexGuard<'_, RANK, T> {
            MutexGuard {
                #[cfg(debug_assertions)]
                entry: order::Entry::new(),
                value: self.0.lock(),
            }
        }

        /// Locks the mutex if it is free.
        #[inline]
        pub fn try_lock(&self) -> Option<MutexGuard<'_, RANK, T>> {
            Some(MutexGuard {
                #[cfg(debug_assertions)]
                entry: order::Entry::new(),
                value: self.0.try_lock()?,
            })
        }

        /// Locks the mutex if it becomes free within `limit`.
        pub fn lock_within(&self, limit: Duration) -> Option<MutexGuard<'_, RANK, T>> {
            Some(MutexGuard {
                #[cfg(debug_assertions)]
                entry: order::Entry::new(),
                value: self.0.try_lock_for(limit)?,
            })
        }

        pub fn is_locked(&self) -> bool {
            self.0.is_locked()
        }
    }

    /// A locked mutex; dropping it unlocks.
    #[derive(Debug)]
    pub struct MutexGuard<'a, const RANK: u8, T> {
        // Dropped first: the mutex is free before the thread's record says so.
        value: parking_lot::MutexGuard<'a, T>,
        #[cfg(debug_assertions)]
        #[expect(dead_code, reason = "records the end when it is dropped")]
        entry: order::Entry<RANK>,
    }

    /// Unlocks a mutex. A thread that waits for it gets it before this one can lock it again.
    pub fn unlock_fair<const RANK: u8, T>(guard: MutexGuard<'_, RANK, T>) {
        parking_lot::MutexGuard::unlock_fair(guard.value);
    }

    impl<const RANK: u8, T> Deref for MutexGuard<'_, RANK, T> {
        type Target = T;

        #[inline(always)]
        fn deref(&self) -> &T {
            &self.value
        }
    }

    impl<const RANK: u8, T> DerefMut for MutexGuard<'_, RANK, T> {
        #[inline(always)]
        fn deref_mut(&mut self) -> &mut T {
            &mut self.value
        }
    }

    /// The ranks that the thread holds, in a debug build.
    #[cfg(debug_assertions)]
    mod order {
        use std::cell::Cell;

        std::thread_local! {
            /// One bit for each rank.
            static HELD: Cell<u64> = const { Cell::new(0) };
            /// How many mutexes the thread has locked, beside those of locks.
            static LOCKED: Cell<usize> = const { Cell::new(0) };
        }

        pub fn locked() -> usize {
            LOCKED.get()
        }

        /// A mutex of a rank that the thread is about to lock, holds, or has just unlocked.
        #[derive(Debug)]
        pub(super) struct Entry<const RANK: u8>;

        impl<const RANK: u8> Entry<RANK> {
            pub(super) fn new() -> Self {
                let bit = 1 << RANK;
                let before = HELD.get();
                assert!(
                    before < bit || std::thread::panicking(),
                    "a mutex of rank {RANK} is locked while the ranks {before:#b} are held",
                );
                HELD.set(before | bit);
                LOCKED.set(LOCKED.get() + usize::from(RANK != super::super::rank::LOCK));
                Self
            }
        }

        impl<const RANK: u8> Drop for Entry<RANK> {
            fn drop(&mut self) {
                HELD.set(HELD.get() & !(1 << RANK));
            }
        }

        pub(super) fn assert_unlocked(what: &str) {
            let held = HELD.get();
            assert!(
                held == 0 || std::thread::panicking(),
                "{what} under mutexes of the ranks {held:#b}",
            );
        }
    }

    #[cfg(debug_assertions)]
    pub use order::locked;

    /// Asserts, in debug builds, that the thread holds no mutex: code of a user may follow.
    #[inline(always)]
    pub fn assert_unlocked(_what: &str) {
        #[cfg(debug_assertions)]
        order::assert_unlocked(_what);
    }

    #[derive(Debug, Default)]
    pub struct Condvar(parking_lot::Condvar);

    impl Condvar {
        pub fn wait<'a, const RANK: u8, T>(
            &self,
            mut guard: MutexGuard<'a, RANK, T>,
        ) -> MutexGuard<'a, RANK, T> {
            self.0.wait(&mut guard.value);
            guard
        }

        pub fn wait_for<'a, const RANK: u8, T>(
            &self,
            mut guard: MutexGuard<'a, RANK, T>,
            limit: Duration,
        ) -> MutexGuard<'a, RANK, T> {
            self.0.wait_for(&mut guard.value, limit);
            guard
        }

        pub fn notify_one(&self) {
            self.0.notify_one();
        }
    }

    /// Signals a spinning thread that a look is worthwhile. Carries no data and orders none.
    #[derive(Debug, Default)]
    pub struct Hint(AtomicBool);

    impl Hint {
        pub fn give(&self) {
            self.0.store(true, Ordering::Release);
        }

        /// Checks for the signal up to `spins` times, some tens of nanoseconds apart.
        pub fn spin(&self, spins: u32) -> bool {
            (0..spins).any(|_| {
                let seen = self.0.load(Ordering::Acquire);
                if !seen {
                    std::hint::spin_loop();
                }
                seen
            })
        }
    }

    /// Yields the processor.
    pub fn yield_now() {
        std::thread::yield_now();
    }

    /// Declares a value of the process, made at its first use.
    #[doc(hidden)]
    #[macro_export]
    macro_rules! global {
        ($(#[$doc:meta])* static $name:ident: $type:ty = $value:expr;) => {
            $(#[$doc])*
            static $name: std::sync::LazyLock<$type> = std::sync::LazyLock::new(|| $value);
        };
    }

    std::thread_local! {
        /// `None` until the first use: a constant needs no check whether it was initialized.
        static THIS_THREAD: Cell<Option<NonZeroU64>> = const { Cell::new(None) };
    }

    /// Returns a number for the calling thread, never zero and never reused; cheaper than
    /// `std::thread::current().id()`.
    #[inline]
    pub fn thread_number() -> u64 {
        THIS_THREAD.get().map_or_else(number_this, NonZeroU64::get)
    }

    /// Gives the calling thread its number, and lists it.
    #[cold]
    fn number_this() -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        THIS_THREAD.set(NonZeroU64::new(number));
        crate::threads::list(number);
        number
    }
}

#[cfg(loom)]
#[path = "../loom-tests/sync.rs"]
mod imp;

#[doc(hidden)]
#[cfg(loom)]
pub use loom::lazy_static;

pub use crate::global;
#[cfg(all(debug_assertions, not(loom)))]
pub use imp::locked;
pub use imp::{
    AtomicBool, AtomicU64, Condvar, Hint, Mutex, MutexGuard, assert_unlocked, thread_number,
    unlock_fair, yield_now,
};
