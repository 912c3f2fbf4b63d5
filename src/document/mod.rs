//! Documents as values: nodes, the table that holds them, and the changes that lead from one version to the next.
//!
//! This room is pure. It starts no thread, takes no lock and reads no clock. A [`Snapshot`] never changes; an
//! [`Overlay`] is a snapshot plus the nodes that one transaction has changed; a [`Change`] is the only thing that
//! writes to an overlay, and it carries its own inverse.

mod attributes;
mod change;
mod check;
mod children;
mod delta;
mod error;
mod fragment;
mod lease;
mod limits;
mod mark;
mod node;
mod nodes;
mod overlay;
pub(crate) mod plan;
mod query;
mod rebase;
mod schema;
mod selection;
mod since;
mod snapshot;
mod spec;
mod text;
mod touched;
pub(crate) mod value;
mod view;
pub(crate) mod walk;

pub use attributes::Attributes;
pub use change::{AttributePatch, Change, Cut, Half, MarksChange, Place};
pub use check::{Fault, check};
pub use children::Children;
pub use error::EditError;
pub use fragment::Fragment;
pub use lease::{LeaseTarget, LeaseTargets};
pub use limits::{Limit, LimitExceeded, Limits};
pub use mark::{Mark, Marks};
pub use node::Node;
pub use rebase::Conflict;
pub use schema::{
    AttributeFault, AttributeSpec, ExpressionError, MarkType, NodeType, Schema, SchemaBuilder,
    SchemaError, SchemaViolation, ValueType,
};
pub use selection::{NodeSelection, Position, Selection, TextSelection};
pub use snapshot::Snapshot;
pub use spec::{JsonError, NodeSpec};
pub use text::Text;
pub use view::{Descendants, View};

pub(crate) use lease::{Holding, InTheWay, Leases};
pub(crate) use limits::{Budget, cost};
pub(crate) use overlay::{Overlay, Savepoint, same};
#[cfg(all(test, not(loom)))]
pub(crate) use schema::ENOUGH;
pub(crate) use since::{Since, Steps};
