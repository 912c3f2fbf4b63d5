//! One change to a text: at a place some characters go and others come.

use doclock::dsl::{delete_text_range, insert_text, replace_text};
use doclock::transaction::NodeOperation;
use serde::Deserialize;
use smol_str::SmolStr;

/// Positions and lengths count characters. Read from `[at, removed, inserted]`.
#[derive(Clone, Debug, Deserialize)]
pub struct Splice(pub usize, pub usize, pub SmolStr);

impl Splice {
    /// What an editor would call it.
    pub fn operation(&self) -> NodeOperation {
        let Self(at, removed, inserted) = self.clone();
        match (removed, inserted.is_empty()) {
            (0, _) => insert_text(at, inserted),
            (_, true) => delete_text_range(at, at + removed),
            (_, false) => replace_text(at, at + removed, inserted),
        }
    }
}
