//! yrs, a CRDT. It counts bytes or UTF-16 code units but not scalar values; the traces' positions
//! are converted to UTF-16, its own measure, before the clock starts.

use yrs::{Doc, GetString, OffsetKind, Options, Text, TextRef, Transact};

use super::{Subject, Trace};
use crate::Result;

pub struct Yrs {
    document: Doc,
    text: TextRef,
}

impl Default for Yrs {
    fn default() -> Self {
        let document = Doc::with_options(Options {
            offset_kind: OffsetKind::Utf16,
            ..Options::default()
        });
        let text = document.get_or_insert_text("text");
        Self { document, text }
    }
}

impl Subject for Yrs {
    fn name(&self) -> &'static str {
        "yrs"
    }

    fn note(&self) -> &'static str {
        "keeps a mergeable history with collected tombstones; no rollback; positions converted to UTF-16 beforehand"
    }

    fn reset(&mut self) -> Result {
        *self = Self::default();
        Ok(())
    }

    fn replay(&mut self, trace: &Trace) -> Result {
        for patches in &trace.transactions {
            let mut transaction = self.document.transact_mut();
            for patch in patches {
                if patch.utf16_deleted > 0 {
                    self.text
                        .remove_range(&mut transaction, patch.utf16_at, patch.utf16_deleted);
                }
                if !patch.inserted.is_empty() {
                    self.text
                        .insert(&mut transaction, patch.utf16_at, &patch.inserted);
                }
            }
        }
        Ok(())
    }

    fn text(&self) -> Result<String> {
        Ok(self.text.get_string(&self.document.transact()))
    }
}
