//! A recorder whose metrics are atomic numbers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use std::time::Duration;

use metrics::{
    Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
    counter, histogram,
};

use crate::Result;

#[derive(Default)]
struct Atomic {
    histograms: Arc<Sum>,
}

/// The number of values, and their sum in nanoseconds.
#[derive(Default)]
struct Sum {
    count: AtomicU64,
    nanoseconds: AtomicU64,
}

impl HistogramFn for Sum {
    fn record(&self, value: f64) {
        self.count.fetch_add(1, Ordering::Relaxed);
        let nanoseconds = (value * 1e9) as u64;
        self.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
    }
}

impl Recorder for Atomic {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(Arc::new(AtomicU64::new(0)))
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(Arc::clone(&self.histograms))
    }
}

/// The metrics of one transaction, by themselves.
pub struct Alone {
    transactions: Counter,
    wait: Histogram,
    hold: Histogram,
}

impl Alone {
    pub fn new() -> Self {
        Self {
            transactions: counter!("transactions"),
            wait: histogram!("wait"),
            hold: histogram!("hold"),
        }
    }

    pub fn record(&self, nth: usize) {
        self.transactions.increment(1);
        self.wait.record(Duration::ZERO);
        self.hold.record(Duration::from_nanos(nth as u64));
    }
}

pub fn counted(code: impl FnOnce() -> Result) -> Result {
    let atomic = Atomic::default();
    metrics::with_local_recorder(&atomic, code)?;
    match atomic.histograms.count.load(Ordering::Relaxed) {
        0 => Err("the recorder saw no transaction".into()),
        _ => Ok(()),
    }
}
