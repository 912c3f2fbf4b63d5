//! Edits of blocks under a schema: deleting, replacing, splitting, joining, lifting and wrapping
//! so that the result is valid.
//!
//! An edit is planned on a copy of the part of the document that it looks at ([`FitNode`]), and
//! leads to another such tree. [`reconcile`] then compares the two, and makes the changes that
//! lead from one to the other. So a plan that does not fit has changed nothing.
//!
//! The edits are those of ProseMirror, by its definitions in prosemirror-transform
//! (src/replace.ts, src/structure.ts), prosemirror-commands and prosemirror-schema-list. Positions
//! in the tree count as there: the beginnings and the ends of blocks, and the characters of texts.

mod blocks;
mod build;
mod fitter;
mod joins;
mod lists;
mod matching;
mod missing;
mod node;
mod place;
mod ranges;
mod reconcile;
mod replace;
mod specs;

use std::cell::Cell;
use std::rc::Rc;

use crate::block_edits::BlockEdits;
use crate::schema::{Schema, Symbol};
use crate::{
    Attributes, EditError, Fragment, Mark, Node, NodeId, NodeSpec, Position, Selection,
    TextSelection, View, cost,
};
use blocks::FitKind;
use build::FitDocument;
use node::{FitBody, FitNode, FitSlice};
use place::FitPlace;

pub(crate) use missing::completed;
pub use missing::missing;
pub(crate) use specs::{content_with, filled};

/// A tree after an edit, and the position of the caret in it.
type Fitted = Option<(Rc<FitNode>, usize)>;

/// The rules by which edits are planned.
#[derive(Clone, Copy)]
struct Fit<'s> {
    schema: &'s Schema,
    /// Set where a decision depends on the types of nodes that were left out.
    is_unsure: &'s Cell<bool>,
    /// Spends steps. Returns `false` if there are no more.
    spend: &'s dyn Fn(usize) -> bool,
    /// Whether new nodes may also be parts of a line of text, where nothing else fits.
    fills_lines: bool,
}

/// The type of the texts in a type of text block.
pub(crate) fn text_kind(schema: &Schema, block: Symbol) -> Option<Symbol> {
    unlimited(schema, &Cell::new(false)).text_kind(block)
}

/// Rules by which no steps are spent.
fn unlimited<'s>(schema: &'s Schema, is_unsure: &'s Cell<bool>) -> Fit<'s> {
    Fit {
        schema,
        is_unsure,
        spend: &|_| true,
        fills_lines: false,
    }
}

/// An edit between two positions.
#[derive(Clone, Debug)]
pub enum FitEdit<'a> {
    /// Deletes what is between them, and the nodes that it covers.
    Delete,
    /// Deletes what is between them only.
    DeleteExactly,
    /// Deletes the block at the first.
    DeleteBlock,
    /// Replaces it by a fragment.
    Paste(&'a Fragment),
    /// Replaces it by text with the marks around it.
    Type(&'a str),
    /// Replaces it by the end of a block and the beginning of another.
    Split(Option<&'a str>),
    /// Joins the block at the first with what is before it, or after it if `true`.
    Join(bool),
    /// Joins the text block at the first with another, the one after it if `true`.
    JoinText(bool),
    /// Joins a block around the first with its sibling, the one after it if `true`.
    JoinSibling(bool),
    /// Lifts the blocks out of their parent.
    Lift,
    /// Lifts an empty block out of its parent.
    LiftEmpty,
    /// Wraps the blocks.
    Wrap(&'a str, &'a Attributes),
    /// Gives the text blocks a type.
    SetType(&'a str, &'a Attributes),
    /// Wraps the blocks in a list, in items of a type.
    WrapInList([(&'a str, &'a Attributes); 2]),
    /// Splits a list item of a type.
    SplitItem(&'a str),
    /// Lifts list items, from this one on, out of their list.
    LiftItem(&'a NodeId),
    /// Moves list items, from this one on, into the item before them.
    SinkItem(&'a NodeId),
}

impl FitEdit<'_> {
    /// The types that it names.
    fn kinds(&self) -> Vec<&str> {
        match self {
            Self::Split(Some(kind)) | Self::Wrap(kind, _) | Self::SetType(kind, _) => vec![kind],
            Self::WrapInList(given) => given.map(|(kind, _)| kind).to_vec(),
            _ => Vec::new(),
        }
    }

    /// Whether the selection moves to where the edit ends.
    fn moves(&self) -> bool {
        matches!(
            self,
            Self::Delete
                | Self::DeleteExactly
                | Self::Paste(_)
                | Self::Type(_)
                | Self::Split(_)
                | Self::JoinText(_)
                | Self::SplitItem(_)
        )
    }
}

/// Edits a document between two positions. Returns `false` if that is no place of such edits: the
/// text there is not in a text block.
///
/// # Errors
///
/// [`EditError::DoesNotFit`] if the schema has no result for the edit. Then nothing was changed.
/// An error of an edit.
pub fn edit<E: BlockEdits>(
    on: &mut E,
    schema: &Schema,
    from: &Position,
    to: &Position,
    edit: &FitEdit<'_>,
) -> Result<bool, EditError> {
    let is_unsure = Cell::new(false);
    for deep in [false, true] {
        let fit = Fit {
            schema,
            is_unsure: &is_unsure,
            spend: &|steps| on.spend_steps(&|_| steps).is_ok(),
            fills_lines: false,
        };
        let visit = |node: &Node| {
            let steps = cost::NODE + cost::marks(node.marks()) + node.text().len() / cost::BYTES;
            on.spend_steps(&|_| steps)
        };
        let whole = matches!(edit, FitEdit::DeleteBlock);
        let look_up = |nodes| on.spend_steps(&|_| cost::LOOKED_UP * nodes);
        let document = FitDocument::new(&*on, fit, from, to, (whole, deep), &visit, &look_up)?;
        let Some(document) = document else {
            return Ok(false);
        };
        if !fit.applies(&document, edit) {
            return Ok(false);
        }
        let fitted = fit.run(&document, edit);
        // There may be none because there were no more steps.
        on.spend_steps(&|_| 0)?;
        if let Some((tree, caret)) = fitted {
            let fit = unlimited(schema, &is_unsure);
            // Of a selection elsewhere, nothing moves.
            let is_here = match on.selected() {
                Some(Selection::Text(TextSelection { anchor, focus, .. })) => {
                    [anchor, focus].iter().all(|end| [from, to].contains(end))
                }
                _ => false,
            };
            document.reconcile(on, fit, &tree, caret, edit.moves() && is_here)?;
            return Ok(true);
        }
        if !is_unsure.get() {
            break;
        }
    }
    Err(does_not_fit(on, schema, from))
}

fn does_not_fit(on: &impl View, schema: &Schema, at: &Position) -> EditError {
    let kind = |node: &Node| schema.number_of(node.kind());
    // The text block has its line of text; the rule is that of the node around it.
    let is_inline = |node: &&Node| kind(node).is_some_and(|kind| schema.is_inline(kind));
    let above = match on.node(&at.node_id).filter(is_inline) {
        Some(_) => 1,
        None => 0,
    };
    let parent = on.ancestors(&at.node_id).nth(above);
    let content = parent
        .and_then(kind)
        .map(|kind| schema.content_of(kind).clone());
    EditError::DoesNotFit {
        id: at.node_id.clone(),
        parent: parent.map_or_else(|| at.node_id.clone(), |node| node.id().clone()),
        content: content.unwrap_or_default(),
    }
}

impl Fit<'_> {
    /// Whether the positions are in list items, for an edit of those, and whether a fragment can be
    /// a slice.
    fn applies(self, document: &FitDocument, edit: &FitEdit<'_>) -> bool {
        if let FitEdit::Paste(fragment) = edit {
            return self.slice_of(fragment).is_some();
        }
        let mut kinds = edit.kinds().into_iter();
        if kinds.any(|kind| self.schema.number_of(kind).is_none()) {
            return false;
        }
        let (FitEdit::LiftItem(item) | FitEdit::SinkItem(item)) = edit else {
            return true;
        };
        let sinks = matches!(edit, FitEdit::SinkItem(_));
        let range = self.item_range(&document.root, document.from, document.to, item);
        range.is_some_and(|range| !sinks || range.start_index() > 0)
    }

    fn run(self, document: &FitDocument, edit: &FitEdit<'_>) -> Fitted {
        let (root, from, to) = (&document.root, document.from, document.to);
        let kind = |name: &str, attributes: &Attributes| {
            let kind = self.schema.number_of(name)?;
            let attributes = self.schema.with_defaults(kind, attributes);
            Some(FitKind { kind, attributes })
        };
        match *edit {
            FitEdit::Delete | FitEdit::DeleteBlock => self.delete_range(root, from, to),
            FitEdit::DeleteExactly => self.delete_exactly(root, from, to, from),
            FitEdit::Paste(fragment) => {
                let slice = self.slice_of(fragment)?;
                // A whole block does not cut a text at whose start or end it goes.
                let point = match slice.content.as_slice() {
                    [node]
                        if from == to && slice.is_closed() && !self.schema.is_inline(node.kind) =>
                    {
                        self.insert_point(root, from, node.kind)
                    }
                    _ => None,
                };
                let (from, to) = point.map_or((from, to), |at| (at, at));
                self.replace_range(root, from, to, &slice)
            }
            FitEdit::Type(text) => self.type_text(root, from, to, text),
            FitEdit::Split(given) => {
                let given = match given {
                    Some(name) => Some(self.kind(self.schema.number_of(name)?)),
                    None => None,
                };
                self.split_block(root, from, to, given.as_ref())
            }
            FitEdit::Join(false) => self.join_backward(root, from),
            FitEdit::Join(true) => self.join_forward(root, from),
            FitEdit::JoinText(forward) => self.join_text_blocks(root, from, forward),
            FitEdit::JoinSibling(forward) => {
                let at = self.join_point(root, if forward { to } else { from }, forward)?;
                Some((self.join(root, at)?, from))
            }
            FitEdit::Lift => self.lift_blocks(root, from, to),
            FitEdit::LiftEmpty => self.lift_empty(root, from),
            FitEdit::Wrap(name, attributes) => {
                self.wrap_blocks(root, from, to, &kind(name, attributes)?)
            }
            FitEdit::SetType(name, attributes) => {
                self.set_block_type(root, from, to, &kind(name, attributes)?)
            }
            FitEdit::WrapInList([(list, of_list), (item, of_item)]) => {
                let (list, item) = (kind(list, of_list)?, kind(item, of_item)?);
                self.wrap_in_list(root, from, to, &list, item)
            }
            FitEdit::SplitItem(name) => {
                self.split_list_item(root, from, to, self.schema.number_of(name)?)
            }
            FitEdit::LiftItem(item) => self.lift_list_item(root, from, to, item),
            FitEdit::SinkItem(item) => self.sink_list_item(root, from, to, item),
        }
    }

    /// A fragment as a slice. `None` if it is too deep, or has other nodes than a tree can have.
    fn slice_of(self, fragment: &Fragment) -> Option<FitSlice> {
        let height = fragment.all_nodes().map(NodeSpec::height).max();
        if height.unwrap_or(0) + fragment.ancestors.len() >= build::LEVELS {
            return None;
        }
        let mut content = Vec::new();
        let parent = fragment.ancestors.last();
        let block = parent.and_then(|parent| self.schema.number_of(parent.kind()));
        for spec in &fragment.nodes {
            let kind = self.schema.number_of(spec.kind())?;
            match self.schema.is_inline(kind) {
                true => content.extend(self.inline_spec(spec.clone(), block)?),
                false => content.push(self.spec(spec.clone())?),
            }
        }
        let around = fragment.ancestors.len();
        let open = |levels: usize, at_end: bool| {
            // The innermost of the open nodes may be a text.
            let (mut nodes, mut depth) = (content.as_slice(), 0);
            for _ in 0..levels {
                let end = if at_end { nodes.last() } else { nodes.first() };
                let Some(node) = end.filter(|node| !node.is_atom()) else {
                    break;
                };
                depth += 1;
                nodes = node.content();
            }
            around + depth
        };
        let (open_start, open_end) = match around {
            0 if fragment.start_levels == 0 && fragment.end_levels == 0 => {
                let levels = |open: bool| if open { usize::MAX } else { 0 };
                (
                    open(levels(fragment.open_start), false),
                    open(levels(fragment.open_end), true),
                )
            }
            _ => (
                open(fragment.start_levels, false),
                open(fragment.end_levels, true),
            ),
        };
        for parent in fragment.ancestors.iter().rev() {
            let kind = self.schema.number_of(parent.kind())?;
            content = vec![FitNode::block(
                kind,
                None,
                parent.attributes().clone(),
                content,
            )];
        }
        Some(FitSlice::new(content, open_start, open_end))
    }

    /// Replaces a range by text, with the marks that a user expects there.
    fn type_text(self, root: &Rc<FitNode>, from: usize, to: usize, text: &str) -> Fitted {
        if text.is_empty() {
            return self.delete_range(root, from, to);
        }
        let (start, end) = (FitPlace::new(root, from)?, FitPlace::new(root, to)?);
        let marks = self.typed_marks(&start, &end);
        let kind = self.text_kind(start.parent().kind)?;
        let len = text.chars().count();
        let marks = marks.into_iter().map(|mark| Mark {
            range: Some(0..len),
            ..mark
        });
        let spec = NodeSpec::new(self.schema.kind_of(kind).clone());
        let spec = spec.with_text(text).with_marks(marks);
        let content = self.inline_spec(spec, Some(start.parent().kind))?;
        self.replace_range(root, from, to, &FitSlice::new(content, 0, 0))
    }

    /// The marks of text that is typed over a range: `ResolvedPos.marks` and `marksAcross` of
    /// ProseMirror.
    fn typed_marks(self, from: &FitPlace, to: &FitPlace) -> Vec<Mark> {
        let last = from.node_before().map(|node| marks_of(&node, true));
        let first = from.node_after().map(|node| marks_of(&node, false));
        let (main, other) = match from.at == to.at {
            true => match (last, first) {
                (Some(last), first) => (last, first),
                (None, first) => (first.unwrap_or_default(), None),
            },
            false => {
                let next = to.node_after().map(|node| marks_of(&node, false));
                (first.unwrap_or_default(), next)
            }
        };
        let goes_on = |mark: &Mark| {
            let mut other = other.iter().flatten();
            let same =
                |other: &Mark| other.kind == mark.kind && other.attributes == mark.attributes;
            match self.schema.is_inclusive(&mark.kind) {
                Some(true) => true,
                // As everywhere where the schema does not say so: only within the mark.
                _ => other.any(same),
            }
        };
        let is_leaf = |mark: &Mark| {
            self.schema
                .is_leaf(&mark.kind)
                .unwrap_or(mark.kind == "image")
        };
        let main = main.into_iter();
        main.filter(|mark| goes_on(mark) && !is_leaf(mark))
            .collect()
    }
}

/// The marks of the first or the last character of a text.
fn marks_of(node: &FitNode, last: bool) -> Vec<Mark> {
    let FitBody::Text(text) = &node.body else {
        return Vec::new();
    };
    let at = if last { text.text.len() - 1 } else { 0 };
    let covers = |mark: &&Mark| mark.range.as_ref().is_some_and(|range| range.contains(&at));
    text.marks.iter().filter(covers).cloned().collect()
}
