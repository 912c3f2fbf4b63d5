//! The part of a lock's state that changes without its mutex.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use crate::id::LockId;
use crate::sync::AtomicU64;

/// The holder in one atomic number: an uncontended release is one compare-and-swap.
///
/// | bits | meaning |
/// |---|---|
/// | all zero | the lock is free |
/// | 0 and 1 alone | the lock is closed, and no request holds it |
/// | 0 | *pinned*: the hold ends under the mutex, because a request waits, or the hold is measured or inspected |
/// | 1 | a transaction holds, which alone may end the hold |
/// | 2.. | the number of the holder's request, never zero |
///
/// Without the mutex one step is possible: from *held and not pinned* to *free*, by the holder. So
/// while the word is pinned or free, only the owner of the mutex changes it.
#[derive(Debug, Default)]
pub(super) struct Word(AtomicU64);

const FREE: u64 = 0;
const PINNED: u64 = 1;
const TRANSACTION: u64 = 2;
const NUMBER: u32 = 2;

impl Word {
    /// Whether the lock is free and open. The answer `false` may be out of date.
    #[inline]
    pub(super) fn is_free(&self) -> bool {
        self.0.load(Acquire) == FREE
    }

    /// Whether a request holds the lock, or nodes.
    pub(super) fn is_held(&self) -> bool {
        ![FREE, HeldWord::CLOSED.0].contains(&self.0.load(Acquire))
    }

    /// Whether the request holds the whole lock. Called on the lock that issued the id.
    #[inline]
    pub(crate) fn is_held_by(&self, id: LockId) -> bool {
        self.0.load(Acquire) >> NUMBER == id.number
    }

    /// Sets the holder. Requires the mutex, and a word that is free or pinned.
    #[inline]
    pub(super) fn set(&self, held: HeldWord) {
        // A thread that finds the lock free without the mutex must see what was done under it.
        self.0.store(held.0, Release);
    }

    /// Makes the present hold end under the mutex. Requires the mutex. Returns the word.
    pub(super) fn pin(&self, held: HeldWord) -> HeldWord {
        // Without the mutex, only the end of the hold can come in between.
        let pinned = held.pinned();
        let changed = self.0.compare_exchange(held.0, pinned.0, AcqRel, Acquire);
        changed.map_or(HeldWord::FREE, |_| pinned)
    }

    /// Ends the caller's own hold, if this is its word: it is not pinned then.
    #[inline]
    pub(super) fn release(&self, HeldWord(own): HeldWord) -> bool {
        self.0.compare_exchange(own, FREE, Release, Relaxed).is_ok()
    }
}

/// A word, as it was set last. One number, because it is written with each grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HeldWord(u64);

impl HeldWord {
    pub(super) const FREE: Self = Self(FREE);

    /// Held by requests that share the lock, of which each leaves under the mutex.
    pub(super) const SHARED: Self = Self(PINNED);

    /// Held by no request, but closed.
    pub(super) const CLOSED: Self = Self(PINNED | TRANSACTION);

    #[inline]
    pub(super) fn by(number: u64, transaction: bool, pinned: bool) -> Self {
        Self((number << NUMBER) | (u64::from(transaction) << 1) | u64::from(pinned))
    }

    #[must_use]
    #[inline]
    pub(super) fn pinned(self) -> Self {
        Self(self.0 | PINNED)
    }

    /// Whether the hold can end without the mutex.
    #[inline]
    pub(super) fn ends_apart(self) -> bool {
        self != Self::FREE && self != self.pinned()
    }
}
