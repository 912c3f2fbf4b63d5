//! The definition of a schema, in Rust or in JSON.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use smol_str::SmolStr;

use super::{Schema, SchemaError};
use crate::value;

/// Builds a schema. See [`Schema::builder`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[must_use = "it becomes a schema with `build`"]
pub struct SchemaBuilder {
    pub(super) nodes: Definitions<NodeType>,
    #[serde(default, skip_serializing_if = "Definitions::is_empty")]
    pub(super) marks: Definitions<MarkType>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) root: Option<SmolStr>,
}

impl SchemaBuilder {
    /// Adds a node type.
    pub fn node(mut self, name: impl Into<SmolStr>, spec: NodeType) -> Self {
        self.nodes.0.push((name.into(), spec));
        self
    }

    /// Adds a kind of mark.
    pub fn mark(mut self, name: impl Into<SmolStr>, spec: MarkType) -> Self {
        self.marks.0.push((name.into(), spec));
        self
    }

    /// Sets the type that the root must have, if there is a root. By default any type is allowed.
    pub fn root(mut self, kind: impl Into<SmolStr>) -> Self {
        self.root = Some(kind.into());
        self
    }

    /// Checks and compiles the schema.
    ///
    /// # Errors
    ///
    /// [`SchemaError`]: for example, an expression is malformed, a name is unknown or duplicate, or
    /// a default is not allowed.
    pub fn build(self) -> Result<Schema, SchemaError> {
        Schema::new(self)
    }
}

/// The rules for the nodes of one type.
///
/// In JSON all fields are optional: `{"group": "block", "content": "inline*", "text": false,
/// "marks": "bold link", "attributes": {"level": {"type": "integer", "default": 1}},
/// "unknownAttributes": false, "inline": false, "defining": true, "isolating": false,
/// "code": false, "tableRole": "cell"}`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[must_use]
pub struct NodeType {
    #[serde(default, skip_serializing_if = "SmolStr::is_empty")]
    pub(super) group: SmolStr,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) content: Option<SmolStr>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    marks: Option<SmolStr>,
    #[serde(default, skip_serializing_if = "Definitions::is_empty")]
    pub(super) attributes: Definitions<AttributeSpec>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) unknown_attributes: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) inline: Option<bool>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) defining: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) isolating: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) code: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) table_role: Option<TableRole>,
}

impl NodeType {
    /// Creates a type whose nodes may have text and all marks, but no children and no attributes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the groups of the type, separated by spaces.
    pub fn group(mut self, groups: impl Into<SmolStr>) -> Self {
        self.group = groups.into();
        self
    }

    /// Sets the allowed children and their order: a content expression. By default there are none.
    pub fn content(mut self, expression: impl Into<SmolStr>) -> Self {
        self.content = Some(expression.into());
        self
    }

    /// Sets whether a node may have text. By default it may if no content was set, not even an
    /// empty one.
    pub fn text(mut self, allowed: bool) -> Self {
        self.text = Some(allowed);
        self
    }

    /// Sets the marks that the text may have, and the texts of the children: names separated by
    /// spaces, or `_` for all. By default all marks are allowed.
    pub fn marks(mut self, marks: impl Into<SmolStr>) -> Self {
        self.marks = Some(marks.into());
        self
    }

    /// Adds an attribute.
    pub fn attribute(mut self, name: impl Into<SmolStr>, spec: AttributeSpec) -> Self {
        self.attributes.0.push((name.into(), spec));
        self
    }

    /// Sets whether a node may have attributes without a rule, with any values. By default it may
    /// not.
    pub fn unknown_attributes(mut self, allowed: bool) -> Self {
        self.unknown_attributes = allowed;
        self
    }

    /// Sets whether nodes of the type are parts of a line of text: a text with marks, an image. By
    /// default they are if they may have text and no children, and are in no group `block`.
    ///
    /// Edits of blocks use this, as they do the rules below: a split, a join, a paste. No commit
    /// checks it.
    pub fn inline(mut self, inline: bool) -> Self {
        self.inline = Some(inline);
        self
    }

    /// Sets whether a node of the type stays around content that replaces all of its own, and is
    /// kept around its content by a paste: a heading, a quote, a list item.
    pub fn defining(mut self, defining: bool) -> Self {
        self.defining = defining;
        self
    }

    /// Sets whether edits at the ends of a node of the type stay in it: Backspace at the start of a
    /// table cell does not join it with the cell before it.
    pub fn isolating(mut self, isolating: bool) -> Self {
        self.isolating = isolating;
        self
    }

    /// Sets whether the text of the type is code: without leaves such as images. A newline in it is
    /// a character.
    pub fn code(mut self, code: bool) -> Self {
        self.code = code;
        self
    }

    /// Sets what nodes of the type are in a table. The operations on tables need a type for each
    /// role that they use; two types cannot have the same role.
    ///
    /// ```
    /// use doclock::schema::{NodeType, Schema, TableRole};
    ///
    /// let schema = Schema::builder()
    ///     .node("table", NodeType::new().content("row+").table_role(TableRole::Table))
    ///     .node("row", NodeType::new().content("cell*").table_role(TableRole::Row))
    ///     .node("cell", NodeType::new().content("text*").table_role(TableRole::Cell))
    ///     .node("text", NodeType::new())
    ///     .build()?;
    /// assert!(serde_json::to_string(&schema)?.contains(r#""tableRole":"row""#));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn table_role(mut self, role: TableRole) -> Self {
        self.table_role = Some(role);
        self
    }

    /// The names of the allowed marks; `None` for all.
    pub(super) fn allowed_marks(&self) -> Option<&str> {
        self.marks.as_deref().filter(|marks| marks.trim() != "_")
    }
}

/// What the nodes of a type are in a table, as in the package prosemirror-tables. A table has rows
/// as children, and a row has cells.
///
/// In JSON and in errors: `table`, `row`, `cell`, `header_cell`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TableRole {
    /// A table.
    Table,
    /// A row of a table.
    Row,
    /// A cell. It spans as many columns and rows as its attributes `colspan` and `rowspan` say, 1
    /// without them. `colwidth` is a list with the width of each of its columns.
    Cell,
    /// A cell that is a header, with the same attributes.
    HeaderCell,
}

impl TableRole {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Row => "row",
            Self::Cell => "cell",
            Self::HeaderCell => "header_cell",
        }
    }
}

/// The rules for the marks of one kind.
///
/// In JSON all fields are optional: `{"attributes": {"href": {"type": "string", "required": true}},
/// "unknownAttributes": false, "excludes": "code", "inclusive": true, "leaf": false}`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[must_use]
pub struct MarkType {
    #[serde(default, skip_serializing_if = "Definitions::is_empty")]
    pub(super) attributes: Definitions<AttributeSpec>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) unknown_attributes: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) excludes: Option<SmolStr>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) leaf: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) inclusive: Option<bool>,
}

impl MarkType {
    /// Creates a kind of mark without attributes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an attribute.
    pub fn attribute(mut self, name: impl Into<SmolStr>, spec: AttributeSpec) -> Self {
        self.attributes.0.push((name.into(), spec));
        self
    }

    /// Sets whether a mark may have attributes without a rule, with any values. By default it may
    /// not.
    pub fn unknown_attributes(mut self, allowed: bool) -> Self {
        self.unknown_attributes = allowed;
        self
    }

    /// Sets the marks that the mark excludes: names separated by spaces, `_` for all, the empty
    /// string for none. By default a mark excludes the marks of its own kind.
    ///
    /// An operation that adds the mark removes those that it excludes, and adds it to no character
    /// with a mark that excludes it. A kind that does not exclude itself can be several times on
    /// one character, as comments are. This is a rule for operations, which no commit checks.
    ///
    /// ```
    /// use doclock::dsl::*;
    /// use doclock::schema::{MarkType, NodeType, Schema};
    /// use doclock::{DataStore, Editor, StoreOptions, View};
    ///
    /// let schema = Schema::builder()
    ///     .node("text", NodeType::new())
    ///     .mark("bold", MarkType::new())
    ///     .mark("code", MarkType::new().excludes("_"))
    ///     .build()?;
    /// let ann = Editor::new(DataStore::with_options(StoreOptions::new().schema(schema)), "ann");
    /// ann.execute([
    ///     create(text_node("text", "let x").with_id("t")),
    ///     apply_mark("bold", 0..5).on("t"),
    ///     apply_mark("code", 0..3).on("t"),
    ///     apply_mark("bold", 2..5).on("t"),
    /// ])?;
    /// let snapshot = ann.store().snapshot();
    /// let marks = snapshot.node("t").unwrap().marks().iter();
    /// let marks: Vec<_> = marks.map(|mark| (mark.kind.as_str(), mark.range.clone().unwrap())).collect();
    /// assert_eq!(marks, [("code", 0..3), ("bold", 3..5)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn excludes(mut self, marks: impl Into<SmolStr>) -> Self {
        self.excludes = Some(marks.into());
        self
    }

    /// Sets whether text that is typed at the end of the mark has it, too: so it is with bold text,
    /// and not with a link. By default no mark is inclusive.
    ///
    /// ```
    /// use doclock::dsl::*;
    /// use doclock::schema::{MarkType, NodeType, Schema};
    /// use doclock::{DataStore, Editor, StoreOptions, View};
    ///
    /// let schema = Schema::builder()
    ///     .node("text", NodeType::new())
    ///     .mark("bold", MarkType::new().inclusive(true))
    ///     .build()?;
    /// let ann = Editor::new(DataStore::with_options(StoreOptions::new().schema(schema)), "ann");
    /// ann.execute([
    ///     create(text_node("text", "bold").with_id("t")),
    ///     apply_mark("bold", ..).on("t"),
    ///     insert_text(4, "er").on("t"),
    /// ])?;
    /// let snapshot = ann.store().snapshot();
    /// let marks: Vec<_> = snapshot.node("t").unwrap().marks().iter().collect();
    /// assert_eq!(marks[0].range, Some(0..6));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn inclusive(mut self, inclusive: bool) -> Self {
        self.inclusive = Some(inclusive);
        self
    }

    /// Sets whether the mark stands for a leaf, for example an image or a mention: its characters
    /// are U+FFFC or a description. No operation on marks removes such a mark.
    ///
    /// By default a mark stands for a leaf if it is named `image` or has an attribute `src`. So it
    /// does if it covers nothing but U+FFFC and has no attribute `href`. If several do, it is the
    /// one with attributes.
    pub fn leaf(mut self, leaf: bool) -> Self {
        self.leaf = Some(leaf);
        self
    }
}

/// The rule for one attribute.
///
/// In JSON all fields are optional: `{"type": "integer", "required": true, "default": 1, "values":
/// [1, 2, 3]}`.
///
/// ```
/// use doclock::schema::{AttributeSpec, ValueType};
///
/// let level = AttributeSpec::new(ValueType::Integer).required().with_values([1.into(), 2.into()]);
/// let json = serde_json::json!({"type": "integer", "required": true, "values": [1, 2]});
/// assert_eq!(serde_json::to_value(level).unwrap(), json);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[must_use]
pub struct AttributeSpec {
    #[serde(rename = "type", default)]
    pub(super) value_type: ValueType,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) required: bool,
    #[serde(
        default,
        deserialize_with = "value::option",
        skip_serializing_if = "Option::is_none"
    )]
    pub(super) default: Option<Value>,
    #[serde(
        default,
        deserialize_with = "value::list",
        skip_serializing_if = "Option::is_none"
    )]
    pub(super) values: Option<Vec<Value>>,
}

impl AttributeSpec {
    /// Creates a rule for an optional attribute with values of this type.
    pub fn new(value_type: ValueType) -> Self {
        Self {
            value_type,
            ..Self::default()
        }
    }

    /// Makes the attribute required.
    pub fn required(mut self) -> Self {
        self.required = true;
        self
    }

    /// Sets the default for new nodes and marks without the attribute. `null` stands for no
    /// default.
    pub fn with_default(mut self, value: impl Into<Value>) -> Self {
        self.default = Some(value.into()).filter(|value| !value.is_null());
        self
    }

    /// Sets the only values that the attribute may have.
    pub fn with_values(mut self, values: impl IntoIterator<Item = Value>) -> Self {
        self.values = Some(values.into_iter().collect());
        self
    }
}

/// A type of attribute values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ValueType {
    /// Any value.
    #[default]
    Any,
    /// A string.
    String,
    /// A number, whole or not.
    Number,
    /// A number without a fraction in JSON: `2`, not `2.0`.
    Integer,
    /// `true` or `false`.
    Boolean,
    /// A list of any values.
    Array,
    /// An object with any values.
    Object,
}

/// Formats as the name in JSON.
impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

impl ValueType {
    /// The type of a value. Only `null` has [`ValueType::Any`], and it is not the value of an
    /// attribute.
    pub(super) fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::Any,
            Value::Bool(_) => Self::Boolean,
            Value::Number(number) if number.is_f64() => Self::Number,
            Value::Number(_) => Self::Integer,
            Value::String(_) => Self::String,
            Value::Array(_) => Self::Array,
            Value::Object(_) => Self::Object,
        }
    }

    pub(super) fn takes(self, found: Self) -> bool {
        self == Self::Any || self == found || (self == Self::Number && found == Self::Integer)
    }
}

/// Named values in the order of their definition. In JSON an object.
///
/// Not a map, so duplicate names are detected.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Definitions<T>(pub(super) Vec<(SmolStr, T)>);

impl<T> Definitions<T> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T> Default for Definitions<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Serialize> Serialize for Definitions<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Definitions<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(InOrder(PhantomData))
    }
}

struct InOrder<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for InOrder<T> {
    type Value = Definitions<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut definitions = Definitions::default();
        while let Some(entry) = map.next_entry()? {
            definitions.0.push(entry);
        }
        Ok(definitions)
    }
}
