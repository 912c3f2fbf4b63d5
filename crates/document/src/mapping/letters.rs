//! The letters around a position: those that are in the document and the deleted ones among them.
//!
//! A run of letters knows the commit that inserted it and the commits that deleted it. So an undo
//! of these tells which letters are to come back, as the provenance does. What an undo really
//! inserts is compared with that, because not all undos are commits.

mod text;

use std::collections::{HashMap, HashSet};

use text::{Gone, LONG, Run, TrackedText};

use super::Splice;
use crate::hashing::Secret;
use crate::steps::steps;
use crate::{NodeId, Text};

/// So many texts are kept that were split off from the one of the position, or joined with it.
const MOST_TEXTS: usize = 64;

/// Among so many letters each one is compared, where a whole deleted text is not found.
const MOST_COMPARED: usize = 4096;

/// So many letters in a row are taken for deleted ones even if others look like them.
const MANY_LETTERS: usize = 24;

/// Which commits are in effect.
#[derive(Clone, Debug, Default)]
struct Effects {
    /// Those that have edited the texts.
    known: HashSet<u64, Secret>,
    /// Those of them that are undone.
    out: HashSet<u64, Secret>,
    /// The commits that each undo or redo reversed.
    reversed: HashMap<u64, Vec<u64>, Secret>,
    /// The first version that was followed.
    first: Option<u64>,
    /// The undos and redos of commits before that. They bring back letters that are not known.
    of_older: HashSet<u64, Secret>,
}

impl Effects {
    /// Follows an undo or a redo of the commits of these versions.
    fn reverse(&mut self, version: u64, undone: &[u64], is_redo: bool) {
        let mut units = Vec::new();
        for &version in undone {
            match self.reversed.get(&version) {
                Some(reversed) => {
                    units.extend_from_slice(reversed);
                    self.out.insert(version);
                }
                None if self.known.contains(&version) => units.push(version),
                None => {}
            }
        }
        let is_older = |it: &u64| self.first > Some(*it) || self.of_older.contains(it);
        if undone.iter().any(is_older) {
            self.of_older.insert(version);
        }
        units.sort_unstable();
        units.dedup();
        for version in &units {
            match is_redo {
                true => self.out.remove(version),
                false => self.out.insert(*version),
            };
        }
        self.reversed.insert(version, units);
    }

    /// Whether an undo or a redo reversed what a commit did to letters.
    fn reverses(&self, version: u64, run: &Run) -> bool {
        let units = self.reversed.get(&version);
        let has = |of: &u64| units.is_some_and(|it| it.contains(of));
        run.born.as_ref().is_some_and(has) || run.gone.iter().any(has)
    }

    fn has(&self, version: u64) -> bool {
        !self.out.contains(&version)
    }

    /// Whether deleted letters are to be in the document, whatever this version did.
    fn want(&self, run: &Run, version: u64) -> bool {
        run.born.is_none_or(|born| self.has(born))
            && run.gone.iter().all(|it| *it == version || !self.has(*it))
    }
}

/// The letters around a position, in its text and in those that were divided from it.
#[derive(Clone, Debug)]
pub(super) struct Letters {
    texts: Vec<TrackedText>,
    effects: Effects,
    /// The version that deleted the letter on the side of the position.
    deleted_at: Option<u64>,
    /// Whether the present commit has edited the texts.
    is_edited: bool,
    /// The versions whose effect the present commit takes back, and those whose effect it repeats.
    taken_back: HashSet<u64, Secret>,
    repeated: HashSet<u64, Secret>,
    /// The version of the present commit. An undo of an undo or a redo names that commit.
    version: u64,
}

/// Where a run is: in which of the texts, and where there.
type PlaceOfRun = (usize, usize);

impl Letters {
    pub(super) fn new(node: NodeId) -> Self {
        Self {
            texts: vec![TrackedText::new(node)],
            effects: Effects::default(),
            deleted_at: None,
            is_edited: false,
            taken_back: HashSet::default(),
            repeated: HashSet::default(),
            version: 0,
        }
    }

    /// Begins a commit that undid or redid the commits of some versions, if any.
    pub(super) fn begin(&mut self, version: u64, undone: &[u64], is_redo: bool) {
        self.version = version;
        self.taken_back.clear();
        self.repeated.clear();
        let Effects {
            known, reversed, ..
        } = &self.effects;
        for of in undone {
            // A redo names the edit itself if its undo changed nothing, and was no commit.
            let repeats = is_redo && known.contains(of) && !reversed.contains_key(of);
            let it = if repeats {
                &mut self.repeated
            } else {
                &mut self.taken_back
            };
            it.insert(*of);
            let edits = reversed.get(of).into_iter().flatten();
            let it = if is_redo {
                &mut self.repeated
            } else {
                &mut self.taken_back
            };
            it.extend(edits);
        }
    }

    /// Whether the letter on the side of the position is deleted.
    pub(super) fn is_deleted(&self) -> bool {
        self.deleted_at.is_some()
    }

    /// Whether the node of the position is deleted.
    pub(super) fn is_gone(&self) -> bool {
        self.texts.iter().any(TrackedText::has_gone_position)
    }

    /// The text of the node that has an id now.
    fn nth(&self, id: &NodeId) -> Option<usize> {
        steps(self.texts.len());
        let mut texts = self.texts.iter();
        texts.position(|it| it.id == *id && it.gone.is_none())
    }

    fn text_mut(&mut self, id: &NodeId) -> Option<&mut TrackedText> {
        let nth = self.nth(id)?;
        Some(&mut self.texts[nth])
    }

    /// Notes that a node was deleted with this text.
    pub(super) fn leave(&mut self, id: &NodeId, text: &Text, has_position: bool) {
        let version = self.version;
        if let Some(tracked) = self.text_mut(id) {
            tracked.by.insert(version);
            tracked.gone = Some(Gone {
                text: text.clone(),
                version,
                has_position,
            });
            self.effects.known.insert(version);
        }
    }

    /// Notes that a new node has an id. A deleted one with that id stays deleted.
    pub(super) fn begin_text(&mut self, id: &NodeId) {
        if self.texts.iter().any(|it| it.id == *id) && self.nth(id).is_none() {
            let mut text = TrackedText::new(id.clone());
            text.enter(self.version);
            self.texts.push(text);
            self.effects.known.insert(self.version);
        }
    }

    /// Notes that an undo or a redo inserted a node again. Returns the text that it had when it was
    /// deleted, if it is one of the deleted ones with this id: the reversed commits have changed
    /// that one, so that it can be in the document now.
    pub(super) fn come_back(&mut self, id: &NodeId) -> Option<Text> {
        let (taken_back, repeated) = (&self.taken_back, &self.repeated);
        steps(1 + taken_back.len() + repeated.len());
        let may_return = |it: &&mut TrackedText| {
            let is_in = |of: &HashSet<u64, Secret>, version: Option<u64>| {
                version.is_some_and(|version| of.contains(&version))
            };
            let left = it.gone.as_ref().map(|gone| gone.version);
            let may_be_there = !is_in(taken_back, it.entered) && !is_in(repeated, left);
            it.id == *id && left.is_some() && may_be_there
        };
        let mut gone = self.texts.iter_mut().filter(may_return);
        let found = match taken_back.iter().chain(repeated).all(|it| *it == 0) {
            // A stored commit does not say what it undoes if it ran code.
            true => gone.next().filter(|_| gone.next().is_none()),
            false => {
                let is_changed = |it: &&mut TrackedText| {
                    !it.by.is_disjoint(taken_back) || !it.by.is_disjoint(repeated)
                };
                // Of several it is the one whose deletion is taken back.
                let is_left = |it: &&mut TrackedText| {
                    let version = it.gone.as_ref().map(|gone| gone.version);
                    version.is_some_and(|version| taken_back.contains(&version))
                };
                gone.filter(is_changed).max_by_key(is_left)
            }
        };
        let Some(text) = found else {
            self.begin_text(id);
            return None;
        };
        text.enter(self.version);
        text.gone.take().map(|gone| gone.text)
    }

    /// Notes that the letter at an offset, which the commit is about to delete, is the one on the
    /// side of the position.
    pub(super) fn mark_deleted(&mut self, id: &NodeId, offset: usize, version: u64) {
        let Some(text) = self.text_mut(id) else {
            return;
        };
        text.border(offset + 1);
        let index = text.border(offset);
        text.runs[index].is_beside = true;
        self.deleted_at = Some(version);
    }

    pub(super) fn splice(&mut self, id: &NodeId, splice: Splice<'_>, version: u64, is_undo: bool) {
        if let Some(text) = self.text_mut(id) {
            text.splice(splice, version, is_undo);
            text.by.insert(version);
            self.effects.known.insert(version);
            self.is_edited = true;
        }
    }

    pub(super) fn split(&mut self, id: &NodeId, at: usize, right: &NodeId) {
        let Some(text) = self.text_mut(id) else {
            return;
        };
        let index = text.border(at);
        let mut runs = text.runs.split_off(index);
        // Deleted letters of a node of this id.
        if let Some(before) = self.nth(right) {
            runs.append(&mut self.texts.remove(before).runs);
        }
        let right = TrackedText::new(right.clone());
        self.texts.push(TrackedText { runs, ..right });
    }

    pub(super) fn join(&mut self, id: &NodeId, at: usize, right: &NodeId) {
        let [left, right] = [id, right].map(|id| self.nth(id));
        if left.is_none() && right.is_none() {
            return;
        }
        let right = right.map(|nth| std::mem::take(&mut self.texts[nth].runs));
        if left.is_none() {
            self.texts.push(TrackedText::new(id.clone()));
        }
        if let Some(text) = self.text_mut(id) {
            let end = text.border(at);
            text.runs.truncate(end);
            text.runs.extend(right.into_iter().flatten());
        }
    }

    /// Ends a commit. After an undo or redo, the letters that it brought back are known again.
    pub(super) fn end(&mut self, version: u64, undone: &[u64], is_redo: bool) {
        self.effects.first.get_or_insert(version);
        if !undone.is_empty() {
            self.effects.reverse(version, undone, is_redo);
            if self.is_edited {
                self.restore(version);
            }
        }
        self.is_edited = false;
    }

    fn restore(&mut self, version: u64) {
        self.restore_gaps(version);
        if !self.effects.of_older.contains(&version) {
            self.restore_letters(version, |effects, run| effects.want(run, version));
            // Another commit that is against it may have been undone without a commit.
            self.restore_letters(version, |effects, run| effects.reverses(version, run));
        }
        for text in &mut self.texts {
            text.runs
                .retain(|run| run.is_shown || run.born != Some(version) || run.is_beside);
            for run in &mut text.runs {
                if run.is_shown {
                    run.text = None;
                } else if !self.effects.want(run, version) {
                    // They are deleted by those that it reversed.
                    run.gone.retain(|it| *it != version);
                }
            }
        }
    }

    /// Brings back the letters of each gap where they are what the commit inserted.
    fn restore_gaps(&mut self, version: u64) {
        for text in &mut self.texts {
            for gap in text.gaps(version).into_iter().rev() {
                let runs = &text.runs[gap.clone()];
                let is_new = |run: &&Run| run.is_new(version);
                let is_wanted = |run: &&Run| {
                    !run.is_shown && run.born != Some(version) && self.effects.want(run, version)
                };
                let new = runs
                    .iter()
                    .filter(is_new)
                    .flat_map(|run| run.text().chars());
                let wanted = runs.iter().filter(is_wanted);
                if !new.eq(wanted.flat_map(|run| run.text().chars())) {
                    continue;
                }
                for nth in gap.rev() {
                    let run = &mut text.runs[nth];
                    if is_new(&&*run) {
                        text.runs.remove(nth);
                    } else if is_wanted(&&*run) {
                        show(&self.effects, run);
                    }
                }
            }
        }
    }

    /// Brings back single letters for which there is one way to do that.
    fn restore_letters(&mut self, version: u64, is_candidate: impl Fn(&Effects, &Run) -> bool) {
        let effects = &self.effects;
        let may_return =
            |run: &Run| !run.is_shown && run.born != Some(version) && is_candidate(effects, run);
        let runs = || self.texts.iter().flat_map(|text| &text.runs);
        let new: usize = runs()
            .filter(|it| it.is_new(version))
            .map(|it| it.len)
            .sum();
        let deleted: usize = runs().filter(|it| may_return(it)).map(|it| it.len).sum();
        if new == 0 || deleted == 0 || new + deleted > MOST_COMPARED {
            return;
        }
        let mut gaps: Vec<[Vec<LetterAt>; 2]> = Vec::new();
        for (nth, text) in self.texts.iter_mut().enumerate() {
            let mut runs = Vec::new();
            for mut run in text.runs.drain(..) {
                if run.is_new(version) || may_return(&run) {
                    while run.len > 1 {
                        let behind = run.split_off(1);
                        runs.push(std::mem::replace(&mut run, behind));
                    }
                }
                runs.push(run);
            }
            text.runs = runs;
            for gap in text.gaps(version) {
                let letters = |is_of: &dyn Fn(&Run) -> bool| {
                    let runs = gap.clone().map(|at| (&text.runs[at], (nth, at)));
                    let runs = runs.filter(|(run, _)| is_of(run));
                    let letters =
                        runs.filter_map(|(run, at)| Some((run.text().chars().next()?, at)));
                    letters.collect()
                };
                gaps.push([letters(&|run| run.is_new(version)), letters(&may_return)]);
            }
        }
        let [new, deleted] = [0, 1].map(|nth| gaps.iter().flat_map(move |gap| &gap[nth]));
        let pairs: Vec<_> = match new
            .clone()
            .map(|it| it.0)
            .eq(deleted.clone().map(|it| it.0))
        {
            true => new.map(|it| it.1).zip(deleted.map(|it| it.1)).collect(),
            false => gaps
                .iter()
                .flat_map(|[new, deleted]| pairs(new, deleted))
                .collect(),
        };
        if self.are_telling(&pairs) {
            self.put_back(&pairs, version);
        }
    }

    /// Whether letters are so many, or so distinct from other deleted ones, that they are not those
    /// of another text by chance.
    fn are_telling(&self, pairs: &[(PlaceOfRun, PlaceOfRun)]) -> bool {
        let mut counts: HashMap<char, usize, Secret> = HashMap::default();
        let deleted = self.texts.iter().flat_map(|text| &text.runs);
        for letter in deleted
            .filter(|run| !run.is_shown)
            .flat_map(|run| run.text().chars())
        {
            *counts.entry(letter).or_default() += 1;
        }
        let is_distinct = |(_, (text, run)): &(PlaceOfRun, PlaceOfRun)| {
            let mut letters = self.texts[*text].runs[*run].text().chars();
            letters.all(|letter| counts.get(&letter) == Some(&1))
        };
        pairs.len() >= MANY_LETTERS || pairs.iter().all(is_distinct)
    }

    /// Puts each deleted letter in the place of the new one that it is.
    fn put_back(&mut self, pairs: &[(PlaceOfRun, PlaceOfRun)], version: u64) {
        let by_new: HashMap<PlaceOfRun, PlaceOfRun, Secret> = pairs.iter().copied().collect();
        // Letters that are all in their gap keep their order among those that stay deleted.
        let mut staying: HashSet<PlaceOfRun, Secret> = HashSet::default();
        for (nth, text) in self.texts.iter().enumerate() {
            for gap in text.gaps(version) {
                let new = gap.clone().filter(|at| text.runs[*at].is_new(version));
                let new: Vec<_> = new.map(|at| by_new.get(&(nth, at))).collect();
                let is_in = |it: &Option<&PlaceOfRun>| {
                    it.is_some_and(|(text, at)| *text == nth && gap.contains(at))
                };
                if new.iter().all(is_in) {
                    staying.extend(new.into_iter().flatten());
                }
            }
        }
        let deleted: HashSet<PlaceOfRun, Secret> = pairs.iter().map(|(_, it)| *it).collect();
        let old: Vec<Vec<Run>> = self.texts.iter().map(|text| text.runs.clone()).collect();
        for (nth, text) in self.texts.iter_mut().enumerate() {
            let places = (0..text.runs.len()).filter_map(|at| {
                let place = (nth, at);
                match by_new.get(&place) {
                    Some(of) => (!staying.contains(of)).then_some(*of),
                    None => {
                        (!deleted.contains(&place) || staying.contains(&place)).then_some(place)
                    }
                }
            });
            text.runs = places
                .map(|place| {
                    let mut run = old[place.0][place.1].clone();
                    if deleted.contains(&place) {
                        show(&self.effects, &mut run);
                    }
                    run
                })
                .collect();
        }
    }

    /// The place of the letter on the side of the position, while it is deleted.
    fn beside(&self) -> Option<PlaceOfRun> {
        self.deleted_at?;
        let mut texts = self.texts.iter().enumerate();
        texts.find_map(|(nth, text)| Some((nth, text.runs.iter().position(|it| it.is_beside)?)))
    }

    /// The node and the offset of the letter on the side of the position, if an undo has brought it
    /// back.
    pub(super) fn take_returned(&mut self) -> Option<(NodeId, usize)> {
        let (nth, index) = self.beside()?;
        let text = &mut self.texts[nth];
        if !text.runs[index].is_shown {
            return None;
        }
        text.runs[index].is_beside = false;
        self.deleted_at = None;
        Some((text.id.clone(), text.width(0..index)))
    }

    /// Where a deleted position can be: behind the letters before it, and before those behind it.
    pub(super) fn room(&self, node: &NodeId) -> Option<(usize, usize)> {
        let (nth, index) = self.beside()?;
        let text = self.texts.get(nth).filter(|it| it.id == *node)?;
        let is_fixed = |run: &Run| run.is_shown && run.born < self.deleted_at;
        let first = text.runs[..index].iter().rposition(is_fixed);
        let last = text.runs[index..].iter().position(is_fixed);
        let last = last.map_or(text.runs.len(), |last| index + last);
        let start = first.map_or(0, |first| text.width(0..first + 1));
        Some((start, text.width(0..last)))
    }

    /// Forgets the history of letters far from the position, if there are many.
    pub(super) fn trim(&mut self, node: &NodeId, offset: usize) {
        let is_long = |text: &TrackedText| text.runs.len() > LONG;
        if self.texts.len() <= MOST_TEXTS && !self.texts.iter().any(is_long) {
            return;
        }
        let beside = self.beside();
        let gone = self.texts.iter().position(TrackedText::has_gone_position);
        let own = gone.or_else(|| self.nth(node));
        for (nth, text) in self.texts.iter_mut().enumerate() {
            let around = match beside {
                Some((of, index)) => (of == nth).then_some(index),
                None => (Some(nth) == own).then(|| {
                    let mut left = offset;
                    let mut runs = text.runs.iter();
                    let is_behind = |run: &Run| match left.checked_sub(run.width()) {
                        Some(rest) => {
                            left = rest;
                            false
                        }
                        None => true,
                    };
                    runs.position(is_behind).unwrap_or(text.runs.len())
                }),
            };
            text.trim(around);
        }
        let kept = [own, beside.map(|(nth, _)| nth)];
        let mut surplus = self.texts.len().saturating_sub(MOST_TEXTS);
        let mut nth = 0;
        // The oldest first.
        self.texts.retain(|_| {
            let is_kept = surplus == 0 || kept.contains(&Some(nth));
            nth += 1;
            surplus -= usize::from(!is_kept);
            is_kept
        });
    }
}

/// Letters that are in the document again. What seemed to be against that is known to be wrong.
fn show(effects: &Effects, run: &mut Run) {
    run.is_shown = true;
    run.text = None;
    run.gone.retain(|it| !effects.has(*it));
    run.born = run.born.filter(|born| effects.has(*born));
}

/// A letter, and where it is.
type LetterAt = (char, PlaceOfRun);

/// Which of new letters are which deleted ones, where the fewer of them are among the others in one
/// way.
fn pairs(new: &[LetterAt], deleted: &[LetterAt]) -> Vec<(PlaceOfRun, PlaceOfRun)> {
    let are_new_fewer = new.len() <= deleted.len();
    let (fewer, more) = match are_new_fewer {
        true => (new, deleted),
        false => (deleted, new),
    };
    let mut first = more.iter();
    let find = |(letter, _): &LetterAt| first.find(|(other, _)| other == letter).map(|it| it.1);
    let first: Option<Vec<_>> = fewer.iter().map(find).collect();
    let mut last = more.iter().rev();
    let find = |(letter, _): &LetterAt| last.find(|(other, _)| other == letter).map(|it| it.1);
    let last: Option<Vec<_>> = fewer.iter().rev().map(find).collect();
    let Some((first, last)) = first.zip(last) else {
        return Vec::new();
    };
    let both = first.into_iter().zip(last.into_iter().rev());
    let both = fewer.iter().zip(both);
    let unique =
        both.filter_map(|((_, of), (first, last))| (first == last).then_some((*of, first)));
    let pair = |(few, many)| match are_new_fewer {
        true => (few, many),
        false => (many, few),
    };
    unique.map(pair).collect()
}
