//! Fits a slice between two positions: its content is placed as far as the schema allows, and the
//! nodes around both positions are closed, filled and joined. The `Fitter` of prosemirror-transform
//! (src/replace.ts) defines the result.

use std::rc::Rc;

use super::Fit;
use super::node::{FitBody, FitNode, FitSlice, FitText, size_of};
use super::place::FitPlace;
use super::replace::FitGap;
use crate::schema::{StateId, Symbol};
use crate::steps::steps;
use crate::{Attributes, NodeId, cost};

/// A replacement that fits.
#[derive(Debug)]
pub(super) struct FitStep {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) slice: FitSlice,
    pub(super) gap: Option<FitGap>,
}

impl FitStep {
    /// Where a position is after the replacement, at the end of the new content for one within.
    pub(super) fn map(&self, at: usize) -> usize {
        let (size, to) = (self.slice.size(), self.to);
        let parts = match self.gap {
            None => [(self.from, to, size), (to, to, 0)],
            Some(gap) => [
                (self.from, gap.from, gap.insert),
                (gap.to, to, size - gap.insert),
            ],
        };
        let mut shift: usize = 0;
        for (start, end, new) in parts {
            if start == end && new == 0 {
                continue;
            }
            if at < start {
                break;
            }
            if at <= end {
                let is_at_start = start < end && at == start;
                let inner = if is_at_start { 0 } else { new };
                return (start + inner).wrapping_add(shift);
            }
            shift = shift.wrapping_add(new).wrapping_sub(end - start);
        }
        at.wrapping_add(shift)
    }
}

/// A node that is open at the end of the placed content, and the state of its content.
#[derive(Clone, Debug)]
struct Open {
    kind: Symbol,
    attributes: Attributes,
    state: StateId,
}

struct Fitter<'f, 's> {
    fit: Fit<'s>,
    root: &'f Rc<FitNode>,
    from: FitPlace,
    to: FitPlace,
    frontier: Vec<Open>,
    unplaced: FitSlice,
    placed: Vec<Rc<FitNode>>,
}

/// A place for the first nodes of the slice at a depth.
struct Fittable {
    slice_depth: usize,
    frontier_depth: usize,
    parent: Option<Rc<FitNode>>,
    inject: Vec<Rc<FitNode>>,
    wrap: Vec<Symbol>,
}

impl<'s> Fit<'s> {
    /// The replacement by which a slice fits between two positions; `None` if nothing fits or
    /// nothing would change.
    pub(super) fn fit(
        self,
        root: &Rc<FitNode>,
        from: usize,
        to: usize,
        slice: &FitSlice,
    ) -> Option<FitStep> {
        if from == to && slice.size() == 0 {
            return None;
        }
        let (start, end) = (FitPlace::new(root, from)?, FitPlace::new(root, to)?);
        if self.fits_trivially(&start, &end, slice) {
            return Some(FitStep {
                from,
                to,
                slice: slice.clone(),
                gap: None,
            });
        }
        Fitter::new(self, root, start, end, slice.clone())?.run()
    }

    pub(super) fn fits_trivially(self, from: &FitPlace, to: &FitPlace, slice: &FitSlice) -> bool {
        let (from_depth, to_depth) = (from.depth(), to.depth());
        slice.open_start == 0
            && slice.open_end == 0
            && from.start(from_depth) == to.start(to_depth)
            && self.can_replace(
                from.parent(),
                from.index(from_depth),
                to.index(to_depth),
                &slice.content,
            )
    }

    /// The tree after a replacement.
    pub(super) fn apply(self, root: &Rc<FitNode>, step: &FitStep) -> Option<Rc<FitNode>> {
        let FitStep { from, to, .. } = *step;
        match step.gap {
            Some(gap) => self.replace_around(root, from, to, &step.slice, gap),
            None => self.replace(root, from, to, &step.slice),
        }
    }

    /// The tree with a slice fitted between two positions; the same tree for nothing at one.
    pub(super) fn fitted(
        self,
        root: &Rc<FitNode>,
        from: usize,
        to: usize,
        slice: &FitSlice,
    ) -> Option<Rc<FitNode>> {
        match from == to && slice.size() == 0 {
            true => Some(root.clone()),
            false => self.apply(root, &self.fit(root, from, to, slice)?),
        }
    }
}

impl<'f, 's> Fitter<'f, 's> {
    fn new(
        fit: Fit<'s>,
        root: &'f Rc<FitNode>,
        from: FitPlace,
        to: FitPlace,
        unplaced: FitSlice,
    ) -> Option<Self> {
        let mut frontier = Vec::new();
        for depth in 0..=from.depth() {
            let node = from.node(depth);
            frontier.push(Open {
                kind: node.kind,
                attributes: node.attributes.clone(),
                state: fit.state_at(node, from.index_after(depth))?,
            });
        }
        let mut placed = Vec::new();
        for depth in (1..=from.depth()).rev() {
            placed = vec![from.node(depth).with(placed)];
        }
        Some(Self {
            fit,
            root,
            from,
            to,
            frontier,
            unplaced,
            placed,
        })
    }

    fn depth(&self) -> usize {
        self.frontier.len() - 1
    }

    fn run(mut self) -> Option<FitStep> {
        // Each step places a node, opens one or drops one.
        let mut left = 1_000 + 8 * self.unplaced.size();
        while self.unplaced.size() > 0 {
            left = left.checked_sub(1)?;
            if !(self.fit.spend)(self.width() / cost::SIBLINGS) {
                return None;
            }
            match self.find_fittable() {
                Some(found) => self.place(found)?,
                None => {
                    if !self.open_more() {
                        self.drop_node();
                    }
                }
            }
        }
        let move_inline = self.must_move_inline();
        let placed = size_of(&self.placed).checked_sub(self.depth() + self.from.depth());
        let end = match move_inline {
            Some(at) => FitPlace::new(self.root, at)?,
            None => self.to.clone(),
        };
        let end = self.close(end)?;
        let (mut content, mut open_start, mut open_end) =
            (self.placed, self.from.depth(), end.depth());
        while open_start > 0 && open_end > 0 && content.len() == 1 {
            content = content[0].content().to_vec();
            open_start -= 1;
            open_end -= 1;
        }
        let slice = FitSlice::new(content, open_start, open_end);
        let from = self.from.at;
        if let Some(at) = move_inline {
            let gap = FitGap {
                from: self.to.at,
                to: self.to.end(self.to.depth()),
                insert: placed?,
            };
            return Some(FitStep {
                from,
                to: at,
                slice,
                gap: Some(gap),
            });
        }
        let changes = slice.size() > 0 || from != self.to.at;
        changes.then_some(FitStep {
            from,
            to: end.at,
            slice,
            gap: None,
        })
    }

    /// How many siblings a step copies: those at the start of the slice and at the end of what is
    /// placed.
    fn width(&self) -> usize {
        let slice = &self.unplaced;
        let ahead = (0..=slice.open_start).map(|depth| content_at(&slice.content, depth).len());
        let mut placed = self.placed.as_slice();
        let mut width = ahead.sum::<usize>() + placed.len();
        while let Some(last) = placed.last() {
            placed = last.content();
            width += placed.len();
        }
        width
    }

    /// Finds a node at the start of the slice, and an open node that has a place for it.
    fn find_fittable(&self) -> Option<Fittable> {
        let mut start_depth = self.unplaced.open_start;
        let (mut current, mut open_end) = (self.unplaced.content.clone(), self.unplaced.open_end);
        for depth in 0..start_depth {
            let Some(node) = current.first().cloned() else {
                break;
            };
            if current.len() > 1 {
                open_end = 0;
            }
            if self.fit.is_isolating(&node) && open_end <= depth {
                start_depth = depth;
                break;
            }
            current = node.content().to_vec();
        }
        for wraps in [false, true] {
            let deepest = match wraps {
                true => self.unplaced.open_start,
                false => start_depth,
            };
            for slice_depth in (0..=deepest).rev() {
                if let Some(found) = self.fittable_at(slice_depth, wraps) {
                    return Some(found);
                }
            }
        }
        None
    }

    fn fittable_at(&self, slice_depth: usize, wraps: bool) -> Option<Fittable> {
        let parent = match slice_depth.checked_sub(1) {
            Some(above) => content_at(&self.unplaced.content, above).first().cloned(),
            None => None,
        };
        let fragment = match &parent {
            Some(parent) => parent.content(),
            None => &self.unplaced.content,
        };
        let first = fragment.first();
        for frontier_depth in (0..=self.depth()).rev() {
            let Open { kind, state, .. } = self.frontier[frontier_depth];
            let found = |inject, wrap| {
                Some(Fittable {
                    slice_depth,
                    frontier_depth,
                    parent: parent.clone(),
                    inject,
                    wrap,
                })
            };
            match (first, wraps) {
                (Some(first), false) => {
                    if self.fit.after(kind, state, first).is_some() {
                        return found(Vec::new(), Vec::new());
                    }
                    let before = std::slice::from_ref(first);
                    if let Some(inject) = self.fit.fill(kind, state, before, false) {
                        return found(inject, Vec::new());
                    }
                }
                (None, false) => {
                    let parent = parent.as_ref();
                    if parent.is_some_and(|it| self.fit.are_compatible(kind, it.kind)) {
                        return found(Vec::new(), Vec::new());
                    }
                }
                (Some(first), true) => {
                    if !first.is_rest()
                        && let Some(wrap) = self.fit.wrapping(kind, state, first)
                    {
                        return found(Vec::new(), wrap);
                    }
                }
                (None, true) => {}
            }
            let parent = parent.as_ref();
            if parent.is_some_and(|it| self.fit.after_kind(kind, state, it.kind).is_some()) {
                break;
            }
        }
        None
    }

    fn open_more(&mut self) -> bool {
        let slice = &mut self.unplaced;
        if most_open(&slice.content, false) <= slice.open_start {
            return false;
        }
        if slice.size() > 1 && most_open(&slice.content, true) > slice.open_end {
            slice.open_end += 1;
        }
        slice.open_start += 1;
        true
    }

    fn drop_node(&mut self) {
        let FitSlice {
            content,
            open_start,
            open_end,
        } = std::mem::take(&mut self.unplaced);
        let inner = content_at(&content, open_start);
        self.unplaced = match open_start.checked_sub(1) {
            Some(above) if inner.len() <= 1 => {
                let size = size_of(&content).saturating_sub(open_start);
                let open_at_end = size <= open_start + size_of(inner);
                let open_end = if open_at_end { above } else { open_end };
                FitSlice::new(without_first(&content, above, 1), above, open_end)
            }
            _ => FitSlice::new(without_first(&content, open_start, 1), open_start, open_end),
        };
    }

    /// Moves nodes of the slice to an open node.
    fn place(&mut self, found: Fittable) -> Option<()> {
        let Fittable {
            slice_depth,
            frontier_depth,
            parent,
            inject,
            wrap,
        } = found;
        while self.depth() > frontier_depth {
            self.close_frontier()?;
        }
        for kind in wrap {
            let attributes = self.fit.schema.new_attributes(kind);
            self.open_frontier(kind, None, attributes, Vec::new())?;
        }
        // Where it opened nodes, nothing is placed yet: the next search finds the innermost.
        let slice = std::mem::take(&mut self.unplaced);
        let fragment = match &parent {
            Some(parent) => parent.content().to_vec(),
            None => slice.content.clone(),
        };
        let open_start = slice.open_start - slice_depth;
        let Open {
            kind, mut state, ..
        } = self.frontier[frontier_depth];
        let mut added = Vec::new();
        if !inject.is_empty() {
            state = self.fit.after_all(kind, state, &inject)?;
            added.extend(inject);
        }
        let size = |content: &[Rc<FitNode>]| size_of(content) as isize;
        let mut open_end = size(&fragment) + slice_depth as isize
            - (size(&slice.content) - slice.open_end as isize);
        let mut taken = 0;
        while let Some(next) = fragment.get(taken) {
            let Some(after) = self.fit.after(kind, state, next) else {
                break;
            };
            taken += 1;
            if taken > 1 || open_start == 0 || next.content_size() > 0 {
                state = after;
                let open_start = if taken == 1 { open_start } else { 0 };
                let open_end = if taken == fragment.len() {
                    open_end
                } else {
                    -1
                };
                let next = self.with_allowed_marks(kind, next);
                added.push(self.closed_start(&next, open_start, open_end)?);
            }
        }
        let to_end = taken == fragment.len();
        if !to_end {
            open_end = -1;
        }
        self.placed = appended(&self.placed, frontier_depth, &added)?;
        self.frontier[frontier_depth].state = state;
        let top = &self.frontier[self.depth()];
        let same = parent.as_ref().is_some_and(|it| {
            let (one, other) = ((it.kind, &it.attributes), (top.kind, &top.attributes));
            self.fit.schema.are_one_kind(one, other)
        });
        if to_end && open_end < 0 && same && self.frontier.len() > 1 {
            self.close_frontier()?;
        }
        let mut current = added.last().cloned();
        for _ in 0..open_end {
            let Some(node) = current else { break };
            self.frontier.push(Open {
                kind: node.kind,
                attributes: node.attributes.clone(),
                state: self.fit.state_at(&node, node.content().len())?,
            });
            current = node.content().last().cloned();
        }
        self.unplaced = match slice_depth.checked_sub(1) {
            _ if !to_end => FitSlice::new(
                without_first(&slice.content, slice_depth, taken),
                slice_depth,
                slice.open_end,
            ),
            None => FitSlice::default(),
            Some(above) => FitSlice::new(
                without_first(&slice.content, above, 1),
                above,
                if open_end < 0 { slice.open_end } else { above },
            ),
        };
        Some(())
    }

    /// A text without the marks that a type does not allow.
    fn with_allowed_marks(&self, kind: Symbol, node: &Rc<FitNode>) -> Rc<FitNode> {
        let FitBody::Text(text) = &node.body else {
            return node.clone();
        };
        if self.fit.allows_marks(kind, node) {
            return node.clone();
        }
        let schema = self.fit.schema;
        let of = schema.kind_of(kind);
        let marks = text.marks.iter();
        let marks = marks.filter(|mark| schema.allows_mark(of, &mark.kind));
        let text = FitText {
            marks: marks.cloned().collect(),
            ..text.clone()
        };
        FitNode::text(node.kind, node.attributes.clone(), text)
    }

    /// Fills a node that was open.
    fn closed_start(
        &self,
        node: &Rc<FitNode>,
        open_start: usize,
        open_end: isize,
    ) -> Option<Rc<FitNode>> {
        if open_start == 0 || node.is_atom() {
            return Some(node.clone());
        }
        let mut content = node.content().to_vec();
        if open_start > 1
            && let Some(first) = content.first().cloned()
        {
            let inner_end = if content.len() == 1 { open_end - 1 } else { 0 };
            content[0] = self.closed_start(&first, open_start - 1, inner_end)?;
        }
        let (fit, kind) = (self.fit, node.kind);
        let mut filled = fit.fill(kind, fit.start(kind), &content, false)?;
        filled.extend(content);
        if open_end <= 0 {
            let state = fit.after_all(kind, fit.start(kind), &filled)?;
            filled.extend(fit.fill(kind, state, &[], true)?);
        }
        Some(node.with(filled))
    }

    /// Where the rest of the text block after the end has to be moved to be joined, if it does not
    /// stay there.
    fn must_move_inline(&self) -> Option<usize> {
        let to = &self.to;
        if !self.fit.is_text_block(to.parent()) {
            return None;
        }
        let top = &self.frontier[self.depth()];
        let fits = self.fit.schema.is_text_block(top.kind)
            && self.after_fits(to, to.depth(), top, false).is_some();
        if !fits {
            return None;
        }
        if to.depth() == self.depth()
            && let Some((depth, ..)) = self.close_level(to)
            && depth == self.depth()
        {
            return None;
        }
        let mut depth = to.depth();
        let mut after = to.after(depth);
        while depth > 1 {
            depth -= 1;
            if after != to.end(depth) {
                break;
            }
            after += 1;
        }
        Some(after)
    }

    /// What has to be filled in so that the content of a node around a position can follow.
    fn after_fits(
        &self,
        to: &FitPlace,
        depth: usize,
        open: &Open,
        is_open: bool,
    ) -> Option<Vec<Rc<FitNode>>> {
        let node = to.node(depth);
        let index = match is_open {
            true => to.index_after(depth),
            false => to.index(depth),
        };
        let content = node.content();
        if index == content.len() && !self.fit.are_compatible(open.kind, node.kind) {
            return None;
        }
        let after = content.get(index..)?;
        let fill = self.fit.fill(open.kind, open.state, after, true)?;
        let mut after = after.iter();
        after
            .all(|child| self.fit.allows_marks(open.kind, child))
            .then_some(fill)
    }

    /// The open node at which the nodes around the end are joined: its depth, what is filled in,
    /// and the end from there.
    fn close_level(&self, to: &FitPlace) -> Option<(usize, Vec<Rc<FitNode>>, FitPlace)> {
        for depth in (0..=self.depth().min(to.depth())).rev() {
            let drops_inner =
                depth < to.depth() && to.end(depth + 1) == to.at + (to.depth() - (depth + 1));
            let Some(fill) = self.after_fits(to, depth, &self.frontier[depth], drops_inner) else {
                continue;
            };
            let mut above = (0..depth).rev();
            let all_fit = above.all(|above| {
                let fill = self.after_fits(to, above, &self.frontier[above], true);
                fill.is_some_and(|fill| fill.is_empty())
            });
            if !all_fit {
                continue;
            }
            let end = match drops_inner {
                true => FitPlace::new(self.root, to.after(depth + 1))?,
                false => to.clone(),
            };
            return Some((depth, fill, end));
        }
        None
    }

    fn close(&mut self, to: FitPlace) -> Option<FitPlace> {
        let (depth, fill, to) = self.close_level(&to)?;
        while self.depth() > depth {
            self.close_frontier()?;
        }
        if !fill.is_empty() {
            self.placed = appended(&self.placed, depth, &fill)?;
        }
        for level in depth + 1..=to.depth() {
            let node = to.node(level).clone();
            let after = node.content().get(to.index(level)..)?;
            let start = self.fit.start(node.kind);
            let fill = self.fit.fill(node.kind, start, after, true)?;
            self.open_frontier(node.kind, node.id.clone(), node.attributes.clone(), fill)?;
        }
        Some(to)
    }

    fn open_frontier(
        &mut self,
        kind: Symbol,
        id: Option<NodeId>,
        attributes: Attributes,
        content: Vec<Rc<FitNode>>,
    ) -> Option<()> {
        let depth = self.depth();
        let top = &mut self.frontier[depth];
        // Of a node that is opened to be closed, with content that was filled in, nothing is asked.
        let after = self.fit.after_kind(top.kind, top.state, kind);
        top.state = after.unwrap_or(top.state);
        let node = FitNode::block(kind, id, attributes.clone(), content);
        self.placed = appended(&self.placed, depth, &[node])?;
        self.frontier.push(Open {
            kind,
            attributes,
            state: self.fit.start(kind),
        });
        Some(())
    }

    fn close_frontier(&mut self) -> Option<()> {
        let open = self.frontier.pop()?;
        let fill = self.fit.fill(open.kind, open.state, &[], true)?;
        if !fill.is_empty() {
            self.placed = appended(&self.placed, self.frontier.len(), &fill)?;
        }
        Some(())
    }
}

/// The content of the first nodes at a depth.
fn content_at(content: &[Rc<FitNode>], depth: usize) -> &[Rc<FitNode>] {
    (0..depth).fold(content, |content, _| {
        content.first().map_or(&[], |first| first.content())
    })
}

/// Content without the first nodes at a depth.
fn without_first(content: &[Rc<FitNode>], depth: usize, count: usize) -> Vec<Rc<FitNode>> {
    match (depth.checked_sub(1), content.split_first()) {
        (Some(depth), Some((first, others))) => {
            let inner = without_first(first.content(), depth, count);
            [&[first.with(inner)], others].concat()
        }
        _ => {
            let others = content.get(count..).unwrap_or_default();
            steps(others.len());
            others.to_vec()
        }
    }
}

/// Content with more at the end of the last nodes at a depth.
pub(super) fn appended(
    content: &[Rc<FitNode>],
    depth: usize,
    more: &[Rc<FitNode>],
) -> Option<Vec<Rc<FitNode>>> {
    let Some(depth) = depth.checked_sub(1) else {
        return Some([content, more].concat());
    };
    let (last, others) = content.split_last()?;
    let inner = appended(last.content(), depth, more)?;
    Some([others, &[last.with(inner)]].concat())
}

/// How many nodes at an end of some content could be open.
fn most_open(content: &[Rc<FitNode>], at_end: bool) -> usize {
    let (mut content, mut depth) = (content, 0);
    loop {
        let child = match at_end {
            true => content.last(),
            false => content.first(),
        };
        match child {
            Some(child) if !child.is_atom() => {
                content = child.content();
                depth += 1;
            }
            _ => return depth,
        }
    }
}
