//! Schemas: rules for the node types, attributes, marks and children of a document.
//!
//! **Use it** where other code relies on the shape of documents: a renderer, an export, a front end
//! with a schema of its own. A commit that would violate the schema fails, so every snapshot is
//! valid. **Do not use it** for rules that depend on more than types and attributes: a before-hook
//! (`doclock::transaction::Hooks`) can run any code.
//!
//! ```
//! use doclock::document::NodeSpec;
//! use doclock::schema::{NodeType, Schema};
//! use doclock::{CommitError, DataStore, StoreOptions};
//!
//! let schema = Schema::builder()
//!     .node("page", NodeType::new().content("paragraph+"))
//!     .node("paragraph", NodeType::new().text(true))
//!     .build()?;
//! let store = DataStore::with_options(StoreOptions::new().schema(schema));
//!
//! let mut transaction = store.begin("ann")?;
//! transaction.create(NodeSpec::new("page"))?;
//! let refused = transaction.commit().unwrap_err();
//! assert!(matches!(refused, CommitError::Schema(_)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! In the crate, a schema is written with a [`SchemaBuilder`] or as JSON (`spec`) and compiled
//! once: `expression` parses content expressions, `automaton` makes them fast to check, `content`
//! checks children with them, `attributes` checks attributes. `touched` finds what changes may have
//! made invalid, `check` checks that, and `last` only what the last of the changes have edited.

mod attributes;
mod automaton;
mod check;
mod content;
mod error;
mod expression;
mod fill;
mod last;
mod spec;
mod touched;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use smol_str::SmolStr;

use attributes::AttributeRules;
use automaton::VisitBudget;
pub(crate) use automaton::{StateId, Symbol};
use content::CompiledContent;
pub use error::{AttributeFault, ExpressionError, SchemaError, SchemaViolation};
pub use spec::{AttributeSpec, MarkType, NodeType, SchemaBuilder, TableRole, ValueType};

/// The schema of a document: its node types, and the children, attributes, text and marks of each
/// type.
///
/// A store with a schema (`doclock::StoreOptions::schema`) enforces it for every version of its
/// document. Each commit checks the changed parts once. The
/// [page of schemas](https://docs.rs/doclock/latest/doclock/guide/schema/index.html) describes them completely.
///
/// ```
/// use doclock::{
///     CommitError, DataStore, StoreOptions, document::NodeSpec, schema::{NodeType, Schema},
/// };
///
/// let schema = Schema::builder()
///     .node("page", NodeType::new().content("heading? paragraph+"))
///     .node("heading", NodeType::new())
///     .node("paragraph", NodeType::new())
///     .build()?;
/// let store = DataStore::with_options(StoreOptions::new().schema(schema));
///
/// let mut transaction = store.begin("ann")?;
/// transaction.create(NodeSpec::new("page").with_id("p").with_children([NodeSpec::new("heading")]))?;
/// let CommitError::Schema(violation) = transaction.commit().unwrap_err() else { unreachable!() };
/// assert_eq!(
///     violation.to_string(),
///     "node p of type page has 1 children; its content `heading? paragraph+` requires more",
/// );
/// assert!(store.snapshot().is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The JSON form, for deserialization and serialization; unknown fields are errors:
///
/// ```
/// use doclock::schema::Schema;
///
/// let schema: Schema = serde_json::from_str(r#"{
///     "nodes": {
///         "page": {"content": "block+"},
///         "paragraph": {"group": "block", "content": "inline*"},
///         "heading": {"group": "block", "content": "inline*", "attributes": {"level": {"type": "integer", "default": 1}}},
///         "inline-text": {"group": "inline"}
///     },
///     "marks": {"bold": {}, "link": {"attributes": {"href": {"type": "string", "required": true}}}},
///     "root": "page"
/// }"#)?;
///
/// let error = serde_json::from_str::<Schema>(r#"{"nodes": {"page": {"content": "block+"}}}"#).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "the content of type page: block at character 0 is neither a type nor a group",
/// );
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone)]
pub struct Schema {
    spec: SchemaBuilder,
    types: Vec<TypeRules>,
    numbers: HashMap<SmolStr, Symbol>,
    marks: HashMap<SmolStr, MarkRules>,
    /// The types with a role in a table.
    table_types: Vec<(TableRole, Symbol)>,
}

#[derive(Clone)]
struct MarkRules {
    attributes: AttributeRules,
    /// `None` for all.
    excludes: Option<HashSet<SmolStr>>,
    leaf: Option<bool>,
    inclusive: Option<bool>,
}

#[derive(Clone)]
struct TypeRules {
    content: CompiledContent,
    text: bool,
    /// `None` for all.
    marks: Option<HashSet<SmolStr>>,
    attributes: AttributeRules,
    inline: bool,
    /// Whether the content is a line of text, and whether there can be none.
    line: bool,
    empty: bool,
}

impl TypeRules {
    fn allows(&self, mark: &str) -> bool {
        self.marks.as_ref().is_none_or(|marks| marks.contains(mark))
    }
}

/// The budget for all expressions of one schema, for tests.
#[cfg(feature = "__tests")]
#[doc(hidden)]
pub const ENOUGH: usize = VisitBudget::ENOUGH;

/// The most types, and the most marks, of a schema.
const MOST: usize = 1000;

impl Schema {
    /// Creates a builder for a schema in Rust. A schema in JSON is deserialized instead.
    pub fn builder() -> SchemaBuilder {
        SchemaBuilder::default()
    }

    fn new(spec: SchemaBuilder) -> Result<Self, SchemaError> {
        let numbers = numbered("type", spec.nodes.0.iter().map(|(name, _)| name))?;
        let known = numbered("mark", spec.marks.0.iter().map(|(name, _)| name))?;
        let marks = spec.marks.0.iter().map(|(name, mark)| {
            if name == "_" {
                return Err(SchemaError::MarkUnderscore);
            }
            let rules = MarkRules {
                attributes: AttributeRules::new(name, &mark.attributes, mark.unknown_attributes)?,
                excludes: excluded_marks(name, mark, &known)?,
                leaf: mark.leaf,
                inclusive: mark.inclusive,
            };
            Ok((name.clone(), rules))
        });
        let marks = marks.collect::<Result<HashMap<_, _>, _>>()?;
        let members = members(&spec, &numbers)?;
        let mut budget = VisitBudget::new();
        let types = spec.nodes.0.iter().map(|(name, node)| {
            let source = node.content.clone().unwrap_or_default();
            let members = |name: &str| members.get(name).map(Vec::as_slice);
            let content = CompiledContent::new(&source, members, numbers.len(), &mut budget);
            let content = content.map_err(|cause| SchemaError::Content {
                kind: name.clone(),
                cause,
            })?;
            Ok(TypeRules {
                content,
                text: node.text.unwrap_or(node.content.is_none()),
                marks: allowed_marks(name, node, &marks)?,
                attributes: AttributeRules::new(name, &node.attributes, node.unknown_attributes)?,
                inline: fill::is_inline(name, node, spec.root.as_ref()),
                line: false,
                empty: false,
            })
        });
        let mut types = types.collect::<Result<Vec<_>, _>>()?;
        fill::classify(&mut types);
        match &spec.root {
            Some(kind) if !numbers.contains_key(kind) => {
                return Err(SchemaError::UnknownRoot { kind: kind.clone() });
            }
            _ => {}
        }
        Ok(Self {
            table_types: table_types(&spec)?,
            spec,
            types,
            numbers,
            marks,
        })
    }

    fn symbol(&self, kind: &str) -> Option<Symbol> {
        self.numbers.get(kind).copied()
    }

    fn rules(&self, kind: &str) -> Option<&TypeRules> {
        self.types.get(usize::from(self.symbol(kind)?))
    }
}

/// Numbers these names; each has to be valid and unique.
fn numbered<'a>(
    what: &'static str,
    names: impl ExactSizeIterator<Item = &'a SmolStr>,
) -> Result<HashMap<SmolStr, Symbol>, SchemaError> {
    let found = names.len();
    let largest = MOST;
    if found > largest {
        return Err(SchemaError::TooMany {
            found,
            what,
            largest,
        });
    }
    let mut numbers = HashMap::with_capacity(found);
    for (number, name) in (0..).zip(names) {
        good_name(name, what)?;
        if numbers.insert(name.clone(), number).is_some() {
            let name = name.clone();
            return Err(SchemaError::Duplicate { name, what });
        }
    }
    Ok(numbers)
}

/// The types with a role in a table; no two have the same one.
fn table_types(spec: &SchemaBuilder) -> Result<Vec<(TableRole, Symbol)>, SchemaError> {
    let mut types = Vec::new();
    for (number, (_, node)) in (0..).zip(&spec.nodes.0) {
        let Some(role) = node.table_role else {
            continue;
        };
        if types.iter().any(|(of, _)| *of == role) {
            let (name, what) = (role.name().into(), "table role");
            return Err(SchemaError::Duplicate { name, what });
        }
        types.push((role, number));
    }
    Ok(types)
}

fn good_name(name: &SmolStr, what: &'static str) -> Result<(), SchemaError> {
    match name.is_empty() || name.contains(expression::is_reserved) {
        true => Err(SchemaError::Name {
            name: name.clone(),
            what,
        }),
        false => Ok(()),
    }
}

/// The types that each name of a type or a group includes.
fn members(
    spec: &SchemaBuilder,
    numbers: &HashMap<SmolStr, Symbol>,
) -> Result<BTreeMap<SmolStr, Vec<Symbol>>, SchemaError> {
    let types = numbers
        .iter()
        .map(|(name, &number)| (name.clone(), vec![number]));
    let mut members: BTreeMap<SmolStr, Vec<Symbol>> = types.collect();
    for (number, (_, node)) in (0..).zip(&spec.nodes.0) {
        let groups: HashSet<&str> = node.group.split_whitespace().collect();
        for group in groups {
            let name = SmolStr::new(group);
            good_name(&name, "group")?;
            if numbers.contains_key(&name) {
                return Err(SchemaError::GroupIsType { name });
            }
            members.entry(name).or_default().push(number);
        }
    }
    Ok(members)
}

fn allowed_marks(
    kind: &SmolStr,
    node: &NodeType,
    marks: &HashMap<SmolStr, MarkRules>,
) -> Result<Option<HashSet<SmolStr>>, SchemaError> {
    let Some(allowed) = node.allowed_marks() else {
        return Ok(None);
    };
    let unknown = |mark| SchemaError::UnknownMark {
        kind: kind.clone(),
        mark,
    };
    known_marks(allowed, marks, unknown).map(Some)
}

/// The names in a list of marks. `unknown` makes the error of one that the schema does not have.
fn known_marks<M>(
    list: &str,
    marks: &HashMap<SmolStr, M>,
    unknown: impl Fn(SmolStr) -> SchemaError,
) -> Result<HashSet<SmolStr>, SchemaError> {
    let known = |mark: &str| match marks.contains_key(mark) {
        true => Ok(mark.into()),
        false => Err(unknown(mark.into())),
    };
    list.split_whitespace().map(known).collect()
}

/// The marks that a mark excludes; `None` for all.
fn excluded_marks(
    name: &SmolStr,
    mark: &MarkType,
    marks: &HashMap<SmolStr, Symbol>,
) -> Result<Option<HashSet<SmolStr>>, SchemaError> {
    let Some(excluded) = mark.excludes.as_deref() else {
        return Ok(Some(HashSet::from([name.clone()])));
    };
    if excluded.trim() == "_" {
        return Ok(None);
    }
    let unknown = |mark| SchemaError::UnknownExcludedMark {
        kind: name.clone(),
        mark,
    };
    known_marks(excluded, marks, unknown).map(Some)
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.spec.fmt(f)
    }
}

impl Serialize for Schema {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.spec.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Schema {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spec = SchemaBuilder::deserialize(deserializer)?;
        spec.build().map_err(serde::de::Error::custom)
    }
}
