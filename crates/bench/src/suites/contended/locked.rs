//! A document without a lock of its own behind an external mutex.

use std::marker::PhantomData;
use std::sync::Arc;

use doclock::{
    Snapshot,
    transaction::{Operation, TransactionError},
};

use super::{Client, Opened, Subject, work};
use crate::Result;
use crate::bare::Bare;

/// A mutex.
pub trait Lock: Send + Sync + 'static {
    fn new(document: Bare) -> Self;

    /// Accesses the document exclusively.
    fn with<T>(&self, work: impl FnOnce(&mut Bare) -> T) -> T;
}

/// The document behind such a mutex.
pub struct Locked<L> {
    name: &'static str,
    note: &'static str,
    lock: PhantomData<L>,
}

impl<L> Locked<L> {
    pub const fn new(name: &'static str, note: &'static str) -> Self {
        Self {
            name,
            note,
            lock: PhantomData,
        }
    }
}

impl<L: Lock> Subject for Locked<L> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn note(&self) -> &'static str {
        self.note
    }

    fn open(&self, threads: usize) -> Result<Opened> {
        let (document, texts) = work::filled()?;
        let lock = Arc::new(L::new(document));
        let client = || Box::new(Sharer(Arc::clone(&lock))) as Box<dyn Client>;
        let clients = std::iter::repeat_with(client).take(threads).collect();
        Ok(Opened { texts, clients })
    }
}

struct Sharer<L>(Arc<L>);

impl<L: Lock> Client for Sharer<L> {
    fn execute(&mut self, operations: Vec<Operation>) -> std::result::Result<(), TransactionError> {
        self.0.with(|document| document.execute(operations))
    }

    fn document(&mut self) -> Result<Snapshot> {
        Ok(self.0.with(|document| document.document().clone()))
    }
}
