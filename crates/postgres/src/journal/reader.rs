//! Reading the journal of a document that another process owns.

use std::sync::Arc;
use std::time::{Duration, Instant};

use doclock::durable::{Journal, JournalError, JournalErrorKind, JournalWrite, StoredPart};
use tokio_postgres::types::Type;

use super::load::{self, LoadTimeouts, PATIENCE};
use crate::connection::PostgresSession;
use crate::schema::{LONGEST_DOCUMENT, checked_name};
use crate::{Postgres, PostgresError};

/// A [`Journal`] that only reads, for a [`Replica`](doclock::durable::Replica) of a document that
/// another process owns.
///
/// [`load_after`](Journal::load_after) is one statement on the connection of the journals if there
/// are at most 256 KiB and 1,023 blocks. Otherwise it has a connection of its own, like
/// [`load`](Journal::load), so it delays no append. A call waits for each part for at most 30
/// seconds. A write fails as [`Fenced`](JournalErrorKind::Fenced).
#[derive(Clone, Debug)]
pub struct PostgresReader {
    server: Postgres,
    document: String,
    patience: Duration,
}

impl Postgres {
    /// Returns a reader of a document. Needs no connection.
    ///
    /// # Errors
    ///
    /// [`PostgresError::Name`].
    pub fn reader(&self, document: &str) -> Result<PostgresReader, PostgresError> {
        Ok(PostgresReader {
            server: self.clone(),
            document: checked_name(document, LONGEST_DOCUMENT)?.to_owned(),
            patience: PATIENCE,
        })
    }
}

impl PostgresReader {
    /// Sets how long the server is waited for at a time.
    pub(crate) fn with_patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Tells the owner that a follower with this name has read the blocks up to a number, so that
    /// the log is not cut behind it. That holds for a minute. Without another call, the follower
    /// may have to load the checkpoint. A call each ten seconds is enough.
    ///
    /// Blocks until the server has answered.
    ///
    /// # Errors
    ///
    /// [`PostgresError`].
    pub fn keep_after(&self, follower: &str, number: u64) -> Result<(), PostgresError> {
        let follower = checked_name(follower, 255)?.to_owned();
        let number = i64::try_from(number).unwrap_or(i64::MAX);
        let statement = format!(
            "INSERT INTO {schema}.doclock_follower AS f (document, name, number, seen_at)
            VALUES ($1, $2, $3, clock_timestamp())
            ON CONFLICT (document, name) DO UPDATE
            SET number = excluded.number, seen_at = excluded.seen_at",
            schema = self.server.schema()
        );
        self.execute(statement, follower, Some(number))
    }

    /// Removes a follower, so that the log is cut without it.
    ///
    /// # Errors
    ///
    /// [`PostgresError`].
    pub fn forget(&self, follower: &str) -> Result<(), PostgresError> {
        let follower = checked_name(follower, 255)?.to_owned();
        let statement = format!(
            "DELETE FROM {schema}.doclock_follower
            WHERE document = $1 AND name = $2 AND $3::bigint IS NULL",
            schema = self.server.schema()
        );
        self.execute(statement, follower, None)
    }

    fn timeouts(&self) -> LoadTimeouts<'static> {
        LoadTimeouts {
            row: self.patience,
            lease: None,
        }
    }

    fn execute(
        &self,
        statement: String,
        follower: String,
        number: Option<i64>,
    ) -> Result<(), PostgresError> {
        let connections = Arc::clone(self.server.connections());
        let (document, deadline) = (self.document.clone(), Instant::now() + self.patience);
        self.server.call(Some(deadline), async move {
            let execute = async |session: &PostgresSession| {
                let parameters = [
                    (&document as _, Type::TEXT),
                    (&follower as _, Type::TEXT),
                    (&number as _, Type::INT8),
                ];
                session.execute(&statement, &parameters).await.map(drop)
            };
            connections.leases.run(deadline.into(), execute).await
        })?
    }
}

impl Journal for PostgresReader {
    fn load(
        &mut self,
        part: &mut dyn FnMut(StoredPart<'_>) -> Result<(), JournalError>,
    ) -> Result<(), JournalError> {
        load::load(&self.server, &self.document, self.timeouts(), part).map(drop)
    }

    fn load_after(
        &mut self,
        block: u64,
        key: &str,
        part: &mut dyn FnMut(StoredPart<'_>) -> Result<(), JournalError>,
    ) -> Result<(), JournalError> {
        let (document, timeouts) = (&self.document, self.timeouts());
        load::load_after(&self.server, document, (block, key), timeouts, part).map(drop)
    }

    fn write(&mut self, _: &JournalWrite) -> Result<(), JournalError> {
        let message = format_args!("a reader of document {} writes nothing", self.document);
        Err(JournalError::new(JournalErrorKind::Fenced, message))
    }
}
