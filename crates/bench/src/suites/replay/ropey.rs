//! ropey, a plain rope: the lower bound for any store that keeps its texts in one.

use ropey::Rope;

use super::{Subject, Trace};
use crate::Result;

/// Only the text, changed in place.
#[derive(Default)]
pub struct InPlace(Rope);

impl Subject for InPlace {
    fn name(&self) -> &'static str {
        "ropey in place"
    }

    fn note(&self) -> &'static str {
        "text only; no commits, no snapshots, no history"
    }

    fn reset(&mut self) -> Result {
        self.0 = Rope::new();
        Ok(())
    }

    fn replay(&mut self, trace: &Trace) -> Result {
        for patch in trace.transactions.iter().flatten() {
            patch.apply(&mut self.0);
        }
        Ok(())
    }

    fn text(&self) -> Result<String> {
        Ok(self.0.to_string())
    }
}

/// The text, and the version of the last commit, which a reader may hold during the next
/// transaction: so every transaction copies the changed part of the rope.
#[derive(Default)]
pub struct Cloned {
    published: Rope,
}

impl Subject for Cloned {
    fn name(&self) -> &'static str {
        "ropey cloned"
    }

    fn note(&self) -> &'static str {
        "a clone per transaction becomes the published version; the one before is kept meanwhile; no history"
    }

    fn reset(&mut self) -> Result {
        self.published = Rope::new();
        Ok(())
    }

    fn replay(&mut self, trace: &Trace) -> Result {
        for patches in &trace.transactions {
            let mut next = self.published.clone();
            for patch in patches {
                patch.apply(&mut next);
            }
            self.published = next;
        }
        Ok(())
    }

    fn text(&self) -> Result<String> {
        Ok(self.published.to_string())
    }
}
