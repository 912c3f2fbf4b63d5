//! Positions and selections.

use std::sync::Arc;

use serde::de::Error as _;
use serde::ser::SerializeStruct;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::sequence_edit::SequenceEdit;
use super::{Change, EditError, Mark, Node, OffsetError, View, plan, value};
use crate::id::NodeId;

/// A position in the text of a node: before the character at `offset`.
///
/// The offset counts scalar values wherever this crate takes or returns a position, except in an
/// operation in another unit (`doclock::transaction::Operation::in_unit`).
/// [`to_utf16`](Self::to_utf16) and [`to_scalar`](Self::to_scalar) convert it for a program that
/// counts UTF-16 units.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Position {
    /// The node.
    pub node_id: NodeId,
    /// The number of characters, or UTF-16 units, before it.
    pub offset: usize,
}

/// A selection: text from an anchor to a focus, or a whole node.
///
/// Its offsets count as those of a [`Position`].
///
/// In JSON: `{"anchor": {"nodeId": "1:4", "offset": 0}, "focus": {"nodeId": "1:4", "offset": 5}}`
/// or `{"nodeId": "1:4"}`, and a caret with [stored marks](Self::with_marks) also has
/// `"marks": [{"type": "bold"}]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Selection {
    /// Text; a caret if both ends are the same.
    Text(TextSelection),
    /// A node with its subtree.
    Node(NodeSelection),
}

/// Selected text. The focus may be before the anchor.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TextSelection {
    /// The end at which the selection began.
    pub anchor: Position,
    /// The end that moves.
    pub focus: Position,
    /// The [stored marks](Selection::with_marks) of a caret; `None` if there are none. Those of any
    /// other selection do not count. Shared: a selection is copied with each commit.
    #[serde(default)]
    pub marks: Option<Arc<Vec<Mark>>>,
}

/// A selected node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeSelection {
    /// The node.
    pub node_id: NodeId,
}

impl Serialize for TextSelection {
    /// Not derived, so that only a caret has marks.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let marks = self.marks.as_ref().filter(|_| self.is_caret());
        let len = 2 + usize::from(marks.is_some());
        let mut fields = serializer.serialize_struct("TextSelection", len)?;
        fields.serialize_field("anchor", &self.anchor)?;
        fields.serialize_field("focus", &self.focus)?;
        match marks {
            Some(marks) => fields.serialize_field("marks", marks)?,
            None => fields.skip_field("marks")?,
        }
        fields.end()
    }
}

impl TextSelection {
    fn is_caret(&self) -> bool {
        self.anchor == self.focus
    }

    /// The same, without marks unless it is a caret.
    fn normal(mut self) -> Self {
        self.marks = self.marks.filter(|_| self.anchor == self.focus);
        self
    }
}

impl<'de> Deserialize<'de> for Selection {
    /// Not derived, so the error names the invalid field.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(
            rename_all = "camelCase",
            deny_unknown_fields,
            expecting = "an object with `nodeId`, or `anchor` and `focus`"
        )]
        struct SelectionFields {
            node_id: Option<NodeId>,
            anchor: Option<Position>,
            focus: Option<Position>,
            marks: Option<Vec<Mark>>,
        }

        let SelectionFields {
            node_id,
            anchor,
            focus,
            marks,
        } = SelectionFields::deserialize(deserializer)?;
        match (node_id, anchor, focus) {
            (Some(_), None, None) if marks.is_some() => {
                Err(D::Error::custom("only a caret has `marks`"))
            }
            (Some(node_id), None, None) => Ok(Self::node(node_id)),
            (None, Some(anchor), Some(focus)) => {
                if marks.is_some() && anchor != focus {
                    return Err(D::Error::custom("only a caret has `marks`"));
                }
                Ok(match marks {
                    Some(marks) => Self::new(anchor, focus).with_marks(marks),
                    None => Self::new(anchor, focus),
                })
            }
            (None, Some(_), None) => Err(D::Error::missing_field("focus")),
            (None, None, Some(_)) => Err(D::Error::missing_field("anchor")),
            _ => Err(D::Error::custom(
                "a selection has either `nodeId`, or `anchor` and `focus`",
            )),
        }
    }
}

impl Position {
    /// Creates a position in the text of a node.
    pub fn new(node_id: impl Into<NodeId>, offset: usize) -> Self {
        Self {
            node_id: node_id.into(),
            offset,
        }
    }

    /// Returns the same position with its offset in UTF-16 units, as a front end in JavaScript
    /// counts.
    ///
    /// # Errors
    ///
    /// The node does not exist, or [`EditError::TextOutOfRange`].
    ///
    /// # Examples
    ///
    /// ```
    /// use doclock::{DataStore, Editor, document::{EditError, Position}, dsl::*};
    ///
    /// let editor = Editor::new(DataStore::new(), "ann");
    /// transaction(&editor, [create(text_node("text", "a🦀b").with_id("t"))]).commit()?;
    ///
    /// let view = editor.store().snapshot();
    /// assert_eq!(Position::new("t", 2).to_utf16(&view)?, Position::new("t", 3));
    /// assert_eq!(Position::new("t", 3).to_scalar(&view)?, Position::new("t", 2));
    /// assert_eq!(
    ///     Position::new("t", 2).to_scalar(&view).unwrap_err().to_string(),
    ///     "text of node t: offset 2 is inside a surrogate pair: the text has 4 UTF-16 units",
    /// );
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn to_utf16<V: View>(&self, view: &V) -> Result<Self, EditError> {
        let text = self.check(view)?.text();
        self.at(text.utf16_offset(self.offset))
    }

    /// Returns the same position with its offset in scalar values, from a position in UTF-16 units,
    /// for example of a front end.
    ///
    /// # Errors
    ///
    /// The node does not exist, or [`EditError::Offset`] for an offset that is out of range or
    /// inside a surrogate pair.
    pub fn to_scalar<V: View>(&self, view: &V) -> Result<Self, EditError> {
        let text = plan::find(view, &self.node_id)?.text();
        self.at(text.scalar_offset(self.offset))
    }

    fn at(&self, offset: Result<usize, OffsetError>) -> Result<Self, EditError> {
        let id = || self.node_id.clone();
        let offset = offset.map_err(|cause| EditError::offset(id(), cause))?;
        Ok(Self::new(id(), offset))
    }

    /// The position after a change; `None` if its node is gone.
    pub(super) fn after(mut self, change: &Change) -> Option<Self> {
        if matches!(change, Change::RemoveSubtree { .. }) && change.removes(&self.node_id) {
            return None;
        }
        change.each_sequence_edit(|edit| self.follow(&edit));
        Some(self)
    }

    /// Moves it along with an edit. A position within replaced characters, at an insertion or at a
    /// split point moves behind it.
    pub(super) fn follow(&mut self, edit: &SequenceEdit) {
        match edit {
            SequenceEdit::Text(splice) if splice.id == self.node_id && splice.at <= self.offset => {
                let end = splice.at.saturating_add(splice.removed);
                let behind = self.offset.saturating_sub(end);
                self.offset = (splice.at.saturating_add(splice.inserted)).saturating_add(behind);
            }
            SequenceEdit::Split { id, at, right } if *id == self.node_id => {
                if let Some(offset) = self.offset.checked_sub(at.text) {
                    *self = Self::new(right.clone(), offset);
                }
            }
            SequenceEdit::Join { id, at, right } if *right == self.node_id => {
                *self = Self::new(id.clone(), at.text.saturating_add(self.offset));
            }
            _ => {}
        }
    }

    /// Returns the node, if it exists and has this position in its text.
    pub(super) fn check<'v, V: View>(&self, view: &'v V) -> Result<&'v Node, EditError> {
        let node = plan::find(view, &self.node_id)?;
        match self.offset <= node.text().len() {
            true => Ok(node),
            false => Err(plan::out_of_range(node, &(self.offset..self.offset))),
        }
    }
}

impl Selection {
    /// Creates a selection of text from one position to another.
    pub fn new(anchor: Position, focus: Position) -> Self {
        Self::Text(TextSelection {
            anchor,
            focus,
            marks: None,
        })
    }

    /// Creates a caret: an empty selection.
    pub fn caret(node_id: impl Into<NodeId>, offset: usize) -> Self {
        let at = Position::new(node_id, offset);
        Self::new(at.clone(), at)
    }

    /// Creates a selection of a whole node.
    pub fn node(node_id: impl Into<NodeId>) -> Self {
        Self::Node(NodeSelection {
            node_id: node_id.into(),
        })
    }

    /// Returns the same caret with stored marks: `doclock::dsl::insert_text` at the caret gives the
    /// text these marks and no others, as far as a schema allows them. Without stored marks, the
    /// text has those around it.
    ///
    /// They belong to the caret. They are gone when it is set anew, or when its own editor has
    /// edited the document: the text that is typed next has the marks of the text before it, if
    /// they are [inclusive]. Without a schema no mark is, and the marks stay stored while text is
    /// typed. Edits of other editors leave them. The ranges of the marks do not count, and other
    /// selections have no marks. `doclock::dsl::toggle_mark` stores a mark as well.
    ///
    /// [inclusive]: crate::schema::MarkType::inclusive
    ///
    /// # Examples
    ///
    /// ```
    /// use doclock::{DataStore, Editor, View, document::{Mark, Selection}, dsl::*};
    ///
    /// let editor = Editor::new(DataStore::new(), "ann");
    /// transaction(&editor, [create(text_node("text", "plain ").with_id("t"))]).commit()?;
    ///
    /// editor.select(Selection::caret("t", 6).with_marks([Mark::whole("bold")]))?;
    /// transaction(&editor, [insert_text(6, "bold").on("t")]).commit()?;
    ///
    /// let view = editor.store().snapshot();
    /// let marks: Vec<_> = view.node("t").unwrap().marks().iter().cloned().collect();
    /// assert_eq!(marks, [Mark::new("bold", 6..10)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_marks(mut self, marks: impl IntoIterator<Item = Mark>) -> Self {
        if let Self::Text(text) = &mut self
            && text.is_caret()
        {
            let marks = marks.into_iter();
            let marks = marks.map(|mark| Mark {
                range: None,
                ..mark
            });
            text.marks = Some(Arc::new(marks.collect()));
        }
        self
    }

    /// Returns the [stored marks](Self::with_marks), if it is a caret that has any.
    pub fn marks(&self) -> Option<&[Mark]> {
        match self {
            Self::Text(text) if text.is_caret() => text.marks.as_ref().map(|marks| &marks[..]),
            _ => None,
        }
    }

    /// The same, without marks unless it is a caret.
    #[doc(hidden)]
    #[must_use]
    pub fn normal(self) -> Self {
        match self {
            Self::Text(text) => Self::Text(text.normal()),
            Self::Node(_) => self,
        }
    }

    /// Removes the stored marks.
    #[doc(hidden)]
    pub fn clear_marks(&mut self) {
        if let Self::Text(text) = self {
            text.marks = None;
        }
    }

    /// Returns the same selection with its offsets in UTF-16 units, to be shown in a front end.
    ///
    /// # Errors
    ///
    /// As [`Position::to_utf16`].
    ///
    /// # Examples
    ///
    /// ```
    /// use doclock::{DataStore, Editor, document::Selection, dsl::*};
    ///
    /// let editor = Editor::new(DataStore::new(), "ann");
    /// let text = create(text_node("text", "a🦀b").with_id("t"));
    /// transaction(&editor, [text, select_range(2..).on("t")]).commit()?;
    ///
    /// let selection = editor.selection().unwrap();
    /// let shown = selection.to_utf16(&editor.store().snapshot())?;
    /// assert_eq!(shown, Selection::new(Position::new("t", 3), Position::new("t", 4)));
    /// assert_eq!(shown.to_scalar(&editor.store().snapshot())?, selection);
    /// # use doclock::document::Position;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn to_utf16<V: View>(&self, view: &V) -> Result<Self, EditError> {
        self.converted(|place| place.to_utf16(view))
    }

    /// Returns the same selection with its offsets in scalar values, from a selection in UTF-16
    /// units.
    ///
    /// # Errors
    ///
    /// As [`Position::to_scalar`].
    pub fn to_scalar<V: View>(&self, view: &V) -> Result<Self, EditError> {
        self.converted(|place| place.to_scalar(view))
    }

    /// The selection with both positions converted. A selection of a whole node has none.
    fn converted(
        &self,
        place: impl Fn(&Position) -> Result<Position, EditError>,
    ) -> Result<Self, EditError> {
        match self {
            Self::Text(text) => {
                let (anchor, focus) = (place(&text.anchor)?, place(&text.focus)?);
                let marks = text.marks.clone();
                Ok(Self::Text(TextSelection {
                    anchor,
                    focus,
                    marks,
                })
                .normal())
            }
            Self::Node(_) => Ok(self.clone()),
        }
    }

    /// The selection after a change; `None` if a node that it depends on is gone.
    pub(super) fn after(self, change: &Change) -> Option<Self> {
        Some(match self {
            Self::Text(text) => Self::Text(TextSelection {
                anchor: text.anchor.after(change)?,
                focus: text.focus.after(change)?,
                marks: text.marks,
            })
            .normal(),
            Self::Node(NodeSelection { node_id }) if change.removes(&node_id) => return None,
            Self::Node(_) => self,
        })
    }

    /// The same with other positions in texts.
    pub(super) fn moved(&self, to: impl Fn(&Position) -> (NodeId, usize)) -> Self {
        let moved = |at: &Position| {
            let (id, offset) = to(at);
            Position::new(id, offset)
        };
        match self {
            Self::Text(text) => Self::Text(TextSelection {
                anchor: moved(&text.anchor),
                focus: moved(&text.focus),
                marks: text.marks.clone(),
            })
            .normal(),
            Self::Node(_) => self.clone(),
        }
    }

    /// Whether it names a node by the empty string, which is no id.
    pub(super) fn has_empty_id(&self) -> bool {
        match self {
            Self::Text(TextSelection { anchor, focus, .. }) => {
                anchor.node_id.bytes() == 0 || focus.node_id.bytes() == 0
            }
            Self::Node(NodeSelection { node_id }) => node_id.bytes() == 0,
        }
    }

    /// The marks that it contains, also if it is no caret.
    pub(super) fn all_marks(&self) -> &[Mark] {
        match self {
            Self::Text(text) => text.marks.as_ref().map_or(&[], |marks| &marks[..]),
            Self::Node(_) => &[],
        }
    }

    /// Checks the values of its marks.
    pub(super) fn check_marks(&self) -> Result<(), EditError> {
        match self {
            Self::Text(text) => value::check_marks(&text.focus.node_id, self.all_marks()),
            Self::Node(_) => Ok(()),
        }
    }

    /// Checks that its nodes and positions exist, and its marks.
    #[doc(hidden)]
    pub fn check<V: View>(&self, view: &V) -> Result<(), EditError> {
        match self {
            Self::Text(TextSelection { anchor, focus, .. }) => {
                anchor.check(view)?;
                focus.check(view)?;
                self.check_marks()
            }
            Self::Node(NodeSelection { node_id }) => plan::find(view, node_id).map(drop),
        }
    }

    /// Moves it along with these edits. A deleted node stays selected: it may be restored.
    #[doc(hidden)]
    pub fn follow<'a>(&mut self, edits: impl IntoIterator<Item = &'a SequenceEdit>) {
        let Self::Text(TextSelection { anchor, focus, .. }) = self else {
            return;
        };
        for edit in edits {
            anchor.follow(edit);
            focus.follow(edit);
        }
    }
}
