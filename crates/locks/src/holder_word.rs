//! The part of a lock's state that changes without its mutex.

use std::num::NonZeroU64;
use std::sync::atomic::Ordering;

use crate::id::LockId;
use crate::sync::AtomicU64;

/// The holder of the lock in one atomic number, so that an uncontended release is one
/// compare-and-swap.
///
/// | bits | meaning |
/// |---|---|
/// | all zero | the lock is free |
/// | 0 and 1 alone | the lock is closed, and no request holds it |
/// | 0 | *pinned*: the hold ends under the mutex, because a request waits, or the hold is measured or inspected |
/// | 1 | a transaction holds, which alone may end the hold |
/// | 2.. | the number of the holder's request, never zero |
///
/// Only a thread with the mutex changes the word from free to anything else. Without the mutex one
/// step is possible: from *held and not pinned* to *free*, by the holder. So while the word is
/// pinned, only the mutex's owner changes it.
#[derive(Debug)]
pub(super) struct Word(AtomicU64);

const FREE: u64 = 0;
const PINNED: u64 = 1;
const TRANSACTION: u64 = 2;
const CLOSED: u64 = PINNED | TRANSACTION;
const NUMBER: u32 = 2;

impl Word {
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(FREE))
    }

    /// Whether the lock is free and open. The answer `false` may be out of date.
    #[inline]
    pub(super) fn is_free(&self) -> bool {
        self.0.load(Ordering::Acquire) == FREE
    }

    /// Whether a request holds the lock, or nodes.
    pub(super) fn is_held(&self) -> bool {
        !matches!(self.0.load(Ordering::Acquire), FREE | CLOSED)
    }

    /// Whether the request holds the whole lock. Called on the lock that issued the id.
    #[inline]
    pub(crate) fn is_held_by(&self, id: LockId) -> bool {
        self.0.load(Ordering::Acquire) >> NUMBER == id.number
    }

    /// Sets the holder. Requires the mutex, and a word that is free or pinned.
    #[inline]
    pub(super) fn set(&self, held: Option<HeldWord>) {
        // Release: a thread that finds the lock free without the mutex must see what was done under
        // it.
        self.0
            .store(held.map_or(FREE, |held| held.0.get()), Ordering::Release);
    }

    /// Makes the present hold end under the mutex. Requires the mutex; `false` if the lock is free.
    pub(super) fn pin(&self) -> bool {
        let mut word = self.0.load(Ordering::Acquire);
        while word != FREE && word & PINNED == 0 {
            // Only the end of the hold can come in between, so this loops twice at most.
            let pinned = word | PINNED;
            let swapped =
                self.0
                    .compare_exchange(word, pinned, Ordering::AcqRel, Ordering::Acquire);
            word = swapped.map_or_else(|found| found, |_| pinned);
        }
        word != FREE
    }

    /// Ends a hold that is not pinned.
    #[inline]
    pub(super) fn release(&self, id: LockId, transaction: bool) -> bool {
        let held = HeldWord::encode(id.number, transaction, false);
        self.0
            .compare_exchange(held, FREE, Ordering::Release, Ordering::Relaxed)
            .is_ok()
    }
}

/// A word that is not free, as it was set last. One number, because it is written with each grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HeldWord(NonZeroU64);

impl HeldWord {
    /// Held by requests that share the lock: each of them leaves under the mutex. No request
    /// has the number zero.
    pub(super) const SHARED: Self = Self(NonZeroU64::new(PINNED).unwrap());

    /// Held by no request, but closed.
    pub(super) const CLOSED: Self = Self(NonZeroU64::new(CLOSED).unwrap());

    #[inline]
    pub(super) fn by(number: u64, transaction: bool, pinned: bool) -> Option<Self> {
        NonZeroU64::new(Self::encode(number, transaction, pinned)).map(Self)
    }

    #[must_use]
    #[inline]
    pub(super) fn pinned(self) -> Self {
        Self(self.0 | PINNED)
    }

    #[inline]
    pub(super) fn is_pinned(self) -> bool {
        self.0.get() & PINNED != 0
    }

    #[inline]
    fn encode(number: u64, transaction: bool, pinned: bool) -> u64 {
        let flags = u64::from(transaction) * TRANSACTION + u64::from(pinned) * PINNED;
        (number << NUMBER) | flags
    }
}
