//! The recorded traces, in a form that every subject can apply directly.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use flate2::read::GzDecoder;
use ropey::Rope;
use serde::Deserialize;

use crate::Result;

/// A recorded session that starts from an empty text.
pub struct Trace {
    pub transactions: Vec<Vec<Patch>>,
    pub end: String,
}

/// Replaces a range of the text. Positions count Unicode scalar values.
pub struct Patch {
    pub at: usize,
    pub deleted: usize,
    pub inserted: String,
    /// The same range in UTF-16 code units, for subjects that support no other unit.
    pub utf16_at: u32,
    pub utf16_deleted: u32,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Recording {
    start_content: String,
    end_content: String,
    txns: Vec<Recorded>,
}

#[derive(Deserialize)]
struct Recorded {
    patches: Vec<(usize, usize, String)>,
}

impl Trace {
    pub fn load(path: &Path) -> Result<Self> {
        let show = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let file = File::open(path).map_err(|error| show(&error))?;
        let mut json = String::new();
        GzDecoder::new(file)
            .read_to_string(&mut json)
            .map_err(|error| show(&error))?;
        let recording: Recording = serde_json::from_str(&json).map_err(|error| show(&error))?;
        if !recording.start_content.is_empty() {
            return Err(show(&"does not start from an empty text").into());
        }
        // Replayed once here, because the width of a range depends on the text that contains it.
        let mut text = Rope::new();
        let transactions = recording
            .txns
            .into_iter()
            .map(|txn| {
                let patches = txn.patches.into_iter();
                patches.map(|patch| Patch::new(patch, &mut text)).collect()
            })
            .collect();
        if text != recording.end_content {
            return Err(show(&"does not end in the recorded text").into());
        }
        Ok(Self {
            transactions,
            end: recording.end_content,
        })
    }
}

impl Patch {
    fn new((at, deleted, inserted): (usize, usize, String), text: &mut Rope) -> Self {
        let utf16 = |position| text.char_to_utf16_cu(position) as u32;
        let utf16_at = utf16(at);
        let utf16_deleted = utf16(at + deleted) - utf16_at;
        let patch = Self {
            at,
            deleted,
            inserted,
            utf16_at,
            utf16_deleted,
        };
        patch.apply(text);
        patch
    }

    pub fn apply(&self, text: &mut Rope) {
        if self.deleted > 0 {
            text.remove(self.at..self.at + self.deleted);
        }
        if !self.inserted.is_empty() {
            text.insert(self.at, &self.inserted);
        }
    }
}
