//! Marks over a range, which may span nodes.

use std::ops::Range;

use serde_json::{Map, Value};
use smol_str::SmolStr;

use super::Edited;
use super::range::Over;
use crate::document::{Attributes, Limit, Mark, Node, plan, value};
use crate::id::NodeId;
use crate::steps::steps;
use crate::store::Draft;
use crate::transaction::error::OperationError;

/// Gives each node of a range new marks, computed from the node and its characters in the range.
fn change(
    on: &mut Draft,
    over: &Over,
    change: impl Fn(&Draft, &Node, &Range<usize>) -> Option<Vec<Mark>>,
) -> Edited {
    for (id, range) in over.pieces(on)? {
        let Some(marks) = change(on, plan::find(on, &id)?, &range) else {
            continue;
        };
        steps(marks.len());
        on.set_marks(&id, marks)?;
    }
    Ok(())
}

/// Texts whose type does not allow the mark are left out, as in ProseMirror.
pub(super) fn apply_mark(
    on: &mut Draft,
    over: &Over,
    kind: &str,
    attributes: &Attributes,
) -> Edited {
    change(on, over, |on, node, range| {
        if !on.allows_mark(node, kind) {
            return None;
        }
        let mut added = Vec::new();
        let rules = Rules::new(on, node);
        let kept = node.marks().cut(range, |part, others| {
            let Some(replaced) = rules.replaced_by(kind, others) else {
                return Vec::new();
            };
            added.push(Mark::new(kind, part).with_attributes(attributes.clone()));
            replaced
        });
        Some(kept.into_iter().chain(added).collect())
    })
}

/// The marks of a node, and which of them stand for leaves.
struct Rules<'a> {
    on: &'a Draft,
    marks: Vec<&'a Mark>,
    leaves: Vec<bool>,
}

impl<'a> Rules<'a> {
    fn new(on: &'a Draft, node: &'a Node) -> Self {
        Self {
            on,
            marks: node.marks().iter().collect(),
            leaves: on.leaves(node.text(), node.marks()),
        }
    }

    /// The marks among these that a new one replaces; `None` if one of them excludes it. A leaf is
    /// replaced by another of its kind only.
    fn replaced_by(&self, kind: &str, others: &[usize]) -> Option<Vec<usize>> {
        let mut replaced = Vec::new();
        for &nth in others {
            let other = &self.marks[nth].kind;
            match self.leaves[nth] {
                true if other == kind => replaced.push(nth),
                true => {}
                false if self.on.excludes(kind, other) => replaced.push(nth),
                false if self.on.excludes(other, kind) => return None,
                false => {}
            }
        }
        Some(replaced)
    }
}

pub(super) fn remove_mark(on: &mut Draft, over: &Over, kind: &str) -> Edited {
    change(on, over, |on, node, range| {
        let rules = Rules::new(on, node);
        let is_gone = |nth: &usize| rules.marks[*nth].kind == kind && !rules.leaves[*nth];
        let kept = node
            .marks()
            .cut(range, |_, on| on.iter().copied().filter(is_gone).collect());
        Some(kept)
    })
}

pub(super) fn toggle_mark(
    on: &mut Draft,
    over: &Over,
    kind: &str,
    attributes: &Attributes,
) -> Edited {
    for (id, range) in over.pieces(on)? {
        let node = plan::find(on, &id)?;
        if on.allows_mark(node, kind) && is_missing(on, node, &range, kind) {
            return apply_mark(on, over, kind, attributes);
        }
    }
    remove_mark(on, over, kind)
}

/// Whether some characters that may have a mark do not have it.
fn is_missing(on: &Draft, node: &Node, range: &Range<usize>, kind: &str) -> bool {
    let rules = Rules::new(on, node);
    let mut is_missing = false;
    node.marks().cut(range, |_, others| {
        let mut kinds = others.iter().map(|&nth| &rules.marks[nth].kind);
        is_missing |=
            !kinds.any(|other| other == kind) && rules.replaced_by(kind, others).is_some();
        Vec::new()
    });
    is_missing
}

pub(super) fn update_mark(
    on: &mut Draft,
    over: &Over,
    kind: &str,
    attributes: &Map<String, Value>,
) -> Edited {
    let mut found = false;
    let patch: usize = attributes
        .iter()
        .map(|(key, value)| value::steps(key, value))
        .sum();
    for (id, range) in over.pieces(on)? {
        let marks = plan::find(on, &id)?.marks().iter();
        for mark in marks.filter(|mark| mark.kind == kind && touches(mark, &range)) {
            found = true;
            // Its attributes are copied.
            on.spend(Limit::Steps, |_| mark.attributes.steps() + patch)?;
        }
    }
    if !found {
        return Err(OperationError::MarkNotFound {
            kind: kind.into(),
            start: over.start.clone(),
            end: over.end.clone(),
        });
    }
    change(on, over, |_, node, range| {
        let marks = node.marks().change_within(range, |mark| {
            Some(match mark.kind == kind {
                true => Mark {
                    attributes: patched(&mark.attributes, attributes),
                    ..mark
                },
                false => mark,
            })
        });
        Some(marks)
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

pub(super) fn clear_formatting(on: &mut Draft, over: &Over) -> Edited {
    change(on, over, |on, node, range| {
        let rules = Rules::new(on, node);
        let is_gone = |nth: &usize| !rules.leaves[*nth];
        let kept = node
            .marks()
            .cut(range, |_, on| on.iter().copied().filter(is_gone).collect());
        Some(kept)
    })
}

/// Replaces all marks of a node but those of leaves for which the new ones have no leaf. Of new
/// marks, one of which excludes the other, the other is left out.
pub(super) fn set_marks(on: &mut Draft, id: &NodeId, marks: Vec<Mark>) -> Edited {
    let node = plan::find(on, id)?;
    let len = node.text().len();
    let given = plan::marks_for(id, marks, len)?;
    let new: Vec<&Mark> = given.iter().collect();
    let of_new = on.leaves(node.text(), &given);
    let mut set = given.cut(&(0..len), |_, others| {
        let (mut kept, mut gone): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
        let formatting = others.iter().copied().filter(|&nth| !of_new[nth]);
        for nth in formatting {
            let excludes = |one: usize, other: usize| on.excludes(&new[one].kind, &new[other].kind);
            if kept
                .iter()
                .any(|&other| excludes(other, nth) && !excludes(nth, other))
            {
                gone.push(nth);
                continue;
            }
            kept.retain(|&other| {
                let stays = !excludes(nth, other) || new[nth].kind == new[other].kind;
                if !stays {
                    gone.push(other);
                }
                stays
            });
            kept.push(nth);
        }
        gone
    });
    let old: Vec<&Mark> = node.marks().iter().collect();
    let of_old = on.leaves(node.text(), node.marks());
    let taken = new.iter().zip(&of_new).filter(|(_, leaf)| **leaf);
    // Joined where they overlap, so that their ends are sorted, too.
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for range in taken.filter_map(|(mark, _)| mark.range.clone()) {
        match ranges.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => ranges.push(range),
        }
    }
    let leaves = old.iter().zip(&of_old).filter(|(_, leaf)| **leaf);
    for (mark, _) in leaves {
        let Range { mut start, end } = mark.range.clone().unwrap_or(0..0);
        let mut parts = Vec::new();
        let first = ranges.partition_point(|other| other.end <= start);
        let others = ranges[first..].iter();
        for other in others.take_while(|other| other.start < end) {
            steps(1);
            parts.push(start..other.start);
            start = start.max(other.end);
        }
        parts.push(start..end);
        let parts = parts.into_iter().filter(|part| !part.is_empty());
        set.extend(parts.map(|part| Mark {
            range: Some(part),
            ..(*mark).clone()
        }));
    }
    Ok(on.set_marks(id, set)?)
}
