//! Loading a document: its entries and blocks, as of one moment, a few rows at a time.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{RecvTimeoutError, Sender};
use doclock::durable::{JournalError, StoredPart};
use futures_util::TryStreamExt;
use tokio::runtime::Builder;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::write::stored_key;
use super::{corrupt, failed};
use crate::link::Session;
use crate::{Postgres, PostgresError, PostgresOptions};

/// How many rows are read ahead. A row has at most 256 KiB of an entry, or a block.
const AHEAD: usize = 16;

/// How long the next row may take, for an owner.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// What is called with each part.
type Part<'a> = &'a mut dyn FnMut(StoredPart<'_>) -> Result<(), JournalError>;

/// A row of a document.
enum Stored {
    /// A part of an entry, with its number in the entry.
    Part(Vec<u8>, i32, Vec<u8>),
    Block(i64, i64, Vec<u8>),
}

/// Loads a document, and returns the last version of the last block. The server may take `limit`
/// for each row. `patience` returns until when the next one is waited for; then it is called again.
pub(super) fn load(
    server: &Postgres,
    document: &str,
    limit: Duration,
    patience: &dyn Fn() -> Result<Instant, JournalError>,
    part: Part<'_>,
) -> Result<Option<i64>, JournalError> {
    patience()?;
    let options = server.connections().options.clone();
    let (schema, document) = (server.schema(), document.to_owned());
    let (sender, rows) = crossbeam_channel::bounded(AHEAD);
    // Waiting for `part` blocks this thread, so it is not that of the other connections.
    let reader = move || {
        let read = match Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime.block_on(read(&options, &schema, &document, limit, &sender)),
            Err(error) => Err(PostgresError::thread(error)),
        };
        if let Err(error) = read {
            // Without a receiver, the load has ended.
            let _ = sender.send(Err(error));
        }
    };
    let thread = std::thread::Builder::new().name("doclock-load".into());
    thread.spawn(reader)?;
    let mut entry: Option<(Vec<u8>, i32, Vec<u8>)> = None;
    let mut last = None;
    loop {
        let row = match rows.recv_deadline(patience()?) {
            Ok(row) => row,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => break,
        };
        match row.map_err(|error| failed(&error))? {
            Stored::Part(key, 0, data) => {
                pass_on(entry.replace((key, 0, data)), part)?;
            }
            Stored::Part(key, number, data) => match &mut entry {
                Some((open, before, whole)) if *open == key && *before + 1 == number => {
                    *before = number;
                    whole.extend_from_slice(&data);
                }
                _ => return Err(corrupt(format_args!("a part before {number} is missing"))),
            },
            Stored::Block(number, version, bytes) => {
                pass_on(entry.take(), part)?;
                last = Some(version);
                block(number, &bytes, part)?;
            }
        }
    }
    pass_on(entry, part)?;
    Ok(last)
}

fn block(number: i64, bytes: &[u8], part: Part<'_>) -> Result<(), JournalError> {
    let number = number.unsigned_abs();
    part(StoredPart::Block { number, bytes })
}

fn pass_on(entry: Option<(Vec<u8>, i32, Vec<u8>)>, part: Part<'_>) -> Result<(), JournalError> {
    let Some((key, _, bytes)) = entry else {
        return Ok(());
    };
    let key = str::from_utf8(&key).map_err(corrupt)?;
    part(StoredPart::Entry { key, bytes: &bytes })
}

/// Reads all rows in one transaction, so they are as of one moment.
async fn read(
    options: &PostgresOptions,
    schema: &str,
    document: &str,
    limit: Duration,
    rows: &Sender<Result<Stored, PostgresError>>,
) -> Result<(), PostgresError> {
    let session = Session::connect(options).await?;
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
    answered(limit, session.client.batch_execute(begin)).await?;
    let entries = format!(
        "SELECT coalesce(long_key, key), part, data FROM {schema}.doclock_checkpoint
        WHERE document = $1 ORDER BY key, part"
    );
    let entry = |row: Row| {
        Ok(Stored::Part(
            row.try_get(0)?,
            row.try_get(1)?,
            row.try_get(2)?,
        ))
    };
    if !pass_rows(&session, &entries, document, (limit, rows), entry).await? {
        return Ok(());
    }
    let blocks = format!(
        "SELECT number, last_version, block FROM {schema}.doclock_log
        WHERE document = $1 ORDER BY number"
    );
    let block = |row: Row| {
        Ok(Stored::Block(
            row.try_get(0)?,
            row.try_get(1)?,
            row.try_get(2)?,
        ))
    };
    pass_rows(&session, &blocks, document, (limit, rows), block).await?;
    answered(limit, session.client.batch_execute("COMMIT")).await
}

/// Waits for an answer of the server, which can be stopped, or wait for a lock on a table.
async fn answered<T>(
    limit: Duration,
    answer: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, PostgresError> {
    match tokio::time::timeout(limit, answer).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(PostgresError::Timeout { timeout: limit }),
    }
}

/// Passes rows on as they come. Returns whether the load still needs them.
async fn pass_rows(
    session: &Session,
    statement: &str,
    document: &str,
    (limit, rows): (Duration, &Sender<Result<Stored, PostgresError>>),
    stored: impl Fn(Row) -> Result<Stored, tokio_postgres::Error>,
) -> Result<bool, PostgresError> {
    let parameters = [(document, Type::TEXT)];
    let found = answered(limit, session.client.query_typed_raw(statement, parameters)).await?;
    let mut found = pin!(found);
    loop {
        let Some(row) = answered(limit, found.try_next()).await? else {
            return Ok(true);
        };
        if rows.send(Ok(stored(row)?)).is_err() {
            return Ok(false);
        }
    }
}

/// Loads the entry of a key and the blocks after one, in one statement, and returns the last
/// version of the last block.
pub(super) fn load_after(
    server: &Postgres,
    document: &str,
    (after, key): (u64, &str),
    deadline: Instant,
    part: Part<'_>,
) -> Result<Option<i64>, JournalError> {
    let connections = Arc::clone(server.connections());
    let statement = format!(
        "SELECT part::bigint, NULL::bigint, data FROM {schema}.doclock_checkpoint
            WHERE document = $1 AND key = {key}
        UNION ALL SELECT number, last_version, block FROM {schema}.doclock_log
            WHERE document = $1 AND number > $3
        ORDER BY 2 NULLS FIRST, 1",
        schema = server.schema(),
        key = stored_key("$2::bytea"),
    );
    let (document, stored) = (document.to_owned(), key.as_bytes().to_vec());
    let after = i64::try_from(after).unwrap_or(i64::MAX);
    let read = async move {
        let query = async |session: &Session| {
            let parameters = [
                (&document as _, Type::TEXT),
                (&stored as _, Type::BYTEA),
                (&after as _, Type::INT8),
            ];
            session.query(&statement, &parameters).await
        };
        connections.journals.run(deadline.into(), query).await
    };
    let rows = server.call(Some(deadline), read).flatten();
    let rows = rows.map_err(|error| failed(&error))?;
    let mut entry: Option<(Vec<u8>, i32, Vec<u8>)> = None;
    let mut last = None;
    let column = |error: tokio_postgres::Error| failed(&error.into());
    for row in rows {
        let version: Option<i64> = row.try_get(1).map_err(column)?;
        let bytes: &[u8] = row.try_get(2).map_err(column)?;
        if version.is_none() {
            let (_, _, whole) = entry.get_or_insert((key.as_bytes().to_vec(), 0, Vec::new()));
            whole.extend_from_slice(bytes);
            continue;
        }
        last = version;
        pass_on(entry.take(), part)?;
        block(row.try_get(0).map_err(column)?, bytes, part)?;
    }
    pass_on(entry, part)?;
    Ok(last)
}
