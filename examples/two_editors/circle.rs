//! Both go on to where the other is: the circle that this would close is refused and told, and the
//! loser tries again.

use std::fmt::Write;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use doclock::{
    DataStore, NodeId, Transaction, View,
    lock::{
        AcquireOptions, LockError, LockMode,
        node::{Deadlock, Scope},
    },
    transaction::retry,
};

use crate::Failure;
use crate::document::{ANN, BOB, Editor};
use crate::overlap::joined;

/// Enough for one refusal: by then the other has got what it waited for.
const ATTEMPTS: u32 = 2;

/// Lets both sign both titles, each its own first. Returns what there was to see.
pub fn run(store: &DataStore) -> Result<String, Failure> {
    let both_have_one = Barrier::new(2);
    thread::scope(|scope| {
        let ann = scope.spawn(|| {
            let begun = begin_with_own_title(store, &ANN);
            both_have_one.wait();
            let mut transaction = begun?;
            // Here she waits, until Bob has given up.
            sign(&mut transaction, &ANN, BOB.title)?;
            Ok(transaction.commit()?.version)
        });
        let bob = scope.spawn(|| sign_both(store, &both_have_one));
        let (mut text, bob) = joined(bob)?;
        let ann = joined(ann)?;
        // A string takes whatever is written to it.
        let _ = writeln!(
            text,
            "  ann commits version {ann}, and bob, trying again, version {bob}"
        );
        Ok(text)
    })
}

/// Signs both titles for Bob, and returns what he saw, with the version that he made.
fn sign_both(store: &DataStore, both_have_one: &Barrier) -> Result<(String, u64), Failure> {
    let mut seen = String::new();
    let mut attempts = 0;
    let committed = retry(ATTEMPTS, || -> Result<_, Failure> {
        attempts += 1;
        let begun = begin_with_own_title(store, &BOB);
        if attempts == 1 {
            both_have_one.wait();
            // Bob asks second, so it is he who is refused.
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

/// Begins with nothing locked, because what code does is seen only when it does it, and signs.
fn begin_with_own_title(store: &DataStore, editor: &Editor) -> Result<Transaction, Failure> {
    let options = AcquireOptions::new().label("sign both titles");
    let mut transaction = store.begin_on_with(editor.name, Scope::new(), options)?;
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
fn sign(transaction: &mut Transaction, editor: &Editor, title: &str) -> Result<(), Failure> {
    let name = format!("({}) ", editor.name);
    Ok(transaction.insert_text(&title.into(), 0, name)?)
}

/// The circle, link by link.
fn told(deadlock: &Deadlock) -> String {
    let mut text =
        "each goes on to the other's title: a circle, which the second is refused\n".to_owned();
    let links = &deadlock.links;
    // What one holds is what the one before it waits for.
    let before = links.iter().cycle().skip(links.len().saturating_sub(1));
    for (link, before) in links.iter().zip(before) {
        let held = &before.waits_for.node;
        let (mode, wants) = (before.held_by_next, &link.waits_for);
        let [held_for, waiting_for] = [link.held_for, link.waiting_for].map(millis);
        let since = match link.waiting_for {
            Duration::ZERO => "and asks".to_owned(),
            _ => format!("and has waited for {waiting_for:.1} ms"),
        };
        // A string takes whatever is written to it.
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

/// What is left of what Bob had done.
fn rolled_back(store: &DataStore) -> Result<String, Failure> {
    let title = store.snapshot().text_of(&BOB.title.into())?;
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
