//! Elle for lists (Kingsbury and Alvaro, VLDB 2020): decides from appends and reads alone whether
//! the transactions of a history are serializable.
//!
//! A list contains all of its versions: all other reads are prefixes of the longest one. So it
//! gives the order of its writers, the version that each read saw, and the write that each read
//! missed. In histories without [lost appends](Anomaly::LostAppend), every version was read. If
//! their dependencies have no cycle, some order of the transactions explains every read.

use std::collections::BTreeMap;

use foldhash::HashMap;

use crate::anomaly::{Anomaly, Dependency, Edge, Reader};
use crate::cycle::{real_time, shortest_cycle};
use crate::history::{History, Key, Op, Transaction, Value};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Serializable,
    /// A transaction that ended before another began comes before it.
    Strict,
}

/// All anomalies of the history, with at most one cycle, the shortest of the worst class. Takes
/// linear time if there are none.
///
/// Reads of rolled-back transactions are ignored.
pub(crate) fn check(history: &History, level: Level) -> Vec<Anomaly> {
    let mut checker = Checker::new(history);
    for (number, transaction) in committed(history) {
        checker.check_own(number, transaction);
    }
    for (key, reads) in reads(history) {
        checker.check_list(key, &reads);
    }
    checker.check_lost();
    let mut edges = checker.edges;
    if level == Level::Strict {
        edges.extend(real_time(history));
    }
    let cycle = shortest_cycle(&edges).map(Anomaly::Cycle);
    checker.anomalies.extend(cycle);
    checker.anomalies
}

fn committed(history: &History) -> impl Iterator<Item = (usize, &Transaction)> {
    let transactions = history.transactions.iter().enumerate();
    transactions.filter(|(_, transaction)| transaction.committed)
}

type Reads<'h> = Vec<(Reader, &'h [Value])>;

/// The reads of each list, the last one first.
fn reads(history: &History) -> BTreeMap<Key, Reads<'_>> {
    let finals = history.finals.iter();
    let mut lists: BTreeMap<Key, Reads<'_>> = finals
        .map(|(key, values)| (*key, vec![(Reader::Last, &values[..])]))
        .collect();
    for (number, transaction) in committed(history) {
        for op in &transaction.ops {
            if let Op::Read { key, observed } = op {
                let list = lists.entry(*key);
                let reads = list.or_insert_with(|| vec![(Reader::Last, &[])]);
                reads.push((Reader::Transaction(number), observed));
            }
        }
    }
    lists
}

struct Append {
    key: Key,
    writer: usize,
    /// The index of the operation in its transaction.
    operation: usize,
    committed: bool,
    /// Whether its transaction appends nothing to the list later.
    last: bool,
    /// The last scanned list with the value.
    seen: usize,
    /// Whether the last read has it.
    kept: bool,
}

struct Checker<'h> {
    history: &'h History,
    appends: HashMap<Value, Append>,
    anomalies: Vec<Anomaly>,
    edges: Vec<Edge>,
    /// The number of scanned lists.
    looked_through: usize,
}

impl<'h> Checker<'h> {
    fn new(history: &'h History) -> Self {
        let mut appends: HashMap<Value, Append> = HashMap::default();
        for (writer, transaction) in history.transactions.iter().enumerate() {
            for (operation, op) in transaction.ops.iter().enumerate() {
                let Op::Append { key, value } = *op else {
                    continue;
                };
                let append = Append {
                    key,
                    writer,
                    operation,
                    committed: transaction.committed,
                    last: !appends_to(key, &transaction.ops[operation + 1..]),
                    seen: 0,
                    kept: false,
                };
                let before = appends.insert(value, append);
                assert!(before.is_none(), "{value} is appended twice");
            }
        }
        Self {
            history,
            appends,
            anomalies: Vec::new(),
            edges: Vec::new(),
            looked_through: 0,
        }
    }

    // --- Within a transaction ---

    fn check_own(&mut self, number: usize, transaction: &Transaction) {
        let mut lists: Vec<Own<'_>> = Vec::new();
        for (operation, op) in transaction.ops.iter().enumerate() {
            let (Op::Append { key, .. } | Op::Read { key, .. }) = op;
            let at = lists.iter().position(|own| own.key == *key);
            let at = at.unwrap_or_else(|| {
                lists.push(Own::new(*key));
                lists.len() - 1
            });
            match op {
                Op::Append { value, .. } => lists[at].appended.push(*value),
                Op::Read { key, observed } => {
                    if !self.follows(number, &lists[at], observed) {
                        self.anomalies.push(Anomaly::Internal {
                            transaction: number,
                            operation,
                            key: *key,
                        });
                    }
                    lists[at].known = Some(observed);
                    lists[at].appended.clear();
                }
            }
        }
    }

    /// Whether the read follows from the transaction's own reads and appends.
    fn follows(&self, number: usize, own: &Own<'_>, observed: &[Value]) -> bool {
        let Some(before) = observed.strip_suffix(&own.appended[..]) else {
            return false;
        };
        match own.known {
            Some(known) => before == known,
            // It cannot have seen its own later appends. Such a value followed by others makes a
            // cycle.
            None => before.last().is_none_or(|value| {
                let append = self.appends.get(value);
                append.is_none_or(|append| append.writer != number)
            }),
        }
    }

    // --- A list ---

    fn check_list(&mut self, key: Key, reads: &[(Reader, &[Value])]) {
        let before = self.anomalies.len();
        let (longest, order) = longest(reads);
        self.look_through(key, longest, order);
        let mut ordered = self.anomalies.len() == before;
        for &(reader, observed) in reads {
            if !order.starts_with(observed) {
                ordered = false;
                self.look_through(key, reader, observed);
                self.anomalies
                    .push(incompatible(key, (reader, observed), (longest, order)));
            }
            self.check_end(key, reader, observed);
        }
        if let [(Reader::Last, last), ..] = reads {
            for value in *last {
                if let Some(append) = self.appends.get_mut(value) {
                    append.kept |= append.key == key;
                }
            }
        }
        // Without one order of its versions a list gives no order of the transactions.
        if ordered {
            self.order_writers(key, order);
            self.place_readers(key, order, reads);
        }
    }

    /// Scans every value of a read.
    fn look_through(&mut self, key: Key, reader: Reader, observed: &[Value]) {
        self.looked_through += 1;
        for &value in observed {
            let append = self.appends.get_mut(&value);
            let Some(append) = append.filter(|append| append.key == key) else {
                self.anomalies
                    .push(Anomaly::Unwritten { reader, key, value });
                continue;
            };
            if append.seen == self.looked_through {
                self.anomalies
                    .push(Anomaly::Duplicate { reader, key, value });
            }
            append.seen = self.looked_through;
            if !append.committed {
                self.anomalies.push(Anomaly::AbortedRead {
                    reader,
                    key,
                    value,
                    writer: append.writer,
                });
            }
        }
    }

    /// Finds a read that ends in the middle of another transaction.
    fn check_end(&mut self, key: Key, reader: Reader, observed: &[Value]) {
        let Some((value, append)) = self.last_append(key, observed) else {
            return;
        };
        let writer = append.writer;
        if !append.last && reader != Reader::Transaction(writer) {
            self.anomalies.push(Anomaly::IntermediateRead {
                reader,
                key,
                value,
                writer,
            });
        }
    }

    fn last_append(&self, key: Key, observed: &[Value]) -> Option<(Value, &Append)> {
        let value = *observed.last()?;
        let append = self.appends.get(&value)?;
        (append.key == key).then_some((value, append))
    }

    fn check_lost(&mut self) {
        for (writer, transaction) in committed(self.history) {
            for op in &transaction.ops {
                if let Op::Append { key, value } = *op
                    && !self.appends[&value].kept
                {
                    self.anomalies
                        .push(Anomaly::LostAppend { writer, key, value });
                }
            }
        }
    }

    // --- Dependencies ---

    /// Neighbours suffice: the rest follows by transitivity.
    fn order_writers(&mut self, key: Key, order: &[Value]) {
        for pair in order.windows(2) {
            let &[one, value] = pair else { continue };
            let (from, to) = (&self.appends[&one], &self.appends[&value]);
            if from.writer == to.writer && from.operation > to.operation {
                self.anomalies.push(Anomaly::Reordered {
                    writer: from.writer,
                    key,
                    value,
                    next: one,
                });
            }
            let (from, to) = (from.writer, to.writer);
            self.depend(from, to, Dependency::WriteWrite { key, value });
        }
    }

    /// A reader comes after the writer of the version that it saw, and before the writer of the
    /// next one.
    fn place_readers(&mut self, key: Key, order: &[Value], reads: &[(Reader, &[Value])]) {
        for &(reader, observed) in reads {
            let Reader::Transaction(reader) = reader else {
                continue;
            };
            if let Some(&value) = observed.last() {
                let writer = self.appends[&value].writer;
                self.depend(writer, reader, Dependency::WriteRead { key, value });
            }
            if let Some(&value) = order.get(observed.len()) {
                let writer = self.appends[&value].writer;
                self.depend(reader, writer, Dependency::ReadWrite { key, value });
            }
        }
    }

    fn depend(&mut self, from: usize, to: usize, why: Dependency) {
        if from != to {
            self.edges.push(Edge { from, to, why });
        }
    }
}

/// The knowledge of a transaction about a list.
struct Own<'h> {
    key: Key,
    /// Its last read.
    known: Option<&'h [Value]>,
    /// Its appends since then.
    appended: Vec<Value>,
}

impl Own<'_> {
    fn new(key: Key) -> Self {
        Self {
            key,
            known: None,
            appended: Vec::new(),
        }
    }
}

fn appends_to(list: Key, ops: &[Op]) -> bool {
    ops.iter()
        .any(|op| matches!(op, Op::Append { key, .. } if *key == list))
}

/// The first of the longest reads.
fn longest<'h>(reads: &[(Reader, &'h [Value])]) -> (Reader, &'h [Value]) {
    let none = (Reader::Last, &[][..]);
    reads.iter().fold(none, |longest, read| {
        if read.1.len() > longest.1.len() {
            *read
        } else {
            longest
        }
    })
}

/// The position where a read differs from one that is at least as long.
fn incompatible(
    key: Key,
    (reader, observed): (Reader, &[Value]),
    (longest, order): (Reader, &[Value]),
) -> Anomaly {
    let pairs = observed.iter().zip(order);
    let place = pairs.take_while(|(one, other)| one == other).count();
    Anomaly::IncompatibleOrders {
        reader,
        longest,
        key,
        place,
        found: observed[place],
        expected: order[place],
    }
}
