//! A thread that owns the document and receives operations.

use std::thread;

use crossbeam_channel::{Receiver, Sender, bounded};
use doclock::{
    Snapshot,
    transaction::{Operation, TransactionError},
};

use super::{Client, Opened, Subject, work};
use crate::Result;
use crate::bare::Bare;

pub struct Actor;

/// More than the number of threads, so no sender waits for a free slot.
const REQUESTS: usize = 1_024;

impl Subject for Actor {
    fn name(&self) -> &'static str {
        "actor, crossbeam channel"
    }

    fn note(&self) -> &'static str {
        "first in, first out; a thread of its own owns the document and replies to each client on a channel"
    }

    fn open(&self, threads: usize) -> Result<Opened> {
        let (document, texts) = work::filled()?;
        let (sender, requests) = bounded(REQUESTS);
        // Ends with the last client.
        thread::spawn(|| serve(document, requests));
        let client = || Box::new(Correspondent::new(sender.clone())) as Box<dyn Client>;
        let clients = std::iter::repeat_with(client).take(threads).collect();
        Ok(Opened { texts, clients })
    }
}

enum Request {
    Execute(Vec<Operation>, Sender<Reply>),
    Document(Sender<Snapshot>),
}

type Reply = std::result::Result<(), TransactionError>;

fn serve(mut document: Bare, requests: Receiver<Request>) {
    for request in requests {
        // A client that has ended needs no reply.
        match request {
            Request::Execute(operations, client) => {
                let _ = client.send(document.execute(operations));
            }
            Request::Document(client) => {
                let _ = client.send(document.document().clone());
            }
        }
    }
}

struct Correspondent {
    actor: Sender<Request>,
    reply: Sender<Reply>,
    replies: Receiver<Reply>,
}

impl Correspondent {
    fn new(actor: Sender<Request>) -> Self {
        let (reply, replies) = bounded(1);
        Self {
            actor,
            reply,
            replies,
        }
    }
}

impl Client for Correspondent {
    fn execute(&mut self, operations: Vec<Operation>) -> Reply {
        let request = Request::Execute(operations, self.reply.clone());
        self.actor
            .send(request)
            .expect("the actor outlives its clients");
        self.replies.recv().expect("every request is replied to")
    }

    fn document(&mut self) -> Result<Snapshot> {
        let (sender, document) = bounded(1);
        self.actor.send(Request::Document(sender))?;
        Ok(document.recv()?)
    }
}
