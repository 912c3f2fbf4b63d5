//! Limits for the transactions of untrusted clients.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Attributes, Change, Mark, Node, NodeSpec, Text, View};
use crate::codes::codes;
use crate::id::NodeId;

/// A resource that a script can use up. See [`Limits`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "camelCase")]
#[strum(serialize_all = "camelCase")]
#[non_exhaustive]
pub enum Limit {
    /// Operations of a transaction. Each operation within a `control` counts, and each that code
    /// runs.
    Operations,
    /// Nodes that a transaction creates, copies, pastes and splits off.
    Nodes,
    /// Levels of a document. A node without a parent is at the first level.
    Depth,
    /// Bytes of an id.
    IdBytes,
    /// Bytes of a name: of a type, an attribute, a mark, an alias, or an idempotency key.
    NameBytes,
    /// Attributes of a node or of a mark.
    Attributes,
    /// Marks of a text.
    Marks,
    /// Characters of a node's text.
    Text,
    /// Bytes that a transaction adds: texts, ids, names and the values of attributes.
    Output,
    /// Steps of a transaction, of about forty nanoseconds each: see [`Limits`].
    Steps,
}

impl Limit {
    /// All limits.
    pub const ALL: [Self; 10] = [
        Self::Operations,
        Self::Nodes,
        Self::Depth,
        Self::IdBytes,
        Self::NameBytes,
        Self::Attributes,
        Self::Marks,
        Self::Text,
        Self::Output,
        Self::Steps,
    ];

    /// Returns the name in JSON and in errors.
    pub fn name(self) -> &'static str {
        self.into()
    }

    const fn of_untrusted(self) -> usize {
        match self {
            Self::Operations | Self::Nodes | Self::Marks => 10_000,
            Self::Depth | Self::NameBytes | Self::Attributes => 256,
            Self::IdBytes => 128,
            Self::Text => 1 << 20,
            Self::Output => 4 << 20,
            Self::Steps => 2 << 20,
        }
    }
}

/// Limits for the scripts of untrusted clients: one number for each [`Limit`].
///
/// The defaults are made for such clients. A manager, an editor or a transaction is unlimited until
/// limits are set. The size of a script is checked before the lock is requested. The size of its
/// effects on the document, including copies, is checked before each change. The page of
/// [untrusted scripts](crate::guide::untrusted_scripts) describes what each limit protects.
///
/// | limit | default |
/// |---|---|
/// | [`Operations`](Limit::Operations) | 10,000 |
/// | [`Nodes`](Limit::Nodes) | 10,000 |
/// | [`Depth`](Limit::Depth) | 256 |
/// | [`IdBytes`](Limit::IdBytes) | 128 |
/// | [`NameBytes`](Limit::NameBytes) | 256 |
/// | [`Attributes`](Limit::Attributes) | 256 |
/// | [`Marks`](Limit::Marks) | 10,000 |
/// | [`Text`](Limit::Text) | 1,048,576 |
/// | [`Output`](Limit::Output) | 4,194,304 |
/// | [`Steps`](Limit::Steps) | 2,097,152 |
///
/// Steps measure the time for which a transaction holds the lock:
///
/// | what | steps |
/// |---|---|
/// | an operation, an attribute, eight bytes of text that are searched or copied | 1 |
/// | a mark of a text, for each change at one position; a mark of an inserted text | 1 |
/// | a mark that an operation on marks reads | 4 |
/// | an offset that is converted from UTF-16 units; a mark has two | 12 |
/// | a node that is deleted, or moved with its ancestor | 8 |
/// | a primitive change, a match of a pattern | 16 |
/// | a node in a range, or a copied node | 64 |
/// | eight siblings searched for a node; 64 siblings passed to insert a node | 1 |
///
/// ```
/// use doclock::{DataStore, TransactionManager, document::{Limit, Limits}, dsl::*};
///
/// let limits = Limits::new().with(Limit::Text, 10);
/// let manager = TransactionManager::new(DataStore::new()).with_limits(limits);
/// let error = manager.execute([create(text_node("paragraph", "hello world"))]).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "operation 0 (create): a text has 11 characters: the limit `text` is 10",
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Limits([usize; Limit::ALL.len()]);

impl Limits {
    /// Creates the default limits, for untrusted clients.
    pub fn new() -> Self {
        Self(Limit::ALL.map(Limit::of_untrusted))
    }

    /// Sets one limit.
    pub fn with(mut self, limit: Limit, most: usize) -> Self {
        self.0[limit as usize] = most;
        self
    }

    /// Returns the value of a limit.
    #[must_use]
    pub fn most(&self, limit: Limit) -> usize {
        self.0[limit as usize]
    }

    /// Fails if `found` exceeds the limit.
    pub(crate) fn check(&self, limit: Limit, found: usize) -> Result<(), LimitExceeded> {
        let most = self.most(limit);
        match found <= most {
            true => Ok(()),
            false => Err(LimitExceeded { limit, most, found }),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::new()
    }
}

/// An error: a script exceeds a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, thiserror::Error)]
#[serde(rename_all = "camelCase")]
#[error("{}: the limit `{}` is {most}", self.excess(), .limit.name())]
#[non_exhaustive]
pub struct LimitExceeded {
    /// The limit.
    pub limit: Limit,
    /// The value of the limit.
    pub most: usize,
    /// The amount found. If the amount grows over the transaction, the sum at the check that
    /// failed.
    pub found: usize,
}

codes! { LimitExceeded {
    Self { limit, most, found } => "limitExceeded", 413;
}}

impl LimitExceeded {
    fn excess(&self) -> String {
        let found = self.found;
        match self.limit {
            Limit::Operations => format!("the transaction has {found} operations"),
            Limit::Nodes => format!("the transaction adds {found} nodes"),
            Limit::Depth => format!("a node is {found} levels deep"),
            Limit::IdBytes => format!("an id has {found} bytes"),
            Limit::NameBytes => format!("a name has {found} bytes"),
            Limit::Attributes => format!("a node or a mark has {found} attributes"),
            Limit::Marks => format!("a text has {found} marks"),
            Limit::Text => format!("a text has {found} characters"),
            Limit::Output => format!("the transaction adds {found} bytes"),
            Limit::Steps => format!("the transaction takes {found} steps"),
        }
    }
}

type Within = Result<(), LimitExceeded>;

/// The limits of a transaction, and what it has used of them.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    limits: Limits,
    used: [usize; Limit::ALL.len()],
}

/// The costs in steps, or per step.
pub(crate) mod cost {
    /// Bytes of text that are searched or copied in a step.
    pub(crate) const BYTES: usize = 8;

    /// Siblings that a search passes in a step.
    pub(crate) const SIBLINGS: usize = 8;

    /// Siblings that an access by index passes in a step.
    pub(super) const INDEXED: usize = 64;

    /// Steps of a primitive change, or a match of a pattern.
    pub(crate) const CHANGE: usize = 16;

    /// Steps of a node that is deleted, or moved with its ancestor.
    pub(super) const MOVED: usize = 8;

    /// Steps of a node in a range, or a copied node.
    pub(crate) const NODE: usize = 64;

    /// Steps of a mark that an operation on marks reads.
    pub(crate) const MARK: usize = 4;

    /// Steps of an offset that is converted from UTF-16 units.
    pub(crate) const CONVERTED: usize = 12;
}

impl Budget {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            used: [0; Limit::ALL.len()],
        }
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Uses up an amount of a limit of the whole transaction.
    pub(crate) fn spend(&mut self, limit: Limit, count: usize) -> Within {
        let used = &mut self.used[limit as usize];
        *used = used.saturating_add(count);
        self.limits.check(limit, *used)
    }

    pub(crate) fn id(&mut self, id: &NodeId) -> Within {
        self.limits.check(Limit::IdBytes, id.bytes())?;
        self.bytes(id.bytes())
    }

    pub(crate) fn name(&mut self, name: &str) -> Within {
        self.limits.check(Limit::NameBytes, name.len())?;
        self.bytes(name.len())
    }

    /// Characters added to a text, and its new length.
    pub(crate) fn text(&mut self, bytes: usize, characters: usize) -> Within {
        self.limits.check(Limit::Text, characters)?;
        self.bytes(bytes)
    }

    fn value(&mut self, name: &str, value: &Value) -> Within {
        self.name(name)?;
        super::value::visit_sizes(value, |values, bytes| self.bytes(values + bytes))
    }

    fn values<'a>(&mut self, values: impl IntoIterator<Item = (&'a str, &'a Value)>) -> Within {
        let mut values = values.into_iter();
        values.try_for_each(|(name, value)| self.value(name, value))
    }

    /// Values that are set or, if `null`, removed.
    pub(crate) fn patch(&mut self, values: &Map<String, Value>) -> Within {
        let set = values.values().filter(|value| !value.is_null()).count();
        self.limits.check(Limit::Attributes, set)?;
        self.values(values.iter().map(|(key, value)| (key.as_str(), value)))
    }

    pub(crate) fn attributes(&mut self, attributes: &Attributes) -> Within {
        self.limits.check(Limit::Attributes, attributes.len())?;
        self.values(
            attributes
                .iter()
                .map(|(name, value)| (name.as_str(), value)),
        )
    }

    pub(crate) fn marks<'a>(&mut self, marks: impl IntoIterator<Item = &'a Mark>) -> Within {
        let mut count = 0;
        for mark in marks {
            count += 1;
            self.limits.check(Limit::Marks, count)?;
            self.name(&mark.kind)?;
            self.attributes(&mark.attributes)?;
        }
        self.spend(Limit::Steps, count)
    }

    /// New nodes.
    pub(crate) fn spec(&mut self, spec: &NodeSpec) -> Within {
        self.spend(Limit::Nodes, spec.len())?;
        self.limits.check(Limit::Depth, spec.height())?;
        spec.nodes.iter().try_for_each(|node| {
            node.id.iter().try_for_each(|id| self.id(id))?;
            self.contents(&node.kind, &node.attributes, &node.text, &node.marks)
        })
    }

    /// A change that the transaction is about to make.
    pub(crate) fn change(&mut self, change: &Change, on: &impl View) -> Within {
        self.spend(Limit::Steps, cost::CHANGE)?;
        match change {
            Change::InsertSubtree { at, nodes } => {
                let above = at.as_ref().map(|at| &at.parent);
                self.spend(Limit::Nodes, nodes.len())?;
                self.siblings(above, cost::INDEXED, on)?;
                self.below(above, levels(nodes.iter().map(|node| &**node)), on)?;
                nodes.iter().try_for_each(|node| self.node(node))
            }
            Change::RemoveSubtree { at, nodes } => {
                let above = at.as_ref().map(|at| &at.parent);
                self.siblings(above, cost::SIBLINGS, on)?;
                self.spend(Limit::Steps, cost::MOVED * nodes.len())
            }
            Change::MoveNode { id, from, to } => {
                let [from, to] = [from, to].map(|at| at.as_ref().map(|at| &at.parent));
                self.siblings(from, cost::SIBLINGS, on)?;
                self.siblings(to, cost::INDEXED, on)?;
                // A node that stays under its parent keeps its depth.
                match from == to {
                    true => Ok(()),
                    false => {
                        let subtree = on.descendants(id);
                        let mut looked_at = 0;
                        let levels = levels(subtree.inspect(|_| looked_at += 1));
                        self.spend(Limit::Steps, cost::MOVED * looked_at)?;
                        self.below(to, levels, on)
                    }
                }
            }
            Change::SpliceText {
                id,
                removed,
                inserted,
                marks,
                ..
            } => {
                let node = on.node(id);
                let text = node.map_or(0, |node| node.text.len());
                let gone = removed.chars().count();
                let characters = text.saturating_sub(gone) + inserted.chars().count();
                self.text(inserted.len(), characters)?;
                self.spend(Limit::Steps, (removed.len() + inserted.len()) / cost::BYTES)?;
                // All of them are read, and those after the position are shifted.
                self.spend(Limit::Steps, node.map_or(0, |node| node.marks.len()))?;
                let added = marks.as_ref().map(|marks| &marks.added);
                added.map_or(Ok(()), |added| self.marks(added.iter()))
            }
            Change::SetMarks { id, marks } => {
                let so_far = on.node(id).map_or(0, |node| node.marks.len());
                let marks_then = (so_far + marks.added.len()).saturating_sub(marks.removed.len());
                self.limits.check(Limit::Marks, marks_then)?;
                self.marks(marks.added.iter())
            }
            Change::PatchAttrs { id, patches } => {
                let attributes = on.node(id).map(|node| &node.attributes);
                let so_far = attributes.map_or(0, Attributes::len);
                let came = patches
                    .iter()
                    .filter(|patch| patch.before.is_none())
                    .count();
                let went = patches.iter().filter(|patch| patch.after.is_none()).count();
                self.limits
                    .check(Limit::Attributes, (so_far + came).saturating_sub(went))?;
                self.spend(Limit::Steps, so_far / cost::BYTES + patches.len())?;
                let after = patches.iter().filter_map(|patch| {
                    let after = patch.after.as_ref()?;
                    Some((patch.key.as_str(), after))
                });
                self.values(after)
            }
            Change::SetType { after, .. } => self.name(after),
            Change::SplitNode {
                id, right, place, ..
            } => {
                let marks = on.node(id).map_or(0, |node| node.marks.len());
                self.siblings(Some(&place.parent), cost::SIBLINGS, on)?;
                self.spend(Limit::Nodes, 1)?;
                self.spend(Limit::Steps, marks)?;
                self.id(&right.id)?;
                self.name(&right.kind)?;
                self.attributes(&right.attributes)
            }
            Change::JoinNodes {
                id, right, place, ..
            } => {
                let nodes = [id, &right.id].map(|id| on.node(id));
                let sum =
                    |part: fn(&Node) -> usize| nodes.iter().flatten().map(|node| part(node)).sum();
                self.siblings(Some(&place.parent), cost::SIBLINGS, on)?;
                self.limits
                    .check(Limit::Text, sum(|node| node.text.len()))?;
                self.limits
                    .check(Limit::Marks, sum(|node| node.marks.len()))?;
                self.spend(Limit::Steps, sum(|node| node.marks.len()))?;
                // Each child of the deleted node gets another parent.
                let moved = nodes[1].map_or(0, |node| node.children.len());
                self.spend(Limit::Steps, cost::MOVED * moved)
            }
            Change::SetRoot { .. } | Change::SetSelection { .. } => Ok(()),
        }
    }

    fn node(&mut self, node: &Node) -> Within {
        self.spend(Limit::Steps, 1)?;
        self.id(&node.id)?;
        self.contents(&node.kind, &node.attributes, &node.text, node.marks.iter())
    }

    /// The contents of a node other than its id and its children.
    fn contents<'a>(
        &mut self,
        kind: &str,
        attributes: &Attributes,
        text: &Text,
        marks: impl IntoIterator<Item = &'a Mark>,
    ) -> Within {
        self.name(kind)?;
        self.attributes(attributes)?;
        self.text(text.chunks().map(str::len).sum(), text.len())?;
        self.marks(marks)
    }

    /// The siblings of an attached or detached node, so many in a step.
    fn siblings(&mut self, parent: Option<&NodeId>, in_a_step: usize, on: &impl View) -> Within {
        let siblings = parent.and_then(|parent| on.node(parent));
        let siblings = siblings.map_or(0, |parent| parent.children.len());
        self.spend(Limit::Steps, siblings / in_a_step)
    }

    /// A subtree of so many levels under a parent.
    fn below(&mut self, parent: Option<&NodeId>, levels: usize, on: &impl View) -> Within {
        let above = parent.map_or(0, |parent| {
            let most = self.limits.most(Limit::Depth);
            1 + on.ancestors(parent).take(most).count()
        });
        self.spend(Limit::Steps, above)?;
        self.limits.check(Limit::Depth, above + levels)
    }

    fn bytes(&mut self, count: usize) -> Within {
        self.spend(Limit::Output, count)
    }
}

/// The number of levels of a subtree in document order.
fn levels<'a>(nodes: impl Iterator<Item = &'a Node>) -> usize {
    // The number of remaining children of each ancestor of the next node.
    let mut ahead: Vec<usize> = Vec::new();
    let mut deepest = 0;
    for node in nodes {
        while ahead.pop_if(|left| *left == 0).is_some() {}
        if let Some(left) = ahead.last_mut() {
            *left -= 1;
        }
        ahead.push(node.children.len());
        deepest = deepest.max(ahead.len());
    }
    deepest
}
