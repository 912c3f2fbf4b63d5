//! Content expressions: compiles a tree to the smallest automaton that reads children one by one.
//!
//! Thompson's construction gives a nondeterministic automaton, the subset construction makes it
//! deterministic, and Moore's refinement merges equivalent states. The last step is required: only
//! with merged states can a check find that an edit makes no difference to the following children.

use std::collections::HashMap;

use super::error::ExpressionError;
use super::expression::Expression;

/// The number of a node type.
pub(crate) type Symbol = u16;
/// A state of the automaton.
pub(crate) type StateId = u32;

/// The state from which nothing is accepted.
pub(super) const DEAD: StateId = 0;

/// The most places of a nondeterministic automaton.
const PLACES: usize = 1 << 16;
/// The most states of an automaton before the equivalent ones are merged.
const STATES: usize = 4096;

/// The budget for all expressions of one schema; the unit is one visit of a state.
#[derive(Debug)]
pub(super) struct VisitBudget(usize);

impl VisitBudget {
    /// About a fraction of a second.
    pub(super) const ENOUGH: usize = 1 << 24;

    pub(super) fn new() -> Self {
        Self(Self::ENOUGH)
    }

    fn spend(&mut self, steps: usize) -> Result<(), ExpressionError> {
        self.0 = self
            .0
            .checked_sub(steps)
            .ok_or(ExpressionError::TooComplex)?;
        // Those that are refused are not made.
        crate::steps::steps(steps);
        Ok(())
    }
}

/// A minimal deterministic automaton. Every state but [`DEAD`] is reachable, and from each of them
/// some sequence is accepted.
#[derive(Clone, Debug)]
pub(super) struct Automaton {
    /// The class of each type: types of one class behave alike everywhere. Class zero has the types
    /// that occur nowhere.
    classes: Vec<u16>,
    /// The number of classes without class zero.
    width: usize,
    /// The next state, by state and class.
    table: Vec<StateId>,
    accepting: Vec<bool>,
    start: StateId,
}

impl Automaton {
    /// Compiles an expression. `members` has the types for each of its names, of `types` in all.
    pub(super) fn new(
        tree: &Expression,
        members: &[Vec<Symbol>],
        types: usize,
        budget: &mut VisitBudget,
    ) -> Result<Self, ExpressionError> {
        let classes = SymbolClasses::new(members, types, budget)?;
        let mut nfa = Nfa {
            nodes: vec![NfaState::Accept],
        };
        let first = nfa.build(tree, 0, budget)?;
        let table = nfa.determine(first, &classes, budget)?;
        let (table, start) = table.merged(budget)?;
        Ok(Self {
            classes: classes.of_type,
            width: table.width,
            table: table.next,
            accepting: table.accepting,
            start,
        })
    }

    pub(super) fn start(&self) -> StateId {
        self.start
    }

    /// The state after a child of this type; an unknown type leads to the dead state.
    pub(super) fn step(&self, state: StateId, symbol: Option<Symbol>) -> StateId {
        crate::steps::step();
        let class = symbol.and_then(|symbol| self.classes.get(usize::from(symbol)));
        match class {
            Some(&class) if class > 0 => {
                let cell = state as usize * self.width + usize::from(class) - 1;
                self.table.get(cell).copied().unwrap_or(DEAD)
            }
            _ => DEAD,
        }
    }

    pub(super) fn accepts(&self, state: StateId) -> bool {
        self.accepting.get(state as usize).is_some_and(|&yes| yes)
    }

    /// All states but the dead one.
    pub(super) fn live(&self) -> std::ops::Range<StateId> {
        1..self.accepting.len() as StateId
    }
}

struct SymbolClasses {
    of_type: Vec<u16>,
    /// The classes of each name.
    of_name: Vec<Vec<usize>>,
    /// The number of classes, without class zero.
    count: usize,
}

impl SymbolClasses {
    fn new(
        members: &[Vec<Symbol>],
        types: usize,
        budget: &mut VisitBudget,
    ) -> Result<Self, ExpressionError> {
        let mut names_of = vec![Vec::new(); types];
        for (name, members) in members.iter().enumerate() {
            budget.spend(members.len())?;
            for &symbol in members {
                if let Some(names) = names_of.get_mut(usize::from(symbol)) {
                    names.push(name);
                }
            }
        }
        budget.spend(types)?;
        let mut known = HashMap::from([(Vec::new(), 0)]);
        let mut of_name = vec![Vec::new(); members.len()];
        let mut of_type = Vec::with_capacity(types);
        for names in names_of {
            let next = known.len();
            let class = *known.entry(names.clone()).or_insert_with(|| {
                for name in names {
                    of_name[name].push(next);
                }
                next
            });
            of_type.push(class as u16);
        }
        Ok(Self {
            of_type,
            of_name,
            count: known.len() - 1,
        })
    }
}

/// The nondeterministic automaton.
struct Nfa {
    nodes: Vec<NfaState>,
}

#[derive(Clone, Copy)]
enum NfaState {
    Accept,
    /// Reads a child of this name, then continues.
    Name(usize, usize),
    /// Continues at either place, without a child.
    Either(usize, usize),
}

impl Nfa {
    fn add(&mut self, state: NfaState) -> Result<usize, ExpressionError> {
        if self.nodes.len() == PLACES {
            return Err(ExpressionError::TooComplex);
        }
        self.nodes.push(state);
        Ok(self.nodes.len() - 1)
    }

    /// Builds the places that read the tree and continue at `next`; returns the first.
    fn build(
        &mut self,
        tree: &Expression,
        next: usize,
        budget: &mut VisitBudget,
    ) -> Result<usize, ExpressionError> {
        budget.spend(1)?;
        match tree {
            Expression::Name(name) => self.add(NfaState::Name(*name, next)),
            Expression::Sequence(parts) => parts
                .iter()
                .rev()
                .try_fold(next, |next, part| self.build(part, next, budget)),
            Expression::Choice(options) => {
                let mut begin = None;
                for option in options {
                    let option = self.build(option, next, budget)?;
                    begin = Some(match begin {
                        Some(others) => self.add(NfaState::Either(others, option))?,
                        None => option,
                    });
                }
                Ok(begin.unwrap_or(next))
            }
            Expression::Repeat(part, min, Some(max)) => {
                let mut begin = next;
                for _ in *min..*max {
                    let once_more = self.build(part, begin, budget)?;
                    begin = self.add(NfaState::Either(once_more, next))?;
                }
                (0..*min).try_fold(begin, |next, _| self.build(part, next, budget))
            }
            Expression::Repeat(part, min, None) => {
                let again = self.add(NfaState::Accept)?;
                let once = self.build(part, again, budget)?;
                self.nodes[again] = NfaState::Either(once, next);
                let begin = if *min == 0 { again } else { once };
                (1..*min).try_fold(begin, |next, _| self.build(part, next, budget))
            }
        }
    }

    /// All places reachable from these without a child, without the forks themselves; sorted.
    fn closure(
        &self,
        mut ahead: Vec<usize>,
        visited: &mut VisitedPlaces,
        budget: &mut VisitBudget,
    ) -> Result<Vec<usize>, ExpressionError> {
        visited.forget();
        let mut reached = Vec::new();
        while let Some(at) = ahead.pop() {
            budget.spend(1)?;
            if !visited.insert(at) {
                continue;
            }
            match self.nodes[at] {
                NfaState::Either(one, other) => ahead.extend([one, other]),
                NfaState::Accept | NfaState::Name(..) => reached.push(at),
            }
        }
        reached.sort_unstable();
        Ok(reached)
    }

    /// Makes it deterministic: a state is the set of places at which a run could be.
    fn determine(
        &self,
        first: usize,
        classes: &SymbolClasses,
        budget: &mut VisitBudget,
    ) -> Result<TransitionTable, ExpressionError> {
        let mut visited = VisitedPlaces::of(self.nodes.len());
        let start = self.closure(vec![first], &mut visited, budget)?;
        let mut states = vec![Vec::new(), start];
        let mut known: HashMap<Vec<usize>, StateId> =
            states.iter().cloned().zip([DEAD, START]).collect();
        let mut table = TransitionTable {
            width: classes.count,
            next: vec![DEAD; classes.count],
            accepting: vec![false],
        };
        let mut at = START as usize;
        while let Some(places) = states.get(at) {
            let mut targets = vec![Vec::new(); classes.count];
            table.accepting.push(places.contains(&0));
            for &place in places {
                if let NfaState::Name(name, next) = self.nodes[place] {
                    budget.spend(classes.of_name[name].len())?;
                    for &class in &classes.of_name[name] {
                        targets[class - 1].push(next);
                    }
                }
            }
            budget.spend(classes.count)?;
            for targets in targets {
                let places = self.closure(targets, &mut visited, budget)?;
                let state = *known.entry(places).or_insert_with_key(|places| {
                    states.push(places.clone());
                    states.len() as StateId - 1
                });
                table.next.push(state);
            }
            if states.len() > STATES {
                return Err(ExpressionError::TooComplex);
            }
            at += 1;
        }
        Ok(table)
    }
}

/// The start state before equivalent states are merged.
const START: StateId = 1;

/// The places visited since the last reset.
struct VisitedPlaces {
    rounds: Vec<usize>,
    round: usize,
}

impl VisitedPlaces {
    fn of(places: usize) -> Self {
        Self {
            rounds: vec![0; places],
            round: 0,
        }
    }

    fn forget(&mut self) {
        self.round += 1;
    }

    fn insert(&mut self, place: usize) -> bool {
        std::mem::replace(&mut self.rounds[place], self.round) != self.round
    }
}

struct TransitionTable {
    width: usize,
    next: Vec<StateId>,
    accepting: Vec<bool>,
}

impl TransitionTable {
    fn row(&self, state: usize) -> &[StateId] {
        &self.next[state * self.width..][..self.width]
    }

    /// Merges equivalent states. Returns the new table and its start.
    fn merged(self, budget: &mut VisitBudget) -> Result<(Self, StateId), ExpressionError> {
        let states = self.accepting.len();
        // Split by the empty continuation; then by longer ones until nothing changes.
        let mut group: Vec<StateId> = self
            .accepting
            .iter()
            .map(|&yes| StateId::from(yes))
            .collect();
        let mut groups = 0;
        loop {
            budget.spend(states * (self.width + 1))?;
            let mut known = HashMap::new();
            let refined: Vec<StateId> = (0..states)
                .map(|state| {
                    let next = self.row(state).iter().map(|&next| group[next as usize]);
                    let signature: Vec<StateId> =
                        std::iter::once(group[state]).chain(next).collect();
                    let fresh = known.len() as StateId;
                    *known.entry(signature).or_insert(fresh)
                })
                .collect();
            group = refined;
            if known.len() == groups {
                break;
            }
            groups = known.len();
        }
        // The dead state is the first of all, so its group has number zero.
        let mut merged = Self {
            width: self.width,
            next: vec![DEAD; groups * self.width],
            accepting: vec![false; groups],
        };
        for state in 0..states {
            let new = group[state] as usize;
            merged.accepting[new] = self.accepting[state];
            let row = &mut merged.next[new * self.width..][..self.width];
            for (cell, &next) in row.iter_mut().zip(self.row(state)) {
                *cell = group[next as usize];
            }
        }
        Ok((merged, group[START as usize]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::counted;

    /// The last ones that were asked for were counted, too, although they were not made.
    #[test]
    fn steps_beyond_the_budget_are_refused_and_not_counted() {
        let mut budget = VisitBudget(10);
        let (spent, steps) = counted(|| [budget.spend(6), budget.spend(1_000)]);
        assert_eq!(spent, [Ok(()), Err(ExpressionError::TooComplex)]);
        assert_eq!(steps, 6);
    }
}
