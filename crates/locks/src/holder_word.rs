//! The part of a lock's state that changes without its mutex.

use std::num::NonZeroU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

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
        self.0.load(Acquire) == FREE
    }

    /// Whether a request holds the lock, or nodes.
    pub(super) fn is_held(&self) -> bool {
        !matches!(self.0.load(Acquire), FREE | CLOSED)
    }

    /// Whether the request holds the whole lock. Called on the lock that issued the id.
    #[inline]
    pub(crate) fn is_held_by(&self, id: LockId) -> bool {
        self.0.load(Acquire) >> NUMBER == id.number
    }

    /// Sets the holder. Requires the mutex, and a word that is free or pinned.
    #[inline]
    pub(super) fn set(&self, held: Option<HeldWord>) {
        // Release: a thread that finds the lock free without the mutex must see what was done under
        // it.
        self.0.store(held.map_or(FREE, HeldWord::get), Release);
    }

    /// Makes the present hold end under the mutex. Requires the mutex; `false` if it has ended.
    pub(super) fn pin(&self, held: HeldWord) -> bool {
        // Without the mutex, only the end of the hold can come in between.
        let (word, pinned) = (held.get(), held.pinned().get());
        self.0
            .compare_exchange(word, pinned, AcqRel, Acquire)
            .is_ok()
    }

    /// Ends the caller's own hold, if this is its word: it is not pinned then.
    #[inline]
    pub(super) fn release(&self, own: u64) -> bool {
        self.0.compare_exchange(own, FREE, Release, Relaxed).is_ok()
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
        NonZeroU64::new(encode(number, transaction, pinned)).map(Self)
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
    fn get(self) -> u64 {
        self.0.get()
    }
}

/// Returns the word of a hold.
#[inline]
pub(super) fn encode(number: u64, transaction: bool, pinned: bool) -> u64 {
    (number << NUMBER) | (u64::from(transaction) * TRANSACTION) | (u64::from(pinned) * PINNED)
}
