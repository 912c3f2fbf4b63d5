//! Loading a document, or what follows a block of it. All parts are as of one moment.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{RecvTimeoutError, Sender};
use doclock::durable::{JournalError, StoredPart};
use futures_util::TryStreamExt;
use tokio::runtime::Builder;
use tokio::sync::Semaphore;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::statements::stored_key;
use super::{corrupt, failed, fenced};
use crate::connection::{Parameter, PostgresSession};
use crate::lease::OwnershipLease;
use crate::{Postgres, PostgresError, PostgresOptions};

/// How many rows are read ahead. A row has at most 256 KiB of an entry, or a block.
const AHEAD: usize = 16;

/// What is read in one answer, on the connection of the journals: so many bytes and blocks. More is
/// read row by row, on a connection of its own.
const PAGE_BYTES: i64 = 256 << 10;
const PAGE_BLOCKS: i64 = 1024;

/// How long the next row may take, if nothing else says so.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// How long a load waits for the server.
#[derive(Clone, Copy)]
pub(super) struct LoadTimeouts<'a> {
    /// How long the next row may take.
    pub(super) row: Duration,
    /// After its term, a load of the owner is of no use.
    pub(super) lease: Option<&'a OwnershipLease>,
}

impl<'a> LoadTimeouts<'a> {
    pub(super) fn of(lease: &'a OwnershipLease) -> Self {
        Self {
            row: PATIENCE,
            lease: Some(lease),
        }
    }

    /// Until when the next row is waited for. Then a term may have been renewed.
    fn until(&self) -> Result<Instant, JournalError> {
        match self.lease {
            None => Ok(Instant::now() + self.row),
            Some(lease) => lease.held_until().ok_or_else(|| fenced(lease)),
        }
    }
}

/// What is called with each part.
type PartVisitor<'a> = &'a mut dyn FnMut(StoredPart<'_>) -> Result<(), JournalError>;

/// What is loaded of a document.
#[derive(Clone)]
struct Wanted {
    document: String,
    /// The entry with this key alone.
    key: Option<Vec<u8>>,
    /// The blocks after this number.
    after: i64,
}

/// A row of a document.
enum StoredRow {
    /// A part of an entry, with its number in the entry.
    Part(Vec<u8>, i32, Vec<u8>),
    Block(i64, i64, Vec<u8>),
}

/// Puts the rows of a load together.
#[derive(Default)]
struct Assembly {
    /// The key of the entry that is not complete, the number of its last part, and its bytes.
    entry: Option<(Vec<u8>, i32, Vec<u8>)>,
    /// The last version of the last block.
    last: Option<i64>,
}

impl Assembly {
    fn add(&mut self, row: StoredRow, part: PartVisitor<'_>) -> Result<(), JournalError> {
        match row {
            StoredRow::Part(key, 0, data) => pass_on(self.entry.replace((key, 0, data)), part),
            StoredRow::Part(key, number, data) => match &mut self.entry {
                Some((open, before, whole)) if *open == key && *before + 1 == number => {
                    *before = number;
                    whole.extend_from_slice(&data);
                    Ok(())
                }
                _ => Err(corrupt(format_args!("a part before {number} is missing"))),
            },
            StoredRow::Block(number, version, bytes) => {
                pass_on(self.entry.take(), part)?;
                self.last = Some(version);
                let number = number.unsigned_abs();
                part(StoredPart::Block {
                    number,
                    bytes: &bytes,
                })
            }
        }
    }

    /// Returns the last version of the last block.
    fn end(self, part: PartVisitor<'_>) -> Result<Option<i64>, JournalError> {
        pass_on(self.entry, part)?;
        Ok(self.last)
    }
}

fn pass_on(
    entry: Option<(Vec<u8>, i32, Vec<u8>)>,
    part: PartVisitor<'_>,
) -> Result<(), JournalError> {
    let Some((key, _, bytes)) = entry else {
        return Ok(());
    };
    let key = str::from_utf8(&key).map_err(corrupt)?;
    part(StoredPart::Entry { key, bytes: &bytes })
}

/// Loads a document, and returns the last version of the last block.
pub(super) fn load(
    server: &Postgres,
    document: &str,
    timeouts: LoadTimeouts<'_>,
    part: PartVisitor<'_>,
) -> Result<Option<i64>, JournalError> {
    let wanted = Wanted {
        document: document.to_owned(),
        key: None,
        after: -1,
    };
    load_rows(server, wanted, timeouts, part)
}

/// Loads the entry of a key and the blocks after one, and returns the last version of the last
/// block.
///
/// Mostly that is little, and one answer has it. Otherwise the answer is of no use, and all parts
/// are read anew as by a load. So they are those of one moment, also if the log is cut meanwhile.
pub(super) fn load_after(
    server: &Postgres,
    document: &str,
    (after, key): (u64, &str),
    timeouts: LoadTimeouts<'_>,
    part: PartVisitor<'_>,
) -> Result<Option<i64>, JournalError> {
    let wanted = Wanted {
        document: document.to_owned(),
        key: Some(key.as_bytes().to_vec()),
        after: i64::try_from(after).unwrap_or(i64::MAX),
    };
    let until = timeouts.until()?.min(Instant::now() + timeouts.row);
    let page = read_page(server, wanted.clone(), until).map_err(|error| failed(&error))?;
    let Some(page) = page else {
        return load_rows(server, wanted, timeouts, part);
    };
    let mut assembly = Assembly::default();
    for row in page {
        assembly.add(row, part)?;
    }
    assembly.end(part)
}

/// Reads what is wanted in one answer. `None` if that is too much.
fn read_page(
    server: &Postgres,
    wanted: Wanted,
    deadline: Instant,
) -> Result<Option<Vec<StoredRow>>, PostgresError> {
    let connections = Arc::clone(server.connections());
    // The sizes are read without the bytes.
    let statement = format!(
        "SELECT number, version, CASE WHEN sum(octet_length(bytes))
                OVER (ORDER BY version IS NOT NULL, number) <= {PAGE_BYTES} THEN bytes END
        FROM (SELECT part::bigint AS number, NULL::bigint AS version, data AS bytes
                FROM {schema}.doclock_checkpoint WHERE document = $1 AND key = {key}
            UNION ALL (SELECT number, last_version, block FROM {schema}.doclock_log
                WHERE document = $1 AND number > $3 ORDER BY number LIMIT {PAGE_BLOCKS})) AS stored
        ORDER BY version IS NOT NULL, number",
        schema = server.schema(),
        key = stored_key("$2::bytea"),
    );
    let read = async move {
        let query = async |session: &PostgresSession| {
            let parameters = [
                (&wanted.document as _, Type::TEXT),
                (&wanted.key as _, Type::BYTEA),
                (&wanted.after as _, Type::INT8),
            ];
            session.query(&statement, &parameters).await
        };
        let rows = connections.journals.run(deadline.into(), query).await?;
        let key = wanted.key.unwrap_or_default();
        let stored = |row: Row| {
            let (number, version): (i64, Option<i64>) = (row.try_get(0)?, row.try_get(1)?);
            let bytes: Option<Vec<u8>> = row.try_get(2)?;
            let part = i32::try_from(number).unwrap_or(i32::MAX);
            Ok(bytes.map(|bytes| match version {
                None => StoredRow::Part(key.clone(), part, bytes),
                Some(version) => StoredRow::Block(number, version, bytes),
            }))
        };
        let is_full = rows.len() >= usize::try_from(PAGE_BLOCKS).unwrap_or(usize::MAX);
        let page: Result<Option<Vec<_>>, _> = rows.into_iter().map(stored).collect();
        page.map(|page| page.filter(|_| !is_full))
            .map_err(|error: tokio_postgres::Error| error.into())
    };
    server.call(Some(deadline), read).flatten()
}

/// Loads what is wanted row by row, on a connection of its own.
fn load_rows(
    server: &Postgres,
    wanted: Wanted,
    timeouts: LoadTimeouts<'_>,
    part: PartVisitor<'_>,
) -> Result<Option<i64>, JournalError> {
    timeouts.until()?;
    let reading = Reading {
        options: Arc::clone(&server.connections().options),
        loads: Arc::clone(&server.connections().loads),
        schema: server.schema(),
        wanted,
        limit: timeouts.row,
    };
    let (sender, rows) = crossbeam_channel::bounded(AHEAD);
    // Waiting for `part` blocks this thread, so it is not that of the other connections.
    let reader = move || {
        let read = match Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime.block_on(reading.read(&sender)),
            Err(error) => Err(PostgresError::thread(error)),
        };
        if let Err(error) = read {
            // Without a receiver, the load has ended.
            let _ = sender.send(Err(error));
        }
    };
    let thread = std::thread::Builder::new().name("doclock-load".into());
    thread.spawn(reader)?;
    let mut assembly = Assembly::default();
    loop {
        let row = match rows.recv_deadline(timeouts.until()?) {
            Ok(row) => row,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => return assembly.end(part),
        };
        assembly.add(row.map_err(|error| failed(&error))?, part)?;
    }
}

/// Reads rows in a thread of its own.
struct Reading {
    options: Arc<PostgresOptions>,
    loads: Arc<Semaphore>,
    schema: String,
    wanted: Wanted,
    /// How long the next row may take.
    limit: Duration,
}

impl Reading {
    /// Reads all rows in one transaction, so they are as of one moment.
    async fn read(
        &self,
        rows: &Sender<Result<StoredRow, PostgresError>>,
    ) -> Result<(), PostgresError> {
        let (schema, wanted) = (&self.schema, &self.wanted);
        // Many followers can be far behind at once, after a time without the server.
        let permit = self.loads.acquire().await;
        let _permit = permit.map_err(PostgresError::thread)?;
        let session = PostgresSession::connect(&self.options).await?;
        let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
        self.answered(session.client.batch_execute(begin)).await?;
        let entries = format!(
            "SELECT coalesce(long_key, key), part, data FROM {schema}.doclock_checkpoint
            WHERE document = $1 AND ($2::bytea IS NULL OR key = {key}) ORDER BY key, part",
            key = stored_key("$2::bytea"),
        );
        let parameters = [
            (&wanted.document as _, Type::TEXT),
            (&wanted.key as _, Type::BYTEA),
        ];
        let entry = |row: Row| {
            Ok(StoredRow::Part(
                row.try_get(0)?,
                row.try_get(1)?,
                row.try_get(2)?,
            ))
        };
        let query = (entries.as_str(), &parameters);
        if !self.pass_rows(&session, query, rows, entry).await? {
            return Ok(());
        }
        let blocks = format!(
            "SELECT number, last_version, block FROM {schema}.doclock_log
            WHERE document = $1 AND number > $2 ORDER BY number"
        );
        let parameters = [
            (&wanted.document as _, Type::TEXT),
            (&wanted.after as _, Type::INT8),
        ];
        let block = |row: Row| {
            Ok(StoredRow::Block(
                row.try_get(0)?,
                row.try_get(1)?,
                row.try_get(2)?,
            ))
        };
        let query = (blocks.as_str(), &parameters);
        self.pass_rows(&session, query, rows, block).await?;
        self.answered(session.client.batch_execute("COMMIT")).await
    }

    /// Waits for an answer of the server, which can be stopped, or wait for a lock on a table.
    async fn answered<T>(
        &self,
        answer: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, PostgresError> {
        let timeout = self.limit;
        match tokio::time::timeout(timeout, answer).await {
            Ok(answer) => Ok(answer?),
            Err(_) => Err(PostgresError::Timeout { timeout }),
        }
    }

    /// Passes rows on as they come. Returns whether the load still needs them.
    async fn pass_rows(
        &self,
        session: &PostgresSession,
        (statement, parameters): (&str, &[Parameter<'_>; 2]),
        rows: &Sender<Result<StoredRow, PostgresError>>,
        stored: impl Fn(Row) -> Result<StoredRow, tokio_postgres::Error>,
    ) -> Result<bool, PostgresError> {
        let parameters = parameters.iter().cloned();
        let found = session.client.query_typed_raw(statement, parameters);
        let mut found = pin!(self.answered(found).await?);
        loop {
            let Some(row) = self.answered(found.try_next()).await? else {
                return Ok(true);
            };
            if rows.send(Ok(stored(row)?)).is_err() {
                return Ok(false);
            }
        }
    }
}
