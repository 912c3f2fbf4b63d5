//! Transactions on nodes, concurrent with each other and with those on the document, and clients
//! that bypass the locks (NODE LOCKS 6).

use std::thread;

use doclock::{
    Transaction,
    codes::{CodedError, Retry},
    lock::{LockMode, node::Scope},
};

use crate::checker::Level;
use crate::driver::{Outcome, Plan};
use crate::global::{globally_locked, only_reads, read_all};
use crate::history::{Key, Op, Value};
use crate::lists::{Lists, appended, assert_caught, assert_serializable, finish, node, read};

/// The most attempts after transient errors.
const ATTEMPTS: usize = 100;

/// Shared locks for reads, write locks for appends.
fn declared(plan: &Plan) -> Scope {
    let locks = plan.ops.iter().map(|op| match op {
        Op::Append { key, .. } => (node(*key), LockMode::NodeExclusive),
        Op::Read { key, .. } => (node(*key), LockMode::NodeShared),
    });
    locks.collect()
}

/// Runs the operations, and ends as planned. `None` after a transient error.
fn carry_out(
    lists: &Lists,
    plan: &mut Plan,
    scope: Scope,
    read: impl Fn(&Transaction, Key) -> Vec<Value>,
) -> Option<Outcome> {
    let owner = format!("thread {}", plan.process);
    let mut transaction = lists.store.begin_on(owner, scope).ok()?;
    for op in &mut plan.ops {
        thread::yield_now();
        match op {
            Op::Append { key, value } => {
                let text = appended(&transaction, *key, *value);
                transaction.set_text(node(*key), text).ok()?;
            }
            Op::Read { key, observed } => *observed = read(&transaction, *key),
        }
    }
    if plan.roll_back {
        transaction.rollback();
        return Some(Outcome::Aborted);
    }
    thread::yield_now();
    match transaction.commit() {
        Ok(_) => Some(Outcome::Committed),
        Err(error) => {
            assert_eq!(error.retry(), Retry::Now, "{error}");
            None
        }
    }
}

fn until_done(mut attempt: impl FnMut() -> Option<Outcome>) -> Outcome {
    let mut attempts = (0..ATTEMPTS).filter_map(|_| attempt());
    attempts.next().unwrap_or(Outcome::Aborted)
}

fn on_declared_nodes(lists: &Lists, plan: &mut Plan) -> Outcome {
    let outcome = carry_out(lists, plan, declared(plan), read);
    outcome.expect("with all nodes locked before, nothing can come in between")
}

/// Locks its writes when they happen, and none of its reads.
fn as_it_goes(lists: &Lists, plan: &mut Plan) -> Outcome {
    until_done(|| carry_out(lists, plan, Scope::new(), read))
}

#[test]
fn node_locks_06_transactions_that_declare_their_nodes_are_serializable() {
    assert_serializable(Level::Strict, |lists, plan| match plan.process % 3 {
        0 => globally_locked(lists, plan),
        _ => on_declared_nodes(lists, plan),
    });
}

#[test]
fn node_locks_06_transactions_that_lock_step_by_step_are_serializable() {
    assert_serializable(Level::Strict, |lists, plan| match plan.process % 4 {
        0 => globally_locked(lists, plan),
        1 => on_declared_nodes(lists, plan),
        _ => as_it_goes(lists, plan),
    });
}

#[test]
fn node_locks_06_snapshots_beside_node_transactions_are_serializable() {
    assert_serializable(Level::Strict, |lists, plan| {
        if !only_reads(plan) {
            return as_it_goes(lists, plan);
        }
        read_all(&lists.store.snapshot(), &mut plan.ops);
        Outcome::Committed
    });
}

/// A client that reads from the base version instead of the transaction, so these reads are not
/// validated.
#[test]
fn unvalidated_reads_without_a_lock_are_caught() {
    assert_caught(Level::Serializable, |lists, plan| {
        // Only lists that it has not written itself.
        let written: Vec<Key> = plan.ops.iter().filter_map(appended_to).collect();
        let unlocked = |it: &Transaction, key| match written.contains(&key) {
            true => read(it, key),
            false => read(it.base(), key),
        };
        until_done(|| carry_out(lists, plan, Scope::new(), unlocked))
    });
}

fn appended_to(op: &Op) -> Option<Key> {
    match op {
        Op::Append { key, .. } => Some(*key),
        Op::Read { .. } => None,
    }
}

/// A client that releases its locks between reading and writing.
#[test]
fn locks_released_between_reading_and_writing_are_caught() {
    assert_caught(Level::Serializable, |lists, plan| {
        let Some(Op::Append { key, value }) = plan.ops.first().cloned() else {
            return on_declared_nodes(lists, plan);
        };
        plan.ops.truncate(1);
        let scope = || Scope::new().write(node(key));
        let begin = || lists.store.begin_on("hasty", scope()).unwrap();
        let first = begin();
        let text = appended(&first, key, value);
        first.rollback();
        thread::yield_now();
        let mut second = begin();
        second.set_text(node(key), text).unwrap();
        finish(second, plan)
    });
}
