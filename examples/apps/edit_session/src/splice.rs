//! A splice: replaces characters of a text.

use doclock::dsl::{delete_text_range, insert_text, replace_text};
use doclock::transaction::NodeOperation;
use serde::Deserialize;
use smol_str::SmolStr;

/// Positions and lengths count characters. Read from `[at, removed, inserted]`.
#[derive(Clone, Debug, Deserialize)]
pub struct Splice(pub usize, pub usize, pub SmolStr);

impl Splice {
    /// The splice as an operation.
    pub fn operation(&self) -> NodeOperation {
        let Self(at, removed, inserted) = self.clone();
        match (removed, inserted.is_empty()) {
            (0, _) => insert_text(at, inserted),
            (_, true) => delete_text_range(at, at + removed),
            (_, false) => replace_text(at, at + removed, inserted),
        }
    }
}
