//! Where the characters of texts and the children of nodes went, as pieces of the state before.
//!
//! A splice changes one sequence. A split and a join move the rest of a sequence to another node.
//! A map describes each changed sequence by pieces of the sequences before, so it follows an item
//! through all of these. Maps compose by substitution. Deleted items stay as tombstones, so that a
//! position at them is followed to where they were (as in the tombstone transformation functions of
//! Oster, Molli, Urso and Imine, 2006).

mod composer;
mod piece;

use std::collections::HashMap;

use smallvec::SmallVec;

use super::sequence_edit::{SequenceEdit, Splice};
use super::{Change, Selection};
use crate::hashing::Secret;
use crate::id::NodeId;
pub use composer::Composer;
use piece::{
    END, Origin, Piece, PieceList, PiecePosition, divide, push, push_all, slice, unchanged,
};

/// The changes of all sequences of a document since some moment.
#[derive(Clone, Debug, Default)]
pub struct PieceMap {
    pub(super) texts: Sequences,
    pub(super) children: Sequences,
}

/// The changed sequences of one kind.
#[derive(Clone, Debug, Default)]
pub(super) struct Sequences {
    /// The pieces of each changed sequence, in order.
    lists: HashMap<NodeId, PieceList, Secret>,
    /// The other nodes that got items of a sequence, or once had some.
    receivers: HashMap<NodeId, SmallVec<[NodeId; 1]>, Secret>,
    /// The most pieces that a list ever had.
    longest: usize,
}

/// Where an item or a gap between items is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MappedPosition {
    pub(super) node: NodeId,
    pub(super) offset: usize,
}

/// The side of a gap whose neighbour determines where the gap is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// Right after the previous item, before all insertions.
    AfterPrevious,
    /// Right before the next item, after all insertions.
    BeforeNext,
}

impl Sequences {
    pub(super) fn is_empty(&self) -> bool {
        self.lists.is_empty()
    }

    fn take(&mut self, id: &NodeId) -> PieceList {
        self.lists.remove(id).unwrap_or_else(|| unchanged(id))
    }

    /// Sets the pieces of a sequence.
    fn set(&mut self, id: &NodeId, mut list: PieceList) {
        // The end of a sequence has no items. A tombstone of it is needed only before others.
        if let Some((source, range)) = list.last().and_then(Piece::source)
            && source == id
            && range.end == END
        {
            let from = range.start;
            list.pop();
            push(
                &mut list,
                Piece::new(Origin::Old(id.clone(), from), END - from),
            );
        }
        if let [
            Piece {
                origin: Origin::Old(source, 0),
                len: END,
            },
        ] = &list[..]
            && source == id
        {
            self.lists.remove(id);
            return;
        }
        for (source, _) in list.iter().filter_map(Piece::source) {
            if source != id {
                let receivers = self.receivers.entry(source.clone()).or_default();
                if !receivers.contains(id) {
                    receivers.push(id.clone());
                }
            }
        }
        self.longest = self.longest.max(list.len());
        self.lists.insert(id.clone(), list);
    }

    // --- Taking in changes ---

    fn splice(&mut self, id: &NodeId, at: usize, removed: usize, inserted: usize) {
        if removed == 0 {
            return self.insert(id, at, inserted);
        }
        let (mut list, rest) = divide(self.take(id), at);
        let (middle, rest) = divide(rest, removed);
        push(&mut list, Piece::new(Origin::New, inserted));
        push_all(&mut list, middle.into_iter().filter_map(Piece::deleted));
        push_all(&mut list, rest);
        self.set(id, list);
    }

    /// Does what [`splice`](Self::splice) does, in place: the other pieces stay.
    fn insert(&mut self, id: &NodeId, at: usize, inserted: usize) {
        if inserted == 0 {
            return;
        }
        let new = Piece::new(Origin::New, inserted);
        let list = self.lists.entry(id.clone());
        let list = list.or_insert_with(|| unchanged(id));
        let is_new = |piece: &Piece| matches!(piece.origin, Origin::New);
        let (mut index, mut left) = (0, at);
        while left > 0
            && let Some(piece) = list.get_mut(index)
        {
            let width = piece.width();
            if is_new(piece) && left <= width {
                piece.len += inserted;
                return;
            }
            if left < width {
                let rest = piece.split_off(left);
                list.insert(index + 1, rest);
            }
            (index, left) = (index + 1, left - left.min(width));
        }
        match list.get_mut(index).filter(|piece| is_new(piece)) {
            Some(next) => next.len += inserted,
            None => list.insert(index, new),
        }
        self.longest = self.longest.max(list.len());
    }

    fn split(&mut self, id: &NodeId, at: usize, right: &NodeId) {
        let (list, rest) = divide(self.take(id), at);
        self.set(id, list);
        self.set(right, rest);
    }

    fn join(&mut self, id: &NodeId, at: usize, right: &NodeId) {
        let (mut list, end) = divide(self.take(id), at);
        push_all(&mut list, end.into_iter().filter_map(Piece::deleted));
        push_all(&mut list, self.take(right));
        self.set(right, PieceList::new());
        self.set(id, list);
    }

    /// Takes in later changes, which start from the present state.
    fn append(&mut self, later: &Self) {
        let lists: Vec<(&NodeId, PieceList)> = later
            .lists
            .iter()
            .map(|(id, pieces)| (id, self.substituted(pieces)))
            .collect();
        for (id, list) in lists {
            self.set(id, list);
        }
    }

    /// Describes pieces of the present state by the state before. Takes time linear in both if the
    /// pieces are in the order of their sequence, as they are unless halves changed places.
    fn substituted(&self, pieces: &[Piece]) -> PieceList {
        let mut list = PieceList::new();
        let mut cursor = None;
        for piece in pieces {
            let Some((id, range)) = piece.source() else {
                push(&mut list, piece.clone());
                continue;
            };
            let Some(before) = self.lists.get(id) else {
                push(&mut list, piece.clone());
                continue;
            };
            let is_gone = piece.width() == 0;
            let from = cursor.filter(|&(last, end, _)| last == id && end <= range.start);
            let from = from.map_or(PiecePosition::default(), |(_, _, reached)| reached);
            let end = range.end;
            let reached = slice(before, from, range, |part| match is_gone {
                true => push_all(&mut list, part.deleted()),
                false => push(&mut list, part),
            });
            cursor = Some((id, end, reached));
        }
        list
    }

    // --- Finding items ---

    /// The nodes that may have items of a sequence.
    fn holders<'s>(&'s self, id: &'s NodeId) -> impl Iterator<Item = &'s NodeId> {
        let receivers = self.receivers.get(id).into_iter().flatten();
        std::iter::once(id).chain(receivers)
    }

    /// Calls `visit` for each piece of a sequence, with the list that has it and its index and
    /// offset there, until `visit` returns a value.
    fn find<R>(
        &self,
        id: &NodeId,
        mut visit: impl FnMut(&NodeId, &[Piece], usize, usize) -> Option<R>,
    ) -> Option<R> {
        for holder in self.holders(id) {
            let whole;
            let list = match self.lists.get(holder) {
                Some(list) => list,
                None if holder == id => {
                    whole = unchanged(id);
                    &whole
                }
                None => continue,
            };
            let mut offset = 0;
            for (index, piece) in list.iter().enumerate() {
                if piece.source().is_some_and(|(source, _)| source == id)
                    && let Some(found) = visit(holder, list, index, offset)
                {
                    return Some(found);
                }
                offset += piece.width();
            }
        }
        None
    }

    /// Where an item is, or where it was deleted.
    fn item(&self, id: &NodeId, at: usize) -> Option<ItemContext> {
        self.find(id, |holder, list, index, offset| {
            let (_, range) = list[index].source()?;
            range.contains(&at).then(|| {
                let alive = list[index].width() > 0;
                ItemContext {
                    spot: MappedPosition {
                        node: holder.clone(),
                        offset: offset + if alive { at - range.start } else { 0 },
                    },
                    alive,
                    inserted_before: match index.checked_sub(1).map(|before| &list[before]) {
                        Some(Piece {
                            origin: Origin::New,
                            len,
                        }) if range.start == at => *len,
                        _ => 0,
                    },
                }
            })
        })
    }

    /// Where the gap before an item is.
    pub(super) fn gap(&self, id: &NodeId, at: usize, side: Side) -> Option<MappedPosition> {
        if side == Side::AfterPrevious && at > 0 {
            let ItemContext { spot, alive, .. } = self.item(id, at - 1)?;
            let offset = spot.offset + usize::from(alive);
            return Some(MappedPosition { offset, ..spot });
        }
        let ItemContext {
            spot,
            inserted_before,
            ..
        } = self.item(id, at)?;
        let offset = match side {
            Side::AfterPrevious => spot.offset - inserted_before,
            Side::BeforeNext => spot.offset,
        };
        Some(MappedPosition { offset, ..spot })
    }

    /// Where a caret before an item is. As a live one, it moves behind insertions at its position,
    /// and behind replacements of the items around it.
    pub(super) fn caret(&self, id: &NodeId, at: usize) -> Option<MappedPosition> {
        self.gap(id, at, Side::BeforeNext)
    }
}

/// An item, with what surrounds it.
#[derive(Debug)]
struct ItemContext {
    spot: MappedPosition,
    alive: bool,
    /// How many new items are right before it.
    inserted_before: usize,
}

impl PieceMap {
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty() && self.children.is_empty()
    }

    /// Whether one more change may cost as much as the composition of several maps. A change takes
    /// time in proportion to the pieces of its sequence.
    fn is_long(&self) -> bool {
        const LONG: usize = 64;
        self.texts.longest > LONG || self.children.longest > LONG
    }

    /// Takes in an edit after all known ones.
    fn observe(&mut self, edit: &SequenceEdit) {
        let splice = |sequences: &mut Sequences, splice: &Splice| {
            sequences.splice(&splice.id, splice.at, splice.removed, splice.inserted);
        };
        match edit {
            SequenceEdit::Text(it) => splice(&mut self.texts, it),
            SequenceEdit::Children(it) => splice(&mut self.children, it),
            SequenceEdit::Split { id, at, right } => {
                self.texts.split(id, at.text, right);
                self.children.split(id, at.children, right);
            }
            SequenceEdit::Join { id, at, right } => {
                self.texts.join(id, at.text, right);
                self.children.join(id, at.children, right);
            }
            SequenceEdit::Other(_) => {}
        }
    }

    /// Takes in later changes. Takes time linear in the later changes and in the sequences that
    /// both know.
    pub fn append(&mut self, later: &Self) {
        self.texts.append(&later.texts);
        self.children.append(&later.children);
    }

    /// The selection afterwards. Whether its nodes exist is not known here.
    pub fn selection(&self, selection: &Selection) -> Selection {
        selection.moved(|at| match self.texts.caret(&at.node_id, at.offset) {
            Some(spot) => (spot.node, spot.offset),
            None => (at.node_id.clone(), at.offset),
        })
    }
}

impl<'c> Extend<&'c Change> for PieceMap {
    /// Takes in changes after all known ones.
    fn extend<I: IntoIterator<Item = &'c Change>>(&mut self, changes: I) {
        for change in changes {
            change.each_sequence_edit(|edit| self.observe(&edit));
        }
    }
}

impl<'e> Extend<&'e SequenceEdit> for PieceMap {
    /// Takes in edits after all known ones.
    fn extend<I: IntoIterator<Item = &'e SequenceEdit>>(&mut self, edits: I) {
        edits.into_iter().for_each(|edit| self.observe(edit));
    }
}

#[cfg(test)]
mod tests;
