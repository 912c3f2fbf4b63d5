//! Operations on a node.

use doclock::dsl::*;
use doclock::{
    NodeId, View,
    document::{HeaderPart, TableSide},
    transaction::{Child, NodeOperation, TextSpan, on_node::JoinTarget},
};
use smol_str::SmolStr;

use super::{Generator, Kind};

impl<V: View> Generator<'_, V> {
    /// An operation of this kind, for this node.
    ///
    /// Without a wildcard, so the compiler demands a case for each new kind.
    pub(crate) fn on(&mut self, kind: Kind, id: &NodeId) -> NodeOperation {
        match kind {
            Kind::Create
            | Kind::JoinNeighbours
            | Kind::ApplyInputRules
            | Kind::Control
            | Kind::SetSelection
            | Kind::ClearSelection
            | Kind::IfUnchanged
            | Kind::RequireLease
            | Kind::Op => unreachable!("{kind:?} is not aimed at a node"),

            Kind::Delete => delete_node(),
            Kind::AddChild => {
                let index = self.index(id);
                let child: Child = match self.dice.one_in(3) {
                    true => self.any_reference().into(),
                    false => self.spec().into(),
                };
                add_child(child, index)
            }
            Kind::RemoveChild => match self.children(id, false).pop() {
                Some(child) => remove_child(child),
                None => remove_child(self.any_reference()),
            },
            Kind::RemoveChildren => remove_children(self.children(id, false)),
            Kind::MoveNode => {
                let parent = self.any();
                let index = self.index(&parent);
                move_node(self.reference(&parent), index)
            }
            Kind::MoveChildren => {
                let parent = match self.dice.one_in(3) {
                    true => id.clone(),
                    false => self.any(),
                };
                let index = self.index(&parent);
                move_children(self.children(id, false), self.reference(&parent), index)
            }
            Kind::MoveBlockUp => move_block_up(),
            Kind::MoveBlockDown => move_block_down(),
            Kind::ReorderChildren => reorder_children(self.children(id, true)),
            Kind::CopyNode | Kind::CloneNodeWithChildren => self.copy_of(kind),
            Kind::WrapNode => wrap_node(self.container("paragraph")),
            Kind::LiftNode => lift_node(),
            Kind::IndentNode => match self.dice.one_in(2) {
                true => indent_node(),
                false => indent_node_in(self.container("list")),
            },
            Kind::OutdentNode => outdent_node(),

            Kind::SetText
            | Kind::InsertText
            | Kind::DeleteTextRange
            | Kind::DeleteRange
            | Kind::ReplaceText
            | Kind::ReplacePattern
            | Kind::Wrap
            | Kind::Unwrap
            | Kind::IndentText
            | Kind::OutdentText => self.on_text(kind, id),

            Kind::SplitTextNode
            | Kind::MergeTextNodes
            | Kind::SplitBlockNode
            | Kind::MergeBlockNodes
            | Kind::AutoMergeTextNodes
            | Kind::InsertParagraph
            | Kind::JoinBlock
            | Kind::LiftEmptyBlock
            | Kind::SplitListItem
            | Kind::WrapInList => self.on_blocks(kind, id),

            Kind::ApplyMark
            | Kind::RemoveMark
            | Kind::ToggleMark
            | Kind::UpdateMark
            | Kind::SetMarks
            | Kind::ClearFormatting => self.on_marks(kind, id),

            Kind::SetAttrs => set_attrs(self.attrs()),
            Kind::RemoveAttrs => remove_attrs(self.attrs().into_iter().map(|(key, _)| key)),
            Kind::Update => {
                let text = self.dice.one_in(2).then(|| SmolStr::new(self.text()));
                let len = text
                    .as_ref()
                    .map_or(self.len(id), |text| text.chars().count());
                let marks = self.dice.one_in(2).then(|| self.marks(len));
                update_node(self.attrs(), text, marks)
            }
            Kind::TransformNode => transform_node(self.kind_of_node(), self.attrs()),
            Kind::SetRoot => set_root(),

            Kind::AddTableRow
            | Kind::AddTableColumn
            | Kind::DeleteTableRows
            | Kind::DeleteTableColumns
            | Kind::MergeCells
            | Kind::SplitCell
            | Kind::ToggleHeader
            | Kind::ClearCells
            | Kind::MoveTableRow
            | Kind::MoveTableColumn
            | Kind::FixTable => self.on_table(kind),

            Kind::Copy => copy_range(self.extent(id)),
            Kind::Cut => cut_range(self.extent(id)),
            Kind::Paste => match self.dice.one_in(2) {
                true => paste(self.offset(id)),
                false => paste_fragment(self.offset(id), self.fragment()),
            },
            Kind::SelectNode => select_node(),
            Kind::SelectRange => select_range(self.extent(id)),
        }
    }

    fn copy_of(&mut self, kind: Kind) -> NodeOperation {
        let elsewhere = self.dice.one_in(2).then(|| {
            let parent = self.any();
            let index = self.index(&parent);
            (self.reference(&parent), index)
        });
        match (kind, elsewhere) {
            (Kind::CopyNode, None) => copy_node(),
            (Kind::CopyNode, Some((parent, index))) => copy_node_to(parent, index),
            (_, None) => clone_node_with_children(),
            (_, Some((parent, index))) => clone_node_with_children_to(parent, index),
        }
    }

    fn on_text(&mut self, kind: Kind, id: &NodeId) -> NodeOperation {
        match kind {
            Kind::SetText => set_text(self.text()),
            Kind::InsertText => insert_text(self.offset(id), self.text()),
            Kind::DeleteTextRange => {
                let (start, end) = self.range(id);
                delete_text_range(start, end)
            }
            Kind::DeleteRange => match self.dice.one_in(2) {
                true => delete_range(self.extent(id)),
                false => delete_range_exactly(self.extent(id)),
            },
            Kind::ReplaceText => {
                let (start, end) = self.range(id);
                replace_text(start, end, self.text())
            }
            Kind::ReplacePattern => {
                let patterns = [
                    "o",
                    "[a-z]+",
                    "(\\w)(\\w)",
                    "(?m)^",
                    "$",
                    "",
                    "漢|ß",
                    "a*",
                    "(",
                ];
                let replacements = ["x", "$2$1", "$$", "", "${nothing}", "漢"];
                replace_pattern(self.one(&patterns), self.one(&replacements))
            }
            Kind::Wrap => wrap_text(self.text(), self.text(), self.within(id)),
            Kind::Unwrap => self.unwrapping(id),
            Kind::IndentText => indent_text(self.indent(id), self.within(id)),
            _ => outdent_text(self.indent(id), self.within(id)),
        }
    }

    /// Unwraps the actual ends of the characters.
    fn unwrapping(&mut self, id: &NodeId) -> NodeOperation {
        let (start, end) = self.range(id);
        let text: Vec<char> = self
            .node(id)
            .map(|node| node.text().chars().take(end).skip(start).collect())
            .unwrap_or_default();
        let half = text.len() / 2;
        let (before, after) = (self.dice.below(half + 1), self.dice.below(half + 1));
        let before: String = text[..before].iter().collect();
        let after: String = text[text.len() - after..].iter().collect();
        match self.strays() {
            true => unwrap_text("?", after, start..end),
            false => unwrap_text(before, after, start..end),
        }
    }

    /// A typical prefix of a line, or the actual one of the text.
    fn indent(&mut self, id: &NodeId) -> String {
        let first = self.node(id).and_then(|node| node.text().chars().next());
        match self.dice.below(4) {
            0 => "\t".to_owned(),
            1 => first.into_iter().collect(),
            _ => "  ".to_owned(),
        }
    }

    fn on_blocks(&mut self, kind: Kind, id: &NodeId) -> NodeOperation {
        let next = self.node(id).and_then(|node| self.next_sibling(node));
        let next = next.cloned();
        match kind {
            Kind::SplitTextNode => split_text_node(self.offset(id)),
            Kind::MergeTextNodes | Kind::MergeBlockNodes => {
                let other = match next {
                    Some(next) => self.reference(&next),
                    None => self.any_reference(),
                };
                match kind {
                    Kind::MergeTextNodes => merge_text_nodes(other),
                    _ => merge_block_nodes(other),
                }
            }
            Kind::SplitBlockNode => {
                let index = self.index(id);
                split_block_node(index.unwrap_or(0))
            }
            Kind::AutoMergeTextNodes => auto_merge_text_nodes(),
            Kind::InsertParagraph => match self.dice.one_in(2) {
                true => insert_paragraph(self.offset(id)),
                false => insert_paragraph_of(self.offset(id), self.kind_of_node()),
            },
            Kind::JoinBlock => {
                let targets = [JoinTarget::Any, JoinTarget::Text, JoinTarget::Around];
                join_block(self.one(&targets), self.dice.one_in(2))
            }
            Kind::LiftEmptyBlock => lift_empty_block(),
            Kind::SplitListItem => {
                let item = match self.strays() {
                    true => self.kind_of_node(),
                    false => "item",
                };
                split_list_item(self.offset(id), item)
            }
            _ => {
                let (list, item) = (self.container("list"), self.container("item"));
                match next {
                    Some(next) if self.dice.one_in(2) => {
                        wrap_in_list_up_to(self.reference(&next), list, item)
                    }
                    _ => wrap_in_list(list, item),
                }
            }
        }
    }

    fn on_table(&mut self, kind: Kind) -> NodeOperation {
        let side = self.one(&[TableSide::Before, TableSide::After]);
        let part = self.one(&[HeaderPart::Cells, HeaderPart::Rows, HeaderPart::FirstColumn]);
        let (last, is_one) = (self.any_reference(), self.dice.one_in(2));
        match kind {
            Kind::AddTableRow => add_table_row(side),
            Kind::AddTableColumn => add_table_column(side),
            Kind::DeleteTableRows if is_one => delete_table_rows(),
            Kind::DeleteTableRows => delete_table_rows_up_to(last),
            Kind::DeleteTableColumns if is_one => delete_table_columns(),
            Kind::DeleteTableColumns => delete_table_columns_up_to(last),
            Kind::MergeCells => merge_cells(last),
            Kind::SplitCell => split_cell(),
            Kind::ToggleHeader if is_one => toggle_header(part),
            Kind::ToggleHeader => toggle_header_up_to(part, last),
            Kind::ClearCells if is_one => clear_cells(),
            Kind::ClearCells => clear_cells_up_to(last),
            Kind::MoveTableRow => move_table_row(last),
            Kind::MoveTableColumn => move_table_column(last),
            _ => fix_table(),
        }
    }

    fn on_marks(&mut self, kind: Kind, id: &NodeId) -> NodeOperation {
        let extent: TextSpan = self.extent(id);
        match kind {
            Kind::ApplyMark => apply_mark_with(self.mark(), self.attributes(), extent),
            Kind::RemoveMark => remove_mark(self.mark_of(id), extent),
            Kind::ToggleMark => toggle_mark_with(self.mark_of(id), self.attributes(), extent),
            Kind::UpdateMark => update_mark(self.mark_of(id), self.attrs(), extent),
            Kind::SetMarks => {
                let len = self.len(id);
                set_marks(self.marks(len))
            }
            _ => clear_formatting(extent),
        }
    }
}
