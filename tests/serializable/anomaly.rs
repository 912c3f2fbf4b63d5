//! Anomalies of a history.

use std::fmt;

use crate::history::{Key, Value};

/// Evidence that a history is not serial. Transactions are named by their index in the history.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Anomaly {
    #[error("{reader} saw {value} in list {key}, which no transaction appended to it")]
    Unwritten {
        reader: Reader,
        key: Key,
        value: Value,
    },
    /// G1a.
    #[error("{reader} saw {value} in list {key}, of transaction {writer}, which was rolled back")]
    AbortedRead {
        reader: Reader,
        key: Key,
        value: Value,
        writer: usize,
    },
    /// G1b.
    #[error(
        "{reader} saw list {key} in the middle of transaction {writer}: up to {value}, to which that appended more"
    )]
    IntermediateRead {
        reader: Reader,
        key: Key,
        value: Value,
        writer: usize,
    },
    #[error("{reader} saw {value} twice in list {key}")]
    Duplicate {
        reader: Reader,
        key: Key,
        value: Value,
    },
    #[error("{reader} saw {found} at place {place} of list {key}, where {longest} saw {expected}")]
    IncompatibleOrders {
        reader: Reader,
        longest: Reader,
        key: Key,
        /// The first index at which they differ.
        place: usize,
        found: Value,
        expected: Value,
    },
    #[error(
        "transaction {writer} was committed, and the {value} that it appended to list {key} is gone"
    )]
    LostAppend {
        writer: usize,
        key: Key,
        value: Value,
    },
    #[error("transaction {writer} appended {value} to list {key} before {next}, which comes first")]
    Reordered {
        writer: usize,
        key: Key,
        value: Value,
        next: Value,
    },
    /// A read that contradicts the transaction's own reads and appends.
    #[error(
        "operation {operation} of transaction {transaction} read of list {key} what does not follow from its own \
         operations before"
    )]
    Internal {
        transaction: usize,
        operation: usize,
        key: Key,
    },
    #[error(transparent)]
    Cycle(#[from] Cycle),
}

/// The reader of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    Transaction(usize),
    /// The read of all lists after all transactions.
    Last,
}

impl fmt::Display for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Transaction(number) => write!(f, "transaction {number}"),
            Self::Last => f.write_str("the last read"),
        }
    }
}

/// Transactions each of which must come before the next, and the last before the first.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) struct Cycle {
    pub(crate) class: Class,
    /// Whether it needs the order in time: then it contradicts only strict serializability.
    pub(crate) real_time: bool,
    pub(crate) edges: Vec<Edge>,
}

/// The phenomena of Adya: the least that contain the cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    /// Only writes.
    G0,
    /// Writes, and reads of written values.
    G1c,
    /// Exactly one read of a value that was overwritten later.
    GSingle,
    /// Several of these reads.
    G2,
}

/// Transaction `from` comes before transaction `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Edge {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) why: Dependency,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dependency {
    /// `to` appended the value behind one of `from`.
    WriteWrite { key: Key, value: Value },
    /// `to` saw the list up to the value, which `from` appended.
    WriteRead { key: Key, value: Value },
    /// `to` appended the value right after the version that `from` saw.
    ReadWrite { key: Key, value: Value },
    /// `to` began after `from` had ended.
    RealTime,
}

impl fmt::Display for Cycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let in_time = if self.real_time { " in real time" } else { "" };
        write!(f, "{:?} cycle{in_time}: ", self.class)?;
        for (nth, edge) in self.edges.iter().enumerate() {
            let between = if nth == 0 { "" } else { "; " };
            write!(f, "{between}{edge}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Edge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to, why } = self;
        write!(f, "{from} before {to} ")?;
        match why {
            Dependency::WriteWrite { key, value } => {
                write!(f, "(ww), whose {value} is behind its own in list {key}")
            }
            Dependency::WriteRead { key, value } => {
                write!(f, "(wr), which saw its {value} in list {key}")
            }
            Dependency::ReadWrite { key, value } => {
                write!(f, "(rw), whose {value} in list {key} it did not see")
            }
            Dependency::RealTime => f.write_str("(rt), which began after it was over"),
        }
    }
}
