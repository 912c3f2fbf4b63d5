//! The handle of a server: a thread with the connections of a process.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::RecvTimeoutError;
use tokio::runtime::{Builder, Handle};
use tokio::sync::{Semaphore, oneshot};

use crate::connection::{PersistentConnection, PostgresSession};
use crate::member::Doorbell;
use crate::{PostgresError, PostgresOptions, journal, request, schema};

/// A PostgreSQL server, as the documents of a process use it.
///
/// It has one thread and three connections, however many documents there are: one for the terms,
/// one for the journals, and one for requests. So a long write delays no renewal.
/// [Members](crate::Member) have a fourth one together, for their doorbell. They are made when they
/// are needed, and again when they are lost. A load, or a follower that is far behind, has a
/// connection of its own for as long as it takes. There are four of them at a time, and others
/// wait.
///
/// The methods block, and can be called in a thread of an async runtime. Clones are handles of the
/// same connections, which end with the last handle, [`Term`](crate::Term) and journal.
#[derive(Clone)]
pub struct Postgres(Arc<Connections>);

pub(crate) struct Connections {
    pub(crate) options: Arc<PostgresOptions>,
    pub(crate) leases: PersistentConnection,
    pub(crate) journals: PersistentConnection,
    pub(crate) doorbell: Arc<Doorbell>,
    pub(crate) requests: PersistentConnection,
    /// The connections of loads, as far as more of them may be made.
    pub(crate) loads: Arc<Semaphore>,
    /// The statements of the journals.
    pub(crate) of_journals: journal::JournalStatements,
    pub(crate) of_requests: request::RequestStatements,
    runtime: Handle,
    /// Ends the thread when it is dropped.
    _end: oneshot::Sender<()>,
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postgres")
            .field("schema", &self.0.options.schema)
            .finish_non_exhaustive()
    }
}

impl Postgres {
    /// Connects to a server, checks its settings, and creates the tables and functions that are
    /// missing.
    ///
    /// Blocks for at most the [connect timeout](PostgresOptions::connect_timeout), and for as long
    /// again while they are created.
    ///
    /// # Errors
    ///
    /// [`PostgresError`]: there is no connection, or the server or the role is set to lose commits
    /// that it has confirmed.
    pub fn connect(options: PostgresOptions) -> Result<Self, PostgresError> {
        let options = Arc::new(options);
        let (_end, ended) = oneshot::channel::<()>();
        let (started, runtime) = crossbeam_channel::bounded(1);
        let thread = std::thread::Builder::new().name("doclock-postgres".into());
        let spawned = thread.spawn(move || {
            let runtime = match Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime,
                Err(error) => return drop(started.send(Err(PostgresError::thread(error)))),
            };
            let _ = started.send(Ok(runtime.handle().clone()));
            // Until the sender is dropped.
            let _ = runtime.block_on(ended);
        });
        spawned.map_err(PostgresError::thread)?;
        let runtime = runtime.recv().map_err(PostgresError::thread)??;
        let schema = schema::quoted(&options.schema);
        let server = Self(Arc::new(Connections {
            leases: PersistentConnection::new(Arc::clone(&options)),
            journals: PersistentConnection::new(Arc::clone(&options)),
            doorbell: Arc::new(Doorbell::new(&options)),
            requests: PersistentConnection::new(Arc::clone(&options)),
            loads: Arc::new(Semaphore::new(LOADS)),
            of_journals: journal::JournalStatements::new(&schema),
            of_requests: request::RequestStatements::new(&schema),
            options: Arc::clone(&options),
            runtime,
            _end,
        }));
        let deadline = Instant::now() + 2 * options.connect_timeout;
        let created = Arc::clone(&server.0);
        server.call(Some(deadline), async move {
            let schema = &created.options.schema;
            let statements =
                async |session: &PostgresSession| schema::create(session, schema).await;
            created.leases.run(deadline.into(), statements).await
        })??;
        Ok(server)
    }

    /// The schema of the tables, as it is written in a statement.
    pub(crate) fn schema(&self) -> String {
        schema::quoted(&self.0.options.schema)
    }

    pub(crate) fn connections(&self) -> &Arc<Connections> {
        &self.0
    }

    /// Runs a future in the thread of the connections, beside others.
    pub(crate) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.0.runtime.spawn(future);
    }

    /// Runs a future in the thread of the connections and waits for its end. It has to observe the
    /// deadline itself; this only holds if the thread does not run.
    pub(crate) fn call<T: Send + 'static>(
        &self,
        deadline: Option<Instant>,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, PostgresError> {
        let deadline = deadline.and_then(|deadline| deadline.checked_add(GRACE));
        let (sender, answer) = crossbeam_channel::bounded(1);
        let began = Instant::now();
        let task = self.0.runtime.spawn(async move {
            let _ = sender.send(future.await);
        });
        let answered = match deadline {
            Some(deadline) => answer.recv_deadline(deadline),
            None => answer.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        answered.map_err(|error| {
            task.abort();
            match error {
                RecvTimeoutError::Timeout => PostgresError::Timeout {
                    timeout: began.elapsed(),
                },
                RecvTimeoutError::Disconnected => PostgresError::thread("it has ended"),
            }
        })
    }
}

/// So many loads have a connection at a time.
const LOADS: usize = 4;

/// How long after its deadline a future is given up.
const GRACE: Duration = Duration::from_millis(250);
