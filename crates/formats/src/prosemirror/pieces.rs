//! A line of text as the inline nodes of ProseMirror.

use std::collections::BTreeSet;
use std::ops::Range;

use doclock::document::{Mark, Node};

use super::names::{MarkNames, ProseMirrorNames, TypeMapping};
use crate::OBJECT;
use crate::steps::steps;

/// An inline node of ProseMirror.
pub(super) struct InlinePiece<'v> {
    /// Its characters in the text of the node.
    pub(super) range: Range<usize>,
    pub(super) text: String,
    pub(super) leaf: InlineLeaf<'v>,
    /// Its marks in the order of ProseMirror.
    pub(super) marks: Vec<&'v Mark>,
}

pub(super) enum InlineLeaf<'v> {
    /// Text.
    None,
    /// A hard break.
    Break,
    /// An inline node, with the mark that has its attributes.
    Inline(&'v TypeMapping, &'v Mark),
}

impl InlinePiece<'_> {
    /// Whether both are one text in ProseMirror.
    pub(super) fn is_joined_by(&self, next: &Self) -> bool {
        let says = |mark: &&Mark| (mark.kind.clone(), mark.attributes.clone());
        matches!(
            (&self.leaf, &next.leaf),
            (InlineLeaf::None, InlineLeaf::None)
        ) && self.marks.iter().map(says).eq(next.marks.iter().map(says))
    }

    /// Its size in the positions of ProseMirror.
    pub(super) fn size(&self) -> usize {
        match self.leaf {
            InlineLeaf::None => self.text.encode_utf16().count(),
            InlineLeaf::Break | InlineLeaf::Inline(..) => 1,
        }
    }
}

/// The inline nodes of one text, and the marks that are not written on some of their characters:
/// those that ProseMirror does not have, or not in a node with this content and these marks.
pub(super) fn pieces<'v>(
    node: &'v Node,
    code: bool,
    allowed: &MarkNames,
    names: &'v ProseMirrorNames,
) -> (Vec<InlinePiece<'v>>, Vec<&'v Mark>) {
    let text: Vec<char> = node.text().chars().collect();
    let marks: Vec<&Mark> = node.marks().iter().collect();
    let mut dropped = BTreeSet::new();
    if code {
        let whole = InlinePiece {
            range: 0..text.len(),
            text: text.into_iter().collect(),
            leaf: InlineLeaf::None,
            marks: Vec::new(),
        };
        return (vec![whole], marks);
    }
    let leaves = leaves(&text, &marks, names, &mut dropped);

    // No edge is inside a leaf.
    let outside = |at: &usize| {
        let before = leaves.partition_point(|(leaf, _)| leaf.start < *at);
        before == 0 || leaves[before - 1].0.end <= *at
    };
    let of_marks = marks.iter().map(|mark| range(mark));
    let of_leaves = leaves.iter().map(|(leaf, _)| leaf.clone());
    let ranges = of_marks
        .chain(of_leaves)
        .chain(std::iter::once(0..text.len()));
    let edges = ranges.flat_map(|range| [range.start, range.end]);
    let edges: BTreeSet<usize> = edges.filter(outside).collect();
    let edges: Vec<usize> = edges.into_iter().collect();
    let mut leaves = leaves.into_iter().peekable();
    let (mut ahead, mut open) = (0, Vec::new());
    let mut pieces = Vec::new();
    for edge in edges.windows(2) {
        let &[start, end] = edge else { continue };
        let leaf = leaves.next_if(|(range, _)| range.start == start);
        // The marks are sorted by their starts.
        while marks.get(ahead).is_some_and(|mark| range(mark).start < end) {
            open.push(ahead);
            ahead += 1;
        }
        open.retain(|&nth| range(marks[nth]).end > start);
        steps(open.len());
        let (on, partial): (Vec<usize>, Vec<usize>) = open.iter().partition(|&&nth| {
            let range = range(marks[nth]);
            range.start <= start && range.end >= end
        });
        dropped.extend(partial);
        let leaf = leaf.map_or(InlineLeaf::None, |(_, leaf)| leaf);
        let of_text = matches!(leaf, InlineLeaf::None);
        let chars = text[start..end].iter().map(|&char| match of_text {
            true => names.unescape_newline(char),
            false => char,
        });
        pieces.push(InlinePiece {
            range: start..end,
            text: chars.collect(),
            marks: ranked(&on, &marks, allowed, names, &mut dropped),
            leaf,
        });
    }
    (pieces, dropped.into_iter().map(|nth| marks[nth]).collect())
}

fn range(mark: &Mark) -> Range<usize> {
    mark.range.clone().unwrap_or(0..0)
}

/// The marks of one piece that ProseMirror has, in its order. Of two marks, one of which excludes
/// the other, one is left.
fn ranked<'v>(
    on: &[usize],
    marks: &[&'v Mark],
    allowed: &MarkNames,
    names: &ProseMirrorNames,
    dropped: &mut BTreeSet<usize>,
) -> Vec<&'v Mark> {
    let mut ranked = Vec::new();
    for &nth in on {
        match names.mark_for(marks[nth]) {
            Some((rank, entry)) if allowed.contains(entry) => ranked.push((rank, nth, entry)),
            None if names.inline_for(marks[nth]).is_some() => {}
            _ => drop(dropped.insert(nth)),
        }
    }
    ranked.sort_unstable_by_key(|&(rank, nth, _)| (rank, nth));
    let mut kept: Vec<(usize, &TypeMapping)> = Vec::with_capacity(ranked.len());
    for (_, nth, entry) in ranked {
        if kept.iter().any(|(_, other)| other.marks.contains(entry)) {
            dropped.insert(nth);
            continue;
        }
        kept.retain(|(other, of_other)| {
            let stays = !entry.marks.contains(of_other);
            if !stays {
                dropped.insert(*other);
            }
            stays
        });
        kept.push((nth, entry));
    }
    kept.into_iter().map(|(nth, _)| marks[nth]).collect()
}

/// The inline nodes that are no text, in order, and without overlap.
fn leaves<'v>(
    text: &[char],
    marks: &[&'v Mark],
    names: &'v ProseMirrorNames,
    dropped: &mut BTreeSet<usize>,
) -> Vec<(Range<usize>, InlineLeaf<'v>)> {
    let mut leaves = Vec::new();
    let mut end = 0;
    for (nth, mark) in marks.iter().enumerate() {
        let Some(entry) = names.inline_for(mark) else {
            continue;
        };
        let range = range(mark);
        let objects = text[range.clone()].iter().all(|char| *char == OBJECT);
        // A description is the text of one image.
        let described = names.describes(entry);
        if range.start < end || !(objects || described) {
            dropped.insert(nth);
            continue;
        }
        end = range.end;
        match objects {
            true => leaves.extend(range.map(|at| (at..at + 1, InlineLeaf::Inline(entry, mark)))),
            false => leaves.push((range, InlineLeaf::Inline(entry, mark))),
        }
    }
    if names.has_break() {
        let breaks = text.iter().enumerate().filter(|(_, char)| **char == '\n');
        let inside = |at: usize| {
            let before = leaves.partition_point(|(range, _)| range.start <= at);
            before > 0 && leaves[before - 1].0.end > at
        };
        let breaks = breaks.filter(|(at, _)| !inside(*at));
        let breaks: Vec<_> = breaks
            .map(|(at, _)| (at..at + 1, InlineLeaf::Break))
            .collect();
        leaves.extend(breaks);
        leaves.sort_by_key(|(range, _)| range.start);
    }
    leaves
}

/// The marks of some characters of a text, by their places among these.
pub(super) fn marks_of(text: &Node, range: &Range<usize>) -> Vec<Mark> {
    let marks = text.marks().iter().filter_map(|mark| {
        let of_mark = mark.range.clone()?;
        let (start, end) = (of_mark.start.max(range.start), of_mark.end.min(range.end));
        (start < end).then(|| Mark {
            range: Some(start - range.start..end - range.start),
            ..mark.clone()
        })
    });
    marks.collect()
}
