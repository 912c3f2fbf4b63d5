//! The standard library's mutex.

use std::sync::Mutex;

use super::locked::{Lock, Locked};
use crate::bare::Bare;

pub const STD: Locked<Mutex<Bare>> = Locked::new("std Mutex", "unfair: no order among waiters");

impl Lock for Mutex<Bare> {
    fn new(document: Bare) -> Self {
        Self::new(document)
    }

    fn with<T>(&self, work: impl FnOnce(&mut Bare) -> T) -> T {
        work(&mut self.lock().expect("never poisoned here"))
    }
}
