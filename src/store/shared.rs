//! The document of a store, which its drafts and its journal share.

use std::sync::Arc;

use super::PublishedState;
use crate::document::Snapshot;
use crate::document::schema::Schema;
use crate::id::NodeIds;
use crate::sync::{Mutex, rank};
use crate::time::Clock;

/// The document of a store. Each transaction writes it, so it is apart from what only the store
/// needs: otherwise a requesting thread takes its cache lines from the holder again and again.
pub(crate) struct SharedDocument {
    /// The last version. Replaced by the holder of the lock, or of a share of it and of the lock
    /// `publishing`; readers only clone.
    pub(super) published: Mutex<{ rank::PUBLISHED }, PublishedState>,
    pub(crate) ids: NodeIds,
    pub(super) schema: Option<Arc<Schema>>,
    pub(super) clock: Clock,
}

impl SharedDocument {
    /// A document with ids after the last one of a session.
    pub(crate) fn new(
        snapshot: Snapshot,
        (session, last_id): (u32, u64),
        schema: Option<Arc<Schema>>,
        clock: Clock,
    ) -> Arc<Self> {
        Arc::new(Self {
            published: Mutex::new(PublishedState::new(snapshot)),
            ids: NodeIds::after(session, last_id),
            schema,
            clock,
        })
    }
}
