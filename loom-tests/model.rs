//! Explores a model, and checks that the model can fail.
//!
//! A model declares the outcomes that its executions reach. An outcome that no execution reaches
//! fails the model, and so does an outcome that is not declared. A model also names at least one
//! actor, the thread that it is about (a timer, a canceller, a releaser), with an outcome that only
//! this actor brings about. The meta-check explores the model again without the actor: the outcome
//! must be gone. So a model whose timer does nothing cannot pass.

use std::collections::BTreeMap;
use std::panic;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Once};
use std::time::{Duration, Instant};

use loom::thread::{self, JoinHandle};

/// No exploration may take longer. Reaching the limit is a failure, never a silent end.
const LIMIT: Duration = Duration::from_secs(300);

/// How many preemptions to add to each bound, for a longer check than that of each change.
fn deeper() -> usize {
    let set = std::env::var("DOCLOCK_DEEPER").ok();
    set.map_or(0, |text| text.parse().expect("a number"))
}

/// A model before it is explored.
#[must_use = "it is explored by `check`"]
pub(crate) struct Model {
    name: &'static str,
    bound: Option<usize>,
    outcomes: Vec<&'static str>,
    /// Each actor with the outcomes that are not reached without it.
    actors: BTreeMap<&'static str, Vec<&'static str>>,
}

impl Model {
    /// A model whose executions have at most `bound` preemptions, or any number for `None`.
    pub(crate) fn new(name: &'static str, bound: impl Into<Option<usize>>) -> Self {
        Self {
            name,
            bound: bound.into(),
            outcomes: Vec::new(),
            actors: BTreeMap::new(),
        }
    }

    /// Declares outcomes, each of which some execution reaches.
    pub(crate) fn reaches<const N: usize>(mut self, outcomes: [&'static str; N]) -> Self {
        self.outcomes.extend(outcomes);
        self
    }

    /// Declares an outcome that some execution reaches, and none without this [actor](Run::spawn).
    pub(crate) fn reaches_by(mut self, actor: &'static str, outcome: &'static str) -> Self {
        self.actors.entry(actor).or_default().push(outcome);
        self.reaches([outcome])
    }

    /// Explores every execution of `body`, then every execution without one of the actors, for each
    /// of them.
    pub(crate) fn check(self, body: impl Fn(&Run) + Sync + Send + 'static) {
        report_panics_without_backtraces();
        let Self { name, bound, .. } = self;
        let bound = bound.map(|bound| bound + deeper());
        let body = Arc::new(body);
        assert!(!self.actors.is_empty(), "{name}: no actor is named");
        let seen = explore(name, bound, Run::of(self.outcomes.clone(), None), &body);
        for outcome in &self.outcomes {
            assert!(seen.contains_key(outcome), "{name}: never {outcome}");
        }
        for (actor, outcomes) in &self.actors {
            let without = Run::of(self.outcomes.clone(), Some(actor));
            let seen = explore(name, bound, without, &body);
            for outcome in outcomes {
                let still = seen.contains_key(outcome);
                assert!(!still, "{name}: {outcome} also without its {actor}");
            }
        }
    }
}

/// Threads of a model have small stacks, which a backtrace overflows. And a model whose operation
/// panics would print one in each of its thousands of executions.
fn report_panics_without_backtraces() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| panic::set_hook(Box::new(|panic| eprintln!("{panic}"))));
}

/// Explores all executions and prints how it went. Returns how often each outcome was reached.
fn explore(
    name: &str,
    bound: Option<usize>,
    run: Run,
    body: &Arc<impl Fn(&Run) + Sync + Send + 'static>,
) -> BTreeMap<&'static str, u64> {
    let executions = Arc::new(AtomicU64::new(0));
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = bound;
    builder.max_permutations = None;
    let limit = LIMIT * 100u32.pow(deeper() as u32);
    builder.max_duration = Some(limit);
    builder.max_branches = 100_000;

    let removed = run.0.removed;
    let removed = removed.map_or(String::new(), |actor| format!(" without its {actor}"));
    let began = Instant::now();
    builder.check({
        let (run, body, executions) = (run.clone(), Arc::clone(body), Arc::clone(&executions));
        move || {
            executions.fetch_add(1, Ordering::Relaxed);
            body(&run);
        }
    });
    let took = began.elapsed();
    let outcome = if took < limit { "complete" } else { "capped" };
    let bound = bound.map_or("none".to_owned(), |bound| bound.to_string());
    let executions = executions.load(Ordering::Relaxed);
    let seen = run.0.seen.lock().unwrap().clone();
    let counts = seen.iter().map(|(what, times)| format!(", {what} {times}"));
    let counts: String = counts.collect();
    println!(
        "model {name}{removed}: bound {bound}, {executions} executions, {took:.1?}, {outcome}{counts}"
    );
    assert_eq!(outcome, "complete", "{name} was not explored to its end");
    seen
}

/// One exploration, as its executions see it. Nothing here is loom's: it records, and adds no
/// interleavings.
#[derive(Clone)]
pub(crate) struct Run(Arc<Exploration>);

struct Exploration {
    declared: Vec<&'static str>,
    /// The actor that the meta-check leaves out.
    removed: Option<&'static str>,
    /// How often each outcome was reached, over all executions.
    seen: Mutex<BTreeMap<&'static str, u64>>,
}

impl Run {
    fn of(declared: Vec<&'static str>, removed: Option<&'static str>) -> Self {
        let seen = Mutex::default();
        Self(Arc::new(Exploration {
            declared,
            removed,
            seen,
        }))
    }

    /// Records that this execution reaches an outcome. One that is not declared fails the model.
    pub(crate) fn note(&self, outcome: &'static str) {
        let is_known = self.0.removed.is_some() || self.0.declared.contains(&outcome);
        assert!(is_known, "{outcome} is not declared");
        *self.0.seen.lock().unwrap().entry(outcome).or_default() += 1;
    }

    /// Whether this actor takes part. For models that could not end without it.
    pub(crate) fn has(&self, actor: &'static str) -> bool {
        self.0.removed != Some(actor)
    }

    /// Runs an actor in a thread of its own. When the meta-check leaves this actor out, its code is
    /// dropped instead.
    pub(crate) fn spawn<T: 'static>(
        &self,
        actor: &'static str,
        code: impl FnOnce() -> T + 'static,
    ) -> Actor<T> {
        Actor(self.has(actor).then(|| thread::spawn(code)))
    }

    /// Runs an actor as [`spawn`](Self::spawn) does, with room for more frames than most models
    /// need: 32,768 words in place of 4,096.
    pub(crate) fn spawn_deep<T: Send + 'static>(
        &self,
        actor: &'static str,
        code: impl FnOnce() -> T + Send + 'static,
    ) -> Actor<T> {
        let deep = thread::Builder::new().stack_size(1 << 15);
        Actor(self.has(actor).then(|| deep.spawn(code).unwrap()))
    }
}

/// The thread of an actor, if it was not left out.
#[must_use = "every thread of a model is joined"]
pub(crate) struct Actor<T>(Option<JoinHandle<T>>);

impl<T> Actor<T> {
    /// Waits until the actor is done. `None` if it was left out.
    pub(crate) fn join(self) -> Option<T> {
        self.0.map(|thread| thread.join().unwrap())
    }
}

/// The models of [`Model`] itself: each has one fault, and fails for it.
mod tests {
    use super::*;

    fn model() -> Model {
        Model::new("a timer and a grant", None)
            .reaches(["granted"])
            .reaches_by("timer", "timed out")
    }

    #[test]
    #[should_panic(expected = "a timer and a grant: never timed out")]
    fn model_with_a_dead_timer_fails() {
        model().check(|run| {
            run.spawn("timer", || ()).join();
            run.note("granted");
        });
    }

    #[test]
    #[should_panic(expected = "a timer and a grant: timed out also without its timer")]
    fn model_with_a_timed_outcome_without_its_timer_fails() {
        model().check(|run| {
            run.spawn("timer", || ()).join();
            run.note("granted");
            run.note("timed out");
        });
    }

    #[test]
    #[should_panic(expected = "cancelled is not declared")]
    fn model_with_an_outcome_that_it_does_not_declare_fails() {
        model().check(|run| run.note("cancelled"));
    }

    #[test]
    #[should_panic(expected = "no actor is named")]
    fn model_without_an_actor_fails() {
        Model::new("a grant", None)
            .reaches(["granted"])
            .check(|run| run.note("granted"));
    }
}
