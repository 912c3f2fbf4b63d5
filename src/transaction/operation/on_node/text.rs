//! Operations on the text of one node or of a range of nodes.

use std::cell::Cell;
use std::ops::{Bound, Range, RangeBounds};

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use super::fitting::{fits, fits_blocks, is_text};
use super::marks::mark_typed;
use super::range::{self, reselect};
use super::{Edited, NodeOperation, OperationOn, SizeCheck, text_size};
use crate::document::fit::FitEdit;
use crate::document::{
    Budget, EditError, Limit, Mark, Node, OBJECT, Overlay, Position, View, cost, plan, table,
};
use crate::id::NodeId;
use crate::store::Draft;
use crate::transaction::Pattern;
use crate::transaction::error::OperationError;
use crate::transaction::operation::unit;
use crate::transaction::operation::{NodeRef, TextSpan};

/// Replaces the whole text and removes its marks. If the text is the same, nothing changes, not
/// even the marks.
pub fn set_text(text: impl Into<SmolStr>) -> NodeOperation {
    SetText { text: text.into() }.into()
}

/// See [`set_text`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SetText {
    /// The new text.
    pub text: SmolStr,
}

impl OperationOn<NodeId> for SetText {
    without!(positions);

    fn size(&self, budget: &Budget) -> SizeCheck {
        text_size(budget, &self.text)
    }

    fn run(self, on: &mut Draft, id: &NodeId) -> Edited {
        Ok(on.set_text(id, self.text)?)
    }
}

/// Inserts characters before the character at `offset`. Under a schema they have the marks before
/// them that are [inclusive](crate::schema::MarkType::inclusive), and a text block without text
/// gets one. At a caret with [stored marks](crate::document::Selection::with_marks), they have
/// those.
pub fn insert_text(offset: usize, text: impl Into<SmolStr>) -> NodeOperation {
    InsertText {
        offset,
        text: text.into(),
    }
    .into()
}

/// See [`insert_text`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InsertText {
    /// The offset of the insertion.
    pub offset: usize,
    /// The characters.
    pub text: SmolStr,
}

impl OperationOn<NodeId> for InsertText {
    fn size(&self, budget: &Budget) -> SizeCheck {
        text_size(budget, &self.text)
    }

    fn to_scalars(&mut self, on: &mut Draft, id: &NodeId) -> Edited {
        unit::of_offset(on, id, &mut self.offset)
    }

    fn run(self, on: &mut Draft, id: &NodeId) -> Edited {
        let stored = on.stored_marks(id, self.offset);
        let stored = stored.map(|marks| (marks.to_vec(), self.text.chars().count()));
        match on.schema() {
            None => replace(on, id, self.offset..self.offset, self.text)?,
            Some(_) => self.insert_under_schema(on, id)?,
        }
        stored.map_or(Ok(()), |(marks, len)| mark_typed(on, len, marks))
    }
}

impl InsertText {
    /// Inserts the text with the marks before it that go on.
    fn insert_under_schema(self, on: &mut Draft, id: &NodeId) -> Edited {
        let Self { offset, text } = self;
        let is_blank = offset == 0 && plan::find(on, id)?.text().is_empty();
        if is_blank && is_text(on, id)? && fits_blocks(on, id, None, &FitEdit::Type(&text))? {
            return Ok(());
        }
        let marks = on.mark_rules().that_go_on(plan::find(on, id)?, offset);
        let typed = offset..offset + text.chars().count();
        replace(on, id, offset..offset, text)?;
        if marks.is_empty() {
            return Ok(());
        }
        let present = plan::find(on, id)?.marks().iter().cloned();
        let typed = marks.into_iter().map(|mark| Mark {
            range: Some(typed.clone()),
            ..mark
        });
        let all: Vec<Mark> = present.chain(typed).collect();
        Ok(on.set_marks(id, all)?)
    }
}

/// Deletes the characters from `start` to `end`, exclusive.
pub fn delete_text_range(start: usize, end: usize) -> NodeOperation {
    DeleteTextRange { start, end }.into()
}

/// See [`delete_text_range`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeleteTextRange {
    /// The first character.
    pub start: usize,
    /// The end, exclusive.
    pub end: usize,
}

impl OperationOn<NodeId> for DeleteTextRange {
    without!(size);

    fn to_scalars(&mut self, on: &mut Draft, id: &NodeId) -> Edited {
        unit::of_range(on, id, &mut self.start, &mut self.end)
    }

    fn run(self, on: &mut Draft, id: &NodeId) -> Edited {
        Ok(on.delete_text(id, self.start..self.end)?)
    }
}

/// Deletes characters from the node up to another, as Backspace does with a selection. The ends of
/// the two texts and all nodes between them are deleted. The rest of the second node's block, from
/// that node on, moves into the block of the first. The two text nodes are joined if they have the
/// same type and attributes. Blocks that are left empty are deleted.
///
/// A block here is a node that has no text of its own and only children without children. If the
/// two nodes are not both in a block, the second node moves to the first only if the two are
/// joined. A position in a deleted node moves to where the deleted characters of the first node
/// were.
///
/// Under a schema with tables, the cells in the smallest rectangle with both nodes in it are
/// emptied and stay, and the caret is in the first. A cell before whose text the range ends is not
/// one of them.
///
/// ```
/// use doclock::{DataStore, Editor, View, dsl::*, transaction::TextSpan};
///
/// let editor = Editor::new(DataStore::new(), "ann");
/// transaction(&editor, [create(element("page", [
///     element("paragraph", [text_node("text", "one two").with_id("a")]),
///     element("paragraph", [text_node("text", "three")]),
///     element("paragraph", [text_node("text", "four five").with_id("b")]),
/// ]).with_id("page")), delete_range(TextSpan::to(4, "b", 5)).on("a")])
/// .commit()?;
/// let page = editor.store().snapshot();
/// assert_eq!(page.node("a").unwrap().text(), &"one five");
/// assert_eq!(page.node("page").unwrap().children().len(), 1);
/// # Ok::<(), doclock::transaction::TransactionError>(())
/// ```
pub fn delete_range(extent: impl Into<TextSpan>) -> NodeOperation {
    deletion(extent.into(), false)
}

/// Deletes characters, and all nodes between the first and the last, as [`delete_range`] does, but
/// no node around them. Under a schema, the block in which the range begins stays, also where the
/// range covers it whole, and what is left of the last block moves into it.
pub fn delete_range_exactly(extent: impl Into<TextSpan>) -> NodeOperation {
    deletion(extent.into(), true)
}

fn deletion(extent: TextSpan, exact: bool) -> NodeOperation {
    let (start, end, end_node_id) = extent.into_parts();
    DeleteRange {
        start,
        end,
        end_node_id,
        exact,
    }
    .into()
}

/// See [`delete_range`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeleteRange {
    /// The first character.
    #[serde(default)]
    pub start: usize,
    /// The end, exclusive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<usize>,
    /// The node in which the range ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_node_id: Option<NodeRef>,
    /// Whether nodes stay that the range covers up to the text in it: [`delete_range_exactly`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exact: bool,
}

impl OperationOn<NodeId> for DeleteRange {
    without!(size);

    span_to_scalars!();

    fn run(self, on: &mut Draft, id: &NodeId) -> Edited {
        let over = range::resolve(on, id, self.start, self.end, self.end_node_id.as_ref())?;
        let over = range::emptied_cells(on, over)?;
        let exact = self.exact && over.start.node_id != over.end.node_id;
        match exact && fits(on, &over, &FitEdit::DeleteExactly)? {
            true => Ok(()),
            false => range::delete_range(on, &over),
        }
    }
}

/// Replaces the characters from `start` to `end`, exclusive.
pub fn replace_text(start: usize, end: usize, text: impl Into<SmolStr>) -> NodeOperation {
    ReplaceText {
        start,
        end,
        text: text.into(),
        end_node_id: None,
    }
    .into()
}

/// Replaces a range that may span nodes, as typing over a selection does: deletes it, and inserts
/// text. Under a schema the text has the marks of the first replaced character, but for those that
/// are not [inclusive](crate::schema::MarkType::inclusive) and end with the range. Cells of a table
/// are emptied as by [`delete_range`], and the text is in the first of them.
pub fn type_over(
    start: usize,
    end_node_id: impl Into<NodeRef>,
    end: usize,
    text: impl Into<SmolStr>,
) -> NodeOperation {
    ReplaceText {
        start,
        end,
        text: text.into(),
        end_node_id: Some(end_node_id.into()),
    }
    .into()
}

/// See [`replace_text`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReplaceText {
    /// The first character.
    pub start: usize,
    /// The end, exclusive.
    pub end: usize,
    /// The replacement.
    pub text: SmolStr,
    /// The node in which the range ends; with it, as [`type_over`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_node_id: Option<NodeRef>,
}

impl OperationOn<NodeId> for ReplaceText {
    fn size(&self, budget: &Budget) -> SizeCheck {
        text_size(budget, &self.text)
    }

    fn to_scalars(&mut self, on: &mut Draft, id: &NodeId) -> Edited {
        let end_node = self.end_node_id.as_ref();
        unit::of_extent(on, id, &mut self.start, Some(&mut self.end), end_node)
    }

    fn run(self, on: &mut Draft, id: &NodeId) -> Edited {
        let (start, end, text) = (self.start, self.end, self.text);
        if self.end_node_id.is_none() {
            return replace(on, id, start..end, text);
        }
        let over = range::resolve(on, id, start, Some(end), self.end_node_id.as_ref())?;
        // In an emptied cell the marks are gone.
        let marks = table::marks_at(on, on.schema(), &over.start)?;
        let is_range = over.start != over.end;
        let over = range::emptied_cells(on, over)?;
        let is_emptied = is_range && over.start == over.end;
        if fits(on, &over, &FitEdit::Type(&text))? {
            return match is_emptied {
                true => Ok(table::mark_typed(on, &over.start.node_id, marks, &text)?),
                false => Ok(()),
            };
        }
        range::delete_range(on, &over)?;
        let Position { node_id, offset } = over.start;
        replace(on, &node_id, offset..offset, text)
    }
}

/// Replaces each match of a [`Pattern`] in the node's text. In the replacement, `$1` or `${name}`
/// stands for the text that a group matched, and `$$` for a dollar sign. It is an error if the
/// pattern is invalid, or if its search or its output exceeds its limits. Each match is replaced as
/// by [`replace_text`], so marks around it are kept.
pub fn replace_pattern(
    pattern: impl Into<Pattern>,
    replacement: impl Into<String>,
) -> NodeOperation {
    ReplacePattern {
        pattern: pattern.into(),
        replacement: replacement.into(),
    }
    .into()
}

/// See [`replace_pattern`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReplacePattern {
    /// The regular expression.
    pub pattern: Pattern,
    /// The replacement of each match.
    pub replacement: String,
}

impl OperationOn<NodeId> for ReplacePattern {
    without!(positions);

    fn size(&self, budget: &Budget) -> SizeCheck {
        text_size(budget, &self.replacement)
    }

    fn steps(&self, on: &Overlay, id: &NodeId) -> usize {
        whole_text(on, id)
    }

    /// From the last match to the first, so the offsets of the remaining matches stay valid.
    fn run(self, on: &mut Draft, id: &NodeId) -> Edited {
        let text = plan::find(on, id)?.text().to_string();
        let (replacements, looked_at) = self.pattern.replacements(&text, &self.replacement)?;
        // Each match is compared with its replacement.
        let steps = looked_at / cost::BYTES + cost::CHANGE * replacements.len();
        on.spend(Limit::Steps, |_| steps)?;
        for (range, replaced) in replacements.into_iter().rev() {
            on.replace_text(id, range, replaced)?;
        }
        Ok(())
    }
}

/// Inserts text before and after characters of the node: `wrap_text("**", "**", 2..6)`. Selected
/// characters stay selected, without the inserted text.
pub fn wrap_text(
    before: impl Into<SmolStr>,
    after: impl Into<SmolStr>,
    range: impl RangeBounds<usize>,
) -> NodeOperation {
    let (start, end) = bounds(&range);
    Wrap {
        before: before.into(),
        after: after.into(),
        start,
        end,
    }
    .into()
}

/// See [`wrap_text`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Wrap {
    /// The text to insert before the characters.
    pub before: SmolStr,
    /// The text to insert after them.
    pub after: SmolStr,
    /// The first character.
    #[serde(default)]
    pub start: usize,
    /// The end, exclusive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<usize>,
}

impl OperationOn<NodeId> for Wrap {
    fn size(&self, budget: &Budget) -> SizeCheck {
        text_size(budget, &self.before)?;
        text_size(budget, &self.after)
    }

    fn to_scalars(&mut self, on: &mut Draft, id: &NodeId) -> Edited {
        unit::of_extent(on, id, &mut self.start, self.end.as_mut(), None)
    }

    fn run(self, on: &mut Draft, id: &NodeId) -> Edited {
        let Self { before, after, .. } = self;
        let range = within(on, id, self.start, self.end)?;
        // A caret at the end of the characters moves along with the insertion there.
        let behind = Position::new(id.clone(), range.end + after.chars().count());
        let end = Position::new(id.clone(), range.end);
        replace(on, id, range.end..range.end, after)?;
        reselect(on, |_, place| (*place == behind).then(|| end.clone()))?;
        replace(on, id, range.start..range.start, before)
    }
}

/// Reverses [`wrap_text`]: deletes `before` at the start of the characters and `after` at their
/// end. It is an error if the characters do not begin with `before` and end with `after`.
pub fn unwrap_text(
    before: impl Into<SmolStr>,
    after: impl Into<SmolStr>,
    range: impl RangeBounds<usize>,
) -> NodeOperation {
    let (start, end) = bounds(&range);
    Unwrap {
        before: before.into(),
        after: after.into(),
        start,
        end,
    }
    .into()
}

/// See [`unwrap_text`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Unwrap {
    /// The text to remove before the characters.
    pub before: SmolStr,
    /// The text to remove after them.
    pub after: SmolStr,
    /// The first character, which is that of `before`.
    #[serde(default)]
    pub start: usize,
    /// The end, exclusive, after `after`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<usize>,
}

impl OperationOn<NodeId> for Unwrap {
    fn size(&self, budget: &Budget) -> SizeCheck {
        text_size(budget, &self.before)?;
        text_size(budget, &self.after)
    }

    fn to_scalars(&mut self, on: &mut Draft, id: &NodeId) -> Edited {
        unit::of_extent(on, id, &mut self.start, self.end.as_mut(), None)
    }

    fn run(self, on: &mut Draft, id: &NodeId) -> Edited {
        let Self { before, after, .. } = self;
        let range = within(on, id, self.start, self.end)?;
        let text = plan::find(on, id)?.text();
        let has = |part: &Range<usize>, expected: &str| {
            text.slice(part.clone())
                .is_some_and(|found| found == expected)
        };
        let head = range.start..range.start + before.chars().count();
        let tail = range.end.saturating_sub(after.chars().count())..range.end;
        if head.end > tail.start || !has(&head, &before) || !has(&tail, &after) {
            let id = id.clone();
            return Err(OperationError::NotWrapped { id, before, after });
        }
        on.delete_text(id, tail)?;
        Ok(on.delete_text(id, head)?)
    }
}

/// Inserts text at the beginning of each line that the characters reach into, except empty lines. A
/// line ends with `\n`; a line that contains only `\r` is empty, too. An empty range reaches into
/// the line that contains it.
pub fn indent_text(indent: impl Into<SmolStr>, range: impl RangeBounds<usize>) -> NodeOperation {
    let (start, end) = bounds(&range);
    IndentText {
        indent: indent.into(),
        start,
        end,
    }
    .into()
}

/// See [`indent_text`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct IndentText {
    /// The text to insert at the beginning of each line.
    pub indent: SmolStr,
    /// The first character.
    #[serde(default)]
    pub start: usize,
    /// The end, exclusive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<usize>,
}

impl OperationOn<NodeId> for IndentText {
    fn size(&self, budget: &Budget) -> SizeCheck {
        text_size(budget, &self.indent)
    }

    fn to_scalars(&mut self, on: &mut Draft, id: &NodeId) -> Edited {
        unit::of_extent(on, id, &mut self.start, self.end.as_mut(), None)
    }

    fn steps(&self, on: &Overlay, id: &NodeId) -> usize {
        whole_text(on, id)
    }

    fn run(self, on: &mut Draft, id: &NodeId) -> Edited {
        let is_empty = |line: &str| line.trim_end_matches(['\r', '\n']).is_empty();
        let chosen = |line: &str| !self.indent.is_empty() && !is_empty(line);
        for at in lines(on, id, self.start, self.end, chosen)? {
            on.insert_text(id, at, &*self.indent)?;
        }
        Ok(())
    }
}

/// Deletes text at the beginning of each line that the characters reach into, if the line begins
/// with it. [`indent_text`] defines these lines.
pub fn outdent_text(indent: impl Into<SmolStr>, range: impl RangeBounds<usize>) -> NodeOperation {
    let (start, end) = bounds(&range);
    OutdentText {
        indent: indent.into(),
        start,
        end,
    }
    .into()
}

/// See [`outdent_text`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OutdentText {
    /// The text to remove from each line that begins with it.
    pub indent: SmolStr,
    /// The first character.
    #[serde(default)]
    pub start: usize,
    /// The end, exclusive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<usize>,
}

impl OperationOn<NodeId> for OutdentText {
    fn size(&self, budget: &Budget) -> SizeCheck {
        text_size(budget, &self.indent)
    }

    fn to_scalars(&mut self, on: &mut Draft, id: &NodeId) -> Edited {
        unit::of_extent(on, id, &mut self.start, self.end.as_mut(), None)
    }

    fn steps(&self, on: &Overlay, id: &NodeId) -> usize {
        whole_text(on, id)
    }

    fn run(self, on: &mut Draft, id: &NodeId) -> Edited {
        let indent = self.indent.as_str();
        let len = indent.chars().count();
        let chosen = |line: &str| len > 0 && line.starts_with(indent);
        for at in lines(on, id, self.start, self.end, chosen)? {
            on.delete_text(id, at..at + len)?;
        }
        Ok(())
    }
}

/// The steps of an operation that reads the whole text of a node.
fn whole_text(on: &Overlay, id: &NodeId) -> usize {
    1 + on.node(id).map_or(0, |node| node.text().bytes()) / cost::BYTES
}

/// The first character and the one behind the last; `None` for the end of the text.
fn bounds(range: &impl RangeBounds<usize>) -> (usize, Option<usize>) {
    let start = match range.start_bound() {
        Bound::Included(&first) => first,
        Bound::Excluded(&before) => before.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(&last) => Some(last.saturating_add(1)),
        Bound::Excluded(&end) => Some(end),
        Bound::Unbounded => None,
    };
    (start, end)
}

/// Replaces characters. A mark of equal leaves on both sides does not grow over the new text, which
/// would be neither of them.
fn replace(on: &mut Draft, id: &NodeId, range: Range<usize>, text: SmolStr) -> Edited {
    let length = text.chars().count();
    let leaves = Cell::default();
    on.splice(id, Some(range.clone()), text, |on, node| {
        if !node.marks().is_empty() {
            leaves.set(leaves_around(on, node, &range));
        }
    })?;
    let leaves = leaves.into_inner();
    if leaves.is_empty() || length == 0 {
        return Ok(());
    }
    let inserted = range.start..range.start + length;
    let marks = plan::find(on, id)?
        .marks()
        .change_within(&inserted, |mark| {
            let mut leaves = leaves.iter();
            let is_leaf =
                leaves.any(|leaf| leaf.kind == mark.kind && leaf.attributes == mark.attributes);
            (!is_leaf).then_some(mark)
        });
    Ok(on.set_marks(id, marks)?)
}

/// The marks that stand for leaves both before and behind a range.
fn leaves_around(on: &Draft, node: &Node, range: &Range<usize>) -> Vec<Mark> {
    let is_object = |at: usize| {
        let char = node.text().slice(at..at + 1);
        char.is_some_and(|char| char.chars().eq([OBJECT]))
    };
    let is_inside = 0 < range.start && range.start <= range.end && range.end < node.text().len();
    if !is_inside || !is_object(range.start - 1) || !is_object(range.end) {
        return Vec::new();
    }
    let is_around = |mark: &Mark| {
        let around = mark.range.as_ref();
        around.is_some_and(|of| of.start < range.start && range.end < of.end)
    };
    // Whether it stands for leaves depends on the other marks over its characters.
    let near = node.marks().touching(range);
    let around = near.iter().filter(|mark| is_around(mark));
    let over = around.filter_map(|mark| mark.range.clone());
    let over = over.reduce(|one, other| one.start.min(other.start)..one.end.max(other.end));
    let marks = over.map(|over| node.marks().touching(&over));
    let marks = marks.unwrap_or_default();
    let leaves = marks
        .iter()
        .zip(on.mark_rules().leaves(node.text(), &marks));
    let leaves = leaves.filter(|(mark, leaf)| *leaf && is_around(mark));
    leaves.map(|(mark, _)| mark.clone()).collect()
}

/// The characters of the range, if the text has them.
fn within(
    view: &impl View,
    id: &NodeId,
    start: usize,
    end: Option<usize>,
) -> Result<Range<usize>, EditError> {
    let node = plan::find(view, id)?;
    let len = node.text().len();
    let range = start..end.unwrap_or(len);
    match range.start <= range.end && range.end <= len {
        true => Ok(range),
        false => Err(plan::out_of_range(node, &range)),
    }
}

/// The starts of the `chosen` lines that the characters reach into, the last first. An empty range
/// reaches into the line that contains it.
fn lines(
    view: &impl View,
    id: &NodeId,
    start: usize,
    end: Option<usize>,
    chosen: impl Fn(&str) -> bool,
) -> Result<Vec<usize>, EditError> {
    let range = within(view, id, start, end)?;
    let last = range.start.max(range.end.saturating_sub(1));
    let text = plan::find(view, id)?.text().to_string();
    let (mut begin, mut begins) = (0, Vec::new());
    for line in text.split_inclusive('\n') {
        let next = begin + line.chars().count();
        let goes_on = range.start < next || !line.ends_with('\n');
        if begin <= last && goes_on && chosen(line) {
            begins.push(begin);
        }
        begin = next;
    }
    begins.reverse();
    Ok(begins)
}
