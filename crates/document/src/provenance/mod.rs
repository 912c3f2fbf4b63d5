//! Which edits inserted and removed each character and each node.
//!
//! A document is a function of the edits that are in effect. An undo takes the edits of an entry
//! out of effect, and a redo puts them back into effect, in any order and by any editor. So for
//! each item it is recorded which *unit* of edits inserted it and which units removed it. A
//! character is in the document if the unit that inserted it is in effect, and no unit that removed
//! it. What is hidden stays in its place (see `sequence`).
//!
//! - **Texts and child lists** are sequences with tombstones.
//! - **A node** is in the document if the unit that created it is in effect and no unit that
//!   removed it, or if it has content of others.
//! - **A place** of a node, an attribute, a type and the root have the value of the last unit in
//!   effect that set them.
//! - **A split or a join** is an edge: a mark in the sequences of the left node. While the edge is
//!   closed, the content of the right node follows it there.
//!
//! Nodes and ranges that no unit touched are not recorded. What units changed that can no longer be
//! undone is forgotten (`forget`).

mod check;
mod conflict;
mod draft;
mod edge;
mod forget;
mod record;
mod record_commit;
mod repeat;
mod sequence;
mod undo;
mod writes;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use slotmap::SlotMap;
use smallvec::SmallVec;

use super::mark::Marks;
use super::{Change, Children, Node, RightHalf, Selection, Text, View};
use crate::hashing::Secret;
use crate::id::{NodeId, OwnerId};
use record::{Record, RootWrite};
use sequence::{ChildItem, EdgeIndexes, Item, TextItem};

pub use conflict::{BlockedUndo, UndoConflict};
pub use repeat::{SilentReversal, SilentReversals};
pub use undo::{ReversedRecords, Undoing};

/// A node that is moved into another one is looked for in so many levels above it.
const MOST_LEVELS: usize = 32;

slotmap::new_key_type! {
    /// A node, as one of those that ever had its id.
    struct RecordKey;
}

/// Edits that are undone and redone together. They are recorded as long as anything else refers to
/// this.
#[derive(Debug)]
pub struct EditUnit {
    /// The version of its first commit.
    number: u64,
    owner: OwnerId,
}

/// A commit, as its provenance is recorded.
#[derive(Clone, Debug)]
pub struct RecordedCommit<'c> {
    /// The version of the document that it made.
    pub version: u64,
    /// Its changes, in their order.
    pub changes: &'c [Change],
    /// What the changes do not tell, in their order.
    pub details: &'c [ChangeDetail],
    /// What is undone together with it. `None` if it is never undone.
    pub unit: Option<&'c Arc<EditUnit>>,
    /// The selections before and after it.
    pub selections: [Option<&'c Selection>; 2],
}

/// What a change does not tell about the document that it changed.
#[derive(Clone, Debug)]
pub struct ChangeDetail {
    /// The index of the change in its transaction.
    pub change: usize,
    /// What it does not tell.
    pub what: Detail,
}

#[derive(Clone, Debug)]
pub enum Detail {
    /// The marks over the characters that it removed, as they were in the text before it.
    RemovedMarks(Marks),
    /// The lengths of text and children of the node that it joined to another.
    Joined([usize; 2]),
}

/// The recorded history of a document since some version.
#[derive(Debug, Default)]
pub struct Provenance {
    records: SlotMap<RecordKey, Record>,
    /// The node that had this id last.
    ids: HashMap<NodeId, RecordKey, Secret>,
    units: HashMap<u64, UnitRecord, Secret>,
    root: Vec<RootWrite>,
    /// The nodes that the undos and redos left in the document without being wanted there.
    left_over: HashSet<RecordKey, Secret>,
    /// The undos and redos that changed nothing in the document, in their order.
    silent: Vec<SilentReversal>,
    /// The version of the newest recorded commit.
    newest: u64,
    /// How many places of nodes were recorded.
    placed: u64,
    /// The selection after the newest commit of a unit, until another commit follows.
    after: Option<(u64, Selection)>,
    /// Empty memory, to look up edges.
    room: [EdgeIndexes; 2],
    /// How many units there were when it was last looked what can be forgotten.
    kept_units: usize,
    /// How many commits were recorded since then. One that is never undone counts if what it
    /// changed is recorded.
    recorded: usize,
}

/// What a unit did, in order.
#[derive(Clone, Debug)]
struct UnitRecord {
    unit: Arc<EditUnit>,
    /// The version of its last commit.
    last: u64,
    is_in_effect: bool,
    /// Its newest step, and whether that changed the tree.
    step: (u32, bool),
    /// What it changed, each with the step.
    touched: Vec<(u32, TouchedItem)>,
    /// The texts with the ends of the selections before and after it.
    carets: [Option<RecordKey>; 4],
}

/// Something that a unit changed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum TouchedItem {
    /// The text of a node, or its marks.
    Text(RecordKey),
    /// Nodes that it created, the topmost first.
    Created(SmallVec<[RecordKey; 1]>),
    /// Nodes that it removed, the topmost first.
    Removed(SmallVec<[RecordKey; 1]>),
    Moved(RecordKey),
    /// The edge of a node that it split off or joined.
    Edge(RecordKey),
    /// The type or attributes of a node.
    Written(RecordKey),
    /// A node that stays because it was edited.
    Kept(RecordKey),
    Root,
}

impl TouchedItem {
    /// Whether it changed which nodes there are, or where they are.
    fn is_of_the_tree(&self) -> bool {
        match self {
            Self::Created(_) | Self::Removed(_) | Self::Moved(_) | Self::Edge(_) | Self::Root => {
                true
            }
            Self::Text(_) | Self::Written(_) | Self::Kept(_) => false,
        }
    }
}

impl EditUnit {
    /// A unit whose first commit has this version.
    #[inline]
    pub fn new(number: u64, owner: OwnerId) -> Arc<Self> {
        Arc::new(Self { number, owner })
    }

    /// The version of its first commit.
    #[inline]
    pub fn number(&self) -> u64 {
        self.number
    }
}

impl Provenance {
    /// A recorded node that is not in this document as it is recorded. There is none.
    pub fn differs_from(&self, document: &impl View) -> Option<NodeId> {
        let mut current = self.ids.iter().map(|(id, key)| (id, &self.records[*key]));
        let differing = current.find(|(id, record)| match document.node(id) {
            Some(node) => !record.is_present() || !self.is_recorded_as(record, node),
            None => record.is_present(),
        });
        differing.map(|(id, _)| id.clone())
    }

    fn is_recorded_as(&self, record: &Record, node: &Node) -> bool {
        let mut offset = 0;
        let mut in_order = record.children.iter().all(|item| {
            let found = node.children.get(offset);
            offset += item.width();
            match item {
                ChildItem::Place { node, shown, .. } if *shown => {
                    let child = self.records.get(*node).map(|it| &it.id);
                    child == found
                }
                _ => true,
            }
        });
        let rest = matches!(record.children.last(), Some(ChildItem::Untouched(_)));
        in_order &= offset == node.children.len() || rest && offset > node.children.len();
        let len: usize = record.text.iter().map(Item::width).sum();
        in_order && len >= node.text.len()
    }
}

/// Where records are changed: the recorded history, or the draft of an undo.
trait NodeRecords {
    /// The record of a node, if it has one.
    fn record_mut(&mut self, key: RecordKey) -> Option<&mut Record>;

    /// Notes that a caret of a unit goes to the text of a node.
    fn move_caret(&mut self, unit: u64, nth: u8, to: RecordKey);

    /// Notes that these items go from a node to others: its text to the first, its children to the
    /// second.
    fn rehome(
        &mut self,
        from: RecordKey,
        to: [RecordKey; 2],
        text: &[TextItem],
        children: &[ChildItem],
    ) {
        if let Some(from) = self.record_mut(from) {
            from.spread_to(to[0]);
        }
        for item in text {
            match *item {
                TextItem::Edge(at) => {
                    if let Some(record) = self.record_mut(at.node) {
                        let edge = &mut record.edges[at.edge];
                        edge.text_in = to[0];
                        edge.is_overruled = to[0] == at.node;
                    }
                }
                TextItem::Caret(unit, nth) => self.move_caret(unit, nth, to[0]),
                TextItem::Chars(_) | TextItem::End(_) => {}
            }
        }
        for item in children {
            match *item {
                ChildItem::Edge(at) => {
                    if let Some(record) = self.record_mut(at.node) {
                        record.edges[at.edge].child_in = to[1];
                    }
                }
                ChildItem::Place { node, place, .. } => {
                    if let Some(record) = self.record_mut(node) {
                        record.places[place].list = Some(to[1]);
                    }
                }
                ChildItem::Untouched(_) | ChildItem::End(_) => {}
            }
        }
    }
}

impl NodeRecords for Provenance {
    fn record_mut(&mut self, key: RecordKey) -> Option<&mut Record> {
        self.records.get_mut(key)
    }

    fn move_caret(&mut self, unit: u64, nth: u8, to: RecordKey) {
        if let Some(unit) = self.units.get_mut(&unit) {
            unit.carets[usize::from(nth)] = Some(to);
        }
    }
}

/// A node with the properties of a joined one, without content.
fn body_of(right: &RightHalf) -> Node {
    Node {
        id: right.id.clone(),
        kind: right.kind.clone(),
        attributes: right.attributes.clone(),
        text: Text::default(),
        marks: Marks::default(),
        children: Children::default(),
        parent: None,
        place: Default::default(),
    }
}
