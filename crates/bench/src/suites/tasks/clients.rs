//! The ways in which a task edits a document, and a run of many such tasks.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use doclock::transaction::{Operation, TransactionError};
use doclock::{DataStore, NodeId, Snapshot, TransactionManager};
use tokio::runtime::Runtime;
use tokio::sync::Mutex;
use tokio::task::coop::consume_budget;
use tokio::task::{JoinHandle, spawn_blocking, yield_now};

use crate::Result;
use crate::bare::Bare;
use crate::suites::contended::trial::{self, Editor, Stage, Tally, Trial};
use crate::suites::contended::work::{self, Length};

/// The result of one batch.
pub type Reply = std::result::Result<(), TransactionError>;

/// The client of one task.
pub trait Client: Send + Sized + 'static {
    const NAME: &'static str;

    /// How the order is determined, and which thread waits.
    const NOTE: &'static str;

    /// Opens a document with the texts, and a client for each task.
    fn open(tasks: usize) -> Result<(Arc<[NodeId]>, Vec<Self>)>;

    /// Runs an operation batch as one transaction, and returns after it.
    fn execute(&mut self, operations: Vec<Operation>) -> impl Future<Output = Reply> + Send;

    /// The current document. Called outside of the runtime.
    fn document(&self) -> Snapshot;
}

/// A way for a task to run a batch in a store.
pub trait Call: 'static {
    const NAME: &'static str;
    const NOTE: &'static str;

    fn execute(
        manager: &TransactionManager,
        operations: Vec<Operation>,
    ) -> impl Future<Output = Reply> + Send;
}

pub struct ExecuteAsync;

impl Call for ExecuteAsync {
    const NAME: &'static str = "doclock (transaction, await)";
    const NOTE: &'static str =
        "first in, first out; the task waits, its thread does not; consumes tokio's budget";

    async fn execute(manager: &TransactionManager, operations: Vec<Operation>) -> Reply {
        manager.transaction(operations).await?;
        // As the mutex of tokio does in each call: otherwise a batch that need not wait never
        // yields to other tasks.
        consume_budget().await;
        Ok(())
    }
}

pub struct SpawnBlocking;

impl Call for SpawnBlocking {
    const NAME: &'static str = "doclock (spawn_blocking)";
    const NOTE: &'static str = "execute in a thread of tokio's pool for blocking calls";

    async fn execute(manager: &TransactionManager, operations: Vec<Operation>) -> Reply {
        let manager = manager.clone();
        let call = spawn_blocking(move || manager.execute(operations).map(drop));
        call.await.expect("a batch does not panic")
    }
}

pub struct Blocking;

impl Call for Blocking {
    const NAME: &'static str = "doclock (execute)";
    const NOTE: &'static str = "the call blocks a thread of the runtime; the task yields after it";

    async fn execute(manager: &TransactionManager, operations: Vec<Operation>) -> Reply {
        manager.execute(operations)?;
        yield_now().await;
        Ok(())
    }
}

/// A task that calls a store, which all tasks share. Its owner has its own name.
pub struct Caller<C> {
    pub manager: TransactionManager,
    call: PhantomData<fn() -> C>,
}

impl<C: Call> Client for Caller<C> {
    const NAME: &'static str = C::NAME;
    const NOTE: &'static str = C::NOTE;

    fn open(tasks: usize) -> Result<(Arc<[NodeId]>, Vec<Self>)> {
        let (store, texts) = work::filled_store()?;
        let caller = |task| Self {
            manager: manager(&store, task),
            call: PhantomData,
        };
        Ok((texts, (0..tasks).map(caller).collect()))
    }

    fn execute(&mut self, operations: Vec<Operation>) -> impl Future<Output = Reply> + Send {
        C::execute(&self.manager, operations)
    }

    fn document(&self) -> Snapshot {
        self.manager.store().snapshot()
    }
}

fn manager(store: &DataStore, task: usize) -> TransactionManager {
    TransactionManager::for_owner(store.clone(), format!("editor {task}"))
}

/// A store whose lock is always free, because each task holds a mutex around its call.
pub struct LockedStore(Arc<Mutex<TransactionManager>>);

impl Client for LockedStore {
    const NAME: &'static str = "tokio Mutex, store";
    const NOTE: &'static str = "first in, first out; execute under the mutex, so the store is free";

    fn open(tasks: usize) -> Result<(Arc<[NodeId]>, Vec<Self>)> {
        let (store, texts) = work::filled_store()?;
        let shared = Arc::new(Mutex::new(manager(&store, 0)));
        let client = || Self(Arc::clone(&shared));
        Ok((texts, std::iter::repeat_with(client).take(tasks).collect()))
    }

    async fn execute(&mut self, operations: Vec<Operation>) -> Reply {
        self.0.lock().await.execute(operations).map(drop)
    }

    fn document(&self) -> Snapshot {
        self.0.blocking_lock().store().snapshot()
    }
}

pub struct LockedDocument(Arc<Mutex<Bare>>);

impl Client for LockedDocument {
    const NAME: &'static str = "tokio Mutex, bare";
    const NOTE: &'static str = "first in, first out; the operations on a document without a store";

    fn open(tasks: usize) -> Result<(Arc<[NodeId]>, Vec<Self>)> {
        let (document, texts) = work::filled()?;
        let shared = Arc::new(Mutex::new(document));
        let client = || Self(Arc::clone(&shared));
        Ok((texts, std::iter::repeat_with(client).take(tasks).collect()))
    }

    async fn execute(&mut self, operations: Vec<Operation>) -> Reply {
        self.0.lock().await.execute(operations)
    }

    fn document(&self) -> Snapshot {
        self.0.blocking_lock().document().clone()
    }
}

/// Runs a task of the runtime for each client, as the suite `contended` runs threads.
pub fn run<C: Client>(
    runtime: &Runtime,
    (texts, clients): (Arc<[NodeId]>, Vec<C>),
    length: Length,
    span: Duration,
) -> Result<Trial> {
    let stage = Arc::<Stage>::default();
    let before = clients[0].document().version();
    let editors = trial::editors(clients.len(), &texts, length, &stage)?;
    let pairs = clients.into_iter().zip(editors);
    let tasks: Vec<_> = pairs
        .map(|(client, editor)| runtime.spawn(edit(client, editor)))
        .collect();
    let counted = stage.direct(span);
    let ended = tasks.into_iter().map(|task| ended(runtime, task));
    let (clients, tallies): (Vec<_>, Vec<_>) =
        ended.collect::<Result<Vec<_>>>()?.into_iter().unzip();
    trial::check(C::NAME, before, &clients[0].document(), &tallies)?;
    trial::summary(&tallies, counted)
}

type Edited<C> = std::result::Result<(C, Tally), TransactionError>;

async fn edit<C: Client>(mut client: C, mut editor: Editor) -> Edited<C> {
    while let Some((operations, asked)) = editor.begin() {
        client.execute(operations).await?;
        editor.finish(asked);
    }
    Ok((client, editor.end()))
}

fn ended<C>(runtime: &Runtime, task: JoinHandle<Edited<C>>) -> Result<(C, Tally)> {
    Ok(runtime.block_on(task)??)
}
