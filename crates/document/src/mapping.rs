//! Positions of an older version, in a later one.

mod letters;

use serde::{Deserialize, Serialize};

use letters::Letters;

use super::sequence_edit::SequenceEdit;
use super::{Change, NodeId, Position, Snapshot, Text, View};

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
    /// The position; `None` if its node does not exist any more. Another node can have the same id.
    pub position: Option<Position>,
    /// Whether the character on its side was deleted, or its node. With the commits of a store, it
    /// is false again after an undo that brought the character back.
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
    /// This knows no undos: deleted characters that an undo inserts again are new, and so are
    /// nodes. They are known to [`Snapshot::map_position`], where a store keeps its commits.
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
        tracked.follow(0, changes, &[], false);
        tracked.mapped()
    }
}

/// Has the commits between versions of a document, as a `doclock::DataStore` does: a position of an
/// older version [follows them](Snapshot::map_position).
pub trait KeptCommits {
    /// Why commits are missing: `doclock::events::MissingCommits`.
    type Error;

    /// Leads a position of one version through the commits up to another one.
    #[doc(hidden)]
    fn lead(
        &self,
        position: &mut TrackedPosition,
        from_version: u64,
        to_version: u64,
    ) -> Result<(), Self::Error>;
}

impl Snapshot {
    /// Returns where a position of an older version is in this one, for example that of a comment
    /// or of the cursor of a client.
    ///
    /// The position follows the commits between the two versions, as [`Position::mapped`]
    /// describes. Text that an undo brings back has its positions again. In five cases they stay
    /// deleted:
    ///
    /// - A node comes back, and none of the undone commits created, edited or deleted it after
    ///   `from_version`: it can be another node that had the same id. The commits of an undo that
    ///   ran code are not known after a restart. Such an undo brings back the only deleted node
    ///   with the id, and none of several.
    /// - The text of a deleted node comes back in another node.
    /// - Beside the text there were more than some hundred other edits.
    /// - Only a part of what an undo seems to bring back comes back, because another undo had no
    ///   effect, and letters in it look alike.
    /// - A letter was undone and redone, and an undo of another editor brings back the letters
    ///   beside it. For example, Bob types `345` and deletes the `4`. Ann deletes the `5`, undoes
    ///   that, and redoes it. Bob undoes his deletion, and Ann hers: the positions of the `5` from
    ///   before her redo stay deleted.
    ///
    /// In a node that an undo brings back with another text, a position may be beside another
    /// letter that looks like its own.
    ///
    /// A position in a node that this version does not have is deleted, and one behind the end of
    /// its text is at the end.
    ///
    /// A snapshot has no commits. They are those that the `store`
    /// [keeps](https://docs.rs/doclock/latest/doclock/struct.StoreOptions.html#method.kept_commits),
    /// which has to be the one of the snapshot. Never blocks. Takes time in proportion to the
    /// number of commits since the version and to their changes. Other threads wait to commit only
    /// while the list of these is copied.
    ///
    /// # Errors
    ///
    /// `MissingCommits`: the oldest of these commits were removed, this version is older than
    /// `from_version`, or the store has not reached this version.
    ///
    /// ```
    /// use doclock::document::{Position, Side};
    /// use doclock::{DataStore, Editor, StoreOptions, dsl::*};
    ///
    /// let store = DataStore::with_options(StoreOptions::new().kept_commits(1 << 20));
    /// let ann = Editor::new(store.clone(), "ann");
    /// transaction(&ann, [create(text_node("text", "Io and Europa").with_id("t"))]).commit()?;
    /// let (version, comment) = (store.version(), Position::new("t", 7));
    /// transaction(&ann, [insert_text(0, "Moons: ").on("t")]).commit()?;
    ///
    /// let now = store.snapshot().map_position(&store, version, &comment, Side::After)?;
    /// assert_eq!((now.position, now.is_deleted), (Some(Position::new("t", 14)), false));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn map_position<K: KeptCommits>(
        &self,
        store: &K,
        from_version: u64,
        position: &Position,
        side: Side,
    ) -> Result<MappedPosition, K::Error> {
        let mut tracked = TrackedPosition::new(position.clone(), side);
        store.lead(&mut tracked, from_version, self.version())?;
        Ok(tracked.mapped_in(self))
    }
}

/// A position that follows commits.
#[derive(Clone, Debug)]
pub struct TrackedPosition {
    position: Position,
    side: Side,
    letters: Letters,
    /// The node that was joined at the position, and whether the position was in it. The undo of
    /// the join splits the same node off.
    seam: Option<(NodeId, bool)>,
}

impl TrackedPosition {
    pub fn new(position: Position, side: Side) -> Self {
        Self {
            letters: Letters::new(position.node_id.clone()),
            position,
            side,
            seam: None,
        }
    }

    /// Where it is.
    pub fn mapped(self) -> MappedPosition {
        let is_gone = self.letters.is_gone();
        MappedPosition {
            is_deleted: is_gone || self.letters.is_deleted(),
            position: (!is_gone).then_some(self.position),
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

    /// Follows the changes of a commit. It undid or redid the commits of some versions, if any.
    pub fn follow(&mut self, version: u64, changes: &[Change], undone: &[u64], is_redo: bool) {
        let is_undo = !undone.is_empty();
        self.letters.begin(version, undone, is_redo);
        for change in changes {
            let Position { node_id, offset } = &self.position;
            self.letters.trim(node_id, *offset);
            match change {
                Change::RemoveSubtree { nodes, .. } => {
                    for node in nodes {
                        let has_position = self.is_in(node.id());
                        self.letters.leave(node.id(), node.text(), has_position);
                    }
                }
                Change::InsertSubtree { nodes, .. } => {
                    for node in nodes {
                        match is_undo {
                            true => self.come_back(node.id(), node.text(), version),
                            false => self.letters.begin_text(node.id()),
                        }
                    }
                }
                Change::SpliceText {
                    id,
                    at,
                    removed,
                    inserted,
                    ..
                } => self.splice(id, (*at, removed, inserted), version, is_undo),
                _ => change.each_sequence_edit(|edit| self.follow_structure(&edit)),
            }
        }
        self.letters.end(version, undone, is_redo);
        if is_undo {
            self.return_with_letters();
        }
    }

    /// Goes to where an undo has brought its letter back, or stays between the letters around it.
    fn return_with_letters(&mut self) {
        if let Some((node, offset)) = self.letters.take_returned() {
            let behind = usize::from(self.side == Side::Before);
            self.position = Position::new(node, offset + behind);
        } else if let Some((start, end)) = self.letters.room(&self.position.node_id) {
            self.position.offset = self.position.offset.clamp(start, end);
        }
    }

    /// Whether it is in the node with this id, and not in a deleted one that had it before.
    fn is_in(&self, id: &NodeId) -> bool {
        *id == self.position.node_id && !self.letters.is_gone()
    }

    /// Follows a node that was deleted, if it was, and that an undo brings back with this text.
    fn come_back(&mut self, id: &NodeId, text: &Text, version: u64) {
        if let Some(gone) = self.letters.come_back(id) {
            let (at, [removed, inserted]) = difference(&gone, text);
            let splice = (at, &*removed, &*inserted);
            self.stay_beside_a_letter(id, gone.len(), splice);
            self.splice(id, splice, version, true);
        }
    }

    /// At an end of a text that came back without the letters there, it stays beside the last one:
    /// that can be in another text now.
    fn stay_beside_a_letter(&mut self, id: &NodeId, len: usize, (at, removed, _): Splice<'_>) {
        let end = at + removed.chars().count();
        let offset = self.position.offset;
        if !self.is_in(id) || at == end || self.letters.is_deleted() {
            return;
        }
        match self.side {
            Side::After if offset == len && end == len => self.side = Side::Before,
            Side::Before if offset == 0 && at == 0 => self.side = Side::After,
            _ => {}
        }
    }

    /// Follows a replacement of characters.
    fn splice(&mut self, id: &NodeId, splice: Splice<'_>, version: u64, is_undo: bool) {
        if self.is_in(id) {
            self.follow_splice(version, splice);
        }
        self.letters.splice(id, splice, version, is_undo);
    }

    /// Follows a replacement of characters of its text.
    fn follow_splice(&mut self, version: u64, (at, removed, inserted): Splice<'_>) {
        // Changes from elsewhere can have any numbers.
        let offset = self.position.offset;
        let [end, behind] = [removed, inserted].map(|text| at.saturating_add(text.chars().count()));
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
        let beside = match self.side {
            Side::Before => offset.checked_sub(1),
            Side::After => Some(offset),
        };
        let deleted = beside.filter(|beside| (at..end).contains(beside));
        if let Some(beside) = deleted.filter(|_| !self.letters.is_deleted()) {
            let node = &self.position.node_id;
            self.letters.mark_deleted(node, beside, version);
        }
        self.position.offset = if is_behind { behind } else { at };
    }

    /// Follows a split or a join of its text.
    fn follow_structure(&mut self, edit: &SequenceEdit) {
        match edit {
            SequenceEdit::Split { id, at, right } => self.letters.split(id, at.text, right),
            SequenceEdit::Join { id, at, right } => self.letters.join(id, at.text, right),
            _ => {}
        }
        if self.letters.is_gone() {
            return;
        }
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
