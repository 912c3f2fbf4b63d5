//! Documents as values: nodes, text, marks, selections, and the primitive changes between two
//! versions.
//!
//! **Use it** to build nodes ([`NodeSpec`]), to read them ([`Node`], [`Text`], [`Marks`]), to
//! follow commits change by change ([`Change`]), to limit untrusted scripts ([`Limits`]), and to
//! check an external document ([`check`]). **Do not use it** to edit a
//! document: edits go through a [`Transaction`](crate::Transaction), whose operations are in
//! [`transaction`](crate::transaction).
//!
//! Everything here is a value. Nothing waits, takes a lock or reads a clock. A [`Snapshot`] never
//! changes. A [`Change`] contains its inverse.
//!
//! ```
//! use doclock::document::{Change, Mark, NodeSpec};
//! use doclock::{DataStore, View};
//!
//! let store = DataStore::new();
//! let mut transaction = store.begin("ann")?;
//! let text = NodeSpec::new("text").with_text("Hello").with_marks([Mark::new("bold", 0..5)]);
//! let id = transaction.create(text)?;
//! transaction.delete_text(&id, 1..5)?;
//!
//! let node = transaction.node(&id).unwrap();
//! assert_eq!(node.text().to_string(), "H");
//! assert_eq!(node.marks().iter().next().unwrap().range, Some(0..1));
//! assert!(matches!(transaction.changes(), [Change::InsertSubtree { .. }, Change::SpliceText { .. }]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! In the crate, an overlay is a snapshot and the nodes that one transaction has changed. Changes
//! are the only way to write to it.

mod attributes;
mod change;
mod changes;
mod check;
mod children;
mod error;
mod fragment;
mod limits;
mod mark;
mod node;
mod nodes;
mod overlay;
mod piece_map;
pub(crate) mod plan;
mod provenance;
mod query;
#[doc(hidden)]
pub mod schema;
mod selection;
mod sequence_edit;
mod snapshot;
mod spec;
mod text;
mod touched;
pub(crate) mod value;
mod view;
pub(crate) mod walk;

/// Types of other crates in signatures of this module.
#[doc(no_inline)]
pub use {ropey::Rope, serde_json::Value, smol_str::SmolStr};

pub use attributes::Attributes;
pub use change::{AttributePatch, Change, ChildPosition, MarksChange, RightHalf, SplitPoint};
pub use changes::Changes;
pub use check::{IntegrityError, check};
pub use children::Children;
pub use error::EditError;
pub use fragment::Fragment;
pub use limits::{Limit, LimitExceeded, Limits};
pub use mark::{Mark, Marks};
pub use node::Node;
pub use provenance::UndoConflict;
pub use selection::{NodeSelection, Position, Selection, TextSelection};
pub use snapshot::{Snapshot, SnapshotProgress};
pub use spec::{JsonError, NodeSpec};
pub use text::{OffsetError, Text, TextUnit};
pub use view::{Descendants, View};

pub(crate) use limits::{Budget, cost};
pub(crate) use mark::OBJECT;
pub(crate) use overlay::{Overlay, OverlaySavepoint, same};
pub(crate) use piece_map::{Composer, PieceMap};
pub(crate) use provenance::{
    BlockedUndo, ChangeDetail, EditUnit, Provenance, RecordedCommit, SilentTurn, Toggled, Undoing,
};
use schema::SchemaViolation;
pub(crate) use sequence_edit::{SequenceEdit, SequenceEdits};
#[cfg(feature = "redb")]
pub(crate) use snapshot::MissingNodes;
pub(crate) use snapshot::{
    AssemblyError, DocumentHead, NodeTable, Numbering, PinnedVersion, Tokens, check_room,
};
