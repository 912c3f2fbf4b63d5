//! automerge, a CRDT, set to count Unicode scalar values as the traces do.

use automerge::transaction::Transactable;
use automerge::{Automerge as Document, ObjId, ObjType, ROOT, ReadDoc, TextEncoding};

use super::{Subject, Trace};
use crate::Result;

pub struct Automerge {
    document: Document,
    text: ObjId,
}

impl Automerge {
    pub fn open() -> Result<Self> {
        let mut document = Document::new_with_encoding(TextEncoding::UnicodeCodePoint);
        let mut transaction = document.transaction();
        let text = transaction.put_object(ROOT, "text", ObjType::Text)?;
        transaction.commit();
        Ok(Self { document, text })
    }
}

impl Subject for Automerge {
    fn name(&self) -> &'static str {
        "automerge"
    }

    fn note(&self) -> &'static str {
        "keeps a mergeable history of hashed changes; atomic transactions; at most 3 rounds, being slow"
    }

    fn max_rounds(&self) -> usize {
        3
    }

    fn reset(&mut self) -> Result {
        *self = Self::open()?;
        Ok(())
    }

    fn replay(&mut self, trace: &Trace) -> Result {
        for patches in &trace.transactions {
            let mut transaction = self.document.transaction();
            for patch in patches {
                let deleted = isize::try_from(patch.deleted)?;
                transaction.splice_text(&self.text, patch.at, deleted, &patch.inserted)?;
            }
            transaction.commit();
        }
        Ok(())
    }

    fn text(&self) -> Result<String> {
        Ok(self.document.text(&self.text)?)
    }
}
