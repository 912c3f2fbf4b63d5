//! The journal of a document: each write is one statement, which the lease of its owner fences.

mod load;
mod reader;
mod statements;
mod write;

use std::sync::Arc;

use doclock::durable::{Journal, JournalError, JournalErrorKind, JournalWrite, StoredPart};

use crate::lease::{Acquired, OwnershipLease};
use crate::{LostReason, PostgresError};
use load::LoadTimeouts;
pub use reader::PostgresReader;
pub(crate) use statements::{APPEND, JournalStatements, create_append};
use write::{DatabaseWrite, WriteOutcome};

/// A [`Journal`] in PostgreSQL, for as long as this process owns the document.
///
/// It comes from [`Postgres::acquire`](crate::Postgres::acquire). A write returns `Ok` only while
/// the term lasts. If the term has ended, the write was refused, or it is not known whether the
/// write is stored; in both cases the next owner continues with what the log has.
#[derive(Debug)]
pub struct PostgresJournal {
    lease: Arc<OwnershipLease>,
    /// The number of the last write of a checkpoint.
    checkpoint: i64,
    /// The last version that was loaded or written.
    last_version: i64,
    /// Whether something was written in this term.
    has_begun: bool,
}

impl PostgresJournal {
    pub(crate) fn new(lease: Arc<OwnershipLease>, acquired: Acquired) -> Self {
        Self {
            lease,
            checkpoint: acquired.checkpoint,
            last_version: 0,
            has_begun: false,
        }
    }
}

impl Journal for PostgresJournal {
    fn load(
        &mut self,
        part: &mut dyn FnMut(StoredPart<'_>) -> Result<(), JournalError>,
    ) -> Result<(), JournalError> {
        let lease = &self.lease;
        let timeouts = LoadTimeouts::of(lease);
        let last = load::load(&lease.server, &lease.identity.document, timeouts, part)?;
        self.last_version = last.unwrap_or(self.last_version);
        Ok(())
    }

    fn load_after(
        &mut self,
        block: u64,
        key: &str,
        part: &mut dyn FnMut(StoredPart<'_>) -> Result<(), JournalError>,
    ) -> Result<(), JournalError> {
        let lease = &self.lease;
        let (document, timeouts) = (&lease.identity.document, LoadTimeouts::of(lease));
        let last = load::load_after(&lease.server, document, (block, key), timeouts, part)?;
        self.last_version = last.unwrap_or(self.last_version);
        Ok(())
    }

    fn write(&mut self, write: &JournalWrite) -> Result<(), JournalError> {
        if self.lease.held_until().is_none() {
            return Err(fenced(&self.lease));
        }
        let Some(write) = DatabaseWrite::new(
            write,
            self.last_version,
            (self.checkpoint, !self.has_begun),
            self.lease.in_flight.answers(&write.receipts),
        )?
        else {
            return Ok(());
        };
        self.has_begun = true;
        let write = Arc::new(write);
        let (lease, sent) = (Arc::clone(&self.lease), Arc::clone(&write));
        let outcome = self
            .lease
            .server
            .call(None, async move { sent.run(&lease).await });
        match outcome {
            Ok(WriteOutcome::Done) => self.lease.in_flight.answered(&write.answers.numbers),
            Ok(WriteOutcome::Fenced(reason)) => {
                self.lease.lose(reason);
                return Err(fenced(&self.lease));
            }
            Ok(WriteOutcome::Unknown(reason)) => {
                self.lease.lose(reason);
                return Err(self.unknown());
            }
            Ok(WriteOutcome::Refused(error)) => return Err(failed(&error).storing_nothing()),
            Ok(WriteOutcome::Failed(error)) => return Err(failed(&error)),
            Ok(WriteOutcome::Conflict) => {
                let number = write.number.unwrap_or(0);
                return Err(corrupt(format_args!("there is a block {number} already")));
            }
            Err(error) => {
                self.lease.lose(LostReason::NotRenewed);
                return Err(failed(&error));
            }
        }
        // It is stored, and may not be acknowledged after the term.
        if self.lease.held_until().is_none() {
            return Err(self.unknown());
        }
        self.last_version = write.last_version;
        self.checkpoint = write.checkpoint.unwrap_or(self.checkpoint);
        Ok(())
    }

    fn epoch(&self) -> Option<u64> {
        Some(self.lease.epoch())
    }
}

impl PostgresJournal {
    /// The error of a write of which it is not known whether it is stored, or which is stored and
    /// must not be acknowledged.
    fn unknown(&self) -> JournalError {
        let ended = self.lease.ended();
        JournalError::new(
            JournalErrorKind::Io,
            format_args!("{ended}, during a write"),
        )
    }
}

/// The error of a write of which nothing is stored, and never will be.
fn fenced(lease: &OwnershipLease) -> JournalError {
    JournalError::new(JournalErrorKind::Fenced, lease.ended())
}

fn failed(error: &PostgresError) -> JournalError {
    let kind = match error.is_full() {
        true => JournalErrorKind::Full,
        false => JournalErrorKind::Io,
    };
    JournalError::new(kind, error)
}

fn corrupt(message: impl std::fmt::Display) -> JournalError {
    JournalError::new(JournalErrorKind::Corrupt, message)
}
