//! What a member reports.

use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, TrySendError};
use doclock::durable::{DurabilityError, JournalError, OpenError, ReplicaError};
use serde::Serialize;

use crate::{LostReason, OwnerEvent, PostgresError, RunnerEnded};

/// The process that owns a document, as the database names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct DocumentOwner {
    /// The name of the owner.
    pub owner: String,
    /// Where the owner takes requests, if it has told.
    pub address: Option<String>,
    /// The epoch of its term.
    pub epoch: u64,
}

/// What has happened to a [`Member`](crate::Member).
///
/// Serialized, it is an object with the variant's name as `type`. Durations are milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
#[non_exhaustive]
pub enum MemberEvent {
    /// The member has the document and follows its owner.
    Following {
        /// The document.
        document: String,
        /// The version that the member has.
        version: u64,
    },
    /// Another process has become the owner.
    NewOwner {
        /// The document.
        document: String,
        /// The new owner.
        #[serde(flatten)]
        owner: DocumentOwner,
    },
    /// The log no longer has the blocks that the member needs, or has others than the member has
    /// read. The member has loaded the document again.
    Reloaded {
        /// The document.
        document: String,
        /// The version before.
        from: u64,
        /// The version that the member has now.
        version: u64,
        /// What the member could not follow.
        cause: ReplicaError,
    },
    /// The member has acquired the document and could not open it. It has given the lease back.
    TakeoverFailed {
        /// The document.
        document: String,
        /// Why it was not opened.
        cause: MemberError,
        /// When the member tries again at the earliest.
        #[serde(serialize_with = "crate::event::millis", rename = "pauseMs")]
        pause: Duration,
    },
    /// The server cannot be reached, or does not answer. The snapshot is getting older.
    ServerUnreachable {
        /// The document.
        document: String,
        /// The first error.
        cause: MemberError,
    },
    /// The server answers again.
    ServerReachable {
        /// The document.
        document: String,
    },
    /// The member cannot read what the log has. It tries again.
    FollowFailed {
        /// The document.
        document: String,
        /// The first error.
        cause: MemberError,
    },
    /// The store of this owner was closed by the program, or its journal has failed although the
    /// term lasts. The member gives the lease back.
    StoreEnded {
        /// The document.
        document: String,
        /// The error of the journal, if it has failed.
        cause: Option<JournalError>,
    },
    /// This owner cannot run the requests of other machines. It tries again when it renews its
    /// term, unless its store cannot run any.
    RequestsFailed {
        /// The document.
        document: String,
        /// Why it cannot.
        cause: RunnerEnded,
    },
    /// The member has left the document. This is the last event.
    Left {
        /// The document.
        document: String,
    },
    /// What has happened to the ownership of this process. [`OwnerEvent::Acquired`] comes when the
    /// store is open, and [`OwnerEvent::Renewed`] is left out.
    #[serde(untagged)]
    Owner(OwnerEvent),
}

/// Why a call of a [`Member`](crate::Member) has failed.
///
/// Serialized, it is an object with a `code`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize)]
#[serde(
    tag = "code",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
#[non_exhaustive]
pub enum MemberError {
    /// Another process owns the document, or none does.
    #[error("this process does not own document {document}")]
    NotOwner {
        /// The document.
        document: String,
    },
    /// The member has left the document.
    #[error("this process has left document {document}")]
    Left {
        /// The document.
        document: String,
    },
    /// The term was lost while this process handed it over. All commits are stored, and another
    /// process may be the owner.
    #[error("the term of document {document} in epoch {epoch} was lost: {reason}")]
    TermLost {
        /// The document.
        document: String,
        /// The epoch that has ended.
        epoch: u64,
        /// Why it has ended.
        reason: LostReason,
    },
    /// The call was made in a thread that it waits for: by a hook of a request of another machine,
    /// or by the progress callback of the options. Nothing was done. Call in another thread.
    #[error("a thread of the member of document {document} cannot wait for the member")]
    OwnThread {
        /// The document.
        document: String,
    },
    /// The error of the server.
    #[error(transparent)]
    #[serde(untagged)]
    Server(#[from] PostgresError),
    /// The document cannot be loaded or opened.
    #[error(transparent)]
    #[serde(untagged)]
    Load(#[from] OpenError),
    /// The log cannot be followed.
    #[error(transparent)]
    #[serde(untagged)]
    Follow(#[from] ReplicaError),
    /// Commits could not be stored at the end.
    #[error(transparent)]
    #[serde(untagged)]
    Close(#[from] DurabilityError),
}

/// How many events are kept for a program that reads none.
const UNREAD: usize = 256;

/// The two ends of the events of a member.
pub(super) struct Events {
    sender: Sender<MemberEvent>,
    receiver: Receiver<MemberEvent>,
}

impl Events {
    pub(super) fn new() -> (Self, Receiver<MemberEvent>) {
        let (sender, receiver) = crossbeam_channel::bounded(UNREAD);
        let events = receiver.clone();
        (Self { sender, receiver }, events)
    }

    /// Reports an event. The oldest one makes room for it.
    pub(super) fn tell(&self, mut event: MemberEvent) {
        while let Err(TrySendError::Full(unsent)) = self.sender.try_send(event) {
            let _ = self.receiver.try_recv();
            event = unsent;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cluster_05_the_oldest_event_makes_room_for_a_new_one() {
        let (events, receiver) = Events::new();
        let reachable = |document: String| MemberEvent::ServerReachable { document };
        for nth in 0..UNREAD + 10 {
            events.tell(reachable(nth.to_string()));
        }
        let kept: Vec<_> = receiver.try_iter().collect();
        assert_eq!(kept.len(), UNREAD);
        assert_eq!(kept.first(), Some(&reachable("10".to_owned())));
        assert_eq!(kept.last(), Some(&reachable((UNREAD + 9).to_string())));
    }
}
