//! Errors of schemas, and violations of a schema by a document.

use smol_str::SmolStr;

use super::ValueType;
use crate::brief::Brief;
use crate::codes::codes;
use crate::id::NodeId;

/// Why a schema is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// A content expression is invalid.
    #[error("the content of type {kind}: {cause}", kind = Brief(.kind))]
    Content {
        /// The type with the content.
        kind: SmolStr,
        /// The error in the expression.
        #[source]
        cause: ExpressionError,
    },
    /// A name is empty, or contains a character with a meaning in expressions or lists.
    #[error(
        "{name:?} cannot be the name of a {what}: it is empty, or has one of `()|?*+{{}},` or white space in it"
    )]
    Name {
        /// The name.
        name: SmolStr,
        /// The kind of name: `type`, `group` or `mark`.
        what: &'static str,
    },
    /// A mark is named `_`, which means all marks.
    #[error("no mark can be named `_`, which means all marks")]
    MarkUnderscore,
    /// Two types or two marks have the same name, or two types the same role in a table.
    #[error("there are two {what}s named {name}", name = Brief(.name))]
    Duplicate {
        /// The name.
        name: SmolStr,
        /// The kind of name: `type`, `mark` or `table role`.
        what: &'static str,
    },
    /// A group has the name of a type, so the name would be ambiguous in expressions.
    #[error("{name} is both a type and a group", name = Brief(.name))]
    GroupIsType {
        /// The name.
        name: SmolStr,
    },
    /// The schema has too many types or too many marks.
    #[error("the schema has {found} {what}s: the limit is {largest}")]
    TooMany {
        /// The number found.
        found: usize,
        /// The kind: `type` or `mark`.
        what: &'static str,
        /// The largest number allowed.
        largest: usize,
    },
    /// A type allows a mark that the schema does not have.
    #[error("type {kind} allows the mark {mark}, which the schema does not have", kind = Brief(.kind), mark = Brief(.mark))]
    UnknownMark {
        /// The type.
        kind: SmolStr,
        /// The mark.
        mark: SmolStr,
    },
    /// A mark excludes a mark that the schema does not have.
    #[error("mark {kind} excludes the mark {mark}, which the schema does not have", kind = Brief(.kind), mark = Brief(.mark))]
    UnknownExcludedMark {
        /// The mark that excludes the other.
        kind: SmolStr,
        /// The other mark.
        mark: SmolStr,
    },
    /// The type for the root does not exist in the schema.
    #[error("the root requires type {kind}, which the schema does not have", kind = Brief(.kind))]
    UnknownRoot {
        /// The type.
        kind: SmolStr,
    },
    /// Two attributes of a type or a mark have the same name.
    #[error("{of} has two attributes named {attribute}", of = Brief(.of), attribute = Brief(.attribute))]
    DuplicateAttribute {
        /// The type or mark.
        of: SmolStr,
        /// The attribute.
        attribute: SmolStr,
    },
    /// The list of values of an attribute is empty, or one of them is not of the attribute's type.
    #[error(
        "attribute {attribute} of {of} allows no value, or a value that is not of type {expected}", attribute = Brief(.attribute), of = Brief(.of))]
    AttributeValues {
        /// The type or mark.
        of: SmolStr,
        /// The attribute.
        attribute: SmolStr,
        /// The attribute's type.
        expected: ValueType,
    },
    /// A default or an allowed value of an attribute is nested deeper than
    /// [`Attributes::MAX_LEVELS`](crate::Attributes::MAX_LEVELS).
    #[error(
        "a value of attribute {attribute} of {of} is nested {levels} levels deep: the limit is {limit}"
    )]
    TooDeep {
        /// The type or mark.
        of: SmolStr,
        /// The attribute.
        attribute: SmolStr,
        /// The number of nested arrays and objects.
        levels: usize,
        /// The largest number allowed.
        limit: usize,
    },
    /// The default of an attribute is not an allowed value.
    #[error("the default of attribute {attribute} of {of} is not allowed: {fault}", attribute = Brief(.attribute), of = Brief(.of))]
    AttributeDefault {
        /// The type or mark.
        of: SmolStr,
        /// The attribute.
        attribute: SmolStr,
        /// The error in the default.
        #[source]
        fault: AttributeFault,
    },
}

codes! { inherent SchemaError {
    Self::Content { kind, cause } => "schemaContent";
    Self::Name { name, what } => "schemaName";
    Self::MarkUnderscore => "schemaMarkUnderscore";
    Self::Duplicate { name, what } => "schemaDuplicate";
    Self::GroupIsType { name } => "schemaGroupIsType";
    Self::TooMany { found, what, largest } => "schemaTooMany";
    Self::UnknownMark { kind, mark } => "schemaUnknownMark";
    Self::UnknownExcludedMark { kind, mark } => "schemaUnknownExcludedMark";
    Self::UnknownRoot { kind } => "schemaUnknownRoot";
    Self::DuplicateAttribute { of, attribute } => "schemaDuplicateAttribute";
    Self::AttributeValues { of, attribute, expected } => "schemaAttributeValues";
    Self::TooDeep { of, attribute, levels, limit } => "schemaTooDeep";
    Self::AttributeDefault { of, attribute, fault } => "schemaAttributeDefault" {
        of: of,
        attribute: attribute,
        cause: fault,
    };
}}

/// Why a content expression is invalid. Positions count characters from zero.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExpressionError {
    /// The expression has an unexpected character, or ends too early.
    #[error("expected {expected} at character {position}, found {}", FoundChar(*.found))]
    Unexpected {
        /// The position.
        position: usize,
        /// The character found; `None` at the end.
        found: Option<char>,
        /// The expected syntax.
        expected: &'static str,
    },
    /// A name is neither that of a type nor that of a group.
    #[error("{name} at character {position} is neither a type nor a group", name = Brief(.name))]
    UnknownName {
        /// The position of its first occurrence.
        position: usize,
        /// The name.
        name: SmolStr,
    },
    /// A count is too large.
    #[error("the count at character {position} is greater than {largest}")]
    CountTooLarge {
        /// The position.
        position: usize,
        /// The largest count.
        largest: usize,
    },
    /// The minimum of a repetition is greater than its maximum.
    #[error("the counts at character {position} allow at least {min} and at most {max}")]
    CountsReversed {
        /// The position of the opening brace.
        position: usize,
        /// The minimum.
        min: usize,
        /// The maximum.
        max: usize,
    },
    /// Parentheses are nested too deeply.
    #[error("the parenthesis at character {position} is nested deeper than {deepest} levels")]
    TooDeep {
        /// The position of the first parenthesis beyond the limit.
        position: usize,
        /// The largest number of levels.
        deepest: usize,
    },
    /// The expression is too long.
    #[error("the expression has more than {longest} characters")]
    TooLong {
        /// The largest number of characters.
        longest: usize,
    },
    /// The expression is too complex to compile, by itself or together with the previous
    /// expressions.
    #[error(
        "the expression is too complex: too many counted repetitions, or too many ways to match the same children"
    )]
    TooComplex,
}

codes! { inherent ExpressionError {
    Self::Unexpected { position, found, expected } => "expressionUnexpected";
    Self::UnknownName { position, name } => "expressionUnknownName";
    Self::CountTooLarge { position, largest } => "expressionCountTooLarge";
    Self::CountsReversed { position, min, max } => "expressionCountsReversed";
    Self::TooDeep { position, deepest } => "expressionTooDeep";
    Self::TooLong { longest } => "expressionTooLong";
    Self::TooComplex => "expressionTooComplex";
}}

struct FoundChar(Option<char>);

impl std::fmt::Display for FoundChar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(c) => write!(f, "{c:?}"),
            None => f.write_str("the end"),
        }
    }
}

/// A violation of the schema by a node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaViolation {
    /// The schema does not have the node's type.
    #[error("node {id} is of type {kind}, which the schema does not have", id = Brief(.id), kind = Brief(.kind))]
    UnknownType {
        /// The node.
        id: NodeId,
        /// Its type.
        kind: SmolStr,
    },
    /// An attribute of a node is invalid.
    #[error("node {id} of type {kind}: {fault}", id = Brief(.id), kind = Brief(.kind))]
    Attribute {
        /// The node.
        id: NodeId,
        /// Its type.
        kind: SmolStr,
        /// The error in the attribute.
        fault: AttributeFault,
    },
    /// The schema does not have the mark.
    #[error("node {id} has the mark {mark}, which the schema does not have", id = Brief(.id), mark = Brief(.mark))]
    UnknownMark {
        /// The node.
        id: NodeId,
        /// The mark.
        mark: SmolStr,
    },
    /// The node's type does not allow the mark, on its own text or on that of a child.
    #[error("node {id} has the mark {mark}, which its type {kind} does not allow", id = Brief(.id), mark = Brief(.mark), kind = Brief(.kind))]
    MarkNotAllowed {
        /// The node.
        id: NodeId,
        /// Its type.
        kind: SmolStr,
        /// The mark.
        mark: SmolStr,
    },
    /// An attribute of a mark is invalid.
    #[error("mark {mark} of node {id}: {fault}", mark = Brief(.mark), id = Brief(.id))]
    MarkAttribute {
        /// The node.
        id: NodeId,
        /// The mark.
        mark: SmolStr,
        /// The error in the attribute.
        fault: AttributeFault,
    },
    /// The node's type does not allow text.
    #[error("node {id} has text, which its type {kind} does not allow", id = Brief(.id), kind = Brief(.kind))]
    TextNotAllowed {
        /// The node.
        id: NodeId,
        /// Its type.
        kind: SmolStr,
    },
    /// The content of the node's type does not allow a child at its position.
    #[error(
        "node {id} of type {kind} has a child of type {found} at index {index}, where its content `{content}` does not allow it", id = Brief(.id), kind = Brief(.kind), found = Brief(.found), content = Brief(.content))]
    ChildNotAllowed {
        /// The node.
        id: NodeId,
        /// Its type.
        kind: SmolStr,
        /// The content expression.
        content: SmolStr,
        /// The index of the first child that does not fit.
        index: usize,
        /// The type of that child.
        found: SmolStr,
    },
    /// The content of the node's type requires more children.
    #[error("node {id} of type {kind} has {len} children; its content `{content}` requires more", id = Brief(.id), kind = Brief(.kind), content = Brief(.content))]
    ChildrenMissing {
        /// The node.
        id: NodeId,
        /// Its type.
        kind: SmolStr,
        /// The content expression.
        content: SmolStr,
        /// The number of children.
        len: usize,
    },
    /// The root does not have the required type.
    #[error("node {id} is the root and of type {kind}; the root must be of type {expected}", id = Brief(.id), kind = Brief(.kind), expected = Brief(.expected))]
    Root {
        /// The root.
        id: NodeId,
        /// Its type.
        kind: SmolStr,
        /// The required type.
        expected: SmolStr,
    },
}

codes! { inherent SchemaViolation {
    Self::UnknownType { id, kind } => "typeUnknown";
    Self::Attribute { id, kind, fault } => "attributeInvalid" { id: id, kind: kind, cause: fault };
    Self::UnknownMark { id, mark } => "markUnknown";
    Self::MarkNotAllowed { id, kind, mark } => "markNotAllowed";
    Self::MarkAttribute { id, mark, fault } => "markAttributeInvalid" {
        id: id,
        mark: mark,
        cause: fault,
    };
    Self::TextNotAllowed { id, kind } => "textNotAllowed";
    Self::ChildNotAllowed { id, kind, content, index, found } => "childNotAllowed";
    Self::ChildrenMissing { id, kind, content, len } => "childrenMissing";
    Self::Root { id, kind, expected } => "rootTypeInvalid";
}}

impl SchemaViolation {
    /// Returns the node that violates the schema.
    pub fn node_id(&self) -> &NodeId {
        match self {
            Self::UnknownType { id, .. }
            | Self::Attribute { id, .. }
            | Self::UnknownMark { id, .. }
            | Self::MarkNotAllowed { id, .. }
            | Self::MarkAttribute { id, .. }
            | Self::TextNotAllowed { id, .. }
            | Self::ChildNotAllowed { id, .. }
            | Self::ChildrenMissing { id, .. }
            | Self::Root { id, .. } => id,
        }
    }
}

/// Why an attribute is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AttributeFault {
    /// The attribute is required and absent.
    #[error("the attribute {attribute} is missing", attribute = Brief(.attribute))]
    Missing {
        /// The attribute.
        attribute: SmolStr,
    },
    /// The attribute is not in the schema.
    #[error("there is no attribute {attribute}", attribute = Brief(.attribute))]
    Unknown {
        /// The attribute.
        attribute: SmolStr,
    },
    /// The value has the wrong type.
    #[error("the attribute {attribute} has a value of type {found} instead of {expected}", attribute = Brief(.attribute))]
    WrongType {
        /// The attribute.
        attribute: SmolStr,
        /// The required type.
        expected: ValueType,
        /// The type of the value.
        found: ValueType,
    },
    /// The value is not one of the allowed values.
    #[error("the attribute {attribute} has a value that is not allowed", attribute = Brief(.attribute))]
    NotAllowed {
        /// The attribute.
        attribute: SmolStr,
    },
}

codes! { inherent AttributeFault {
    Self::Missing { attribute } => "attributeMissing";
    Self::Unknown { attribute } => "attributeUnknown";
    Self::WrongType { attribute, expected, found } => "attributeWrongType";
    Self::NotAllowed { attribute } => "attributeNotAllowed";
}}
