//! Options of a history, and how one transaction is recorded in it.

use std::time::Duration;

use smol_str::SmolStr;

/// Options of an editor's history.
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
    pub(super) next_effective: bool,
}

impl HistoryOptions {
    /// Creates the default options: a hundred entries, and a group interval of half a second.
    pub fn new() -> Self {
        Self {
            limit: 100,
            group_interval: Duration::from_millis(500),
            next_effective: false,
        }
    }

    /// Sets whether an undo or a redo goes on to the next entry after one without an effect.
    ///
    /// An entry has no effect any more if other editors have deleted or overwritten everything that
    /// it changed. By default such an entry is undone alone: the call succeeds, and its result says
    /// that nothing [changed](field@crate::transaction::TransactionResult::changed). With this
    /// option the same call also undoes the next entry, up to one with an effect. If that one
    /// cannot be undone, the call ends with those before it, and succeeds. The next call returns
    /// the error. A call that fails, such as by a timeout, undoes none of them.
    ///
    /// ```
    /// use doclock::{DataStore, Editor, View, dsl::*, history::HistoryOptions};
    ///
    /// let store = DataStore::new();
    /// let [ann, bob] = ["ann", "bob"].map(|owner| Editor::new(store.clone(), owner));
    /// let ann = ann.with_history(HistoryOptions::new().undo_next_effective(true));
    /// ann.execute(create(text_node("paragraph", "one").with_id("p")))?;
    /// ann.execute(insert_text(3, " two").on("p"))?;
    /// bob.execute(delete_text_range(3, 7).on("p"))?;
    /// ann.undo().commit()?;
    /// assert!(store.snapshot().is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn undo_next_effective(mut self, goes_on: bool) -> Self {
        self.next_effective = goes_on;
        self
    }

    /// Sets how many entries are kept, with those that are stuck. The oldest is discarded first.
    /// With zero nothing can be undone.
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Sets the group interval: edits of one kind within this time of each other, by the store's
    /// clock, form one entry. With zero, each edit is an entry of its own.
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

/// How a transaction is recorded in the history of its editor.
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
/// editor.undo().commit()?;
/// assert_eq!(editor.store().snapshot().len(), 1, "the paragraph was the last entry");
/// editor.undo().commit()?;
/// assert!(editor.store().snapshot().is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum HistoryMode {
    /// The transaction becomes an entry, or joins the previous one if a group is open or if edits
    /// of one kind follow each other closely.
    #[default]
    Recorded,
    /// As `Recorded`, with the name of what made the edit: a view, a form, a program. It joins
    /// edits of the same origin only, and an undo can be limited to them, by
    /// [`of`](crate::transaction::PendingTransaction::of). The entry of an open group has the name
    /// of the group, or of its first origin.
    Origin(SmolStr),
    /// The transaction becomes an entry of its own, with a name.
    Named(SmolStr),
    /// The transaction is undone together with the latest entry of this name, even if there are
    /// entries in between or that entry is stuck. If there is none, the transaction becomes an
    /// entry with this name.
    MergedInto(SmolStr),
    /// The transaction is not undone; it counts as a change by another editor.
    Skipped,
}
