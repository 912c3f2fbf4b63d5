//! A subscriber that counts its calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

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

pub fn counted(code: impl FnOnce() -> Result) -> Result {
    let counting = Counting::default();
    tracing::subscriber::with_default(counting.clone(), code)?;
    match counting.0.load(Ordering::Relaxed) {
        0 => Err("the subscriber saw no span".into()),
        _ => Ok(()),
    }
}
