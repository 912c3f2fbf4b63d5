//! Calls to a lock while another thread lists its waiters.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use doclock::DataStore;

use super::ladder::Sample;
use crate::Result;
use crate::suites::lock::crowd::waiters::Waiters;

pub const SIZES: &[usize] = &[100, 300, 1_000, 3_000, 8_000];

const CALLS: u32 = 1_000;

/// From the end of one call to the next.
const PACE: Duration = Duration::from_micros(200);

pub fn queue_info(waiters: usize) -> Result<Sample> {
    calls_beside(waiters, |store| drop(black_box(store.queue_info())))
}

pub fn lock_stats(waiters: usize) -> Result<Sample> {
    calls_beside(waiters, |store| drop(black_box(store.lock_stats())))
}

/// The 99th percentile of a short call. Another thread lists the waiters half of the time.
fn calls_beside(count: usize, list: fn(&DataStore)) -> Result<Sample> {
    let store = DataStore::new();
    let waiters = Waiters::gather(&store, count)?;
    let over = AtomicBool::new(false);
    let times = thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let start = Instant::now();
                list(&store);
                thread::sleep(start.elapsed());
            }
        });
        let call = |_| {
            // After a sleep, the thread does not wait for a processor.
            thread::sleep(PACE);
            let start = Instant::now();
            black_box(store.queue_length());
            start.elapsed().as_nanos() as f64
        };
        let times = (0..CALLS).map(call).collect();
        over.store(true, Ordering::Relaxed);
        times
    });
    let given = waiters.len();
    waiters.let_go()?;
    let refused = (given < count).then(|| format!("the machine has {given} threads"));
    let sample = Sample::quantile(times, 0.99)?;
    Ok(Sample { refused, ..sample })
}
