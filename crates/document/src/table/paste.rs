//! Copying cells and pasting them into cells: `CellSelection.content`, `pastedCells`, `clipCells`
//! and `insertCells` of prosemirror-tables (src/cellselection.ts, src/copypaste.ts).

use std::ops::Range;

use super::carets::Carets;
use super::layout::{Area, Span};
use super::read::{self, COLUMNS, Cell, ROWS, Table, WIDTHS};
use super::{cells, end_of, refused};
use crate::block_edits::BlockEdits;
use crate::fit;
use crate::schema::{Schema, TableRole};
use crate::steps::step;
use crate::{Attributes, EditError, Fragment, Node, NodeSpec, Position, Value, cost, plan};

/// A rectangle of cells that are not in a document.
pub(super) struct NewCells {
    pub(super) size: Area,
    /// Row by row; `None` for an empty one, because many places can have no cell.
    cells: Vec<(Area, Option<NodeSpec>)>,
    empty: NodeSpec,
}

impl NewCells {
    /// Whether a fragment begins with a part of a table.
    pub(super) fn may_be(fragment: &Fragment, schema: &Schema) -> bool {
        let first = fragment.nodes.first();
        first.is_some_and(|first| schema.table_role(first.kind()).is_some())
    }

    /// The cells of a fragment that is a table, or rows or cells of one; `None` for any other, and
    /// if there is anything else beside or between them, which would be lost.
    ///
    /// # Errors
    ///
    /// The places are too many for the limits.
    pub(super) fn of<E: BlockEdits>(
        on: &E,
        fragment: &Fragment,
        schema: &Schema,
    ) -> Result<Option<Self>, EditError> {
        let rows = Self::rows_of(fragment, schema);
        rows.map_or(Ok(None), |rows| Self::laid_out(on, rows, schema))
    }

    fn rows_of(fragment: &Fragment, schema: &Schema) -> Option<Vec<Vec<NodeSpec>>> {
        let role = |spec: &NodeSpec| schema.table_role(spec.kind());
        let nodes = fragment.nodes.clone();
        let first = role(nodes.first()?)?;
        let rows = match (first, nodes.len()) {
            (TableRole::Table, 1) => nodes
                .into_iter()
                .flat_map(NodeSpec::into_children)
                .collect(),
            (TableRole::Table, _) => return None,
            (TableRole::Row, _) => nodes,
            (TableRole::Cell | TableRole::HeaderCell, _) => {
                vec![
                    NodeSpec::new(schema.kind_of(schema.table_type(TableRole::Row)?).clone())
                        .with_children(nodes),
                ]
            }
        };
        let is_row = |row: &NodeSpec| role(row) == Some(TableRole::Row);
        let is_cell =
            |cell: &NodeSpec| matches!(role(cell), Some(TableRole::Cell | TableRole::HeaderCell));
        let cells = |row: NodeSpec| {
            let cells = is_row(&row).then(|| row.into_children())?;
            cells.iter().all(is_cell).then_some(cells)
        };
        let rows: Option<Vec<Vec<NodeSpec>>> = rows.into_iter().map(cells).collect();
        let mut rows = rows?;
        Self::complete(fragment, first, &mut rows, schema);
        Some(rows)
    }

    /// Fills in what the first and the last of the cells lack because they were cut.
    fn complete(
        fragment: &Fragment,
        first: TableRole,
        rows: &mut [Vec<NodeSpec>],
        schema: &Schema,
    ) {
        let around = match first {
            TableRole::Table => 2,
            TableRole::Row => 1,
            _ => 0,
        };
        let levels = [fragment.start_levels, fragment.end_levels];
        let [start, end] = levels.map(|levels| levels.saturating_sub(around));
        let mut cells = rows.iter_mut().flatten();
        let complete = |cell: &mut NodeSpec, levels| {
            *cell = fit::completed(schema, cell.clone(), levels);
        };
        match (cells.next(), cells.next_back()) {
            (Some(first), Some(last)) => {
                complete(first, [start, 0]);
                complete(last, [0, end]);
            }
            (Some(only), None) => complete(only, [start, end]),
            _ => {}
        }
    }

    /// Gives each cell its place, and each place a cell. The steps that it spends are those of the
    /// places.
    fn laid_out<E: BlockEdits>(
        on: &E,
        rows: Vec<Vec<NodeSpec>>,
        schema: &Schema,
    ) -> Result<Option<Self>, EditError> {
        let span = |cell: &NodeSpec| read::span_of(cell.attributes()).0;
        let spans = rows.iter().map(|row| row.iter().map(span).collect());
        let spans: Vec<Vec<Span>> = spans.collect();
        let Some(layout) = read::laid_out(on, spans)? else {
            return Ok(None);
        };
        let size = Area {
            left: 0,
            top: 0,
            right: layout.width,
            bottom: rows.len(),
        };
        let mut is_free = vec![true; layout.width * rows.len()];
        let mut placed = Vec::new();
        for (area, cell) in layout.areas.into_iter().zip(rows.into_iter().flatten()) {
            for row in area.top..area.bottom {
                is_free[row * size.right..][area.left..area.right].fill(false);
            }
            placed.push((area, Some(cell)));
        }
        let kind = schema.table_type(TableRole::Cell);
        let Some(empty) = kind.and_then(|kind| fit::filled(schema, kind)) else {
            return Ok(None);
        };
        let free = is_free
            .into_iter()
            .enumerate()
            .filter(|(_, is_free)| *is_free);
        placed.extend(free.map(|(nth, _)| {
            let (top, left) = (nth / size.right, nth % size.right);
            (Area::of_one(left, top), None)
        }));
        placed.sort_by_key(|(area, _)| (area.top, area.left));
        Ok((!placed.is_empty()).then_some(Self {
            size,
            cells: placed,
            empty,
        }))
    }

    /// The cells of a rectangle that these are repeated in, each with its place there. Those that
    /// reach out of it are cut.
    fn repeated(&self, over: Area) -> impl Iterator<Item = (Area, NodeSpec)> {
        let Area { right, bottom, .. } = self.size;
        let starts = |from: usize, to: usize, size: usize| (from..to).step_by(size);
        let tiles = starts(over.top, over.bottom, bottom)
            .flat_map(move |top| starts(over.left, over.right, right).map(move |left| (left, top)));
        tiles.flat_map(move |(left, top)| {
            self.cells.iter().filter_map(move |(area, spec)| {
                let whole = area.moved(left, top);
                let part = over.has_start(&whole).then(|| whole.within(&over))?;
                let spec = spec.as_ref().unwrap_or(&self.empty).clone();
                Some((part, cut(spec, whole, part.span(), part)))
            })
        })
    }
}

impl Table<'_> {
    /// The cells in an area, as a table. A cell that reaches out of it is cut, and has no content
    /// if it begins outside.
    pub(super) fn copied<E: BlockEdits>(
        &self,
        on: &E,
        area: Area,
        visit: impl Fn(&Node, &Range<usize>) -> Result<(), EditError>,
    ) -> Result<Fragment, EditError> {
        let without_content = |id| {
            let node = plan::find(on, id)?;
            visit(node, &(0..0))?;
            let spec = NodeSpec::new(node.kind.clone());
            Ok::<_, EditError>(spec.with_attributes(node.attributes().clone()))
        };
        let row_kind = self.table_type(TableRole::Row)?;
        let can_be_empty = fit::filled(self.schema, row_kind).is_some_and(|row| row.len() == 1);
        // A row without cells may not be allowed. The cells that reach into it are cut then.
        let is_copied = |row: usize| {
            let cells = self.cells[self.rows[row].cells.clone()].iter();
            let mut cells = cells.inspect(|_| step());
            can_be_empty || row == area.top || cells.any(|cell| cell.area.meets(&area))
        };
        // How many rows are copied before each one. The cells of a row are looked at once.
        let mut copied = vec![0; area.bottom - area.top + 1];
        for row in area.top..area.bottom {
            let nth = row - area.top;
            copied[nth + 1] = copied[nth] + usize::from(is_copied(row));
        }
        let copied = |from: usize, to: usize| copied[to - area.top] - copied[from - area.top];
        let mut rows = Vec::new();
        for row in (area.top..area.bottom).filter(|&row| copied(row, row + 1) > 0) {
            let (mut cells, mut column) = (Vec::new(), area.left);
            while column < area.right {
                on.spend_steps(&|_| cost::LOOKED_UP)?;
                let cell = self.at(row, column);
                let has_cell = cell.area.meets(&Area::of_one(column, row));
                column = if has_cell {
                    cell.area.right
                } else {
                    column + 1
                };
                let part = cell.area.within(&area);
                if !has_cell || part.top != row {
                    continue;
                }
                let rows = copied(part.top, part.bottom);
                let span = Span {
                    rows,
                    ..part.span()
                };
                let spec = match area.has_start(&cell.area) {
                    true => {
                        let nodes = on.descendants(&cell.id);
                        let mut nodes = Fragment::of(nodes, &visit)?.nodes;
                        nodes.pop()
                    }
                    false => {
                        let attributes = plan::find(on, &cell.id)?.attributes().clone();
                        let empty = self.new_cell(cell.role).ok();
                        empty.map(|spec| spec.with_attributes(attributes))
                    }
                };
                cells.extend(spec.map(|spec| cut(spec, cell.area, span, part)));
            }
            rows.push(without_content(&self.rows[row].id)?.with_children(cells));
        }
        let table = without_content(&self.id)?.with_children(rows);
        Ok(Fragment {
            nodes: vec![table],
            ..Fragment::default()
        })
    }

    /// Puts cells into an area, which may reach out of the table: it grows then. The cells are
    /// repeated, or cut, to the size of the area. What is left of a cell that reaches out of the
    /// area keeps its place. The pasted cells are selected if what they replace was.
    pub(super) fn insert_cells<E: BlockEdits>(
        &self,
        on: &mut E,
        new: &NewCells,
        area: Area,
    ) -> Result<(), EditError> {
        let (width, height) = (self.width.max(area.right), self.height().max(area.bottom));
        self.check_size(width, height)?;
        on.spend_steps(&|_| (width * height) / cost::SIBLINGS)?;
        let is_gone = |cell: &Cell| {
            let is_left = cell.area.top < area.top || cell.area.left < area.left;
            cell.area.meets(&area) && !is_left
        };
        let carets = Carets::in_cells(on, self, |_, cell| Ok(is_gone(cell)))?;
        let mut added: Vec<Vec<(usize, NodeSpec)>> = vec![Vec::new(); height];
        for (part, spec) in new.repeated(area) {
            on.spend_steps(&|_| cost::NODE * spec.len())?;
            added[part.top].push((part.left, spec));
        }
        for cell in self.cells.iter().filter(|cell| cell.area.meets(&area)) {
            self.cut_out(on, cell, area, &mut added)?;
        }
        self.add_around(on, area, width, &mut added)?;
        let more = added.split_off(self.height());
        for (nth, new) in added.into_iter().enumerate().rev() {
            self.update_row(on, nth, new, is_gone)?;
        }
        self.add_rows(on, more)?;
        let table = Self::repaired(on, self.schema, &self.id)?;
        let Some(table) = table else { return Ok(()) };
        let first = &table.at(area.top, area.left).id;
        let last = &table.at(area.bottom - 1, area.right - 1).id;
        let first = Position::new(cells::first_leaf(on, first)?, 0);
        let last = end_of(on, last)?;
        carets.put_between(on, &first, &last)
    }

    /// Leaves of a cell what is not in an area. The part above the area, or to the left of it,
    /// keeps the content; the others are new.
    fn cut_out<E: BlockEdits>(
        &self,
        on: &mut E,
        cell: &Cell,
        area: Area,
        added: &mut [Vec<(usize, NodeSpec)>],
    ) -> Result<(), EditError> {
        let whole = cell.area;
        let (top, bottom) = (whole.top.max(area.top), whole.bottom.min(area.bottom));
        let beside = Area {
            top,
            bottom,
            ..whole
        };
        let parts = [
            Area {
                bottom: area.top,
                ..whole
            },
            Area {
                right: area.left,
                ..beside
            },
            Area {
                left: area.right,
                ..beside
            },
            Area {
                top: area.bottom,
                ..whole
            },
        ];
        let is_one = |part: &Area| part.left < part.right && part.top < part.bottom;
        let begins = |part: &Area| (part.left, part.top) == (whole.left, whole.top);
        let attributes = plan::find(on, &cell.id)?.attributes().clone();
        for part in parts.into_iter().filter(is_one) {
            on.spend_steps(&|_| attributes.steps())?;
            let columns = part.left - whole.left..part.right - whole.left;
            if begins(&part) {
                let widths = cell.widths.as_deref().and_then(|it| read::of(it, columns));
                self.set_span(on, cell, part.span(), widths)?;
                continue;
            }
            let spec = self
                .new_cell(cell.role)?
                .with_attributes(attributes.clone());
            added[part.top].push((part.left, cut(spec, whole, part.span(), part)));
        }
        Ok(())
    }

    /// Adds empty cells for the places beside and below the area by which the table grows. They are
    /// headers where the last row or column has them.
    fn add_around<E: BlockEdits>(
        &self,
        on: &E,
        area: Area,
        width: usize,
        added: &mut [Vec<(usize, NodeSpec)>],
    ) -> Result<(), EditError> {
        for (nth, added) in added.iter_mut().enumerate() {
            let first = match nth < self.height() {
                true => self.width,
                false => 0,
            };
            let is_in = |column| area.has_start(&Area::of_one(column, nth));
            for column in (first..width).filter(|column| !is_in(*column)) {
                let cell = match nth < self.height() {
                    true => self.cells[self.rows[nth].cells.clone()].last(),
                    false => (column < self.width).then(|| self.at(self.height() - 1, column)),
                };
                let role = cell.map_or(TableRole::Cell, |cell| cell.role);
                let spec = self.new_cell(role)?;
                on.spend_steps(&|_| cost::NODE * spec.len())?;
                added.push((column, spec));
            }
        }
        Ok(())
    }

    /// Inserts cells in a row, and deletes those that are gone.
    fn update_row<E: BlockEdits>(
        &self,
        on: &mut E,
        nth: usize,
        mut new: Vec<(usize, NodeSpec)>,
        is_gone: impl Fn(&Cell) -> bool,
    ) -> Result<(), EditError> {
        let row = &self.rows[nth];
        new.sort_by_key(|(column, _)| *column);
        let mut index = row.len;
        // From the last to the first, so that the indices of those before it stay.
        for cell in self.cells[row.cells.clone()].iter().rev() {
            while let Some((_, spec)) = new.pop_if(|(column, _)| *column >= cell.area.left) {
                on.insert_node(spec, &row.id, index)?;
            }
            if is_gone(cell) {
                on.delete_node(&cell.id)?;
            }
            index = cell.index;
        }
        for (_, spec) in new.into_iter().rev() {
            on.insert_node(spec, &row.id, index)?;
        }
        Ok(())
    }

    /// Adds rows at the end.
    fn add_rows<E: BlockEdits>(
        &self,
        on: &mut E,
        rows: Vec<Vec<(usize, NodeSpec)>>,
    ) -> Result<(), EditError> {
        let kind = self.table_type(TableRole::Row)?;
        if !rows.is_empty() && !self.schema.can_be_made(kind) {
            return Err(refused(&self.id, "a new row must not require attributes"));
        }
        let end = self.rows.last().map_or(0, |row| row.index + 1);
        for (nth, mut cells) in rows.into_iter().enumerate() {
            cells.sort_by_key(|(column, _)| *column);
            let spec = NodeSpec::new(self.schema.kind_of(kind).clone());
            let spec = spec.with_attributes(self.schema.new_attributes(kind));
            let cells = cells.into_iter().map(|(_, spec)| spec);
            on.insert_node(spec.with_children(cells), &self.id, end + nth)?;
        }
        Ok(())
    }
}

/// A cell of which a part is left, with the span of the part.
fn cut(spec: NodeSpec, whole: Area, span: Span, part: Area) -> NodeSpec {
    let stored = spec.attributes();
    if whole == part && read::span_of(stored) == (span, true) {
        return spec;
    }
    let mut attributes: Attributes = stored.clone();
    for (name, number) in [(COLUMNS, span.columns), (ROWS, span.rows)] {
        // Without the attribute it is one.
        if stored.get(name).is_some() || number != 1 {
            attributes.set(name.into(), Some(number.into()));
        }
    }
    if let Some(Value::Array(widths)) = stored.get(WIDTHS) {
        let columns = part.left - whole.left..part.right - whole.left;
        let widths = read::of(widths, columns).map_or(Value::Null, Value::Array);
        attributes.set(WIDTHS.into(), Some(widths));
    }
    spec.with_attributes(attributes)
}
