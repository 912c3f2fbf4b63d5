//! Each editor proceeds to the section of the other: the request that would close a cycle fails
//! with a report, and its editor retries.

use std::fmt::Write;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use doclock::{
    DataStore, Draft, NodeId, Transaction, View,
    lock::{
        AcquireOptions, LockError, LockMode,
        node::{Deadlock, Scope},
    },
    transaction::retry,
};

use crate::Failure;
use crate::document::{ANN, BOB, Editor};
use crate::overlap::joined;

/// Enough for one failure: by the second attempt the other editor has its locks.
const ATTEMPTS: u32 = 2;

/// Both editors sign both titles, each its own first. Returns the output.
pub fn run(store: &DataStore) -> Result<String, Failure> {
    let both_have_one = Barrier::new(2);
    thread::scope(|scope| {
        let ann = scope.spawn(|| {
            let begun = begin_with_own_title(store, &ANN);
            both_have_one.wait();
            let mut transaction = begun?;
            // This waits until Bob's transaction has failed.
            sign(&mut transaction, &ANN, BOB.title)?;
            Ok(transaction.commit()?.version)
        });
        let bob = scope.spawn(|| sign_both(store, &both_have_one));
        let (mut text, bob) = joined(bob)?;
        let ann = joined(ann)?;
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "  ann commits version {ann}, and bob, trying again, version {bob}"
        );
        Ok(text)
    })
}

/// Signs both titles for Bob, and returns the output with the version of his commit.
fn sign_both(store: &DataStore, both_have_one: &Barrier) -> Result<(String, u64), Failure> {
    let mut seen = String::new();
    let mut attempts = 0;
    let committed = retry(ATTEMPTS, || -> Result<_, Failure> {
        attempts += 1;
        let begun = begin_with_own_title(store, &BOB);
        if attempts == 1 {
            both_have_one.wait();
            // Bob's request is the second one, so it is the one that fails.
            until_somebody_waits(store)?;
        }
        let mut transaction = begun?;
        let signed = sign(&mut transaction, &BOB, ANN.title);
        if let Some(LockError::Deadlock(deadlock)) = transaction.lock_error() {
            seen = told(deadlock);
        }
        if let Err(error) = signed {
            drop(transaction);
            seen += &rolled_back(store)?;
            return Err(error);
        }
        Ok(transaction.commit()?.version)
    })?;
    match attempts {
        2 => Ok((seen, committed)),
        _ => Err(format!("bob was to be refused once, and needed {attempts} attempts").into()),
    }
}

/// Begins without locks, because the changes of code are not known beforehand, and signs.
fn begin_with_own_title(store: &DataStore, editor: &Editor) -> Result<Transaction, Failure> {
    let options = AcquireOptions::new().label("sign both titles");
    let mut transaction = store
        .request_transaction(editor.name)
        .on(Scope::new())
        .options(options)
        .wait()?;
    sign(&mut transaction, editor, editor.title)?;
    Ok(transaction)
}

fn until_somebody_waits(store: &DataStore) -> Result<(), Failure> {
    let limit = Instant::now() + Duration::from_secs(1);
    while store.node_locks().stats().waiting == 0 {
        if Instant::now() > limit {
            return Err("ann does not ask for bob's title".into());
        }
        thread::yield_now();
    }
    Ok(())
}

/// Locks a title by writing to it.
fn sign(transaction: &mut Draft, editor: &Editor, title: &str) -> Result<(), Failure> {
    let name = format!("({}) ", editor.name);
    Ok(transaction.insert_text(title, 0, name)?)
}

/// The cycle, link by link.
fn told(deadlock: &Deadlock) -> String {
    let mut text =
        "each goes on to the other's title: a cycle, which the second is refused\n".to_owned();
    let links = &deadlock.links;
    // Each holder holds what the previous one waits for.
    let before = links.iter().cycle().skip(links.len().saturating_sub(1));
    for (link, before) in links.iter().zip(before) {
        let held = &before.waits_for.node;
        let (mode, wants) = (before.held_by_next, &link.waits_for);
        let [held_for, waiting_for] = [link.held_for, link.waiting_for].map(millis);
        let since = match link.waiting_for {
            Duration::ZERO => "and asks".to_owned(),
            _ => format!("and has waited for {waiting_for:.1} ms"),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "  {} ({}, {})\n    has held {} ({}) for {held_for:.1} ms, {since} for {} ({})",
            link.owner_id,
            link.lock_id,
            link.label.as_deref().unwrap_or("no label"),
            name(held.as_ref()),
            mode.map_or_else(String::new, |mode: LockMode| mode.to_string()),
            name(wants.node.as_ref()),
            wants.mode,
        );
    }
    text
}

fn name(node: Option<&NodeId>) -> String {
    node.map_or_else(|| "the document".to_owned(), NodeId::to_string)
}

/// The remains of Bob's first attempt.
fn rolled_back(store: &DataStore) -> Result<String, Failure> {
    let title = store.snapshot().text_of(BOB.title)?;
    match title.contains(BOB.name) {
        false => Ok(
            "  bob is rolled back whole: nothing of his is in his own title either\n".to_owned(),
        ),
        true => Err(format!("bob was not rolled back: {title}").into()),
    }
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
