//! Whether the schema allows the children of a node after each of several edits.

use std::ops::Range;

use doclock::schema::Schema;

/// The most states that are computed for edits whose effect reaches far.
const MOST_STATES: usize = 1 << 18;

/// The children of one node, whose edits are checked one after the other. After an edit, the states
/// are computed up to the first that did not change.
pub(super) struct ChildrenBetween<'s> {
    schema: &'s Schema,
    kind: &'s str,
    /// How many states may still be computed.
    left: usize,
    /// The types of the first children, each with the state before it.
    first: Vec<(&'s str, u32)>,
    /// Those behind them, from the last one on.
    behind: Vec<(&'s str, u32)>,
    /// The state at the end.
    end: u32,
}

impl<'s> ChildrenBetween<'s> {
    /// The children of a node of some type. `None` if it may not have these.
    pub(super) fn new(
        schema: &'s Schema,
        kind: &'s str,
        children: impl ExactSizeIterator<Item = &'s str>,
    ) -> Option<Self> {
        let mut end = schema.first_state(kind)?;
        let left = MOST_STATES + children.len();
        let mut first = Vec::with_capacity(children.len());
        for child in children {
            first.push((child, end));
            end = schema.next_state(kind, end, child)?;
        }
        schema.may_end_in(kind, end).then_some(Self {
            schema,
            kind,
            left,
            first,
            behind: Vec::new(),
            end,
        })
    }

    /// Gives a child another type, before any are replaced. `None` if the schema does not allow it.
    pub(super) fn retype(&mut self, index: usize, kind: &'s str) -> Option<()> {
        let child = self.first.get_mut(index)?;
        child.0 = kind;
        let before = child.1;
        let mut state = self.next(before, kind)?;
        for nth in index + 1..self.first.len() {
            let (child, before) = self.first[nth];
            if before == state {
                return Some(());
            }
            self.first[nth].1 = state;
            state = self.next(state, child)?;
        }
        self.end_in(state)
    }

    /// Replaces children, which are before those that were replaced earlier. `None` if the schema
    /// does not allow it.
    pub(super) fn replace(
        &mut self,
        range: Range<usize>,
        by: impl Iterator<Item = &'s str>,
    ) -> Option<()> {
        let behind = self.first.drain(range.end.min(self.first.len())..);
        self.behind.extend(behind.rev());
        let nearest = self.behind.last().map_or(self.end, |(_, state)| *state);
        let replaced = self.first.get(range.start);
        let mut state = replaced.map_or(nearest, |(_, state)| *state);
        self.first.truncate(range.start);
        let mut new = Vec::new();
        for child in by {
            new.push((child, state));
            state = self.next(state, child)?;
        }
        self.follow(state)?;
        self.behind.extend(new.into_iter().rev());
        Some(())
    }

    /// Follows a state before the children behind.
    fn follow(&mut self, mut state: u32) -> Option<()> {
        for nth in (0..self.behind.len()).rev() {
            let (child, before) = self.behind[nth];
            if before == state {
                return Some(());
            }
            self.behind[nth].1 = state;
            state = self.next(state, child)?;
        }
        self.end_in(state)
    }

    fn end_in(&mut self, state: u32) -> Option<()> {
        self.end = state;
        self.schema.may_end_in(self.kind, state).then_some(())
    }

    fn next(&mut self, state: u32, child: &str) -> Option<u32> {
        self.left = self.left.checked_sub(1)?;
        self.schema.next_state(self.kind, state, child)
    }
}
