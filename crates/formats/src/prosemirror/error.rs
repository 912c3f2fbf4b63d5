//! Errors of reading ProseMirror's JSON.

use std::fmt;

use doclock::{
    NodeId,
    codes::{Brief, codes},
    document::{Attributes, EditError, JsonError},
    schema::{SchemaError, SchemaViolation},
};
use smol_str::SmolStr;

use super::names::TypeMapping;
use crate::dropped::Dropped;

/// Names that do not determine the types of ProseMirror. The names of the types are those of
/// ProseMirror but for `document`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProseMirrorNamesError {
    /// A node of the document could be two types.
    #[error("{first} and {second} are both {document}{}", Where(.attributes, .parent.as_ref()),
        first = Brief(.first), second = Brief(.second), document = Brief(.document))]
    Ambiguous {
        /// The type in the document.
        document: SmolStr,
        /// The type that was defined last.
        first: SmolStr,
        /// The type that was defined before it.
        second: SmolStr,
        /// The attributes in the document with which a node is both types.
        attributes: Attributes,
        /// The type of the parent in which it is both, if only there.
        parent: Option<SmolStr>,
    },
    /// Some nodes of a type of the document have no type.
    #[error("{first} is {document} only{}, and no type is {document} elsewhere",
        Where(.attributes, .parent.as_ref()), first = Brief(.first), document = Brief(.document))]
    Incomplete {
        /// The type in the document.
        document: SmolStr,
        /// A type that some of its nodes have.
        first: SmolStr,
        /// The attributes in the document with which a node has this type.
        attributes: Attributes,
        /// The type of the parent in which a node has this type, if only there.
        parent: Option<SmolStr>,
    },
    /// A definition has no meaning.
    #[error("{first} cannot be {document}: {reason}",
        first = Brief(.first), document = Brief(.document))]
    Definition {
        /// The type in the document.
        document: SmolStr,
        /// The type that was defined.
        first: SmolStr,
        /// What is wrong.
        reason: &'static str,
    },
    /// The types have no schema: for example, a name is not allowed in one.
    #[error("{cause}")]
    Schema {
        /// The error of the schema.
        #[source]
        cause: SchemaError,
    },
}

codes! { ProseMirrorNamesError {
    Self::Ambiguous { document, first, second, attributes, parent } => "proseMirrorNamesAmbiguous", 500;
    Self::Incomplete { document, first, attributes, parent } => "proseMirrorNamesIncomplete", 500;
    Self::Definition { document, first, reason } => "proseMirrorNamesDefinition", 500;
    Self::Schema { cause } => "proseMirrorNamesSchema", 500;
}}

impl ProseMirrorNamesError {
    pub(super) fn ambiguous(first: &TypeMapping, second: &TypeMapping) -> Self {
        let attributes = first.fixed.iter().chain(&second.fixed).cloned();
        Self::Ambiguous {
            document: first.document.clone(),
            first: first.prosemirror.clone(),
            second: second.prosemirror.clone(),
            attributes: attributes.collect(),
            parent: first.parent.clone(),
        }
    }

    pub(super) fn definition(entry: &TypeMapping, reason: &'static str) -> Self {
        Self::Definition {
            document: entry.document.clone(),
            first: entry.prosemirror.clone(),
            reason,
        }
    }

    pub(super) fn incomplete(entry: &TypeMapping) -> Self {
        Self::Incomplete {
            document: entry.document.clone(),
            first: entry.prosemirror.clone(),
            attributes: entry.fixed.iter().cloned().collect(),
            parent: entry.parent.clone(),
        }
    }
}

/// The attributes and the parent of a definition: ` where header is true`, ` in taskList`.
struct Where<'a>(&'a Attributes, Option<&'a SmolStr>);

impl fmt::Display for Where<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, (name, value)) in self.0.iter().enumerate() {
            let word = if nth == 0 { "where" } else { "and" };
            let value = value.to_string();
            write!(f, " {word} {} is {}", Brief(name), Brief(&value))?;
        }
        self.1
            .map_or(Ok(()), |parent| write!(f, " in {}", Brief(parent)))
    }
}

/// Why a text is not a document or a step of ProseMirror.
///
/// The path leads from the top to the part, for example `content[2].content[0].marks[1]`. The path
/// of the top is `.`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProseMirrorError {
    /// The text is not JSON, or it is JSON of another form: a field is missing, unknown or of
    /// another type, or nodes nest too deep.
    #[error("{cause}, in {path}", path = Brief(.path))]
    Json {
        /// The path to the part.
        path: String,
        /// The line, the column and the reason.
        #[source]
        cause: JsonError,
    },
    /// A node of type `text` has no text, or another node has one.
    #[error("node {path} of type {kind} {reason}", path = Brief(.path), kind = Brief(.kind))]
    Text {
        /// The path to the node.
        path: String,
        /// Its type.
        kind: String,
        /// What is wrong.
        reason: &'static str,
    },
    /// The type of a step is none of ProseMirror's.
    #[error("steps of type {step_type} are not supported", step_type = Brief(.step_type))]
    StepType {
        /// The type.
        step_type: String,
    },
    /// A step has parts that the document cannot express.
    #[error(
        "the step has {} parts that the document cannot express, first {}",
        .dropped.len(), FirstDropped(.dropped)
    )]
    Dropped {
        /// The parts, each with the path to the first.
        dropped: Vec<Dropped<String>>,
    },
    /// The slice of a step is open deeper than it nests, or its position for the kept content is
    /// outside of it.
    #[error("the slice of the step {reason}")]
    Slice {
        /// What is wrong.
        reason: &'static str,
    },
    /// The document does not follow the schema.
    #[error("{cause}")]
    Schema {
        /// The path to the node, which is its id in `cause`.
        path: String,
        /// The rule that it violates.
        #[source]
        cause: SchemaViolation,
    },
}

codes! { ProseMirrorError {
    Self::Json { path, cause } => "proseMirrorJson", 400;
    Self::Text { path, kind, reason } => "proseMirrorText";
    Self::StepType { step_type } => "proseMirrorStepType";
    Self::Dropped { dropped } => "proseMirrorDropped";
    Self::Slice { reason } => "proseMirrorSlice";
    Self::Schema { path, cause } => "proseMirrorSchema";
}}

struct FirstDropped<'a>(&'a [Dropped<String>]);

impl fmt::Display for FirstDropped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = self.0.first().map_or("", |dropped| &dropped.first);
        write!(f, "{}", Brief(first))
    }
}

/// Why a step does not fit the document. The document is unchanged.
///
/// Positions are those of the step.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StepError {
    /// The position is beyond the end of the document.
    #[error("position {position} is out of range: the document has the size {size}")]
    OutOfRange {
        /// The position.
        position: usize,
        /// The size of the content of the document.
        size: usize,
    },
    /// The step does not fit at the position.
    #[error("the step does not fit at position {position}: {reason}")]
    Misfit {
        /// The position.
        position: usize,
        /// The reason.
        reason: &'static str,
    },
    /// The step would join two nodes whose contents are not compatible.
    #[error("the step cannot join {right} onto {left} at position {position}", left = Brief(.left), right = Brief(.right))]
    Join {
        /// The position.
        position: usize,
        /// The type of the node that would stay, in the document.
        left: String,
        /// The type of the other node.
        right: String,
    },
    /// The result would violate the schema of the store.
    #[error("the step does not fit at position {position}: {cause}")]
    Schema {
        /// The position.
        position: usize,
        /// The violation.
        #[source]
        cause: SchemaViolation,
    },
    /// A node of the document is not as [`from_prosemirror`](super::from_prosemirror) makes it, so
    /// positions have no meaning.
    #[error("node {id} has no counterpart in ProseMirror: {reason}", id = Brief(.id))]
    Shape {
        /// The node.
        id: NodeId,
        /// What differs.
        reason: &'static str,
    },
    /// An edit failed.
    #[error("the step failed at position {position}: {cause}")]
    Edit {
        /// The position.
        position: usize,
        /// The error of the edit.
        #[source]
        cause: EditError,
    },
}

codes! { StepError {
    Self::OutOfRange { position, size } => "stepOutOfRange";
    Self::Misfit { position, reason } => "stepMisfit";
    Self::Join { position, left, right } => "stepJoin";
    Self::Schema { position, cause } => "stepSchema";
    Self::Shape { id, reason } => "stepShape";
    Self::Edit { position, cause } => "stepEdit" if cause.retry(), cause.http_status();
}}
