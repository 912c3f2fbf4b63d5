//! Regular expressions of clients: compiled when they are created, with limits on all their costs.
//!
//! The search steps through the lazy automata of the crate regex-automata, so that each byte it
//! reads is counted: a search for the end of a match can read far beyond it, and would do so again
//! for the next match.

mod walk;

use std::ops::Range;
use std::sync::Arc;

use regex_automata::hybrid::dfa::DFA;
use regex_automata::hybrid::{self, LazyStateID};
use regex_automata::util::captures::Captures;
use regex_automata::util::interpolate;
use regex_automata::{Anchored, Input, MatchError, PatternID, Span, meta, nfa::thompson};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use smol_str::SmolStr;

use crate::brief::Brief;
use crate::codes::codes;
use crate::steps::steps;
use walk::Walk;

/// A regular expression in the syntax of the regex crate. It is compiled when it is created, before
/// any lock is requested.
///
/// A pattern of a client cannot block other clients: its length, its compiled size, the search and
/// the replaced text are limited. In JSON it is a string.
///
/// ```
/// use doclock::{DataStore, Editor, dsl::*, transaction::{Pattern, PatternError}};
///
/// let editor = Editor::new(DataStore::new(), "ann");
/// let year = Pattern::new("[0-9]{4}");
/// assert_eq!(year.error(), None);
/// transaction(&editor, [
///     create(text_node("inline-text", "Since 1999").with_id("t")),
///     replace_pattern(year, "2000").on("t"),
/// ])
/// .commit()?;
///
/// let large = Pattern::new("[a-z]{1000}{1000}");
/// assert!(matches!(large.error(), Some(PatternError::TooLarge { .. })));
/// # Ok::<(), doclock::transaction::TransactionError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Pattern {
    source: SmolStr,
    program: Result<Arc<Program>, PatternError>,
}

/// Why a pattern cannot be used, or exceeds a limit on a text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PatternError {
    /// The pattern is not a valid regular expression.
    #[error("the pattern {pattern:?} is not a regular expression: {reason}", pattern = Brief(.pattern))]
    Invalid {
        /// The pattern.
        pattern: SmolStr,
        /// The reason.
        reason: String,
    },
    /// The pattern has more bytes than [`Pattern::MAX_BYTES`].
    #[error("the pattern {pattern:?} has {bytes} bytes: the limit is {limit}", pattern = Brief(.pattern))]
    TooLong {
        /// The pattern.
        pattern: SmolStr,
        /// The number of bytes.
        bytes: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// The compiled pattern takes more memory than [`Pattern::MAX_PROGRAM`].
    #[error("the pattern {pattern:?} takes more than {limit} bytes when it is compiled", pattern = Brief(.pattern))]
    TooLarge {
        /// The pattern.
        pattern: SmolStr,
        /// The limit in bytes.
        limit: usize,
    },
    /// The search reads more bytes than [`Pattern::MAX_SEARCH`], counting each repeated read, or
    /// exceeds its memory.
    #[error("the search for the pattern {pattern:?} takes more than {limit} steps", pattern = Brief(.pattern))]
    SearchTooLong {
        /// The pattern.
        pattern: SmolStr,
        /// The limit in bytes.
        limit: usize,
    },
    /// The replacements of all matches together have more bytes than [`Pattern::MAX_OUTPUT`].
    #[error("the replacement of the pattern {pattern:?} has more than {limit} bytes", pattern = Brief(.pattern))]
    OutputTooLong {
        /// The pattern.
        pattern: SmolStr,
        /// The limit in bytes.
        limit: usize,
    },
}

codes! { inherent PatternError {
    Self::Invalid { pattern, reason } => "patternInvalid";
    Self::TooLong { pattern, bytes, limit } => "patternTooLong";
    Self::TooLarge { pattern, limit } => "patternTooLarge";
    Self::SearchTooLong { pattern, limit } => "patternSearchTooLong";
    Self::OutputTooLong { pattern, limit } => "patternOutputTooLong";
}}

/// The characters of each group of a match, if it took part.
pub(crate) type Groups = Vec<Option<Range<usize>>>;

/// A range of characters, and its replacement.
type Replacement = (Range<usize>, SmolStr);

#[derive(Debug)]
struct Program {
    /// Finds the groups of a match.
    groups: meta::Regex,
    /// Finds where matches end, and from there where they start.
    ends: DFA,
    starts: DFA,
    /// The number of parts that a step of an automaton can look at.
    sizes: [usize; 2],
}

impl Pattern {
    /// The most bytes that a pattern may have.
    pub const MAX_BYTES: usize = 4096;

    /// The most bytes that a compiled pattern may take. Compiling to this size takes milliseconds.
    pub const MAX_PROGRAM: usize = 256 << 10;

    /// The most bytes of text that one operation may read; each byte counts as often as it is read.
    pub const MAX_SEARCH: usize = 16 << 20;

    /// The most bytes that the replacements of one operation may have.
    pub const MAX_OUTPUT: usize = 1 << 20;

    /// The memory of a search. If the states of a pattern do not fit in, they are discarded and
    /// computed again.
    const CACHE: usize = 1 << 20;

    /// How often they may be discarded.
    const FORGOTTEN: usize = 16;

    /// Compiles a regular expression. If it is invalid, [`error`](Self::error) returns the reason,
    /// and each operation with the pattern fails.
    pub fn new(source: impl Into<SmolStr>) -> Self {
        let source = source.into();
        let program = Program::compile(&source).map(Arc::new);
        Self { source, program }
    }

    /// Returns the regular expression.
    pub fn as_str(&self) -> &str {
        &self.source
    }

    /// Returns why the pattern cannot be used, or `None` if it can.
    pub fn error(&self) -> Option<&PatternError> {
        self.program.as_ref().err()
    }

    /// Returns the matches, in characters, with their replacements, and the cost of the search in
    /// bytes that are read.
    #[doc(hidden)]
    pub fn replacements(
        &self,
        text: &str,
        replacement: &str,
    ) -> Result<(Vec<Replacement>, usize), PatternError> {
        let program = self.program.as_ref().map_err(PatternError::clone)?;
        let mut search = Search::new(&self.source, program, text);
        // Characters are counted from one match to the next, not each time from the start.
        let (mut byte, mut count) = (0, 0);
        let mut room = Self::MAX_OUTPUT;
        let mut found = Vec::new();
        while let Some(whole) = search.next_match()? {
            let start = count + text[byte..whole.start].chars().count();
            let end = start + text[whole.clone()].chars().count();
            (byte, count) = (whole.end, end);
            let replaced = match replacement.contains('$') {
                true => search.expand(whole, replacement, room)?,
                false => SmolStr::new(replacement),
            };
            let left = room.checked_sub(replaced.len());
            room = left.ok_or_else(|| search.output_too_long())?;
            found.push((start..end, replaced));
        }
        Ok((found, search.cost()))
    }

    /// Returns the groups of the first match from a byte on, in bytes, the whole match first, if it
    /// ends with the text and is not empty, and the cost of the search in bytes that are read.
    pub(crate) fn groups_at_end(
        &self,
        text: &str,
        from: usize,
    ) -> Result<(Option<Groups>, usize), PatternError> {
        let program = self.program.as_ref().map_err(PatternError::clone)?;
        let mut search = Search::new(&self.source, program, text);
        search.at = from;
        let whole = search.next_match()?;
        let whole = whole.filter(|whole| whole.end == text.len() && !whole.is_empty());
        let groups = match whole {
            Some(whole) => Some(search.groups(whole)?.iter().map(span_range).collect()),
            None => None,
        };
        Ok((groups, search.cost()))
    }
}

fn span_range(span: Option<Span>) -> Option<Range<usize>> {
    span.map(|span| span.range())
}

impl Program {
    fn compile(source: &SmolStr) -> Result<Self, PatternError> {
        let pattern = || source.clone();
        if source.len() > Pattern::MAX_BYTES {
            return Err(PatternError::TooLong {
                pattern: pattern(),
                bytes: source.len(),
                limit: Pattern::MAX_BYTES,
            });
        }
        let config = meta::Config::new()
            .nfa_size_limit(Some(Pattern::MAX_PROGRAM))
            .onepass_size_limit(Some(Pattern::MAX_PROGRAM))
            .hybrid_cache_capacity(Pattern::CACHE);
        let groups = meta::Regex::builder().configure(config).build(source);
        let groups = groups.map_err(|error| match error.syntax_error() {
            Some(error) => {
                // Before its last line, the crate draws the pattern with a pointer to the error.
                let message = error.to_string();
                let reason = message.lines().last().unwrap_or_default();
                PatternError::Invalid {
                    pattern: pattern(),
                    reason: reason.trim_start_matches("error: ").to_owned(),
                }
            }
            None => Self::too_large(source),
        })?;
        let dfa = DFA::config()
            .cache_capacity(Pattern::CACHE)
            .skip_cache_capacity_check(true)
            .minimum_cache_clear_count(Some(Pattern::FORGOTTEN))
            .unicode_word_boundary(true);
        let thompson = thompson::Config::new().nfa_size_limit(Some(Pattern::MAX_PROGRAM));
        let both = hybrid::regex::Regex::builder()
            .thompson(thompson)
            .dfa(dfa)
            .build(source)
            .map_err(|_| Self::too_large(source))?;
        let (ends, starts) = (both.forward().clone(), both.reverse().clone());
        Ok(Self {
            groups,
            sizes: [&ends, &starts].map(|dfa| walk::size(dfa.get_nfa())),
            ends,
            starts,
        })
    }

    fn too_large(source: &SmolStr) -> PatternError {
        PatternError::TooLarge {
            pattern: source.clone(),
            limit: Pattern::MAX_PROGRAM,
        }
    }
}

/// One search through a text, from match to match.
struct Search<'a> {
    source: &'a SmolStr,
    program: &'a Program,
    text: &'a str,
    ends: Walk<'a>,
    starts: Walk<'a>,
    groups: Option<Captures>,
    /// Where the search continues, and where the last match ended.
    at: usize,
    last: Option<usize>,
    /// How many bytes may still be read.
    left: usize,
    /// The cost of the bytes that the crate read.
    by_crate: usize,
}

/// Why the automata reached no result.
enum Stop {
    /// Too many steps, or too many states.
    Effort,
    /// A byte outside ASCII where the pattern has a word boundary.
    Foreign,
}

impl<'a> Search<'a> {
    fn new(source: &'a SmolStr, program: &'a Program, text: &'a str) -> Self {
        Self {
            source,
            program,
            text,
            ends: Walk::new(&program.ends),
            starts: Walk::new(&program.starts),
            groups: None,
            at: 0,
            last: None,
            left: Pattern::MAX_SEARCH,
            by_crate: 0,
        }
    }

    /// The cost so far, in bytes that are read.
    fn cost(&self) -> usize {
        let [ends, starts] = self.program.sizes;
        let computed = self.ends.cost(ends) + self.starts.cost(starts);
        Pattern::MAX_SEARCH - self.left + computed + self.by_crate
    }

    /// The next match. It may be empty, but not at the end of the last one.
    fn next_match(&mut self) -> Result<Option<Range<usize>>, PatternError> {
        while self.at <= self.text.len() {
            let Some(found) = self.find()? else {
                break;
            };
            let splits = !self.text.is_char_boundary(found.start);
            if found.is_empty() && (splits || self.last == Some(found.end)) {
                // Only a longer match can follow there.
                self.at = found.end.max(self.at) + 1;
                continue;
            }
            (self.at, self.last) = (found.end, Some(found.end));
            return Ok(Some(found));
        }
        self.at = self.text.len() + 1;
        Ok(None)
    }

    fn find(&mut self) -> Result<Option<Range<usize>>, PatternError> {
        match self.find_by_automata() {
            Ok(found) => Ok(found),
            Err(Stop::Effort) => Err(self.search_too_long()),
            Err(Stop::Foreign) => {
                // How far the crate reads is not known, so all remaining bytes are counted.
                let spent = self.spend(self.text.len() - self.at + 1);
                spent.map_err(|_| self.search_too_long())?;
                let found = self
                    .program
                    .groups
                    .search(&self.input(self.at..self.text.len()));
                Ok(found.map(|found| found.range()))
            }
        }
    }

    fn find_by_automata(&mut self) -> Result<Option<Range<usize>>, Stop> {
        let Some(end) = self.find_end()? else {
            return Ok(None);
        };
        Ok(Some(self.find_start(end)?..end))
    }

    /// The end of the first match that the syntax prefers.
    fn find_end(&mut self) -> Result<Option<usize>, Stop> {
        let input = self.input(self.at..self.text.len());
        let mut state = self
            .ends
            .dfa
            .start_state_forward(&mut self.ends.cache, &input)?;
        let mut end = None;
        for (place, byte) in (self.at..).zip(&self.text.as_bytes()[self.at..]) {
            self.left = self.left.checked_sub(1).ok_or(Stop::Effort)?;
            steps(1);
            state = self.ends.next(state, *byte)?;
            match state.is_tagged().then(|| Tag::of(state)) {
                Some(Tag::Match) => end = Some(place),
                Some(Tag::Dead) => return Ok(end),
                Some(Tag::Quit) => return Err(Stop::Foreign),
                Some(Tag::Other) | None => {}
            }
        }
        let state = self.ends.dfa.next_eoi_state(&mut self.ends.cache, state)?;
        Ok(if state.is_match() {
            Some(self.text.len())
        } else {
            end
        })
    }

    /// The start of the match with this end: the first position from which that end is reached.
    fn find_start(&mut self, end: usize) -> Result<usize, Stop> {
        let input = self.input(self.at..end).anchored(Anchored::Yes);
        let mut state = self
            .starts
            .dfa
            .start_state_reverse(&mut self.starts.cache, &input)?;
        let mut start = end;
        let bytes = self.text.as_bytes();
        for place in (self.at..end).rev() {
            self.left = self.left.checked_sub(1).ok_or(Stop::Effort)?;
            steps(1);
            state = self.starts.next(state, bytes[place])?;
            match state.is_tagged().then(|| Tag::of(state)) {
                Some(Tag::Match) => start = place + 1,
                Some(Tag::Dead) => return Ok(start),
                Some(Tag::Quit) => return Err(Stop::Foreign),
                Some(Tag::Other) | None => {}
            }
        }
        // A state reports a match one byte late.
        let state = match self.at.checked_sub(1) {
            Some(before) => self.starts.next(state, bytes[before])?,
            None => self
                .starts
                .dfa
                .next_eoi_state(&mut self.starts.cache, state)?,
        };
        match () {
            () if state.is_match() => Ok(self.at),
            () if state.is_quit() => Err(Stop::Foreign),
            () => Ok(start),
        }
    }

    /// The replacement of a match, with its groups.
    fn expand(
        &mut self,
        whole: Range<usize>,
        replacement: &str,
        room: usize,
    ) -> Result<SmolStr, PatternError> {
        self.groups(whole)?;
        let Some(groups) = &self.groups else {
            return Ok(SmolStr::default());
        };
        let (mut replaced, mut fits) = (String::new(), true);
        let append = |group: usize, to: &mut String| {
            let Some(span) = groups.get_group(group) else {
                return;
            };
            fits &= to.len() + span.len() <= room;
            if fits {
                to.push_str(&self.text[span.range()]);
            }
        };
        let index = |name: &str| groups.group_info().to_index(PatternID::ZERO, name);
        interpolate::string(replacement, append, index, &mut replaced);
        match fits {
            true => Ok(replaced.into()),
            false => Err(self.output_too_long()),
        }
    }

    /// The groups of a match.
    fn groups(&mut self, whole: Range<usize>) -> Result<&Captures, PatternError> {
        let spent = self.spend(whole.len());
        spent.map_err(|_| self.search_too_long())?;
        let regex = &self.program.groups;
        let input = self.input(whole).anchored(Anchored::Yes);
        let groups = self.groups.get_or_insert_with(|| regex.create_captures());
        regex.search_captures(&input, groups);
        Ok(groups)
    }

    fn input(&self, range: Range<usize>) -> Input<'a> {
        Input::new(self.text).range(range)
    }

    /// Counts bytes that the crate reads. Its fastest automata look at few parts for each: an
    /// eighth of all is counted.
    fn spend(&mut self, bytes: usize) -> Result<(), Stop> {
        steps(bytes);
        self.by_crate += Walk::of(bytes, self.program.sizes[0] / 8);
        self.left = self.left.checked_sub(bytes).ok_or(Stop::Effort)?;
        Ok(())
    }

    fn search_too_long(&self) -> PatternError {
        PatternError::SearchTooLong {
            pattern: self.source.clone(),
            limit: Pattern::MAX_SEARCH,
        }
    }

    fn output_too_long(&self) -> PatternError {
        PatternError::OutputTooLong {
            pattern: self.source.clone(),
            limit: Pattern::MAX_OUTPUT,
        }
    }
}

/// The kinds of special states of an automaton.
enum Tag {
    Match,
    Dead,
    Quit,
    Other,
}

impl Tag {
    fn of(state: LazyStateID) -> Self {
        match () {
            () if state.is_match() => Self::Match,
            () if state.is_dead() => Self::Dead,
            () if state.is_quit() => Self::Quit,
            () => Self::Other,
        }
    }
}

impl From<hybrid::CacheError> for Stop {
    fn from(_: hybrid::CacheError) -> Self {
        Self::Effort
    }
}

impl From<MatchError> for Stop {
    /// Of a start state: the byte before it is outside ASCII, or there are too many states.
    fn from(error: MatchError) -> Self {
        match error.kind() {
            regex_automata::MatchErrorKind::Quit { .. } => Self::Foreign,
            _ => Self::Effort,
        }
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl Eq for Pattern {}

impl<S: Into<SmolStr>> From<S> for Pattern {
    fn from(source: S) -> Self {
        Self::new(source)
    }
}

impl Serialize for Pattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.source)
    }
}

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        SmolStr::deserialize(deserializer).map(Self::new)
    }
}
