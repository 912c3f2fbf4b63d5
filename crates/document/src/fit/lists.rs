//! Wraps blocks in lists, and splits, sinks and lifts list items. The functions of
//! prosemirror-schema-list define the results.

use std::collections::HashMap;
use std::rc::Rc;

use super::blocks::{FitKind, FitRange};
use super::node::{FitBody, FitNode, FitSlice};
use super::place::FitPlace;
use super::replace::FitGap;
use super::{Fit, Fitted};
use crate::NodeId;
use crate::schema::{StateId, Symbol};

impl Fit<'_> {
    /// Wraps the blocks around two positions in a list, each that can be in its own item.
    pub(super) fn wrap_in_list(
        self,
        root: &Rc<FitNode>,
        from: usize,
        to: usize,
        list: &FitKind,
        item: FitKind,
    ) -> Fitted {
        let (start, end) = (FitPlace::new(root, from)?, FitPlace::new(root, to)?);
        let mut range = self.block_range(&start, &end, |_| true)?;
        let mut outer = range.clone();
        let mut joins = false;
        // At the start of an item of a list.
        if let Some(above) = range.depth.checked_sub(1)
            && above > 0
            && range.start_index() == 0
            && self.are_compatible(range.from.node(above).kind, list.kind)
        {
            if range.from.index(above) == 0 {
                return None;
            }
            let insert = FitPlace::new(root, range.start() - 2)?;
            // Before it can be a node without content.
            if insert.depth() < range.depth {
                return None;
            }
            outer = FitRange {
                from: insert.clone(),
                to: insert,
                depth: range.depth,
            };
            if range.end_index() < range.parent().content().len() {
                range.to = FitPlace::new(root, range.to.end(range.depth))?;
            }
            joins = true;
        }
        let kinds = self.find_wrapping(&outer, list, Some(item), &range)?;
        let shift = if joins { 2 } else { 0 };
        let slice = FitSlice::new(self.wrappers(&kinds), 0, 0);
        let (start, end) = (range.start(), range.end());
        let gap = FitGap {
            from: start,
            to: end,
            insert: kinds.len(),
        };
        let mut tree = self.replace_around(root, start - shift, end, &slice, gap)?;
        let found = kinds.iter().rposition(|kind| kind.kind == list.kind)? + 1;
        let depth = kinds.len() - found;
        if depth > 0 {
            tree = self.separated(&tree, start + kinds.len() - shift, depth)?;
        }
        Some((tree, from + kinds.len() - shift))
    }

    /// Splits the new nodes around the blocks at a position, so many levels of them, before each
    /// block where both halves are valid.
    fn separated(self, root: &Rc<FitNode>, at: usize, depth: usize) -> Option<Rc<FitNode>> {
        let place = FitPlace::new(root, at)?;
        let base = place.depth().checked_sub(depth)?;
        let (list, inner, item) = (place.node(base), place.parent(), place.node(base + 1));
        let levels = base + 1..=place.depth();
        if levels
            .clone()
            .any(|level| self.is_isolating(place.node(level)))
        {
            return Some(root.clone());
        }
        let blocks = inner.content();
        let may_begin = self.valid_ends(inner.kind, blocks);
        let mut groups: Vec<Vec<Rc<FitNode>>> = vec![Vec::new()];
        let mut items = self.after(list.kind, self.start(list.kind), item)?;
        let mut state = self.start(inner.kind);
        for (block, may_begin) in blocks.iter().zip(may_begin) {
            let next = self.after(list.kind, items, item);
            let next = next.filter(|next| self.may_end(list.kind, *next));
            let is_whole = groups.last().is_some_and(|group| !group.is_empty());
            if let Some(next) = next
                && is_whole
                && may_begin
                && self.may_end(inner.kind, state)
            {
                (items, state) = (next, self.start(inner.kind));
                groups.push(Vec::new());
            }
            state = self.after(inner.kind, state, block)?;
            groups.last_mut()?.push(block.clone());
        }
        let items = groups.into_iter().map(|group| {
            let levels = levels.clone().rev();
            levels.fold(group, |content, level| {
                vec![place.node(level).with(content)]
            })
        });
        let list_of_all = list.with(items.flatten().collect());
        let (from, slice) = (place.before(base), FitSlice::new(vec![list_of_all], 0, 0));
        self.replace(root, from, from + list.size, &slice)
    }

    /// For each of some siblings whether it and those after it are valid content of a type.
    fn valid_ends(self, kind: Symbol, siblings: &[Rc<FitNode>]) -> Vec<bool> {
        // The states from one of them on are soon those from another one on.
        let mut known: HashMap<(usize, StateId), bool> = HashMap::new();
        let ends = (0..siblings.len()).map(|begin| {
            let (mut at, mut state) = (begin, Some(self.start(kind)));
            let mut passed = Vec::new();
            let is_valid = loop {
                let Some(here) = state else { break false };
                if let Some(known) = known.get(&(at, here)) {
                    break *known;
                }
                let Some(sibling) = siblings.get(at) else {
                    break self.may_end(kind, here);
                };
                passed.push((at, here));
                state = self.after(kind, here, sibling);
                at += 1;
            };
            known.extend(passed.into_iter().map(|passed| (passed, is_valid)));
            is_valid
        });
        ends.collect()
    }

    /// Splits the list item that has a range in one of its text blocks.
    pub(super) fn split_list_item(
        self,
        root: &Rc<FitNode>,
        from: usize,
        to: usize,
        item: Symbol,
    ) -> Fitted {
        let (start, end) = (FitPlace::new(root, from)?, FitPlace::new(root, to)?);
        let depth = start.depth();
        if depth < 2 || !start.is_in_same_parent(&end) || start.node(depth - 1).kind != item {
            return None;
        }
        let node = start.node(depth - 1);
        if start.parent().content_size() == 0
            && node.content().len() == start.index_after(depth - 1)
        {
            return self.split_outer_item(root, &start, item);
        }
        let at_end = end.at == start.end(depth);
        let next = match at_end {
            true => self.default_type(node.kind, self.start(node.kind)),
            false => None,
        };
        let tree = self.fitted(root, from, to, &FitSlice::default())?;
        let kinds: Vec<_> = match next {
            Some(next) => vec![None, Some(self.kind(next))],
            None => Vec::new(),
        };
        if !self.can_split(&tree, from, 2, &kinds) {
            return None;
        }
        Some((self.split(&tree, from, 2, &kinds)?, from + 4))
    }

    /// In an empty block at the end of an item of a nested list: begins an item of the outer list.
    fn split_outer_item(self, root: &Rc<FitNode>, start: &FitPlace, item: Symbol) -> Fitted {
        let depth = start.depth();
        let outer = depth.checked_sub(3)?;
        let list = start.node(depth - 2);
        if outer == 0
            || start.node(outer).kind != item
            || start.index(depth - 2) != list.content().len() - 1
        {
            return None;
        }
        let depth_before = match (start.index(depth - 1), start.index(depth - 2)) {
            (1.., _) => 1,
            (0, 1..) => 2,
            (0, 0) => 3,
        };
        let mut wrap = Vec::new();
        for level in (outer..=depth - depth_before).rev() {
            wrap = vec![start.node(level).with(wrap)];
        }
        let depth_after = if start.index_after(depth - 1) < list.content().len() {
            1
        } else if start.index_after(depth - 2) < start.node(outer).content().len() {
            2
        } else {
            3
        };
        wrap.push(self.filled(start.node(outer).kind)?);
        let from = start.before(depth - (depth_before - 1));
        let to = start.after(depth - depth_after);
        let slice = FitSlice::new(wrap, 4 - depth_before, 0);
        let tree = self.fitted(root, from, to, &slice)?;
        let caret = empty_block_after(self, tree.content(), 0, from)?;
        Some((tree, caret))
    }

    /// The items from the one around the first position up to the second, in their list.
    pub(super) fn item_range(
        self,
        root: &Rc<FitNode>,
        from: usize,
        to: usize,
        item: &NodeId,
    ) -> Option<FitRange> {
        let (start, end) = (FitPlace::new(root, from)?, FitPlace::new(root, to)?);
        let mut depths = 0..=start.depth();
        let depth = depths.find(|&depth| start.node(depth).id.as_ref() == Some(item))?;
        let kind = start.node(depth).kind;
        // It may begin with another list, which its first text is in.
        let start = FitPlace::new(root, start.start(depth))?;
        let range = self.block_range(&start, &end, |node| {
            let first = node.content().first();
            let first = first.map(|first| match &first.body {
                FitBody::Rest(rest) => rest.first,
                _ => first.kind,
            });
            first == Some(kind)
        })?;
        // A quote that begins with a quote is no item of itself.
        (range.depth < start.depth()).then_some(range)
    }

    /// Lifts the list items from one up to a position out of their list.
    pub(super) fn lift_list_item(
        self,
        root: &Rc<FitNode>,
        from: usize,
        to: usize,
        item: &NodeId,
    ) -> Fitted {
        let range = self.item_range(root, from, to, item)?;
        let above = range.depth.checked_sub(1)?;
        let item = range.from.node(range.depth + 1).kind;
        let tree = match range.from.node(above).kind == item {
            true => self.lift_to_outer_list(root, range),
            false => self.lift_out_of_list(root, &range),
        }?;
        Some((tree, from))
    }

    fn lift_to_outer_list(self, root: &Rc<FitNode>, range: FitRange) -> Option<Rc<FitNode>> {
        let mut tree = root.clone();
        let (end, depth) = (range.end(), range.depth);
        let end_of_list = range.to.end(depth);
        let list = range.parent().clone();
        let mut range = range;
        if end < end_of_list {
            let item = list.content().get(range.end_index() - 1)?;
            let nested = FitNode::block(
                item.kind,
                None,
                self.schema.new_attributes(item.kind),
                vec![list.with(Vec::new())],
            );
            let gap = FitGap {
                from: end,
                to: end_of_list,
                insert: 1,
            };
            let slice = FitSlice::new(vec![nested], 1, 0);
            tree = self.replace_around(&tree, end - 1, end_of_list, &slice, gap)?;
            range = FitRange {
                from: FitPlace::new(&tree, range.from.at)?,
                to: FitPlace::new(&tree, end_of_list)?,
                depth,
            };
        }
        let target = self.lift_target(&range)?;
        let step = self.lift_step(&range, target);
        let lifted = self.apply(&tree, &step)?;
        // Between what the last item had, and the siblings that it took along.
        let insert = step.gap.map_or(0, |gap| gap.insert);
        let at = (end + insert).checked_sub(range.start() - step.from + 1)?;
        self.joined_if_alike(lifted, at)
    }

    fn lift_out_of_list(self, root: &Rc<FitNode>, range: &FitRange) -> Option<Rc<FitNode>> {
        let list = range.parent();
        let items = list.content().get(range.start_index()..range.end_index())?;
        // The items become one.
        let item = items.first()?;
        let content = items.iter().flat_map(|item| item.content()).cloned();
        let content: Vec<_> = content.collect();
        if items.iter().any(|item| item.is_atom()) || !self.is_valid(item.kind, &content) {
            return None;
        }
        let one = FitSlice::new(vec![item.with(content)], 0, 0);
        let tree = self.replace(root, range.start(), range.end(), &one)?;
        let start = FitPlace::new(&tree, range.start())?;
        let item = start.node_after()?;
        let at_start = range.start_index() == 0;
        let at_end = range.end_index() == list.content().len();
        let above = start.depth().checked_sub(1)?;
        let (parent, index) = (start.node(above), start.index(above));
        let mut content = item.content().to_vec();
        if !at_end {
            content.push(list.clone());
        }
        if !self.can_replace(parent, index + usize::from(!at_start), index + 1, &content) {
            return None;
        }
        let (from, to) = (start.at, start.at + item.size);
        let mut sides = Vec::new();
        if !at_start {
            sides.push(list.with(Vec::new()));
        }
        if !at_end {
            sides.push(list.with(Vec::new()));
        }
        let slice = FitSlice::new(sides, usize::from(!at_start), usize::from(!at_end));
        let gap = FitGap {
            from: from + 1,
            to: to - 1,
            insert: usize::from(!at_start),
        };
        let (from, to) = (from - usize::from(at_start), to + usize::from(at_end));
        self.replace_around(&tree, from, to, &slice, gap)
    }

    /// Moves the list items from one up to a position into a list of the item before them.
    pub(super) fn sink_list_item(
        self,
        root: &Rc<FitNode>,
        from: usize,
        to: usize,
        item: &NodeId,
    ) -> Fitted {
        let range = self.item_range(root, from, to, item)?;
        let list = range.parent();
        let before = list.content().get(range.start_index().checked_sub(1)?)?;
        if before.kind != range.from.node(range.depth + 1).kind || before.is_rest() {
            return None;
        }
        let one = (list.kind, &list.attributes);
        let nested = before
            .content()
            .last()
            .filter(|last| self.schema.are_one_kind(one, (last.kind, &last.attributes)));
        let last_item = nested.and_then(|nested| nested.content().last());
        let inner = last_item.map(|last| {
            let attributes = self.schema.new_attributes(last.kind);
            FitNode::block(last.kind, None, attributes, Vec::new())
        });
        let open = if nested.is_some() { 3 } else { 1 };
        let attributes = self.schema.attributes_like(list.kind, &list.attributes);
        let list = FitNode::block(list.kind, None, attributes, inner.into_iter().collect());
        let item = self.schema.new_attributes(before.kind);
        let item = FitNode::block(before.kind, None, item, vec![list]);
        let (start, end) = (range.start(), range.end());
        let gap = FitGap {
            from: start,
            to: end,
            insert: 1,
        };
        let slice = FitSlice::new(vec![item], open, 0);
        let sunk = self.replace_around(root, start - open, end, &slice, gap)?;
        Some((sunk, from))
    }
}

/// The first empty text block at a position or after it.
fn empty_block_after(
    fit: Fit<'_>,
    content: &[Rc<FitNode>],
    start: usize,
    from: usize,
) -> Option<usize> {
    let mut at = start;
    for node in content {
        let end = at + node.size;
        if end > from {
            if fit.is_text_block(node) && node.content_size() == 0 {
                return Some(at + 1);
            }
            let found = empty_block_after(fit, node.content(), at + 1, from);
            if found.is_some() {
                return found;
            }
        }
        at = end;
    }
    None
}
