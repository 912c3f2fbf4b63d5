//! Marks over a range, which may span nodes.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use smol_str::SmolStr;

use super::attributes::map;
use super::range::{self, CheckedRange};
use super::{Edited, NodeOperation, OperationOn, SizeCheck};
use crate::document::{
    Attributes, Budget, Limit, Mark, MarkCoverage, Node, Position, Selection, cost, plan, value,
};
use crate::id::NodeId;
use crate::steps::steps;
use crate::store::Draft;
use crate::transaction::error::OperationError;
use crate::transaction::operation::unit;
use crate::transaction::operation::{NodeRef, TextSpan};

/// Marks characters, in all nodes from the first to the last. A mark of the same kind with other
/// attributes ends where the new mark begins.
///
/// Under a [schema](crate::schema::MarkType::excludes), the marks that the new one excludes end
/// there as well, and texts that may not have the mark are left out.
///
/// ```
/// use doclock::{DataStore, Editor, View, dsl::*, transaction::TextSpan};
///
/// let editor = Editor::new(DataStore::new(), "ann");
/// transaction(&editor, [
///     create(element("paragraph", [
///         text_node("text", "one ").with_id("a"),
///         text_node("text", "two").with_id("b"),
///     ])),
///     apply_mark("bold", TextSpan::to(2, "b", 1)).on("a"),
///     remove_mark("bold", ..1).on("b"),
/// ])
/// .commit()?;
/// let snapshot = editor.store().snapshot();
/// assert_eq!(snapshot.node("a").unwrap().marks().len(), 1);
/// assert!(snapshot.node("b").unwrap().marks().is_empty());
/// # Ok::<(), doclock::transaction::TransactionError>(())
/// ```
pub fn apply_mark(kind: impl Into<SmolStr>, extent: impl Into<TextSpan>) -> NodeOperation {
    apply_mark_with(kind, Attributes::default(), extent)
}

/// Marks characters with attributes, for example the target of a link. Otherwise as [`apply_mark`].
pub fn apply_mark_with(
    kind: impl Into<SmolStr>,
    attributes: impl Into<Attributes>,
    extent: impl Into<TextSpan>,
) -> NodeOperation {
    let (start, end, end_node_id) = extent.into().into_parts();
    ApplyMark {
        mark: kind.into(),
        attributes: attributes.into(),
        start,
        end,
        end_node_id,
    }
    .into()
}

/// See [`apply_mark`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApplyMark {
    /// The kind of mark.
    pub mark: SmolStr,
    /// Its attributes.
    #[serde(default, skip_serializing_if = "Attributes::is_empty")]
    pub attributes: Attributes,
    /// The first character.
    #[serde(default)]
    pub start: usize,
    /// The end, exclusive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<usize>,
    /// The node in which the range ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_node_id: Option<NodeRef>,
}

impl OperationOn<NodeId> for ApplyMark {
    fn size(&self, budget: &Budget) -> SizeCheck {
        budget.name(&self.mark)?;
        budget.attributes(&self.attributes)
    }

    span_to_scalars!();

    fn run(self, on: &mut Draft, id: &NodeId) -> Edited {
        let over = range::resolve(on, id, self.start, self.end, self.end_node_id.as_ref())?;
        add(on, &over, &self.mark, &self.attributes)
    }
}

/// Removes the marks of a kind, with any attributes, from characters in all nodes from the first to
/// the last. Removal from the middle of a mark leaves two marks. The mark of a
/// [leaf](crate::schema::MarkType::leaf) stays.
pub fn remove_mark(kind: impl Into<SmolStr>, extent: impl Into<TextSpan>) -> NodeOperation {
    let (start, end, end_node_id) = extent.into().into_parts();
    RemoveMark {
        mark: kind.into(),
        attributes: None,
        start,
        end,
        end_node_id,
    }
    .into()
}

/// Removes the marks of a kind with exactly these attributes: one of several links or comments.
pub fn remove_mark_with(
    kind: impl Into<SmolStr>,
    attributes: impl Into<Attributes>,
    extent: impl Into<TextSpan>,
) -> NodeOperation {
    let (start, end, end_node_id) = extent.into().into_parts();
    RemoveMark {
        mark: kind.into(),
        attributes: Some(attributes.into()),
        start,
        end,
        end_node_id,
    }
    .into()
}

/// See [`remove_mark`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RemoveMark {
    /// The kind of mark.
    pub mark: SmolStr,
    /// The attributes of the mark; any for `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attributes: Option<Attributes>,
    /// The first character.
    #[serde(default)]
    pub start: usize,
    /// The end, exclusive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<usize>,
    /// The node in which the range ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_node_id: Option<NodeRef>,
}

impl OperationOn<NodeId> for RemoveMark {
    fn size(&self, budget: &Budget) -> SizeCheck {
        let mut attributes = self.attributes.iter();
        attributes.try_for_each(|attributes| budget.attributes(attributes))
    }

    span_to_scalars!();

    fn run(self, on: &mut Draft, id: &NodeId) -> Edited {
        let over = range::resolve(on, id, self.start, self.end, self.end_node_id.as_ref())?;
        remove_some(on, &over, |mark| {
            let attributes = self.attributes.as_ref();
            mark.kind == self.mark && attributes.is_none_or(|it| *it == mark.attributes)
        })
    }
}

/// Toggles a mark: [`remove_mark`] if all the characters have a mark of the kind, otherwise
/// [`apply_mark`]. White space counts only if there is nothing else. If the range is empty and the
/// caret is there, it toggles the mark among the
/// [stored marks](crate::document::Selection::with_marks), which the next typed text gets. A mark
/// with attributes that the schema refuses is refused there, too.
///
/// ```
/// use doclock::{DataStore, Editor, View, document::{Mark, Selection}, dsl::*};
///
/// let editor = Editor::new(DataStore::new(), "ann");
/// transaction(&editor, [create(text_node("text", "ab").with_id("t"))]).commit()?;
/// editor.select(Selection::caret("t", 2))?;
/// transaction(&editor, [toggle_mark("bold", 2..2).on("t")]).commit()?;
/// transaction(&editor, [insert_text(2, "c").on("t")]).commit()?;
///
/// let view = editor.store().snapshot();
/// let marks: Vec<_> = view.node("t").unwrap().marks().iter().cloned().collect();
/// assert_eq!(marks, [Mark::new("bold", 2..3)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn toggle_mark(kind: impl Into<SmolStr>, extent: impl Into<TextSpan>) -> NodeOperation {
    toggle_mark_with(kind, Attributes::default(), extent)
}

/// Toggles a mark, as [`toggle_mark`] does, and sets attributes where it applies the mark.
pub fn toggle_mark_with(
    kind: impl Into<SmolStr>,
    attributes: impl Into<Attributes>,
    extent: impl Into<TextSpan>,
) -> NodeOperation {
    let (start, end, end_node_id) = extent.into().into_parts();
    ToggleMark {
        mark: kind.into(),
        attributes: attributes.into(),
        start,
        end,
        end_node_id,
    }
    .into()
}

/// See [`toggle_mark`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToggleMark {
    /// The kind of mark.
    pub mark: SmolStr,
    /// Its attributes.
    #[serde(default, skip_serializing_if = "Attributes::is_empty")]
    pub attributes: Attributes,
    /// The first character.
    #[serde(default)]
    pub start: usize,
    /// The end, exclusive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<usize>,
    /// The node in which the range ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_node_id: Option<NodeRef>,
}

impl OperationOn<NodeId> for ToggleMark {
    fn size(&self, budget: &Budget) -> SizeCheck {
        budget.name(&self.mark)?;
        budget.attributes(&self.attributes)
    }

    span_to_scalars!();

    fn run(self, on: &mut Draft, id: &NodeId) -> Edited {
        let over = range::resolve(on, id, self.start, self.end, self.end_node_id.as_ref())?;
        if over.start == over.end {
            return toggle_stored(on, &over.start, &self.mark, self.attributes);
        }
        let mut found = MarkCoverage::default();
        for (id, range) in over.pieces(on)? {
            on.spend(Limit::Steps, |_| 4 * range.len() / cost::BYTES)?;
            let (node, rules) = (plan::find(on, &id)?, on.mark_rules());
            if rules.allows(on, node, &self.mark) {
                found = found.and(rules.coverage(on, node, &range, &self.mark));
            }
        }
        if found.is_missing() {
            return add(on, &over, &self.mark, &self.attributes);
        }
        remove_some(on, &over, |mark| mark.kind == self.mark)
    }
}

/// Sets attributes of the marks of a kind where they cover the characters. Other attributes are
/// kept, and `null` removes one. The parts of such a mark outside the characters are unchanged. It
/// is an error if there is no such mark.
pub fn update_mark<K: Into<String>>(
    kind: impl Into<SmolStr>,
    attributes: impl IntoIterator<Item = (K, Value)>,
    extent: impl Into<TextSpan>,
) -> NodeOperation {
    let (start, end, end_node_id) = extent.into().into_parts();
    UpdateMark {
        mark: kind.into(),
        attributes: map(attributes),
        start,
        end,
        end_node_id,
    }
    .into()
}

/// See [`update_mark`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UpdateMark {
    /// The kind of mark.
    pub mark: SmolStr,
    /// The attributes to change; `null` removes one.
    #[serde(deserialize_with = "value::map")]
    pub attributes: Box<Map<String, Value>>,
    /// The first character.
    #[serde(default)]
    pub start: usize,
    /// The end, exclusive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<usize>,
    /// The node in which the range ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_node_id: Option<NodeRef>,
}

impl OperationOn<NodeId> for UpdateMark {
    fn size(&self, budget: &Budget) -> SizeCheck {
        budget.name(&self.mark)?;
        budget.patch(&self.attributes)
    }

    span_to_scalars!();

    fn run(self, on: &mut Draft, id: &NodeId) -> Edited {
        let over = range::resolve(on, id, self.start, self.end, self.end_node_id.as_ref())?;
        let (kind, attributes) = (self.mark, self.attributes);
        let mut found = false;
        let patch: usize = attributes
            .iter()
            .map(|(key, value)| value::steps(key, value))
            .sum();
        for (id, range) in over.pieces(on)? {
            let marks = plan::find(on, &id)?.marks().iter();
            for mark in marks.filter(|mark| mark.kind == kind && touches(mark, &range)) {
                found = true;
                // Its attributes are copied.
                on.spend(Limit::Steps, |_| mark.attributes.steps() + patch)?;
            }
        }
        if !found {
            let CheckedRange { start, end } = over;
            return Err(OperationError::MarkNotFound { kind, start, end });
        }
        change(on, &over, |_, node, range| {
            let marks = node.marks().change_within(range, |mark| {
                Some(match mark.kind == kind {
                    true => Mark {
                        attributes: patched(&mark.attributes, &attributes),
                        ..mark
                    },
                    false => mark,
                })
            });
            Some(marks)
        })
    }
}

/// Replaces the marks of the node. The new marks are normalized; a mark without a range covers the
/// whole text. The mark of a [leaf](crate::schema::MarkType::leaf) stays, unless a new one stands
/// for a leaf there.
pub fn set_marks(marks: impl IntoIterator<Item = Mark>) -> NodeOperation {
    SetMarks {
        marks: marks.into_iter().collect(),
    }
    .into()
}

/// See [`set_marks`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SetMarks {
    /// The marks.
    pub marks: Vec<Mark>,
}

impl OperationOn<NodeId> for SetMarks {
    fn size(&self, budget: &Budget) -> SizeCheck {
        budget.marks(&self.marks)
    }

    fn to_scalars(&mut self, on: &mut Draft, id: &NodeId) -> Edited {
        unit::of_marks(on, id, None, &mut self.marks)
    }

    fn run(self, on: &mut Draft, id: &NodeId) -> Edited {
        replace_all(on, id, self.marks)
    }
}

/// Removes all marks from characters in all nodes from the first to the last, but for those of
/// [leaves](crate::schema::MarkType::leaf).
pub fn clear_formatting(extent: impl Into<TextSpan>) -> NodeOperation {
    let (start, end, end_node_id) = extent.into().into_parts();
    ClearFormatting {
        start,
        end,
        end_node_id,
    }
    .into()
}

/// See [`clear_formatting`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClearFormatting {
    /// The first character.
    #[serde(default)]
    pub start: usize,
    /// The end, exclusive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<usize>,
    /// The node in which the range ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_node_id: Option<NodeRef>,
}

impl OperationOn<NodeId> for ClearFormatting {
    without!(size);

    span_to_scalars!();

    fn run(self, on: &mut Draft, id: &NodeId) -> Edited {
        let over = range::resolve(on, id, self.start, self.end, self.end_node_id.as_ref())?;
        remove_some(on, &over, |_| true)
    }
}

/// Gives each node of a range new marks, computed from the node and its characters in the range.
fn change(
    on: &mut Draft,
    over: &CheckedRange,
    change: impl Fn(&Draft, &Node, &Range<usize>) -> Option<Vec<Mark>>,
) -> Edited {
    for (id, range) in over.pieces(on)? {
        let Some(marks) = change(on, plan::find(on, &id)?, &range) else {
            continue;
        };
        steps(marks.len());
        on.set_marks(&id, marks)?;
    }
    Ok(())
}

/// Texts whose type does not allow the mark are left out, as in ProseMirror.
fn add(on: &mut Draft, over: &CheckedRange, kind: &str, attributes: &Attributes) -> Edited {
    change(on, over, |on, node, range| {
        let rules = on.mark_rules();
        rules.with_mark(on, node, range, (kind, attributes))
    })
}

/// Toggles a mark among the stored marks, if the caret is at a position whose text may have it.
fn toggle_stored(on: &mut Draft, at: &Position, kind: &str, attributes: Attributes) -> Edited {
    let caret = Selection::new(at.clone(), at.clone());
    let is_here = match on.selection() {
        Some(Selection::Text(text)) => text.anchor == *at && text.focus == *at,
        _ => false,
    };
    let (rules, node) = (on.mark_rules(), plan::find(on, &at.node_id)?);
    if !is_here || !rules.allows(on, node, kind) {
        return Ok(());
    }
    let marks = match on.stored_marks(&at.node_id, at.offset) {
        Some(marks) => marks.to_vec(),
        None => rules.of_typed(node, at.offset),
    };
    let marks = rules.toggled(marks, kind, attributes);
    if let Some(mark) = marks.last().filter(|mark| mark.kind == kind) {
        rules.check(node, mark)?;
    }
    Ok(on.select(caret.with_marks(marks))?)
}

/// Gives marks to as many characters before the caret, in place of those that they have, but for
/// marks that the schema refuses. Without a schema, where no mark goes on, they stay stored.
pub(super) fn mark_typed(on: &mut Draft, len: usize, mut marks: Vec<Mark>) -> Edited {
    let caret = match on.selection() {
        Some(Selection::Text(text)) => text.focus.clone(),
        _ => return Ok(()),
    };
    let Some(start) = caret.offset.checked_sub(len) else {
        return Ok(());
    };
    let over = CheckedRange {
        start: Position::new(caret.node_id.clone(), start),
        end: caret.clone(),
    };
    let (rules, node) = (on.mark_rules(), plan::find(on, &caret.node_id)?);
    marks.retain(|mark| rules.check(node, mark).is_ok());
    let is_stored = |mark: &Mark| {
        let mut stored = marks.iter();
        stored.any(|it| it.kind == mark.kind && it.attributes == mark.attributes)
    };
    remove_some(on, &over, |mark| !is_stored(mark))?;
    for mark in &marks {
        add(on, &over, &mark.kind, &mark.attributes)?;
    }
    match on.schema() {
        Some(_) => Ok(()),
        None => Ok(on.select(Selection::new(caret.clone(), caret).with_marks(marks))?),
    }
}

/// Removes these marks, but for those that stand for leaves.
fn remove_some(on: &mut Draft, over: &CheckedRange, are: impl Fn(&Mark) -> bool) -> Edited {
    change(on, over, |on, node, range| {
        Some(on.mark_rules().without(node, range, &are))
    })
}

fn touches(mark: &Mark, range: &Range<usize>) -> bool {
    let bounds = mark.range.as_ref();
    bounds.is_some_and(|bounds| bounds.start < range.end && range.start < bounds.end)
}

fn patched(attributes: &Attributes, patch: &Map<String, Value>) -> Attributes {
    let kept = attributes
        .iter()
        .filter(|(key, _)| !patch.contains_key(key.as_str()));
    let kept = kept.map(|(key, value)| (key.clone(), value.clone()));
    let set = patch
        .iter()
        .map(|(key, value)| (SmolStr::new(key), value.clone()));
    kept.chain(set).collect()
}

/// Replaces all marks of a node but those of leaves for which the new ones have no leaf.
pub(super) fn replace_all(on: &mut Draft, id: &NodeId, marks: Vec<Mark>) -> Edited {
    let node = plan::find(on, id)?;
    let set = on.mark_rules().in_place_of_all(node, marks)?;
    Ok(on.set_marks(id, set)?)
}
