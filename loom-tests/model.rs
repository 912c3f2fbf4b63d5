//! Running one model and saying how it went.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// No model may take longer. Reaching the limit is a failure, never a silent end.
const LIMIT: Duration = Duration::from_secs(300);

/// Explores every execution of `body` with at most `bound` preemptions, or with any number for `None`.
pub(crate) fn check(name: &str, bound: Option<usize>, body: impl Fn() + Sync + Send + 'static) {
    check_all(name, bound, [], move |_| body());
}

/// As [`check`], and that each of the outcomes is reached by some execution. Without, a race could be absent from the model
/// that is about it.
pub(crate) fn check_all<const N: usize>(
    name: &str,
    bound: Option<usize>,
    outcomes: [&'static str; N],
    body: impl Fn(&Seen) + Sync + Send + 'static,
) {
    let executions = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&executions);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = bound;
    builder.max_permutations = None;
    builder.max_duration = Some(LIMIT);
    builder.max_branches = 100_000;

    let seen = Seen::default();
    let notes = seen.clone();
    let began = Instant::now();
    builder.check(move || {
        counter.fetch_add(1, Ordering::Relaxed);
        body(&notes);
    });
    let took = began.elapsed();
    let outcome = if took < LIMIT { "complete" } else { "capped" };
    let bound = bound.map_or("none".to_owned(), |bound| bound.to_string());
    let executions = executions.load(Ordering::Relaxed);
    let seen = seen.0.lock().unwrap();
    let counts = seen.iter().map(|(what, times)| format!(", {what} {times}"));
    let counts: String = counts.collect();
    println!("model {name}: bound {bound}, {executions} executions, {took:.1?}, {outcome}{counts}");
    assert_eq!(outcome, "complete", "{name} was not explored to its end");
    for outcome in outcomes {
        assert!(seen.contains_key(outcome), "{name}: never {outcome}");
    }
}

/// How often what came about, over all executions of a model.
#[derive(Clone, Default)]
pub(crate) struct Seen(Arc<Mutex<BTreeMap<&'static str, u64>>>);

impl Seen {
    pub(crate) fn note(&self, what: &'static str) {
        *self.0.lock().unwrap().entry(what).or_default() += 1;
    }
}
