//! Limits for the transactions of untrusted clients.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Attributes, Change, ChildPosition, Mark, Node, NodeSpec, Selection, Text, View, walk};
use crate::codes::codes;
use crate::hashing::Secret;
use crate::id::NodeId;

/// A resource that a script can use up. See [`Limits`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
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
        match self {
            Self::Operations => "operations",
            Self::Nodes => "nodes",
            Self::Depth => "depth",
            Self::IdBytes => "idBytes",
            Self::NameBytes => "nameBytes",
            Self::Attributes => "attributes",
            Self::Marks => "marks",
            Self::Text => "text",
            Self::Output => "output",
            Self::Steps => "steps",
        }
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
/// [untrusted scripts](https://docs.rs/doclock/latest/doclock/guide/untrusted_scripts/index.html)
/// describes what each limit protects.
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
/// | an operation; eight bytes of text that are searched or copied | 1 |
/// | a value within an attribute that is copied or compared; eight bytes of such values | 1 |
/// | for each change of a text at one position, a mark of it, up to 64 | 1 |
/// | more marks, for each mark at that position | up to 64 |
/// | a mark that is copied, compared or sorted, and each step of its attributes | 2 |
/// | a node that is looked up, such as an ancestor or a child; a child in a new order | 4 |
/// | under a schema, a child between the first edit of its list and the last | 8 |
/// | a node that is moved with its ancestor | 8 |
/// | an offset that is converted from UTF-16 units; a mark has two | 12 |
/// | a primitive change, a match of a pattern | 16 |
/// | a node that is created or deleted; a child whose parent is split or joined | 32 |
/// | a node in a range, or a copied node | 64 |
/// | an input rule, beside the search of its pattern and the check of its outcome | 64 |
/// | 32 parts of a pattern that are looked at: all parts for each step of a search that is new | 1 |
/// | eight siblings searched for a node; 64 siblings passed to reach an index | 1 |
/// | eight places for cells of a table that is edited | 1 |
///
/// The count depends on the document, its schema and the operations alone. So a batch has the same
/// outcome on every machine that repeats it.
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
    #[doc(hidden)]
    pub fn check(&self, limit: Limit, found: usize) -> Result<(), LimitExceeded> {
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

codes! { inherent LimitExceeded {
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

type LimitResult = Result<(), LimitExceeded>;

/// The limits of a transaction, and what it has used of them.
#[derive(Debug)]
pub struct Budget {
    limits: Limits,
    /// Atomic, so that code spends while it reads the document.
    used: [AtomicUsize; Limit::ALL.len()],
    /// How many children at the beginning and at the end of each edited list are unchanged: a
    /// schema checks those between at the commit.
    lists: HashMap<NodeId, [usize; 2], Secret>,
}

/// The costs in steps, or per step.
pub(crate) mod cost {
    /// Bytes of text that are searched or copied in a step.
    pub const BYTES: usize = 8;

    /// Siblings that a search passes in a step.
    pub const SIBLINGS: usize = 8;

    /// Siblings that an access by index passes in a step.
    pub(super) const INDEXED: usize = 64;

    /// Steps of a primitive change, or a match of a pattern.
    pub const CHANGE: usize = 16;

    /// Steps of a node that is looked up.
    pub const LOOKED_UP: usize = 4;

    /// Steps of a node that is moved with its ancestor.
    pub(super) const MOVED: usize = 8;

    /// Steps of a node that is created or deleted, or gets another parent because its parent is
    /// split or joined.
    pub const WRITTEN: usize = 32;

    /// Steps of a node in a range, or a copied node.
    pub const NODE: usize = 64;

    /// Steps of a child among which others are removed, moved or ordered.
    pub const ARRANGED: usize = 4;

    /// Steps of a mark that is copied, compared or sorted, and of each step of its attributes.
    pub(super) const MARK: usize = 2;

    /// Steps of the marks beside a change of a text, and beside each mark at its position. They are
    /// at most as many as all marks of the text.
    pub(super) const BESIDE: usize = 64;

    /// Steps of a rule that is compared with typed text, beside the bytes that it reads.
    pub const RULE: usize = 64;

    /// Steps of an offset that is converted from UTF-16 units.
    pub const CONVERTED: usize = 12;

    /// Steps of marks that are copied, compared or sorted.
    pub fn marks<'a>(marks: impl IntoIterator<Item = &'a super::Mark>) -> usize {
        let steps = |mark: &super::Mark| MARK * (1 + mark.attributes.steps());
        marks.into_iter().map(steps).sum()
    }
}

impl Budget {
    /// A transaction that has used nothing.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            used: Default::default(),
            lists: HashMap::default(),
        }
    }

    /// What the transaction may use.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// How much of a limit is used up.
    pub fn used(&self, limit: Limit) -> usize {
        self.used[limit as usize].load(Ordering::Relaxed)
    }

    /// How much of each limit is used up.
    pub fn all_used(&self) -> [usize; Limit::ALL.len()] {
        Limit::ALL.map(|limit| self.used(limit))
    }

    /// Uses up as much of each limit as before, for work that is repeated.
    pub fn use_again(&self, used: [usize; Limit::ALL.len()]) {
        for (limit, used) in self.used.iter().zip(used) {
            limit.store(used, Ordering::Relaxed);
        }
    }

    /// Uses up an amount of a limit of the whole transaction.
    pub fn spend(&self, limit: Limit, count: usize) -> LimitResult {
        let used = self.used(limit).saturating_add(count);
        self.used[limit as usize].store(used, Ordering::Relaxed);
        self.limits.check(limit, used)
    }

    /// Fails if the transaction cannot use up this amount, too.
    pub fn check(&self, limit: Limit, count: usize) -> LimitResult {
        self.limits
            .check(limit, self.used(limit).saturating_add(count))
    }

    /// How much of a limit is not used up.
    pub fn left(&self, limit: Limit) -> usize {
        self.limits.most(limit).saturating_sub(self.used(limit))
    }

    fn steps(&self, count: usize) -> LimitResult {
        self.spend(Limit::Steps, count)
    }

    pub(crate) fn id(&self, id: &NodeId) -> LimitResult {
        self.limits.check(Limit::IdBytes, id.bytes())?;
        self.bytes(id.bytes())
    }

    /// The name of a type, an attribute, a mark or an alias.
    pub fn name(&self, name: &str) -> LimitResult {
        self.limits.check(Limit::NameBytes, name.len())?;
        self.bytes(name.len())
    }

    /// Characters added to a text, and its new length.
    pub fn text(&self, bytes: usize, characters: usize) -> LimitResult {
        self.limits.check(Limit::Text, characters)?;
        self.bytes(bytes)
    }

    fn value(&self, name: &str, value: &Value) -> LimitResult {
        self.name(name)?;
        super::value::visit_sizes(value, |values, bytes| self.bytes(values + bytes))
    }

    fn values<'a>(&self, values: impl IntoIterator<Item = (&'a str, &'a Value)>) -> LimitResult {
        let mut values = values.into_iter();
        values.try_for_each(|(name, value)| self.value(name, value))
    }

    /// Values that are set or, if `null`, removed.
    pub fn patch(&self, values: &Map<String, Value>) -> LimitResult {
        let set = values.values().filter(|value| !value.is_null()).count();
        self.limits.check(Limit::Attributes, set)?;
        self.values(values.iter().map(|(key, value)| (key.as_str(), value)))
    }

    /// Attributes of a node or of a mark.
    pub fn attributes(&self, attributes: &Attributes) -> LimitResult {
        self.limits.check(Limit::Attributes, attributes.len())?;
        self.values(
            attributes
                .iter()
                .map(|(name, value)| (name.as_str(), value)),
        )
    }

    /// Marks of a text.
    pub fn marks<'a>(&self, marks: impl IntoIterator<Item = &'a Mark>) -> LimitResult {
        let mut count = 0;
        for mark in marks {
            count += 1;
            self.limits.check(Limit::Marks, count)?;
            self.name(&mark.kind)?;
            self.attributes(&mark.attributes)?;
            // It is copied, compared with the others, and sorted.
            self.steps(3 * cost::marks([mark]))?;
        }
        Ok(())
    }

    /// New nodes.
    pub fn spec(&self, spec: &NodeSpec) -> LimitResult {
        self.spend(Limit::Nodes, spec.len())?;
        self.limits.check(Limit::Depth, spec.height())?;
        spec.nodes.iter().try_for_each(|node| {
            node.id.iter().try_for_each(|id| self.id(id))?;
            self.contents(&node.kind, &node.attributes, &node.text, &node.marks)
        })
    }

    /// What a schema is going to check, at the commit, of the lists of children that a change
    /// edits.
    pub fn lists(&mut self, change: &Change, on: &impl View) -> LimitResult {
        match change {
            Change::InsertSubtree { at: Some(at), .. } => self.list(at, 0, 1, on),
            Change::RemoveSubtree { at: Some(at), .. } => self.list(at, 1, 0, on),
            Change::MoveNode { from, to, .. } => {
                let within = |to: &ChildPosition| {
                    let from = from.as_ref().map(|from| &from.parent);
                    usize::from(from == Some(&to.parent))
                };
                from.iter().try_for_each(|from| self.list(from, 1, 0, on))?;
                to.iter()
                    .try_for_each(|to| self.list(to, within(to), 1, on))
            }
            // The children that move have been counted.
            Change::SplitNode { id, at, place, .. } => {
                self.edited(id, [at.children, 0]);
                self.list(place, 0, 1, on)
            }
            Change::JoinNodes { id, at, place, .. } => {
                self.edited(id, [at.children, 0]);
                self.list(place, 1, 0, on)
            }
            _ => Ok(()),
        }
    }

    /// The children between the first edit of a list and the last, as far as they are more than
    /// before this edit.
    fn list(
        &mut self,
        at: &ChildPosition,
        removed: usize,
        inserted: usize,
        on: &impl View,
    ) -> LimitResult {
        let before = on.node(&at.parent).map_or(0, |node| node.children.len());
        let behind = before.saturating_sub(at.index + removed);
        let between = |[first, last]: [usize; 2], len: usize| len.saturating_sub(first + last);
        let known = self.lists.get(&at.parent);
        let checked = known.map_or(0, |unchanged| between(*unchanged, before));
        let unchanged = self.edited(&at.parent, [at.index, behind]);
        let then = between(unchanged, before + inserted - removed.min(before));
        self.steps(2 * cost::LOOKED_UP * then.saturating_sub(checked))
    }

    /// Records an edit that leaves so many children unchanged at both ends. Returns how many are
    /// unchanged by all edits.
    fn edited(&mut self, list: &NodeId, unchanged: [usize; 2]) -> [usize; 2] {
        let known = self.lists.entry(list.clone()).or_insert(unchanged);
        *known = [known[0].min(unchanged[0]), known[1].min(unchanged[1])];
        *known
    }

    /// A change that the transaction is about to make.
    pub fn change(&self, change: &Change, on: &impl View) -> LimitResult {
        self.steps(cost::CHANGE)?;
        match change {
            Change::InsertSubtree { at, nodes } => {
                let above = at.as_ref().map(|at| &at.parent);
                self.spend(Limit::Nodes, nodes.len())?;
                self.siblings(above, on)?;
                self.below(above, levels(nodes.iter().map(|node| &**node)), on)?;
                nodes.iter().try_for_each(|node| self.node(node))
            }
            Change::RemoveSubtree { at, nodes } => {
                self.siblings(at.as_ref().map(|at| &at.parent), on)?;
                let steps = |node: &Arc<Node>| cost::WRITTEN + node.marks.len();
                self.steps(nodes.iter().map(steps).sum())
            }
            Change::MoveNode { id, from, to } => {
                let [from, to] = [from, to].map(|at| at.as_ref().map(|at| &at.parent));
                self.siblings(from, on)?;
                self.siblings(to, on)?;
                // A node that stays under its parent keeps its depth.
                match from == to {
                    true => Ok(()),
                    false => {
                        let most = self.left(Limit::Steps) / cost::MOVED;
                        self.steps(cost::MOVED * walk::count(on, id, most))?;
                        self.below(to, levels(on.descendants(id)), on)
                    }
                }
            }
            Change::SpliceText {
                id,
                at,
                removed,
                inserted,
                marks,
            } => {
                let node = on.node(id);
                let text = node.map_or(0, |node| node.text.len());
                let gone = removed.chars().count();
                let characters = text.saturating_sub(gone) + inserted.chars().count();
                self.text(inserted.len(), characters)?;
                self.steps((removed.len() + inserted.len()) / cost::BYTES)?;
                if let Some(node) = node {
                    let over = *at..at.saturating_add(gone);
                    let near = node.marks.near(&over);
                    let read = cost::BESIDE * (1 + near.len());
                    self.steps(read.min(node.marks.len()))?;
                    // Those that the removed characters have are also copied and sorted.
                    if gone > 0 {
                        let near = near.into_iter().map(|(mark, _)| mark);
                        self.steps(2 * cost::marks(near))?;
                    }
                }
                let added = marks.as_ref().map(|marks| &marks.added);
                added.map_or(Ok(()), |added| self.marks(added.iter()))
            }
            Change::SetMarks { id, marks } => {
                let so_far = on.node(id).map(|node| &node.marks);
                self.steps(so_far.map_or(0, |marks| cost::marks(marks.iter())))?;
                let count = so_far.map_or(0, super::Marks::len);
                let marks_then = (count + marks.added.len()).saturating_sub(marks.removed.len());
                self.limits.check(Limit::Marks, marks_then)?;
                self.marks(marks.added.iter())
            }
            Change::PatchAttrs { id, patches } => {
                let node = on.node(id);
                let so_far = node.map_or(0, |node| node.attributes.len());
                let came = patches
                    .iter()
                    .filter(|patch| patch.before.is_none())
                    .count();
                let went = patches.iter().filter(|patch| patch.after.is_none()).count();
                self.limits
                    .check(Limit::Attributes, (so_far + came).saturating_sub(went))?;
                let attributes = node.map(|node| &node.attributes);
                let patched = |on: &Attributes| on.steps_to_patch(patches.len());
                self.steps(patches.len() + attributes.map_or(0, patched))?;
                self.checked(node)?;
                let mut after = patches.iter().filter_map(|patch| {
                    let after = patch.after.as_ref()?;
                    Some((patch.key.as_str(), after))
                });
                // They are read for what they take.
                let before = patches.iter().filter_map(|patch| {
                    let before = patch.before.as_ref()?;
                    Some(super::value::steps(&patch.key, before))
                });
                self.steps(before.sum())?;
                after.try_for_each(|(key, value)| {
                    self.value(key, value)?;
                    self.steps(super::value::steps(key, value))
                })
            }
            Change::SetType { id, after, .. } => {
                let node = on.node(id);
                let parent = node.and_then(|node| on.node(node.parent()?));
                let siblings = parent.map_or(0, |parent| parent.children.len());
                self.steps(siblings / cost::SIBLINGS)?;
                self.steps(cost::LOOKED_UP * node.map_or(0, |node| node.children.len()))?;
                self.checked(node)?;
                self.name(after)
            }
            Change::SplitNode {
                id,
                at,
                right,
                place,
            } => {
                self.siblings(Some(&place.parent), on)?;
                self.spend(Limit::Nodes, 1)?;
                self.steps(cost::WRITTEN)?;
                if let Some(node) = on.node(id) {
                    self.steps(cost::marks(node.marks.iter()))?;
                    let moved = node.children.len().saturating_sub(at.children);
                    self.steps(cost::WRITTEN * moved)?;
                }
                self.id(&right.id)?;
                self.name(&right.kind)?;
                self.steps(right.attributes.steps())?;
                self.attributes(&right.attributes)
            }
            Change::JoinNodes {
                id, right, place, ..
            } => {
                let (left, right) = (on.node(id), on.node(&right.id));
                let sum = |part: fn(&Node) -> usize| {
                    let both = left.into_iter().chain(right);
                    both.map(part).sum::<usize>()
                };
                self.siblings(Some(&place.parent), on)?;
                self.limits
                    .check(Limit::Text, sum(|node| node.text.len()))?;
                self.limits
                    .check(Limit::Marks, sum(|node| node.marks.len()))?;
                self.steps(sum(|node| node.marks.len() + node.attributes.steps()))?;
                if let Some((left, right)) = left.zip(right) {
                    self.steps(cost::marks(right.marks.iter()))?;
                    if left.marks.meet(left.text.len(), &right.marks) {
                        self.steps(2 * sum(|node| cost::marks(node.marks.iter())))?;
                    }
                    // Each child of the deleted node gets another parent.
                    self.steps(cost::WRITTEN * right.children.len())?;
                }
                Ok(())
            }
            Change::SetSelection { after, .. } => {
                self.marks(after.iter().flat_map(Selection::all_marks))
            }
            Change::SetRoot { .. } => Ok(()),
        }
    }

    fn node(&self, node: &Node) -> LimitResult {
        self.steps(cost::WRITTEN)?;
        self.id(&node.id)?;
        self.contents(&node.kind, &node.attributes, &node.text, node.marks.iter())
    }

    /// The contents of a node other than its id and its children.
    fn contents<'a>(
        &self,
        kind: &str,
        attributes: &Attributes,
        text: &Text,
        marks: impl IntoIterator<Item = &'a Mark>,
    ) -> LimitResult {
        self.name(kind)?;
        self.attributes(attributes)?;
        let bytes = text.bytes();
        self.text(bytes, text.len())?;
        self.steps(attributes.steps() + bytes / cost::BYTES)?;
        self.marks(marks)
    }

    /// What a schema checks in a changed node at the commit.
    fn checked(&self, node: Option<&Node>) -> LimitResult {
        self.steps(node.map_or(0, |node| node.marks.len() + node.attributes.len()))
    }

    /// The siblings of a node that is attached or detached by its index.
    fn siblings(&self, parent: Option<&NodeId>, on: &impl View) -> LimitResult {
        let siblings = parent.and_then(|parent| on.node(parent));
        let siblings = siblings.map_or(0, |parent| parent.children.len());
        self.steps(siblings / cost::INDEXED)
    }

    /// A subtree of so many levels under a parent.
    fn below(&self, parent: Option<&NodeId>, levels: usize, on: &impl View) -> LimitResult {
        let above = parent.map_or(0, |parent| {
            let most = self.limits.most(Limit::Depth);
            1 + on.ancestors(parent).take(most).count()
        });
        // A move also searches them for a cycle.
        self.steps(2 * cost::LOOKED_UP * above)?;
        self.limits.check(Limit::Depth, above + levels)
    }

    fn bytes(&self, count: usize) -> LimitResult {
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
