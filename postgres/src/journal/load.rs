//! Loading a document: its entries and blocks, as of one moment, a few rows at a time.

use std::pin::pin;
use std::time::Duration;

use crossbeam_channel::{RecvTimeoutError, Sender};
use doclock::durable::{JournalError, JournalErrorKind, StoredPart};
use futures_util::TryStreamExt;
use tokio::runtime::Builder;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::{corrupt, fenced};
use crate::lease::Lease;
use crate::link::Session;
use crate::{PostgresError, PostgresOptions};

/// How many rows are read ahead. A row has at most 256 KiB of an entry, or a block.
const AHEAD: usize = 16;

/// How long the next row may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// A row of a document.
enum Stored {
    /// A part of an entry, with its number in the entry.
    Part(Vec<u8>, i32, Vec<u8>),
    Block(i64, i64, Vec<u8>),
}

/// Loads a document, and returns the number and last version of the last block.
pub(super) fn load(
    lease: &Lease,
    part: &mut dyn FnMut(StoredPart<'_>) -> Result<(), JournalError>,
) -> Result<Option<(i64, i64)>, JournalError> {
    let options = lease.server.connections().options.clone();
    let (schema, document) = (lease.server.schema(), lease.holding.document.clone());
    let (sender, rows) = crossbeam_channel::bounded(AHEAD);
    // Waiting for `part` blocks this thread, so it is not that of the other connections.
    let reader = move || {
        let read = match Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime.block_on(read(&options, &schema, &document, &sender)),
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
        // A load is of no use after the term.
        let row = match rows.recv_deadline(lease.until().ok_or_else(|| fenced(lease))?) {
            Ok(row) => row,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => break,
        };
        match row.map_err(|error| JournalError::new(JournalErrorKind::Io, error))? {
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
                last = Some((number, version));
                let number = number.unsigned_abs();
                part(StoredPart::Block {
                    number,
                    bytes: &bytes,
                })?;
            }
        }
    }
    pass_on(entry, part)?;
    Ok(last)
}

fn pass_on(
    entry: Option<(Vec<u8>, i32, Vec<u8>)>,
    part: &mut dyn FnMut(StoredPart<'_>) -> Result<(), JournalError>,
) -> Result<(), JournalError> {
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
    rows: &Sender<Result<Stored, PostgresError>>,
) -> Result<(), PostgresError> {
    let session = Session::connect(options).await?;
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
    session.client.batch_execute(begin).await?;
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
    if !pass_rows(&session, &entries, document, rows, entry).await? {
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
    pass_rows(&session, &blocks, document, rows, block).await?;
    Ok(session.client.batch_execute("COMMIT").await?)
}

/// Passes rows on as they come. Returns whether the load still needs them.
async fn pass_rows(
    session: &Session,
    statement: &str,
    document: &str,
    rows: &Sender<Result<Stored, PostgresError>>,
    stored: impl Fn(Row) -> Result<Stored, tokio_postgres::Error>,
) -> Result<bool, PostgresError> {
    let parameters = [(document, Type::TEXT)];
    let found = session
        .client
        .query_typed_raw(statement, parameters)
        .await?;
    let mut found = pin!(found);
    loop {
        let next = tokio::time::timeout(PATIENCE, found.try_next()).await;
        let timeout = |_| PostgresError::Timeout { timeout: PATIENCE };
        let Some(row) = next.map_err(timeout)?? else {
            return Ok(true);
        };
        if rows.send(Ok(stored(row)?)).is_err() {
            return Ok(false);
        }
    }
}
