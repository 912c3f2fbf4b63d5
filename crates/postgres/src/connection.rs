//! Connections, each shared by all documents of a process, and made again when they are lost.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout_at};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};

use crate::{PostgresError, PostgresOptions, schema};

/// A parameter of a statement, with its type. A statement is not prepared by name, which a pooler
/// in transaction mode would not keep.
pub(crate) type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

/// A connection that is made again when it is lost.
///
/// Statements of several documents are under way at the same time, and the server runs them in the
/// order in which they were sent. Each is complete in itself, so a pooler may run each on another
/// connection of its own.
pub(crate) struct PersistentConnection {
    options: Arc<PostgresOptions>,
    session: tokio::sync::Mutex<Option<Arc<PostgresSession>>>,
}

/// One connection, while it lasts.
pub(crate) struct PostgresSession {
    pub(crate) client: Client,
    /// The system identifier of the server, or nothing if the role may not read it.
    pub(crate) system: String,
    /// The task that reads and writes, which is to end with this.
    task: AbortHandle,
}

impl Drop for PostgresSession {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl fmt::Debug for PersistentConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PersistentConnection")
            .finish_non_exhaustive()
    }
}

impl PostgresSession {
    /// Connects, and checks that the server keeps what it confirms.
    pub(crate) async fn connect(options: &PostgresOptions) -> Result<Self, PostgresError> {
        let timeout = options.connect_timeout;
        let connect = async {
            let (client, connection) = options.connect("").await?;
            let task = tokio::spawn(async move {
                // The error is that of the statements under way.
                let _ = connection.await;
            });
            let mut session = Self {
                client,
                system: String::new(),
                task: task.abort_handle(),
            };
            session.system = schema::check_server(&session, options).await?;
            Ok(session)
        };
        match tokio::time::timeout(timeout, connect).await {
            Ok(connected) => connected,
            Err(_) => Err(PostgresError::Timeout { timeout }),
        }
    }

    pub(crate) async fn query(
        &self,
        statement: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Row>, PostgresError> {
        Ok(self.client.query_typed(statement, parameters).await?)
    }

    pub(crate) async fn execute(
        &self,
        statement: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<u64, PostgresError> {
        Ok(self.client.execute_typed(statement, parameters).await?)
    }
}

impl PersistentConnection {
    pub(crate) fn new(options: Arc<PostgresOptions>) -> Self {
        Self {
            options,
            session: tokio::sync::Mutex::new(None),
        }
    }

    /// Returns the connection, or makes it.
    async fn session(&self) -> Result<Arc<PostgresSession>, PostgresError> {
        let mut current = self.session.lock().await;
        if let Some(session) = &*current
            && !session.client.is_closed()
        {
            return Ok(Arc::clone(session));
        }
        // The lost one is closed first, so that there is at most one.
        drop(current.take());
        let session = Arc::new(PostgresSession::connect(&self.options).await?);
        Ok(Arc::clone(current.insert(session)))
    }

    /// Runs statements until the deadline. If the answer does not come, or if the caller drops
    /// this future, the statement may have been carried out or not, now or later.
    ///
    /// A server that does not answer leaves the connection in an unknown state, so the connection
    /// is closed, also for the other documents. They look their outcomes up.
    pub(crate) async fn run<T>(
        &self,
        deadline: Instant,
        statements: impl AsyncFnOnce(&PostgresSession) -> Result<T, PostgresError>,
    ) -> Result<T, PostgresError> {
        let began = Instant::now();
        let mut used = None;
        let ran = timeout_at(deadline, async {
            let session = self.session().await?;
            let session = used.insert(session);
            statements(session).await
        })
        .await;
        ran.unwrap_or_else(|_| {
            if let Some(session) = used {
                session.task.abort();
            }
            let timeout = deadline.saturating_duration_since(began);
            Err(PostgresError::Timeout { timeout })
        })
    }
}

/// How long the next attempt waits, after so many that failed.
pub(crate) fn backoff(attempts: u32) -> Duration {
    Duration::from_millis(5 << attempts.min(5))
}
