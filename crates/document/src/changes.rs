//! Shared sequences of changes.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use smallvec::{SmallVec, smallvec};

use super::{Change, Position, View};

/// The changes of a commit, in order.
///
/// Dereferences to a slice of [`Change`]s. Clones share the changes, so a clone takes O(1).
/// Serializes as a list.
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
// Most commits make one change: then the list and its change are one allocation.
#[derive(Clone, Default)]
pub struct Changes(Option<Arc<SmallVec<[Change; 1]>>>);

impl Changes {
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

    /// An empty list that takes one change without an allocation.
    #[doc(hidden)]
    pub fn with_room() -> Self {
        Self(Some(Arc::default()))
    }

    pub(crate) fn push(&mut self, change: Change) {
        let Some(changes) = &mut self.0 else {
            self.0 = Some(Arc::new(smallvec![change]));
            return;
        };
        let changes = Arc::make_mut(changes);
        if changes.len() == 1 && !changes.spilled() {
            changes.reserve(3);
        }
        changes.push(change);
    }

    /// The changes, if they are not shared.
    #[doc(hidden)]
    pub fn get_mut(&mut self) -> Option<&mut [Change]> {
        self.0.as_mut().and_then(Arc::get_mut).map(|it| &mut it[..])
    }

    /// Takes the changes from an index on.
    pub(crate) fn split_off(&mut self, at: usize) -> Vec<Change> {
        match &mut self.0 {
            Some(changes) => Arc::make_mut(changes).drain(at..).collect(),
            None => Vec::new(),
        }
    }
}

impl Deref for Changes {
    type Target = [Change];

    #[inline]
    fn deref(&self) -> &[Change] {
        match &self.0 {
            Some(changes) => changes,
            None => &[],
        }
    }
}

impl FromIterator<Change> for Changes {
    fn from_iter<I: IntoIterator<Item = Change>>(changes: I) -> Self {
        Self(Some(Arc::new(changes.into_iter().collect())))
    }
}

impl<'a> IntoIterator for &'a Changes {
    type Item = &'a Change;
    type IntoIter = std::slice::Iter<'a, Change>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl PartialEq for Changes {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Changes {}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl Serialize for Changes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (**self).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Changes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Vec::deserialize(deserializer)?.into_iter().collect())
    }
}
