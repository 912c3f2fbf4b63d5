//! Consecutive commits as stretches, for followers that are far behind.

use std::borrow::Borrow;
use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use super::Selection;
use super::piece_map::{Composer, PieceMap};
use super::sequence_edit::{SequenceEdit, SequenceEdits};

/// What a commit did to positions.
#[derive(Clone, Debug)]
pub struct CommitEdits {
    pub version: u64,
    pub edits: SequenceEdits,
    /// The versions whose commits it undid.
    pub undone: Box<[u64]>,
}

/// What consecutive commits did to positions.
///
/// The edits are shared with the stretches that this one is merged into. They are composed when a
/// selection needs their map. So a commit pays nothing for it, and the sessions that share the
/// stretch share the map.
#[derive(Clone, Debug, Default)]
pub struct Stretch {
    /// The version of the last one.
    pub last: u64,
    pub commits: usize,
    /// The commits before the edits, if there were too many.
    composed: PieceMap,
    edits: Vec<Arc<[SequenceEdit]>>,
    map: OnceLock<PieceMap>,
}

/// The most edits of a stretch. More may take more memory than their map. Few in debug builds, so
/// that tests reach it.
const MOST_EDITS: usize = if cfg!(debug_assertions) { 32 } else { 1 << 16 };

/// Consecutive commits that are still apart, so that commits which undo others cancel out.
#[derive(Clone, Debug)]
struct RecentCommits<C = CommitEdits>(VecDeque<C>);

impl<C> Default for RecentCommits<C> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<C: Borrow<CommitEdits>> RecentCommits<C> {
    fn len(&self) -> usize {
        self.0.len()
    }

    /// Takes in a commit. If it undid exactly the last ones, nothing has happened.
    fn push(&mut self, commit: C) {
        let undone = &commit.borrow().undone;
        let versions = |from| self.0.range(from..).map(|commit| &commit.borrow().version);
        if let Some(kept) = self.0.len().checked_sub(undone.len())
            && !undone.is_empty()
            && versions(kept).eq(undone)
        {
            self.0.truncate(kept);
        } else {
            self.0.push_back(commit);
        }
    }

    /// Takes out the oldest ones.
    fn take(&mut self, commits: usize) -> Stretch {
        let commits = commits.min(self.len());
        Stretch::new(self.0.drain(..commits))
    }
}

impl Stretch {
    fn new<C: Borrow<CommitEdits>>(all: impl Iterator<Item = C>) -> Self {
        let mut stretch = Self::default();
        let mut edits: Vec<SequenceEdit> = Vec::new();
        for commit in all {
            let commit = commit.borrow();
            stretch.last = commit.version;
            stretch.commits += 1;
            for edit in &commit.edits {
                let joined = edits.last_mut().is_some_and(|last| last.try_merge(edit));
                if !joined && edit.is_of_a_sequence() {
                    edits.push(edit.clone());
                }
            }
        }
        if !edits.is_empty() {
            stretch.edits = vec![edits.into()];
        }
        stretch
    }

    /// Consecutive commits up to this version.
    pub fn of_commits<'c>(all: impl Iterator<Item = &'c CommitEdits>, last: u64) -> Self {
        let mut apart = RecentCommits::default();
        all.for_each(|commit| apart.push(commit));
        // The last ones may have cancelled out.
        Self {
            last,
            ..apart.take(apart.len())
        }
    }

    /// The selection afterwards. Whether its nodes exist is not known here.
    pub fn move_selection(&self, selection: &mut Selection) {
        if !self.composed.is_empty() {
            *selection = self.composed.selection(selection);
        }
        selection.follow(self.edits.iter().flat_map(|edits| edits.iter()));
    }

    /// Its map. The first call takes time in proportion to the edits.
    pub fn map(&self) -> &PieceMap {
        if self.edits.is_empty() {
            return &self.composed;
        }
        self.map.get_or_init(|| {
            let mut all = Composer::default();
            all.append(self.commits, self.composed.clone());
            all.extend(self.edits.iter().flat_map(|edits| edits.iter()));
            all.compose()
        })
    }

    /// Whether it has so many edits that it is to be composed.
    pub fn is_full(&self) -> bool {
        let edits: usize = self.edits.iter().map(|edits| edits.len()).sum();
        edits > MOST_EDITS
    }

    /// Whether the log appends commits to it. If not, its map replaces the edits, if it is known.
    pub fn is_open(&mut self) -> bool {
        let is_open = self.composed.is_empty() && !self.is_full();
        if !is_open {
            self.replace_edits_by_map();
        }
        is_open
    }

    /// Replaces the edits by their map, if it is known.
    fn replace_edits_by_map(&mut self) {
        if let Some(map) = self.map.take() {
            self.composed = map;
            self.edits = Vec::new();
        }
    }

    /// Appends the commits after it.
    pub fn append(&mut self, next: &Self) {
        self.replace_edits_by_map();
        if next.composed.is_empty() && !self.is_full() {
            self.edits.extend_from_slice(&next.edits);
        } else {
            self.map();
            self.replace_edits_by_map();
            self.composed.append(next.map());
        }
        self.commits += next.commits;
        self.last = next.last;
    }
}
