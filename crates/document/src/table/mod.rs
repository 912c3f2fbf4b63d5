//! Edits of tables: rows, columns and cells with spans.
//!
//! The schema says what is a table ([`TableRole`]). An edit reads the table once ([`read`]), which
//! gives each cell its place ([`layout`]). A table whose cells do not fill it is repaired first
//! ([`repair`]), so every other edit ([`lines`], [`cells`], [`paste`]) is one of a whole rectangle.
//!
//! The results are those of prosemirror-tables (src/commands.ts, src/fixtables.ts).

mod carets;
mod cells;
mod layout;
mod lines;
mod paste;
mod read;
mod repair;

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::block_edits::BlockEdits;
use crate::schema::{Schema, TableRole};
use crate::{
    EditError, Fragment, Mark, Node, NodeId, NodeSpec, Position, Selection, TextSelection, cost,
    plan, walk,
};
use carets::Carets;
use paste::NewCells;
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
/// table does not allow the edit. An error of an edit. After an error the draft is to be dropped:
/// a repair or a part of the edit may be in it.
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
        None if cell_around(on, schema, first)?.is_none() => {
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
///
/// An end before the first character of its cell is moved to the end of the last cell before it
/// that is not empty, or to that of the cell of the start, first.
pub fn clear_between<E: BlockEdits>(
    on: &mut E,
    schema: Option<&Schema>,
    start: &mut Position,
    end: &mut Position,
) -> Result<(), EditError> {
    let given = end.clone();
    // One cell is not emptied by an edit that names it as the node of a caret.
    let over = match start.node_id == end.node_id {
        true => None,
        false => cells_over(on, schema, start, end)?,
    };
    if given != *end {
        move_selected(on, start, &given, end)?;
    }
    let Some((table, [first, last])) = over else {
        return Ok(());
    };
    let area = table.area_of(first, last);
    let first = table.cells[first].id.clone();
    let carets = Carets::in_cells(on, &table, |_, cell| Ok(area.has_start(&cell.area)))?;
    table.clear(on, area)?;
    let caret = Position::new(cells::first_leaf(on, &first)?, 0);
    carets.put(on, &caret)?;
    (*start, *end) = (caret.clone(), caret);
    Ok(())
}

/// The marks of the character at a position that go on in text typed over it.
pub fn marks_at<E: BlockEdits>(
    on: &E,
    schema: Option<&Schema>,
    at: &Position,
) -> Result<Vec<Mark>, EditError> {
    let Some(schema) = schema else {
        return Ok(Vec::new());
    };
    let marks = plan::find(on, &at.node_id)?.marks();
    let near = marks.touching(&(at.offset..at.offset));
    let over = near.iter().filter(|mark| {
        let range = mark.range.as_ref();
        range.is_some_and(|range| range.contains(&at.offset))
            && schema.is_inclusive(&mark.kind) == Some(true)
    });
    Ok(over.cloned().collect())
}

/// Gives marks to the text that was typed where the caret was in an emptied cell.
pub fn mark_typed<E: BlockEdits>(
    on: &mut E,
    caret: &NodeId,
    marks: Vec<Mark>,
    text: &str,
) -> Result<(), EditError> {
    if marks.is_empty() || text.is_empty() || on.node(caret).is_none() {
        return Ok(());
    }
    let typed = 0..text.chars().count();
    let marks = marks.into_iter().map(|mark| Mark {
        range: Some(typed.clone()),
        ..mark
    });
    on.set_all_marks(&cells::first_leaf(on, caret)?, marks.collect())
}

/// The cells between two positions in different cells of a table, or those that the positions name
/// themselves, as a table.
///
/// # Errors
///
/// The first error of `visit`, which is called for each node and its characters before it is
/// copied. An error of an edit.
pub fn copy_between<E: BlockEdits>(
    on: &E,
    schema: Option<&Schema>,
    start: &Position,
    end: &Position,
    visit: impl Fn(&Node, &Range<usize>) -> Result<(), EditError>,
) -> Result<Option<Fragment>, EditError> {
    let over = cells_over(on, schema, start, &mut end.clone())?;
    let copied = over.map(|(table, [first, last])| {
        let area = table.area_of(first, last);
        table.copied(on, area, visit)
    });
    copied.transpose()
}

/// Puts the cells of a fragment into those between two positions in a table. They are repeated or
/// cut to cover all cells of the range, if it is over several or names one itself. Otherwise they
/// are put from its cell on, and the table grows where it must. Any other fragment replaces the
/// content of each cell of such a range. Returns `false`, with nothing changed, if the positions
/// are in no cells, or are in one and the fragment does not consist of cells.
///
/// # Errors
///
/// [`EditError::TableRule`] if the table would be too large, [`EditError::DoesNotFit`] if a cell
/// can have no such content, or an error of an edit.
pub fn paste_between<E: BlockEdits>(
    on: &mut E,
    schema: Option<&Schema>,
    start: &Position,
    end: &Position,
    fragment: &Fragment,
) -> Result<bool, EditError> {
    if paste_cells(on, schema, start, end, fragment)? {
        return Ok(true);
    }
    let Some((table, [first, last])) = cells_over(on, schema, start, &mut end.clone())? else {
        return Ok(false);
    };
    let area = table.area_of(first, last);
    let carets = Carets::in_cells(on, &table, |_, cell| Ok(area.has_start(&cell.area)))?;
    let nodes = || fragment.all_nodes().flat_map(|spec| &spec.nodes);
    on.spend_steps(&|_| {
        let text: usize = nodes().map(|node| node.text.len()).sum();
        cost::NODE * nodes().count() + text / cost::BYTES
    })?;
    table.fill(on, area, fragment)?;
    let [first, last] = [first, last].map(|cell| &table.cells[cell].id);
    let last = end_of(on, carets.caret.as_ref().unwrap_or(last))?;
    let first = match carets.caret {
        Some(_) => last.clone(),
        None => Position::new(cells::first_leaf(on, first)?, 0),
    };
    carets.put_between(on, &first, &last)?;
    Ok(true)
}

/// Like [`paste_between`], for a fragment that consists of cells.
fn paste_cells<E: BlockEdits>(
    on: &mut E,
    schema: Option<&Schema>,
    start: &Position,
    end: &Position,
    fragment: &Fragment,
) -> Result<bool, EditError> {
    let Some(schema) = schema.filter(|schema| NewCells::may_be(fragment, schema)) else {
        return Ok(false);
    };
    let Some((first, _, table)) = shared_table(on, schema, &start.node_id, &end.node_id)? else {
        return Ok(false);
    };
    let nodes = fragment.all_nodes().map(NodeSpec::len).sum::<usize>();
    on.spend_steps(&|_| cost::NODE * nodes)?;
    let Some(cells) = NewCells::of(on, fragment, schema)? else {
        return Ok(false);
    };
    let over = cells_over(on, Some(schema), start, &mut end.clone())?;
    let over = over.map(|(table, ends)| ends.map(|cell| table.cells[cell].id.clone()));
    let Some(table) = Table::repaired(on, schema, &table)? else {
        return Ok(false);
    };
    let number = |id: &NodeId| table.cells.iter().position(|cell| cell.id == *id);
    let area = match over
        .as_ref()
        .map(|[first, last]| (number(first), number(last)))
    {
        Some((Some(first), Some(last))) => Some(table.area_of(first, last)),
        _ => {
            let cell = table.cell(&first).map(|cell| cell.area);
            cell.map(|cell| cells.size.moved(cell.left, cell.top))
        }
    };
    let area = area.ok_or_else(|| not_in_table(&first, TableRole::Cell))?;
    table.insert_cells(on, &cells, area)?;
    Ok(true)
}

/// Whether a node is a cell that is no text block, whose id names it as a whole.
pub fn is_cell<E: BlockEdits>(on: &E, schema: Option<&Schema>, id: &NodeId) -> bool {
    let role = |schema: &Schema, node: &Node| {
        let role = schema.table_role(node.kind());
        matches!(role, Some(TableRole::Cell | TableRole::HeaderCell))
            && !schema.has_line(node.kind())
    };
    let node = schema.zip(on.node(id));
    node.is_some_and(|(schema, node)| role(schema, node))
}

/// The cells that a range is over, if it is over more than one or names one itself: their table,
/// and the numbers of the first and the last. Moves the end as [`clear_between`] does.
fn cells_over<'s, E: BlockEdits>(
    on: &E,
    schema: Option<&'s Schema>,
    start: &Position,
    end: &mut Position,
) -> Result<Option<(Table<'s>, [usize; 2])>, EditError> {
    let schema = schema.filter(|schema| schema.table_type(TableRole::Table).is_some());
    let is_whole = is_cell(on, schema, &start.node_id) && is_cell(on, schema, &end.node_id);
    let may_be = start.node_id != end.node_id || is_whole;
    let Some(schema) = schema.filter(|_| may_be) else {
        return Ok(None);
    };
    let is_one = start.node_id == end.node_id;
    let shared = shared_table(on, schema, &start.node_id, &end.node_id)?;
    let Some((first, last, table)) = shared.filter(|(first, last, _)| first != last || is_one)
    else {
        return Ok(None);
    };
    let table = match Table::read(on, schema, &table) {
        // A range in a table that is too large is one as elsewhere.
        Err(EditError::TableRule { .. }) => return Ok(None),
        table => table?,
    };
    let number = |id: &NodeId| table.cells.iter().position(|cell| cell.id == *id);
    let Some((first, mut last)) = number(&first).zip(number(&last)) else {
        return Ok(None);
    };
    if first < last && !is_whole && is_before_text(on, &table.cells[last].id, end)? {
        last -= 1;
        while first < last && table.is_blank(on, &table.cells[last].id)? {
            on.spend_steps(&|_| cost::LOOKED_UP)?;
            last -= 1;
        }
        *end = end_of(on, &table.cells[last].id)?;
        if first == last {
            return Ok(None);
        }
    }
    Ok(Some((table, [first, last])))
}

/// Whether a position is before all characters of a node.
fn is_before_text<E: BlockEdits>(on: &E, id: &NodeId, at: &Position) -> Result<bool, EditError> {
    let mut node = Some(plan::find(on, id)?);
    while let Some(around) = node.filter(|node| *node.id() != at.node_id) {
        on.spend_steps(&|_| cost::LOOKED_UP)?;
        let is_empty = around.text().is_empty();
        node = on.children(around.id()).next().filter(|_| is_empty);
    }
    Ok(node.is_some() && at.offset == 0)
}

/// The position behind all characters of a node.
fn end_of<E: BlockEdits>(on: &E, id: &NodeId) -> Result<Position, EditError> {
    let mut node = plan::find(on, id)?;
    while let Some(last) = node.children().len().checked_sub(1) {
        on.spend_steps(&|_| cost::LOOKED_UP)?;
        let child = node.children().get(last);
        node = plan::find(on, child.unwrap_or(id))?;
    }
    Ok(Position::new(node.id().clone(), node.text().len()))
}

/// Moves one end of the selection, if that is from `start` to `end`.
fn move_selected<E: BlockEdits>(
    on: &mut E,
    start: &Position,
    end: &Position,
    to: &Position,
) -> Result<(), EditError> {
    let moved = match on.selected() {
        Some(Selection::Text(TextSelection { anchor, focus, .. })) => {
            if (anchor, focus) == (start, end) {
                Selection::new(anchor.clone(), to.clone())
            } else if (focus, anchor) == (start, end) {
                Selection::new(to.clone(), focus.clone())
            } else {
                return Ok(());
            }
        }
        _ => return Ok(()),
    };
    on.select_text(moved)
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

/// The innermost cell that a node is or is in, with its table. A row, a table and what is beside
/// the cells of one are in none.
fn cell_around<E: BlockEdits>(
    on: &E,
    schema: &Schema,
    id: &NodeId,
) -> Result<Option<(NodeId, NodeId)>, EditError> {
    let mut path = on.node(id).into_iter().chain(on.ancestors(id));
    let mut next = || -> Result<Option<(&Node, Option<TableRole>)>, EditError> {
        on.spend_steps(&|_| cost::LOOKED_UP)?;
        let node = path.next();
        Ok(node.map(|node| (node, schema.table_role(node.kind()))))
    };
    while let Some((cell, role)) = next()? {
        match role {
            None => {}
            Some(TableRole::Cell | TableRole::HeaderCell) => {
                let (row, table) = (next()?, next()?);
                let is_row = row.is_some_and(|(_, role)| role == Some(TableRole::Row));
                let table = table.filter(|(_, role)| is_row && *role == Some(TableRole::Table));
                return Ok(table.map(|(table, _)| (cell.id().clone(), table.id().clone())));
            }
            Some(_) => break,
        }
    }
    Ok(None)
}

/// The cells around two nodes in the innermost table around both, and the table.
fn shared_table<E: BlockEdits>(
    on: &E,
    schema: &Schema,
    first: &NodeId,
    last: &NodeId,
) -> Result<Option<(NodeId, NodeId, NodeId)>, EditError> {
    let Some(fork) = walk::fork(on, plan::find(on, first)?, plan::find(on, last)?) else {
        return Ok(None);
    };
    on.spend_steps(&|_| fork.steps())?;
    let (role, common) = (|node: &Node| schema.table_role(node.kind()), fork.common);
    let (table, level) = match role(common) {
        Some(TableRole::Table) => (Some(common), 1),
        Some(TableRole::Row) => (common.parent().and_then(|table| on.node(table)), 0),
        // Both are in one cell, if in any.
        _ => {
            let around = cell_around(on, schema, common.id())?;
            return Ok(around.map(|(cell, table)| (cell.clone(), cell, table)));
        }
    };
    let is_cell = |role| matches!(role, TableRole::Cell | TableRole::HeaderCell);
    let cell = |path: &[&Node]| {
        // A row or a table in the cell is in no cell of its own.
        let innermost = path.iter().rev().find_map(|node| role(node));
        let is_in_row =
            level == 0 || path.first().and_then(|row| role(row)) == Some(TableRole::Row);
        let cell = path.get(level).filter(|_| is_in_row);
        let cell = cell.filter(|cell| role(cell).is_some_and(is_cell));
        cell.filter(|_| innermost.is_some_and(is_cell))
            .map(|cell| cell.id().clone())
    };
    let cells = cell(&fork.to_one).zip(cell(&fork.to_other));
    let table = table.filter(|table| role(table) == Some(TableRole::Table));
    Ok(cells
        .zip(table)
        .map(|((first, last), table)| (first, last, table.id().clone())))
}
