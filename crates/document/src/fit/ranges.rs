//! Replaces and deletes ranges as a user expects it, with the nodes that they cover. The functions
//! `replaceRange`, `deleteRange` and `coveredDepths` of prosemirror-transform (src/replace.ts)
//! define the results.

use std::rc::Rc;

use super::node::{FitNode, FitSlice};
use super::place::FitPlace;
use super::{Fit, Fitted};
use crate::schema::Symbol;

impl Fit<'_> {
    /// Deletes a range as Backspace does with a selection. Returns the position of its start, too.
    pub(super) fn delete_range(self, root: &Rc<FitNode>, from: usize, to: usize) -> Fitted {
        let (start, end) = self.deleted(root, from, to)?;
        self.delete_exactly(root, start, end, from)
    }

    /// Deletes what is between two positions, and no node around it. Returns where a caret is then,
    /// too.
    pub(super) fn delete_exactly(
        self,
        root: &Rc<FitNode>,
        from: usize,
        to: usize,
        caret: usize,
    ) -> Fitted {
        if from == to {
            return Some((root.clone(), caret));
        }
        let step = self.fit(root, from, to, &FitSlice::default())?;
        Some((self.apply(root, &step)?, step.map(caret)))
    }

    /// The range that is deleted for another: with the nodes that it covers.
    fn deleted(self, root: &Rc<FitNode>, from: usize, to: usize) -> Option<(usize, usize)> {
        let (mut start, mut end) = (FitPlace::new(root, from)?, FitPlace::new(root, to)?);
        if let Some((from, to)) = self.out_of_starts(&start, &end) {
            (start, end) = (FitPlace::new(root, from)?, FitPlace::new(root, to)?);
        }
        let (from, to) = (start.at, end.at);
        let covered = self.covered_depths(&start, &end);
        for (nth, &depth) in covered.iter().enumerate() {
            let last = nth + 1 == covered.len();
            let node = start.node(depth);
            if last && depth == 0 || self.may_end(node.kind, self.start(node.kind)) {
                return Some((start.start(depth), end.end(depth)));
            }
            let goes = || {
                let above = start.node(depth - 1);
                let (from, to) = (start.index(depth - 1), end.index_after(depth - 1));
                self.can_replace(above, from, to, &[])
            };
            if depth > 0 && (last || goes()) {
                return Some((start.before(depth), end.after(depth)));
            }
        }
        for depth in 1..=start.depth().min(end.depth()) {
            let at_start = from - start.start(depth) == start.depth() - depth;
            let above = depth - 1;
            if at_start
                && to > start.end(depth)
                && end.end(depth) - to != end.depth() - depth
                && start.start(above) == end.start(above)
                && self.can_replace(start.node(above), start.index(above), end.index(above), &[])
            {
                return Some((start.before(depth), to));
            }
        }
        Some((from, to))
    }

    /// From the start of a text block to that of another, the range before both blocks.
    fn out_of_starts(self, start: &FitPlace, end: &FitPlace) -> Option<(usize, usize)> {
        let both_blocks = self.is_text_block(start.parent()) && self.is_text_block(end.parent());
        let (start_depth, end_depth) = (start.depth(), end.depth());
        if !both_blocks
            || start.start(start_depth) == end.start(end_depth)
            || start.parent_offset() > 0
            || end.parent_offset() > 0
        {
            return None;
        }
        let shared = start.shared_depth(end.at);
        let isolated = |place: &FitPlace| {
            let mut depths = shared + 1..=place.depth();
            depths.any(|depth| self.is_isolating(place.node(depth)))
        };
        if isolated(start) || isolated(end) {
            return None;
        }
        let before = |place: &FitPlace| {
            let mut at = place.at;
            for depth in (1..=place.depth()).rev() {
                if at != place.start(depth) {
                    break;
                }
                at = place.before(depth);
            }
            at
        };
        Some((before(start), before(end)))
    }

    /// The depths at which two positions span the whole content of a node.
    fn covered_depths(self, from: &FitPlace, to: &FitPlace) -> Vec<usize> {
        let mut covered = Vec::new();
        for depth in (0..=from.depth().min(to.depth())).rev() {
            let start = from.start(depth);
            if start + (from.depth() - depth) < from.at
                || to.end(depth) > to.at + (to.depth() - depth)
                || self.is_isolating(from.node(depth))
                || self.is_isolating(to.node(depth))
            {
                break;
            }
            let neighbours = depth == from.depth()
                && depth == to.depth()
                && depth > 0
                && self.is_text_block(from.parent())
                && self.is_text_block(to.parent())
                && to.start(depth - 1) == start - 1;
            if start == to.start(depth) || neighbours {
                covered.push(depth);
            }
        }
        covered
    }

    /// Replaces a range by a slice, with the nodes around both as far as they belong to it. Returns
    /// the position of the end of the new content, too.
    pub(super) fn replace_range(
        self,
        root: &Rc<FitNode>,
        from: usize,
        to: usize,
        slice: &FitSlice,
    ) -> Fitted {
        if slice.size() == 0 {
            return self.delete_range(root, from, to);
        }
        let (start, end) = (FitPlace::new(root, from)?, FitPlace::new(root, to)?);
        if self.fits_trivially(&start, &end, slice) {
            let replaced = self.replace(root, from, to, slice)?;
            return Some((replaced, from + slice.size()));
        }
        let (targets, preferred) = self.targets(&start, &end);
        if let Some((from, to, slice)) =
            self.defining_place(&start, &end, slice, &targets, preferred)
        {
            let step = self.fit(root, from, to, &slice)?;
            return Some((self.apply(root, &step)?, step.map(end.at)));
        }
        let (mut from, mut to) = (from, to);
        for target in targets.iter().rev() {
            if let Some(step) = self.fit(root, from, to, slice) {
                return Some((self.apply(root, &step)?, step.map(end.at)));
            }
            if let Target::Whole(depth) = *target {
                (from, to) = (start.before(depth), end.after(depth));
            }
        }
        None
    }

    /// Where a block is inserted for a caret: before the blocks that begin there, or after those
    /// that end there. `None` if that is in the text. It is `insertPoint` of ProseMirror.
    pub(super) fn insert_point(self, root: &Rc<FitNode>, at: usize, kind: Symbol) -> Option<usize> {
        let place = FitPlace::new(root, at)?;
        let (offset, size) = (place.parent_offset(), place.parent().content_size());
        let fits = |depth: usize, index| {
            let around = place.node(depth);
            self.can_replace_with(around, index, index, kind)
        };
        let mut depths = (0..place.depth()).rev();
        if size == 0 || offset > 0 && offset < size {
            return None;
        }
        if offset == 0 {
            let begins = |depth: &usize| place.index(*depth) == 0;
            let at = depths.find(|depth| fits(*depth, place.index(*depth)) || !begins(depth))?;
            return fits(at, place.index(at)).then(|| place.before(at + 1));
        }
        let ends = |depth: &usize| place.index_after(*depth) == place.node(*depth).content().len();
        let at = depths.find(|depth| fits(*depth, place.index_after(*depth)) || !ends(depth))?;
        fits(at, place.index_after(at)).then(|| place.after(at + 1))
    }

    /// The nodes that a replacement may replace, and which of them it prefers.
    fn targets(self, from: &FitPlace, to: &FitPlace) -> (Vec<Target>, usize) {
        let covered = self.covered_depths(from, to);
        let covered = covered.into_iter().filter(|depth| *depth > 0);
        let mut targets = vec![Target::Start(from.depth() + 1)];
        targets.extend(covered.map(Target::Whole));
        let mut preferred = targets[0];
        let mut before = from.at as isize - 1;
        for depth in (1..=from.depth()).rev() {
            let node = from.node(depth);
            if self.schema.is_defining(node.kind) || self.is_isolating(node) {
                break;
            }
            if targets.contains(&Target::Whole(depth)) {
                preferred = Target::Whole(depth);
            } else if from.before(depth) as isize == before {
                targets.insert(1, Target::Start(depth));
            }
            before -= 1;
        }
        let at = targets.iter().position(|target| *target == preferred);
        (targets, at.unwrap_or(0))
    }

    /// The place at which a slice goes with its defining nodes.
    fn defining_place(
        self,
        from: &FitPlace,
        to: &FitPlace,
        slice: &FitSlice,
        targets: &[Target],
        preferred: usize,
    ) -> Option<(usize, usize, FitSlice)> {
        let mut left: Vec<Option<Rc<FitNode>>> = Vec::new();
        let mut content = slice.content.clone();
        for _ in 0..=slice.open_start {
            let node = content.first().cloned();
            content = node
                .as_ref()
                .map_or_else(Vec::new, |it| it.content().to_vec());
            left.push(node);
        }
        let mut preferred_depth = slice.open_start;
        let around = from.node(targets[preferred].depth() - 1);
        for depth in (0..slice.open_start).rev() {
            let Some(node) = &left[depth] else { break };
            let defines = self.schema.is_defining(node.kind);
            if defines && !node.same_markup(around) {
                preferred_depth = depth;
            } else if defines || !self.is_text_block(node) {
                break;
            }
        }
        for nth in (0..=slice.open_start).rev() {
            let open_depth = (nth + preferred_depth + 1) % (slice.open_start + 1);
            let Some(insert) = &left[open_depth] else {
                continue;
            };
            for nth in 0..targets.len() {
                let target = targets[(nth + preferred) % targets.len()];
                let depth = target.depth();
                let (parent, index) = (from.node(depth - 1), from.index(depth - 1));
                if !self.can_replace_with_node(parent, index, insert) {
                    continue;
                }
                let start = match depth > from.depth() {
                    true => from.at,
                    false => from.before(depth),
                };
                let end = match target {
                    Target::Whole(depth) => to.after(depth),
                    Target::Start(_) => to.at,
                };
                let (old, content) = (slice.open_start, &slice.content);
                let content = self.closed_to(content, 0, old, open_depth, None)?;
                return Some((
                    start,
                    end,
                    FitSlice::new(content, open_depth, slice.open_end),
                ));
            }
        }
        None
    }

    fn can_replace_with_node(self, parent: &FitNode, index: usize, node: &FitNode) -> bool {
        let placed = || {
            let state = self.state_at(parent, index)?;
            let state = self.after(parent.kind, state, node)?;
            let state = self.after_all(parent.kind, state, parent.content().get(index..)?)?;
            self.may_end(parent.kind, state).then_some(())
        };
        placed().is_some() && self.allows_marks(parent.kind, node)
    }

    /// Content that is open less deep, with what its nodes need there.
    fn closed_to(
        self,
        content: &[Rc<FitNode>],
        depth: usize,
        old_open: usize,
        new_open: usize,
        parent: Option<&FitNode>,
    ) -> Option<Vec<Rc<FitNode>>> {
        let mut content = content.to_vec();
        if depth < old_open
            && let Some(first) = content.first().cloned()
        {
            let inner =
                self.closed_to(first.content(), depth + 1, old_open, new_open, Some(&first))?;
            content[0] = first.with(inner);
        }
        if depth > new_open {
            let kind = parent?.kind;
            let mut filled = self.fill(kind, self.start(kind), &content, false)?;
            filled.extend(content);
            let state = self.after_all(kind, self.start(kind), &filled)?;
            filled.extend(self.fill(kind, state, &[], true)?);
            content = filled;
        }
        Some(content)
    }
}

/// A node that a replacement may replace: from its start up to the end of the range, or whole.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Target {
    Start(usize),
    Whole(usize),
}

impl Target {
    fn depth(self) -> usize {
        match self {
            Self::Start(depth) | Self::Whole(depth) => depth,
        }
    }
}
