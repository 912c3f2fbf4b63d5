//! Fragments: pieces of a document on the clipboard.

use std::collections::HashSet;
use std::ops::Range;

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use super::spec::SpecNode;
use super::walk::{self, Fork};
use super::{Mark, Node, NodeSpec, Position, Text, View};
use crate::id::NodeId;

/// A copied piece of a document: nodes without ids, clipped at both ends of the copied range.
///
/// In JSON:
/// `{"nodes": [{"type": "inline-text", "text": "lo"}], "openStart": true, "openEnd": false}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Fragment {
    /// The nodes, in order.
    pub nodes: Vec<NodeSpec>,
    /// Whether the first node was clipped. A paste then joins it with the content before it.
    #[serde(default)]
    pub open_start: bool,
    /// Whether the last node was clipped. A paste then joins it with the content after it.
    #[serde(default)]
    pub open_end: bool,
    /// How many nodes at the start are open: they began before the copied range, each a child of
    /// the one before it. The first is the first of `nodes`, the last the text in which the range
    /// begins.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub start_levels: usize,
    /// How many nodes at the end are open.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub end_levels: usize,
    /// The nodes around the copied range, without their content, the outermost first, and without
    /// the top of the tree. A paste under a schema uses as many of them as it needs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ancestors: Vec<NodeSpec>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes it so")]
fn is_zero(levels: &usize) -> bool {
    *levels == 0
}

impl Fragment {
    /// The content between two positions, the first not after the second. Within one node, it is a
    /// part of that node; otherwise it is the children of the lowest common ancestor, from the
    /// branch of the first position to that of the second, clipped. An empty range in one node has
    /// no nodes.
    ///
    /// Calls `visit` for each node, and its characters, before it is copied. With `around`, it has
    /// the nodes around it.
    ///
    /// # Errors
    ///
    /// The first error of `visit`.
    #[doc(hidden)]
    pub fn clipped<V: View, E>(
        view: &V,
        start: &Position,
        end: &Position,
        around: bool,
        visit: impl Fn(&Node, &Range<usize>) -> Result<(), E>,
    ) -> Result<Self, E> {
        let ends = view.node(&start.node_id).zip(view.node(&end.node_id));
        let fork = ends.and_then(|(first, last)| walk::fork(view, first, last));
        let Some(fork) = fork.filter(|_| start != end) else {
            return Ok(Self::default());
        };
        let (open_start, open_end) = open(&fork, start, end);
        // Ancestors of the start come before it, so only their wrapping is copied.
        let above = fork.to_one.iter().take(fork.to_one.len().saturating_sub(1));
        let mut copy = FragmentCopy::default();
        for node in above {
            visit(node, &(0..0))?;
            copy.begin(node, 0..0);
        }
        for node in walk::between(view, &start.node_id, &end.node_id) {
            let from = match node.id == start.node_id {
                true => start.offset,
                false => 0,
            };
            let to = match node.id == end.node_id {
                true => end.offset,
                false => node.text.len(),
            };
            visit(node, &(from..to))?;
            copy.begin(node, from..to);
        }
        let fragment = Self {
            nodes: copy.finish(),
            open_start,
            open_end,
            ..Self::default()
        };
        match around {
            true => fragment.within(view, &fork, &visit),
            false => Ok(fragment),
        }
    }

    /// Whole nodes in document order, without the children that are not among them. Calls `visit`
    /// as [`clipped`](Self::clipped) does.
    pub(crate) fn of<'v, E>(
        nodes: impl IntoIterator<Item = &'v Node>,
        visit: impl Fn(&Node, &Range<usize>) -> Result<(), E>,
    ) -> Result<Self, E> {
        let mut copy = FragmentCopy::default();
        for node in nodes {
            let whole = 0..node.text.len();
            visit(node, &whole)?;
            copy.begin(node, whole);
        }
        Ok(Self {
            nodes: copy.finish(),
            ..Self::default()
        })
    }

    /// The same with the nodes around it, and how deep its ends are open.
    fn within<V: View, E>(
        mut self,
        view: &V,
        fork: &Fork<'_>,
        visit: impl Fn(&Node, &Range<usize>) -> Result<(), E>,
    ) -> Result<Self, E> {
        // Within one node, that node is a part of the fragment.
        let is_one = fork.to_one.is_empty() && fork.to_other.is_empty();
        let levels = |way: usize| if is_one { 1 } else { way };
        self.start_levels = levels(fork.to_one.len());
        self.end_levels = levels(fork.to_other.len());
        let common = (!is_one).then_some(fork.common).into_iter();
        for node in common.chain(view.ancestors(&fork.common.id)) {
            visit(node, &(0..0))?;
            if node.parent.is_some() {
                let spec = NodeSpec::new(node.kind.clone());
                let spec = spec.with_attributes(node.attributes.clone());
                self.ancestors.push(spec);
            }
        }
        self.ancestors.reverse();
        Ok(self)
    }

    /// Its nodes, and those around it.
    #[doc(hidden)]
    pub fn all_nodes(&self) -> impl Iterator<Item = &NodeSpec> {
        self.nodes.iter().chain(&self.ancestors)
    }

    /// The same without ids.
    #[doc(hidden)]
    pub fn without_ids(mut self) -> Self {
        let nodes = self.nodes.iter_mut().flat_map(|spec| &mut spec.nodes);
        nodes.for_each(|node| node.id = None);
        self
    }

    /// Whether no node has children.
    #[doc(hidden)]
    pub fn is_flat(&self) -> bool {
        self.nodes.iter().all(|spec| spec.len() == 1)
    }

    /// The types of the nodes that have text.
    #[doc(hidden)]
    pub fn kinds_with_text(&self) -> HashSet<SmolStr> {
        let nodes = self.nodes.iter().flat_map(|spec| &spec.nodes);
        let with_text = nodes.filter(|node| !node.text.is_empty());
        with_text.map(|node| node.kind.clone()).collect()
    }

    /// The text and its marks, if the fragment is only text of the type and attributes of a node.
    #[doc(hidden)]
    pub fn text_like(&self, node: &Node) -> Option<(&Text, &[Mark])> {
        let [spec] = self.nodes.as_slice() else {
            return None;
        };
        let (Some(text), 1) = (spec.nodes.front(), spec.len()) else {
            return None;
        };
        let alike = text.kind == node.kind && text.attributes == node.attributes;
        alike.then_some((&text.text, &text.marks))
    }
}

/// Whether the first branch has content before the start, and the last has content after the end.
fn open(fork: &Fork<'_>, start: &Position, end: &Position) -> (bool, bool) {
    let whole_way = [&[fork.common], fork.to_other.as_slice()].concat();
    // If the end is in a descendant of the start, both share one branch, which begins at the start.
    let to_end = match fork.to_one.is_empty() {
        true => whole_way.as_slice(),
        false => fork.to_other.as_slice(),
    };
    let begins_before = fork.to_one.windows(2).any(|step| {
        let (above, below) = (step[0], step[1]);
        !above.text.is_empty() || above.children.get(0) != Some(&below.id)
    });
    let goes_on = to_end.windows(2).any(|step| {
        let (above, below) = (step[0], step[1]);
        above.children.iter().next_back() != Some(&below.id)
    });
    let last = to_end.last();
    let cut = last.is_some_and(|last| end.offset < last.text.len() || !last.children.is_empty());
    (start.offset > 0 || begins_before, goes_on || cut)
}

/// Nodes that are being copied, in document order.
#[derive(Default)]
struct FragmentCopy<'v> {
    /// Nodes that may get more children, each a child of the previous one.
    open: Vec<(&'v NodeId, SpecNode)>,
    /// The completed nodes of the current tree, each after its descendants.
    done: Vec<SpecNode>,
    tops: Vec<NodeSpec>,
}

impl<'v> FragmentCopy<'v> {
    /// Begins the copy of a node with some of its characters, in its parent if that is being
    /// copied.
    fn begin(&mut self, node: &'v Node, text: Range<usize>) {
        while self
            .open
            .last()
            .is_some_and(|(above, _)| node.parent() != Some(above))
        {
            self.end();
        }
        let spec = SpecNode {
            id: None,
            kind: node.kind.clone(),
            attributes: node.attributes.clone(),
            marks: clipped_marks(node, &text),
            text: clipped_text(node, text),
            children: 0,
        };
        self.open.push((&node.id, spec));
    }

    fn end(&mut self) {
        let Some((_, spec)) = self.open.pop() else {
            return;
        };
        self.done.push(spec);
        match self.open.last_mut() {
            Some((_, above)) => above.children += 1,
            None => {
                let nodes = std::mem::take(&mut self.done);
                self.tops.push(NodeSpec {
                    nodes: nodes.into(),
                });
            }
        }
    }

    fn finish(mut self) -> Vec<NodeSpec> {
        while !self.open.is_empty() {
            self.end();
        }
        self.tops
    }
}

fn clipped_text(node: &Node, range: Range<usize>) -> Text {
    match range == (0..node.text.len()) {
        true => node.text.clone(),
        false => node.text.slice(range).unwrap_or_default().into(),
    }
}

fn clipped_marks(node: &Node, range: &Range<usize>) -> Vec<Mark> {
    let mut marks = node.marks.clone().split_off(range.start);
    marks.split_off(range.len());
    marks.iter().cloned().collect()
}
