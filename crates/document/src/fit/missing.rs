//! The children that a node lacks under its schema.

use std::cell::Cell;

use super::node::FitNode;
use super::{Fit, spec_of, unlimited};
use crate::schema::Schema;
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
        let missing = missing_in(after, schema, &id).unwrap_or_default();
        let missing = missing.into_iter();
        all.extend(missing.map(|(index, spec)| (id.clone(), index, spec)));
    }
    all
}

fn missing_in(view: &impl View, schema: &Schema, id: &NodeId) -> Option<Vec<(usize, NodeSpec)>> {
    let is_unsure = Cell::new(false);
    let fit = Fit {
        fills_lines: true,
        ..unlimited(schema, &is_unsure)
    };
    let kind = schema.number_of(view.node(id)?.kind())?;
    let (mut state, mut index) = (fit.start(kind), 0);
    let mut missing = Vec::new();
    let mut add = |new: &FitNode, index: &mut usize| {
        missing.push((*index, spec_of(schema, new)));
        *index += 1;
    };
    for child in view.children(id) {
        let child = schema.number_of(child.kind())?;
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
