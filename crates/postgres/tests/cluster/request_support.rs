//! Owners of a document that run requests, with journals that stop or fail when they are told.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use doclock::dsl::*;
use doclock::durable::{
    DurableOptions, Journal, JournalError, JournalErrorKind, JournalWrite, StoredPart,
};
use doclock::lock::CancelToken;
use doclock::transaction::{Hooks, Operation};
use doclock::{DataStore, TransactionManager};
use doclock_postgres::{
    Postgres, PostgresJournal, RequestOptions, RequestRunner, RunnerOptions, Term,
};

use crate::support::{short, sql, until};

/// What a journal does with the next writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Mode {
    Passes,
    /// It fails and writes nothing, as if the owner had died before.
    FailsBefore,
    /// It writes and fails, as if the owner had died before it had the answer.
    FailsAfter,
    /// It waits.
    Holds,
    /// It adds an entry, as a write of a checkpoint has them.
    WithEntry,
}

#[derive(Debug)]
struct Faulty {
    inner: PostgresJournal,
    mode: Arc<AtomicU8>,
}

impl Journal for Faulty {
    fn load(
        &mut self,
        part: &mut dyn FnMut(StoredPart<'_>) -> Result<(), JournalError>,
    ) -> Result<(), JournalError> {
        self.inner.load(part)
    }

    fn write(&mut self, write: &JournalWrite) -> Result<(), JournalError> {
        let is = |mode: Mode| self.mode.load(Ordering::SeqCst) == mode as u8;
        let died = || JournalError::new(JournalErrorKind::Io, "the owner has died");
        until("the journal goes on", || !is(Mode::Holds));
        if is(Mode::FailsBefore) {
            return Err(died());
        }
        let mut write = write.clone();
        if is(Mode::WithEntry) {
            write.entries.push(("missing".into(), None));
        }
        self.inner.write(&write)?;
        match is(Mode::FailsAfter) {
            true => Err(died()),
            false => Ok(()),
        }
    }

    fn epoch(&self) -> Option<u64> {
        self.inner.epoch()
    }
}

/// The owner of a document, which runs requests when [`run`](Self::run) was called.
pub(crate) struct Owner {
    pub(crate) runner: Option<RequestRunner>,
    pub(crate) store: DataStore,
    pub(crate) manager: TransactionManager,
    pub(crate) term: Term,
    /// Those of the requests.
    pub(crate) hooks: Hooks,
    mode: Arc<AtomicU8>,
}

impl Owner {
    pub(crate) fn begin(server: &Postgres, document: &str, name: &str) -> Self {
        let options = short(name).term(Duration::from_secs(30));
        let (term, inner) = server.acquire(document, options).unwrap();
        let mode = Arc::new(AtomicU8::new(Mode::Passes as u8));
        let journal = Faulty {
            inner,
            mode: Arc::clone(&mode),
        };
        let store = DataStore::open_journal(journal, DurableOptions::new()).unwrap();
        Self {
            runner: None,
            manager: TransactionManager::for_owner(store.clone(), name),
            store,
            term,
            hooks: Hooks::new(),
            mode,
        }
    }

    pub(crate) fn set(&self, mode: Mode) {
        self.mode.store(mode as u8, Ordering::SeqCst);
    }

    pub(crate) fn run(mut self) -> Self {
        self.run_with(RunnerOptions::new());
        self
    }

    pub(crate) fn run_with(&mut self, options: RunnerOptions) {
        let (store, hooks) = (self.store.clone(), self.hooks.clone());
        let manager = move |owner: &str| {
            TransactionManager::for_owner(store.clone(), owner).with_hooks(hooks.clone())
        };
        self.runner = Some(RequestRunner::start(&self.term, options, manager).unwrap());
    }

    /// Dies: its store and its term end without a word to the server.
    pub(crate) fn die(self, parameters: &str) {
        let document = self.term.document().to_owned();
        crate::support::steal(parameters, &document);
        drop(self.manager);
        if let Some(runner) = self.runner {
            until("the runner ends", || runner.ended().is_some());
        }
        drop((self.store, self.term));
    }
}

/// Cancels a call when a test fails, which would wait for it.
pub(crate) struct Cancels(pub(crate) CancelToken);

impl Drop for Cancels {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// A batch that creates a node of this id.
pub(crate) fn node(id: &str) -> Operation {
    create(text_node("paragraph", id).with_id(id))
}

pub(crate) fn ann() -> RequestOptions {
    RequestOptions::new("ann")
}

/// The machine and epoch of the outcome of a request, if it has one, and whether it was taken.
pub(crate) fn row(
    parameters: &str,
    document: &str,
    number: u64,
) -> (Option<String>, Option<i64>, bool) {
    let statement = "SELECT answered_by, epoch, taken IS NOT NULL
        FROM doclock.doclock_request WHERE document = $1 AND number = $2";
    let row = sql(parameters)
        .query_one(statement, &[&document, &number.cast_signed()])
        .unwrap();
    (row.get(0), row.get(1), row.get(2))
}
