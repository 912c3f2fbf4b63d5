//! The changes of a commit.

use super::{Change, ChildPosition, Node, Position, SharedList, View};
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
    /// The place moves along with the later changes. If one of them removes its node, or the first
    /// change does, it is the node that is there instead: the one that followed, or else the last
    /// child of the parent, or the parent. A change that was nowhere in the document does not
    /// count. Returns `None` if no change has a place. Takes time in proportion to the changes.
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
        let mut place: Option<Position> = None;
        for (nth, change) in self.iter().enumerate() {
            step();
            place = place.and_then(|place| place.after(change));
            if place.is_some() {
                continue;
            }
            if let Change::RemoveSubtree { at: Some(at), .. } = change
                && let Some(parent) = after.node(&at.parent)
            {
                place = Some(instead_of(at, parent, &self[nth + 1..]));
                break;
            }
            place = change.place();
        }
        let places = self.iter().rev().filter_map(Change::place);
        place
            .and_then(within)
            .or_else(|| places.filter_map(within).next())
    }
}

/// What is in the place of a removed child after later changes.
fn instead_of(at: &ChildPosition, parent: &Node, later: &[Change]) -> Position {
    let mut index = at.index;
    for change in later {
        step();
        change.each_sequence_edit(|edit| {
            if let SequenceEdit::Children(splice) = edit
                && splice.id == at.parent
                && splice.at < index
            {
                let removed = splice.removed.min(index - splice.at);
                index = (index - removed).saturating_add(splice.inserted);
            }
        });
    }
    let children = parent.children();
    let last = children.len().saturating_sub(1);
    let node = children.get(index.min(last)).unwrap_or(parent.id());
    let mut place = Position::new(node.clone(), 0);
    for change in later {
        change.each_sequence_edit(|edit| place.follow(&edit));
    }
    place
}
