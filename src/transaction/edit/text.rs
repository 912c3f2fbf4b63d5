//! Text within one node.

use std::ops::Range;

use smol_str::SmolStr;

use super::Edited;
use super::range::reselect;
use crate::document::{EditError, Limit, Mark, OBJECT, Position, View, cost, plan};
use crate::id::NodeId;
use crate::store::Draft;
use crate::transaction::Pattern;
use crate::transaction::error::OperationError;

/// Replaces characters. A mark of equal leaves on both sides does not grow over the new text, which
/// would be neither of them.
pub(super) fn replace(on: &mut Draft, id: &NodeId, range: Range<usize>, text: SmolStr) -> Edited {
    let leaves = leaves_around(on, id, &range)?;
    if leaves.is_empty() || text.is_empty() {
        return Ok(on.replace_text(id, range, text)?);
    }
    let inserted = range.start..range.start + text.chars().count();
    on.replace_text(id, range, text)?;
    let marks = plan::find(on, id)?
        .marks()
        .change_within(&inserted, |mark| {
            let mut leaves = leaves.iter();
            let is_leaf =
                leaves.any(|leaf| leaf.kind == mark.kind && leaf.attributes == mark.attributes);
            (!is_leaf).then_some(mark)
        });
    Ok(on.set_marks(id, marks)?)
}

/// The marks that stand for leaves both before and behind a range.
fn leaves_around(on: &Draft, id: &NodeId, range: &Range<usize>) -> Result<Vec<Mark>, EditError> {
    let node = plan::find(on, id)?;
    if node.marks().is_empty() {
        return Ok(Vec::new());
    }
    let is_object = |at: usize| {
        let char = node.text().slice(at..at + 1);
        char.is_some_and(|char| char.chars().eq([OBJECT]))
    };
    let is_inside = 0 < range.start && range.start <= range.end && range.end < node.text().len();
    if !is_inside || !is_object(range.start - 1) || !is_object(range.end) {
        return Ok(Vec::new());
    }
    let leaves = on.leaves(node.text(), node.marks());
    let around = node.marks().iter().zip(leaves).filter(|(mark, leaf)| {
        let around = mark.range.as_ref();
        let around = around.is_some_and(|of| of.start < range.start && range.end < of.end);
        *leaf && around
    });
    Ok(around.map(|(mark, _)| mark.clone()).collect())
}

/// From the last match to the first, so the offsets of the remaining matches stay valid.
pub(super) fn replace_pattern(
    on: &mut Draft,
    id: &NodeId,
    pattern: &Pattern,
    replacement: &str,
) -> Edited {
    let text = plan::find(on, id)?.text().to_string();
    let (replacements, looked_at) = pattern.replacements(&text, replacement)?;
    // Each match is compared with its replacement.
    let steps = looked_at / cost::BYTES + cost::CHANGE * replacements.len();
    on.spend(Limit::Steps, |_| steps)?;
    for (range, replaced) in replacements.into_iter().rev() {
        on.replace_text(id, range, replaced)?;
    }
    Ok(())
}

/// The characters of the range, if the text has them.
fn within(
    view: &impl View,
    id: &NodeId,
    start: usize,
    end: Option<usize>,
) -> Result<Range<usize>, EditError> {
    let node = plan::find(view, id)?;
    let len = node.text().len();
    let range = start..end.unwrap_or(len);
    match range.start <= range.end && range.end <= len {
        true => Ok(range),
        false => Err(plan::out_of_range(node, &range)),
    }
}

pub(super) fn wrap(
    on: &mut Draft,
    id: &NodeId,
    before: &str,
    after: &str,
    start: usize,
    end: Option<usize>,
) -> Edited {
    let range = within(on, id, start, end)?;
    replace(on, id, range.end..range.end, after.into())?;
    // A caret at the end of the characters moved along with the insertion there.
    let behind = Position::new(id.clone(), range.end + after.chars().count());
    let end = Position::new(id.clone(), range.end);
    reselect(on, |_, place| (*place == behind).then(|| end.clone()))?;
    replace(on, id, range.start..range.start, before.into())
}

pub(super) fn unwrap(
    on: &mut Draft,
    id: &NodeId,
    before: &str,
    after: &str,
    start: usize,
    end: Option<usize>,
) -> Edited {
    let range = within(on, id, start, end)?;
    let text = plan::find(on, id)?.text();
    let has = |part: &Range<usize>, expected: &str| {
        text.slice(part.clone())
            .is_some_and(|found| found == expected)
    };
    let head = range.start..range.start + before.chars().count();
    let tail = range.end.saturating_sub(after.chars().count())..range.end;
    if head.end > tail.start || !has(&head, before) || !has(&tail, after) {
        return Err(OperationError::NotWrapped {
            id: id.clone(),
            before: before.into(),
            after: after.into(),
        });
    }
    on.delete_text(id, tail)?;
    Ok(on.delete_text(id, head)?)
}

pub(super) fn indent_text(
    on: &mut Draft,
    id: &NodeId,
    indent: &str,
    start: usize,
    end: Option<usize>,
) -> Edited {
    let is_empty = |line: &str| line.trim_end_matches(['\r', '\n']).is_empty();
    for at in lines(on, id, start, end, |line| !is_empty(line))? {
        on.insert_text(id, at, indent)?;
    }
    Ok(())
}

pub(super) fn outdent_text(
    on: &mut Draft,
    id: &NodeId,
    indent: &str,
    start: usize,
    end: Option<usize>,
) -> Edited {
    let len = indent.chars().count();
    for at in lines(on, id, start, end, |line| line.starts_with(indent))? {
        on.delete_text(id, at..at + len)?;
    }
    Ok(())
}

/// The starts of the `chosen` lines that the characters reach into, the last first. An empty range
/// reaches into the line that contains it.
fn lines(
    view: &impl View,
    id: &NodeId,
    start: usize,
    end: Option<usize>,
    chosen: impl Fn(&str) -> bool,
) -> Result<Vec<usize>, EditError> {
    let range = within(view, id, start, end)?;
    let last = range.start.max(range.end.saturating_sub(1));
    let text = plan::find(view, id)?.text().to_string();
    let (mut begin, mut begins) = (0, Vec::new());
    for line in text.split_inclusive('\n') {
        let next = begin + line.chars().count();
        let goes_on = range.start < next || !line.ends_with('\n');
        if begin <= last && goes_on && chosen(line) {
            begins.push(begin);
        }
        begin = next;
    }
    begins.reverse();
    Ok(begins)
}
