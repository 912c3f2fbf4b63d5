//! What transactions on lists asked for, and what they were told.

use std::collections::BTreeMap;
use std::ops::Range;

/// Names a list.
pub(crate) type Key = u32;

/// What is appended to a list. No value is appended twice in a history, so that each names its
/// writer.
pub(crate) type Value = u64;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Append { key: Key, value: Value },
    Read { key: Key, observed: Vec<Value> },
}

#[derive(Clone, Debug)]
pub(crate) struct Transaction {
    /// Which thread ran it.
    pub(crate) process: usize,
    pub(crate) ops: Vec<Op>,
    /// What was not committed was rolled back for certain: there is no third outcome.
    pub(crate) committed: bool,
    /// From before it asked to begin until after it knew its outcome, in ticks of one counter.
    pub(crate) time: Option<Range<u64>>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    /// In no particular order; a transaction is named by its place here.
    pub(crate) transactions: Vec<Transaction>,
    /// Every list as it was after all transactions.
    pub(crate) finals: BTreeMap<Key, Vec<Value>>,
}

impl History {
    pub(crate) fn committed(&self) -> usize {
        self.transactions.iter().filter(|t| t.committed).count()
    }

    /// How many transactions were under way while another one was.
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
