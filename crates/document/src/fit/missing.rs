//! The children that a node lacks under its schema.

use std::cell::Cell;

use super::build::LEVELS;
use super::node::FitNode;
use super::specs::spec_of;
use super::{Fit, unlimited};
use crate::schema::{Schema, Symbol};
use crate::{Attributes, Change, NodeId, NodeSpec, View};

/// The new nodes that make the children of nodes what their types require after changes, which led
/// from a valid document `base` to `after`. Each has its parent, and the index at which it is
/// inserted after the ones before it. None are for a node that needs other changes, too.
pub fn missing(
    schema: &Schema,
    base: &impl View,
    after: &impl View,
    changes: &[Change],
) -> Vec<(NodeId, usize, NodeSpec)> {
    let mut all = Vec::new();
    for id in schema.misfits(base, after, changes) {
        let kind = after
            .node(&id)
            .and_then(|node| schema.number_of(node.kind()));
        let children = after
            .children(&id)
            .map(|child| schema.number_of(child.kind()));
        let missing = kind.and_then(|kind| missing_in(schema, kind, children));
        let missing = missing.into_iter().flatten();
        all.extend(missing.map(|(index, spec)| (id.clone(), index, spec)));
    }
    all
}

/// A described node with what it lacks because it was cut at its start, its end or both. The levels
/// say how many nodes are open there, of which it is the outermost.
pub(crate) fn completed(schema: &Schema, spec: NodeSpec, levels: [usize; 2]) -> NodeSpec {
    match spec.height() < LEVELS {
        true => completed_below(schema, spec, levels),
        false => spec,
    }
}

fn completed_below(schema: &Schema, spec: NodeSpec, levels: [usize; 2]) -> NodeSpec {
    let is_block = |kind: &Symbol| !schema.is_text_block(*kind) && !schema.is_inline(*kind);
    let kind = schema.number_of(spec.kind()).filter(is_block);
    let Some(kind) = kind.filter(|_| levels != [0, 0] && spec.text().is_empty()) else {
        return spec;
    };
    let node = NodeSpec::new(spec.kind()).with_attributes(spec.attributes().clone());
    let children = spec.into_children();
    let (last, [start, end]) = (children.len().wrapping_sub(1), levels);
    let open = |nth, at, levels: usize| {
        if nth == at {
            levels.saturating_sub(1)
        } else {
            0
        }
    };
    let children = children.into_iter().enumerate().map(|(nth, child)| {
        completed_below(schema, child, [open(nth, 0, start), open(nth, last, end)])
    });
    let mut children: Vec<NodeSpec> = children.collect();
    let kinds = children.iter().map(|child| schema.number_of(child.kind()));
    for (index, spec) in missing_in(schema, kind, kinds).unwrap_or_default() {
        children.insert(index, spec);
    }
    node.with_children(children)
}

/// The new nodes among children of these types, each with its index after the ones before it.
fn missing_in(
    schema: &Schema,
    kind: Symbol,
    children: impl Iterator<Item = Option<Symbol>>,
) -> Option<Vec<(usize, NodeSpec)>> {
    let is_unsure = Cell::new(false);
    let fit = Fit {
        fills_lines: true,
        ..unlimited(schema, &is_unsure)
    };
    let (mut state, mut index) = (fit.start(kind), 0);
    let mut missing = Vec::new();
    let mut add = |new: &FitNode, index: &mut usize| {
        missing.push((*index, spec_of(schema, new)));
        *index += 1;
    };
    for child in children {
        let child = child?;
        if fit.after_kind(kind, state, child).is_none() {
            let next = [FitNode::empty(child, None, Attributes::default())];
            let new = fit.fill(kind, state, &next, false)?;
            state = fit.after_all(kind, state, &new)?;
            new.iter().for_each(|new| add(new, &mut index));
        }
        state = fit.after_kind(kind, state, child)?;
        index += 1;
    }
    let new = fit.fill(kind, state, &[], true)?;
    new.iter().for_each(|new| add(new, &mut index));
    Some(missing)
}
