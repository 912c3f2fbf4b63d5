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
//! They are those of the package `doclock-document`, which knows no store.

#[doc(hidden)]
pub use doclock_document::internal::{Measure, SizedChild, Sizes, order::ascending};
#[doc(hidden)]
pub use doclock_document::schema;
#[doc(inline)]
pub use doclock_document::{
    AttributePatch, AttributeValue, Attributes, AttributesIter, Change, Changes, ChildPosition,
    Children, Descendants, EditError, Fragment, HeaderPart, IntegrityError, JsonError, KeptCommits,
    Limit, LimitExceeded, Limits, MappedPosition, Mark, Marks, MarksChange, Node, NodeSelection,
    NodeSpec, OffsetError, Position, RightHalf, Selection, SharedList, Side, Snapshot,
    SnapshotProgress, SplitPoint, TableSide, Text, TextSelection, TextUnit, UndoConflict, View,
    check,
};
/// Types of other crates in signatures of this module.
#[doc(no_inline)]
pub use doclock_document::{Rope, SmolStr, Value};

#[cfg(feature = "redb")]
pub(crate) use doclock_document::internal::MissingNodes;
pub(crate) use doclock_document::internal::{
    AssemblyError, BlockedUndo, Budget, ChangeDetail, CommitEdits, DocumentHead, EditUnit,
    MarkCoverage, MarkRules, NodeTable, Numbering, OBJECT, Overlay, OverlaySavepoint,
    PinnedVersion, Provenance, Reach, RecordedCommit, ReversedRecords, SequenceEdit,
    SilentReversal, SilentReversals, Stretch, Tokens, TrackedPosition, Typed, Undoing, are_within,
    block_edits, check_room, cost, fit, input_rules, order, plan, same, table, value, walk,
};
