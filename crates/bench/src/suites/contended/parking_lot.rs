//! parking_lot's mutexes: the usual one, and the fair one.

use parking_lot::{FairMutex, Mutex};

use super::locked::{Lock, Locked};
use crate::bare::Bare;

pub const PLAIN: Locked<Mutex<Bare>> = Locked::new(
    "parking_lot Mutex",
    "unfair: newcomers may barge in; fair about every half millisecond",
);

pub const FAIR: Locked<FairMutex<Bare>> = Locked::new(
    "parking_lot FairMutex",
    "handed to a parked waiter at release; a newcomer may still win before a waiter parks",
);

impl Lock for Mutex<Bare> {
    fn new(document: Bare) -> Self {
        Self::new(document)
    }

    fn with<T>(&self, work: impl FnOnce(&mut Bare) -> T) -> T {
        work(&mut self.lock())
    }
}

impl Lock for FairMutex<Bare> {
    fn new(document: Bare) -> Self {
        Self::new(document)
    }

    fn with<T>(&self, work: impl FnOnce(&mut Bare) -> T) -> T {
        work(&mut self.lock())
    }
}
