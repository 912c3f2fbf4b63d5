//! New nodes for a document, with their content.

use std::cell::Cell;
use std::rc::Rc;

use super::node::{FitBody, FitNode};
use super::reconcile::shifted;
use super::{Fit, unlimited};
use crate::schema::{Schema, Symbol};
use crate::{Fragment, NodeSpec};

/// A new node with the content that it needs.
pub(crate) fn filled(schema: &Schema, kind: Symbol) -> Option<NodeSpec> {
    let node = unlimited(schema, &Cell::new(false)).filled(kind)?;
    Some(spec_of(schema, &node))
}

/// The content of a new node of a type after a fragment is pasted in place of all of it. What the
/// fragment lacks because it was cut is filled in. `None` if it does not fit, or if `spend` returns
/// `false` because there are no more steps.
pub(crate) fn content_with(
    schema: &Schema,
    kind: Symbol,
    fragment: &Fragment,
    spend: &dyn Fn(usize) -> bool,
) -> Option<Vec<NodeSpec>> {
    let is_unsure = Cell::new(false);
    let fit = Fit {
        spend,
        ..unlimited(schema, &is_unsure)
    };
    let (node, slice) = (fit.filled(kind)?, fit.slice_of(fragment)?);
    let node = fit.fitted(&node, 0, node.content_size(), &slice)?;
    Some(content_of(schema, &node))
}

pub(super) fn spec_of(schema: &Schema, node: &FitNode) -> NodeSpec {
    NodeSpec::new(schema.kind_of(node.kind).clone())
        .with_attributes(node.attributes.clone())
        .with_children(content_of(schema, node))
}

fn content_of(schema: &Schema, node: &FitNode) -> Vec<NodeSpec> {
    let are_one = |one: &Rc<FitNode>, other: &Rc<FitNode>| {
        one.is_text() && other.is_text() && one.same_markup(other)
    };
    let parts = node.content().chunk_by(are_one);
    let spec = |part: &[Rc<FitNode>]| {
        let spec = spec_of(schema, part.first()?);
        let (mut text, mut marks, mut len) = (String::new(), Vec::new(), 0);
        for node in part {
            if let FitBody::Text(part) = &node.body {
                text.extend(&part.text);
                marks.extend(shifted(&part.marks, len));
                len += part.text.len();
            }
        }
        Some(match text.is_empty() {
            true => spec,
            false => spec.with_text(text).with_marks(marks),
        })
    };
    parts.filter_map(spec).collect()
}
