//! doclock's keyed lock, with default options and with an owner.

use std::ops::Range;

use doclock::{OwnerId, lock::keyed::KeyedLock};

use super::Subject;
use super::kept::Table;
use crate::Result;

#[derive(Default)]
pub struct Keyed {
    lock: KeyedLock<u64>,
}

impl Subject for Keyed {
    fn name(&self) -> &'static str {
        "doclock"
    }

    fn note(&self) -> &'static str {
        "execute_exclusive: first in, first out per key, joinable, metrics"
    }

    fn run(&self, keys: &mut dyn Iterator<Item = u64>, count: &mut u64) -> Result {
        for key in keys {
            self.lock.execute_exclusive(&key, || *count += 1)?;
        }
        Ok(())
    }
}

impl Table for Keyed {
    fn hold(&self, keys: Range<u64>, held: &mut dyn FnMut()) -> Result {
        let turns = keys.map(|key| self.lock.reserve(&key));
        let _turns: Vec<_> = turns.collect::<std::result::Result<_, _>>()?;
        held();
        Ok(())
    }

    fn keys(&self) -> usize {
        self.lock.active_keys_count()
    }

    fn room(&self) -> Option<usize> {
        Some(self.lock.stats().capacity)
    }
}

pub struct Named {
    lock: KeyedLock<u64>,
    owner: OwnerId,
}

impl Default for Named {
    fn default() -> Self {
        Self {
            lock: KeyedLock::new(),
            owner: OwnerId::from("benchmark"),
        }
    }
}

impl Subject for Named {
    fn name(&self) -> &'static str {
        "doclock (owner, label)"
    }

    fn note(&self) -> &'static str {
        "the same for an owner who says what for: request"
    }

    fn run(&self, keys: &mut dyn Iterator<Item = u64>, count: &mut u64) -> Result {
        for key in keys {
            let request = self.lock.request(&key, &self.owner).label("counting");
            request.wait()?.execute(|| *count += 1)?;
        }
        Ok(())
    }
}
