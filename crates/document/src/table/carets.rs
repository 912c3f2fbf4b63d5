//! The selection during an edit of cells.

use super::read::{Cell, Table};
use crate::block_edits::BlockEdits;
use crate::{EditError, NodeId, Position, Selection, TextSelection};

/// The ends of the selected text that are in cells whose content is deleted.
pub(super) struct Carets {
    selected: Option<TextSelection>,
    are_in: [bool; 2],
    /// The cell around the caret, if it is such a cell and nothing is selected.
    pub(super) caret: Option<NodeId>,
}

impl Carets {
    pub(super) fn in_cells<E: BlockEdits>(
        on: &E,
        table: &Table<'_>,
        is_one: impl Fn(&E, &Cell) -> Result<bool, EditError>,
    ) -> Result<Self, EditError> {
        let selected = match on.selected() {
            Some(Selection::Text(selected)) => Some(selected.clone()),
            _ => None,
        };
        let (mut are_in, mut caret) = ([false; 2], None);
        if let Some(TextSelection { anchor, focus, .. }) = &selected {
            for (is_in, end) in are_in.iter_mut().zip([anchor, focus]) {
                let cell = table.cell_around(on, &end.node_id)?;
                *is_in = match cell {
                    Some(cell) => is_one(on, cell)?,
                    None => false,
                };
                let of_caret = cell.filter(|_| *is_in && anchor == focus);
                caret = of_caret.map(|cell| cell.id.clone());
            }
        }
        Ok(Self {
            selected,
            are_in,
            caret,
        })
    }

    /// Moves them to a position. The other end of the selection stays.
    pub(super) fn put<E: BlockEdits>(self, on: &mut E, at: &Position) -> Result<(), EditError> {
        let Some(TextSelection { anchor, focus, .. }) = self.selected else {
            return Ok(());
        };
        let [anchor_moves, focus_moves] = self.are_in;
        if !anchor_moves && !focus_moves {
            return Ok(());
        }
        let place = |moves, end| if moves { at.clone() } else { end };
        on.select_text(Selection::new(
            place(anchor_moves, anchor),
            place(focus_moves, focus),
        ))
    }

    /// Selects what is between two positions if both ends are in such cells. Otherwise one of the
    /// ends moves to the first position.
    pub(super) fn put_between<E: BlockEdits>(
        self,
        on: &mut E,
        first: &Position,
        last: &Position,
    ) -> Result<(), EditError> {
        match self.are_in {
            [true, true] => on.select_text(Selection::new(first.clone(), last.clone())),
            _ => self.put(on, first),
        }
    }
}
