//! A subscriber that counts its calls.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tracing::field::Empty;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber, record_all, span};

use crate::Result;

#[derive(Clone, Default)]
struct Counting(Arc<AtomicU64>);

impl Counting {
    fn count(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Subscriber for Counting {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        self.count();
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {
        self.count();
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        self.count();
    }

    fn enter(&self, _: &Id) {
        self.count();
    }

    fn exit(&self, _: &Id) {
        self.count();
    }
}

/// A span as wide as that of a transaction, around nothing: what `tracing` and its subscriber cost
/// by themselves.
pub fn alone(nth: usize) {
    let span = span!(
        Level::DEBUG,
        "doclock.transaction",
        store = "store",
        kind = "batch",
        owner = "owner",
        label = Empty,
        call_site = %nth,
        wait_ms = Empty,
        hold_ms = Empty,
        outcome = Empty,
        code = Empty,
        version = Empty,
        operations = Empty,
    );
    span.in_scope(|| black_box(nth));
    record_all!(
        span,
        wait_ms = 0.0,
        hold_ms = 0.1,
        outcome = "committed",
        version = nth,
        operations = 1,
    );
}

/// The subscriber is set for the whole process, as in most programs, and stays set.
pub fn counted(code: impl FnOnce() -> Result) -> Result {
    let counting = Counting::default();
    tracing::subscriber::set_global_default(counting.clone())?;
    code()?;
    match counting.0.load(Ordering::Relaxed) {
        0 => Err("the subscriber saw no span".into()),
        _ => Ok(()),
    }
}
