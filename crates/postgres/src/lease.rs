//! The lease of a document: a row in the database, and what this process may still do by its clock.

use std::fmt;
use std::pin::pin;
use std::time::{Duration, Instant};

use crossbeam_channel::Sender;
use parking_lot::Mutex;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::connection::{PostgresSession, backoff};
use crate::request::InFlight;
use crate::schema::{PLACE, TIMELINE};
use crate::{LostReason, OwnerEvent, Postgres, PostgresError};

/// A lease that this process has acquired, shared by its term and its journal.
///
/// The clock of the server decides when the lease ends, and each statement that writes compares it.
/// Beyond that, this process acknowledges nothing after its window: it begins with the attempt
/// that acquired or renewed the lease, before the server did so, and ends a margin before the term
/// does. So no owner acknowledges after another one has begun, whatever the clocks show.
pub(crate) struct OwnershipLease {
    pub(crate) server: Postgres,
    pub(crate) identity: LeaseIdentity,
    pub(crate) timeline: i64,
    pub(crate) window: Duration,
    pub(crate) state: Mutex<LeaseState>,
    /// The requests of other machines that run now.
    pub(crate) in_flight: InFlight,
    events: Sender<OwnerEvent>,
}

/// By what the row of a lease is known to be that of this process.
#[derive(Clone, Debug)]
pub(crate) struct LeaseIdentity {
    pub(crate) document: String,
    pub(crate) owner: String,
    /// A number that no other attempt to acquire a lease has.
    pub(crate) claim: i64,
    pub(crate) epoch: i64,
}

/// What a lease is to this process.
#[derive(Clone, Debug)]
pub(crate) enum LeaseState {
    /// It may acknowledge until then.
    Held(Instant),
    HandedOver,
    Lost(LostReason),
}

/// So many unread renewals are kept for a program that reads no events.
const UNREAD_RENEWALS: usize = 64;

impl fmt::Debug for OwnershipLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnershipLease")
            .field("identity", &self.identity)
            .field("state", &*self.state.lock())
            .finish_non_exhaustive()
    }
}

/// What an acquired row says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acquired {
    pub(crate) epoch: i64,
    pub(crate) timeline: i64,
    /// The number of the last write of a checkpoint.
    pub(crate) checkpoint: i64,
}

impl OwnershipLease {
    /// Begins a lease that an attempt has acquired, which began at `start`.
    pub(crate) fn begin(
        server: Postgres,
        identity: LeaseIdentity,
        timeline: i64,
        (start, window): (Instant, Duration),
        events: Sender<OwnerEvent>,
    ) -> Self {
        let lease = Self {
            server,
            identity,
            timeline,
            window,
            state: Mutex::new(LeaseState::Held(start + window)),
            in_flight: InFlight::default(),
            events,
        };
        lease.tell(OwnerEvent::Acquired {
            document: lease.identity.document.clone(),
            owner: lease.identity.owner.clone(),
            epoch: lease.epoch(),
            timeline: lease.timeline.unsigned_abs(),
        });
        lease
    }

    /// Reports an event. A program that reads none keeps few renewals, and all others.
    pub(crate) fn tell(&self, event: OwnerEvent) {
        let passing = matches!(
            event,
            OwnerEvent::Renewed { .. } | OwnerEvent::RenewalFailed { .. }
        );
        if !passing || self.events.len() < UNREAD_RENEWALS {
            // The program may have dropped the other end.
            let _ = self.events.send(event);
        }
    }

    /// The epoch, which is never negative.
    pub(crate) fn epoch(&self) -> u64 {
        self.identity.epoch.unsigned_abs()
    }

    /// Until when this process may acknowledge. `None` if it may not any more, which is final: past
    /// that moment, this call ends the lease.
    pub(crate) fn held_until(&self) -> Option<Instant> {
        let state = self.state.lock().clone();
        match state {
            LeaseState::Held(until) if Instant::now() < until => Some(until),
            LeaseState::Held(_) => {
                self.lose(LostReason::NotRenewed);
                None
            }
            LeaseState::HandedOver | LeaseState::Lost(_) => None,
        }
    }

    /// Waits for a future, for as long as this process may acknowledge, which renewals prolong.
    pub(crate) async fn while_held<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        let mut future = pin!(future);
        loop {
            let until = self.held_until()?;
            if let Ok(ready) = tokio::time::timeout_at(until.into(), &mut future).await {
                return Some(ready);
            }
        }
    }

    /// Takes note of a renewal that began at `start`. It cannot revive a lease that has ended.
    pub(crate) fn renewed(&self, start: Instant) {
        if self.held_until().is_none() {
            return;
        }
        if let LeaseState::Held(until) = &mut *self.state.lock() {
            *until = (*until).max(start + self.window);
        }
        self.tell(OwnerEvent::Renewed {
            document: self.identity.document.clone(),
            epoch: self.epoch(),
            took: start.elapsed(),
        });
    }

    /// Ends the lease for this process, unless it has ended already.
    pub(crate) fn lose(&self, reason: LostReason) {
        {
            let mut state = self.state.lock();
            if !matches!(*state, LeaseState::Held(_)) {
                return;
            }
            *state = LeaseState::Lost(reason.clone());
        }
        self.tell(OwnerEvent::Lost {
            document: self.identity.document.clone(),
            epoch: self.epoch(),
            reason,
        });
    }

    /// Ends the lease for this process before it is ended in the database. Returns whether it was
    /// held.
    pub(crate) fn end(&self) -> bool {
        let held = self.held_until().is_some();
        let mut state = self.state.lock();
        if held && matches!(*state, LeaseState::Held(_)) {
            *state = LeaseState::HandedOver;
            return true;
        }
        false
    }

    /// Why the lease has ended, as a sentence for the errors of a journal.
    pub(crate) fn ended(&self) -> String {
        let why = match &*self.state.lock() {
            LeaseState::Held(_) => "it is held".to_owned(),
            LeaseState::HandedOver => "it was handed over".to_owned(),
            LeaseState::Lost(reason) => reason.to_string(),
        };
        let LeaseIdentity {
            document, epoch, ..
        } = &self.identity;
        format!("the term of document {document} in epoch {epoch} has ended: {why}")
    }

    /// Renews the lease in the database. Zero rows mean that it is lost, so this never inserts.
    pub(crate) async fn renew(&self, session: &PostgresSession) -> Result<bool, PostgresError> {
        let schema = self.server.schema();
        let statement = format!(
            "UPDATE {schema}.doclock_lease SET expires_at = clock_timestamp() + term
            WHERE document = $1 AND epoch = $2 AND owner = $3 AND claim = $4
            AND expires_at > clock_timestamp() AND timeline = {TIMELINE}
            AND system_identifier = $5 || {PLACE} AND {LOCK_TIMEOUT} IS NOT NULL",
            LOCK_TIMEOUT = lock_timeout(6),
        );
        let limit = lock_limit(self.window / 6);
        let identity = &self.identity;
        let parameters = [
            (&identity.document as _, Type::TEXT),
            (&identity.epoch as _, Type::INT8),
            (&identity.owner as _, Type::TEXT),
            (&identity.claim as _, Type::INT8),
            (&session.system as _, Type::TEXT),
            (&limit as _, Type::TEXT),
        ];
        Ok(session.execute(&statement, &parameters).await? == 1)
    }

    /// Reads the row, to see why a statement has met no lease.
    pub(crate) async fn find_reason(
        &self,
        session: &PostgresSession,
    ) -> Result<LostReason, PostgresError> {
        let row = Holder::read(session, &self.server.schema(), &self.identity.document).await?;
        Ok(row.map_or(LostReason::Missing, |row| {
            row.taken(self).unwrap_or(LostReason::Expired)
        }))
    }
}

impl Drop for OwnershipLease {
    /// Ends the lease in the background, so that another process need not wait for it.
    fn drop(&mut self) {
        if self.end() {
            let (server, identity) = (self.server.clone(), self.identity.clone());
            let window = self.window;
            self.server.spawn(async move {
                // Nothing waits for the result: without it, the lease ends by itself.
                let _ = identity.end(&server, Instant::now() + window, window).await;
            });
        }
    }
}

impl LeaseIdentity {
    /// Ends the lease in the database, in as many attempts as it takes until the deadline. A
    /// repetition has no effect on a later owner.
    pub(crate) async fn end(
        &self,
        server: &Postgres,
        until: Instant,
        window: Duration,
    ) -> Result<(), PostgresError> {
        let (leases, schema) = (&server.connections().leases, server.schema());
        // The terms of other documents are renewed on the same connection.
        let limit = lock_limit(window / 6);
        let mut failures = 0;
        loop {
            let expire =
                async |session: &PostgresSession| self.expire(session, &schema, &limit).await;
            match leases.run(until.into(), expire).await {
                Err(error) if error.is_passing() && Instant::now() < until => failures += 1,
                ended => return ended,
            }
            tokio::time::sleep(backoff(failures)).await;
        }
    }

    async fn expire(
        &self,
        session: &PostgresSession,
        schema: &str,
        limit: &str,
    ) -> Result<(), PostgresError> {
        let statement = format!(
            "UPDATE {schema}.doclock_lease SET expires_at = clock_timestamp()
            WHERE document = $1 AND epoch = $2 AND owner = $3 AND claim = $4
            AND {LOCK_TIMEOUT} IS NOT NULL",
            LOCK_TIMEOUT = lock_timeout(5),
        );
        let parameters = [
            (&self.document as _, Type::TEXT),
            (&self.epoch as _, Type::INT8),
            (&self.owner as _, Type::TEXT),
            (&self.claim as _, Type::INT8),
            (&limit as _, Type::TEXT),
        ];
        session.execute(&statement, &parameters).await.map(drop)
    }
}

/// The row of a lease, as another process reads it.
#[derive(Clone, Debug)]
pub(crate) struct Holder {
    pub(crate) epoch: i64,
    pub(crate) owner: String,
    pub(crate) address: Option<String>,
    pub(crate) claim: i64,
    /// How long it lasts, in seconds. Negative if it has ended.
    pub(crate) remaining: f64,
    /// The timeline of the server.
    pub(crate) timeline: i64,
    /// When it ends and how long a term is, in seconds. Times that are equal are the same text.
    pub(crate) expires_at: String,
    pub(crate) term: f64,
}

impl Holder {
    /// The columns of [`Holder::of`], of the table with this alias.
    pub(crate) fn columns(alias: &str) -> String {
        format!(
            "{alias}.epoch, {alias}.owner, {alias}.address, {alias}.claim,
            extract(epoch FROM greatest({alias}.expires_at, clock_timestamp() - interval '1 year')
                - clock_timestamp())::float8, {TIMELINE},
            extract(epoch FROM {alias}.expires_at)::text,
            extract(epoch FROM {alias}.term)::float8"
        )
    }

    /// Reads the columns.
    pub(crate) fn of(row: &Row) -> Result<Self, PostgresError> {
        Ok(Self {
            epoch: row.try_get(0)?,
            owner: row.try_get(1)?,
            address: row.try_get(2)?,
            claim: row.try_get(3)?,
            remaining: row.try_get(4)?,
            timeline: row.try_get(5)?,
            expires_at: row.try_get(6)?,
            term: row.try_get(7)?,
        })
    }

    pub(crate) async fn read(
        session: &PostgresSession,
        schema: &str,
        document: &str,
    ) -> Result<Option<Self>, PostgresError> {
        let columns = Self::columns("l");
        let statement =
            format!("SELECT {columns} FROM {schema}.doclock_lease l WHERE document = $1");
        let rows = session
            .query(&statement, &[(&document, Type::TEXT)])
            .await?;
        rows.first().map(Self::of).transpose()
    }

    /// Why a lease can be renewed no more, if this is its row. `None` if it is in the row still,
    /// whether or not the term has ended.
    pub(crate) fn taken(&self, lease: &OwnershipLease) -> Option<LostReason> {
        let identity = &lease.identity;
        if self.epoch != identity.epoch || self.claim != identity.claim {
            return Some(LostReason::TakenOver {
                epoch: self.epoch.unsigned_abs(),
                owner: self.owner.clone(),
                address: self.address.clone(),
            });
        }
        (self.timeline != lease.timeline).then(|| LostReason::NewTimeline {
            timeline: self.timeline.unsigned_abs(),
            before: lease.timeline.unsigned_abs(),
        })
    }

    pub(crate) fn remaining(&self) -> Duration {
        Duration::try_from_secs_f64(self.remaining.max(0.0)).unwrap_or(Duration::MAX)
    }

    pub(crate) fn term(&self) -> Duration {
        Duration::try_from_secs_f64(self.term.max(0.0)).unwrap_or(Duration::MAX)
    }

    /// Whether a row was not renewed since.
    pub(crate) fn is_unchanged(&self, later: &Self) -> bool {
        let parts = |holder: &Self| (holder.epoch, holder.claim);
        parts(self) == parts(later) && self.expires_at == later.expires_at
    }
}

/// The row of a lease as it was read last, and since when it has not changed.
#[derive(Clone, Debug, Default)]
pub(crate) struct ObservedLease(Option<(Holder, Instant)>);

impl ObservedLease {
    /// Takes note of a row that was read just now.
    pub(crate) fn see(&mut self, holder: Holder) {
        match &self.0 {
            Some((before, _)) if before.is_unchanged(&holder) => {}
            _ => self.0 = Some((holder, Instant::now())),
        }
    }

    /// When its owner has not renewed for a term, by the clock of this process.
    pub(crate) fn old_at(&self, term: Duration) -> Option<Instant> {
        let (holder, since) = self.0.as_ref()?;
        since.checked_add(holder.term().max(term))
    }

    /// The row, if its owner has not renewed for a term.
    pub(crate) fn old(&self, term: Duration) -> Option<&Holder> {
        let is_old = self.old_at(term).is_some_and(|at| at <= Instant::now());
        self.0.as_ref().map(|(holder, _)| holder).filter(|_| is_old)
    }
}

/// An expression that limits how long its statement waits for locks. It holds for the statement
/// alone, also with a pooler, and is never null. It has to be a condition of the row that the
/// statement locks, so that the server computes it before it locks the row.
pub(crate) fn lock_timeout(parameter: u32) -> String {
    format!("set_config('lock_timeout', ${parameter}, true)")
}

/// The condition of the row of the lease under which a statement of the owner has an effect: the
/// fence. The document is the first parameter, the epoch the second, and the limit of
/// [`lock_timeout`] the third.
pub(crate) fn holds() -> String {
    format!(
        "document = $1 AND epoch = $2 AND expires_at > clock_timestamp()
        AND timeline = {TIMELINE} AND {} IS NOT NULL",
        lock_timeout(3)
    )
}

/// A limit for [`lock_timeout`], in milliseconds. Zero would be no limit.
pub(crate) fn lock_limit(limit: Duration) -> String {
    limit.as_millis().max(1).to_string()
}
