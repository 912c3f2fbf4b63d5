//! The messages between a tab and the server: JSON texts over a WebSocket.
//!
//! All positions count UTF-16 units.

use doclock::lock::{DurationSummary, LockInfo, QueueEntry};
use serde::{Deserialize, Serialize};

use crate::splice::Splice;

/// A message of a tab.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
pub enum FromTab {
    /// The first message: who the tab is, and what it has.
    Hello {
        /// The secret id of the tab's session.
        session: String,
        /// The version of the text that the tab has.
        version: Option<u64>,
        /// The timeline of that version.
        #[serde(default)]
        timeline: u64,
        /// The key of the request whose answer the tab has not received.
        key: Option<String>,
    },
    /// Edits the text of version `base`. The changes are in order, do not overlap, and count
    /// positions in that text.
    Edit {
        key: String,
        base: u64,
        /// Whether the edit goes on where its user was typing: then nothing comes between.
        #[serde(default)]
        continues: bool,
        changes: Vec<Splice>,
    },
    /// Undoes the latest edit of this session.
    Undo { key: String },
    /// Redoes the latest undone edit of this session.
    Redo { key: String },
    /// Moves the caret of the tab in the text of a version.
    Caret {
        version: u64,
        anchor: usize,
        head: usize,
    },
}

/// A message of the server.
#[derive(Clone, Debug, Serialize)]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum ToTab<'m> {
    /// The answer to `hello`.
    Welcome {
        /// The public name of the tab.
        tab: &'m str,
        version: u64,
        /// Rises when the server of the cluster has gone back to earlier versions, in a failover.
        timeline: u64,
        #[serde(flatten)]
        since: Since,
        /// The carets of the other tabs.
        carets: Vec<TabCaret>,
    },
    /// The next commit. With the key of a request, it is also the answer to it.
    Commit(&'m Commit),
    /// The answer to a request without a commit of its own: it changed nothing, or it is repeated
    /// and was committed in this version.
    Done {
        key: &'m str,
        version: u64,
        changed: bool,
    },
    /// The answer to a request that was refused. If `retry`, the same request may succeed later.
    Refused {
        key: &'m str,
        code: &'m str,
        message: &'m str,
        retry: bool,
    },
    /// The caret of another tab.
    Caret { version: u64, caret: &'m TabCaret },
    /// Another tab has left.
    Left { tab: &'m str },
    /// The lock, for the panel.
    Panel(&'m Panel),
    /// Why the server closes the connection.
    Error { code: &'m str, message: &'m str },
}

/// What a tab has missed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Since {
    /// The commits after the version that it has.
    Commits { commits: Vec<Commit> },
    /// The whole text: the tab has none, or the commits are no longer kept, or are too large.
    Text {
        text: String,
        /// The state of the request whose key was in the `hello`.
        #[serde(skip_serializing_if = "Option::is_none")]
        request: Option<RequestState>,
    },
}

/// The state of a request whose answer was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum RequestState {
    /// The text contains it.
    Committed,
    /// The text does not contain it. Its commit may follow, or it was lost: the tab sends it again.
    Open,
    /// There is no receipt. It was not committed, or so long ago that the receipt is forgotten.
    Unknown,
}

/// A commit. Each change counts positions in the text that the changes before it have left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Commit {
    pub version: u64,
    pub tab: String,
    pub key: Option<String>,
    pub changes: Vec<Splice>,
}

impl Commit {
    /// Whether it is the commit of a request.
    pub fn is(&self, tab: &str, key: &str) -> bool {
        self.tab == tab && self.key.as_deref() == Some(key)
    }

    /// About how many bytes its message has.
    pub fn bytes(&self) -> usize {
        let changes = self.changes.iter();
        100 + changes
            .map(|change| 50 + change.inserted.len())
            .sum::<usize>()
    }

    /// Where the caret of its tab is after it: behind the first change.
    pub fn caret(&self) -> Option<TabCaret> {
        let (first, later) = self.changes.split_first()?;
        let end = first.inserted_end();
        let mut caret = TabCaret {
            tab: self.tab.clone(),
            anchor: end,
            head: end,
        };
        later.iter().for_each(|change| caret.follow(change));
        Some(caret)
    }
}

/// The selection of a tab.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TabCaret {
    pub tab: String,
    pub anchor: usize,
    pub head: usize,
}

impl TabCaret {
    /// Moves the caret over a change.
    pub fn follow(&mut self, change: &Splice) {
        (self.anchor, self.head) = (change.map(self.anchor), change.map(self.head));
    }
}

/// The server that has the document, and its term.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Machine {
    pub address: String,
    pub epoch: u64,
    /// The timeline of the PostgreSQL server.
    pub timeline: u64,
}

/// The lock, its holder and its queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Panel {
    pub version: u64,
    /// The server that has the document, if there are several.
    pub machine: Option<Machine>,
    pub tabs: usize,
    pub holder: Option<LockInfo>,
    pub queue: Vec<QueueEntry>,
    pub acquisitions: u64,
    pub timeouts: u64,
    pub wait: DurationSummary,
    pub hold: DurationSummary,
}
