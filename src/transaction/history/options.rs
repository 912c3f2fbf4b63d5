//! What a history keeps, and what becomes of one transaction in it.

use std::time::Duration;

use smol_str::SmolStr;

/// How an editor's history is kept.
///
/// ```
/// use doclock::{DataStore, Editor, history::HistoryOptions};
/// use std::time::Duration;
///
/// let options = HistoryOptions::new().limit(1_000).group_interval(Duration::from_secs(1));
/// let editor = Editor::new(DataStore::new(), "ann").with_history(options);
/// assert!(!editor.can_undo());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct HistoryOptions {
    pub(super) limit: usize,
    pub(super) group_interval: Duration,
}

impl HistoryOptions {
    /// A hundred entries; typing without a pause of half a second is one of them.
    pub fn new() -> Self {
        Self {
            limit: 100,
            group_interval: Duration::from_millis(500),
        }
    }

    /// How many entries are kept; the oldest goes first. With zero nothing can be undone.
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// How soon after one another, by the store's clock, edits of one kind have to come to be one
    /// entry. With zero each is its own.
    pub fn group_interval(mut self, interval: Duration) -> Self {
        self.group_interval = interval;
        self
    }
}

impl Default for HistoryOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// What becomes of a transaction in the history of the editor who runs it.
///
/// ```
/// use doclock::{DataStore, Editor, View, dsl::*, history::HistoryMode};
///
/// let editor = Editor::new(DataStore::new(), "ann");
/// let image = element("image", []).with_id("image");
/// transaction(&editor, [create(image)]).in_history(HistoryMode::Named("upload".into())).commit()?;
/// transaction(&editor, [create(element("paragraph", []))]).commit()?;
/// // The upload has come to its end. It belongs to the entry that began it.
/// let source = set_attrs([("source", "cat.png".into())]).on("image");
/// transaction(&editor, [source]).in_history(HistoryMode::MergedInto("upload".into())).commit()?;
///
/// editor.undo()?;
/// assert_eq!(editor.store().snapshot().len(), 1, "the paragraph was the last entry");
/// editor.undo()?;
/// assert!(editor.store().snapshot().is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum HistoryMode {
    /// It is an entry, or part of the one before it: where a group is open, and where edits of one
    /// kind follow each other closely.
    #[default]
    Recorded,
    /// It is an entry of its own, with a name.
    Named(SmolStr),
    /// It is undone together with the latest entry of this name, whatever came in between. Where
    /// there is none it becomes one.
    MergedInto(SmolStr),
    /// It is not undone, as if somebody else had made it.
    Skipped,
}
