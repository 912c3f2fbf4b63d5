//! The serde form of a node, which contains its children.
//!
//! serde recurses over nested nodes, and JSON readers limit that recursion. Writing and reading
//! have the same limit.

use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use smol_str::SmolStr;

use super::{NodeSpec, SpecNode};
use crate::id::NodeId;
use crate::{Attributes, Mark, Text, value};

/// The most nested arrays and objects: those of 60 levels of nodes. JSON readers accept 127, and
/// operations put up to 8 around a node: a list, operation, payload, operations, operation,
/// payload, fragment and nodes.
const MAX_LEVELS: usize = 119;

/// The error for a form with too many levels.
fn fault(levels: usize) -> Option<String> {
    (levels > MAX_LEVELS).then(|| {
        format!("the JSON of the node is nested {levels} levels deep: the limit is {MAX_LEVELS}")
    })
}

impl SpecNode {
    /// The attributes of the node and of its marks.
    fn attributes(&self) -> impl Iterator<Item = &Attributes> {
        let marks = self.marks.iter().map(|mark| &mark.attributes);
        std::iter::once(&self.attributes).chain(marks)
    }

    /// The levels of the form of a node whose children have the given levels.
    fn levels(&self, children: impl Iterator<Item = usize>) -> usize {
        let marks = self.marks.iter().map(|mark| {
            let range = usize::from(mark.range.is_some());
            2 + range.max(levels_of(&mark.attributes))
        });
        let inner = marks.chain(children.map(|child| 1 + child)).max();
        1 + inner.unwrap_or(0).max(levels_of(&self.attributes))
    }
}

/// The levels of the object of attributes. It is omitted if it is empty.
fn levels_of(attributes: &Attributes) -> usize {
    let values = attributes.iter().map(|(_, value)| value::levels(value));
    values.max().map_or(0, |levels| 1 + levels)
}

#[derive(Serialize)]
pub(super) struct Nested<'a> {
    #[serde(rename = "type")]
    pub(super) kind: &'a SmolStr,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: &'a Option<NodeId>,
    #[serde(skip_serializing_if = "Attributes::is_empty")]
    pub(super) attributes: &'a Attributes,
    #[serde(skip_serializing_if = "Text::is_empty")]
    pub(super) text: &'a Text,
    #[serde(skip_serializing_if = "<[Mark]>::is_empty")]
    pub(super) marks: &'a [Mark],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) children: Vec<Nested<'a>>,
}

impl NodeSpec {
    fn levels(&self) -> usize {
        // As in `shape`: the descendants of a node are complete when the node follows.
        let mut tops: Vec<usize> = Vec::new();
        for spec in &self.nodes {
            let children = tops.split_off(tops.len() - spec.children);
            tops.push(spec.levels(children.into_iter()));
        }
        tops.pop().unwrap_or(0)
    }
}

impl Serialize for NodeSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let attributes = self.nodes.iter().flat_map(SpecNode::attributes);
        let mut values = attributes.flat_map(Attributes::iter);
        if let Some(levels) = values.find_map(|(_, value)| value::beyond_limit(value)) {
            return Err(S::Error::custom(format_args!(
                "a value is nested {levels} levels deep: the limit is {}",
                value::MAX_LEVELS
            )));
        }
        if let Some(fault) = fault(self.levels()) {
            return Err(S::Error::custom(fault));
        }
        let mut tops: Vec<Nested<'_>> = Vec::new();
        for spec in &self.nodes {
            let children = tops.split_off(tops.len() - spec.children);
            tops.push(Nested {
                kind: &spec.kind,
                id: &spec.id,
                attributes: &spec.attributes,
                text: &spec.text,
                marks: &spec.marks,
                children,
            });
        }
        tops.pop().serialize(serializer)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OwnedNested {
    #[serde(rename = "type")]
    kind: SmolStr,
    #[serde(default)]
    id: Option<NodeId>,
    #[serde(default)]
    attributes: Attributes,
    #[serde(default)]
    text: Text,
    #[serde(default)]
    marks: Vec<Mark>,
    #[serde(default)]
    children: Vec<MeasuredNode>,
}

/// A node with the number of levels of its form.
struct MeasuredNode {
    spec: NodeSpec,
    levels: usize,
}

impl<'de> Deserialize<'de> for MeasuredNode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let nested = OwnedNested::deserialize(deserializer)?;
        let below: Vec<usize> = nested.children.iter().map(|child| child.levels).collect();
        let spec = NodeSpec::new(nested.kind)
            .with_attributes(nested.attributes)
            .with_text(nested.text)
            .with_marks(nested.marks);
        let spec = match nested.id {
            Some(id) => spec.with_id(id),
            None => spec,
        };
        let levels = spec
            .nodes
            .iter()
            .map(|top| top.levels(below.iter().copied()));
        let levels = levels.max().unwrap_or(0);
        match fault(levels) {
            Some(fault) => Err(D::Error::custom(fault)),
            None => Ok(Self {
                spec: spec.with_children(nested.children.into_iter().map(|child| child.spec)),
                levels,
            }),
        }
    }
}

impl<'de> Deserialize<'de> for NodeSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        MeasuredNode::deserialize(deserializer).map(|measured| measured.spec)
    }
}
