//! Errors of reading ProseMirror's JSON.

use crate::brief::Brief;
use crate::codes::codes;
use crate::document::JsonError;
use crate::document::schema::SchemaViolation;

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
    Self::Json { path, cause } => "proseMirrorJson";
    Self::Text { path, kind, reason } => "proseMirrorText";
    Self::Schema { path, cause } => "proseMirrorSchema";
}}
