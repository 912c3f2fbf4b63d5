//! Joining siblings that an edit made neighbours: `autoJoin` of prosemirror-commands.

use std::collections::{HashMap, HashSet};

use super::BlockEdits;
use crate::hashing::Secret;
use crate::schema::Schema;
use crate::{Change, EditError, Node, NodeId, View, cost, plan};

/// The nodes whose children changes have changed.
#[derive(Debug, Default)]
pub struct ChangedChildren {
    parents: Vec<NodeId>,
    /// For each second half of a split and each node that took in another, the node at whose end
    /// it ended before.
    ends: HashMap<NodeId, NodeId, Secret>,
}

/// Joins changed children that are neighbours of one of these types, and were no neighbours of that
/// type in `base`, the version before the changes. The first of them keeps its attributes. Siblings
/// that the schema does not allow to be joined stay as they are: those that differ in a required
/// attribute, and those whose content would be invalid.
///
/// # Errors
///
/// An error of an edit.
pub fn join_neighbours<E: BlockEdits>(
    on: &mut E,
    schema: Option<&Schema>,
    base: &impl View,
    changed: &ChangedChildren,
    kinds: &[impl AsRef<str>],
) -> Result<(), EditError> {
    on.spend_steps(&|_| kinds.len())?;
    let kinds: HashSet<&str, Secret> = kinds.iter().map(AsRef::as_ref).collect();
    let mut pairs = Vec::new();
    for parent in &changed.parents {
        pairs_in(on, schema, parent, &mut pairs, |left, right| {
            kinds.contains(right.kind()) && !changed.were_neighbours(base, left, right)
        })?;
    }
    // The first of a run takes in the others one by one, so that each child moves once.
    let mut last: Option<Joined> = None;
    // The parent whose children are no longer those of its pairs, as the schema sees them.
    let mut other_states = None;
    for mut pair in pairs {
        let joined = last.take_if(|last| last.right == pair.left);
        if let Some(joined) = &joined {
            pair.left = joined.left.clone();
        }
        // A join of their parents has moved siblings to another parent.
        let parent = on.node(&pair.left).and_then(Node::parent).cloned();
        let Some(parent) = parent else { continue };
        pair.may_go &= parent == pair.parent && other_states.as_ref() != Some(&parent);
        let state = joined.and_then(|joined| joined.state);
        let Some(state) = can_join(on, schema, &parent, &pair, state)? else {
            continue;
        };
        on.join(&pair.left, &pair.right)?;
        if !pair.may_go {
            other_states = Some(parent);
        }
        let Pair { left, right, .. } = pair;
        last = Some(Joined { left, right, state });
    }
    Ok(())
}

/// Joins a node with the sibling before it, if the schema allows it.
///
/// # Errors
///
/// An error of an edit.
pub(crate) fn join_with_previous<E: BlockEdits>(
    on: &mut E,
    schema: Option<&Schema>,
    id: &NodeId,
) -> Result<(), EditError> {
    let (before, parent) = (on.previous_sibling(id), on.parent(id));
    let (Some(before), Some(parent)) = (before, parent.cloned()) else {
        return Ok(());
    };
    let pair = Pair {
        parent,
        left: before.id().clone(),
        right: id.clone(),
        may_go: false,
    };
    match can_join(on, schema, &pair.parent, &pair, None)? {
        Some(_) => on.join(&pair.left, &pair.right),
        None => Ok(()),
    }
}

/// Siblings to be joined.
struct Pair {
    parent: NodeId,
    left: NodeId,
    right: NodeId,
    /// Whether the content of the parent is valid, and in the same states without the right one.
    may_go: bool,
}

/// Siblings that were joined.
struct Joined {
    left: NodeId,
    right: NodeId,
    /// The state of the schema after the content of both.
    state: Option<u32>,
}

/// Adds the pairs of neighbours of one type that are to be joined.
fn pairs_in<E: BlockEdits>(
    on: &E,
    schema: Option<&Schema>,
    parent: &NodeId,
    pairs: &mut Vec<Pair>,
    are_wanted: impl Fn(&Node, &Node) -> bool,
) -> Result<(), EditError> {
    let of = plan::find(on, parent)?.kind();
    let first = pairs.len();
    let mut state = schema.and_then(|schema| schema.first_state(of));
    let mut before: Option<&Node> = None;
    for node in on.children(parent) {
        on.spend_steps(&|_| cost::LOOKED_UP)?;
        let next = schema.zip(state);
        let next = next.and_then(|(schema, state)| schema.next_state(of, state, node.kind()));
        if let Some(before) = before.filter(|before| before.kind() == node.kind())
            && are_wanted(before, node)
        {
            pairs.push(Pair {
                parent: parent.clone(),
                left: before.id().clone(),
                right: node.id().clone(),
                may_go: next == state,
            });
        }
        (before, state) = (Some(node), next);
    }
    let mut end = schema.zip(state);
    if end
        .take_if(|(schema, state)| schema.may_end_in(of, *state))
        .is_none()
    {
        pairs[first..]
            .iter_mut()
            .for_each(|pair| pair.may_go = false);
    }
    Ok(())
}

impl ChangedChildren {
    /// The nodes that have other children, or children of another type, after changes.
    pub fn of(on: &impl View, changes: &[Change]) -> Self {
        let (mut parents, mut ends) = (Vec::new(), HashMap::default());
        for change in changes {
            match change {
                Change::InsertSubtree { at, .. } | Change::RemoveSubtree { at, .. } => {
                    parents.extend(at.iter().map(|at| at.parent.clone()));
                }
                Change::MoveNode { from, to, .. } => {
                    let both = from.iter().chain(to);
                    parents.extend(both.map(|at| at.parent.clone()));
                }
                Change::SplitNode {
                    id, right, place, ..
                } => {
                    parents.push(place.parent.clone());
                    let end = ends.get(id).unwrap_or(id).clone();
                    ends.insert(right.id.clone(), end);
                }
                Change::JoinNodes {
                    id, right, place, ..
                } => {
                    parents.extend([id.clone(), place.parent.clone()]);
                    let end = ends.get(&right.id).unwrap_or(&right.id).clone();
                    ends.insert(id.clone(), end);
                }
                Change::SetType { id, .. } => {
                    let parent = on.node(id).and_then(|node| node.parent().cloned());
                    parents.extend(parent);
                }
                _ => {}
            }
        }
        let mut seen = HashSet::<NodeId, Secret>::default();
        parents.retain(|parent| on.node(parent).is_some() && seen.insert(parent.clone()));
        Self { parents, ends }
    }

    /// Whether two siblings of one type were that before. What is behind the second half of a split
    /// was behind the node that was split, and what is behind a join was behind the second node.
    fn were_neighbours(&self, base: &impl View, left: &Node, right: &Node) -> bool {
        let id = self.ends.get(left.id()).unwrap_or(left.id());
        let is_same = |id| base.node(id).map(Node::kind) == Some(left.kind());
        let next = || base.next_sibling(id).map(Node::id) == Some(right.id());
        is_same(id) && is_same(right.id()) && next()
    }
}

/// Whether the schema allows two siblings of one type to be joined: the state after the content of
/// both, which is `None` without a schema. Needs not visit the content of the left one if its state
/// is known.
fn can_join<E: BlockEdits>(
    on: &E,
    schema: Option<&Schema>,
    parent: &NodeId,
    pair: &Pair,
    state: Option<u32>,
) -> Result<Option<Option<u32>>, EditError> {
    let Some(schema) = schema else {
        return Ok(Some(None));
    };
    let (one, other) = (plan::find(on, &pair.left)?, plan::find(on, &pair.right)?);
    let number = |node: &Node| schema.number_of(node.kind());
    let (Some(first), Some(second)) = (number(one), number(other)) else {
        return Ok(None);
    };
    if schema.is_empty_type(first)
        || !schema.are_one_kind((first, one.attributes()), (second, other.attributes()))
    {
        return Ok(None);
    }
    let state = match state {
        None => {
            let start = schema.first_state(one.kind());
            state_after(on, schema, one, start, on.children(&pair.left))?
        }
        known => known,
    };
    let state = state_after(on, schema, one, state, on.children(&pair.right))?;
    if !state.is_some_and(|state| schema.may_end_in(one.kind(), state)) {
        return Ok(None);
    }
    if !pair.may_go {
        let around = plan::find(on, parent)?;
        let rest = on
            .children(parent)
            .filter(|child| *child.id() != pair.right);
        let start = schema.first_state(around.kind());
        let end = state_after(on, schema, around, start, rest)?;
        if !end.is_some_and(|end| schema.may_end_in(around.kind(), end)) {
            return Ok(None);
        }
    }
    Ok(Some(state))
}

/// The state after children of a node; `None` if they are not valid there.
fn state_after<'a, E: BlockEdits>(
    on: &E,
    schema: &Schema,
    of: &Node,
    mut state: Option<u32>,
    children: impl Iterator<Item = &'a Node>,
) -> Result<Option<u32>, EditError> {
    for child in children {
        on.spend_steps(&|_| cost::LOOKED_UP)?;
        state = state.and_then(|state| schema.next_state(of.kind(), state, child.kind()));
    }
    Ok(state)
}
