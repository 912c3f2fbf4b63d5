//! What a search through a lazy automaton costs.

use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::hybrid::{CacheError, LazyStateID};
use regex_automata::nfa::thompson::{NFA, State};

/// One direction of a search, with the states that it made.
pub(super) struct Walk<'a> {
    pub(super) dfa: &'a DFA,
    pub(super) cache: Cache,
    read: usize,
    made: usize,
    /// The last state that was made, among those without a match and those with one: the id of a
    /// new state is larger.
    newest: [Option<LazyStateID>; 2],
}

impl<'a> Walk<'a> {
    /// How many parts of a pattern are looked at in the time in which a byte is read.
    const PARTS: usize = 4;

    pub(super) fn new(dfa: &'a DFA) -> Self {
        Self {
            dfa,
            cache: dfa.create_cache(),
            read: 0,
            made: 0,
            newest: [None; 2],
        }
    }

    /// The state after a byte.
    pub(super) fn next(&mut self, state: LazyStateID, byte: u8) -> Result<LazyStateID, CacheError> {
        self.read += 1;
        let next = self.dfa.next_state(&mut self.cache, state, byte)?;
        let newest = &mut self.newest[usize::from(next.is_match())];
        if Some(next) > *newest {
            *newest = Some(next);
            self.made += 1;
        }
        Ok(next)
    }

    /// The cost, beside the bytes that were read, of the steps that were computed and not looked
    /// up: for each, all parts of the pattern. They are at most as many as the bytes, and as the
    /// steps from the states that were made. The first one stands for the memory of the search.
    pub(super) fn cost(&self, size: usize) -> usize {
        let classes = self.dfa.byte_classes().alphabet_len();
        let computed = match self.cache.clear_count() {
            0 => self.read.min((1 + self.made) * classes),
            _ => self.read,
        };
        Self::of(1 + computed, size)
    }

    /// The cost of so many bytes for which all parts of the pattern are looked at.
    pub(super) fn of(bytes: usize, size: usize) -> usize {
        bytes.saturating_mul(size) / Self::PARTS
    }
}

/// The number of parts of a compiled pattern.
pub(super) fn size(nfa: &NFA) -> usize {
    let parts = |state: &State| match state {
        State::Sparse(sparse) => sparse.transitions.len(),
        State::Union { alternates } => alternates.len(),
        _ => 1,
    };
    nfa.states().iter().map(parts).sum()
}
