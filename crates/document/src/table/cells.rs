//! Edits of cells.

use super::carets::Carets;
use super::layout::{Area, Span};
use super::read::{self, COLUMNS, Cell, ROWS, Table, WIDTHS};
use super::{HeaderPart, refused};
use crate::block_edits::BlockEdits;
use crate::fit;
use crate::schema::{Symbol, TableRole};
use crate::{EditError, Fragment, Node, NodeId, NodeSpec, Position, Value, cost, plan};

impl Table<'_> {
    /// Makes one cell of those in an area: the first, with the content of all that have any.
    pub(super) fn merge<E: BlockEdits>(&self, on: &mut E, area: Area) -> Result<(), EditError> {
        let mut cells = self.cells.iter().filter(|cell| cell.area.meets(&area));
        if cells.any(|cell| cell.area.around(&area) != area) {
            return Err(refused(
                &self.id,
                "a cell may not reach out of the merged rectangle",
            ));
        }
        self.check_columns(area.span().columns)?;
        let mut cells = self.starting_in(area);
        let Some(first) = cells.next() else {
            return Ok(());
        };
        let carets = Carets::in_cells(on, self, |on, cell| {
            Ok(area.has_start(&cell.area) && self.is_blank(on, &cell.id)?)
        })?;
        let row = &self.rows[first.area.top].id;
        for cell in cells {
            if self.is_blank(on, &cell.id)? {
                on.delete_node(&cell.id)?;
                continue;
            }
            if self.is_blank(on, &first.id)? {
                clear(on, &first.id, None)?;
            }
            on.move_to(&cell.id, row, first.index + 1)?;
            on.join(&first.id, &cell.id)?;
        }
        carets.put(on, &Position::new(first_leaf(on, &first.id)?, 0))?;
        let (columns, span) = (first.area.span().columns, area.span());
        let widths = first.widths.as_deref();
        let widths = widths.map(|it| read::with_more(it, columns, span.columns - columns));
        self.set_span(on, first, span, widths)
    }

    /// Makes cells of one column and one row of a cell. The first keeps the content, and all have
    /// its other attributes.
    pub(super) fn split<E: BlockEdits>(&self, on: &mut E, cell: &Cell) -> Result<(), EditError> {
        let area = cell.area;
        let widths = |nth: usize| -> Option<Vec<Value>> {
            let width = cell.widths.as_ref()?.get(nth)?;
            read::is_width(width).then(|| vec![width.clone()])
        };
        let attributes = plan::find(on, &cell.id)?.attributes().clone();
        let (columns, rows) = (1, 1);
        let one = Span { columns, rows };
        if area.span() == one {
            return self.set_span(on, cell, one, cell.widths.clone());
        }
        let spec = self.new_cell(cell.role)?;
        for row in area.top..area.bottom {
            let first = match row == area.top {
                true => cell.index,
                false => self.index_at(row, area.left),
            };
            for nth in usize::from(row == area.top)..area.right - area.left {
                on.spend_steps(&|_| attributes.steps())?;
                let mut attributes = attributes.clone();
                for name in [COLUMNS, ROWS] {
                    let one = attributes.get(name).map(|_| 1.into());
                    attributes.set(name.into(), one);
                }
                attributes.set(WIDTHS.into(), widths(nth).map(Value::Array));
                let spec = spec.clone().with_attributes(attributes);
                on.insert_node(spec, &self.rows[row].id, first + nth)?;
            }
        }
        self.set_span(on, cell, one, widths(0))
    }

    /// Makes cells headers, or plain cells if some are headers.
    pub(super) fn toggle_header<E: BlockEdits>(
        &self,
        on: &mut E,
        part: HeaderPart,
        area: Area,
    ) -> Result<(), EditError> {
        let whole = Area {
            left: 0,
            top: 0,
            right: self.width,
            bottom: self.height(),
        };
        let Area { top, bottom, .. } = area;
        let Area { left, right, .. } = area;
        let are_headers = |area| {
            let mut cells = self.starting_in(area);
            cells.all(|cell| cell.role == TableRole::HeaderCell)
        };
        let (row, column) = (Area { bottom: 1, ..whole }, Area { right: 1, ..whole });
        let (area, is_header) = match part {
            HeaderPart::FirstRow => {
                let left = usize::from(are_headers(column));
                (Area { left, ..row }, are_headers(row))
            }
            HeaderPart::FirstColumn => {
                let top = usize::from(are_headers(row));
                (Area { top, ..column }, are_headers(column))
            }
            _ => {
                let area = match part {
                    HeaderPart::Rows => Area {
                        top,
                        bottom,
                        ..whole
                    },
                    HeaderPart::Columns => Area {
                        left,
                        right,
                        ..whole
                    },
                    _ => area,
                };
                let mut cells = self.starting_in(area);
                (area, cells.any(|cell| cell.role == TableRole::HeaderCell))
            }
        };
        let role = match is_header {
            true => TableRole::Cell,
            false => TableRole::HeaderCell,
        };
        for cell in self.starting_in(area) {
            self.set_role(on, cell, role)?;
        }
        Ok(())
    }

    /// Deletes the content of the cells that begin in an area. What is left is what a new cell has.
    pub(super) fn clear<E: BlockEdits>(&self, on: &mut E, area: Area) -> Result<(), EditError> {
        self.set_content(on, area, is_like, |_, role, _| {
            Ok(self.new_cell(role)?.into_children())
        })
    }

    /// Replaces the content of the cells that begin in an area by that of a fragment, which is
    /// pasted into each.
    ///
    /// # Errors
    ///
    /// [`EditError::DoesNotFit`] if a cell can have no such content.
    pub(super) fn fill<E: BlockEdits>(
        &self,
        on: &mut E,
        area: Area,
        fragment: &Fragment,
    ) -> Result<(), EditError> {
        let never = |_: &Node, _: &NodeSpec| false;
        self.set_content(on, area, never, |on, role, cell| {
            let kind = self.table_type(role)?;
            let spend = |steps| on.spend_steps(&|_| steps).is_ok();
            let content = fit::content_with(self.schema, kind, fragment, &spend);
            // There may be none because there were no more steps.
            on.spend_steps(&|_| 0)?;
            content.ok_or_else(|| EditError::DoesNotFit {
                id: cell.clone(),
                parent: cell.clone(),
                content: self.schema.content_of(kind).clone(),
            })
        })
    }

    /// Replaces the content of the cells that begin in an area. The new content is made once for
    /// each role. A first block that is as the only new one stays and is emptied.
    fn set_content<E: BlockEdits>(
        &self,
        on: &mut E,
        area: Area,
        is_new: impl Fn(&Node, &NodeSpec) -> bool,
        new: impl Fn(&E, TableRole, &NodeId) -> Result<Vec<NodeSpec>, EditError>,
    ) -> Result<(), EditError> {
        let mut contents = [TableRole::Cell, TableRole::HeaderCell].map(|role| (role, None));
        for cell in self.starting_in(area) {
            let of_role = contents.iter_mut().find(|(role, _)| *role == cell.role);
            let content = match of_role {
                Some((_, Some(content))) => content,
                Some((role, content)) => content.insert(new(on, *role, &cell.id)?),
                None => continue,
            };
            let block = on.children(&cell.id).next();
            let stays = match (block, content.as_slice()) {
                (Some(block), [new]) if is_new(block, new) => Some(block.id().clone()),
                _ => None,
            };
            let Some(block) = stays else {
                clear(on, &cell.id, None)?;
                for (index, spec) in content.iter().enumerate() {
                    on.spend_steps(&|_| cost::NODE * spec.len())?;
                    on.insert_node(spec.clone(), &cell.id, index)?;
                }
                continue;
            };
            clear(on, &cell.id, Some(&block))?;
            // A text block keeps its first text, where the caret may be.
            let of = plan::find(on, &block)?;
            let text = on.children(&block).next();
            let text = text.filter(|text| self.is_text(of, text));
            let text = text.map(|text| text.id().clone());
            clear(on, &block, text.as_ref())?;
            if let Some(text) = text {
                clear(on, &text, None)?;
            }
        }
        Ok(())
    }

    pub(super) fn set_role<E: BlockEdits>(
        &self,
        on: &mut E,
        cell: &Cell,
        role: TableRole,
    ) -> Result<(), EditError> {
        if cell.role == role {
            return Ok(());
        }
        let kind = self.schema.kind_of(self.table_type(role)?);
        on.set_kind(&cell.id, kind)
    }

    /// A cell with the content that it needs.
    pub(super) fn new_cell(&self, role: TableRole) -> Result<NodeSpec, EditError> {
        let kind = self.table_type(role)?;
        let spec = fit::filled(self.schema, kind);
        spec.ok_or_else(|| refused(&self.id, "a new cell must have content that can be empty"))
    }

    pub(super) fn table_type(&self, role: TableRole) -> Result<Symbol, EditError> {
        let found = self.schema.table_type(role);
        found.ok_or_else(|| EditError::NotInTable {
            id: self.id.clone(),
            role: role.name(),
        })
    }

    /// Whether a cell has nothing, or nothing but an empty block of text.
    pub(super) fn is_blank<E: BlockEdits>(&self, on: &E, id: &NodeId) -> Result<bool, EditError> {
        let cell = plan::find(on, id)?;
        if !cell.text().is_empty() {
            return Ok(false);
        }
        // The cell itself can be the text block.
        if self.has_line(cell) || cell.children().is_empty() {
            return self.is_line_blank(on, cell);
        }
        let block = on.children(id).next();
        let Some(block) = block.filter(|_| cell.children().len() == 1) else {
            return Ok(false);
        };
        match block.text().is_empty() {
            true if self.has_line(block) => self.is_line_blank(on, block),
            // A block with text of its own, and not an image: as a new cell has.
            true if block.children().is_empty() => {
                let kind = self.schema.number_of(cell.kind());
                let new = kind.and_then(|kind| fit::filled(self.schema, kind));
                let content = new.map(NodeSpec::into_children).unwrap_or_default();
                Ok(matches!(content.as_slice(), [new] if is_like(block, new)))
            }
            _ => Ok(false),
        }
    }

    fn has_line(&self, node: &Node) -> bool {
        let kind = self.schema.number_of(node.kind());
        kind.is_some_and(|kind| self.schema.is_text_block(kind))
    }

    /// Whether a node has nothing but empty texts.
    fn is_line_blank<E: BlockEdits>(&self, on: &E, block: &Node) -> Result<bool, EditError> {
        on.spend_steps(&|_| cost::LOOKED_UP * block.children().len())?;
        let mut line = on.children(block.id());
        Ok(line.all(|text| text.text().is_empty() && self.is_text(block, text)))
    }

    /// Whether a node in a text block is a text and, even if it has no characters, no other part
    /// of the line, such as an image.
    fn is_text(&self, block: &Node, node: &Node) -> bool {
        let of = self.schema.number_of(block.kind());
        let text = of.and_then(|of| fit::text_kind(self.schema, of));
        text.is_some()
            && text == self.schema.number_of(node.kind())
            && node.attributes().is_empty()
            && node.children().is_empty()
    }
}

/// The first descendant without children, or the node itself.
pub(super) fn first_leaf<E: BlockEdits>(on: &E, id: &NodeId) -> Result<NodeId, EditError> {
    let mut leaf = plan::find(on, id)?;
    while let Some(child) = on.children(leaf.id()).next() {
        on.spend_steps(&|_| cost::LOOKED_UP)?;
        leaf = child;
    }
    Ok(leaf.id().clone())
}

/// Whether a node is as a new one would be without its content.
fn is_like(node: &Node, new: &NodeSpec) -> bool {
    new.len() == 1 && node.kind() == new.kind() && node.attributes() == new.attributes()
}

/// Deletes the text of a node, and its children but one.
fn clear<E: BlockEdits>(on: &mut E, id: &NodeId, stays: Option<&NodeId>) -> Result<(), EditError> {
    let node = plan::find(on, id)?;
    on.spend_steps(&|_| cost::LOOKED_UP * node.children().len())?;
    let children = node.children().iter().filter(|child| Some(*child) != stays);
    let children: Vec<NodeId> = children.cloned().collect();
    let len = node.text().len();
    for child in children {
        on.delete_node(&child)?;
    }
    match len {
        0 => Ok(()),
        len => on.replace(id, 0, len, String::new()),
    }
}
