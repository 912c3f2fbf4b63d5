//! Terms: how a process becomes the owner of a document, and for how long.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use doclock::durable::LARGEST_EPOCH;
use doclock::events::Receiver;
use tokio_postgres::types::Type;

use crate::connection::{PostgresSession, backoff};
use crate::lease::{
    Acquired, Holder, LeaseIdentity, LeaseState, ObservedLease, OwnershipLease, lock_limit,
    lock_timeout,
};
use crate::random::random;
use crate::schema::{LONGEST_DOCUMENT, PLACE, TIMELINE, checked_name, micros};
use crate::server::Connections;
use crate::{LostReason, OwnerEvent, Postgres, PostgresError, PostgresJournal};

/// How many bits of an epoch count the owners on one timeline of the server.
const COUNTER_BITS: u32 = 16;

/// Options of a term.
#[derive(Clone, Debug)]
#[must_use]
pub struct TermOptions {
    pub(crate) owner: String,
    pub(crate) address: Option<String>,
    pub(crate) term: Duration,
    margin: Option<Duration>,
    poll: Duration,
    timeout: Option<Duration>,
}

impl TermOptions {
    /// Creates options with the name of the owner, which errors and events show. It has at most
    /// 255 bytes. Two processes may have the same name.
    pub fn new(owner: impl Into<String>) -> Self {
        Self {
            owner: owner.into(),
            address: None,
            term: Duration::from_secs(5),
            margin: None,
            poll: Duration::from_millis(50),
            timeout: None,
        }
    }

    /// Sets where other processes find this owner, for example `10.0.0.7:8080`. It has at most 255
    /// bytes. doclock only passes it on.
    pub fn address(mut self, address: impl Into<String>) -> Self {
        self.address = Some(address.into());
        self
    }

    /// Sets the length of a term, which is renewed when a third of it has passed. The default is 5
    /// seconds. When the owner dies, another one can follow after this time.
    pub fn term(mut self, term: Duration) -> Self {
        self.term = term;
        self
    }

    /// Sets how long before the end of a term the owner stops to acknowledge, unless the term was
    /// renewed. The default is a tenth of the term. It covers the difference between how fast the
    /// clocks of the server and of this process run, not what they show.
    pub fn margin(mut self, margin: Duration) -> Self {
        self.margin = Some(margin);
        self
    }

    /// Sets how often a process that waits looks whether the owner has handed the document over:
    /// from 1 ms to a minute. The default is 50 ms.
    pub fn poll(mut self, poll: Duration) -> Self {
        self.poll = poll.clamp(Duration::from_millis(1), Duration::from_secs(60));
        self
    }

    /// Sets how long [`acquire`](Postgres::acquire) waits for the document, and for the server.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Lets [`acquire`](Postgres::acquire) wait as long as it takes. This is the default.
    pub fn no_timeout(mut self) -> Self {
        self.timeout = None;
        self
    }

    /// Checks the options, and returns how long the owner may act after an attempt.
    pub(crate) fn window(&self) -> Result<Duration, PostgresError> {
        checked_name(&self.owner, 255)?;
        if let Some(address) = &self.address {
            checked_name(address, 255)?;
        }
        let term = self.term;
        let margin = self.margin.unwrap_or(term / 10);
        // A renewal begins after a third, and has to have time.
        let least = Duration::from_millis(20).max(term / 2);
        let window = term.checked_sub(margin).filter(|window| *window >= least);
        let most = Duration::from_secs(24 * 60 * 60);
        match window {
            Some(window) if term <= most => Ok(window),
            _ => Err(PostgresError::Term { term, margin }),
        }
    }
}

/// The time for which this process owns a document. It is renewed as long as this value or the
/// journal exists.
///
/// The term ends with [`hand_over`](Self::hand_over), when it cannot be renewed in time, or when
/// another server takes over. Each is an [event](Self::events). If the value and the journal are
/// dropped without that, the term is ended in the background, as far as the process lives on.
#[derive(Debug)]
pub struct Term {
    pub(crate) lease: Arc<OwnershipLease>,
    events: Receiver<OwnerEvent>,
}

impl Term {
    /// Returns the document.
    pub fn document(&self) -> &str {
        &self.lease.identity.document
    }

    /// Returns the epoch: a number that rises with each owner of the document, and that the
    /// fencing tokens of its commits begin with.
    pub fn epoch(&self) -> u64 {
        self.lease.epoch()
    }

    /// Whether this process is the owner. Once it is not, it never is again in this term.
    ///
    /// The clock of this process decides, so the answer needs no connection. A machine that sleeps
    /// does not count that time. Its commits are refused all the same, because each write compares
    /// the lease in the database.
    pub fn is_owner(&self) -> bool {
        self.lease.held_until().is_some()
    }

    /// Returns why the term was lost, or `None` if it lasts or was handed over.
    pub fn lost(&self) -> Option<LostReason> {
        match &*self.lease.state.lock() {
            LeaseState::Lost(reason) => Some(reason.clone()),
            LeaseState::Held(_) | LeaseState::HandedOver => None,
        }
    }

    /// Returns the events of this term, from [`OwnerEvent::Acquired`] on. Unread renewals beyond 64
    /// are left out, other events never.
    pub fn events(&self) -> &Receiver<OwnerEvent> {
        &self.events
    }

    /// Ends the term, so that another process can begin at once. Close the store first: its later
    /// writes fail.
    ///
    /// Blocks until the server has confirmed it. If it does not, the term is over for this process,
    /// and lasts in the database.
    ///
    /// # Errors
    ///
    /// [`PostgresError`]: the server has not answered before the end of the term.
    pub fn hand_over(&self) -> Result<(), PostgresError> {
        let Some(until) = self.lease.held_until() else {
            return Ok(());
        };
        if !self.lease.end() {
            return Ok(());
        }
        let lease = Arc::clone(&self.lease);
        let server = lease.server.clone();
        server.call(Some(until), hand_over(lease, until))?
    }
}

async fn hand_over(lease: Arc<OwnershipLease>, until: Instant) -> Result<(), PostgresError> {
    let identity = &lease.identity;
    identity.end(&lease.server, until, lease.window).await?;
    lease.tell(OwnerEvent::HandedOver {
        document: lease.identity.document.clone(),
        epoch: lease.epoch(),
    });
    Ok(())
}

impl Postgres {
    /// Becomes the owner of a document. Waits until its owner has handed it over or has died, for
    /// at most the [timeout](TermOptions::timeout) of the options.
    ///
    /// Returns the term, and the journal to [open](doclock::DataStore::open_journal) the document
    /// with. A new document is empty.
    ///
    /// # Errors
    ///
    /// [`PostgresError::Held`] after the timeout, with the owner and its address, or another
    /// [`PostgresError`].
    pub fn acquire(
        &self,
        document: &str,
        options: TermOptions,
    ) -> Result<(Term, PostgresJournal), PostgresError> {
        // A time that no clock will show is no limit.
        let after = |timeout| Instant::now().checked_add(timeout);
        let deadline = options.timeout.and_then(after);
        self.acquire_until(document, options, deadline, ObservedLease::default())
    }

    /// Becomes the owner of a document if it has none.
    ///
    /// # Errors
    ///
    /// As [`acquire`](Self::acquire), and at once.
    pub fn try_acquire(
        &self,
        document: &str,
        options: TermOptions,
    ) -> Result<(Term, PostgresJournal), PostgresError> {
        self.try_acquire_after(document, options, ObservedLease::default())
    }

    /// Becomes the owner of a document if it has none, or if the one that was seen is silent.
    pub(crate) fn try_acquire_after(
        &self,
        document: &str,
        options: TermOptions,
        observed: ObservedLease,
    ) -> Result<(Term, PostgresJournal), PostgresError> {
        self.acquire_until(document, options, Some(Instant::now()), observed)
    }

    fn acquire_until(
        &self,
        document: &str,
        options: TermOptions,
        deadline: Option<Instant>,
        observed: ObservedLease,
    ) -> Result<(Term, PostgresJournal), PostgresError> {
        let document = checked_name(document, LONGEST_DOCUMENT)?.to_owned();
        let window = options.window()?;
        let owner = options.owner.clone();
        let attempt = OwnershipAttempt {
            schema: self.schema(),
            claim: random().cast_signed(),
            document: document.clone(),
            options,
        };
        let (claim, connections) = (attempt.claim, Arc::clone(self.connections()));
        let limit = deadline.and_then(|deadline| deadline.checked_add(2 * attempt.answer()));
        let acquire = async move { attempt.acquire(&connections, deadline, observed).await };
        let (acquired, start) = self.call(limit, acquire)??;
        let (sender, events) = crossbeam_channel::unbounded();
        let identity = LeaseIdentity {
            document,
            owner,
            claim,
            epoch: acquired.epoch,
        };
        let times = (start, window);
        let lease = OwnershipLease::begin(self.clone(), identity, acquired.timeline, times, sender);
        let lease = Arc::new(lease);
        self.spawn(keep(Arc::downgrade(&lease)));
        let journal = PostgresJournal::new(Arc::clone(&lease), acquired);
        Ok((Term { lease, events }, journal))
    }
}

/// An attempt to become the owner.
struct OwnershipAttempt {
    schema: String,
    document: String,
    claim: i64,
    options: TermOptions,
}

impl OwnershipAttempt {
    /// How long an answer of the server is waited for.
    fn answer(&self) -> Duration {
        self.options.term.max(Duration::from_secs(5))
    }

    /// How long a statement waits for the row: the terms of other documents are renewed on the same
    /// connection.
    fn lock_limit(&self) -> String {
        lock_limit(self.options.term / 6)
    }

    /// Acquires the lease. Returns when the attempt began that has acquired it.
    async fn acquire(
        self,
        connections: &Connections,
        deadline: Option<Instant>,
        mut observed: ObservedLease,
    ) -> Result<(Acquired, Instant), PostgresError> {
        let mut failures = 0;
        loop {
            let start = Instant::now();
            let old = observed.old(self.options.term);
            let attempt = async |session: &PostgresSession| self.attempt(session, old).await;
            let until = start + self.answer();
            let pause = match connections.leases.run(until.into(), attempt).await {
                Ok(Ok(acquired)) if acquired.epoch.unsigned_abs() > LARGEST_EPOCH => {
                    return Err(PostgresError::Epochs {
                        document: self.document,
                        epoch: acquired.epoch.unsigned_abs(),
                        largest: LARGEST_EPOCH,
                    });
                }
                Ok(Ok(acquired)) => return Ok((acquired, start)),
                Ok(Err(holder)) => {
                    failures = 0;
                    let remaining = holder.remaining();
                    if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                        return Err(PostgresError::Held {
                            document: self.document,
                            owner: holder.owner,
                            address: holder.address,
                            epoch: holder.epoch.unsigned_abs(),
                            remaining,
                        });
                    }
                    observed.see(holder);
                    // A millisecond past its end, which the server compares.
                    self.options
                        .poll
                        .min(remaining.saturating_add(Duration::from_millis(1)))
                }
                Err(error) if !error.is_passing() => return Err(error),
                Err(error) => {
                    if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                        return Err(error);
                    }
                    failures += 1;
                    backoff(failures)
                }
            };
            let next = Instant::now() + pause;
            let next = deadline.map_or(next, |deadline| next.min(deadline));
            tokio::time::sleep_until(next.into()).await;
        }
    }

    /// Tries to acquire the lease once, and returns its holder if there is one.
    async fn attempt(
        &self,
        session: &PostgresSession,
        old: Option<&Holder>,
    ) -> Result<Result<Acquired, Holder>, PostgresError> {
        loop {
            if let Some(acquired) = self.update(session, old).await? {
                return Ok(Ok(acquired));
            }
            match Holder::read(session, &self.schema, &self.document).await? {
                // An earlier attempt has acquired it, whose answer was lost. The window begins
                // with this attempt, so the lease has to last as long from now on.
                Some(holder) if holder.claim == self.claim => {
                    if let Some(acquired) = self.renew(session).await? {
                        return Ok(Ok(acquired));
                    }
                }
                // C3: it has ended, and was not taken.
                Some(holder) if holder.remaining <= 0.0 => {
                    self.check_place(session, &holder).await?;
                    return Ok(Err(holder));
                }
                Some(holder) => return Ok(Err(holder)),
                None => self.insert(session).await?,
            }
        }
    }

    /// Refuses a document that was restored or copied.
    async fn check_place(
        &self,
        session: &PostgresSession,
        holder: &Holder,
    ) -> Result<(), PostgresError> {
        let schema = &self.schema;
        let is_restored = is_restored();
        let statement =
            format!("SELECT {is_restored} FROM {schema}.doclock_lease WHERE document = $1");
        let parameters = [(&self.document as _, Type::TEXT)];
        let rows = session.query(&statement, &parameters).await?;
        match rows.first().map_or(Ok(false), |row| row.try_get(0))? {
            false => Ok(()),
            true => Err(PostgresError::Restored {
                document: self.document.clone(),
                schema: schema.clone(),
                epoch: holder.epoch.unsigned_abs(),
            }),
        }
    }

    /// Inserts the row of a document that was never owned.
    async fn insert(&self, session: &PostgresSession) -> Result<(), PostgresError> {
        let schema = &self.schema;
        let statement = format!(
            "INSERT INTO {schema}.doclock_lease (document, epoch, owner, claim, timeline,
                system_identifier, term, expires_at, checkpoint, cut)
            VALUES ($1, 0, '', 0, 0, '', interval '0', clock_timestamp() - interval '1 hour', 0, 0)
            ON CONFLICT (document) DO NOTHING"
        );
        let parameters = [(&self.document as _, Type::TEXT)];
        session.execute(&statement, &parameters).await.map(drop)
    }

    /// Takes the lease if it has ended, by the clock of the server.
    ///
    /// A clock that was set back, or that of a standby, may show the end much too late. So a lease
    /// has also ended if it is `old`: it was not renewed while this process waited for a term, by
    /// its monotonic clock. Until then, its owner may act, also if the server is on another
    /// timeline, which the owner does not know yet.
    ///
    /// The epoch is one above the last. Its upper bits are at least the timeline: a standby may not
    /// have received the last epochs of the server before, and its first one has to be above them.
    /// With fewer than 65,536 owners on a timeline it is. With more, they count on in the upper
    /// bits, and it is unless the standby has missed so many.
    async fn update(
        &self,
        session: &PostgresSession,
        old: Option<&Holder>,
    ) -> Result<Option<Acquired>, PostgresError> {
        let schema = &self.schema;
        let statement = format!(
            "UPDATE {schema}.doclock_lease SET epoch = greatest({TIMELINE} << {COUNTER_BITS},
                CASE WHEN timeline = {TIMELINE} AND split_part(system_identifier, '/', 1) = $5
                THEN epoch + 1 ELSE ((epoch >> {COUNTER_BITS}) + 1) << {COUNTER_BITS} END),
                owner = $2, address = $3, claim = $4, timeline = {TIMELINE},
                system_identifier = $5 || {PLACE}, term = $6 * interval '1 microsecond',
                expires_at = clock_timestamp() + $6 * interval '1 microsecond'
            WHERE document = $1 AND (expires_at <= clock_timestamp()
                OR epoch = $8 AND claim = $9 AND extract(epoch FROM expires_at)::text = $10)
            AND NOT {is_restored} AND {LOCK_TIMEOUT} IS NOT NULL
            RETURNING epoch, timeline, checkpoint",
            is_restored = is_restored(),
            LOCK_TIMEOUT = lock_timeout(7),
        );
        let term = micros(self.options.term);
        let limit = self.lock_limit();
        let parameters = [
            (&self.document as _, Type::TEXT),
            (&self.options.owner as _, Type::TEXT),
            (&self.options.address as _, Type::TEXT),
            (&self.claim as _, Type::INT8),
            (&session.system as _, Type::TEXT),
            (&term as _, Type::INT8),
            (&limit as _, Type::TEXT),
            (&old.map(|old| old.epoch) as _, Type::INT8),
            (&old.map(|old| old.claim) as _, Type::INT8),
            (&old.map(|old| &*old.expires_at) as _, Type::TEXT),
        ];
        acquired(&session.query(&statement, &parameters).await?)
    }

    /// Renews the lease that an earlier attempt of this one has acquired.
    async fn renew(&self, session: &PostgresSession) -> Result<Option<Acquired>, PostgresError> {
        let schema = &self.schema;
        let statement = format!(
            "UPDATE {schema}.doclock_lease SET expires_at = clock_timestamp() + term
            WHERE document = $1 AND claim = $2 AND expires_at > clock_timestamp()
            AND timeline = {TIMELINE} AND system_identifier = $3 || {PLACE}
            AND {LOCK_TIMEOUT} IS NOT NULL
            RETURNING epoch, timeline, checkpoint",
            LOCK_TIMEOUT = lock_timeout(4),
        );
        let limit = self.lock_limit();
        let parameters = [
            (&self.document as _, Type::TEXT),
            (&self.claim as _, Type::INT8),
            (&session.system as _, Type::TEXT),
            (&limit as _, Type::TEXT),
        ];
        acquired(&session.query(&statement, &parameters).await?)
    }
}

/// Whether the row of a lease was written in another database or table. A row that an earlier
/// version of this package has written does not say where.
fn is_restored() -> String {
    format!(
        "(strpos(system_identifier, '/') > 0
        AND substr(system_identifier, strpos(system_identifier, '/')) <> {PLACE})"
    )
}

fn acquired(rows: &[tokio_postgres::Row]) -> Result<Option<Acquired>, PostgresError> {
    let Some(row) = rows.first() else {
        return Ok(None);
    };
    Ok(Some(Acquired {
        epoch: row.try_get(0)?,
        timeline: row.try_get(1)?,
        checkpoint: row.try_get(2)?,
    }))
}

/// Renews a lease until it ends, or until nothing needs it any more.
async fn keep(lease: Weak<OwnershipLease>) {
    let mut failures = 0;
    let mut next = Instant::now();
    loop {
        {
            let Some(lease) = lease.upgrade() else { return };
            let Some(until) = lease.held_until() else {
                return;
            };
            // A third of a term, of which the window is the greater part.
            let third = lease.window / 3;
            next = match failures {
                0 => next + third,
                _ => Instant::now() + backoff(failures),
            };
            next = next.min(until);
        }
        tokio::time::sleep_until(next.into()).await;
        let Some(lease) = lease.upgrade() else { return };
        let Some(until) = lease.held_until() else {
            return;
        };
        let start = Instant::now();
        next = start;
        // A server that does not answer leaves time for another attempt.
        let limit = until.min(start + lease.window / 3);
        let connections = Arc::clone(lease.server.connections());
        let renew = async |session: &PostgresSession| match lease.renew(session).await? {
            true => Ok(None),
            false => lease.find_reason(session).await.map(Some),
        };
        match connections.leases.run(limit.into(), renew).await {
            Ok(None) => {
                failures = 0;
                lease.renewed(start);
            }
            Ok(Some(reason)) => lease.lose(reason),
            Err(cause) => {
                failures += 1;
                if let Some(until) = lease.held_until() {
                    lease.tell(OwnerEvent::RenewalFailed {
                        document: lease.identity.document.clone(),
                        epoch: lease.epoch(),
                        cause,
                        remaining: until.saturating_duration_since(Instant::now()),
                    });
                }
            }
        }
    }
}
