//! One thread with a document of its own: the rate that the threads share.

use std::sync::Arc;

use doclock::{
    NodeId, Snapshot,
    transaction::{Operation, TransactionError},
};

use super::{Client, Opened, Subject, work};
use crate::Result;
use crate::bare::Bare;

pub struct Unlocked;

/// The name of the reference.
pub const NAME: &str = "no lock, one thread";

impl Subject for Unlocked {
    fn name(&self) -> &'static str {
        NAME
    }

    fn note(&self) -> &'static str {
        "doclock's operations on a document of the thread's own: 100 %, however many threads the case has"
    }

    fn open(&self, _: usize) -> Result<Opened> {
        let Alone { texts, client } = open()?;
        Ok(Opened {
            texts,
            clients: vec![Box::new(client)],
        })
    }
}

/// A document of its own.
pub struct Alone {
    pub texts: Arc<[NodeId]>,
    pub client: Owner,
}

pub fn open() -> Result<Alone> {
    let (document, texts) = work::filled()?;
    let client = Owner(document);
    Ok(Alone { texts, client })
}

pub struct Owner(Bare);

impl Client for Owner {
    fn execute(&mut self, operations: Vec<Operation>) -> std::result::Result<(), TransactionError> {
        self.0.execute(operations)
    }

    fn document(&mut self) -> Result<Snapshot> {
        Ok(self.0.document().clone())
    }
}
