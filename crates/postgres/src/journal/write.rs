//! One write of a journal: its statement, and how an unknown outcome is looked up.
//!
//! A statement without an answer may still be carried out, now or much later: the server may be
//! stopped in the middle of it. So the same write can be sent again only if each of its statements
//! is refused once another has taken effect.
//!
//! - A block has its number, which is in the key of the log. A block that was removed since leaves
//!   its number in the lease (`cut`), and smaller ones are refused.
//! - A write of a checkpoint that is late would overwrite the entries of a later one. So each of
//!   them counts itself in the lease (`checkpoint`), and is refused unless it is next.
//!
//! Each statement is a transaction. It locks the row of the lease before it writes anything, and
//! keeps the lock until its end. So another owner begins before it, and then it writes nothing, or
//! after it. Under READ COMMITTED, a query that waits for the lock of a row looks at its conditions
//! again if the row has changed meanwhile. If it has not changed, no other owner has begun. The
//! write is right then, although the term may have ended during the wait: a takeover waits for it
//! in turn.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use doclock::durable::{JournalError, JournalErrorKind, JournalWrite};
use tokio_postgres::types::Type;

use super::corrupt;
use crate::connection::{Parameter, PostgresSession, backoff};
use crate::lease::{Holder, OwnershipLease, lock_limit};
use crate::request::Answers;
use crate::{LostReason, PostgresError};

/// The most bytes of an entry that one row has, so that a load needs little memory at a time.
const PART: usize = 1 << 18;

/// The most bytes of a write: the server takes messages of less than a gigabyte.
const LARGEST_WRITE: usize = 1_000_000_000;

/// A write with all its parameters.
#[derive(Debug)]
pub(super) struct DatabaseWrite {
    /// The number of the block.
    pub(super) number: Option<i64>,
    first_version: i64,
    pub(super) last_version: i64,
    block: Option<Vec<u8>>,
    /// The blocks up to this number are removed, unless a follower needs them.
    cut: Option<i64>,
    /// The number of this write among those of checkpoints, unless it is a block alone.
    pub(super) checkpoint: Option<i64>,
    /// The version with which the term begins, in its first write.
    begins_with: Option<i64>,
    /// The keys of the entries, and into how many parts each is divided: none if it is removed.
    keys: Vec<Vec<u8>>,
    counts: Vec<i32>,
    /// The parts of the entries.
    part_keys: Vec<Vec<u8>>,
    parts: Vec<i32>,
    data: Vec<Vec<u8>>,
    /// The requests whose outcomes are in the block.
    pub(super) answers: Answers,
}

/// What has become of a write.
#[derive(Debug)]
pub(super) enum WriteOutcome {
    /// It is stored.
    Done,
    /// It is not stored, and never will be.
    Fenced(LostReason),
    /// It may be stored or not.
    Unknown(LostReason),
    /// The server has refused it. It is not stored, and never will be.
    Refused(PostgresError),
    /// The server has refused it, and an earlier copy of it may be stored or not.
    Failed(PostgresError),
    /// There is another block of its number already.
    Conflict,
}

/// What the database says about a write.
enum WriteStatus {
    Stored,
    /// Not yet, and it may still be sent.
    Missing,
    Ended(LostReason),
    /// The term has ended, and it cannot be found out any more whether it is stored.
    Unknown(LostReason),
    /// There is another block of its number, although no other owner has begun.
    Conflict,
    /// This request of the block has another outcome, or is gone.
    Settled(i64),
}

impl DatabaseWrite {
    /// Takes over a write. `None` if there is nothing to write.
    pub(super) fn new(
        write: &JournalWrite,
        last_version: i64,
        (last_checkpoint, begins): (i64, bool),
        answers: Answers,
    ) -> Result<Option<Self>, JournalError> {
        let number = |number: u64| {
            let too_large = |_| corrupt(format_args!("the number {number} is too large"));
            i64::try_from(number).map_err(too_large)
        };
        let block = write.block.as_ref();
        let block_number = block.map(|(block, _)| number(*block)).transpose()?;
        let cut = write.removed_through;
        let cut = cut.map(|through| i64::try_from(through).unwrap_or(i64::MAX));
        if block.is_none() && cut.is_none() && write.entries.is_empty() {
            return Ok(None);
        }
        let alone = write.entries.is_empty() && cut.is_none();
        let version = number(write.version)?;
        let mut new = Self {
            number: block_number,
            first_version: last_version.saturating_add(1),
            last_version: version,
            block: block.map(|(_, block)| block.clone()),
            cut,
            checkpoint: (!alone).then(|| last_checkpoint.saturating_add(1)),
            begins_with: (begins && block.is_none()).then_some(version),
            keys: Vec::new(),
            counts: Vec::new(),
            part_keys: Vec::new(),
            parts: Vec::new(),
            data: Vec::new(),
            answers,
        };
        // One statement changes no row twice, so the last entry of a key counts.
        let entries: BTreeMap<_, _> = write
            .entries
            .iter()
            .map(|(key, data)| (key, data))
            .collect();
        for (key, entry) in entries {
            let mut parts = 0;
            // An empty entry has a part too.
            let whole: &[u8] = entry.as_deref().unwrap_or_default();
            let chunks = whole.chunks(PART).chain(whole.is_empty().then_some(whole));
            for chunk in chunks.take(if entry.is_some() { usize::MAX } else { 0 }) {
                new.part_keys.push(key.as_bytes().to_vec());
                new.parts.push(parts);
                new.data.push(chunk.to_vec());
                parts += 1;
            }
            new.keys.push(key.as_bytes().to_vec());
            new.counts.push(parts);
        }
        let of_keys = new.keys.iter().chain(&new.part_keys);
        let bytes: usize = of_keys
            .chain(&new.answers.outcomes)
            .chain(&new.data)
            .chain(&new.block)
            .map(Vec::len)
            .sum();
        if bytes > LARGEST_WRITE {
            let message =
                format_args!("a write has {bytes} bytes, and {LARGEST_WRITE} are possible");
            return Err(JournalError::new(JournalErrorKind::Full, message));
        }
        Ok(Some(new))
    }

    fn bytes(&self) -> usize {
        let of_keys = self.keys.iter().chain(&self.part_keys);
        let bytes = of_keys.chain(&self.data).chain(&self.block);
        let bytes = bytes.chain(&self.answers.outcomes).map(Vec::len);
        bytes.sum()
    }

    /// How long the bytes may take to the server: a second for each megabyte.
    fn transfer(&self) -> Duration {
        Duration::from_micros(self.bytes() as u64)
    }

    /// Writes, again if necessary, until the outcome is known or the term has ended.
    pub(super) async fn run(&self, lease: &OwnershipLease) -> WriteOutcome {
        let connections = Arc::clone(lease.server.connections());
        // Whether a statement was sent whose answer is missing.
        let mut is_unknown = false;
        let mut look_up = false;
        let mut failures = 0;
        loop {
            let ended = |reason| match is_unknown {
                true => WriteOutcome::Unknown(reason),
                false => WriteOutcome::Fenced(reason),
            };
            if lease.held_until().is_none() {
                return ended(LostReason::NotRenewed);
            }
            // A server that does not answer leaves time for another attempt. An attempt that is
            // given up can wait in the server for a lock, so there are ever fewer of them.
            let patience = (lease.window / 3) * (1 << failures.min(5));
            let deadline = Instant::now() + patience + self.transfer();
            let mut sent = false;
            let attempt = async |session: &PostgresSession| {
                if look_up {
                    match self.find(session, lease).await? {
                        WriteStatus::Missing => {}
                        found => return Ok(Some(found)),
                    }
                }
                sent = true;
                Ok(match self.send(session, lease).await? {
                    true => Some(WriteStatus::Stored),
                    false => None,
                })
            };
            let attempt = connections.journals.run(deadline.into(), attempt);
            let Some(attempted) = lease.while_held(attempt).await else {
                is_unknown |= sent;
                continue;
            };
            match attempted {
                Ok(Some(WriteStatus::Stored)) => return WriteOutcome::Done,
                Ok(Some(WriteStatus::Ended(reason))) => return WriteOutcome::Fenced(reason),
                Ok(Some(WriteStatus::Unknown(reason))) => return ended(reason),
                Ok(Some(WriteStatus::Conflict)) => return WriteOutcome::Conflict,
                // C9: it is final, so no copy of the statement can write any more.
                Ok(Some(WriteStatus::Settled(number))) => {
                    let number = number.unsigned_abs();
                    return WriteOutcome::Fenced(LostReason::RequestSettled { number });
                }
                // It was refused: by another owner, or by an earlier statement of this write.
                Ok(Some(WriteStatus::Missing) | None) => look_up = true,
                Err(error) if error.is_duplicate() => look_up = true,
                Err(error) if error.is_passing() => {
                    look_up = true;
                    is_unknown |= sent;
                }
                Err(error) if is_unknown => return WriteOutcome::Failed(error),
                Err(error) => return WriteOutcome::Refused(error),
            }
            failures += 1;
            lease
                .while_held(tokio::time::sleep(backoff(failures)))
                .await;
        }
    }

    /// Sends the statement. Returns whether it has written.
    async fn send(
        &self,
        session: &PostgresSession,
        lease: &OwnershipLease,
    ) -> Result<bool, PostgresError> {
        let limit = lock_limit(lease.window / 3);
        let (identity, answers) = (&lease.identity, &self.answers);
        let append: [Parameter<'_>; 11] = [
            (&identity.document, Type::TEXT),
            (&identity.epoch, Type::INT8),
            (&limit, Type::TEXT),
            (&self.number, Type::INT8),
            (&self.first_version, Type::INT8),
            (&self.last_version, Type::INT8),
            (&self.block, Type::BYTEA),
            (&answers.numbers, Type::INT8_ARRAY),
            (&answers.outcomes, Type::BYTEA_ARRAY),
            (&answers.versions, Type::INT8_ARRAY),
            (&identity.owner, Type::TEXT),
        ];
        let statements = &lease.server.connections().of_journals;
        let rows = match &self.checkpoint {
            None => session.query(&statements.append, &append).await?,
            Some(checkpoint) => {
                let of_checkpoint: [Parameter<'_>; 8] = [
                    (checkpoint, Type::INT8),
                    (&self.cut, Type::INT8),
                    (&self.keys, Type::BYTEA_ARRAY),
                    (&self.counts, Type::INT4_ARRAY),
                    (&self.part_keys, Type::BYTEA_ARRAY),
                    (&self.parts, Type::INT4_ARRAY),
                    (&self.data, Type::BYTEA_ARRAY),
                    (&self.begins_with, Type::INT8),
                ];
                let parameters = [&append[..], &of_checkpoint].concat();
                session.query(&statements.checkpoint, &parameters).await?
            }
        };
        Ok(rows.first().map_or(Ok(false), |row| row.try_get(0))?)
    }

    /// Looks up whether this write is stored.
    ///
    /// If another owner has begun, nothing of this write can be stored any more: the takeover has
    /// waited for statements that held the lock, and later ones see its epoch. The lease and the
    /// log are read as of one moment, so a stored block is seen.
    async fn find(
        &self,
        session: &PostgresSession,
        lease: &OwnershipLease,
    ) -> Result<WriteStatus, PostgresError> {
        let schema = lease.server.schema();
        let columns = Holder::columns("l");
        let statement = format!(
            "SELECT {columns}, l.checkpoint, l.cut, g.epoch = $3 AND g.block = $4,
                (SELECT min(n) FROM unnest($5::bigint[]) n LEFT JOIN {schema}.doclock_request q
                    ON q.document = $1 AND q.number = n
                    WHERE q.number IS NULL OR q.outcome IS NOT NULL)
            FROM {schema}.doclock_lease l LEFT JOIN {schema}.doclock_log g
                ON g.document = l.document AND g.number = $2
            WHERE l.document = $1"
        );
        let identity = &lease.identity;
        let parameters = [
            (&identity.document as _, Type::TEXT),
            (&self.number as _, Type::INT8),
            (&identity.epoch as _, Type::INT8),
            (&self.block as _, Type::BYTEA),
            (&self.answers.numbers as _, Type::INT8_ARRAY),
        ];
        let rows = session.query(&statement, &parameters).await?;
        let Some(row) = rows.first() else {
            return Ok(WriteStatus::Ended(LostReason::Missing));
        };
        let holder = Holder::of(row)?;
        let (checkpoint, cut): (i64, i64) = (row.try_get(8)?, row.try_get(9)?);
        let is_own: Option<bool> = row.try_get(10)?;
        let settled: Option<i64> = row.try_get(11)?;
        let taken = holder.taken(lease);
        let is_held = taken.is_none();
        let reason = taken.unwrap_or(LostReason::Expired);
        Ok(match (self.checkpoint, is_own) {
            (None, Some(true)) => WriteStatus::Stored,
            (_, Some(false)) if is_held => WriteStatus::Conflict,
            (_, Some(false)) => WriteStatus::Ended(reason),
            (None, None) if self.number.is_some_and(|number| cut >= number) => {
                WriteStatus::Unknown(reason)
            }
            (Some(own), _) if checkpoint >= own && is_held => WriteStatus::Stored,
            // The other owner may have counted so far.
            (Some(own), _) if checkpoint >= own => WriteStatus::Unknown(reason),
            _ if !is_held => WriteStatus::Ended(reason),
            _ if settled.is_some() => WriteStatus::Settled(settled.unwrap_or_default()),
            _ if holder.remaining > 0.0 => WriteStatus::Missing,
            // A statement that is still under way can be carried out until another owner begins.
            _ => WriteStatus::Unknown(reason),
        })
    }
}
