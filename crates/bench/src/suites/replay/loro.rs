//! loro, a CRDT: its text counts Unicode scalar values, as the traces do.

use loro::{LoroDoc, LoroText};

use super::{Subject, Trace};
use crate::Result;

pub struct Loro {
    document: LoroDoc,
    text: LoroText,
}

impl Default for Loro {
    fn default() -> Self {
        let document = LoroDoc::new();
        let text = document.get_text("text");
        Self { document, text }
    }
}

impl Subject for Loro {
    fn name(&self) -> &'static str {
        "loro"
    }

    fn note(&self) -> &'static str {
        "keeps a mergeable history; commits group changes, without rollback"
    }

    fn reset(&mut self) -> Result {
        *self = Self::default();
        Ok(())
    }

    fn replay(&mut self, trace: &Trace) -> Result {
        for patches in &trace.transactions {
            for patch in patches {
                if patch.deleted > 0 {
                    self.text.delete(patch.at, patch.deleted)?;
                }
                if !patch.inserted.is_empty() {
                    self.text.insert(patch.at, &patch.inserted)?;
                }
            }
            self.document.commit();
        }
        Ok(())
    }

    fn text(&self) -> Result<String> {
        Ok(self.text.to_string())
    }
}
