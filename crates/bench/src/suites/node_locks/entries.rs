//! The entries that the table keeps for nodes that were locked.

use doclock::{
    DataStore, NodeId,
    lock::{AcquireOptions, LockMode, node::Scope},
};
use serde::Serialize;

use super::{Ids, SUITE, document};
use crate::Result;
use crate::measure::{Spread, take_turns, timed};
use crate::report::{Report, rounded};

const SECTIONS: usize = 1_000;
const PARAGRAPHS: usize = 1_000;

/// The number of rounds does not matter.
const ROUNDS: usize = 3;

const ABOUT: &str = "\
4. Kept: 1,000,000 paragraphs in 1,000 sections are locked; entries of the table while they are and when all
   are released, and nanoseconds a paragraph. Another holder has one paragraph locked, which is four entries: it,
   its section, the root, the document.";

/// Entries before, at the maximum, and afterwards.
struct Found {
    entries: [u64; 3],
    time: f64,
}

struct Subject {
    name: &'static str,
    beside: bool,
    lock: fn(&DataStore, &[NodeId]) -> Result<u64>,
}

#[derive(Serialize)]
struct Row {
    suite: &'static str,
    case: &'static str,
    subject: &'static str,
    value: f64,
    unit: &'static str,
    before: u64,
    most: u64,
    kept: u64,
}

pub fn run(rounds: usize, report: &Report) -> Result {
    report.text(ABOUT)?;
    report.text(&format!(
        "\n{:40} {:>9} {:>9} {:>9} {:>9}",
        "subject", "before", "most", "kept", "ns"
    ))?;
    let (store, paragraphs) = document(SECTIONS, PARAGRAPHS, Ids::Generated)?;
    let Some((others, paragraphs)) = paragraphs.split_first() else {
        return Err("no paragraphs".into());
    };
    let subject = |name, beside, lock| Box::new(Subject { name, beside, lock });
    let mut subjects = vec![
        subject("one by one, alone", false, one_by_one),
        subject("one by one, beside another", true, one_by_one),
        subject("all by one owner, beside another", true, all_together),
    ];
    let found = take_turns(rounds.min(ROUNDS), &mut subjects, |_, subject| {
        locked(subject, &store, others, paragraphs).map(Some)
    })?;
    for (subject, found) in subjects.iter().zip(found) {
        let times = found.iter().map(|found| found.time).collect();
        let (Some(last), Some(time)) = (found.last(), Spread::of(times)) else {
            continue;
        };
        let [before, most, kept] = last.entries;
        let row = Row {
            suite: SUITE,
            case: "1,000,000 nodes",
            subject: subject.name,
            value: rounded(time.median, 1),
            unit: "ns/pair",
            before,
            most,
            kept,
        };
        let line = format!(
            "{:40} {before:>9} {most:>9} {kept:>9} {:>9.1}",
            subject.name, time.median
        );
        report.row(&row, &line)?;
    }
    Ok(())
}

fn locked(
    subject: &Subject,
    store: &DataStore,
    others: &NodeId,
    paragraphs: &[NodeId],
) -> Result<Found> {
    let locks = store.node_locks();
    let unbound = || AcquireOptions::new().unbound();
    let other = subject
        .beside
        .then(|| {
            locks
                .request("bob", Scope::new().write(others))
                .options(unbound())
                .wait()
        })
        .transpose()?;
    // A lone holder has no entries until another request comes.
    let newcomer = locks
        .request("carl", Scope::new().read(others))
        .options(unbound().no_wait())
        .wait();
    drop(newcomer);
    let before = locks.stats().entries;
    let mut most = 0;
    let time = timed(|| {
        most = (subject.lock)(store, paragraphs)?;
        Ok(())
    })?;
    let kept = locks.stats().entries;
    drop(other);
    Ok(Found {
        entries: [before, most, kept],
        time: time.as_secs_f64() * 1e9 / paragraphs.len() as f64,
    })
}

fn one_by_one(store: &DataStore, paragraphs: &[NodeId]) -> Result<u64> {
    let locks = store.node_locks();
    let mut most = 0;
    for (number, id) in paragraphs.iter().enumerate() {
        let _guard = locks.lock("ann", Scope::new().write(id))?;
        if number % 100_000 == 0 {
            most = most.max(locks.stats().entries);
        }
    }
    Ok(most)
}

fn all_together(store: &DataStore, paragraphs: &[NodeId]) -> Result<u64> {
    let locks = store.node_locks();
    let mut guard = locks.lock("ann", Scope::new())?;
    for id in paragraphs {
        guard.extend([(id, LockMode::NodeExclusive)])?;
    }
    Ok(locks.stats().entries)
}
