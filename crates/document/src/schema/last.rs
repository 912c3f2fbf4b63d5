//! Checks what the last of several changes have made.

use std::cell::Cell;

use super::Schema;
use super::touched::TouchedNodes;
use crate::id::{AsNodeId, NodeId};
use crate::{Change, EditError, Node, View, cost};

impl Schema {
    /// Checks what the changes from `first` on have edited. Attributes, marks and lists of children
    /// that only earlier changes have touched may still be invalid. The other arguments are those
    /// of [`check`](Self::check).
    ///
    /// # Errors
    ///
    /// [`EditError::Schema`], or an error of `spend`, which gets the steps that the check takes.
    #[doc(hidden)]
    pub fn check_last(
        &self,
        (base, after): (&impl View, &impl View),
        (changes, first): (&[Change], usize),
        spend: impl Fn(usize) -> Result<(), EditError>,
    ) -> Result<(), EditError> {
        let steps = |change: &Change| match change {
            Change::InsertSubtree { nodes, .. } => cost::LOOKED_UP * nodes.len(),
            _ => cost::CHANGE,
        };
        spend(changes.iter().map(steps).sum())?;
        let looked_at = Cell::new(0);
        let (base, after) = (Counted(base, &looked_at), Counted(after, &looked_at));
        let all = TouchedNodes::by(changes, &base, &after);
        let last = TouchedNodes::by(&changes[first..], &base, &after);
        // A list as it was before the last changes is gone: it is compared with that of `base`.
        let mut lists = all.lists(&base, &after, |id| last.has_list(id));
        let checked = self.check_touched(&last, &after).and_then(|()| {
            lists.try_for_each(|(node, list)| self.check_list(node, list, &base, &after))?;
            match after.root().is_some_and(|root| last.has_list(root)) {
                true => self.check_root(&after),
                false => Ok(()),
            }
        });
        spend(looked_at.get())?;
        Ok(checked?)
    }
}

/// A view that counts the steps of the nodes that are looked up in it.
struct Counted<'a, V>(&'a V, &'a Cell<usize>);

impl<V: View> View for Counted<'_, V> {
    fn node(&self, id: impl AsNodeId) -> Option<&Node> {
        let node = self.0.node(id);
        let marks = node.map_or(0, |node| node.marks.len());
        self.1
            .update(|steps| steps + cost::LOOKED_UP + marks / cost::SIBLINGS);
        node
    }

    fn root(&self) -> Option<&NodeId> {
        self.0.root()
    }

    fn nodes(&self) -> Box<dyn Iterator<Item = &Node> + '_> {
        self.0.nodes()
    }
}
