//! Histories: the operations of transactions on lists, and their results.

use std::collections::BTreeMap;
use std::ops::Range;

/// Names a list.
pub(crate) type Key = u32;

/// A value in a list. No value is appended twice in a history, so each identifies its writer.
pub(crate) type Value = u64;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Append { key: Key, value: Value },
    Read { key: Key, observed: Vec<Value> },
}

#[derive(Clone, Debug)]
pub(crate) struct Transaction {
    /// The thread that ran it.
    pub(crate) process: usize,
    pub(crate) ops: Vec<Op>,
    /// An uncommitted transaction was certainly rolled back: there is no third outcome.
    pub(crate) committed: bool,
    /// From before its begin request until after its outcome, in ticks of one counter.
    pub(crate) time: Option<Range<u64>>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    /// In no particular order; a transaction is named by its index.
    pub(crate) transactions: Vec<Transaction>,
    /// Every list after all transactions.
    pub(crate) finals: BTreeMap<Key, Vec<Value>>,
}

impl History {
    pub(crate) fn committed(&self) -> usize {
        self.transactions.iter().filter(|t| t.committed).count()
    }

    /// How many transactions overlapped another one.
    pub(crate) fn overlapped(&self) -> usize {
        let times = self.transactions.iter().filter_map(|t| t.time.clone());
        let mut times: Vec<Range<u64>> = times.collect();
        times.sort_by_key(|time| time.start);
        let mut latest_end = 0;
        let beside = times.iter().enumerate().filter(|(at, time)| {
            let before = latest_end > time.start;
            latest_end = latest_end.max(time.end);
            before || times.get(at + 1).is_some_and(|next| next.start < time.end)
        });
        beside.count()
    }
}
