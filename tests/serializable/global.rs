//! Transactions under the document lock, and clients that bypass it.

use std::thread;

use doclock::View;

use crate::checker::Level;
use crate::driver::{Outcome, Plan};
use crate::history::{Op, Value};
use crate::lists::{
    Lists, append, appended, assert_caught, assert_serializable, finish, node, perform, read,
};

pub(crate) fn globally_locked(lists: &Lists, plan: &mut Plan) -> Outcome {
    let Ok(mut transaction) = lists.store.begin(format!("thread {}", plan.process)) else {
        return Outcome::Aborted;
    };
    perform(&mut transaction, &mut plan.ops);
    finish(transaction, plan)
}

pub(crate) fn only_reads(plan: &Plan) -> bool {
    let mut ops = plan.ops.iter();
    ops.all(|op| matches!(op, Op::Read { .. }))
}

#[test]
pub(crate) fn globally_locked_transactions_are_serializable() {
    assert_serializable(Level::Strict, globally_locked);
}

#[test]
fn a_snapshot_is_a_transaction_that_only_reads() {
    assert_serializable(Level::Strict, |lists, plan| {
        if !only_reads(plan) {
            return globally_locked(lists, plan);
        }
        read_all(&lists.store.snapshot(), &mut plan.ops);
        Outcome::Committed
    });
}

pub(crate) fn read_all(view: &impl View, ops: &mut [Op]) {
    for op in ops {
        if let Op::Read { key, observed } = op {
            *observed = read(view, *key);
        }
    }
}

/// A client that reads from a snapshot before its transaction, and adds its own appends since then.
/// Its writes use the transaction.
#[test]
fn reads_from_before_the_transaction_are_caught() {
    assert_caught(Level::Serializable, |lists, plan| {
        let stale = lists.store.snapshot();
        thread::yield_now();
        let Ok(mut transaction) = lists.store.begin("stale") else {
            return Outcome::Aborted;
        };
        let mut own: Vec<(u32, Value)> = Vec::new();
        for op in &mut plan.ops {
            match op {
                Op::Append { key, value } => {
                    append(&mut transaction, *key, *value);
                    own.push((*key, *value));
                }
                Op::Read { key, observed } => {
                    *observed = read(&stale, *key);
                    let own = own.iter().filter(|(of, _)| of == key);
                    observed.extend(own.map(|(_, value)| value));
                }
            }
        }
        finish(transaction, plan)
    });
}

/// A client that reads a list in one transaction and writes it in another.
#[test]
fn a_read_modify_write_in_two_transactions_is_caught() {
    assert_caught(Level::Serializable, |lists, plan| {
        let Some(Op::Append { key, value }) = plan.ops.first().cloned() else {
            return globally_locked(lists, plan);
        };
        plan.ops.truncate(1);
        let Ok(first) = lists.store.begin("first") else {
            return Outcome::Aborted;
        };
        let text = appended(&first, key, value);
        first.rollback();
        thread::yield_now();
        let Ok(mut second) = lists.store.begin("second") else {
            return Outcome::Aborted;
        };
        second.set_text(node(key), text).unwrap();
        finish(second, plan)
    });
}
