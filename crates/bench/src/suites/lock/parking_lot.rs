//! parking_lot's mutexes: the usual one, and the fair one.

use std::sync::Arc;

use parking_lot::{FairMutex, Mutex};

use super::Subject;
use crate::Result;

#[derive(Default)]
pub struct Plain(Mutex<u64>);

impl Subject for Plain {
    fn name(&self) -> &'static str {
        "parking_lot Mutex"
    }

    fn note(&self) -> &'static str {
        "newcomers may barge in; fair about every half millisecond"
    }

    fn run(&mut self, pairs: u32) -> Result {
        for _ in 0..pairs {
            *self.0.lock() += 1;
        }
        Ok(())
    }
}

#[derive(Default)]
pub struct Fair(FairMutex<u64>);

impl Subject for Fair {
    fn name(&self) -> &'static str {
        "parking_lot FairMutex"
    }

    fn note(&self) -> &'static str {
        "handed to a parked waiter at release; a newcomer may still win before a waiter parks"
    }

    fn run(&mut self, pairs: u32) -> Result {
        for _ in 0..pairs {
            *self.0.lock() += 1;
        }
        Ok(())
    }
}

#[derive(Default)]
pub struct Owned(Arc<FairMutex<u64>>);

impl Subject for Owned {
    fn name(&self) -> &'static str {
        "FairMutex, lock_arc"
    }

    fn note(&self) -> &'static str {
        "the same with a guard that owns a share of its mutex, as doclock's does"
    }

    fn run(&mut self, pairs: u32) -> Result {
        for _ in 0..pairs {
            *self.0.lock_arc() += 1;
        }
        Ok(())
    }
}
