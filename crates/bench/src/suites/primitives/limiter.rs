//! The cost of acquiring and releasing a free slot.
//!
//! Each call to a downstream pays this, so it must be small compared with a call that leaves the
//! process. A semaphore measures nothing; a limiter needs the durations of calls, which costs two
//! clock readings each. The calls here do nothing and are so short that the limiter samples one in
//! 64.

use std::sync::Arc;

use doclock::lock::limiter::{InFlightLimiter, LimiterOptions};
use tokio::sync::Semaphore;

use super::SUITE;
use crate::Result;
use crate::measure::{interleaved, timed};
use crate::report::{Report, Unit};

/// Long enough for the clock's cost to be negligible, short enough for one time slice of a thread.
const PAIRS: u32 = 20_000;

const ABOUT: &str =
    "Acquire and release one of eight free slots from one thread, in batches of 20,000.";

/// A subject with slots.
trait Subject {
    fn name(&self) -> &'static str;

    /// The guarantees for its cost.
    fn note(&self) -> &'static str;

    /// Acquires and releases so many times.
    fn run(&mut self, pairs: u32) -> Result;
}

struct Limiter {
    name: &'static str,
    note: &'static str,
    limiter: InFlightLimiter<&'static str>,
}

impl Limiter {
    fn new(name: &'static str, note: &'static str, options: LimiterOptions<&'static str>) -> Self {
        let limiter = InFlightLimiter::with_options(options);
        Self {
            name,
            note,
            limiter,
        }
    }
}

impl Subject for Limiter {
    fn name(&self) -> &'static str {
        self.name
    }

    fn note(&self) -> &'static str {
        self.note
    }

    fn run(&mut self, pairs: u32) -> Result {
        for _ in 0..pairs {
            drop(self.limiter.acquire("payments")?);
        }
        Ok(())
    }
}

/// A call instead of a permit: it borrows the limiter, as the semaphore's permit borrows the
/// semaphore.
struct Run(InFlightLimiter<&'static str>);

impl Subject for Run {
    fn name(&self) -> &'static str {
        "doclock limiter, run"
    }

    fn note(&self) -> &'static str {
        "a call within run, instead of a permit that may travel"
    }

    fn run(&mut self, pairs: u32) -> Result {
        for _ in 0..pairs {
            self.0.run("payments", |_| ())?;
        }
        Ok(())
    }
}

struct Plain(Semaphore);

impl Subject for Plain {
    fn name(&self) -> &'static str {
        "tokio Semaphore"
    }

    fn note(&self) -> &'static str {
        "try_acquire; one count, measures nothing"
    }

    fn run(&mut self, pairs: u32) -> Result {
        for _ in 0..pairs {
            drop(self.0.try_acquire()?);
        }
        Ok(())
    }
}

/// A manual solution that measures the latency.
struct Clocked {
    semaphore: Arc<Semaphore>,
    /// Whether the permit may move between threads, as the limiter's may.
    owned: bool,
    clock: quanta::Clock,
    total: u64,
}

impl Clocked {
    fn new(owned: bool) -> Self {
        Self {
            semaphore: Arc::new(Semaphore::new(8)),
            owned,
            clock: quanta::Clock::new(),
            total: 0,
        }
    }
}

/// Reads the clock twice, as at the beginning and at the end of a call.
fn passed(clock: &quanta::Clock) -> u64 {
    let began = clock.raw();
    let ended = std::hint::black_box(clock).raw();
    clock.delta_as_nanos(began, ended)
}

impl Subject for Clocked {
    fn name(&self) -> &'static str {
        match self.owned {
            true => "tokio Semaphore + clock, owned",
            false => "tokio Semaphore + clock",
        }
    }

    fn note(&self) -> &'static str {
        match self.owned {
            true => "try_acquire_owned, and the same",
            false => "try_acquire, and the time from there to the release, summed up",
        }
    }

    fn run(&mut self, pairs: u32) -> Result {
        for _ in 0..pairs {
            if self.owned {
                let permit = Arc::clone(&self.semaphore).try_acquire_owned()?;
                self.total += passed(&self.clock);
                drop(permit);
            } else {
                let permit = self.semaphore.try_acquire()?;
                self.total += passed(&self.clock);
                drop(permit);
            }
        }
        std::hint::black_box(self.total);
        Ok(())
    }
}

/// doclock's forms come first; ratios compare the first of them.
fn subjects() -> Vec<Box<dyn Subject>> {
    let named = LimiterOptions::new(1).limit("payments", 8);
    let both = LimiterOptions::new(1).limit("payments", 8).global_limit(16);
    vec![
        Box::new(Limiter::new(
            "doclock limiter",
            "a key configured by name; limits, fairness, percentiles",
            named.clone(),
        )),
        Box::new(Run(InFlightLimiter::with_options(named))),
        Box::new(Limiter::new(
            "doclock limiter, global limit",
            "the same under a global limit",
            both,
        )),
        Box::new(Limiter::new(
            "doclock limiter, any key",
            "a key that nothing is said of: made and dropped each time",
            LimiterOptions::new(8),
        )),
        Box::new(Clocked::new(true)),
        Box::new(Clocked::new(false)),
        Box::new(Plain(Semaphore::new(8))),
    ]
}

pub fn run(rounds: usize, report: &Report) -> Result {
    let mut subjects = subjects();
    let notes: Vec<_> = subjects.iter().map(|s| (s.name(), s.note())).collect();
    report.heading(SUITE, ABOUT, &notes)?;
    let spreads = interleaved(rounds, &mut subjects, |_, subject| {
        let time = timed(|| subject.run(PAIRS))?;
        Ok(Some(time.as_secs_f64() * 1e9 / f64::from(PAIRS)))
    })?;
    let names = subjects.iter().map(|subject| subject.name());
    report.case(SUITE, "free slot", Unit::NsPerPair, names.zip(spreads))
}
