//! The standard library's mutex.

use std::sync::Mutex;

use super::Subject;
use crate::Result;

#[derive(Default)]
pub struct Std(Mutex<u64>);

impl Subject for Std {
    fn name(&self) -> &'static str {
        "std Mutex"
    }

    fn note(&self) -> &'static str {
        "no order among waiters"
    }

    fn run(&mut self, pairs: u32) -> Result {
        for _ in 0..pairs {
            *self.0.lock().expect("never poisoned here") += 1;
        }
        Ok(())
    }
}
