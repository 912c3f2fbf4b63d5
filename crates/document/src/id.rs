//! The ids of nodes: how they are given, and how a document generates them.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) use doclock_common::id::{NodeId, OwnerId, Repr};

/// The id of a node, given as a [`NodeId`] or as its text.
///
/// ```
/// use doclock::{DataStore, NodeId, View, dsl::*, Editor};
///
/// let editor = Editor::new(DataStore::new(), "ann");
/// transaction(&editor, [create(text_node("text", "Hi").with_id("greeting"))]).commit()?;
///
/// let document = editor.store().snapshot();
/// let id = NodeId::from("greeting");
/// assert_eq!(document.node("greeting"), document.node(&id));
/// # Ok::<(), doclock::transaction::TransactionError>(())
/// ```
pub trait AsNodeId {
    /// Returns the id, borrowed if it is one already.
    fn as_node_id(&self) -> Cow<'_, NodeId>;
}

impl AsNodeId for NodeId {
    #[inline(always)]
    fn as_node_id(&self) -> Cow<'_, NodeId> {
        Cow::Borrowed(self)
    }
}

impl AsNodeId for str {
    fn as_node_id(&self) -> Cow<'_, NodeId> {
        Cow::Owned(self.into())
    }
}

impl AsNodeId for String {
    fn as_node_id(&self) -> Cow<'_, NodeId> {
        self.as_str().as_node_id()
    }
}

impl<T: AsNodeId + ?Sized> AsNodeId for &T {
    #[inline(always)]
    fn as_node_id(&self) -> Cow<'_, NodeId> {
        (**self).as_node_id()
    }
}

/// Generates a store's node ids. A generated number is never reused, even if its transaction fails.
#[derive(Debug)]
pub struct NodeIds {
    /// `None` if no ids are generated.
    session: Option<u32>,
    next: AtomicU64,
}

impl NodeIds {
    /// The largest number of a custom id in the store's own session: JSON readers keep it exact.
    pub(crate) const LARGEST_GIVEN: u64 = (1 << 53) - 1;

    /// Whether a session with this last number has no use: half of all numbers are never generated.
    pub fn is_used_up(last: u64) -> bool {
        last > u64::MAX / 2
    }

    /// Continues after the last number of the session; zero for a new session.
    pub fn after(session: u32, last: u64) -> Self {
        Self {
            session: Some(session),
            next: AtomicU64::new(last.saturating_add(1)),
        }
    }

    /// Generates no ids, so none is reserved: for changes whose ids were accepted before.
    pub(crate) fn unreserved() -> Self {
        Self {
            session: None,
            next: AtomicU64::new(1),
        }
    }

    /// The last number of a session that was generated or reserved. A session in which no ids are
    /// generated is used up.
    #[inline]
    pub fn last_of(&self, session: u32) -> u64 {
        match self.session == Some(session) {
            true => self.next.load(Ordering::Relaxed) - 1,
            false => u64::MAX,
        }
    }

    /// Generates a new id; `None` if the numbers are used up.
    pub fn generate(&self) -> Option<NodeId> {
        let session = self.session?;
        let counter = self.raise(|next| next.checked_add(1))?;
        Some(NodeId::generated(session, counter))
    }

    /// Reserves an external id, so it is never generated. Returns `false`, and reserves nothing,
    /// for an id of the store's own session whose number would leave no numbers to generate.
    pub(crate) fn reserve(&self, id: &NodeId) -> bool {
        match id.0 {
            Repr::Generated { session, counter } if Some(session) == self.session => {
                // A number that was generated before may come back, however large.
                if counter
                    >= self
                        .next
                        .load(Ordering::Relaxed)
                        .max(Self::LARGEST_GIVEN + 1)
                {
                    return false;
                }
                self.raise(|next| (next <= counter).then_some(counter + 1));
            }
            _ => {}
        }
        true
    }

    fn raise(&self, to: impl Fn(u64) -> Option<u64>) -> Option<u64> {
        self.next
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, to)
            .ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reserved_id_is_never_generated() {
        let ids = NodeIds::after(7, 0);
        for id in ["7:5", "7:3", "8:900", "8:18446744073709551615"] {
            assert!(ids.reserve(&NodeId::from(id)));
        }
        assert_eq!(ids.generate(), Some(NodeId::from("7:6")));
        assert!(!ids.reserve(&NodeId::generated(7, NodeIds::LARGEST_GIVEN + 1)));
        assert_eq!(ids.generate(), Some(NodeId::from("7:7")));
    }

    #[test]
    fn generated_ids_run_out_instead_of_wrapping_around() {
        let ids = NodeIds::after(7, 0);
        ids.next.store(u64::MAX, Ordering::Relaxed);
        assert_eq!(ids.generate(), None);
        assert_eq!(ids.generate(), None);
    }
}
