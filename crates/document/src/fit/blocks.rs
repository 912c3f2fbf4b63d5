//! Splits, joins, lifts, wraps and changes blocks. The functions of prosemirror-transform
//! (src/structure.ts) and prosemirror-commands define the results.

use std::rc::Rc;

use super::fitter::FitStep;
use super::node::{FitBody, FitNode, FitSlice, FitText, size_of};
use super::place::FitPlace;
use super::replace::FitGap;
use super::{Fit, Fitted};
use crate::Attributes;
use crate::schema::Symbol;

/// The type of a node that an edit makes, with its attributes.
#[derive(Clone, Debug)]
pub(super) struct FitKind {
    pub(super) kind: Symbol,
    pub(super) attributes: Attributes,
}

/// Adjacent siblings around a range. The depth is that of their parent.
#[derive(Clone, Debug)]
pub(super) struct FitRange {
    pub(super) from: FitPlace,
    pub(super) to: FitPlace,
    pub(super) depth: usize,
}

impl FitRange {
    pub(super) fn parent(&self) -> &Rc<FitNode> {
        self.from.node(self.depth)
    }

    pub(super) fn start(&self) -> usize {
        self.from.before(self.depth + 1)
    }

    pub(super) fn end(&self) -> usize {
        self.to.after(self.depth + 1)
    }

    pub(super) fn start_index(&self) -> usize {
        self.from.index(self.depth)
    }

    pub(super) fn end_index(&self) -> usize {
        self.to.index_after(self.depth)
    }
}

impl Fit<'_> {
    pub(super) fn kind(self, kind: Symbol) -> FitKind {
        let attributes = self.schema.new_attributes(kind);
        FitKind { kind, attributes }
    }

    fn new_node(self, of: &FitKind, content: Vec<Rc<FitNode>>) -> Rc<FitNode> {
        FitNode::block(of.kind, None, of.attributes.clone(), content)
    }

    /// The blocks around two positions, in the innermost node that fits.
    pub(super) fn block_range(
        self,
        from: &FitPlace,
        to: &FitPlace,
        fits: impl Fn(&FitNode) -> bool,
    ) -> Option<FitRange> {
        let (from, to) = if to.at < from.at {
            (to, from)
        } else {
            (from, to)
        };
        let inline = usize::from(self.is_text_block(from.parent()) || from.at == to.at);
        let deepest = from.depth().checked_sub(inline)?;
        let mut depths = (0..=deepest).rev();
        let depth = depths.find(|&depth| to.at <= from.end(depth) && fits(from.node(depth)))?;
        Some(FitRange {
            from: from.clone(),
            to: to.clone(),
            depth,
        })
    }

    // --- Lifting and wrapping ---

    fn can_cut(self, node: &FitNode, start: usize, end: usize) -> bool {
        let len = node.content().len();
        (start == 0 || self.can_replace(node, start, len, &[]))
            && (end == len || self.can_replace(node, 0, end, &[]))
    }

    /// The depth of the node into which blocks can be lifted.
    pub(super) fn lift_target(self, range: &FitRange) -> Option<usize> {
        let content = &range.parent().content()[range.start_index()..range.end_index()];
        let (mut before, mut after) = (0, 0);
        for depth in (0..=range.depth).rev() {
            let node = range.from.node(depth);
            let index = range.from.index(depth) + before;
            let end = range.to.index_after(depth) - after;
            if depth < range.depth && self.can_replace(node, index, end, content) {
                return Some(depth);
            }
            if depth == 0 || self.is_isolating(node) || !self.can_cut(node, index, end) {
                return None;
            }
            if index > 0 {
                before = 1;
            }
            if end < node.content().len() {
                after = 1;
            }
        }
        None
    }

    pub(super) fn lift(
        self,
        root: &Rc<FitNode>,
        range: &FitRange,
        target: usize,
    ) -> Option<Rc<FitNode>> {
        self.apply(root, &self.lift_step(range, target))
    }

    pub(super) fn lift_step(self, range: &FitRange, target: usize) -> FitStep {
        let FitRange { from, to, depth } = range;
        let (gap_from, gap_to) = (range.start(), range.end());
        let (mut start, mut end) = (gap_from, gap_to);
        let (mut before, mut open_start) = (Vec::new(), 0);
        for depth in (target + 1..=*depth).rev() {
            if open_start > 0 || from.index(depth) > 0 {
                before = vec![from.node(depth).with(before)];
                open_start += 1;
            } else {
                start -= 1;
            }
        }
        let (mut after, mut open_end) = (Vec::new(), 0);
        for depth in (target + 1..=*depth).rev() {
            if open_end > 0 || to.after(depth + 1) < to.end(depth) {
                after = vec![to.node(depth).with(after)];
                open_end += 1;
            } else {
                end += 1;
            }
        }
        let gap = FitGap {
            from: gap_from,
            to: gap_to,
            insert: size_of(&before) - open_start,
        };
        before.extend(after);
        FitStep {
            from: start,
            to: end,
            slice: FitSlice::new(before, open_start, open_end),
            gap: Some(gap),
        }
    }

    /// Lifts the blocks around two positions out of their parent.
    pub(super) fn lift_blocks(self, root: &Rc<FitNode>, from: usize, to: usize) -> Fitted {
        let (from, to) = (FitPlace::new(root, from)?, FitPlace::new(root, to)?);
        let range = self.block_range(&from, &to, |_| true)?;
        let target = self.lift_target(&range)?;
        let lifted = self.lift(root, &range, target)?;
        Some((lifted, from.at))
    }

    /// Lifts an empty text block, or splits the node around it.
    pub(super) fn lift_empty(self, root: &Rc<FitNode>, at: usize) -> Fitted {
        let place = FitPlace::new(root, at)?;
        if place.parent().content_size() > 0 {
            return None;
        }
        let depth = place.depth();
        if depth > 1 && place.after(depth) != place.end(depth - 1) {
            let before = place.before(depth);
            if self.can_split(root, before, 1, &[]) {
                return Some((self.split(root, before, 1, &[])?, at + 2));
            }
        }
        self.lift_blocks(root, at, at)
    }

    /// The new nodes around some siblings, the outermost first. One of them is of a type, and the
    /// next of the type of an item, if that is given.
    pub(super) fn find_wrapping(
        self,
        outer: &FitRange,
        of: &FitKind,
        item: Option<FitKind>,
        inner: &FitRange,
    ) -> Option<Vec<FitKind>> {
        let (parent, start, end) = (outer.parent(), outer.start_index(), outer.end_index());
        let state = self.state_at(parent, start)?;
        let around = self.wrapping(parent.kind, state, &self.new_node(of, Vec::new()))?;
        let outermost = around.first().copied().unwrap_or(of.kind);
        if !self.can_replace_with(parent, start, end, outermost) {
            return None;
        }
        let blocks = &inner.parent().content()[inner.start_index()..inner.end_index()];
        let first = blocks.first().filter(|first| !first.is_rest())?;
        if let Some(item) = &item {
            let state = self.after_kind(of.kind, self.start(of.kind), item.kind)?;
            if !self.may_end(of.kind, state) {
                return None;
            }
        }
        let within = item.as_ref().map_or(of.kind, |item| item.kind);
        let inside = self.wrapping(within, self.start(within), first)?;
        let innermost = inside.last().copied().unwrap_or(within);
        let state = self.after_all(innermost, self.start(innermost), blocks)?;
        if !self.may_end(innermost, state) {
            return None;
        }
        let around = around.into_iter().map(|kind| self.kind(kind));
        let inside = inside.into_iter().map(|kind| self.kind(kind));
        let around = around.chain([of.clone()]).chain(item);
        Some(around.chain(inside).collect())
    }

    pub(super) fn wrappers(self, kinds: &[FitKind]) -> Vec<Rc<FitNode>> {
        let kinds = kinds.iter().rev();
        kinds.fold(Vec::new(), |content, kind| {
            vec![self.new_node(kind, content)]
        })
    }

    /// Wraps the blocks around two positions.
    pub(super) fn wrap_blocks(
        self,
        root: &Rc<FitNode>,
        from: usize,
        to: usize,
        of: &FitKind,
    ) -> Fitted {
        let (from, to) = (FitPlace::new(root, from)?, FitPlace::new(root, to)?);
        let range = self.block_range(&from, &to, |_| true)?;
        let kinds = self.find_wrapping(&range, of, None, &range)?;
        let slice = FitSlice::new(self.wrappers(&kinds), 0, 0);
        let (start, end) = (range.start(), range.end());
        let gap = FitGap {
            from: start,
            to: end,
            insert: kinds.len(),
        };
        let wrapped = self.replace_around(root, start, end, &slice, gap)?;
        Some((wrapped, from.at + kinds.len()))
    }

    // --- Splitting ---

    pub(super) fn can_split(
        self,
        root: &Rc<FitNode>,
        at: usize,
        depth: usize,
        kinds: &[Option<FitKind>],
    ) -> bool {
        let may = || {
            let place = FitPlace::new(root, at)?;
            let base = place.depth().checked_sub(depth)?;
            let parent = place.parent();
            let innermost = kinds.last().and_then(Option::as_ref);
            let innermost = innermost.map_or(parent.kind, |kind| kind.kind);
            let index = place.index(place.depth());
            let len = parent.content().len();
            let rest = parent.content().get(index..)?;
            if self.is_isolating(parent)
                || !self.can_replace(parent, index, len, &[])
                || !self.is_valid(innermost, rest)
            {
                return None;
            }
            for (nth, level) in (base + 1..place.depth()).rev().enumerate() {
                let node = place.node(level);
                let index = place.index(level);
                if self.is_isolating(node) {
                    return None;
                }
                let mut rest = node.content().get(index..)?.to_vec();
                let of_level = |nth: usize| {
                    let nth = depth.checked_sub(nth + 1)?;
                    kinds.get(nth).and_then(Option::as_ref)
                };
                // `kinds` begins with the outermost.
                if let Some(kind) = of_level(nth) {
                    *rest.first_mut()? = self.new_node(kind, Vec::new());
                }
                let after = of_level(nth + 1).map_or(node.kind, |kind| kind.kind);
                let len = node.content().len();
                if !self.can_replace(node, index + 1, len, &[]) || !self.is_valid(after, &rest) {
                    return None;
                }
            }
            let index = place.index_after(base);
            let outermost = kinds.first().and_then(Option::as_ref);
            let outermost = outermost.map_or(place.node(base + 1).kind, |kind| kind.kind);
            self.can_replace_with(place.node(base), index, index, outermost)
                .then_some(())
        };
        may().is_some()
    }

    pub(super) fn split(
        self,
        root: &Rc<FitNode>,
        at: usize,
        depth: usize,
        kinds: &[Option<FitKind>],
    ) -> Option<Rc<FitNode>> {
        let place = FitPlace::new(root, at)?;
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for nth in (0..depth).rev() {
            let level = place.depth().checked_sub(depth - 1 - nth)?;
            let node = place.node(level);
            before = vec![node.with(before)];
            after = vec![match kinds.get(nth).and_then(Option::as_ref) {
                Some(kind) => {
                    let (kind, attributes) = (kind.kind, kind.attributes.clone());
                    FitNode::block(kind, node.id.clone(), attributes, after)
                }
                None => node.with(after),
            }];
        }
        before.extend(after);
        self.replace(root, at, at, &FitSlice::new(before, depth, depth))
    }

    /// Begins a new block, as the Enter key does.
    pub(super) fn split_block(
        self,
        root: &Rc<FitNode>,
        from: usize,
        to: usize,
        given: Option<&FitKind>,
    ) -> Fitted {
        let start = FitPlace::new(root, from)?;
        let depth = start.depth();
        let above = depth.checked_sub(1)?;
        let parent = start.parent();
        let at_end = start.at == start.end(depth);
        let at_start = start.at == start.start(depth);
        let outer = start.node(above);
        let state = self.state_at(outer, start.index_after(above))?;
        let default = self
            .default_block(outer.kind, state)
            .map(|it| self.kind(it));
        let default_or_given = given
            .cloned()
            .or_else(|| default.clone().filter(|_| at_end));
        let (root, at) = match from == to {
            true => (root.clone(), from),
            false => self.delete_range(root, from, to)?,
        };
        let mut kinds = [default_or_given];
        if given.is_none() && !self.can_split(&root, at, 1, &kinds) {
            kinds = [default.clone()];
        }
        if !self.can_split(&root, at, 1, &kinds) {
            return None;
        }
        let mut split = self.split(&root, at, 1, &kinds)?;
        if !at_end
            && at_start
            && let Some(default) = default.filter(|default| default.kind != parent.kind)
        {
            let place = FitPlace::new(&split, start.before(depth).min(at))?;
            let index = place.index(place.depth());
            if self.can_replace_with(outer, index, index + 1, default.kind)
                && let Some(block) = place.node_after()
            {
                split = self.with_kind(&split, place.at, &block, &default)?;
            }
        }
        Some((split, at + 2))
    }

    /// Gives the node at a position another type.
    pub(super) fn with_kind(
        self,
        root: &Rc<FitNode>,
        at: usize,
        node: &FitNode,
        kind: &FitKind,
    ) -> Option<Rc<FitNode>> {
        let (of, attributes) = (kind.kind, kind.attributes.clone());
        let block = FitNode::block(of, node.id.clone(), attributes, node.content().to_vec());
        if !self.is_valid(of, node.content()) {
            return None;
        }
        self.replace(root, at, at + node.size, &FitSlice::new(vec![block], 0, 0))
    }

    /// Gives the text blocks between two positions another type.
    pub(super) fn set_block_type(
        self,
        root: &Rc<FitNode>,
        from: usize,
        to: usize,
        kind: &FitKind,
    ) -> Fitted {
        let mut blocks = Vec::new();
        text_blocks(self, root.content(), 0, from, to, &mut blocks);
        let mut tree = root.clone();
        let (mut shift, mut any) = (0, false);
        let steps = kind.attributes.steps();
        for (at, node) in blocks {
            if node.kind == kind.kind && !(self.spend)(steps.min(node.attributes.steps())) {
                return None;
            }
            if node.kind == kind.kind && node.attributes == kind.attributes {
                any = true;
                continue;
            }
            let at = at.checked_add_signed(shift)?;
            let place = FitPlace::new(&tree, at)?;
            let index = place.index(place.depth());
            if !self.can_replace_with(place.parent(), index, index + 1, kind.kind) {
                continue;
            }
            let content = self.fitting_content(kind.kind, node.content());
            let (of, attributes) = (kind.kind, kind.attributes.clone());
            let block = FitNode::block(of, node.id.clone(), attributes, content);
            shift += block.size as isize - node.size as isize;
            let slice = FitSlice::new(vec![block], 0, 0);
            tree = self.replace(&tree, at, at + node.size, &slice)?;
            any = true;
        }
        any.then_some((tree, from))
    }

    /// The parts of a line of text that fit in a type of block, without marks that it does not
    /// allow.
    pub(super) fn fitting_content(self, kind: Symbol, content: &[Rc<FitNode>]) -> Vec<Rc<FitNode>> {
        let schema = self.schema;
        let is_code = schema.is_code(kind);
        let mut fitting = Vec::new();
        for part in content {
            let FitBody::Text(text) = &part.body else {
                fitting.push(part.clone());
                continue;
            };
            let is_break = text.special && text.text.iter().all(|char| *char == '\n');
            if is_code && text.special && !is_break {
                continue;
            }
            let of = schema.kind_of(kind);
            let marks = text.marks.iter();
            let marks = marks.filter(|mark| schema.allows_mark(of, &mark.kind));
            let text = FitText {
                marks: marks.cloned().collect(),
                special: text.special && !is_code,
                ..text.clone()
            };
            fitting.push(FitNode::text(part.kind, part.attributes.clone(), text));
        }
        fitting
    }
}

/// The text blocks that overlap a range, with their positions.
fn text_blocks(
    fit: Fit<'_>,
    content: &[Rc<FitNode>],
    start: usize,
    from: usize,
    to: usize,
    found: &mut Vec<(usize, Rc<FitNode>)>,
) {
    let mut at = start;
    for node in content {
        let end = at + node.size;
        if end > from && at < to.max(from + 1) {
            match fit.is_text_block(node) {
                true => found.push((at, node.clone())),
                false => text_blocks(fit, node.content(), at + 1, from, to, found),
            }
        }
        at = end;
    }
}
