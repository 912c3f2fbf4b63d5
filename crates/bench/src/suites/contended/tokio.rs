//! tokio's mutex, locked from plain threads: a queue as strict as doclock's.

use tokio::sync::Mutex;

use super::locked::{Lock, Locked};
use crate::bare::Bare;

pub const TOKIO: Locked<Mutex<Bare>> =
    Locked::new("tokio Mutex", "first in, first out; through blocking_lock");

impl Lock for Mutex<Bare> {
    fn new(document: Bare) -> Self {
        Self::new(document)
    }

    fn with<T>(&self, work: impl FnOnce(&mut Bare) -> T) -> T {
        work(&mut self.blocking_lock())
    }
}
