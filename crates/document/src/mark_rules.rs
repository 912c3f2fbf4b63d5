//! What a schema says about the marks of a text: which of them exclude, replace or remove others.

use std::ops::Range;

use crate::schema::Schema;
use crate::steps::steps;
use crate::{Attributes, EditError, Mark, Marks, Node, Text, View, plan};

/// The rules of a schema for marks, or those without a schema.
#[derive(Clone, Copy, Debug)]
pub struct MarkRules<'s>(pub Option<&'s Schema>);

/// How far characters have a mark that they may have.
#[derive(Clone, Copy, Debug, Default)]
pub struct MarkCoverage {
    has_words: bool,
    is_missing: bool,
    is_missing_in_words: bool,
}

impl MarkCoverage {
    /// That of two texts.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            has_words: self.has_words || other.has_words,
            is_missing: self.is_missing || other.is_missing,
            is_missing_in_words: self.is_missing_in_words || other.is_missing_in_words,
        }
    }

    /// Whether some do not have it. White space counts only if there is nothing else.
    pub fn is_missing(self) -> bool {
        self.is_missing_in_words || self.is_missing && !self.has_words
    }
}

impl<'s> MarkRules<'s> {
    /// Whether a mark excludes another: by default one of its own kind.
    pub fn excludes(self, mark: &str, other: &str) -> bool {
        let schema = self.0;
        schema.map_or(mark == other, |schema| schema.excludes(mark, other))
    }

    /// Whether a mark is allowed on the text of a node. A text block says so for the texts in it.
    pub fn allows(self, view: &impl View, node: &Node, mark: &str) -> bool {
        self.0.is_none_or(|schema| {
            let is_block = schema.has_line(node.kind()) && !schema.is_in_line(node.kind());
            let parent = node.parent().filter(|_| !is_block);
            let parent = parent.and_then(|parent| view.node(parent));
            let mut kinds = std::iter::once(node).chain(parent).map(Node::kind);
            kinds.all(|kind| schema.allows_mark(kind, mark))
        })
    }

    /// Checks that a node may be given a mark with these attributes.
    ///
    /// # Errors
    ///
    /// The schema does not have the mark, or does not allow it or its attributes there.
    pub fn check(self, node: &Node, mark: &Mark) -> Result<(), EditError> {
        match self.0 {
            Some(schema) => Ok(schema.check_new_mark(node, mark)?),
            None => Ok(()),
        }
    }

    /// For each of these marks on a text whether it stands for a leaf.
    pub fn leaves(self, text: &Text, marks: &Marks) -> Vec<bool> {
        marks.leaves(text, |kind| self.0.and_then(|schema| schema.is_leaf(kind)))
    }

    /// The marks next to an offset that text typed there has, because the schema says so.
    pub fn that_go_on(self, node: &Node, at: usize) -> Vec<Mark> {
        let Some(schema) = self.0 else {
            return Vec::new();
        };
        let near = node.marks().touching(&(at..at));
        let marks = near.iter().filter(|mark| {
            let range = mark.range.as_ref();
            let ends = range.is_some_and(|it| it.end == at || at == 0 && it.start == 0);
            ends && schema.is_inclusive(&mark.kind) == Some(true)
        });
        marks.cloned().collect()
    }

    /// The marks that text typed at an offset has, but for those of leaves.
    pub fn of_typed(self, node: &Node, at: usize) -> Vec<Mark> {
        let mut marks = self.that_go_on(node, at);
        let near = node.marks().touching(&(at..at));
        let leaves = self.leaves(node.text(), &near);
        let around = near.iter().zip(leaves).filter(|(mark, is_leaf)| {
            let range = mark.range.as_ref();
            !is_leaf && range.is_some_and(|it| it.start < at && at < it.end)
        });
        marks.extend(around.map(|(mark, _)| mark.clone()));
        marks
    }

    /// The marks of the first of some characters that text in their place is to be given: without
    /// those of leaves, those that extend beyond both ends, which it has already, and those that
    /// are not inclusive and do not extend behind the last character.
    pub fn of_replaced(self, node: &Node, range: &Range<usize>) -> Vec<Mark> {
        if range.is_empty() {
            return self.of_typed(node, range.start);
        }
        let near = node.marks().touching(&(range.start..range.start));
        let leaves = self.leaves(node.text(), &near);
        let of_first = near.iter().zip(leaves).filter(|(mark, is_leaf)| {
            let of = mark.range.clone().filter(|it| it.contains(&range.start));
            let inclusive = self.0.and_then(|schema| schema.is_inclusive(&mark.kind));
            let goes_on = |of: Range<usize>| match of.end > range.end {
                true => of.start == range.start,
                false => inclusive != Some(false),
            };
            !is_leaf && of.is_some_and(goes_on)
        });
        of_first.map(|(mark, _)| mark.clone()).collect()
    }

    /// A set of marks with one more, in place of those that it excludes, or without those of its
    /// kind. Marks of which one excludes the new one stay as they are.
    pub fn toggled(self, mut marks: Vec<Mark>, kind: &str, attributes: Attributes) -> Vec<Mark> {
        let before = marks.len();
        marks.retain(|mark| mark.kind != kind);
        let excludes =
            |mark: &Mark| self.excludes(&mark.kind, kind) && !self.excludes(kind, &mark.kind);
        if marks.len() == before && !marks.iter().any(excludes) {
            marks.retain(|mark| !self.excludes(kind, &mark.kind));
            marks.push(Mark::whole(kind).with_attributes(attributes));
        }
        marks
    }

    /// The marks of a node with one more over some characters; `None` if its text may not have it,
    /// as in ProseMirror.
    pub fn with_mark(
        self,
        view: &impl View,
        node: &Node,
        range: &Range<usize>,
        (kind, attributes): (&str, &Attributes),
    ) -> Option<Vec<Mark>> {
        if !self.allows(view, node, kind) {
            return None;
        }
        let mut added = Vec::new();
        let of_node = NodeMarks::new(self, node);
        let kept = node.marks().cut(range, |part, others| {
            let Some(replaced) = of_node.replaced_by(kind, others) else {
                return Vec::new();
            };
            added.push(Mark::new(kind, part).with_attributes(attributes.clone()));
            replaced
        });
        Some(kept.into_iter().chain(added).collect())
    }

    /// The marks of a node without some over some characters. Those that stand for leaves stay.
    pub fn without(
        self,
        node: &Node,
        range: &Range<usize>,
        are: impl Fn(&Mark) -> bool,
    ) -> Vec<Mark> {
        let NodeMarks { marks, leaves, .. } = NodeMarks::new(self, node);
        // Whether a mark goes does not depend on the others, so they are not read again for each.
        let left = marks.into_iter().zip(leaves).flat_map(|(mark, is_leaf)| {
            let Range { start, end } = mark.bounds();
            let parts = match !is_leaf && are(mark) {
                true => [start..end.min(range.start), start.max(range.end)..end],
                false => [start..end, end..end],
            };
            let parts = parts.into_iter().filter(|part| !part.is_empty());
            parts.map(|part| mark.over(part))
        });
        left.collect()
    }

    /// How far the characters that may have a mark have it.
    pub fn coverage(
        self,
        view: &impl View,
        node: &Node,
        range: &Range<usize>,
        kind: &str,
    ) -> MarkCoverage {
        let of_node = NodeMarks::new(self, node);
        let block = node.parent().and_then(|parent| view.node(parent));
        let is_code = |node: &Node| {
            let known = self.0.and_then(|it| Some((it, it.number_of(node.kind())?)));
            known.is_some_and(|(schema, number)| schema.is_code(number))
        };
        let is_code = is_code(node) || block.is_some_and(is_code);
        // Elsewhere than in code, a newline is a hard break.
        let is_blank = |char: char| char.is_whitespace() && (is_code || char != '\n');
        let mut found = MarkCoverage::default();
        node.marks().cut(range, |part, others| {
            let mut kinds = others.iter().map(|&nth| &of_node.marks[nth].kind);
            let has_mark = kinds.any(|other| other == kind);
            if has_mark || of_node.replaced_by(kind, others).is_some() {
                let text = node.text().slice(part).unwrap_or_default();
                let has_words = !text.chars().all(is_blank);
                found.has_words |= has_words;
                found.is_missing |= !has_mark;
                found.is_missing_in_words |= !has_mark && has_words;
            }
            Vec::new()
        });
        found
    }

    /// New marks in place of all of a node but those of leaves for which the new ones have no leaf.
    /// Of new marks, one of which excludes the other, the other is left out.
    ///
    /// # Errors
    ///
    /// A mark is out of range.
    pub fn in_place_of_all(self, node: &Node, marks: Vec<Mark>) -> Result<Vec<Mark>, EditError> {
        let len = node.text().len();
        let given = plan::marks_for(node.id(), marks, len)?;
        let new: Vec<&Mark> = given.iter().collect();
        let of_new = self.leaves(node.text(), &given);
        let mut set = given.cut(&(0..len), |_, others| {
            let (mut kept, mut gone): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
            let formatting = others.iter().copied().filter(|&nth| !of_new[nth]);
            for nth in formatting {
                let excludes =
                    |one: usize, other: usize| self.excludes(&new[one].kind, &new[other].kind);
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
        let of_old = self.leaves(node.text(), node.marks());
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
        Ok(set)
    }
}

/// The marks of a node, and which of them stand for leaves.
struct NodeMarks<'a> {
    rules: MarkRules<'a>,
    marks: Vec<&'a Mark>,
    leaves: Vec<bool>,
}

impl<'a> NodeMarks<'a> {
    fn new(rules: MarkRules<'a>, node: &'a Node) -> Self {
        Self {
            rules,
            marks: node.marks().iter().collect(),
            leaves: rules.leaves(node.text(), node.marks()),
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
                false if self.rules.excludes(kind, other) => replaced.push(nth),
                false if self.rules.excludes(other, kind) => return None,
                false => {}
            }
        }
        Some(replaced)
    }
}
