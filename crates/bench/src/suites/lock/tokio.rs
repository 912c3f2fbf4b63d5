//! tokio's mutex, locked from a plain thread: a queue as strict as doclock's.

use tokio::sync::Mutex;

use super::Subject;
use crate::Result;

#[derive(Default)]
pub struct Tokio(Mutex<u64>);

impl Subject for Tokio {
    fn name(&self) -> &'static str {
        "tokio Mutex"
    }

    fn note(&self) -> &'static str {
        "first in, first out; through blocking_lock"
    }

    fn run(&mut self, pairs: u32) -> Result {
        for _ in 0..pairs {
            *self.0.blocking_lock() += 1;
        }
        Ok(())
    }
}
