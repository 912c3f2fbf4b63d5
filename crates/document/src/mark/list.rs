//! The marks of a text in memory: a list, and a tree of many.

use std::ops::Range;
use std::sync::OnceLock;

use super::tree::Tree;
use super::{Mark, TextSplice};
use crate::steps::steps;

/// The most marks that are no tree. Most texts have none to ten.
pub(super) const FEW: usize = 64;

/// A list of at least one mark, in normal form.
#[derive(Clone)]
pub(super) enum List {
    /// A list.
    Few(Vec<Mark>),
    /// A list and a tree.
    Many(Box<Many>),
}

/// Many marks, as a list for readers and as a tree for edits. Each is made of the other when it is
/// first needed, so a text that is only read has no tree, and typing makes no lists.
pub(super) struct Many {
    list: OnceLock<Vec<Mark>>,
    tree: OnceLock<Tree>,
}

impl Many {
    fn list(&self) -> &Vec<Mark> {
        let made = || self.tree.get().map_or_else(Vec::new, Tree::to_list);
        self.list.get_or_init(made)
    }

    fn tree(&self) -> &Tree {
        self.tree.get_or_init(|| Tree::new(self.list()))
    }
}

impl Clone for Many {
    /// A copy is about to be changed, as a tree.
    fn clone(&self) -> Self {
        Self {
            list: OnceLock::new(),
            tree: self.tree().clone().into(),
        }
    }
}

impl List {
    /// Takes marks in normal form.
    pub(super) fn new(marks: Vec<Mark>) -> Self {
        match marks.len() {
            0..=FEW => Self::Few(marks),
            _ => Self::Many(Box::new(Many {
                list: marks.into(),
                tree: OnceLock::new(),
            })),
        }
    }

    pub(super) fn as_slice(&self) -> &[Mark] {
        match self {
            Self::Few(marks) => marks,
            Self::Many(many) => many.list(),
        }
    }

    pub(super) fn into_vec(self) -> Vec<Mark> {
        match self {
            Self::Few(marks) => marks,
            Self::Many(many) => {
                many.list();
                many.list.into_inner().unwrap_or_default()
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Few(marks) => marks.len(),
            Self::Many(many) => match many.tree.get() {
                Some(tree) => tree.len(),
                None => many.list().len(),
            },
        }
    }

    /// The tree, if there are many marks.
    pub(super) fn tree(&self) -> Option<&Tree> {
        match self {
            Self::Few(_) => None,
            Self::Many(many) => Some(many.tree()),
        }
    }

    /// The tree for an edit, if there are many marks.
    pub(super) fn tree_mut(&mut self) -> Option<&mut Tree> {
        let Self::Many(many) = self else { return None };
        many.tree();
        many.list.take();
        many.tree.get_mut()
    }

    /// Whether a splice leaves all marks as they are, because they end before it.
    pub(super) fn end_before(&self, splice: &TextSplice) -> bool {
        let end = splice.range.start;
        match self.tree() {
            Some(tree) => tree.end() <= end,
            None => {
                let marks = self.as_slice();
                steps(marks.len());
                marks.iter().all(|mark| mark.bounds().end <= end)
            }
        }
    }

    /// Makes all marks follow a splice.
    pub(super) fn follow(&mut self, splice: &TextSplice) {
        match self {
            Self::Few(marks) => {
                steps(marks.len());
                for mark in marks {
                    mark.range = Some(splice.follow(&mark.bounds()));
                }
            }
            Self::Many(_) => {
                if let Some(tree) = self.tree_mut() {
                    tree.follow(0, splice);
                }
            }
        }
    }

    /// The marks over characters of a range, or next to it, each with its own range.
    pub(super) fn near(&self, range: &Range<usize>) -> Vec<(&Mark, Range<usize>)> {
        let mut found = Vec::new();
        match self.tree() {
            Some(tree) => tree.visit(0, range, &mut |mark, place| found.push((mark, place))),
            None => {
                let marks = self.as_slice();
                steps(marks.len());
                let near = marks.iter().filter(|mark| mark.meets(range));
                found.extend(near.map(|mark| (mark, mark.bounds())));
            }
        }
        found
    }
}
