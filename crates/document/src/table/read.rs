//! A table as it is in a document.

use std::ops::Range;

use super::layout::{self, Area, Layout, Span};
use super::refused;
use crate::block_edits::BlockEdits;
use crate::schema::{Schema, TableRole};
use crate::steps::steps;
use crate::{Attributes, EditError, NodeId, Value, cost, plan};

pub(super) const COLUMNS: &str = "colspan";
pub(super) const ROWS: &str = "rowspan";
pub(super) const WIDTHS: &str = "colwidth";

/// The most columns that a cell spans; more in an attribute are as many. Rows end with the table.
const MOST_COLUMNS: usize = 1000;

/// The most places without a cell for which a repair adds cells as attributes say. If there are
/// more, cells are cut first, because one attribute can claim a thousand columns.
const MOST_MISSING: usize = 10_000;

/// Why a table is not read, or not made larger.
const TOO_LARGE: &str = "it has at most 1,048,576 places for cells";

pub(super) struct Cell {
    pub(super) id: NodeId,
    pub(super) role: TableRole,
    pub(super) area: Area,
    /// Its index among the children of its row.
    pub(super) index: usize,
    /// What the attributes say; `None` if that is no number of columns and rows.
    pub(super) span: Option<Span>,
    /// The widths of its columns.
    pub(super) widths: Option<Vec<Value>>,
}

pub(super) struct Row {
    pub(super) id: NodeId,
    /// Its index among the children of the table.
    pub(super) index: usize,
    /// How many children it has.
    pub(super) len: usize,
    /// The cells that begin in it.
    pub(super) cells: Range<usize>,
}

/// A table with the place of each cell. Cells are in document order.
pub(super) struct Table<'s> {
    pub(super) schema: &'s Schema,
    pub(super) id: NodeId,
    pub(super) rows: Vec<Row>,
    pub(super) cells: Vec<Cell>,
    pub(super) width: usize,
    /// How many places of each row have no cell.
    pub(super) missing: Vec<usize>,
    /// The cell at each place, row by row; any where there is none.
    places: Vec<usize>,
}

impl<'s> Table<'s> {
    /// Reads a table once. The steps that it spends are those of its cells and its places.
    pub(super) fn read<E: BlockEdits>(
        on: &E,
        schema: &'s Schema,
        id: &NodeId,
    ) -> Result<Self, EditError> {
        let (mut rows, mut cells, mut spans) = (Vec::new(), Vec::new(), Vec::new());
        for (index, row) in on.children(id).enumerate() {
            on.spend_steps(&|_| cost::LOOKED_UP)?;
            if schema.table_role(row.kind()) != Some(TableRole::Row) {
                continue;
            }
            let (first, mut row_spans) = (cells.len(), Vec::new());
            for (index, cell) in on.children(row.id()).enumerate() {
                on.spend_steps(&|_| cost::LOOKED_UP + cell.attributes().steps())?;
                let role = schema.table_role(cell.kind());
                let Some(role @ (TableRole::Cell | TableRole::HeaderCell)) = role else {
                    continue;
                };
                let (span, is_valid) = span_of(cell.attributes());
                row_spans.push(span);
                cells.push(Cell {
                    id: cell.id().clone(),
                    role,
                    area: Area {
                        left: 0,
                        top: 0,
                        right: 0,
                        bottom: 0,
                    },
                    index,
                    span: is_valid.then_some(span),
                    widths: widths_of(cell.attributes()),
                });
            }
            spans.push(row_spans);
            rows.push(Row {
                id: row.id().clone(),
                index,
                len: row.children().len(),
                cells: first..cells.len(),
            });
        }
        let layout = laid_out(on, spans)?.ok_or_else(|| refused(id, TOO_LARGE))?;
        let mut places = vec![0; layout.width * rows.len()];
        steps(places.len());
        for (nth, area) in layout.areas.iter().enumerate() {
            for row in area.top..area.bottom {
                let start = row * layout.width;
                places[start + area.left..start + area.right].fill(nth);
            }
            cells[nth].area = *area;
        }
        Ok(Self {
            schema,
            id: id.clone(),
            rows,
            cells,
            width: layout.width,
            missing: layout.missing,
            places,
        })
    }

    pub(super) fn height(&self) -> usize {
        self.rows.len()
    }

    /// Refuses a size with which the table could not be read again.
    pub(super) fn check_size(&self, width: usize, height: usize) -> Result<(), EditError> {
        match width * height > Layout::MOST {
            true => Err(refused(&self.id, TOO_LARGE)),
            false => Ok(()),
        }
    }

    /// Refuses a number of columns of one cell that would be read as another.
    pub(super) fn check_columns(&self, columns: usize) -> Result<(), EditError> {
        match columns > MOST_COLUMNS {
            true => Err(refused(&self.id, "a cell spans at most 1,000 columns")),
            false => Ok(()),
        }
    }

    /// The cell that takes a place.
    pub(super) fn at(&self, row: usize, column: usize) -> &Cell {
        &self.cells[self.places[row * self.width + column]]
    }

    /// The smallest area with two cells in it.
    pub(super) fn area_of(&self, first: usize, last: usize) -> Area {
        self.cells[first].area.around(&self.cells[last].area)
    }

    pub(super) fn cell(&self, id: &NodeId) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.id == *id)
    }

    /// The cell of this table that a node is or is in.
    pub(super) fn cell_around<E: BlockEdits>(
        &self,
        on: &E,
        id: &NodeId,
    ) -> Result<Option<&Cell>, EditError> {
        let (mut cell, mut row) = (None, None);
        // Most are elsewhere, where an edit of others is no conflict.
        let mut next = on.glimpse(id);
        while let Some(node) = next {
            on.spend_steps(&|_| cost::LOOKED_UP)?;
            if *node.id() == self.id {
                return Ok(cell.and_then(|cell| self.cell(cell)));
            }
            (cell, row) = (row, Some(node.id()));
            next = node.parent().and_then(|parent| on.glimpse(parent));
        }
        Ok(None)
    }

    /// The cells that begin in an area.
    pub(super) fn starting_in(&self, area: Area) -> impl Iterator<Item = &Cell> {
        let cells = self.cells.iter();
        cells.filter(move |cell| area.has_start(&cell.area))
    }

    /// The index among a row's children at which a cell of a column belongs.
    pub(super) fn index_at(&self, row: usize, column: usize) -> usize {
        let row = &self.rows[row];
        let cells = &self.cells[row.cells.clone()];
        let next = cells.partition_point(|cell| cell.area.left < column);
        cells.get(next).map_or(row.len, |cell| cell.index)
    }

    /// Whether all cells of a row are headers.
    pub(super) fn is_header_row(&self, row: usize) -> bool {
        (0..self.width).all(|column| self.at(row, column).role == TableRole::HeaderCell)
    }

    /// Whether all cells of a column are headers.
    pub(super) fn is_header_column(&self, column: usize) -> bool {
        (0..self.height()).all(|row| self.at(row, column).role == TableRole::HeaderCell)
    }

    /// Sets the attributes of a cell that differ.
    pub(super) fn set_span<E: BlockEdits>(
        &self,
        on: &mut E,
        cell: &Cell,
        span: Span,
        widths: Option<Vec<Value>>,
    ) -> Result<(), EditError> {
        let mut attributes = Vec::new();
        let stored = |name| plan::find(on, &cell.id).map(|node| node.attributes().get(name));
        for (name, number) in [(COLUMNS, span.columns), (ROWS, span.rows)] {
            // Without the attribute it is one.
            if stored(name)?.is_some() || number != 1 {
                attributes.push((name.to_owned(), number.into()));
            }
        }
        // What is no list of widths is left alone.
        if widths.is_some() || matches!(stored(WIDTHS)?, Some(Value::Array(_))) {
            let widths = widths.map_or(Value::Null, Value::Array);
            attributes.push((WIDTHS.to_owned(), widths));
        }
        on.patch(&cell.id, attributes)
    }
}

/// Lays out rows of cells, which are cut if too many places would have none; `None` if there are
/// too many places. Spends the steps of the places.
pub(super) fn laid_out<E: BlockEdits>(
    on: &E,
    mut spans: Vec<Vec<Span>>,
) -> Result<Option<Layout>, EditError> {
    let spend = |places: usize| on.spend_steps(&|_| places / cost::SIBLINGS);
    spend(layout::taken(&spans))?;
    let is_full = |layout: &Layout| layout.missing.iter().sum::<usize>() <= MOST_MISSING;
    let layout = match Layout::new(&spans).filter(is_full) {
        Some(layout) => Some(layout),
        None => {
            layout::cut_to_fill(&mut spans, MOST_MISSING);
            spend(layout::taken(&spans))?;
            Layout::new(&spans)
        }
    };
    if let Some(layout) = &layout {
        spend(layout.missing.iter().sum())?;
    }
    Ok(layout)
}

/// The span that attributes say, within its bounds, and whether they say just that.
pub(super) fn span_of(attributes: &Attributes) -> (Span, bool) {
    let number = |name, most: usize| {
        let value = attributes.get(name);
        let number = value.map_or(Some(1), Value::as_u64);
        let whole = value.and_then(Value::as_f64).unwrap_or(1.0);
        // A number that is too large for an integer is as well.
        let clamped = match number {
            Some(number) => number.clamp(1, most as u64) as usize,
            None => whole.clamp(1.0, most as f64) as usize,
        };
        (clamped, number == Some(clamped as u64))
    };
    let (columns, rows) = (number(COLUMNS, MOST_COLUMNS), number(ROWS, Layout::MOST));
    let span = Span {
        columns: columns.0,
        rows: rows.0,
    };
    (span, columns.1 && rows.1)
}

fn widths_of(attributes: &Attributes) -> Option<Vec<Value>> {
    match attributes.get(WIDTHS)? {
        Value::Array(widths) => Some(widths.clone()),
        _ => None,
    }
}

/// The widths without those of some columns, if any is left that says something.
pub(super) fn without(widths: &[Value], columns: Range<usize>) -> Option<Vec<Value>> {
    let widths = widths.iter().enumerate();
    let left = widths.filter(|(nth, _)| !columns.contains(nth));
    let left: Vec<Value> = left.map(|(_, width)| width.clone()).collect();
    let has_one = left.iter().any(is_width);
    has_one.then_some(left)
}

/// The widths of some columns, if any of them says something.
pub(super) fn of(widths: &[Value], columns: Range<usize>) -> Option<Vec<Value>> {
    let widths = widths.iter().take(columns.end).skip(columns.start);
    let widths: Vec<Value> = widths.cloned().collect();
    let has_one = widths.iter().any(is_width);
    has_one.then_some(widths)
}

/// The widths with new columns that have none.
pub(super) fn with_more(widths: &[Value], at: usize, count: usize) -> Vec<Value> {
    let at = at.min(widths.len());
    let more = std::iter::repeat_n(Value::from(0), count);
    let before = widths[..at].iter().cloned();
    before
        .chain(more)
        .chain(widths[at..].iter().cloned())
        .collect()
}

/// Whether a width is one; 0 stands for none.
pub(super) fn is_width(width: &Value) -> bool {
    width.as_f64().is_some_and(|width| width > 0.0)
}
