//! Repairs a table whose cells do not fill it: `fixTable` of prosemirror-tables.

use super::read::{self, Table};
use crate::block_edits::BlockEdits;
use crate::fit::{self, FitEdit};
use crate::schema::{Schema, TableRole};
use crate::{EditError, NodeId, Position, Value, cost};

impl<'s> Table<'s> {
    /// Reads a table and repairs it. A table without any cell is deleted.
    pub(super) fn repaired<E: BlockEdits>(
        on: &mut E,
        schema: &'s Schema,
        id: &NodeId,
    ) -> Result<Option<Self>, EditError> {
        // The second time, cells are added only at the ends of rows. That moves no other cell.
        for at_start in [true, false] {
            let table = Self::read(on, schema, id)?;
            if table.width == 0 {
                delete_table(on, schema, id)?;
                return Ok(None);
            }
            let is_even = !table.even_widths(on)?;
            match table.is_whole() {
                true if is_even => return Ok(Some(table)),
                true => break,
                false => {
                    table.cut_cells(on)?;
                    table.add_missing(on, at_start)?;
                }
            }
        }
        let table = Self::read(on, schema, id)?;
        match table.even_widths(on)? {
            true => Self::read(on, schema, id).map(Some),
            false => Ok(Some(table)),
        }
    }

    fn is_whole(&self) -> bool {
        let mut cells = self.cells.iter();
        self.missing.iter().all(|&missing| missing == 0)
            && cells.all(|cell| cell.span == Some(cell.area.span()))
    }

    /// Gives each cell the span that it can have.
    fn cut_cells<E: BlockEdits>(&self, on: &mut E) -> Result<(), EditError> {
        for cell in &self.cells {
            let span = cell.area.span();
            if cell.span != Some(span) {
                let widths = cell
                    .widths
                    .clone()
                    .and_then(|it| match it.len() > span.columns {
                        true => read::without(&it, span.columns..usize::MAX),
                        false => Some(it),
                    });
                self.set_span(on, cell, span, widths)?;
            }
        }
        Ok(())
    }

    /// Adds a cell for each place that has none, of the role of the first cell in its row.
    fn add_missing<E: BlockEdits>(&self, on: &mut E, at_start: bool) -> Result<(), EditError> {
        let is_short = |row: &usize| self.missing[*row] > 0;
        let first = (0..self.height()).find(is_short);
        let last = (0..self.height()).rfind(is_short);
        for (nth, row) in self.rows.iter().enumerate() {
            if self.missing[nth] == 0 {
                continue;
            }
            // The first row, or the one after the first short one, may have lost its start.
            let may_start = nth == 0 || first == Some(nth - 1);
            let index = match at_start && may_start && last == Some(nth) {
                true => 0,
                false => row.len,
            };
            let cell = self
                .cells
                .get(row.cells.start)
                .filter(|_| !row.cells.is_empty());
            let role = cell.map_or(TableRole::Cell, |cell| cell.role);
            let spec = self.new_cell(role)?;
            for _ in 0..self.missing[nth] {
                on.insert_node(spec.clone(), &row.id, index)?;
            }
        }
        Ok(())
    }

    /// Gives all cells of a column the same width, if some have one. Returns whether any changed.
    fn even_widths<E: BlockEdits>(&self, on: &mut E) -> Result<bool, EditError> {
        // The width of each column, and in how many rows it has it.
        let mut widths: Vec<Option<(&Value, usize)>> = vec![None; self.width];
        for cell in &self.cells {
            for _ in cell.area.top..cell.area.bottom {
                let own = cell.widths.iter().flatten();
                for (column, width) in (cell.area.left..cell.area.right).zip(own) {
                    let known = &mut widths[column];
                    *known = match *known {
                        _ if !read::is_width(width) => continue,
                        Some((same, rows)) if same == width => Some((same, rows + 1)),
                        Some((other, rows)) if rows > 1 => Some((other, rows)),
                        _ => Some((width, 1)),
                    };
                }
            }
        }
        let mut known = widths.iter().flatten();
        if known.all(|(_, rows)| *rows == self.height()) {
            return Ok(false);
        }
        for cell in &self.cells {
            on.spend_steps(&|_| cost::LOOKED_UP)?;
            let span = cell.area.span();
            let mut own = cell.widths.clone().unwrap_or_default();
            own.resize(own.len().max(span.columns), 0.into());
            let known = &widths[cell.area.left..cell.area.right];
            let mut differs = false;
            for (own, width) in own.iter_mut().zip(known) {
                if let Some((width, _)) = width.filter(|(width, _)| own != *width) {
                    *own = width.clone();
                    differs = true;
                }
            }
            if differs {
                self.set_span(on, cell, span, Some(own))?;
            }
        }
        Ok(true)
    }
}

/// Deletes a table as a selected block: what the schema requires in its place is filled in.
fn delete_table<E: BlockEdits>(on: &mut E, schema: &Schema, id: &NodeId) -> Result<(), EditError> {
    let at = Position::new(id.clone(), 0);
    match fit::edit(on, schema, &at, &at, &FitEdit::DeleteBlock)? {
        true => Ok(()),
        false => on.delete_node(id),
    }
}
