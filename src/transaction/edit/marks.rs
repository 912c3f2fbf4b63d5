//! Marks over a range, which may span nodes.

use std::ops::Range;

use serde_json::{Map, Value};
use smol_str::SmolStr;

use super::Edited;
use super::range::Over;
use crate::document::{Attributes, Mark, Marks, plan};
use crate::steps::steps;
use crate::store::Transaction;
use crate::transaction::error::OperationError;

/// Gives each node of a range new marks, computed from its marks and its characters in the range.
fn change(
    on: &mut Transaction,
    over: &Over,
    change: impl Fn(&Marks, &Range<usize>) -> Vec<Mark>,
) -> Edited {
    for (id, range) in over.pieces(on)? {
        let marks = change(plan::find(on, &id)?.marks(), &range);
        steps(marks.len());
        on.set_marks(&id, marks)?;
    }
    Ok(())
}

pub(super) fn apply_mark(
    on: &mut Transaction,
    over: &Over,
    kind: &str,
    attributes: &Attributes,
) -> Edited {
    change(on, over, |marks, range| {
        let mut marks = without(marks, range, kind);
        marks.push(Mark::new(kind, range.clone()).with_attributes(attributes.clone()));
        marks
    })
}

pub(super) fn remove_mark(on: &mut Transaction, over: &Over, kind: &str) -> Edited {
    change(on, over, |marks, range| without(marks, range, kind))
}

fn without(marks: &Marks, range: &Range<usize>, kind: &str) -> Vec<Mark> {
    marks.change_within(range, |mark| (mark.kind != kind).then_some(mark))
}

pub(super) fn toggle_mark(
    on: &mut Transaction,
    over: &Over,
    kind: &str,
    attributes: &Attributes,
) -> Edited {
    for (id, range) in over.pieces(on)? {
        if !plan::find(on, &id)?.marks().cover(&range, kind) {
            return apply_mark(on, over, kind, attributes);
        }
    }
    remove_mark(on, over, kind)
}

pub(super) fn update_mark(
    on: &mut Transaction,
    over: &Over,
    kind: &str,
    attributes: &Map<String, Value>,
) -> Edited {
    let mut found = false;
    for (id, range) in over.pieces(on)? {
        let mut marks = plan::find(on, &id)?.marks().iter();
        found |= marks.any(|mark| mark.kind == kind && touches(mark, &range));
    }
    if !found {
        return Err(OperationError::MarkNotFound {
            kind: kind.into(),
            start: over.start.clone(),
            end: over.end.clone(),
        });
    }
    change(on, over, |marks, range| {
        marks.change_within(range, |mark| {
            Some(match mark.kind == kind {
                true => Mark {
                    attributes: patched(&mark.attributes, attributes),
                    ..mark
                },
                false => mark,
            })
        })
    })
}

fn touches(mark: &Mark, range: &Range<usize>) -> bool {
    let bounds = mark.range.as_ref();
    bounds.is_some_and(|bounds| bounds.start < range.end && range.start < bounds.end)
}

fn patched(attributes: &Attributes, patch: &Map<String, Value>) -> Attributes {
    let kept = attributes
        .iter()
        .filter(|(key, _)| !patch.contains_key(key.as_str()));
    let kept = kept.map(|(key, value)| (key.clone(), value.clone()));
    let set = patch
        .iter()
        .map(|(key, value)| (SmolStr::new(key), value.clone()));
    kept.chain(set).collect()
}

pub(super) fn clear_formatting(on: &mut Transaction, over: &Over) -> Edited {
    change(on, over, |marks, range| {
        marks.change_within(range, |_| None)
    })
}
