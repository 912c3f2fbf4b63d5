//! Edits of whole rows and columns.

use std::ops::Range;

use super::layout::Span;
use super::read::{self, Cell, Table};
use super::refused;
use crate::block_edits::BlockEdits;
use crate::schema::TableRole;
use crate::{EditError, NodeSpec};

impl Table<'_> {
    /// Adds a row before another, or after the last. Cells that reach across grow. The others are
    /// headers where those beside them are, but for a row or a column of headers at an edge.
    pub(super) fn add_row<E: BlockEdits>(&self, on: &mut E, at: usize) -> Result<(), EditError> {
        self.check_size(self.width, self.height() + 1)?;
        let row = self.table_type(TableRole::Row)?;
        if !self.schema.can_be_made(row) {
            return Err(refused(&self.id, "a new row must not require attributes"));
        }
        let like = reference(at, self.height(), |row| self.is_header_row(row));
        let (mut cells, mut column) = (Vec::new(), 0);
        while column < self.width {
            let cell = self.across_row(at, column);
            match cell {
                Some(cell) => {
                    let Span { columns, rows } = cell.area.span();
                    let span = Span {
                        columns,
                        rows: rows + 1,
                    };
                    self.set_span(on, cell, span, cell.widths.clone())?;
                    column = cell.area.right;
                }
                None => {
                    let role = like.map_or(TableRole::Cell, |row| self.at(row, column).role);
                    cells.push(self.new_cell(role)?);
                    column += 1;
                }
            }
        }
        let spec = NodeSpec::new(self.schema.kind_of(row).clone());
        let spec = spec.with_attributes(self.schema.new_attributes(row));
        let index = match self.rows.get(at) {
            Some(next) => next.index,
            None => self.rows[at - 1].index + 1,
        };
        on.insert_node(spec.with_children(cells), &self.id, index)?;
        Ok(())
    }

    /// Adds a column before another, or after the last, as [`add_row`](Self::add_row) does a row.
    pub(super) fn add_column<E: BlockEdits>(&self, on: &mut E, at: usize) -> Result<(), EditError> {
        self.check_size(self.width + 1, self.height())?;
        let like = reference(at, self.width, |column| self.is_header_column(column));
        let mut row = 0;
        while row < self.height() {
            match self.across_column(row, at) {
                Some(cell) => {
                    let Span { columns, rows } = cell.area.span();
                    self.check_columns(columns + 1)?;
                    let span = Span {
                        columns: columns + 1,
                        rows,
                    };
                    let widths = cell.widths.as_deref();
                    let widths = widths.map(|it| read::with_more(it, at - cell.area.left, 1));
                    self.set_span(on, cell, span, widths)?;
                    row = cell.area.bottom;
                }
                None => {
                    let role = like.map_or(TableRole::Cell, |column| self.at(row, column).role);
                    let index = self.index_at(row, at);
                    on.insert_node(self.new_cell(role)?, &self.rows[row].id, index)?;
                    row += 1;
                }
            }
        }
        Ok(())
    }

    /// Deletes rows. Cells that reach into them from above shrink. Cells that reach out of them
    /// below move down.
    pub(super) fn delete_rows<E: BlockEdits>(
        &self,
        on: &mut E,
        gone: Range<usize>,
    ) -> Result<(), EditError> {
        if gone.len() == self.height() {
            return Err(refused(&self.id, "a row must be left"));
        }
        let mut moved: Vec<&Cell> = Vec::new();
        for cell in &self.cells {
            let Span { columns, rows } = cell.area.span();
            let lost = overlap(&gone, &(cell.area.top..cell.area.bottom));
            if lost == 0 || lost == rows {
                continue;
            }
            let rows = rows - lost;
            self.set_span(on, cell, Span { columns, rows }, cell.widths.clone())?;
            if gone.contains(&cell.area.top) {
                moved.push(cell);
            }
        }
        moved.sort_by_key(|cell| cell.area.left);
        for (nth, cell) in moved.into_iter().enumerate() {
            let index = self.index_at(gone.end, cell.area.left) + nth;
            on.move_to(&cell.id, &self.rows[gone.end].id, index)?;
        }
        for row in &self.rows[gone] {
            on.delete_node(&row.id)?;
        }
        Ok(())
    }

    /// Deletes columns. Cells that reach out of them shrink.
    pub(super) fn delete_columns<E: BlockEdits>(
        &self,
        on: &mut E,
        gone: Range<usize>,
    ) -> Result<(), EditError> {
        if gone.len() == self.width {
            return Err(refused(&self.id, "a column must be left"));
        }
        for cell in &self.cells {
            let Span { columns, rows } = cell.area.span();
            let lost = overlap(&gone, &(cell.area.left..cell.area.right));
            if lost == columns {
                on.delete_node(&cell.id)?;
            } else if lost > 0 {
                let first = gone.start.saturating_sub(cell.area.left);
                let widths = cell.widths.as_deref();
                let widths = widths.and_then(|it| read::without(it, first..first + lost));
                let columns = columns - lost;
                self.set_span(on, cell, Span { columns, rows }, widths)?;
            }
        }
        Ok(())
    }

    /// Moves a row to the place of another, with the rows that cells join to it, to the far side of
    /// those that cells join to the other. Cells are headers where the cells in their new place
    /// were.
    pub(super) fn move_row<E: BlockEdits>(
        &self,
        on: &mut E,
        from: usize,
        to: usize,
    ) -> Result<(), EditError> {
        let areas = self.cells.iter().map(|it| it.area.top..it.area.bottom);
        let Some((from, to, order)) = moved(self.height(), areas, from, to) else {
            return Ok(());
        };
        for (nth, &row) in order.iter().enumerate() {
            for cell in &self.cells[self.rows[row].cells.clone()] {
                let role = self.at(nth, cell.area.left).role;
                self.set_role(on, cell, role)?;
            }
        }
        let up = to.start < from.start;
        for (nth, row) in self.rows[from].iter().enumerate() {
            let index = match up {
                true => self.rows[to.start].index + nth,
                false => self.rows[to.end - 1].index,
            };
            on.move_to(&row.id, &self.id, index)?;
        }
        Ok(())
    }

    /// Moves a column to the place of another, as [`move_row`](Self::move_row) does a row.
    pub(super) fn move_column<E: BlockEdits>(
        &self,
        on: &mut E,
        from: usize,
        to: usize,
    ) -> Result<(), EditError> {
        let areas = self.cells.iter().map(|it| it.area.left..it.area.right);
        let Some((from, to, order)) = moved(self.width, areas, from, to) else {
            return Ok(());
        };
        let mut place = vec![0; self.width];
        order
            .iter()
            .enumerate()
            .for_each(|(nth, &column)| place[column] = nth);
        for cell in &self.cells {
            let role = self.at(cell.area.top, place[cell.area.left]).role;
            self.set_role(on, cell, role)?;
        }
        let up = to.start < from.start;
        for (nth, row) in self.rows.iter().enumerate() {
            let cells = self.cells[row.cells.clone()].iter();
            let cells = cells.filter(|cell| from.contains(&cell.area.left));
            for (count, cell) in cells.enumerate() {
                let index = match up {
                    true => self.index_at(nth, to.start) + count,
                    false => self.index_at(nth, to.end) - 1,
                };
                on.move_to(&cell.id, &row.id, index)?;
            }
        }
        Ok(())
    }

    /// The cell at a column that reaches from above a row into it.
    fn across_row(&self, row: usize, column: usize) -> Option<&Cell> {
        let is_inner = row > 0 && row < self.height();
        is_inner
            .then(|| self.at(row, column))
            .filter(|cell| cell.area.top < row)
    }

    fn across_column(&self, row: usize, column: usize) -> Option<&Cell> {
        let is_inner = column > 0 && column < self.width;
        is_inner
            .then(|| self.at(row, column))
            .filter(|cell| cell.area.left < column)
    }
}

/// The row or column whose cells a new one is like; plain cells for `None`. That is the one before
/// it, unless that consists of headers.
fn reference(at: usize, count: usize, is_header: impl Fn(usize) -> bool) -> Option<usize> {
    let before = at.saturating_sub(1);
    match is_header(before) {
        false => Some(before),
        true => Some(at).filter(|&at| at > 0 && at < count),
    }
}

fn overlap(one: &Range<usize>, other: &Range<usize>) -> usize {
    let end = one.end.min(other.end);
    end.saturating_sub(one.start.max(other.start))
}

/// Whether a cell joins each row or column to the one before it.
fn joined(count: usize, cells: impl Iterator<Item = Range<usize>>) -> Vec<bool> {
    let mut joined = vec![false; count];
    for cell in cells {
        joined[cell.start + 1..cell.end].fill(true);
    }
    joined
}

/// The rows or columns that cells join to one.
fn group(joined: &[bool], of: usize) -> Range<usize> {
    let start = (0..=of).rfind(|&nth| !joined[nth]);
    let end = (of + 1..joined.len()).find(|&nth| !joined[nth]);
    start.unwrap_or(0)..end.unwrap_or(joined.len())
}

/// A row or column with those that cells join to it, the same for another, and the order after the
/// first group is moved: before the other if it comes from behind it, otherwise after it. `None` if
/// both are in one group.
fn moved(
    count: usize,
    cells: impl Iterator<Item = Range<usize>>,
    from: usize,
    to: usize,
) -> Option<(Range<usize>, Range<usize>, Vec<usize>)> {
    let joined = joined(count, cells);
    let (from, to) = (group(&joined, from), group(&joined, to));
    if from == to {
        return None;
    }
    let at = match to.start < from.start {
        true => to.start,
        false => to.end,
    };
    let others = |range: Range<usize>| range.filter(|nth| !from.contains(nth));
    let before = others(0..at).chain(from.clone());
    let order = before.chain(others(at..count)).collect();
    Some((from, to, order))
}
