//! The work of the threads: batches that keep the length of the texts.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use doclock::dsl::{create, delete_text_range, insert_text, text_node};
use doclock::{
    DataStore, NodeId, Snapshot, TransactionManager, View, document::NodeSpec,
    transaction::Operation,
};

use super::{Client, bare};
use crate::Result;
use crate::bare::Bare;
use crate::random::SplitMix;

pub const TEXTS: usize = 64;

/// The text every node starts with: forty characters, one byte each.
pub const TEXT: &str = "The quick brown fox jumps over lazy dogs";

/// The most characters of each thread in the texts.
const INSERTED: usize = 8;

/// The time and the number of tries for a duration: the fastest had the least noise.
const TRY: Duration = Duration::from_millis(10);
const TRIES: usize = 5;

/// The duration of a transaction.
#[derive(Clone, Copy, PartialEq)]
pub struct Length {
    /// Its nominal time without a lock.
    pub micros: f64,
    /// The number of operations that take this time.
    pub operations: usize,
}

impl Length {
    /// The number of operations that a document without a lock runs in that time, at least one.
    pub fn calibrated(micros: f64) -> Result<Self> {
        let mut operations = 1;
        // Each further try corrects for the cost of a transaction beside its operations.
        for _ in 0..4 {
            let taken = fastest(operations)?;
            operations = (operations as f64 * micros / taken).round().max(1.0) as usize;
        }
        Ok(Self { micros, operations })
    }
}

fn fastest(operations: usize) -> Result<f64> {
    let mut fastest = f64::MAX;
    for _ in 0..TRIES {
        fastest = fastest.min(microseconds(operations)?);
    }
    Ok(fastest)
}

/// The duration of a transaction with so many operations, without a lock.
fn microseconds(operations: usize) -> Result<f64> {
    let opened = bare::open()?;
    let mut client = opened.client;
    let mut work = Work::new(0, opened.texts, operations);
    let start = Instant::now();
    let mut transactions = 0_u32;
    while start.elapsed() < TRY {
        client.execute(work.next_list())?;
        transactions += 1;
    }
    Ok(start.elapsed().as_secs_f64() * 1e6 / f64::from(transactions))
}

/// A thread's work: it inserts characters into pseudo-random texts and deletes each some operations
/// later. No text gets shorter than it was initially, so the positions exist for any work of other
/// threads.
pub struct Work {
    random: SplitMix,
    texts: Arc<[NodeId]>,
    operations: usize,
    inserted: VecDeque<(usize, usize)>,
}

impl Work {
    pub fn new(thread: usize, texts: Arc<[NodeId]>, operations: usize) -> Self {
        Self {
            random: SplitMix(thread as u64),
            texts,
            operations,
            inserted: VecDeque::with_capacity(INSERTED),
        }
    }

    /// The next transaction, which must be run.
    pub fn next_list(&mut self) -> Vec<Operation> {
        (0..self.operations).map(|_| self.next()).collect()
    }

    fn next(&mut self) -> Operation {
        if self.inserted.len() == INSERTED
            && let Some((text, offset)) = self.inserted.pop_front()
        {
            return delete_text_range(offset, offset + 1).on(&self.texts[text]);
        }
        let text = self.random.below(TEXTS);
        let offset = self.random.below(TEXT.len() + 1);
        self.inserted.push_back((text, offset));
        insert_text(offset, "x").on(&self.texts[text])
    }

    /// The number of its characters in the texts.
    pub fn left(&self) -> usize {
        self.inserted.len()
    }
}

/// The number of characters of a document.
pub fn characters(document: &Snapshot) -> usize {
    document.nodes().map(|node| node.text().len()).sum()
}

fn texts() -> impl Iterator<Item = NodeSpec> {
    std::iter::repeat_with(|| text_node("inline-text", TEXT)).take(TEXTS)
}

/// A document with the texts.
pub fn filled() -> Result<(Bare, Arc<[NodeId]>)> {
    let mut document = Bare::new();
    let ids = texts().map(|text| document.create(text));
    let ids = ids.collect::<std::result::Result<_, _>>()?;
    Ok((document, ids))
}

/// A store with the texts.
pub fn filled_store() -> Result<(DataStore, Arc<[NodeId]>)> {
    let store = DataStore::new();
    let manager = TransactionManager::new(store.clone());
    let created = manager.execute(texts().map(create).collect::<Vec<_>>())?;
    let ids = created
        .operations
        .iter()
        .flat_map(|one| one.created.clone());
    Ok((store, ids.collect()))
}
