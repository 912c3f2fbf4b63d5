//! The costs in bytes of the suite `growth`; doclock-bench measures the costs in time.

use std::time::{Duration, SystemTime};

use doclock::{DataStore, document::NodeSpec, inbox::Inbox};

#[path = "../../src/suites/growth/inputs.rs"]
mod inputs;
#[path = "../../src/suites/growth/ladder.rs"]
mod ladder;

use inputs::Marked;
use ladder::{Dimension, SUITE, Sample, Unit};

use crate::Result;

const KEYSTROKES: usize = 1_000;

/// In the order of docs/performance.md.
const DIMENSIONS: [Dimension; 5] = [
    Dimension::new(
        Unit::Bytes,
        savepoints,
        "savepoints-bytes",
        "Savepoints that are kept, in bytes",
        "savepoints",
    ),
    Dimension::new(
        Unit::Bytes,
        history,
        "marks-history",
        "History of 1,000 keystrokes between marks",
        "marks",
    ),
    Dimension::new(
        Unit::Bytes,
        unread,
        "unread-events",
        "A store whose subscription is dropped unread",
        "events",
    ),
    Dimension::new(
        Unit::Bytes,
        inboxes,
        "inboxes",
        "Inboxes whose event is pruned",
        "inboxes",
    ),
    Dimension::new(
        Unit::Bytes,
        pruned,
        "pruned-events",
        "An inbox whose events are pruned",
        "events",
    ),
];

pub fn run(most: Option<usize>, json: bool) -> Result {
    if !json {
        println!("== {SUITE} ==\nBytes that stay allocated, with larger and larger inputs.");
    }
    for dimension in &DIMENSIONS {
        if !json {
            println!("{}", dimension.heading());
        }
        // One-time allocations do not count.
        (dimension.measure)(1)?;
        dimension.climb(1, most, |row| {
            match json {
                true => println!("{}", serde_json::to_string(row)?),
                false => println!("{}", row.line()),
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// The bytes that stay allocated while the result of `work` exists.
fn kept<T>(work: impl FnOnce() -> Result<T>) -> Result<Sample> {
    let before = crate::bytes();
    let _kept = work()?;
    Ok(Sample::new(crate::bytes() - before))
}

fn savepoints(count: usize) -> Result<Sample> {
    let mut transaction = DataStore::new().begin("growth")?;
    kept(|| inputs::savepoints(&mut transaction, count))
}

fn history(marks: usize) -> Result<Sample> {
    let text = Marked::new(marks)?;
    kept(|| (0..KEYSTROKES).try_for_each(|before| text.keystroke(before)))
}

fn unread(events: usize) -> Result<Sample> {
    kept(|| {
        let store = DataStore::new();
        let mut transaction = store.begin("growth")?;
        let text = transaction.create(NodeSpec::new("text"))?;
        transaction.commit()?;
        let subscription = store.subscribe();
        for text_now in ["a", "b"].into_iter().cycle().take(events) {
            let mut transaction = store.begin("growth")?;
            transaction.set_text(&text, text_now)?;
            transaction.commit()?;
        }
        drop(subscription);
        Ok(store)
    })
}

fn inboxes(count: usize) -> Result<Sample> {
    kept(|| {
        let store = DataStore::new();
        for nth in 0..count {
            take_in_and_prune(&Inbox::new(&store, format!("inbox {nth}")), 1)?;
        }
        Ok(store)
    })
}

fn pruned(events: usize) -> Result<Sample> {
    kept(|| {
        let inbox = Inbox::new(&DataStore::new(), "inbox");
        take_in_and_prune(&inbox, events)?;
        Ok(inbox)
    })
}

fn take_in_and_prune(inbox: &Inbox, events: usize) -> Result {
    let day = |day| SystemTime::UNIX_EPOCH + day * Duration::from_secs(24 * 3600);
    for nth in 0..events {
        let event = (format!("event {nth}"), day(0), ());
        inbox.process(&event, |_, _| Ok(()))?;
    }
    match inbox.prune(day(1)) {
        all if all == events => Ok(()),
        pruned => Err(format!("{pruned} of {events} events were pruned").into()),
    }
}
