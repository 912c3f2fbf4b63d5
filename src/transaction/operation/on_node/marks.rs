//! Marks over a range, which may span nodes.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use smol_str::SmolStr;

use super::attributes::map;
use super::range::{self, CheckedRange};
use super::{Edited, NodeOperation, OperationOn, SizeCheck};
use crate::document::{Attributes, Budget, Limit, Mark, Node, plan, value};
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
/// [`apply_mark`].
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
        for (id, range) in over.pieces(on)? {
            let node = plan::find(on, &id)?;
            if on.allows_mark(node, &self.mark) && is_missing(on, node, &range, &self.mark) {
                return add(on, &over, &self.mark, &self.attributes);
            }
        }
        remove(on, &over, &self.mark)
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
        if !on.allows_mark(node, kind) {
            return None;
        }
        let mut added = Vec::new();
        let rules = NodeMarks::new(on, node);
        let kept = node.marks().cut(range, |part, others| {
            let Some(replaced) = rules.replaced_by(kind, others) else {
                return Vec::new();
            };
            added.push(Mark::new(kind, part).with_attributes(attributes.clone()));
            replaced
        });
        Some(kept.into_iter().chain(added).collect())
    })
}

/// The marks of a node, and which of them stand for leaves.
struct NodeMarks<'a> {
    on: &'a Draft,
    marks: Vec<&'a Mark>,
    leaves: Vec<bool>,
}

impl<'a> NodeMarks<'a> {
    fn new(on: &'a Draft, node: &'a Node) -> Self {
        Self {
            on,
            marks: node.marks().iter().collect(),
            leaves: on.leaves(node.text(), node.marks()),
        }
    }

    /// The marks among these that a new one replaces; `None` if one of them excludes it. A leaf is
    /// replaced by another of its kind only.
    fn replaced_by(&self, kind: &str, others: &[usize]) -> Option<Vec<usize>> {
        let mut replaced = Vec::new();
        for &nth in others {
            let other = &self.marks[nth].kind;
            match self.leaves[nth] {
                true if other == kind => replaced.push(nth),
                true => {}
                false if self.on.excludes(kind, other) => replaced.push(nth),
                false if self.on.excludes(other, kind) => return None,
                false => {}
            }
        }
        Some(replaced)
    }
}

fn remove(on: &mut Draft, over: &CheckedRange, kind: &str) -> Edited {
    remove_some(on, over, |mark| mark.kind == kind)
}

/// Removes these marks, but for those that stand for leaves.
fn remove_some(on: &mut Draft, over: &CheckedRange, are: impl Fn(&Mark) -> bool) -> Edited {
    change(on, over, |on, node, range| {
        let rules = NodeMarks::new(on, node);
        let is_gone = |nth: &usize| are(rules.marks[*nth]) && !rules.leaves[*nth];
        let kept = node
            .marks()
            .cut(range, |_, on| on.iter().copied().filter(is_gone).collect());
        Some(kept)
    })
}

/// Whether some characters that may have a mark do not have it.
fn is_missing(on: &Draft, node: &Node, range: &Range<usize>, kind: &str) -> bool {
    let rules = NodeMarks::new(on, node);
    let mut is_missing = false;
    node.marks().cut(range, |_, others| {
        let mut kinds = others.iter().map(|&nth| &rules.marks[nth].kind);
        is_missing |=
            !kinds.any(|other| other == kind) && rules.replaced_by(kind, others).is_some();
        Vec::new()
    });
    is_missing
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

/// Replaces all marks of a node but those of leaves for which the new ones have no leaf. Of new
/// marks, one of which excludes the other, the other is left out.
pub(super) fn replace_all(on: &mut Draft, id: &NodeId, marks: Vec<Mark>) -> Edited {
    let node = plan::find(on, id)?;
    let len = node.text().len();
    let given = plan::marks_for(id, marks, len)?;
    let new: Vec<&Mark> = given.iter().collect();
    let of_new = on.leaves(node.text(), &given);
    let mut set = given.cut(&(0..len), |_, others| {
        let (mut kept, mut gone): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
        let formatting = others.iter().copied().filter(|&nth| !of_new[nth]);
        for nth in formatting {
            let excludes = |one: usize, other: usize| on.excludes(&new[one].kind, &new[other].kind);
            if kept
                .iter()
                .any(|&other| excludes(other, nth) && !excludes(nth, other))
            {
                gone.push(nth);
                continue;
            }
            kept.retain(|&other| {
                let stays = !excludes(nth, other) || new[nth].kind == new[other].kind;
                if !stays {
                    gone.push(other);
                }
                stays
            });
            kept.push(nth);
        }
        gone
    });
    let old: Vec<&Mark> = node.marks().iter().collect();
    let of_old = on.leaves(node.text(), node.marks());
    let taken = new.iter().zip(&of_new).filter(|(_, leaf)| **leaf);
    // Joined where they overlap, so that their ends are sorted, too.
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for range in taken.filter_map(|(mark, _)| mark.range.clone()) {
        match ranges.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => ranges.push(range),
        }
    }
    let leaves = old.iter().zip(&of_old).filter(|(_, leaf)| **leaf);
    for (mark, _) in leaves {
        let Range { mut start, end } = mark.range.clone().unwrap_or(0..0);
        let mut parts = Vec::new();
        let first = ranges.partition_point(|other| other.end <= start);
        let others = ranges[first..].iter();
        for other in others.take_while(|other| other.start < end) {
            steps(1);
            parts.push(start..other.start);
            start = start.max(other.end);
        }
        parts.push(start..end);
        let parts = parts.into_iter().filter(|part| !part.is_empty());
        set.extend(parts.map(|part| Mark {
            range: Some(part),
            ..(*mark).clone()
        }));
    }
    Ok(on.set_marks(id, set)?)
}
