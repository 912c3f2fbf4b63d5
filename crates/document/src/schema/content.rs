//! Checks the order of the children of a node.

use std::ops::Range;

use smol_str::SmolStr;

use super::automaton::{Automaton, DEAD, StateId, Symbol, VisitBudget};
use super::error::ExpressionError;
use super::expression;

/// A compiled content expression.
#[derive(Clone, Debug)]
pub(super) struct CompiledContent {
    source: SmolStr,
    automaton: Automaton,
}

/// The types of some children, by index. Each access costs a node lookup.
pub(super) struct ChildTypes<'a> {
    pub(super) len: usize,
    /// `None` for an unknown type.
    pub(super) symbol: &'a dyn Fn(usize) -> Option<Symbol>,
}

/// How many children at the beginning and at the end of a sequence are unchanged.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeptSiblings {
    pub(super) prefix: usize,
    pub(super) suffix: usize,
}

/// The index of the first child that does not fit; the number of children if one is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Misfit(pub(super) usize);

impl CompiledContent {
    /// Compiles an expression. `members` has the types for each name, of `types` in all.
    pub(super) fn new<'m>(
        source: &SmolStr,
        members: impl Fn(&str) -> Option<&'m [Symbol]>,
        types: usize,
        budget: &mut VisitBudget,
    ) -> Result<Self, ExpressionError> {
        let parsed = expression::parse(source)?;
        let members = parsed.names.iter().map(|(name, position)| {
            let members = members(name).ok_or_else(|| ExpressionError::UnknownName {
                name: name.clone(),
                position: *position,
            })?;
            Ok(members.to_vec())
        });
        let members: Vec<Vec<Symbol>> = members.collect::<Result<_, _>>()?;
        Ok(Self {
            source: source.clone(),
            automaton: Automaton::new(&parsed.tree, &members, types, budget)?,
        })
    }

    /// The source of the expression.
    pub(super) fn source(&self) -> &SmolStr {
        &self.source
    }

    /// Whether a child of this type can be the first one.
    pub(super) fn begins_with(&self, symbol: Symbol) -> bool {
        self.automaton.step(self.automaton.start(), Some(symbol)) != DEAD
    }

    /// The state before the first child.
    pub(super) fn start(&self) -> StateId {
        self.automaton.start()
    }

    /// The state after a child; `None` if it does not fit there.
    pub(super) fn after(&self, state: StateId, symbol: Symbol) -> Option<StateId> {
        let next = self.automaton.step(state, Some(symbol));
        (next != DEAD).then_some(next)
    }

    /// The state before the child at an index, where the children before it are valid.
    pub(super) fn state_at(
        &self,
        index: usize,
        symbol: &dyn Fn(usize) -> Option<Symbol>,
    ) -> Option<StateId> {
        let children = ChildTypes { len: index, symbol };
        self.state_before(&children, index).ok()
    }

    /// Whether no child is missing.
    pub(super) fn may_end(&self, state: StateId) -> bool {
        self.automaton.accepts(state)
    }

    /// Checks all children.
    pub(super) fn check(&self, children: &ChildTypes<'_>) -> Result<(), Misfit> {
        let start = self.automaton.start();
        let end = self.run(start, children, 0..children.len)?;
        self.ends(end, children)
    }

    /// Checks children that derive from a valid sequence. The result is that of
    /// [`check`](Self::check).
    ///
    /// The children before the edit led to a state, and those after it were accepted from a state.
    /// So it is enough to find the first state again ([`state_before`](Self::state_before)), to
    /// read the new and the replaced children from there, and to read on until both are in the same
    /// state: from there on the result is the same.
    pub(super) fn recheck(
        &self,
        before: &ChildTypes<'_>,
        after: &ChildTypes<'_>,
        kept: KeptSiblings,
    ) -> Result<(), Misfit> {
        let begin = self.state_before(after, kept.prefix)?;
        let behind = after.len - kept.suffix;
        let mut is = self.run(begin, after, kept.prefix..behind)?;
        if kept.suffix == 0 {
            return self.ends(is, after);
        }
        let replaced = kept.prefix..before.len - kept.suffix;
        let mut was = replaced.fold(begin, |state, index| {
            self.automaton.step(state, (before.symbol)(index))
        });
        for index in behind..after.len {
            if is == was {
                return Ok(());
            }
            let symbol = (after.symbol)(index);
            was = self.automaton.step(was, symbol);
            is = self.automaton.step(is, symbol);
            if is == DEAD {
                return Err(Misfit(index));
            }
        }
        self.ends(is, after)
    }

    fn run(
        &self,
        from: StateId,
        children: &ChildTypes<'_>,
        over: Range<usize>,
    ) -> Result<StateId, Misfit> {
        let mut state = from;
        for index in over {
            state = self.automaton.step(state, (children.symbol)(index));
            if state == DEAD {
                return Err(Misfit(index));
            }
        }
        Ok(state)
    }

    fn ends(&self, state: StateId, children: &ChildTypes<'_>) -> Result<(), Misfit> {
        match self.automaton.accepts(state) {
            true => Ok(()),
            false => Err(Misfit(children.len)),
        }
    }

    /// The state before the child at `at`, after the beginning of a valid sequence.
    ///
    /// Some children earlier, the state was one of the live ones. Reading on from all of them often
    /// leaves one state; otherwise the reading begins further back. If that costs more than reading
    /// from the first child, it reads from there.
    fn state_before(&self, children: &ChildTypes<'_>, at: usize) -> Result<StateId, Misfit> {
        let live = self.automaton.live().len();
        let mut back = 0;
        while back * live < at {
            if let Some(state) = self.only_state(children, at - back..at) {
                return Ok(state);
            }
            back = (2 * back).max(FIRST_LOOK_BACK);
        }
        self.run(self.automaton.start(), children, 0..at)
    }

    /// The state that these children lead to from any live state, if it is the same for all.
    fn only_state(&self, children: &ChildTypes<'_>, over: Range<usize>) -> Option<StateId> {
        let mut states: Vec<StateId> = self.automaton.live().collect();
        for index in over {
            let symbol = (children.symbol)(index);
            for state in &mut states {
                *state = self.automaton.step(*state, symbol);
            }
            states.retain(|&state| state != DEAD);
            states.sort_unstable();
            states.dedup();
        }
        match states[..] {
            [state] => Some(state),
            _ => None,
        }
    }
}

/// The number of children of the first look back, if zero is not enough.
const FIRST_LOOK_BACK: usize = 2;
