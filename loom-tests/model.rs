//! Running one model and saying how it went.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// No model may take longer. Reaching the limit is a failure, never a silent end.
const LIMIT: Duration = Duration::from_secs(300);

/// Explores every execution of `body` with at most `bound` preemptions, or with any number for `None`.
pub(crate) fn check(name: &str, bound: Option<usize>, body: impl Fn() + Sync + Send + 'static) {
    let executions = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&executions);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = bound;
    builder.max_permutations = None;
    builder.max_duration = Some(LIMIT);
    builder.max_branches = 100_000;

    let began = Instant::now();
    builder.check(move || {
        counter.fetch_add(1, Ordering::Relaxed);
        body();
    });
    let took = began.elapsed();
    let outcome = if took < LIMIT { "complete" } else { "capped" };
    let bound = bound.map_or("none".to_owned(), |bound| bound.to_string());
    let executions = executions.load(Ordering::Relaxed);
    println!("model {name}: bound {bound}, {executions} executions, {took:.1?}, {outcome}");
    assert_eq!(outcome, "complete", "{name} was not explored to its end");
}
