//! The saved form of a document, and writing it.

use std::cell::RefCell;
use std::ops::ControlFlow;

use serde::ser::{Error, SerializeSeq, SerializeStruct};
use serde::{Deserialize, Serialize, Serializer};

use super::progress::Reporter;
use super::{Snapshot, SnapshotProgress};
use crate::{Descendants, Node, View};

/// The number of the saved form. Another form has another number.
pub(super) const FORMAT: u32 = 1;

/// The fields, in the order in which they are written. The number of nodes comes before the nodes,
/// so that a load can report its progress.
pub(super) const FIELDS: [&str; 7] = [
    "format", "version", "root", "tokens", "session", "len", "nodes",
];

/// The last fencing tokens.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tokens {
    /// That of the lock.
    pub lock: u64,
    /// That of a lease.
    pub lease: u64,
    /// That of all inboxes.
    pub claim: u64,
}

impl Snapshot {
    /// Serializes the document and reports the progress.
    ///
    /// Does what [`Serialize`] does, and calls `progress` before the first node, after each 1,024th
    /// and after the last. If the callback returns [`ControlFlow::Break`], saving ends with an
    /// error of the serializer. What was written until then is an incomplete document.
    ///
    /// ```
    /// use doclock::DataStore;
    /// use std::ops::ControlFlow;
    ///
    /// let mut json = serde_json::Serializer::new(Vec::new());
    /// DataStore::new().snapshot().save(&mut json, |progress| {
    ///     println!("{} of {:?} nodes", progress.nodes, progress.total);
    ///     ControlFlow::Continue(())
    /// })?;
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// An error of the serializer, or of the stream that it writes to.
    pub fn save<S: Serializer>(
        &self,
        serializer: S,
        progress: impl FnMut(SnapshotProgress) -> ControlFlow<()>,
    ) -> Result<S::Ok, S::Error> {
        let head = self.head();
        let nodes = NodeListWriter {
            snapshot: self,
            reporter: RefCell::new(Reporter::new(Some(self.len()), progress)),
        };
        let [format, version, root, last, session, len, list] = FIELDS;
        let mut form = serializer.serialize_struct("Snapshot", FIELDS.len())?;
        form.serialize_field(format, &FORMAT)?;
        form.serialize_field(version, &head.version)?;
        form.serialize_field(root, &head.root)?;
        form.serialize_field(last, &head.tokens)?;
        form.serialize_field(session, &head.session)?;
        form.serialize_field(len, &self.len())?;
        form.serialize_field(list, &nodes)?;
        form.end()
    }

    /// The trees in document order: that of the root first, the others by the ids of their tops.
    fn in_order(&self) -> impl Iterator<Item = &Node> {
        let root = self.root();
        let tops = self.nodes().filter(|node| node.parent.is_none());
        let mut tops: Vec<&Node> = tops.collect();
        tops.sort_by_key(|top| (root != Some(&top.id), &top.id));
        tops.reverse();
        Descendants::new(self, tops)
    }
}

/// Serializes the whole document in a form that does not nest: an object with the version, the
/// numberings, the root and a list of all nodes, detached ones included. Each node has the ids of
/// its children and of its parent. So any depth and size can be written, node by node.
///
/// The nodes are in document order: the tree of the root first, then the detached trees by the ids
/// of their tops. Equal snapshots with the same version and numberings have the same form.
impl Serialize for Snapshot {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.save(serializer, |_| ControlFlow::Continue(()))
    }
}

struct NodeListWriter<'a, P> {
    snapshot: &'a Snapshot,
    reporter: RefCell<Reporter<P>>,
}

impl<P: FnMut(SnapshotProgress) -> ControlFlow<()>> Serialize for NodeListWriter<'_, P> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut reporter = self.reporter.borrow_mut();
        let mut list = serializer.serialize_seq(Some(self.snapshot.len()))?;
        reporter.report().map_err(S::Error::custom)?;
        for node in self.snapshot.in_order() {
            list.serialize_element(node)?;
            reporter.count().map_err(S::Error::custom)?;
        }
        reporter.report().map_err(S::Error::custom)?;
        list.end()
    }
}
