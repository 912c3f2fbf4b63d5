//! What a schema says about the marks of a text: which of them exclude, replace or remove others.

use std::collections::BTreeSet;
use std::iter;
use std::ops::Range;

use crate::mark::Ranges;
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
        let new = Mark::whole(kind).with_attributes(attributes.clone());
        let leaves = self.leaves(node.text(), node.marks());
        let replaces = |nth: usize, other: &Mark| self.replaces(kind, &other.kind, leaves[nth]);
        Some(node.marks().with(range, &new, replaces))
    }

    /// Whether a new mark replaces one that is there; `None` if that excludes it. A leaf is
    /// replaced by another of its kind only.
    fn replaces(self, new: &str, other: &str, is_leaf: bool) -> Option<bool> {
        match is_leaf {
            true => Some(other == new),
            false if self.excludes(new, other) => Some(true),
            false => (!self.excludes(other, new)).then_some(false),
        }
    }

    /// The marks of a node without some over some characters. Those that stand for leaves stay.
    pub fn without(
        self,
        node: &Node,
        range: &Range<usize>,
        are: impl Fn(&Mark) -> bool,
    ) -> Vec<Mark> {
        let leaves = self.leaves(node.text(), node.marks());
        let gone = iter::once(range.clone()).collect();
        let are = |nth: usize, mark: &Mark| !leaves[nth] && are(mark);
        node.marks().without(&gone, are)
    }

    /// How far the characters that may have a mark have it.
    pub fn coverage(
        self,
        view: &impl View,
        node: &Node,
        range: &Range<usize>,
        kind: &str,
    ) -> MarkCoverage {
        let block = node.parent().and_then(|parent| view.node(parent));
        let is_code = |node: &Node| {
            let known = self.0.and_then(|it| Some((it, it.number_of(node.kind())?)));
            known.is_some_and(|(schema, number)| schema.is_code(number))
        };
        let is_code = is_code(node) || block.is_some_and(is_code);
        // Elsewhere than in code, a newline is a hard break.
        let is_blank = |char: char| char.is_whitespace() && (is_code || char != '\n');
        let has_words = |part: Range<usize>| {
            let text = node.text().slice(part).unwrap_or_default();
            !text.chars().all(is_blank)
        };
        // Characters that have it, and with them those that may not have it.
        let (mut marked, mut settled) = (Ranges::default(), Ranges::default());
        let leaves = self.leaves(node.text(), node.marks());
        for (mark, is_leaf) in node.marks().iter().zip(leaves) {
            let has_mark = mark.kind == kind;
            if has_mark {
                marked.add(mark.bounds());
            }
            if has_mark || self.replaces(kind, &mark.kind, is_leaf).is_none() {
                settled.add(mark.bounds());
            }
        }
        let mut found = MarkCoverage {
            has_words: marked.within(range.clone()).any(has_words),
            ..MarkCoverage::default()
        };
        for part in settled.rest_of(range.clone()) {
            found.is_missing = true;
            found.is_missing_in_words |= has_words(part);
        }
        found.has_words |= found.is_missing_in_words;
        found
    }

    /// New marks in place of all of a node but those of leaves for which the new ones have no leaf.
    /// Of new marks, those stay that would if they were added one after the other.
    ///
    /// # Errors
    ///
    /// A mark is out of range.
    pub fn in_place_of_all(self, node: &Node, marks: Vec<Mark>) -> Result<Vec<Mark>, EditError> {
        let len = node.text().len();
        let given = plan::marks_for(node.id(), marks, len)?;
        let of_new = self.leaves(node.text(), &given);
        let (leaves, formatting): (Vec<_>, Vec<_>) =
            given.iter().zip(of_new).partition(|(_, is_leaf)| *is_leaf);
        let mut set = self.without_excluded(formatting.into_iter().map(|(mark, _)| mark).collect());
        let taken: Ranges = leaves.iter().map(|(mark, _)| mark.bounds()).collect();
        set.extend(leaves.into_iter().map(|(mark, _)| mark.clone()));
        let of_old = self.leaves(node.text(), node.marks());
        let old = node.marks().iter().zip(of_old);
        for (mark, _) in old.filter(|(_, is_leaf)| *is_leaf) {
            set.extend(taken.rest_of(mark.bounds()).map(|part| mark.over(part)));
        }
        Ok(set)
    }

    /// The parts of marks that stay if they are added one after the other. One that is added takes
    /// away those that it excludes. Where there is one that excludes it, and which it does not
    /// exclude, it is not added. Marks of one kind stay together.
    fn without_excluded(self, marks: Vec<&Mark>) -> Vec<Mark> {
        let kinds: BTreeSet<&str> = marks.iter().map(|mark| &*mark.kind).collect();
        // Of kinds that the schema does not have, there can be any number. They are refused later.
        let known = |kind: &&str| self.0.is_some_and(|schema| schema.has_mark(kind));
        let kinds: Vec<&str> = kinds.into_iter().filter(known).collect();
        let others = |one: &str, are: &dyn Fn(&str) -> bool| -> Vec<usize> {
            steps(kinds.len());
            let others = kinds.iter().enumerate();
            let others = others.filter(|(_, other)| one != **other && are(other));
            others.map(|(nth, _)| nth).collect()
        };
        let excluded = kinds
            .iter()
            .map(|kind| others(kind, &|other| self.excludes(kind, other)));
        let excluded: Vec<_> = excluded.collect();
        let alone = kinds.iter().map(|kind| {
            others(kind, &|other| {
                self.excludes(other, kind) && !self.excludes(kind, other)
            })
        });
        let excluding_alone: Vec<_> = alone.collect();
        let number = |mark: &Mark| kinds.binary_search(&&*mark.kind).ok();
        // The characters that have each kind when a mark is added.
        let mut present: Vec<Ranges> = kinds.iter().map(|_| Ranges::default()).collect();
        let added: Vec<Vec<Range<usize>>> = marks
            .iter()
            .map(|mark| {
                let mut parts = vec![mark.bounds()];
                let Some(own) = number(mark) else {
                    return parts;
                };
                for &kind in &excluding_alone[own] {
                    let rest = parts.into_iter();
                    parts = rest.flat_map(|part| present[kind].rest_of(part)).collect();
                }
                for part in &parts {
                    for &kind in &excluded[own] {
                        present[kind].remove(part.clone());
                    }
                    present[own].add(part.clone());
                }
                parts
            })
            .collect();
        // Later marks took these characters away from each kind.
        let mut taken: Vec<Ranges> = kinds.iter().map(|_| Ranges::default()).collect();
        let mut left = Vec::with_capacity(marks.len());
        for (mark, parts) in marks.into_iter().zip(added).rev() {
            let Some(own) = number(mark) else {
                left.push(mark.clone());
                continue;
            };
            for part in parts {
                let rest = taken[own].rest_of(part.clone());
                left.extend(rest.map(|part| mark.over(part)));
                for &kind in &excluded[own] {
                    taken[kind].add(part.clone());
                }
            }
        }
        left
    }
}
