//! doclock's store, in its two forms: executed batches, and transactions begun by hand.

use doclock::transaction::RunOperations;
use doclock::{
    DataStore, OwnerId, Snapshot, TransactionManager,
    transaction::{Operation, TransactionError},
};

use super::{Client, Opened, Subject, work};
use crate::Result;

pub struct Execute;

impl Subject for Execute {
    fn name(&self) -> &'static str {
        "doclock (execute)"
    }

    fn note(&self) -> &'static str {
        "strictly first in, first out; under contention the holder carries a waiter's list out for it"
    }

    fn open(&self, threads: usize) -> Result<Opened> {
        open(threads, |store, owner| {
            Box::new(TransactionManager::for_owner(store, owner))
        })
    }
}

impl Client for TransactionManager {
    fn execute(&mut self, operations: Vec<Operation>) -> std::result::Result<(), TransactionError> {
        Self::execute(self, operations).map(drop)
    }

    fn document(&mut self) -> Result<Snapshot> {
        Ok(self.store().snapshot())
    }
}

pub struct Begin;

impl Subject for Begin {
    fn name(&self) -> &'static str {
        "doclock (begin)"
    }

    fn note(&self) -> &'static str {
        "strictly first in, first out; the lock is handed over to the thread that waits"
    }

    fn open(&self, threads: usize) -> Result<Opened> {
        open(threads, |store, owner| Box::new(ByHand { store, owner }))
    }
}

struct ByHand {
    store: DataStore,
    owner: OwnerId,
}

impl Client for ByHand {
    fn execute(&mut self, operations: Vec<Operation>) -> std::result::Result<(), TransactionError> {
        let mut transaction = self.store.begin(&self.owner)?;
        transaction.run(operations)?;
        transaction.commit()?;
        Ok(())
    }

    fn document(&mut self) -> Result<Snapshot> {
        Ok(self.store.snapshot())
    }
}

/// One store, and for each thread an owner with its own name.
fn open(threads: usize, client: impl Fn(DataStore, OwnerId) -> Box<dyn Client>) -> Result<Opened> {
    let (store, texts) = work::filled_store()?;
    let clients = (0..threads)
        .map(|thread| client(store.clone(), OwnerId::from(format!("editor {thread}"))))
        .collect();
    Ok(Opened { texts, clients })
}
