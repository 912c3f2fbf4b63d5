//! Edits of tables: rows, columns and cells with spans.
//!
//! The schema says what is a table ([`TableRole`]). An edit reads the table once ([`read`]), which
//! gives each cell its place ([`layout`]). A table whose cells do not fill it is repaired first
//! ([`repair`]), so every other edit ([`lines`], [`cells`]) is one of a whole rectangle.
//!
//! The results are those of prosemirror-tables (src/commands.ts, src/fixtables.ts).

mod cells;
mod layout;
mod lines;
mod read;
mod repair;

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::block_edits::BlockEdits;
use crate::schema::{Schema, TableRole};
use crate::{EditError, NodeId, Position, Selection, TextSelection, cost, plan};
use read::Table;

/// A side of a cell, on which a row or a column is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TableSide {
    /// Above the cell, or to the left of it.
    Before,
    /// Below the cell, or to the right of it.
    After,
}

/// Which cells become headers, or plain cells if some are headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum HeaderPart {
    /// The cells between the two.
    Cells,
    /// All cells of their rows.
    Rows,
    /// All cells of their columns.
    Columns,
    /// The first row of the table, without the first cell if the first column is a header. They
    /// become plain cells only if all are headers.
    FirstRow,
    /// The first column of the table, in the same way.
    FirstColumn,
}

/// An edit of a table.
#[derive(Clone, Copy, Debug)]
pub enum TableEdit {
    /// Adds a row beside the cells.
    AddRow(TableSide),
    /// Adds a column beside the cells.
    AddColumn(TableSide),
    /// Deletes the rows of the cells.
    DeleteRows,
    /// Deletes the columns of the cells.
    DeleteColumns,
    /// Makes one cell of the cells.
    Merge,
    /// Makes cells of one column and one row of the first.
    Split,
    /// Makes cells headers, or headers cells.
    ToggleHeader(HeaderPart),
    /// Deletes the content of the cells.
    Clear,
    /// Moves the row of the first cell to that of the other.
    MoveRow,
    /// Moves the column of the first cell to that of the other.
    MoveColumn,
    /// Fills the table, where cells are missing or overlap.
    Repair,
}

/// Edits the table around a node. The cells of the edit are those in the smallest rectangle with
/// the cell around `first` and the cell around `last` in it.
///
/// # Errors
///
/// [`EditError::NotInTable`] if there is no such cell or table, [`EditError::TableRule`] if the
/// table does not allow the edit. Then nothing was changed. An error of an edit.
pub fn edit<E: BlockEdits>(
    on: &mut E,
    schema: Option<&Schema>,
    first: &NodeId,
    last: Option<&NodeId>,
    edit: TableEdit,
) -> Result<(), EditError> {
    plan::find(on, first)?;
    let last = last.unwrap_or(first);
    plan::find(on, last)?;
    let missing = |role| not_in_table(first, role);
    let schema = schema.ok_or_else(|| missing(TableRole::Table))?;
    if let TableEdit::Repair = edit {
        let table = table_around(on, schema, first)?;
        let table = table.ok_or_else(|| missing(TableRole::Table))?;
        return Table::repaired(on, schema, &table).map(drop);
    }
    let (first, last, table) = match shared_table(on, schema, first, last)? {
        Some(found) => found,
        None if cells_around(on, schema, first)?.is_empty() => {
            return Err(missing(TableRole::Cell));
        }
        None => return Err(not_in_table(last, TableRole::Cell)),
    };
    let table = Table::repaired(on, schema, &table)?;
    let table = table.ok_or_else(|| missing(TableRole::Table))?;
    let (Some(first), Some(last)) = (table.cell(&first), table.cell(&last)) else {
        return Err(missing(TableRole::Cell));
    };
    let area = first.area.around(&last.area);
    match edit {
        TableEdit::AddRow(TableSide::Before) => table.add_row(on, area.top),
        TableEdit::AddRow(TableSide::After) => table.add_row(on, area.bottom),
        TableEdit::AddColumn(TableSide::Before) => table.add_column(on, area.left),
        TableEdit::AddColumn(TableSide::After) => table.add_column(on, area.right),
        TableEdit::DeleteRows => table.delete_rows(on, area.top..area.bottom),
        TableEdit::DeleteColumns => table.delete_columns(on, area.left..area.right),
        TableEdit::Merge => table.merge(on, area),
        TableEdit::Split => table.split(on, first),
        TableEdit::ToggleHeader(part) => table.toggle_header(on, part, area),
        TableEdit::Clear => table.clear(on, area),
        TableEdit::MoveRow => table.move_row(on, first.area.top, last.area.top),
        TableEdit::MoveColumn => table.move_column(on, first.area.left, last.area.left),
        TableEdit::Repair => Ok(()),
    }
}

/// Deletes the content of all cells from one to another, if two positions are in different cells of
/// a table. Both are then where the caret is. Otherwise nothing is changed.
pub fn clear_between<E: BlockEdits>(
    on: &mut E,
    schema: Option<&Schema>,
    start: &mut Position,
    end: &mut Position,
) -> Result<(), EditError> {
    let schema = schema.filter(|schema| schema.table_type(TableRole::Table).is_some());
    let Some(schema) = schema.filter(|_| start.node_id != end.node_id) else {
        return Ok(());
    };
    let shared = shared_table(on, schema, &start.node_id, &end.node_id)?;
    let Some((first, last, table)) = shared.filter(|(first, last, _)| first != last) else {
        return Ok(());
    };
    // Of a selection elsewhere, nothing moves.
    let is_here = match on.selected() {
        Some(Selection::Text(TextSelection { anchor, focus })) => [anchor, focus]
            .iter()
            .all(|at| [&*start, &*end].contains(at)),
        _ => false,
    };
    let table = Table::read(on, schema, &table)?;
    let ends = table.cell(&first).zip(table.cell(&last));
    let (first, last) = ends.ok_or_else(|| not_in_table(&first, TableRole::Cell))?;
    table.clear(on, first.area.around(&last.area))?;
    let mut caret = plan::find(on, &first.id)?;
    while let Some(child) = on.children(caret.id()).next() {
        on.spend_steps(&|_| cost::LOOKED_UP)?;
        caret = child;
    }
    let caret = Position::new(caret.id().clone(), 0);
    if is_here {
        on.select_text(Selection::new(caret.clone(), caret.clone()))?;
    }
    (*start, *end) = (caret.clone(), caret);
    Ok(())
}

fn not_in_table(id: &NodeId, role: TableRole) -> EditError {
    EditError::NotInTable {
        id: id.clone(),
        role: role.name(),
    }
}

fn refused(table: &NodeId, rule: &'static str) -> EditError {
    EditError::TableRule {
        id: table.clone(),
        rule,
    }
}

/// The table that a node is or is in.
fn table_around<E: BlockEdits>(
    on: &E,
    schema: &Schema,
    id: &NodeId,
) -> Result<Option<NodeId>, EditError> {
    for node in on.node(id).into_iter().chain(on.ancestors(id)) {
        on.spend_steps(&|_| cost::LOOKED_UP)?;
        if schema.table_role(node.kind()) == Some(TableRole::Table) {
            return Ok(Some(node.id().clone()));
        }
    }
    Ok(None)
}

/// The cells that a node is or is in, the innermost first, each with its table.
fn cells_around<E: BlockEdits>(
    on: &E,
    schema: &Schema,
    id: &NodeId,
) -> Result<Vec<(NodeId, NodeId)>, EditError> {
    let mut path = Vec::new();
    for node in on.node(id).into_iter().chain(on.ancestors(id)) {
        on.spend_steps(&|_| cost::LOOKED_UP)?;
        path.push((node.id(), schema.table_role(node.kind())));
    }
    let cells = path.windows(3).filter_map(|nodes| match nodes {
        [
            (cell, Some(TableRole::Cell | TableRole::HeaderCell)),
            (_, Some(TableRole::Row)),
            (table, Some(TableRole::Table)),
        ] => Some(((*cell).clone(), (*table).clone())),
        _ => None,
    });
    Ok(cells.collect())
}

/// The cells around two nodes in the innermost table around both, and the table.
fn shared_table<E: BlockEdits>(
    on: &E,
    schema: &Schema,
    first: &NodeId,
    last: &NodeId,
) -> Result<Option<(NodeId, NodeId, NodeId)>, EditError> {
    let around_last = cells_around(on, schema, last)?.into_iter();
    let around_last: HashMap<NodeId, NodeId> =
        around_last.map(|(cell, table)| (table, cell)).collect();
    let around_first = cells_around(on, schema, first)?.into_iter();
    let mut shared = around_first.filter_map(|(cell, table)| {
        let other = around_last.get(&table)?.clone();
        Some((cell, other, table))
    });
    Ok(shared.next())
}
