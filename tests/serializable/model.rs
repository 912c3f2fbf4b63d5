//! A model of lists with serial transactions. It decides by brute force whether a history is
//! possible in it.

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::checker::Level;
use crate::common::Dice;
use crate::history::{History, Key, Op, Transaction, Value};

pub(crate) type Lists = BTreeMap<Key, Vec<Value>>;

/// A transaction without its values.
#[derive(Clone, Debug)]
pub(crate) struct Sketch {
    /// Whether it appends, and the list that it appends to or reads.
    ops: Vec<(bool, Key)>,
    committed: bool,
    /// How long it began before and ended after its moment of effect.
    around: (u64, u64),
}

pub(crate) fn sketches(
    count: impl Into<prop::collection::SizeRange>,
    keys: Key,
) -> impl Strategy<Value = Vec<Sketch>> {
    let ops = prop::collection::vec((any::<bool>(), 0..keys), 1..5);
    let committed = prop::bool::weighted(0.85);
    let sketch = (ops, committed, (0..40u64, 0..40u64));
    let sketch = sketch.prop_map(|(ops, committed, around)| Sketch {
        ops,
        committed,
        around,
    });
    prop::collection::vec(sketch, count)
}

/// The serial history of these transactions.
pub(crate) fn serial(sketches: &[Sketch]) -> History {
    let mut lists = Lists::new();
    let mut values = 1..;
    let transactions = sketches.iter().enumerate().map(|(nth, sketch)| {
        let moment = 100 + 10 * nth as u64;
        let (early, late) = sketch.around;
        let mut inside = lists.clone();
        let ops = sketch.ops.iter().map(|&(append, key)| {
            let list = inside.entry(key).or_default();
            match values.next().filter(|_| append) {
                Some(value) => {
                    list.push(value);
                    Op::Append { key, value }
                }
                None => Op::Read {
                    key,
                    observed: list.clone(),
                },
            }
        });
        let transaction = Transaction {
            process: nth,
            ops: ops.collect(),
            committed: sketch.committed,
            time: Some(moment - early..moment + late + 1),
        };
        if sketch.committed {
            lists = inside;
        }
        transaction
    });
    let transactions = transactions.collect();
    History {
        transactions,
        finals: lists,
    }
}

/// Serial histories whose transactions are reported in another order.
pub(crate) fn serial_histories(
    count: impl Into<prop::collection::SizeRange>,
    keys: Key,
) -> impl Strategy<Value = History> {
    let serial = sketches(count, keys).prop_map(|sketches| serial(&sketches));
    serial.prop_flat_map(|history| {
        let transactions = Just(history.transactions).prop_shuffle();
        let finals = history.finals;
        transactions.prop_map(move |transactions| History {
            transactions,
            finals: finals.clone(),
        })
    })
}

/// Whether some order of the committed transactions explains all reads.
pub(crate) fn can_be_serial(history: &History, level: Level) -> bool {
    let committed = history.transactions.iter().filter(|t| t.committed);
    place(
        &committed.collect::<Vec<_>>(),
        &Lists::new(),
        history,
        level,
    )
}

fn place(left: &[&Transaction], lists: &Lists, history: &History, level: Level) -> bool {
    if left.is_empty() {
        let full = |lists: &Lists| {
            let lists = lists.clone().into_iter();
            lists
                .filter(|(_, list)| !list.is_empty())
                .collect::<Lists>()
        };
        return full(lists) == full(&history.finals);
    }
    (0..left.len()).any(|nth| {
        let mut rest = left.to_vec();
        let next = rest.remove(nth);
        let in_time = level != Level::Strict || !rest.iter().any(|other| precedes(other, next));
        in_time && after(next, lists).is_some_and(|lists| place(&rest, &lists, history, level))
    })
}

fn precedes(one: &Transaction, other: &Transaction) -> bool {
    matches!((&one.time, &other.time), (Some(one), Some(other)) if one.end < other.start)
}

/// The lists after the transaction, if its reads match `lists`.
fn after(transaction: &Transaction, lists: &Lists) -> Option<Lists> {
    let mut lists = lists.clone();
    for op in &transaction.ops {
        match op {
            Op::Append { key, value } => lists.entry(*key).or_default().push(*value),
            Op::Read { key, observed } => {
                let list = lists.get(key).map_or(&[][..], Vec::as_slice);
                if list != observed {
                    return None;
                }
            }
        }
    }
    Some(lists)
}

/// Changes a read, or the outcome of a transaction. Not every change is an anomaly.
pub(crate) fn mutate(history: &mut History, dice: &mut Dice) {
    match dice.below(8) {
        0 => {
            let at = dice.below(history.transactions.len());
            history.transactions[at].committed ^= true;
        }
        1 => {
            let (one, other) = (seen(history, dice), seen(history, dice));
            let values = read(history, one).clone();
            let values = std::mem::replace(read(history, other), values);
            *read(history, one) = values;
        }
        // The most useful one: the list as it was at another time.
        2..=4 => {
            let at = seen(history, dice);
            let now = at.key;
            let mut values = history.finals.get(&now).cloned().unwrap_or_default();
            values.truncate(dice.below(values.len() + 1));
            *read(history, at) = values;
        }
        kind => {
            let at = seen(history, dice);
            let values = read(history, at);
            if values.is_empty() {
                return;
            }
            let (one, other) = (dice.below(values.len()), dice.below(values.len()));
            match kind {
                5 => drop(values.remove(one)),
                6 => values.swap(one, other),
                _ => values.push(values[one]),
            }
        }
    }
}

/// A read of a list: by an operation of a transaction, or the last one.
#[derive(Clone, Copy, Debug)]
struct At {
    key: Key,
    by: Option<(usize, usize)>,
}

fn seen(history: &History, dice: &mut Dice) -> At {
    let last = history.finals.keys().map(|key| At {
        key: *key,
        by: None,
    });
    let mut all: Vec<At> = last.collect();
    for (number, transaction) in history.transactions.iter().enumerate() {
        for (nth, op) in transaction.ops.iter().enumerate() {
            if let Op::Read { key, .. } = op {
                all.push(At {
                    key: *key,
                    by: Some((number, nth)),
                });
            }
        }
    }
    // There is always one, if necessary an unknown list.
    let nothing = At { key: 0, by: None };
    all.get(dice.below(all.len().max(1)))
        .copied()
        .unwrap_or(nothing)
}

fn read(history: &mut History, at: At) -> &mut Vec<Value> {
    let op = at
        .by
        .map(|(number, nth)| &mut history.transactions[number].ops[nth]);
    match op {
        Some(Op::Read { observed, .. }) => observed,
        _ => history.finals.entry(at.key).or_default(),
    }
}
