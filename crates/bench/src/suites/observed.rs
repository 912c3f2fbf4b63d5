//! The cost of observation: transactions with the features `tracing` and `metrics`, without and
//! with a subscriber and a recorder.
//!
//! Whether doclock has the features is a matter of the build, so four builds are compared:
//!
//! ```console
//! cargo run --release -p doclock-bench -- observed
//! cargo run --release -p doclock-bench --features tracing -- observed
//! cargo run --release -p doclock-bench --features metrics -- observed
//! cargo run --release -p doclock-bench --features tracing,metrics -- observed
//! ```

#[cfg(feature = "metrics")]
mod recorder;
#[cfg(feature = "tracing")]
mod subscriber;

use doclock::dsl::{create, insert_text, set_text, text_node};
use doclock::{DataStore, TransactionManager};

use crate::Result;
use crate::measure::{Spread, interleaved, timed};
use crate::report::{Report, Unit};

const SUITE: &str = "diagnostics";

/// Transactions per subject and round.
const TRANSACTIONS: usize = 20_000;

/// After so many inserts the text is emptied, so that its length does not matter.
const LETTERS: usize = 40;

const ABOUT: &str = "\
One transaction of one operation, all from one thread: insert a character into a text.
Cases are FEATURES/OBSERVER: the features of the build, and whether there is a subscriber or a
recorder that counts. Compare a case with plain/none of a build without features.";

/// The features of doclock in this build.
const FEATURES: &str = match (cfg!(feature = "tracing"), cfg!(feature = "metrics")) {
    (false, false) => "plain",
    (true, false) => "tracing",
    (false, true) => "metrics",
    (true, true) => "tracing+metrics",
};

struct Subject {
    name: &'static str,
    manager: TransactionManager,
    run: fn(&TransactionManager, usize) -> Result,
}

impl Subject {
    fn new(name: &'static str, run: fn(&TransactionManager, usize) -> Result) -> Result<Self> {
        let manager = TransactionManager::new(DataStore::new());
        manager.execute(create(text_node("text", "").with_id("t")))?;
        Ok(Self { name, manager, run })
    }

    fn all() -> Result<Vec<Self>> {
        Ok(vec![
            Self::new("doclock (begin)", by_hand)?,
            Self::new("doclock (execute)", batch)?,
        ])
    }
}

fn by_hand(manager: &TransactionManager, nth: usize) -> Result {
    let mut transaction = manager.store().begin(manager.owner().clone())?;
    match nth % LETTERS {
        0 => transaction.set_text("t", "")?,
        _ => transaction.insert_text("t", 0, "x")?,
    };
    transaction.commit()?;
    Ok(())
}

fn batch(manager: &TransactionManager, nth: usize) -> Result {
    let operation = match nth % LETTERS {
        0 => set_text(""),
        _ => insert_text(0, "x"),
    };
    manager.execute(operation.on("t"))?;
    Ok(())
}

pub fn run(rounds: usize, report: &Report) -> Result {
    let mut subjects = Subject::all()?;
    let note = "one operation, committed";
    let notes: Vec<_> = subjects
        .iter()
        .map(|subject| (subject.name, note))
        .collect();
    report.heading(SUITE, ABOUT, &notes)?;
    // First: a subscriber that was ever set makes the check for one slower.
    let spreads = measured(rounds, &mut subjects)?;
    record(report, "none", &subjects, spreads)?;
    counted(|| {
        let mut subjects = Subject::all()?;
        let spreads = measured(rounds, &mut subjects)?;
        record(report, "counting", &subjects, spreads)?;
        observer_alone(rounds, report)
    })
}

fn record(
    report: &Report,
    observer: &str,
    subjects: &[Subject],
    spreads: Vec<Option<Spread>>,
) -> Result {
    let case = format!("{FEATURES}/{observer}");
    let names = subjects.iter().map(|subject| subject.name);
    report.case(SUITE, &case, Unit::NsPerTransaction, names.zip(spreads))
}

/// What the observer costs by itself: the same span, and the same metrics, around nothing.
fn observer_alone(rounds: usize, report: &Report) -> Result {
    type Observe = Box<dyn Fn(usize)>;
    let mut alone: Vec<(&str, Observe)> = Vec::new();
    #[cfg(feature = "metrics")]
    {
        let metrics = recorder::Alone::new();
        alone.push(("metrics alone", Box::new(move |nth| metrics.record(nth))));
    }
    #[cfg(feature = "tracing")]
    alone.push(("tracing alone", Box::new(subscriber::alone)));
    let spreads = interleaved(rounds, &mut alone, |_, (_, observe)| {
        let time = timed(|| {
            (0..TRANSACTIONS).for_each(observe);
            Ok(())
        })?;
        Ok(Some(time.as_secs_f64() * 1e9 / TRANSACTIONS as f64))
    })?;
    let names = alone.iter().map(|(name, _)| *name);
    let case = format!("{FEATURES}/alone");
    report.case(SUITE, &case, Unit::NsPerTransaction, names.zip(spreads))
}

fn measured(rounds: usize, subjects: &mut [Subject]) -> Result<Vec<Option<Spread>>> {
    interleaved(rounds, subjects, |_, subject| {
        let time =
            timed(|| (0..TRANSACTIONS).try_for_each(|nth| (subject.run)(&subject.manager, nth)))?;
        Ok(Some(time.as_secs_f64() * 1e9 / TRANSACTIONS as f64))
    })
}

/// Runs `code` with a subscriber and a recorder that count, as far as the build has the features.
/// Fails if one of them counts nothing.
#[cfg(any(feature = "tracing", feature = "metrics"))]
fn counted(code: impl FnOnce() -> Result) -> Result {
    #[cfg(feature = "metrics")]
    let code = || recorder::counted(code);
    #[cfg(feature = "tracing")]
    let code = || subscriber::counted(code);
    code()
}

/// Without the features there is nothing to count.
#[cfg(not(any(feature = "tracing", feature = "metrics")))]
fn counted(_: impl FnOnce() -> Result) -> Result {
    Ok(())
}
