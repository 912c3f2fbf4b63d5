//! Joins blocks as Backspace and Delete do at their ends. The functions `joinBackward` and
//! `joinForward` of prosemirror-commands define the results.

use std::rc::Rc;

use super::blocks::FitKind;
use super::node::{FitBody, FitNode, FitSlice};
use super::place::FitPlace;
use super::replace::FitGap;
use super::{Fit, Fitted};

impl Fit<'_> {
    // --- Joining siblings ---

    fn are_joinable(self, left: &FitNode, right: &FitNode) -> bool {
        if left.is_atom() || right.is_rest() {
            return false;
        }
        let mut state = self.state_at(left, left.content().len());
        for child in right.content() {
            state = state.and_then(|state| match &child.body {
                // A break becomes a character of code.
                FitBody::Text(text) if text.special && text.text.iter().all(|it| *it == '\n') => {
                    self.after_kind(left.kind, state, child.kind)
                }
                _ => self.after(left.kind, state, child),
            });
            if !self.allows_marks(left.kind, child) {
                return false;
            }
        }
        state.is_some_and(|state| self.may_end(left.kind, state))
    }

    pub(super) fn can_join(self, root: &Rc<FitNode>, at: usize) -> bool {
        let Some(place) = FitPlace::new(root, at) else {
            return false;
        };
        let (Some(left), Some(right)) = (place.node_before(), place.node_after()) else {
            return false;
        };
        let index = place.index(place.depth());
        self.are_joinable(&left, &right) && self.can_replace(place.parent(), index, index + 1, &[])
    }

    /// Joins the nodes on both sides of a position. The first keeps its type.
    pub(super) fn join(self, root: &Rc<FitNode>, at: usize) -> Option<Rc<FitNode>> {
        let place = FitPlace::new(root, at)?;
        let (left, right) = (place.node_before()?, place.node_after()?);
        let mut content = left.content().to_vec();
        match self.is_text_block(&left) {
            true => content.extend(self.fitting_content(left.kind, right.content())),
            false => content.extend(right.content().iter().cloned()),
        }
        if !self.is_valid(left.kind, &content) {
            return None;
        }
        let slice = FitSlice::new(vec![left.with(content)], 0, 0);
        self.replace(root, at - left.size, at + right.size, &slice)
    }

    /// The position at which a node around a position can be joined with its sibling.
    pub(super) fn join_point(self, root: &Rc<FitNode>, at: usize, forward: bool) -> Option<usize> {
        let place = FitPlace::new(root, at)?;
        let mut at = at;
        for depth in (0..=place.depth()).rev() {
            let mut index = place.index(depth);
            let content = place.node(depth).content();
            let (before, after) = match (depth == place.depth(), forward) {
                (true, _) => (place.node_before(), place.node_after()),
                (false, true) => {
                    index += 1;
                    (
                        Some(place.node(depth + 1).clone()),
                        content.get(index).cloned(),
                    )
                }
                (false, false) => {
                    let before = index.checked_sub(1).and_then(|index| content.get(index));
                    (before.cloned(), Some(place.node(depth + 1).clone()))
                }
            };
            if let Some((before, after)) = before.zip(after)
                && !before.is_text()
                && !self.is_text_block(&before)
                && self.are_joinable(&before, &after)
                && self.can_replace(place.node(depth), index, index + 1, &[])
            {
                return Some(at);
            }
            if depth == 0 {
                break;
            }
            at = match forward {
                true => place.after(depth),
                false => place.before(depth),
            };
        }
        None
    }

    // --- Backspace and Delete ---

    fn cut_before(self, place: &FitPlace) -> Option<usize> {
        if self.is_isolating(place.parent()) {
            return None;
        }
        for depth in (0..place.depth()).rev() {
            if place.index(depth) > 0 {
                return Some(place.before(depth + 1));
            }
            if self.is_isolating(place.node(depth)) {
                break;
            }
        }
        None
    }

    fn cut_after(self, place: &FitPlace) -> Option<usize> {
        if self.is_isolating(place.parent()) {
            return None;
        }
        for depth in (0..place.depth()).rev() {
            if place.index(depth) + 1 < place.node(depth).content().len() {
                return Some(place.after(depth + 1));
            }
            if self.is_isolating(place.node(depth)) {
                break;
            }
        }
        None
    }

    /// Joins the text block that a position is in with what is before it, or lifts it.
    pub(super) fn join_backward(self, root: &Rc<FitNode>, at: usize) -> Fitted {
        let place = FitPlace::new(root, at)?;
        let Some(cut) = self.cut_before(&place) else {
            return self.lift_blocks(root, at, at);
        };
        let cut = FitPlace::new(root, cut)?;
        let before = cut.node_before()?;
        if let Some(joined) = self.delete_barrier(root, &cut, false) {
            return Some((joined, at));
        }
        if place.parent().content_size() == 0 {
            for depth in (1..=place.depth()).rev() {
                let (from, to) = (place.before(depth), place.after(depth));
                let step = self.fit(root, from, to, &FitSlice::default());
                if let Some(step) = step.filter(|it| it.slice.size() < it.to - it.from) {
                    let caret = cut.at.saturating_sub(1);
                    return Some((self.apply(root, &step)?, caret));
                }
                if depth == 1 || place.node(depth - 1).content().len() > 1 {
                    break;
                }
            }
        }
        if before.is_atom() && !before.is_rest() && cut.depth() + 1 == place.depth() {
            let from = cut.at - before.size;
            let deleted = self.fitted(root, from, cut.at, &FitSlice::default())?;
            return Some((deleted, at - before.size));
        }
        None
    }

    /// Joins the text block that a position is in with what is after it.
    pub(super) fn join_forward(self, root: &Rc<FitNode>, at: usize) -> Fitted {
        let place = FitPlace::new(root, at)?;
        let cut = FitPlace::new(root, self.cut_after(&place)?)?;
        let after = cut.node_after()?;
        if let Some(joined) = self.delete_barrier(root, &cut, true) {
            return Some((joined, at));
        }
        let depth = place.depth();
        if place.parent().content_size() == 0 {
            let (from, to) = (place.before(depth), place.after(depth));
            let step = self.fit(root, from, to, &FitSlice::default());
            if let Some(step) = step.filter(|it| it.slice.size() < it.to - it.from) {
                return Some((self.apply(root, &step)?, at));
            }
        }
        if after.is_atom() && !after.is_rest() && cut.depth() + 1 == depth {
            let to = cut.at + after.size;
            let deleted = self.fitted(root, cut.at, to, &FitSlice::default())?;
            return Some((deleted, at));
        }
        None
    }

    /// Joins the text block that a position is in with the text block before or after it.
    pub(super) fn join_text_blocks(self, root: &Rc<FitNode>, at: usize, forward: bool) -> Fitted {
        let place = FitPlace::new(root, at)?;
        let cut = match forward {
            true => self.cut_after(&place)?,
            false => self.cut_before(&place)?,
        };
        let cut = FitPlace::new(root, cut)?;
        let (mut before, mut from) = (cut.node_before()?, cut.at - 1);
        while !self.is_text_block(&before) {
            if self.is_isolating(&before) {
                return None;
            }
            before = before.content().last()?.clone();
            from -= 1;
        }
        let (mut after, mut to) = (cut.node_after()?, cut.at + 1);
        while !self.is_text_block(&after) {
            if self.is_isolating(&after) {
                return None;
            }
            after = after.content().first()?.clone();
            to += 1;
        }
        let step = self.fit(root, from, to, &FitSlice::default())?;
        let shrinks = step.gap.is_some() || step.slice.size() < to - from;
        match step.from == from && shrinks {
            true => Some((self.apply(root, &step)?, from)),
            false => None,
        }
    }

    /// Whether the last descendant of a node is a text block.
    fn ends_in_text(self, node: &Rc<FitNode>) -> bool {
        let mut node = Some(node);
        while let Some(here) = node {
            if self.is_text_block(here) {
                return true;
            }
            node = here.content().last();
        }
        false
    }

    /// Whether a node is a text block, or has nothing but one descendant that begins with one.
    fn has_only_text(self, node: &Rc<FitNode>) -> bool {
        let mut node = Some(node);
        while let Some(here) = node {
            if self.is_text_block(here) {
                return true;
            }
            if here.content().len() != 1 {
                return false;
            }
            node = here.content().first();
        }
        false
    }

    fn join_or_clear(self, root: &Rc<FitNode>, cut: &FitPlace) -> Option<Rc<FitNode>> {
        let (before, after) = (cut.node_before()?, cut.node_after()?);
        let index = cut.index(cut.depth());
        if before.is_rest() || after.is_rest() || !self.are_compatible(before.kind, after.kind) {
            return None;
        }
        if before.content_size() == 0 && self.can_replace(cut.parent(), index - 1, index, &[]) {
            return self.fitted(root, cut.at - before.size, cut.at, &FitSlice::default());
        }
        let joins = self.can_replace(cut.parent(), index, index + 1, &[])
            && (self.is_text_block(&after) || self.can_join(root, cut.at));
        match joins {
            true => self.join(root, cut.at),
            false => None,
        }
    }

    /// Brings the nodes on both sides of a position together.
    fn delete_barrier(
        self,
        root: &Rc<FitNode>,
        cut: &FitPlace,
        forward: bool,
    ) -> Option<Rc<FitNode>> {
        let (before, after) = (cut.node_before()?, cut.node_after()?);
        let isolated = self.is_isolating(&before) || self.is_isolating(&after);
        if !isolated && let Some(joined) = self.join_or_clear(root, cut) {
            return Some(joined);
        }
        let index = cut.index(cut.depth());
        let may_go = !isolated && self.can_replace(cut.parent(), index, index + 1, &[]);
        if may_go && let Some(moved) = self.move_into(root, cut, &before, &after) {
            return Some(moved);
        }
        let may_lift = !(self.is_isolating(&after) || forward && isolated);
        if may_lift
            && let Some((from, to)) = self.first_selection(&after, cut.at)
            && let Some((from, to)) = FitPlace::new(root, from).zip(FitPlace::new(root, to))
            && let Some(range) = self.block_range(&from, &to, |_| true)
            && let Some(target) = self.lift_target(&range)
            && target >= cut.depth()
        {
            return self.lift(root, &range, target);
        }
        match may_go && self.has_only_text(&after) && self.ends_in_text(&before) {
            true => self.unwrap_into(root, cut, &before, &after),
            false => None,
        }
    }

    /// What is selected first in a node that begins at a position: the start of a text, or a node
    /// without content.
    fn first_selection(self, node: &Rc<FitNode>, at: usize) -> Option<(usize, usize)> {
        if self.is_text_block(node) {
            return Some((at + 1, at + 1));
        }
        if node.is_atom() {
            return Some((at, at + node.size));
        }
        let mut at = at + 1;
        for child in node.content() {
            let found = self.first_selection(child, at);
            if found.is_some() {
                return found;
            }
            at += child.size;
        }
        None
    }

    /// Moves the node after a position to the end of the one before it, wrapped if necessary.
    fn move_into(
        self,
        root: &Rc<FitNode>,
        cut: &FitPlace,
        before: &Rc<FitNode>,
        after: &Rc<FitNode>,
    ) -> Option<Rc<FitNode>> {
        if before.is_atom() {
            return None;
        }
        let state = self.state_at(before, before.content().len())?;
        let around = self.wrapping(before.kind, state, after)?;
        let outermost = around.first().copied().unwrap_or(after.kind);
        let state = self.after_kind(before.kind, state, outermost)?;
        if !self.may_end(before.kind, state) {
            return None;
        }
        let kinds: Vec<FitKind> = around.iter().map(|&kind| self.kind(kind)).collect();
        let end = cut.at + after.size;
        let slice = FitSlice::new(vec![before.with(self.wrappers(&kinds))], 1, 0);
        let gap = FitGap {
            from: cut.at,
            to: end,
            insert: kinds.len(),
        };
        let moved = self.replace_around(root, cut.at - 1, end, &slice, gap)?;
        self.joined_if_alike(moved, end + 2 * kinds.len())
    }

    /// Joins the nodes on both sides of a position if they are of one kind.
    pub(super) fn joined_if_alike(self, tree: Rc<FitNode>, at: usize) -> Option<Rc<FitNode>> {
        let place = FitPlace::new(&tree, at)?;
        let sides = place.node_before().zip(place.node_after());
        let are_alike = sides.is_some_and(|(one, other)| {
            let are_shown = !one.is_rest() && !other.is_rest();
            let (one, other) = ((one.kind, &one.attributes), (other.kind, &other.attributes));
            are_shown && self.schema.are_one_kind(one, other)
        });
        match are_alike && self.can_join(&tree, at) {
            true => self.join(&tree, at),
            false => Some(tree),
        }
    }

    /// Moves the text of the node after a position to the end of the text before it.
    fn unwrap_into(
        self,
        root: &Rc<FitNode>,
        cut: &FitPlace,
        before: &Rc<FitNode>,
        after: &Rc<FitNode>,
    ) -> Option<Rc<FitNode>> {
        let mut around = vec![before.clone()];
        while !self.is_text_block(around.last()?) {
            let inner = around.last()?.content().last()?.clone();
            around.push(inner);
        }
        let (mut text, mut depth) = (after.clone(), 1);
        while !self.is_text_block(&text) {
            text = text.content().first()?.clone();
            depth += 1;
        }
        let into = around.last()?;
        let len = into.content().len();
        if !self.can_replace(into, len, len, text.content()) {
            return None;
        }
        let end = around.iter().rev();
        let end = end.fold(Vec::new(), |content, node| vec![node.with(content)]);
        let slice = FitSlice::new(end, around.len(), 0);
        let gap = FitGap {
            from: cut.at + depth,
            to: cut.at + after.size - depth,
            insert: 0,
        };
        let (from, to) = (cut.at - around.len(), cut.at + after.size);
        self.replace_around(root, from, to, &slice, gap)
    }
}
