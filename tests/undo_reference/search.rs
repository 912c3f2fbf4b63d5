//! Draws histories, runs them, and looks for the shortest ones that fail.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

use crate::common::Dice;

/// What the editors do, as data: a history without one of its steps is a history, too.
#[derive(Clone, Debug)]
pub(crate) struct History<A> {
    pub(crate) people: usize,
    pub(crate) steps: Vec<Step<A>>,
    /// The seed of the order in which the editors undo and redo everything.
    pub(crate) end: u64,
}

/// What one of the editors does.
#[derive(Clone, Debug)]
pub(crate) struct Step<A> {
    pub(crate) who: usize,
    pub(crate) action: A,
}

pub(crate) trait Action: Clone {
    /// Simpler actions of the same kind.
    fn simpler(&self) -> Vec<Self>;

    /// The kind of the action.
    fn name(&self) -> String;
}

/// The kinds of operations as the name of an action.
pub(crate) fn name_of<T: Debug>(kinds: impl Iterator<Item = T>) -> String {
    format!("{:?}", kinds.collect::<Vec<_>>())
}

/// Operations with one of them simpler.
pub(crate) fn with_one_simpler<E: Copy>(edits: &[E], simpler: fn(E) -> Vec<E>) -> Vec<Vec<E>> {
    let each = edits.iter().enumerate().flat_map(|(nth, edit)| {
        simpler(*edit).into_iter().map(move |simpler| {
            let mut edits = edits.to_vec();
            edits[nth] = simpler;
            edits
        })
    });
    each.collect()
}

/// What happened, in readable form, if the trace is kept.
#[derive(Debug, Default)]
pub(crate) struct Trace(pub(crate) Option<Vec<String>>);

impl Trace {
    pub(crate) fn clear(&mut self) {
        self.0.iter_mut().for_each(Vec::clear);
    }

    pub(crate) fn say(&mut self, line: impl FnOnce() -> String) {
        if let Some(lines) = &mut self.0 {
            lines.push(line());
        }
    }
}

/// What a history shows to be wrong. Shrinking keeps the kind.
#[derive(Debug)]
pub(crate) struct Failure {
    kind: &'static str,
    text: String,
}

pub(crate) fn fail<T>(kind: &'static str, text: impl Into<String>) -> Outcome<T> {
    let text = text.into();
    Err(Failure { kind, text })
}

pub(crate) type Outcome<T = ()> = Result<T, Failure>;

fn setting(name: &str, default: u64) -> u64 {
    let value = std::env::var(name).ok();
    value.map_or(default, |value| value.parse().expect(name))
}

/// The kinds of operations that `DOCLOCK_KINDS` names, such as `Insert,Split`.
pub(crate) fn named_kinds<T: Copy + Debug>(all: &[T]) -> Option<Vec<T>> {
    let named = std::env::var("DOCLOCK_KINDS").ok()?;
    let is_named = |kind: &&T| named.split(',').any(|name| name == format!("{kind:?}"));
    Some(all.iter().filter(is_named).copied().collect())
}

fn histories() -> u64 {
    let default = if cfg!(debug_assertions) { 25 } else { 2_000 };
    setting("DOCLOCK_HISTORIES", default)
}

/// Runs histories until there are enough, or too many fail.
pub(crate) fn search<A: Action>(
    name: &str,
    draw: impl Fn(&mut Dice) -> History<A>,
    run: impl Fn(&History<A>, &mut Trace) -> Outcome,
) {
    let first = setting("SEED", 1);
    let (count, shown) = (histories(), setting("DOCLOCK_SHOWN", 2) as usize);
    let mut failed: BTreeMap<&str, Vec<(u64, History<A>)>> = BTreeMap::new();
    let (mut ran, mut seeds) = (0, Vec::new());
    let mut excused = 0;
    for seed in first..first.saturating_add(count) {
        // Seeds that follow each other would draw similar numbers first.
        let history = draw(&mut Dice(Dice(seed).next()));
        ran += 1;
        EXCUSED.set(false);
        if let Err(failure) = attempt(&history, &run, &mut Trace::default()) {
            failed
                .entry(failure.kind)
                .or_default()
                .push((seed, history));
            seeds.push(seed);
        }
        excused += u64::from(EXCUSED.get());
        if seeds.len() == 1_000 {
            break;
        }
    }
    println!("{name}: in {excused} of {ran} histories, a change of order was excused");
    for (kind, mut failed) in failed {
        println!("=== {name}: {} of {ran} histories: {kind}\n", failed.len());
        failed.sort_by_key(|(_, history)| history.steps.len());
        failed.truncate(shown * 8);
        let shrunk = failed.into_iter().map(|(seed, history)| {
            let (history, mut trace) = (shrink(history, kind, &run), Trace(Some(Vec::new())));
            let failure = attempt(&history, &run, &mut trace).expect_err("it no longer fails");
            let lines = trace.0.unwrap_or_default().join("\n");
            (seed, history, lines, failure.text)
        });
        let mut shrunk: Vec<_> = shrunk.collect();
        shrunk.sort_by_key(|(_, history, lines, _)| (history.steps.len(), lines.len()));
        // One of each kind is enough.
        let mut names = BTreeSet::new();
        shrunk.retain(|(_, history, ..)| {
            let steps = history.steps.iter();
            names.insert(steps.map(|step| step.action.name()).collect::<Vec<_>>())
        });
        shrunk.truncate(shown);
        for (seed, history, lines, text) in shrunk {
            println!("--- {name}: SEED={seed}, {} editors", history.people);
            println!("{lines}\n=> {kind}: {text}\n");
        }
    }
    assert!(seeds.is_empty(), "{name}: the seeds {seeds:?} fail");
    // Otherwise the order of letters would hardly be compared.
    assert!(
        excused <= ran / 100 + 5,
        "{name}: {excused} of {ran} excused"
    );
}

/// Notes whether two letters changed places for a reason.
pub(crate) fn excuse(is_excused: bool) -> bool {
    EXCUSED.set(EXCUSED.get() || is_excused);
    is_excused
}

thread_local! {
    /// Whether two letters changed places for a reason.
    static EXCUSED: Cell<bool> = const { Cell::new(false) };

    /// Whether panics of this thread are results, which are not printed.
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
}

fn attempt<A: Action>(
    history: &History<A>,
    run: &impl Fn(&History<A>, &mut Trace) -> Outcome,
    trace: &mut Trace,
) -> Outcome {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let hook = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !IS_QUIET.get() {
                hook(info);
            }
        }));
    });
    IS_QUIET.set(true);
    let result = panic::catch_unwind(AssertUnwindSafe(|| run(history, trace)));
    IS_QUIET.set(false);
    result.unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
        fail("panic", text.unwrap_or("?"))
    })
}

/// Leaves out steps and simplifies the others, as long as the history fails.
fn shrink<A: Action>(
    mut history: History<A>,
    kind: &str,
    run: &impl Fn(&History<A>, &mut Trace) -> Outcome,
) -> History<A> {
    let mut budget = 20_000;
    let mut fails = |history: &History<A>| {
        budget -= 1;
        let result = attempt(history, run, &mut Trace::default());
        budget > 0 && result.is_err_and(|failure| failure.kind == kind)
    };
    loop {
        let before = history.steps.len();
        let mut size = (before / 2).max(1);
        loop {
            let mut at = 0;
            while at < history.steps.len() {
                let mut less = history.clone();
                less.steps.drain(at..(at + size).min(less.steps.len()));
                if fails(&less) {
                    history = less;
                } else {
                    at += size;
                }
            }
            if size == 1 {
                break;
            }
            size /= 2;
        }
        let mut is_simpler = history.steps.len() < before;
        for at in 0..history.steps.len() {
            for action in history.steps[at].action.simpler() {
                let mut other = history.clone();
                other.steps[at].action = action;
                if fails(&other) {
                    history = other;
                    is_simpler = true;
                    break;
                }
            }
        }
        // The same end with fewer people, or another order of the end.
        for (people, end) in [(2, history.end), (history.people, 0), (history.people, 1)] {
            let is_less = people < history.people || end < history.end;
            let other = History {
                people,
                end,
                ..history.clone()
            };
            if is_less && fails(&other) {
                history = other;
                is_simpler = true;
            }
        }
        if !is_simpler {
            return history;
        }
    }
}
