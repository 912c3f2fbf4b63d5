//! Positions of an older version, in a later one.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use super::sequence_edit::SequenceEdit;
use super::{Change, Node, NodeId, Position, Text, View};

/// The side of text inserted at a position, on which the position stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Side {
    /// It stays behind the character before it.
    Before,
    /// It stays before the character behind it.
    After,
}

/// Where a position of an older version is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MappedPosition {
    /// The position; `None` if its node does not exist any more.
    pub position: Option<Position>,
    /// Whether the character on its side was deleted, or its node. With the commits of a store, it
    /// is false again after an undo that brought the character back in its node.
    pub is_deleted: bool,
}

impl Position {
    /// Returns where the position is after changes, as a selection follows them.
    ///
    /// The position is one of the version before the changes. Characters that are typed at it are
    /// behind it or before it, as `side` says. It follows its character through splits and joins.
    /// Between deleted characters it moves to where they were, and to `side` of what replaces them.
    /// At the start or the end of replaced characters it stays there. An offset behind the end of
    /// the text stays behind it.
    ///
    /// This knows no undos: deleted characters that an undo inserts again are new. The function
    /// `doclock::events::map_position` knows them, where a store keeps its commits.
    ///
    /// ```
    /// use doclock::document::{Position, Side};
    /// use doclock::{DataStore, Editor, dsl::*};
    ///
    /// let editor = Editor::new(DataStore::new(), "ann");
    /// transaction(&editor, [create(text_node("text", "Io and Europa").with_id("t"))]).commit()?;
    /// let edits = [insert_text(2, "!").on("t"), delete_text_range(8, 10).on("t")];
    /// let changes = transaction(&editor, edits).commit()?.changes;
    ///
    /// let [before, after] = [Side::Before, Side::After].map(|side| Position::new("t", 2).mapped(&changes, side));
    /// assert_eq!(before.position, Some(Position::new("t", 2)));
    /// assert_eq!(after.position, Some(Position::new("t", 3)));
    /// let within = Position::new("t", 8).mapped(&changes, Side::Before);
    /// assert_eq!((within.position, within.is_deleted), (Some(Position::new("t", 8)), true));
    /// # Ok::<(), doclock::transaction::TransactionError>(())
    /// ```
    pub fn mapped(&self, changes: &[Change], side: Side) -> MappedPosition {
        let mut tracked = TrackedPosition::new(self.clone(), side);
        tracked.follow(0, changes, &[]);
        tracked.mapped()
    }
}

/// The most deletions around a deleted position that are kept. After more, an undo of the later
/// ones alone does not move it.
const MOST_DELETIONS: usize = 256;

/// A position that follows commits.
#[derive(Clone, Debug)]
pub struct TrackedPosition {
    position: Position,
    side: Side,
    /// The text that its node had when it was deleted.
    gone: Option<Text>,
    /// The deletions around it that were not undone, from the one of the character on its side on.
    deletions: Vec<Deletion>,
    /// The node that was joined at the position, and whether the position was in it. The undo of
    /// the join splits the same node off.
    seam: Option<(NodeId, bool)>,
}

/// How a commit is followed that undoes others.
struct Undo<'c> {
    version: u64,
    undone: &'c [u64],
    search: Search,
}

/// Where deleted text around a position is sought in an undo that inserts it again.
enum Search {
    /// At the position.
    Around,
    /// Anywhere in its text, behind this number of equal texts.
    Anywhere(usize),
}

/// Characters that were deleted around a position.
#[derive(Clone, Debug)]
struct Deletion {
    /// The version that deleted them.
    version: u64,
    before: SmolStr,
    after: SmolStr,
    /// Whether the one on the side of the position was among them.
    has_side: bool,
}

impl TrackedPosition {
    pub fn new(position: Position, side: Side) -> Self {
        Self {
            position,
            side,
            gone: None,
            deletions: Vec::new(),
            seam: None,
        }
    }

    /// Where it is.
    pub fn mapped(self) -> MappedPosition {
        let is_deleted = self.gone.is_some() || self.is_deleted();
        MappedPosition {
            position: self.gone.is_none().then_some(self.position),
            is_deleted,
        }
    }

    /// Where it is in a version, which does not need to have it.
    pub fn mapped_in(self, view: &impl View) -> MappedPosition {
        let mut mapped = self.mapped();
        let len = |position: &Position| Some(view.node(&position.node_id)?.text().len());
        let text = mapped.position.as_ref().and_then(len);
        mapped.is_deleted |= text.is_none();
        let clamped = mapped.position.zip(text).map(|(position, len)| Position {
            offset: position.offset.min(len),
            ..position
        });
        mapped.position = clamped;
        mapped
    }

    /// Whether the character on its side is deleted.
    fn is_deleted(&self) -> bool {
        self.deletions.iter().any(|deletion| deletion.has_side)
    }

    /// Follows the changes of a commit, which undid the commits of some versions.
    pub fn follow(&mut self, version: u64, changes: &[Change], undone: &[u64]) {
        let following = |tracked: &mut Self, search| {
            let mut undo = Undo {
                version,
                undone,
                search,
            };
            tracked.follow_changes(changes, &mut undo);
            let mut deletions = tracked.deletions.iter();
            deletions.any(|deletion| undone.contains(&deletion.version))
        };
        let mut deletions = self.deletions.iter();
        let is_undone = deletions.any(|deletion| undone.contains(&deletion.version));
        let before = is_undone.then(|| self.clone());
        let is_left = following(self, Search::Around);
        let Some(mut before) = before.filter(|_| is_left) else {
            return;
        };
        // Text that was typed between the deletion and its undo may be before the text. Of two
        // equal texts, neither is known to be that of the position.
        let mut anywhere = before.clone();
        let is_found = !following(&mut anywhere, Search::Anywhere(0));
        if is_found && following(&mut before, Search::Anywhere(1)) {
            *self = anywhere;
        }
    }

    fn follow_changes(&mut self, changes: &[Change], undo: &mut Undo<'_>) {
        for change in changes {
            match change {
                Change::RemoveSubtree { nodes, .. } => {
                    if let Some(node) = self.node_in(nodes) {
                        self.gone = Some(node.text().clone());
                    }
                }
                Change::InsertSubtree { nodes, .. } => {
                    let node = self.node_in(nodes);
                    if let Some((gone, node)) = self.gone.take_if(|_| node.is_some()).zip(node) {
                        let text = node.text();
                        let (at, [removed, inserted]) = difference(&gone, text);
                        self.replace((at, &removed, &inserted), undo);
                    }
                }
                Change::SpliceText {
                    id,
                    at,
                    removed,
                    inserted,
                    ..
                } if *id == self.position.node_id => {
                    self.replace((*at, removed, inserted), undo);
                }
                _ => change.each_sequence_edit(|edit| self.follow_structure(&edit)),
            }
        }
    }

    /// Its node, if it is one of these.
    fn node_in<'n>(&self, nodes: &'n [Arc<Node>]) -> Option<&'n Node> {
        let node = nodes
            .iter()
            .find(|node| *node.id() == self.position.node_id);
        node.map(|node| &**node)
    }

    fn replace(&mut self, splice: Splice<'_>, undo: &mut Undo<'_>) {
        if !(self.is_deleted() && self.restore(splice, undo)) {
            self.splice(undo.version, splice);
        }
    }

    /// Follows a replacement of characters of its text.
    fn splice(&mut self, version: u64, (at, removed, inserted): Splice<'_>) {
        let (offset, end) = (self.position.offset, at + removed.chars().count());
        let behind = at + inserted.chars().count();
        if offset < at {
            return;
        }
        if offset > end {
            // The offset may be any number.
            self.position.offset = behind.saturating_add(offset - end);
            return;
        }
        let is_behind = match offset {
            _ if at == end => self.side == Side::After,
            offset if offset == at => false,
            offset if offset == end => true,
            _ => self.side == Side::After,
        };
        let has_side = match self.side {
            Side::Before => offset > at,
            Side::After => offset < end,
        };
        let is_deleted = self.is_deleted();
        let is_kept = is_deleted && self.deletions.len() < MOST_DELETIONS;
        if at < end && (is_kept || has_side && !is_deleted) {
            let chars = || removed.chars();
            self.deletions.push(Deletion {
                version,
                before: chars().take(offset - at).collect(),
                after: chars().skip(offset - at).collect(),
                // The one that is deleted already is not among these.
                has_side: !is_deleted,
            });
        }
        self.position.offset = if is_behind { behind } else { at };
    }

    /// Puts it back into deleted text that an undo inserts again. Returns whether it does.
    fn restore(&mut self, (at, removed, inserted): Splice<'_>, undo: &mut Undo<'_>) -> bool {
        let is_around = (at..=at + removed.chars().count()).contains(&self.position.offset);
        if !is_around && matches!(undo.search, Search::Around) {
            return false;
        }
        let Some((nth, before)) = self.found_in(inserted, undo.undone, is_around) else {
            return false;
        };
        if let Search::Anywhere(skipped @ 1..) = &mut undo.search {
            *skipped -= 1;
            return false;
        }
        self.position.offset = at + before;
        let inner = self.deletions.split_off(nth).into_iter();
        let others = inner.filter(|it| !undo.undone.contains(&it.version));
        self.deletions.extend(others.collect::<Vec<_>>());
        if !self.is_deleted() {
            self.deletions.clear();
        }
        true
    }

    /// The first of the undone deletions whose characters are in an inserted text, and how many
    /// characters of that are before the position.
    fn found_in(
        &self,
        inserted: &str,
        undone: &[u64],
        may_have_more: bool,
    ) -> Option<(usize, usize)> {
        let (mut before, mut after) = (String::new(), String::new());
        let mut first = None;
        for (nth, deletion) in self.deletions.iter().enumerate().rev() {
            if !undone.contains(&deletion.version) {
                continue;
            }
            // The later one is around the earlier one.
            before.push_str(&deletion.before);
            after.insert_str(0, &deletion.after);
            first = Some(nth);
            if inserted.strip_prefix(before.as_str()) == Some(after.as_str()) {
                return Some((nth, before.chars().count()));
            }
        }
        // A letter beside these that was deleted earlier may come back together with them.
        let whole = format!("{before}{after}");
        let start = inserted.find(&whole).filter(|_| may_have_more)?;
        let is_only = !whole.is_empty() && inserted.rfind(&whole) == Some(start);
        let chars = inserted[..start].chars().count() + before.chars().count();
        Some((first.filter(|_| is_only)?, chars))
    }

    /// Follows a split or a join of its text.
    fn follow_structure(&mut self, edit: &SequenceEdit) {
        let Position { node_id, offset } = &self.position;
        match edit {
            SequenceEdit::Split { id, at, right } if id == node_id => {
                let of_seam = self.seam.as_ref().filter(|(joined, _)| joined == right);
                let is_behind = match (of_seam, self.side) {
                    (Some((_, was_in_it)), _) if *offset == at.text => *was_in_it,
                    (_, Side::Before) => *offset > at.text,
                    (_, Side::After) => *offset >= at.text,
                };
                if is_behind {
                    self.position = Position::new(right.clone(), offset - at.text);
                }
            }
            SequenceEdit::Join { id, at, right } if right == node_id => {
                if *offset == 0 {
                    self.seam = Some((right.clone(), true));
                }
                self.position = Position::new(id.clone(), at.text.saturating_add(*offset));
            }
            SequenceEdit::Join { id, at, right } if id == node_id && *offset == at.text => {
                self.seam = Some((right.clone(), false));
            }
            _ => {}
        }
    }
}

/// A replacement of characters: where, what was there, and what is there now.
type Splice<'c> = (usize, &'c str, &'c str);

/// Where a text differs from another, and both parts. An undo that brings back a node has its text
/// without edits that were undone meanwhile.
fn difference(before: &Text, after: &Text) -> (usize, [String; 2]) {
    let [one, other] = [before, after].map(|text| text.chars().collect::<Vec<char>>());
    let common = one
        .iter()
        .zip(&other)
        .take_while(|(one, other)| one == other);
    let at = common.count();
    let ends = one[at..].iter().rev().zip(other[at..].iter().rev());
    let behind = ends.take_while(|(one, other)| one == other).count();
    let parts = [one, other].map(|text| text[at..text.len() - behind].iter().collect());
    (at, parts)
}
