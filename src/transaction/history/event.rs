//! What happens to the entries of a history, for an interface that shows them.

use crossbeam_channel::{Receiver, Sender, unbounded};
use serde::Serialize;
use smol_str::SmolStr;

/// What happened to a history. Received from
/// [`Editor::history_events`](crate::Editor::history_events).
///
/// Serializes in camelCase.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct HistoryEvent {
    /// What it was.
    pub kind: HistoryEventKind,
    /// The name of the entry, if it has one. `None` if several were removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<SmolStr>,
    /// How many entries there are to undo afterwards.
    pub undo_depth: usize,
    /// How many entries there are to redo afterwards.
    pub redo_depth: usize,
}

/// What can happen to a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum HistoryEventKind {
    /// A commit began a new entry. Entries that could be redone are gone, but for those of other
    /// [scopes](crate::transaction::PendingTransaction::within).
    Added,
    /// A commit joined an entry.
    Joined,
    /// An entry was undone, also if that had no effect on the document.
    Undone,
    /// An entry was redone, also if that had no effect on the document.
    Redone,
    /// Entries were discarded, cleared, or replaced by those of an earlier editor.
    Removed,
}

/// Those that receive the events of a history.
#[derive(Debug, Default)]
pub(super) struct Listeners(Vec<Sender<HistoryEvent>>);

impl Listeners {
    pub(super) fn add(&mut self) -> Receiver<HistoryEvent> {
        let (sender, receiver) = unbounded();
        self.0.push(sender);
        receiver
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Sends an event to all. Those that are gone are removed.
    pub(super) fn tell(&mut self, event: &HistoryEvent) {
        self.0
            .retain(|listener| listener.send(event.clone()).is_ok());
    }
}
