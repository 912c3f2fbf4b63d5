//! The changes of a commit.

use super::{Change, Position, SharedList, View};

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
    /// Returns the place of the first of these changes whose node is in the document `after` all of
    /// them: an interface scrolls there after an undo. Of a node that was removed it is the node
    /// that follows it, or its parent. Returns `None` if there is no such node.
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
        self.iter().enumerate().find_map(|(nth, change)| {
            let mut place = change.place(after)?;
            for later in &self[nth + 1..] {
                later.each_sequence_edit(|edit| place.follow(&edit));
            }
            after.contains(&place.node_id).then_some(place)
        })
    }
}
