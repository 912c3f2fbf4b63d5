//! Lists in a document: a node for each, whose text has the values with commas between them.

use std::hash::{BuildHasher, RandomState};
use std::thread;

use doclock::dsl::element;
use doclock::{DataStore, NodeId, Transaction, View};

use crate::checker::Level;
use crate::common::{commit, id, store};
use crate::driver::{Load, Outcome, Plan, Verdict, run};
use crate::history::{Key, Op, Value};

pub(crate) struct Lists {
    pub(crate) store: DataStore,
}

pub(crate) fn node(key: Key) -> NodeId {
    id(&format!("list {key}"))
}

pub(crate) fn read(view: &impl View, key: Key) -> Vec<Value> {
    parse(&text(view, key))
}

fn text(view: &impl View, key: Key) -> String {
    view.node(node(key)).unwrap().text().to_string()
}

fn parse(text: &str) -> Vec<Value> {
    let values = text.split(',').filter(|value| !value.is_empty());
    values.map(|value| value.parse().unwrap()).collect()
}

/// The text of a list after an append.
fn with(mut text: String, value: Value) -> String {
    if !text.is_empty() {
        text.push(',');
    }
    text + &value.to_string()
}

/// The list after an append, without concurrent writes.
pub(crate) fn appended(view: &impl View, key: Key, value: Value) -> String {
    with(text(view, key), value)
}

/// Appends by writing the whole list: a concurrent change of the list is visible in the result.
pub(crate) fn append(transaction: &mut Transaction, key: Key, value: Value) {
    let text = appended(transaction, key, value);
    transaction.set_text(node(key), text).unwrap();
}

/// Lets other threads run between the operations.
pub(crate) fn perform(transaction: &mut Transaction, ops: &mut [Op]) {
    for op in ops {
        thread::yield_now();
        match op {
            Op::Append { key, value } => append(transaction, *key, *value),
            Op::Read { key, observed } => *observed = read(transaction, *key),
        }
    }
}

/// Ends the transaction as planned.
pub(crate) fn finish(transaction: Transaction, plan: &Plan) -> Outcome {
    if plan.roll_back {
        transaction.rollback();
        return Outcome::Aborted;
    }
    match transaction.commit() {
        Ok(_) => Outcome::Committed,
        Err(_) => Outcome::Aborted,
    }
}

impl Lists {
    pub(crate) fn new(keys: Key) -> Self {
        let store = store();
        let lists = (0..keys).map(|key| element("list", []).with_id(node(key)));
        commit(&store, |transaction| {
            let root = transaction.create(element("lists", lists)).unwrap();
            transaction.set_root(&root).unwrap();
        });
        Self { store }
    }
}

/// How many histories a test checks. `DOCLOCK_HISTORIES` sets another number.
fn histories() -> usize {
    let usual = if cfg!(debug_assertions) { 20 } else { 1000 };
    given("DOCLOCK_HISTORIES").map_or(usual, |histories| histories as usize)
}

fn given(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Runs a load on a store of its own.
fn verdict(
    load: Load,
    level: Level,
    execute: impl Fn(&Lists, &mut Plan) -> Outcome + Sync,
) -> Verdict {
    let lists = Lists::new(load.keys);
    let history = run(
        &load,
        |plan| execute(&lists, plan),
        |key| read(&lists.store.snapshot(), key),
    );
    Verdict::on(load, history, level)
}

/// One load after another. `SEED` sets the first of the seeds.
fn loads() -> impl Iterator<Item = Load> {
    let first = given("SEED").unwrap_or_else(|| RandomState::new().hash_one(0));
    println!("SEED={first}");
    (0..).map(move |nth| Load::of(first.wrapping_add(nth)))
}

/// Fails with the first history that is not serializable.
pub(crate) fn assert_serializable(
    level: Level,
    execute: impl Fn(&Lists, &mut Plan) -> Outcome + Sync,
) {
    let (mut overlapped, mut committed, mut all) = (0, 0, 0);
    for load in loads().take(histories()) {
        let verdict = verdict(load, level, &execute);
        assert!(verdict.is_clean(), "{verdict}");
        overlapped += verdict.history.overlapped();
        committed += verdict.history.committed();
        all += verdict.history.transactions.len();
    }
    println!("{all} transactions, {committed} committed, {overlapped} overlapped");
    assert!(
        2 * committed > all && 2 * overlapped > all,
        "too little happened: of {all} transactions {committed} were committed and {overlapped} overlapped",
    );
}

/// The most histories in which a fault must be found.
const FEW: usize = 50;

/// Fails if no history shows the fault, or if one of a single thread does: then concurrency would
/// not be its cause.
pub(crate) fn assert_caught(level: Level, execute: impl Fn(&Lists, &mut Plan) -> Outcome + Sync) {
    let mut passed = Vec::new();
    for load in loads().take(FEW) {
        let alone = verdict(Load { threads: 1, ..load }, level, &execute);
        assert!(alone.is_clean(), "{alone}");
        let together = verdict(load, level, &execute);
        if !together.is_clean() {
            println!("caught behind {} clean histories: {together}", passed.len());
            return;
        }
        passed.push(together.to_string());
    }
    panic!("the fault was not found in\n{}", passed.join("\n"));
}
