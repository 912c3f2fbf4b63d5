//! Pieces of a sequence, and lists of them.

use std::ops::Range;

use smallvec::{SmallVec, smallvec};

use crate::id::NodeId;
use crate::steps::step;

/// More than the length of any sequence: where each sequence ends.
pub(super) const END: usize = usize::MAX / 4;

pub(super) type PieceList = SmallVec<[Piece; 3]>;

/// Consecutive items of the same origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) origin: Origin,
    pub(super) len: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// Items that were inserted.
    New,
    /// The items of a node's sequence from an index on.
    Old(NodeId, usize),
    /// Items that were deleted; they have no width.
    Gone(NodeId, usize),
}

impl Piece {
    pub(super) fn new(origin: Origin, len: usize) -> Self {
        Self { origin, len }
    }

    /// How many items of the present sequence it has.
    pub(super) fn width(&self) -> usize {
        match self.origin {
            Origin::Gone(..) => 0,
            _ => self.len,
        }
    }

    /// The sequence and the range of its items.
    pub(super) fn source(&self) -> Option<(&NodeId, Range<usize>)> {
        match &self.origin {
            Origin::New => None,
            Origin::Old(id, from) | Origin::Gone(id, from) => Some((id, *from..*from + self.len)),
        }
    }

    /// Some of its items.
    fn part(&self, from: usize, len: usize) -> Self {
        let origin = match &self.origin {
            Origin::New => Origin::New,
            Origin::Old(id, first) => Origin::Old(id.clone(), first + from),
            Origin::Gone(id, first) => Origin::Gone(id.clone(), first + from),
        };
        Self::new(origin, len)
    }

    /// The items from `at` on; this piece keeps those before.
    pub(super) fn split_off(&mut self, at: usize) -> Self {
        let rest = self.part(at, self.len - at);
        self.len = at;
        rest
    }

    /// The piece after its items are deleted; `None` if it was inserted.
    pub(super) fn deleted(self) -> Option<Self> {
        match self.origin {
            Origin::New => None,
            Origin::Old(id, from) => Some(Self::new(Origin::Gone(id, from), self.len)),
            Origin::Gone(..) => Some(self),
        }
    }

    /// Whether `next` consists of the items right after these.
    fn continues_in(&self, next: &Self) -> bool {
        match (&self.origin, &next.origin) {
            (Origin::New, Origin::New) => true,
            // The tombstone of the end of a sequence is not that of an item.
            (Origin::Gone(..), Origin::Gone(_, at)) if at + next.len == END => false,
            (Origin::Old(id, from), Origin::Old(next, at))
            | (Origin::Gone(id, from), Origin::Gone(next, at)) => {
                id == next && from + self.len == *at
            }
            _ => false,
        }
    }
}

/// A sequence that did not change.
pub(super) fn unchanged(id: &NodeId) -> PieceList {
    smallvec![Piece::new(Origin::Old(id.clone(), 0), END)]
}

pub(super) fn push(list: &mut PieceList, piece: Piece) {
    if piece.len == 0 {
        return;
    }
    match list.last_mut() {
        Some(last) if last.continues_in(&piece) => last.len = (last.len + piece.len).min(END),
        _ => list.push(piece),
    }
}

pub(super) fn push_all(list: &mut PieceList, pieces: impl IntoIterator<Item = Piece>) {
    pieces.into_iter().for_each(|piece| push(list, piece));
}

/// Divides a list. Tombstones at the border belong to the second part.
pub(super) fn divide(list: PieceList, at: usize) -> (PieceList, PieceList) {
    let (mut first, mut rest) = (list, PieceList::new());
    let (mut left, mut index) = (at, 0);
    while left > 0 && index < first.len() {
        let width = first[index].width();
        if width > left {
            rest.push(first[index].split_off(left));
        }
        left -= width.min(left);
        index += 1;
    }
    rest.extend(first.drain(index..));
    (first, rest)
}

/// A piece of a list, and the offset where it begins.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PiecePosition {
    pub(super) index: usize,
    pub(super) offset: usize,
}

/// Visits the parts of a list in a range, beginning with a piece that is not behind the range.
/// Returns the first piece that a range after this one may need. Tombstones at a border belong to
/// the range after it. A range to [`END`] has no end.
pub(super) fn slice(
    list: &[Piece],
    from: PiecePosition,
    range: Range<usize>,
    mut visit: impl FnMut(Piece),
) -> PiecePosition {
    let PiecePosition {
        mut index,
        mut offset,
    } = from;
    let range = range.start..if range.end == END {
        usize::MAX
    } else {
        range.end
    };
    while let Some(piece) = list.get(index) {
        step();
        let (start, end) = (offset, offset + piece.width());
        if start >= range.end {
            break;
        }
        if start == end && start >= range.start {
            visit(piece.clone());
        }
        let (first, last) = (start.max(range.start), end.min(range.end));
        if first < last {
            visit(piece.part(first - start, last - first));
        }
        if end > range.end {
            break;
        }
        (index, offset) = (index + 1, end);
    }
    PiecePosition { index, offset }
}
