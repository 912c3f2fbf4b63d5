//! Documents as values: nodes, text, marks, selections, schemas, and the primitive changes between
//! two versions.
//!
//! **Use it** in a program that reads or checks saved documents and the changes of commits. **Do
//! not use it** to edit a document: edits go through a transaction of a store, which is in
//! [doclock](https://docs.rs/doclock). It has this crate as `doclock::document` and
//! `doclock::schema`.
//!
//! Everything here is a value. Nothing waits, takes a lock or reads a clock. A [`Snapshot`] never
//! changes. A [`Change`] contains its inverse.
//!
//! ```
//! use doclock_document::{Snapshot, View, check};
//!
//! let saved = r#"{"format": 1, "version": 1, "root": "page",
//!     "tokens": {"lock": 0, "lease": 0, "claim": 0},
//!     "session": {"id": 1, "transactions": 0, "nodes": 0},
//!     "len": 1, "nodes": [{"id": "page", "type": "page", "text": "Hello"}]}"#;
//! let document: Snapshot = serde_json::from_str(saved)?;
//! assert_eq!(check(&document), Ok(()));
//! assert_eq!(document.text_of("page")?, "Hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! In the crate, an overlay is a snapshot and the nodes that one transaction has changed. Changes
//! are the only way to write to it. The provenance tells which edits set or removed each part of a
//! document, so that an undo takes them back and leaves those of others.

mod attributes;
mod change;
mod changes;
mod children;
mod error;
mod fragment;
mod id;
mod input_rules;
mod integrity;
mod json;
mod limits;
#[allow(missing_docs)]
mod mapping;
mod mark;
#[allow(missing_docs, missing_debug_implementations)]
mod mark_rules;
mod node;
mod nodes;
mod pattern;
mod provenance;
mod query;
pub mod schema;
mod selection;
mod shared_list;
#[allow(missing_docs)]
mod sizes;
mod snapshot;
mod spec;
mod steps;
mod table;
mod text;
mod touched;
mod view;

// What only `internal` shows.
#[allow(missing_docs, missing_debug_implementations)]
mod block_edits;
#[allow(missing_docs, missing_debug_implementations)]
mod fit;
#[allow(missing_docs, missing_debug_implementations)]
mod order;
#[allow(missing_docs, missing_debug_implementations)]
mod overlay;
#[allow(missing_docs, missing_debug_implementations)]
mod piece_map;
#[allow(missing_docs, missing_debug_implementations)]
mod plan;
#[allow(missing_docs)]
mod reach;
#[allow(missing_docs, missing_debug_implementations)]
mod sequence_edit;
#[allow(missing_docs)]
mod stretch;
#[allow(missing_docs, missing_debug_implementations)]
mod typed;
#[allow(missing_docs, missing_debug_implementations)]
mod value;
#[allow(missing_docs, missing_debug_implementations)]
mod walk;

use doclock_common::{brief, hashing};

/// Types of other crates in signatures of this one.
#[doc(no_inline)]
pub use {ropey::Rope, serde_json::Value, smol_str::SmolStr};

#[doc(inline)]
pub use doclock_common::{codes, id::NodeId};

pub use attributes::{Attributes, AttributesIter};
pub use change::{AttributePatch, Change, ChildPosition, MarksChange, RightHalf, SplitPoint};
pub use changes::Changes;
pub use children::Children;
pub use error::EditError;
pub use fragment::Fragment;
pub use id::AsNodeId;
pub use input_rules::{Capture, InputEffect, InputRule, InputTarget};
pub use integrity::{IntegrityError, check};
pub use limits::{Limit, LimitExceeded, Limits};
pub use mapping::{KeptCommits, MappedPosition, Side};
pub use mark::{Mark, Marks};
pub use node::Node;
pub use pattern::{Pattern, PatternError};
pub use provenance::UndoConflict;
pub use selection::{NodeSelection, Position, Selection, TextSelection};
pub use shared_list::SharedList;
pub use snapshot::{Snapshot, SnapshotProgress};
pub use spec::{JsonError, NodeSpec};
pub use table::{HeaderPart, TableSide};
pub use text::{OffsetError, Text, TextUnit};
pub use value::AttributeValue;
pub use view::{Descendants, View};

use limits::cost;
use overlay::Overlay;
use schema::SchemaViolation;
use sequence_edit::SequenceEdit;

/// What only the document store of `doclock` uses. It can change in any release.
#[doc(hidden)]
pub mod internal {
    pub use crate::id::NodeIds;
    pub use crate::limits::Budget;
    pub use crate::mapping::TrackedPosition;
    pub use crate::mark::OBJECT;
    pub use crate::mark_rules::{MarkCoverage, MarkRules};
    pub use crate::overlay::{Overlay, OverlaySavepoint, same};
    pub use crate::piece_map::{Composer, PieceMap};
    pub use crate::provenance::{
        BlockedUndo, ChangeDetail, EditUnit, Provenance, RecordedCommit, ReversedRecords,
        SilentReversal, SilentReversals, Undoing,
    };
    pub use crate::reach::{Reach, are_within};
    pub use crate::sequence_edit::{SequenceEdit, SequenceEdits};
    pub use crate::sizes::{Measure, SizedChild, Sizes};
    pub use crate::snapshot::{
        AssemblyError, DocumentHead, MissingNodes, NodeTable, Numbering, PinnedVersion, Tokens,
        check_room,
    };
    pub use crate::stretch::{CommitEdits, Stretch};
    pub use crate::typed::Typed;

    pub mod cost {
        pub use crate::limits::cost::{
            ARRANGED, BYTES, CHANGE, CONVERTED, LOOKED_UP, NODE, RULE, SIBLINGS, WRITTEN, marks,
        };
    }

    pub mod block_edits {
        pub use crate::block_edits::{
            BlockEdits, ChangedChildren, delete_range, join_neighbours, paste,
        };
    }

    pub mod fit {
        pub use crate::fit::{FitEdit, edit, missing};
    }

    pub mod input_rules {
        pub use crate::input_rules::{TypedText, apply};
    }

    pub mod order {
        pub use crate::order::{Move, Siblings, ascending, moves};
    }

    pub mod json {
        pub use crate::json::{line_and_column, offset, reason};
    }

    pub mod table {
        pub use crate::table::{
            TableEdit, clear_between, copy_between, edit, is_cell, mark_typed, marks_at,
            paste_between,
        };
    }

    pub mod plan {
        pub use crate::plan::{
            Planned, Target, find, insert_subtree, join_nodes, marks_for, move_node, out_of_range,
            patch_attrs, place, remove_subtree, set_marks, set_root, set_type, splice_text,
            split_node,
        };
    }

    pub mod steps {
        #[cfg(any(test, feature = "__tests"))]
        pub use crate::steps::counted;
        pub use crate::steps::{step, steps};
    }

    pub mod value {
        pub use crate::value::{Payload, check_marks, map, steps};
    }

    pub mod walk {
        pub use crate::walk::{Fork, Walk, between, count, fork};
    }
}

/// The README, whose example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
