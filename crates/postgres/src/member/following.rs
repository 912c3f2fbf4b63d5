//! Following: a replica of the log, and what the lease says of the owner.

use std::sync::Arc;
use std::time::{Duration, Instant};

use doclock::Snapshot;
use doclock::durable::{DurableOptions, JournalErrorKind, OpenError, Replica, ReplicaError};
use tokio_postgres::types::Type;

use super::{MemberError, MemberOptions};
use crate::connection::PostgresSession;
use crate::lease::{Holder, ObservedLease};
use crate::{Postgres, PostgresError, PostgresReader};

/// How often a follower tells how far it has read. It counts for a minute.
const KEEPS: Duration = Duration::from_secs(10);

/// By what the log of a document is known to have changed: an epoch writes each number once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct LogFingerprint {
    timeline: i64,
    checkpoint: i64,
    cut: i64,
    /// The last block: its number and epoch.
    last: Option<(i64, i64)>,
}

/// What a member has of a document, and what it has seen of its owner.
pub(super) struct Follower {
    server: Postgres,
    document: String,
    reader: PostgresReader,
    /// The name under which the log is kept for it.
    name: String,
    durable: DurableOptions,
    term: Duration,
    /// The replica, and what the log was at the latest when it was brought up to it. `None` while
    /// it has to be loaded.
    read: Option<(Replica, Option<LogFingerprint>)>,
    pub(super) observed: ObservedLease,
    kept: Option<Instant>,
}

/// What a read of the lease and of the log has found.
pub(super) struct FollowerUpdate {
    /// The owner, unless there was none yet.
    pub(super) holder: Option<Holder>,
    pub(super) snapshot: Snapshot,
    /// The moment as of which the snapshot is the newest one.
    pub(super) at: Instant,
    /// Whether the log has changed since the look before.
    pub(super) is_changed: bool,
    /// The version before and the reason, if the document was loaded again.
    pub(super) reloaded: Option<(u64, ReplicaError)>,
}

impl Follower {
    pub(super) fn new(
        server: &Postgres,
        document: &str,
        name: String,
        options: &MemberOptions,
    ) -> Result<Self, PostgresError> {
        let term = options.term.term;
        // A takeover must not wait much longer for a connection that has died.
        let patience = term.max(Duration::from_secs(5));
        Ok(Self {
            server: server.clone(),
            document: document.to_owned(),
            reader: server.reader(document)?.with_patience(patience),
            name,
            durable: options.durable.clone(),
            term,
            read: None,
            observed: ObservedLease::default(),
            kept: None,
        })
    }

    /// Takes the replica, to become the owner with it. The next look loads another one.
    pub(super) fn take_replica(&mut self) -> Option<Replica> {
        self.kept = None;
        self.read.take().map(|(replica, _)| replica)
    }

    pub(super) fn put_back(&mut self, replica: Replica) {
        self.read = Some((replica, None));
    }

    /// Reads the lease, and the blocks that are new. Blocks until the server has answered.
    pub(super) fn look(&mut self) -> Result<FollowerUpdate, MemberError> {
        let mut at = Instant::now();
        let (holder, fingerprint) = self.read_lease()?;
        if let Some(holder) = &holder {
            self.observed.see(holder.clone());
        }
        let (mut is_changed, mut reloaded) = (true, None);
        // The log was as the fingerprint says, or further, when the replica is read after it.
        let snapshot = match &mut self.read {
            Some((replica, known)) if *known == Some(fingerprint) => {
                is_changed = false;
                replica.snapshot()
            }
            Some((replica, known)) => {
                at = Instant::now();
                reloaded = catch_up(replica, &mut self.reader, &self.durable)?;
                *known = Some(fingerprint);
                replica.snapshot()
            }
            None => {
                at = Instant::now();
                let replica = Replica::load(&mut self.reader, &self.durable)?;
                self.read.insert((replica, Some(fingerprint))).0.snapshot()
            }
        };
        Ok(FollowerUpdate {
            holder,
            snapshot,
            at,
            is_changed,
            reloaded,
        })
    }

    /// Reads the lease and the end of the log, as of one moment.
    fn read_lease(&self) -> Result<(Option<Holder>, LogFingerprint), PostgresError> {
        let statement = format!(
            "SELECT {columns}, l.checkpoint, l.cut, g.number, g.epoch
            FROM {schema}.doclock_lease l LEFT JOIN LATERAL
                (SELECT number, epoch FROM {schema}.doclock_log WHERE document = l.document
                ORDER BY number DESC LIMIT 1) g ON true
            WHERE l.document = $1",
            columns = Holder::columns("l"),
            schema = self.server.schema(),
        );
        let connections = Arc::clone(self.server.connections());
        let (document, deadline) = (self.document.clone(), Instant::now() + self.patience());
        let rows = self.server.call(Some(deadline), async move {
            let query = async |session: &PostgresSession| {
                session.query(&statement, &[(&document, Type::TEXT)]).await
            };
            connections.leases.run(deadline.into(), query).await
        })??;
        let Some(row) = rows.first() else {
            return Ok((None, LogFingerprint::default()));
        };
        let holder = Holder::of(row)?;
        let (number, epoch): (Option<i64>, Option<i64>) = (row.try_get(10)?, row.try_get(11)?);
        let fingerprint = LogFingerprint {
            timeline: holder.timeline,
            checkpoint: row.try_get(8)?,
            cut: row.try_get(9)?,
            last: number.zip(epoch),
        };
        Ok((Some(holder), fingerprint))
    }

    fn patience(&self) -> Duration {
        self.term.max(Duration::from_secs(1))
    }

    /// Tells now and then how far the log is read, so that it is not cut before that.
    pub(super) fn keep(&mut self) -> Result<(), PostgresError> {
        let is_kept = self.kept.is_some_and(|kept| kept.elapsed() < KEEPS);
        let Some((replica, _)) = self.read.as_ref().filter(|_| !is_kept) else {
            return Ok(());
        };
        let last = replica.last_block().unwrap_or(0);
        self.kept = Some(Instant::now());
        self.reader.keep_after(&self.name, last)
    }

    pub(super) fn forget(&self) -> Result<(), PostgresError> {
        self.reader.forget(&self.name)
    }
}

/// Applies new blocks, or loads the document if that is not possible. Then it returns the version
/// before and the reason.
fn catch_up(
    replica: &mut Replica,
    reader: &mut PostgresReader,
    options: &DurableOptions,
) -> Result<Option<(u64, ReplicaError)>, MemberError> {
    match replica.catch_up(reader, drop) {
        Ok(()) => Ok(None),
        Err(
            cause @ (ReplicaError::New
            | ReplicaError::MissingBlock { .. }
            | ReplicaError::MissingVersion { .. }
            | ReplicaError::Differs { .. }),
        ) => {
            let from = replica.version();
            *replica = Replica::load(reader, options)?;
            Ok(Some((from, cause)))
        }
        Err(error) => Err(error.into()),
    }
}

/// Whether an error says that the server cannot be reached, and not what it has.
pub(super) fn is_of_server(error: &MemberError) -> bool {
    match error {
        MemberError::Server(_) => true,
        MemberError::Load(OpenError::Journal(error))
        | MemberError::Follow(ReplicaError::Journal(error)) => error.kind == JournalErrorKind::Io,
        MemberError::Follow(ReplicaError::Load(error)) => {
            matches!(&**error, OpenError::Journal(error) if error.kind == JournalErrorKind::Io)
        }
        _ => false,
    }
}
