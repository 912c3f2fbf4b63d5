//! Positions of an older version, in a later one.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::sequence_edit::{SequenceEdit, Splice};
use super::{Change, Node, Position, Text};

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
    /// Whether the character on its side was deleted, or its node. An undo that brings the
    /// character back puts the position back as well.
    pub is_deleted: bool,
}

impl Position {
    /// Returns where the position is after changes, as a selection follows them.
    ///
    /// The position is one of the version before the changes. Characters that are typed at it are
    /// behind it or before it, as `side` says. It follows its character through splits and joins.
    /// Between deleted characters it moves to where they were, and to `side` of what replaces them.
    /// At the start or the end of replaced characters it stays there.
    ///
    /// This knows no undos: deleted characters that an undo inserts again are new. Where the store
    /// keeps its commits, `doclock::DataStore::map_position` knows them.
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

/// A position that follows commits.
#[derive(Clone, Debug)]
pub struct TrackedPosition {
    position: Position,
    side: Side,
    /// The text that its node had when it was deleted.
    gone: Option<Text>,
    /// The deletions around it that were not undone, from the one of the character on its side on.
    deletions: Vec<Deletion>,
}

/// Characters that were deleted around a position.
#[derive(Clone, Debug)]
struct Deletion {
    /// The version that deleted them.
    version: u64,
    before: usize,
    after: usize,
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

    /// Whether the character on its side is deleted.
    fn is_deleted(&self) -> bool {
        self.deletions.iter().any(|deletion| deletion.has_side)
    }

    /// Follows the changes of a commit, which undid the commits of some versions.
    pub fn follow(&mut self, version: u64, changes: &[Change], undone: &[u64]) {
        let is_undone = |deletion: &Deletion| undone.contains(&deletion.version);
        let mut exact = self.clone();
        exact.follow_changes(version, changes, undone, true);
        // Text that was typed between the deletion and its undo may be before the text.
        if exact.deletions.iter().any(is_undone) {
            self.follow_changes(version, changes, undone, false);
        } else {
            *self = exact;
        }
    }

    fn follow_changes(&mut self, version: u64, changes: &[Change], undone: &[u64], is_exact: bool) {
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
                        let splice = difference(&gone, node);
                        self.replace(version, &splice, undone, is_exact);
                    }
                }
                _ => change.each_sequence_edit(|edit| match edit {
                    SequenceEdit::Text(splice) if splice.id == self.position.node_id => {
                        self.replace(version, &splice, undone, is_exact);
                    }
                    edit => self.follow_structure(&edit),
                }),
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

    fn replace(&mut self, version: u64, splice: &Splice, undone: &[u64], is_exact: bool) {
        if !(self.is_deleted() && self.restore(splice, undone, is_exact)) {
            self.splice(version, splice);
        }
    }

    /// Follows a replacement of characters of its text.
    fn splice(&mut self, version: u64, splice: &Splice) {
        let Splice {
            at,
            removed,
            inserted,
            ..
        } = *splice;
        let (offset, end) = (self.position.offset, at + removed);
        if offset < at {
            return;
        }
        if offset > end {
            self.position.offset = offset - removed + inserted;
            return;
        }
        let is_behind = match (removed > 0, offset) {
            (true, offset) if offset == at => false,
            (true, offset) if offset == end => true,
            _ => self.side == Side::After,
        };
        let has_side = match self.side {
            Side::Before => offset > at,
            Side::After => offset < end,
        };
        let is_deleted = self.is_deleted();
        if removed > 0 && (has_side || is_deleted) {
            self.deletions.push(Deletion {
                version,
                before: offset - at,
                after: end - offset,
                // The one that is deleted already is not among these.
                has_side: !is_deleted,
            });
        }
        self.position.offset = if is_behind { at + inserted } else { at };
    }

    /// Puts it back into deleted text that an undo inserts again. Returns whether it does.
    fn restore(&mut self, splice: &Splice, undone: &[u64], is_exact: bool) -> bool {
        let replaced = splice.at..=splice.at + splice.removed;
        if is_exact && !replaced.contains(&self.position.offset) {
            return false;
        }
        let (mut before, mut after) = (0, 0);
        for (nth, deletion) in self.deletions.iter().enumerate().rev() {
            if !undone.contains(&deletion.version) {
                continue;
            }
            before += deletion.before;
            after += deletion.after;
            if before + after == splice.inserted {
                self.position.offset = splice.at + before;
                let inner = self.deletions.split_off(nth).into_iter();
                let others = inner.filter(|it| !undone.contains(&it.version));
                self.deletions.extend(others.collect::<Vec<_>>());
                if !self.is_deleted() {
                    self.deletions.clear();
                }
                return true;
            }
        }
        false
    }

    /// Follows a split or a join of its text.
    fn follow_structure(&mut self, edit: &SequenceEdit) {
        let Position { node_id, offset } = &self.position;
        match edit {
            SequenceEdit::Split { id, at, right } if id == node_id => {
                let is_behind = match self.side {
                    Side::Before => *offset > at.text,
                    Side::After => *offset >= at.text,
                };
                if is_behind {
                    self.position = Position::new(right.clone(), offset - at.text);
                }
            }
            SequenceEdit::Join { id, at, right } if right == node_id => {
                self.position = Position::new(id.clone(), at.text + offset);
            }
            _ => {}
        }
    }
}

/// What is replaced of a text in a node that an undo brings back: others may have undone edits of
/// it meanwhile.
fn difference(before: &Text, node: &Node) -> Splice {
    let (mut len, mut len_after) = (before.len(), node.text().len());
    let common = before.chars().zip(node.text().chars());
    let at = common.take_while(|(one, other)| one == other).count();
    if at < len.min(len_after) {
        let (one, other): (Vec<char>, Vec<char>) =
            (before.chars().collect(), node.text().chars().collect());
        let ends = one[at..].iter().rev().zip(other[at..].iter().rev());
        let behind = ends.take_while(|(one, other)| one == other).count();
        len -= behind;
        len_after -= behind;
    }
    Splice {
        id: node.id().clone(),
        at,
        removed: len - at,
        inserted: len_after - at,
    }
}
