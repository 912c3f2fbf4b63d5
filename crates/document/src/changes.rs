//! The changes of a commit.

use super::{Change, ChildPosition, Position, SharedList, View};
use crate::sequence_edit::SequenceEdit;
use crate::steps::step;

/// The changes of a commit, in order.
///
/// ```
/// use doclock::{DataStore, document::{Change, NodeSpec}};
///
/// let mut transaction = DataStore::new().begin("ann")?;
/// transaction.create(NodeSpec::new("paragraph"))?;
/// let changes = transaction.commit()?.changes;
/// assert!(matches!(&changes[..], [Change::InsertSubtree { .. }]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type Changes = SharedList<Change>;

impl SharedList<Change> {
    /// Returns the place of the first of these changes in the document `after` all of them: an
    /// interface scrolls there after an undo.
    ///
    /// The place moves along with the later changes, also through splits and joins. If one of them
    /// removes its node, or the first change does, it is the node that is there instead: the one
    /// that followed, or else the last child of the parent, or the parent. A change that was
    /// nowhere in the document does not count. Returns `None` if no change has a place. Takes time
    /// in proportion to the changes.
    ///
    /// ```
    /// use doclock::document::Position;
    /// use doclock::{DataStore, Editor, dsl::*};
    ///
    /// let editor = Editor::new(DataStore::new(), "ann");
    /// editor.execute(create(text_node("paragraph", "one").with_id("p")))?;
    /// editor.execute(insert_text(3, " two").on("p"))?;
    /// let changes = editor.undo().commit()?.changes;
    /// let place = changes.first_place(&editor.store().snapshot());
    /// assert_eq!(place, Some(Position::new("p", 3)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn first_place(&self, after: &impl View) -> Option<Position> {
        // The text can be a shorter one, of a new node with the id.
        let within = |place: Position| {
            let len = after.node(&place.node_id)?.text().len();
            let offset = place.offset.min(len);
            Some(Position { offset, ..place })
        };
        let mut found: Option<(usize, Place)> = None;
        for (nth, change) in self.iter().enumerate() {
            step();
            found = found.and_then(|(since, place)| Some((since, place.after(change)?)));
            found = found.or_else(|| Some((nth, Place::of(change)?)));
        }
        let place = match found {
            Some((_, Place::Text(position))) => Some(position),
            Some((since, Place::Child(at))) => instead_of(&at, after, &self[since + 1..]),
            None => None,
        };
        let places = self.iter().rev().filter_map(Change::place);
        place
            .and_then(within)
            .or_else(|| places.filter_map(within).next())
    }
}

/// A place of a change, which moves along with later changes.
enum Place {
    Text(Position),
    /// Among the children of a node: one was removed there.
    Child(ChildPosition),
}

impl Place {
    fn of(change: &Change) -> Option<Self> {
        match change {
            Change::RemoveSubtree { at, .. } => at.clone().map(Self::Child),
            _ => change.place().map(Self::Text),
        }
    }

    /// The place after a change; `None` if its node is gone.
    fn after(self, change: &Change) -> Option<Self> {
        let mut at = match self {
            Self::Text(position) => return position.after(change).map(Self::Text),
            Self::Child(at) => at,
        };
        match change {
            Change::RemoveSubtree { .. } if change.removes(&at.parent) => return None,
            // The content of the child that followed, or of the parent, is in another node now.
            Change::JoinNodes {
                id,
                at: end,
                right,
                place,
            } if *place == at || (right.id == at.parent && at.index == 0) => {
                let (id, index) = (id.clone(), end.children);
                return Some(match end.text {
                    text @ 1.. if index == 0 => Self::Text(Position::new(id, text)),
                    _ => Self::Child(ChildPosition { parent: id, index }),
                });
            }
            // The right half comes from before the place.
            Change::SplitNode { place, .. } if *place == at => at.index += 1,
            _ => change.each_sequence_edit(|edit| at.follow(edit)),
        }
        Some(Self::Child(at))
    }
}

impl ChildPosition {
    fn follow(&mut self, edit: SequenceEdit) {
        match edit {
            SequenceEdit::Children(splice)
                if splice.id == self.parent && splice.at < self.index =>
            {
                let removed = splice.removed.min(self.index - splice.at);
                self.index = (self.index - removed).saturating_add(splice.inserted);
            }
            SequenceEdit::Split { id, at, right } if id == self.parent => {
                if let Some(index) = self.index.checked_sub(at.children) {
                    *self = Self {
                        parent: right,
                        index,
                    };
                }
            }
            SequenceEdit::Join { id, at, right } if right == self.parent => {
                let index = at.children.saturating_add(self.index);
                *self = Self { parent: id, index };
            }
            _ => {}
        }
    }
}

/// What is in the place of a removed child, behind what later changes type there.
fn instead_of(at: &ChildPosition, after: &impl View, later: &[Change]) -> Option<Position> {
    let parent = after.node(&at.parent)?;
    let children = parent.children();
    let last = children.len().saturating_sub(1);
    let node = children.get(at.index.min(last)).unwrap_or(parent.id());
    let mut place = Position::new(node.clone(), 0);
    for change in later.iter().inspect(|_| step()) {
        change.each_sequence_edit(|edit| {
            if matches!(edit, SequenceEdit::Text(_)) {
                place.follow(&edit);
            }
        });
    }
    Some(place)
}
