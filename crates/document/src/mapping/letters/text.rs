//! The text of a node as runs of letters.

use std::collections::HashSet;
use std::ops::Range;

use smallvec::SmallVec;
use smol_str::SmolStr;

use super::Splice;
use crate::hashing::Secret;
use crate::steps::steps;
use crate::{NodeId, Text};

/// So many runs of a text are kept on each side of the position. Deleted letters further away are
/// forgotten.
const MOST_RUNS: usize = 512;

/// A text with more runs is trimmed before the next change. So many count as one step.
pub(super) const LONG: usize = 4 * MOST_RUNS;

/// Letters with the same history, in the document or deleted.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) len: usize,
    /// What they are, while they are deleted or newly inserted by an undo.
    pub(super) text: Option<SmolStr>,
    pub(super) is_shown: bool,
    /// The version that inserted them; `None` for those of the first version.
    pub(super) born: Option<u64>,
    /// The versions that deleted them.
    pub(super) gone: SmallVec<[u64; 1]>,
    /// Whether it is the deleted letter on the side of the position.
    pub(super) is_beside: bool,
}

impl Run {
    pub(super) fn shown(len: usize, born: Option<u64>, text: Option<SmolStr>) -> Self {
        Self {
            len,
            text,
            is_shown: true,
            born,
            gone: SmallVec::new(),
            is_beside: false,
        }
    }

    pub(super) fn width(&self) -> usize {
        if self.is_shown { self.len } else { 0 }
    }

    pub(super) fn text(&self) -> &str {
        self.text.as_deref().unwrap_or_default()
    }

    /// Keeps so many letters, and returns the others.
    pub(super) fn split_off(&mut self, len: usize) -> Self {
        let mut behind = self.clone();
        behind.len = self.len - len;
        if let Some(text) = self.text.take() {
            let (kept, others) = text.split_at(byte_of(&text, len));
            behind.text = Some(others.into());
            self.text = Some(kept.into());
        }
        self.len = len;
        behind
    }

    /// Whether a commit has inserted them, and they are still there.
    pub(super) fn is_new(&self, version: u64) -> bool {
        self.is_shown && self.born == Some(version)
    }
}

fn byte_of(text: &str, letter: usize) -> usize {
    let mut starts = text.char_indices();
    starts.nth(letter).map_or(text.len(), |(byte, _)| byte)
}

/// The text of a node. Behind its runs are letters that no commit has touched.
#[derive(Clone, Debug)]
pub(super) struct TrackedText {
    pub(super) id: NodeId,
    pub(super) runs: Vec<Run>,
    /// The version that inserted the node last.
    pub(super) entered: Option<u64>,
    /// The versions that inserted it, edited it or deleted it.
    pub(super) by: HashSet<u64, Secret>,
    /// What is known of the node since it was deleted. Another one can have its id then.
    pub(super) gone: Option<Gone>,
}

/// A deleted node.
#[derive(Clone, Debug)]
pub(super) struct Gone {
    pub(super) text: Text,
    /// The version that an undo of the deletion undoes.
    pub(super) version: u64,
    /// Whether the position was in it.
    pub(super) has_position: bool,
}

impl TrackedText {
    pub(super) fn new(id: NodeId) -> Self {
        Self {
            id,
            runs: Vec::new(),
            entered: None,
            by: HashSet::default(),
            gone: None,
        }
    }

    /// Notes that a version inserts the node.
    pub(super) fn enter(&mut self, version: u64) {
        self.entered = Some(version);
        self.by.insert(version);
    }

    /// The index of the run that begins at an offset, behind the deleted letters that are there.
    pub(super) fn border(&mut self, offset: usize) -> usize {
        steps(1 + self.runs.len() / LONG);
        let mut left = offset;
        for index in 0..self.runs.len() {
            let width = self.runs[index].width();
            if width > left {
                if left > 0 {
                    let behind = self.runs[index].split_off(left);
                    self.runs.insert(index + 1, behind);
                    return index + 1;
                }
                return index;
            }
            left -= width;
        }
        if left > 0 {
            self.runs.push(Run::shown(left, None, None));
        }
        self.runs.len()
    }

    /// Whether it is that of the position, and its node is deleted.
    pub(super) fn has_gone_position(&self) -> bool {
        self.gone.as_ref().is_some_and(|gone| gone.has_position)
    }

    pub(super) fn width(&self, runs: Range<usize>) -> usize {
        let widths = self.runs[runs].iter().map(Run::width);
        widths.fold(0, usize::saturating_add)
    }

    /// Replaces letters, as the provenance does: new letters come behind those deleted earlier.
    pub(super) fn splice(
        &mut self,
        (at, removed, inserted): Splice<'_>,
        version: u64,
        keeps_text: bool,
    ) {
        let mut index = self.border(at);
        if !inserted.is_empty() {
            let text = keeps_text.then(|| inserted.into());
            let new = Run::shown(inserted.chars().count(), Some(version), text);
            self.runs.insert(index, new);
            index += 1;
        }
        let (mut rest, mut left) = (removed, removed.chars().count());
        while left > 0 {
            if index == self.runs.len() {
                self.runs.push(Run::shown(left, None, None));
            }
            let run = &mut self.runs[index];
            if run.is_shown {
                if run.len > left {
                    let behind = run.split_off(left);
                    self.runs.insert(index + 1, behind);
                }
                let run = &mut self.runs[index];
                let (text, others) = rest.split_at(byte_of(rest, run.len));
                (rest, left) = (others, left - run.len);
                run.text = Some(text.into());
                run.is_shown = false;
                run.gone.push(version);
            }
            index += 1;
        }
    }

    /// The stretches of runs that are deleted or new.
    pub(super) fn gaps(&self, version: u64) -> Vec<Range<usize>> {
        let is_open = |run: &Run| !run.is_shown || run.is_new(version);
        let mut gaps: Vec<Range<usize>> = Vec::new();
        for (nth, _) in self.runs.iter().enumerate().filter(|(_, it)| is_open(it)) {
            match gaps.last_mut().filter(|gap| gap.end == nth) {
                Some(gap) => gap.end += 1,
                None => gaps.push(nth..nth + 1),
            }
        }
        gaps
    }

    /// Forgets the history of letters far from this one, if there are many.
    pub(super) fn trim(&mut self, around: Option<usize>) {
        if self.runs.len() <= LONG {
            return;
        }
        let len = self.runs.len();
        let kept = match around {
            Some(at) => at.saturating_sub(MOST_RUNS)..len.min(at.saturating_add(MOST_RUNS)),
            // The parts of a text that was divided meet at its ends.
            None => return self.forget(MOST_RUNS..len - MOST_RUNS),
        };
        self.runs.truncate(kept.end);
        self.forget(0..kept.start);
    }

    fn forget(&mut self, runs: Range<usize>) {
        let width = self.width(runs.clone());
        self.runs.splice(runs, [Run::shown(width, None, None)]);
    }
}
