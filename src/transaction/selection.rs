//! What an editor has selected.

use serde::{Deserialize, Serialize};

use crate::document::Change;
use crate::id::NodeId;

/// A place in the text of a node: before the character at `offset`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Position {
    /// The node.
    pub node_id: NodeId,
    /// How many characters lie before it.
    pub offset: usize,
}

/// What is selected, from where the selection began to where it was drawn; a caret where both are the same.
///
/// In JSON: `{"anchor": {"nodeId": "1:4", "offset": 0}, "focus": {"nodeId": "1:4", "offset": 5}}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Selection {
    /// Where it began.
    pub anchor: Position,
    /// Where it was drawn to; it may lie before the anchor.
    pub focus: Position,
}

impl Position {
    /// A place in the text of a node.
    pub fn new(node_id: impl Into<NodeId>, offset: usize) -> Self {
        Self {
            node_id: node_id.into(),
            offset,
        }
    }

    /// Where the place is after a change; `None` where its node is gone. A place in the midst of replaced
    /// characters, or right where some are inserted, comes to lie behind the new ones.
    fn after(mut self, change: &Change) -> Option<Self> {
        match change {
            Change::SpliceText {
                id,
                at,
                removed,
                inserted,
                ..
            } if *id == self.node_id && *at <= self.offset => {
                let removed = removed.chars().count();
                let behind = self.offset.saturating_sub(at + removed);
                self.offset = at + inserted.chars().count() + behind;
            }
            Change::RemoveSubtree { nodes, .. }
                if nodes.iter().any(|node| *node.id() == self.node_id) =>
            {
                return None;
            }
            _ => {}
        }
        Some(self)
    }
}

impl Selection {
    /// A selection from one place to another.
    pub fn new(anchor: Position, focus: Position) -> Self {
        Self { anchor, focus }
    }

    /// Nothing but a place to type at.
    pub fn caret(node_id: impl Into<NodeId>, offset: usize) -> Self {
        let at = Position::new(node_id, offset);
        Self::new(at.clone(), at)
    }

    /// What is selected after these changes; `None` where a node that it depends on is gone.
    pub(super) fn after(self, changes: &[Change]) -> Option<Self> {
        let follow = |position: Position| {
            changes
                .iter()
                .try_fold(position, |position, change| position.after(change))
        };
        Some(Self {
            anchor: follow(self.anchor)?,
            focus: follow(self.focus)?,
        })
    }
}
