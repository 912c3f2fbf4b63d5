//! Histories in a short notation.

use std::ops::Range;

use crate::history::{History, Key, Op, Transaction, Value};

/// A history of transactions and of the last reads, each as operations with spaces between: `x+1`
/// appends 1 to list x, `x:1,2` sees 1 and 2 in it. A transaction that starts with `!` was rolled
/// back, one that ends in `@3..7` ran from tick 3 to tick 7.
pub(crate) fn history<const N: usize>(transactions: [&str; N], finals: &str) -> History {
    let finals = finals.split_whitespace().map(|word| match op(word) {
        Op::Read { key, observed } => (key, observed),
        Op::Append { .. } => panic!("{word} is no read"),
    });
    History {
        transactions: transactions.iter().map(|text| transaction(text)).collect(),
        finals: finals.collect(),
    }
}

fn transaction(text: &str) -> Transaction {
    let committed = !text.starts_with('!');
    let words = text.trim_start_matches('!').split_whitespace();
    let (times, ops): (Vec<&str>, Vec<&str>) = words.partition(|word| word.starts_with('@'));
    Transaction {
        process: 0,
        ops: ops.into_iter().map(op).collect(),
        committed,
        time: times.first().map(|word| time(word)),
    }
}

fn op(word: &str) -> Op {
    let key = Key::from(word.as_bytes()[0]);
    let values = word[2..].split(',').filter(|value| !value.is_empty());
    let mut values = values.map(|value| value.parse::<Value>().unwrap());
    match word.as_bytes()[1] {
        b'+' => Op::Append {
            key,
            value: values.next().unwrap(),
        },
        b':' => Op::Read {
            key,
            observed: values.collect(),
        },
        _ => panic!("{word} is no operation"),
    }
}

fn time(word: &str) -> Range<u64> {
    let (start, end) = word[1..].split_once("..").unwrap();
    start.parse().unwrap()..end.parse().unwrap()
}
