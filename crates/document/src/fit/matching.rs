//! What the schema says of the content of nodes in a tree.

use std::collections::{HashSet, VecDeque};
use std::rc::Rc;

use super::Fit;
use super::node::{FitBody, FitNode};
use crate::schema::{StateId, Symbol};
use crate::steps::step;

/// New nodes while they are made.
#[derive(Default)]
struct Filling {
    /// The types of the nodes around the next one.
    around: Vec<Symbol>,
    made: usize,
}

impl Filling {
    /// How many nodes are made at most: a schema can require any number.
    const MOST: usize = 10_000;
}

impl Fit<'_> {
    pub(super) fn start(self, kind: Symbol) -> StateId {
        self.schema.content_start(kind)
    }

    pub(super) fn may_end(self, kind: Symbol, state: StateId) -> bool {
        self.schema.content_may_end(kind, state)
    }

    /// The state after a child of a type.
    pub(super) fn after_kind(self, kind: Symbol, state: StateId, child: Symbol) -> Option<StateId> {
        self.schema.content_after(kind, state, child)
    }

    /// The state after a child.
    pub(super) fn after(self, kind: Symbol, state: StateId, child: &FitNode) -> Option<StateId> {
        step();
        match &child.body {
            // Where the first leads to the same state as before, all others do.
            FitBody::Rest(rest) => {
                let here = self.after_kind(kind, state, rest.first)?;
                if kind == rest.of && self.after_kind(kind, rest.before, rest.first) == Some(here) {
                    return Some(rest.after);
                }
                if rest.kinds.is_empty() {
                    self.is_unsure.set(true);
                    return None;
                }
                let mut runs = rest.kinds.iter();
                runs.try_fold(state, |state, run| self.after_run(kind, state, *run))
            }
            FitBody::Text(text) if text.special && self.schema.is_code(kind) => None,
            _ => self.after_kind(kind, state, child.kind),
        }
    }

    fn after_run(self, kind: Symbol, state: StateId, run: (Symbol, usize)) -> Option<StateId> {
        let mut state = state;
        for _ in 0..run.1 {
            let after = self.after_kind(kind, state, run.0)?;
            if after == state {
                break;
            }
            state = after;
        }
        Some(state)
    }

    pub(super) fn after_all(
        self,
        kind: Symbol,
        state: StateId,
        children: &[Rc<FitNode>],
    ) -> Option<StateId> {
        let mut children = children.iter();
        children.try_fold(state, |state, child| self.after(kind, state, child))
    }

    /// The state before a child of a node.
    pub(super) fn state_at(self, node: &FitNode, index: usize) -> Option<StateId> {
        let children = node.content().get(..index)?;
        self.after_all(node.kind, self.start(node.kind), children)
    }

    /// Whether some of a node's children could be replaced by others.
    pub(super) fn can_replace(
        self,
        node: &FitNode,
        from: usize,
        to: usize,
        by: &[Rc<FitNode>],
    ) -> bool {
        let replaced = || {
            let state = self.state_at(node, from)?;
            let state = self.after_all(node.kind, state, by)?;
            let state = self.after_all(node.kind, state, node.content().get(to..)?)?;
            self.may_end(node.kind, state).then_some(())
        };
        replaced().is_some() && by.iter().all(|child| self.allows_marks(node.kind, child))
    }

    /// Whether some of a node's children could be replaced by one of a type.
    pub(super) fn can_replace_with(
        self,
        node: &FitNode,
        from: usize,
        to: usize,
        by: Symbol,
    ) -> bool {
        let replaced = || {
            let state = self.state_at(node, from)?;
            let state = self.after_kind(node.kind, state, by)?;
            let state = self.after_all(node.kind, state, node.content().get(to..)?)?;
            self.may_end(node.kind, state).then_some(())
        };
        replaced().is_some()
    }

    pub(super) fn is_valid(self, kind: Symbol, content: &[Rc<FitNode>]) -> bool {
        let end = self.after_all(kind, self.start(kind), content);
        end.is_some_and(|end| self.may_end(kind, end))
            && content.iter().all(|child| self.allows_marks(kind, child))
    }

    pub(super) fn allows_marks(self, kind: Symbol, child: &FitNode) -> bool {
        let FitBody::Text(text) = &child.body else {
            return true;
        };
        let kind = self.schema.kind_of(kind);
        let mut marks = text.marks.iter();
        marks.all(|mark| self.schema.allows_mark(kind, &mark.kind))
    }

    /// Whether two types have content in common.
    pub(super) fn are_compatible(self, one: Symbol, other: Symbol) -> bool {
        one == other || {
            let mut first = self.schema.next_types(one, self.start(one));
            let start = self.start(other);
            first.any(|(next, _)| self.after_kind(other, start, next).is_some())
        }
    }

    pub(super) fn is_text_block(self, node: &FitNode) -> bool {
        !node.is_atom() && self.schema.is_text_block(node.kind)
    }

    pub(super) fn is_isolating(self, node: &FitNode) -> bool {
        self.schema.is_isolating(node.kind)
    }

    /// The types of new nodes that may come next, the plain text blocks first: paragraphs. Of parts
    /// of a line, texts come first.
    fn candidates(self, kind: Symbol, state: StateId) -> Vec<(Symbol, StateId)> {
        let schema = self.schema;
        let next = schema.next_types(kind, state);
        let fits = |it| self.fills_lines || !schema.is_inline(it);
        let next = next.filter(|(it, _)| fits(*it) && schema.can_be_made(*it));
        let mut next: Vec<_> = next.collect();
        next.sort_by_key(|(it, _)| match schema.is_inline(*it) {
            true => 2 + usize::from(!schema.has_text(*it)),
            false => usize::from(
                !schema.is_text_block(*it) || schema.is_defining(*it) || schema.is_code(*it),
            ),
        });
        next
    }

    /// The first type of text block that may come next.
    pub(super) fn default_block(self, kind: Symbol, state: StateId) -> Option<Symbol> {
        let next = self
            .candidates(kind, state)
            .into_iter()
            .map(|(next, _)| next);
        next.into_iter()
            .find(|next| self.schema.is_text_block(*next))
    }

    /// The first type that may come next.
    pub(super) fn default_type(self, kind: Symbol, state: StateId) -> Option<Symbol> {
        let next = self.candidates(kind, state).into_iter();
        next.map(|(next, _)| next).next()
    }

    /// A new node with the content that it needs.
    pub(super) fn filled(self, kind: Symbol) -> Option<Rc<FitNode>> {
        self.filled_in(kind, &mut Filling::default())
    }

    /// Like [`filled`](Self::filled), within new nodes of other types. None of them is in itself.
    fn filled_in(self, kind: Symbol, filling: &mut Filling) -> Option<Rc<FitNode>> {
        filling.made += 1;
        if filling.made > Filling::MOST {
            return None;
        }
        if self.schema.is_empty_type(kind) {
            return Some(FitNode::empty(kind, None, self.schema.new_attributes(kind)));
        }
        filling.around.push(kind);
        let content = self.fill_in(kind, self.start(kind), &[], true, filling);
        filling.around.pop();
        Some(self.made(kind, content?))
    }

    /// A new node with some content.
    pub(super) fn made(self, kind: Symbol, content: Vec<Rc<FitNode>>) -> Rc<FitNode> {
        FitNode::block(kind, None, self.schema.new_attributes(kind), content)
    }

    /// The new nodes that have to come before some others; with `to_end`, so that nothing is
    /// missing after those. `ContentMatch.fillBefore` of ProseMirror.
    pub(super) fn fill(
        self,
        kind: Symbol,
        state: StateId,
        before: &[Rc<FitNode>],
        to_end: bool,
    ) -> Option<Vec<Rc<FitNode>>> {
        self.fill_in(kind, state, before, to_end, &mut Filling::default())
    }

    fn fill_in(
        self,
        kind: Symbol,
        state: StateId,
        before: &[Rc<FitNode>],
        to_end: bool,
        filling: &mut Filling,
    ) -> Option<Vec<Rc<FitNode>>> {
        let mut seen = HashSet::new();
        let mut ahead: Vec<(StateId, Vec<Rc<FitNode>>, Option<Symbol>)> =
            vec![(state, Vec::new(), None)];
        // Depth first, in the order of the candidates. Where one cannot be made, the next is tried.
        while let Some((state, mut filled, next)) = ahead.pop() {
            if seen.contains(&state) {
                continue;
            }
            if let Some(next) = next {
                let Some(made) = self.filled_in(next, filling) else {
                    continue;
                };
                filled.push(made);
            }
            seen.insert(state);
            let end = self.after_all(kind, state, before);
            if end.is_some_and(|end| !to_end || self.may_end(kind, end)) {
                return Some(filled);
            }
            let next = self.candidates(kind, state).into_iter().rev();
            let next = next.filter(|(child, _)| !filling.around.contains(child));
            ahead.extend(next.map(|(child, after)| (after, filled.clone(), Some(child))));
        }
        None
    }

    /// The types of new nodes, the outermost first, around which a node may come next.
    /// `ContentMatch.findWrapping` of ProseMirror.
    pub(super) fn wrapping(
        self,
        kind: Symbol,
        state: StateId,
        of: &FitNode,
    ) -> Option<Vec<Symbol>> {
        let mut seen = HashSet::new();
        let mut ahead = VecDeque::from([(kind, state, Vec::new())]);
        while let Some((kind, state, around)) = ahead.pop_front() {
            if self.after(kind, state, of).is_some() {
                return Some(around);
            }
            for (next, after) in self.schema.next_types(kind, state) {
                if self.schema.is_empty_type(next)
                    || self.schema.is_inline(next)
                    || !self.schema.can_be_made(next)
                    || seen.contains(&next)
                    || !(around.is_empty() || self.may_end(kind, after))
                {
                    continue;
                }
                seen.insert(next);
                let inner = [around.as_slice(), &[next]].concat();
                ahead.push_back((next, self.start(next), inner));
            }
        }
        None
    }
}
