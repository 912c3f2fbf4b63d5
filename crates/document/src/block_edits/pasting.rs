//! Inserts a fragment between the halves of a text or of a block.

use super::{BlockEdits, all_children, are_alike, is_text_block, place_of, reselect};
use crate::{
    ChildPosition, EditError, Fragment, Mark, Node, NodeId, NodeSpec, Position, SplitPoint, Text,
    cost, plan,
};

/// Inserts a fragment without ids at a position.
pub fn paste<E: BlockEdits>(
    on: &mut E,
    at: &Position,
    fragment: Fragment,
) -> Result<(), EditError> {
    match fragment.text_like(plan::find(on, &at.node_id)?) {
        // Needs no halves, so it also works where the text node cannot be split.
        Some((text, marks)) => splice(on, at, text, marks),
        None => paste_nodes(on, at, fragment),
    }
}

/// Inserts text with its own marks, without the marks around it.
fn splice(
    on: &mut impl BlockEdits,
    at: &Position,
    text: &Text,
    marks: &[Mark],
) -> Result<(), EditError> {
    let Position {
        node_id: id,
        offset,
    } = at;
    on.spend_steps(&|on| {
        let around = on.node(id).map(|node| node.marks().iter());
        cost::marks(marks) + around.map_or(0, cost::marks)
    })?;
    let own = plan::marks_for(id, marks.to_vec(), text.len())?;
    let own = own.iter().filter_map(|mark| {
        let range = mark.range.as_ref()?;
        Some(Mark {
            range: Some(range.start + offset..range.end + offset),
            ..mark.clone()
        })
    });
    on.replace(id, *offset, *offset, text.to_string())?;
    let inserted = *offset..offset + text.len();
    let marks = plan::find(on, id)?.marks();
    let around = marks.change_within(&inserted, |_| None);
    on.set_all_marks(id, around.into_iter().chain(own).collect())
}

/// The nodes on both sides of a position. An empty half does not exist.
struct Halves {
    left: Option<NodeId>,
    right: Option<NodeId>,
    between: ChildPosition,
}

impl Halves {
    fn of(on: &mut impl BlockEdits, id: &NodeId, cut: SplitPoint) -> Result<Self, EditError> {
        let ChildPosition { parent, index } = place_of(on, id)?;
        let node = plan::find(on, id)?;
        let whole = SplitPoint {
            text: node.text().len(),
            children: node.children().len(),
        };
        let start = SplitPoint {
            text: 0,
            children: 0,
        };
        let left = (cut != start).then(|| id.clone());
        let right = match cut {
            _ if left.is_none() => Some(id.clone()),
            _ if cut == whole => None,
            _ => Some(on.split(id, cut)?),
        };
        let index = index + usize::from(left.is_some());
        Ok(Self {
            left,
            right,
            between: ChildPosition { parent, index },
        })
    }

    /// Inserts nodes between the halves. Returns the first and the last.
    fn insert(
        &self,
        on: &mut impl BlockEdits,
        nodes: Vec<NodeSpec>,
    ) -> Result<Option<(NodeId, NodeId)>, EditError> {
        let ChildPosition { parent, index } = &self.between;
        let mut ends = None;
        for (nth, node) in nodes.into_iter().enumerate() {
            let id = on.insert_node(node, parent, index + nth)?;
            let first = ends.map_or_else(|| id.clone(), |(first, _)| first);
            ends = Some((first, id));
        }
        Ok(ends)
    }
}

/// The block that contains a text node: it is split when blocks are pasted.
fn block_of(on: &impl BlockEdits, id: &NodeId) -> Result<Option<NodeId>, EditError> {
    let Some(block) = on.parent(id).and_then(|parent| on.node(parent)) else {
        return Ok(None);
    };
    let divisible = block.parent().is_some() && is_text_block(on, block)?;
    Ok(divisible.then(|| block.id().clone()))
}

fn paste_nodes(
    on: &mut impl BlockEdits,
    at: &Position,
    fragment: Fragment,
) -> Result<(), EditError> {
    let seams = Seams::of(&fragment);
    let texts_in = fragment.kinds_with_text();
    // A node without text may be an image.
    let is_blank = |node: &Node| {
        node.text().is_empty() && node.children().is_empty() && texts_in.contains(node.kind())
    };
    let into_blank = is_blank(plan::find(on, &at.node_id)?);
    let block = match seams.flat {
        true => None,
        false => block_of(on, &at.node_id)?,
    };
    let cut = SplitPoint {
        text: at.offset,
        children: 0,
    };
    let texts = Halves::of(on, &at.node_id, cut)?;
    let at_end = texts.right.is_none() || into_blank;
    let halves = match &block {
        Some(block) => {
            let cut = SplitPoint {
                text: 0,
                children: texts.between.index,
            };
            Halves::of(on, block, cut)?
        }
        None => texts,
    };

    let Some((first, mut last)) = halves.insert(on, fragment.nodes)? else {
        return Ok(());
    };
    if at_end {
        // The split did not move a caret there.
        let behind = end_of(on, &last)?;
        reselect(on, |_, caret| (caret == at).then(|| behind.clone()))?;
    }
    if let Some(left) = &halves.left
        && seams.go_on(on, seams.open_start, left, &first)?
    {
        join_to(on, left, &first)?;
        if last == first {
            last.clone_from(left);
        }
    }
    let mut goes_on = false;
    if let Some(right) = &halves.right
        && seams.go_on(on, seams.open_end, &last, right)?
    {
        goes_on = true;
        match halves.left {
            Some(left) if left == last => join_to(on, &left, right)?,
            _ => put_before(on, &last, right)?,
        }
    }
    // The pasted node may have been joined with it.
    let Some(blank) = on
        .node(&at.node_id)
        .filter(|node| into_blank && is_blank(node))
    else {
        return Ok(());
    };
    let parent = blank.parent().and_then(|parent| on.node(parent));
    let all_blank = match parent {
        Some(parent) if block.is_some() && !goes_on => all_children(on, parent.id(), is_blank)?,
        _ => true,
    };
    let alone = parent.is_some_and(|parent| parent.children().len() == 1);
    let gone = match (&block, goes_on) {
        (Some(_), false) if all_blank => blank.parent(),
        (_, true) if alone => None,
        _ => Some(blank.id()),
    };
    match gone.cloned() {
        Some(gone) => on.delete_node(&gone),
        None => Ok(()),
    }
}

/// Decides whether the first and the last node are joined with the halves next to them.
struct Seams {
    flat: bool,
    open_start: bool,
    open_end: bool,
}

impl Seams {
    fn of(fragment: &Fragment) -> Self {
        Self {
            flat: fragment.is_flat(),
            open_start: fragment.open_start,
            open_end: fragment.open_end,
        }
    }

    /// Whether two neighbours are joined: alike text, or blocks at an open end, of one type or both
    /// for text.
    fn go_on(
        &self,
        on: &impl BlockEdits,
        open: bool,
        left: &NodeId,
        right: &NodeId,
    ) -> Result<bool, EditError> {
        let (left, right) = (plan::find(on, left)?, plan::find(on, right)?);
        // A node's text comes before its children.
        let in_order = left.children().is_empty() || right.text().is_empty();
        let fitting = match self.flat {
            true => are_alike(on, left, right)?,
            false => {
                let are_text = left.children().is_empty() && right.children().is_empty();
                open && (left.kind() == right.kind()
                    || are_text
                    || is_text_block(on, left)? && is_text_block(on, right)?)
            }
        };
        Ok(in_order && fitting)
    }
}

/// Joins the pasted node to the half before it, and then the two nodes that meet at the seam.
fn join_to(on: &mut impl BlockEdits, left: &NodeId, pasted: &NodeId) -> Result<(), EditError> {
    let seam = plan::find(on, left)?.children().len();
    on.join(left, pasted)?;
    if let Some((one, other)) = alike_at(on, left, seam)? {
        on.join(&one, &other)?;
    }
    Ok(())
}

/// Like [`join_to`], for the half after the pasted nodes; that half stays.
fn put_before(on: &mut impl BlockEdits, pasted: &NodeId, right: &NodeId) -> Result<(), EditError> {
    let seam = plan::find(on, pasted)?.children().len();
    move_into(on, pasted, right)?;
    if let Some((one, other)) = alike_at(on, right, seam)? {
        move_into(on, &one, &other)?;
    }
    Ok(())
}

/// The children on both sides of an index, if they are text that can be joined.
fn alike_at(
    on: &impl BlockEdits,
    parent: &NodeId,
    seam: usize,
) -> Result<Option<(NodeId, NodeId)>, EditError> {
    let children = plan::find(on, parent)?.children();
    let before = seam.checked_sub(1).and_then(|at| children.get(at));
    let Some((one, other)) = before.zip(children.get(seam)) else {
        return Ok(None);
    };
    let (left, right) = (plan::find(on, one)?, plan::find(on, other)?);
    let is_text = !left.text().is_empty() || !right.text().is_empty();
    let becomes_one = is_text && left.children().is_empty() && are_alike(on, left, right)?;
    Ok(becomes_one.then(|| (one.clone(), other.clone())))
}

/// Puts the contents of a node before those of another, and deletes the node.
fn move_into(on: &mut impl BlockEdits, from: &NodeId, into: &NodeId) -> Result<(), EditError> {
    let node = plan::find(on, from)?.clone();
    let marks: Vec<Mark> = node.marks().iter().cloned().collect();
    splice(on, &Position::new(into.clone(), 0), node.text(), &marks)?;
    for (nth, child) in node.children().iter().enumerate() {
        on.move_to(child, into, nth)?;
    }
    reselect(on, |_, place| {
        (place.node_id == *from).then(|| Position::new(into.clone(), place.offset))
    })?;
    on.delete_node(from)
}

/// The last position in a subtree.
fn end_of(on: &impl BlockEdits, id: &NodeId) -> Result<Position, EditError> {
    let mut last = plan::find(on, id)?;
    while let Some(child) = last.children().iter().next_back() {
        on.spend_steps(&|_| cost::LOOKED_UP)?;
        last = plan::find(on, child)?;
    }
    Ok(Position::new(last.id().clone(), last.text().len()))
}
