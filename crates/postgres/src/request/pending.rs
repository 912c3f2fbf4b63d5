//! Waiting for the outcome of a request.

use std::future::pending;
use std::pin::pin;
use std::time::{Duration, Instant};

use doclock::lock::CancelToken;
use doclock::transaction::TransactionResult;
use futures_util::future::select;
use tokio_postgres::types::Type;

use super::RequestError;
use super::outcome::{SettledBy, SettledOutcome};
use super::submit::{PATIENCE, Requests};
use crate::PostgresError;
use crate::connection::{Parameter, PostgresSession, backoff};
use crate::schema::TIMELINE;

/// How long a request that waits pauses at most before it looks again.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// How long the server has at least for the answer to a look.
const LOOK: Duration = Duration::from_secs(1);

/// A request that was submitted. Dropping it changes nothing: the request runs all the same.
#[derive(Clone, Debug)]
pub struct PendingRequest {
    requests: Requests,
    number: i64,
    key: Option<String>,
    /// By which the request is known, unless this handle was made from a number: after a failover
    /// that has lost it, another one can have its number.
    ticket: Option<i64>,
    cancel: Option<CancelToken>,
}

/// What a look at a request has found.
struct RequestStatus {
    settled: Option<(Vec<u8>, SettledBy)>,
    /// Whether it has no outcome and no owner runs it.
    is_free: bool,
    /// Whether the timeout has passed.
    is_late: bool,
    taken: Option<i64>,
    owner: Option<String>,
    epoch: Option<i64>,
}

impl PendingRequest {
    pub(super) fn new(requests: Requests, number: i64, key: Option<(String, i64)>) -> Self {
        let (key, ticket) = key.unzip();
        Self {
            requests,
            number,
            key,
            ticket,
            cancel: None,
        }
    }

    pub(super) fn with_token(self, cancel: Option<CancelToken>) -> Self {
        Self { cancel, ..self }
    }

    fn is_cancelled(&self) -> bool {
        self.cancel.as_ref().is_some_and(CancelToken::is_cancelled)
    }

    /// Returns the number of the request. Requests of a document run in the order of their numbers.
    pub fn number(&self) -> u64 {
        self.number.unsigned_abs()
    }

    /// Returns the idempotency key, unless this handle was made from a number.
    pub fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// Waits for the outcome, for at most `timeout`; `None` sets no limit.
    ///
    /// The result is that of the transaction on the owner's machine, without its changes, which the
    /// log has, and without failures of after-hooks.
    ///
    /// It looks for the outcome once a round trip at first, and each 50 ms in the end. Lost
    /// connections are made again. If the [timeout of the
    /// request](super::RequestOptions::timeout) has passed and no owner runs it, this settles it as
    /// expired. If the [token](super::RequestOptions::cancel_token) of the request is cancelled,
    /// this cancels the request, and waits for what has happened.
    ///
    /// # Errors
    ///
    /// [`RequestError::Timeout`] if there is no outcome in time, with what is known. The request
    /// can still run then: wait again, or [cancel](Self::cancel) it. After the token was cancelled,
    /// this waits for five seconds: then it returns [`RequestError::Timeout`] if a batch that has
    /// begun has no outcome, and [`RequestError::Server`] if the server does not answer.
    pub fn wait(
        &self,
        timeout: impl Into<Option<Duration>>,
    ) -> Result<TransactionResult, RequestError> {
        let until = timeout
            .into()
            .and_then(|timeout| Instant::now().checked_add(timeout));
        self.wait_until(until)
    }

    /// Waits as [`wait`](Self::wait) does.
    pub(crate) fn wait_until(
        &self,
        until: Option<Instant>,
    ) -> Result<TransactionResult, RequestError> {
        let this = self.clone();
        let began = Instant::now();
        let server = &self.requests.0.server;
        server.call(None, async move { this.outcome(began, until).await })?
    }

    /// Looks for the outcome once. `None` if there is none yet.
    ///
    /// # Errors
    ///
    /// [`RequestError`].
    pub fn poll(&self) -> Result<Option<TransactionResult>, RequestError> {
        let this = self.clone();
        let until = Instant::now() + PATIENCE;
        let server = &self.requests.0.server;
        server.call(Some(until), async move {
            let seen = this.look(until).await?;
            seen.settled.map(|settled| this.read(settled)).transpose()
        })?
    }

    /// Cancels the request, unless it has an outcome, and returns whether it is cancelled now.
    ///
    /// A request that an owner has taken is only marked: the owner cancels it if the batch has not
    /// begun, and [`wait`](Self::wait) returns what has happened.
    ///
    /// # Errors
    ///
    /// The error of the server. The request may be cancelled or not.
    pub fn cancel(&self) -> Result<bool, RequestError> {
        let this = self.clone();
        let until = Instant::now() + PATIENCE;
        let server = &self.requests.0.server;
        server.call(Some(until), async move {
            let mut failures = 0;
            loop {
                let outcome = SettledOutcome::Cancelled(None);
                match this.settle(&outcome, true, until).await {
                    // A repetition has no other effect.
                    Err(error) if error.is_passing() && Instant::now() < until => failures += 1,
                    Err(error) => return Err(error.into()),
                    Ok(()) => break,
                }
                tokio::time::sleep(backoff(failures)).await;
            }
            let seen = this.look(until).await?;
            match seen.settled.map(|settled| this.read(settled)) {
                Some(Err(RequestError::Cancelled { .. })) => Ok(true),
                Some(Err(error)) if !error.is_outcome() => Err(error),
                _ => Ok(false),
            }
        })?
    }

    async fn outcome(
        &self,
        began: Instant,
        until: Option<Instant>,
    ) -> Result<TransactionResult, RequestError> {
        let mut failures = 0;
        let mut last: Option<RequestStatus> = None;
        // Until when a request that is to be cancelled waits for its outcome.
        let mut gives_up = None;
        let mut is_marked = false;
        loop {
            // Before the look, so that no ring is missed.
            let rung = self.requests.0.bell.notified();
            let now = Instant::now();
            // A look that is given up ends the connection of all requests of this process.
            let (shortest, patience) = (now + LOOK, now + PATIENCE);
            let limit = until.map_or(patience, |until| until.clamp(shortest, patience));
            let is_cancelled = self.is_cancelled();
            if is_cancelled {
                gives_up.get_or_insert(patience);
            }
            let cancels = is_cancelled && !is_marked;
            let pause = match self.look_or_cancel(cancels, limit).await {
                Ok(RequestStatus {
                    settled: Some(settled),
                    ..
                }) => return self.read(settled),
                Ok(seen) => {
                    failures = 0;
                    // The owner that was to see the mark may have lost the lease.
                    is_marked = is_cancelled && !seen.is_free;
                    if seen.is_late && seen.is_free {
                        // C9: this settles nothing that an owner may have run.
                        let settled = self
                            .settle(&SettledOutcome::Expired(None), false, patience)
                            .await;
                        if let Err(error) = settled
                            && !error.is_passing()
                        {
                            return Err(error.into());
                        }
                    }
                    last = Some(seen);
                    // As long as the answer takes, a quarter may be added.
                    (began.elapsed() / 4).min(LONGEST_PAUSE)
                }
                Err(RequestError::Server(error)) if error.is_passing() => {
                    let is_over = |until| Instant::now() >= until;
                    if until.is_some_and(is_over) && last.is_none() || gives_up.is_some_and(is_over)
                    {
                        return Err(error.into());
                    }
                    failures += 1;
                    backoff(failures)
                }
                Err(error) => return Err(error),
            };
            let is_over = |until| Instant::now() >= until;
            if until.is_some_and(is_over) || gives_up.is_some_and(is_over) {
                return Err(self.timed_out(began, last).await);
            }
            let next = Instant::now() + pause;
            let next = until.map_or(next, |until| next.min(until));
            let cancelled = async {
                match &self.cancel {
                    Some(token) if !is_cancelled => token.cancelled().await,
                    _ => pending().await,
                }
            };
            // The timer has milliseconds.
            if pause >= Duration::from_millis(1) {
                let (rung, cancelled) = (pin!(rung), pin!(cancelled));
                let _ = tokio::time::timeout_at(next.into(), select(rung, cancelled)).await;
            } else {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Looks for the outcome, after it has cancelled the request as far as no owner runs it.
    async fn look_or_cancel(
        &self,
        cancels: bool,
        until: Instant,
    ) -> Result<RequestStatus, RequestError> {
        if cancels {
            self.settle(&SettledOutcome::Cancelled(None), true, until)
                .await?;
        }
        self.look(until).await
    }

    async fn timed_out(&self, began: Instant, last: Option<RequestStatus>) -> RequestError {
        let shared = &self.requests.0;
        let statement = format!(
            "SELECT count(*) FROM {}.doclock_request
            WHERE document = $1 AND number < $2 AND outcome IS NULL",
            shared.server.schema()
        );
        let parameters: [Parameter<'_>; 2] =
            [(&shared.document, Type::TEXT), (&self.number, Type::INT8)];
        let waited = began.elapsed();
        let query = async |session: &PostgresSession| session.query(&statement, &parameters).await;
        let deadline = Instant::now() + LOOK;
        let requests = &shared.server.connections().requests;
        let rows = requests.run(deadline.into(), query).await;
        let ahead: Option<i64> = rows.ok().and_then(|rows| rows.first()?.try_get(0).ok());
        let seen = last.as_ref();
        RequestError::Timeout {
            number: self.number(),
            waited,
            ahead: ahead.map_or(0, i64::unsigned_abs),
            owner: seen.and_then(|seen| seen.owner.clone()),
            epoch: seen.and_then(|seen| seen.epoch).map(i64::unsigned_abs),
            taken: seen.and_then(|seen| seen.taken).map(i64::unsigned_abs),
        }
    }

    /// Reads the row.
    async fn look(&self, until: Instant) -> Result<RequestStatus, RequestError> {
        let shared = &self.requests.0;
        let parameters: [Parameter<'_>; 4] = [
            (&shared.document, Type::TEXT),
            (&self.number, Type::INT8),
            (&self.ticket, Type::INT8),
            (&shared.machine, Type::TEXT),
        ];
        let look = async |session: &PostgresSession| {
            let statement = &shared.server.connections().of_requests.look;
            let rows = session.query(statement, &parameters).await?;
            match rows.into_iter().next() {
                Some(row) => Ok(Ok(row)),
                None => self.missing(session).await.map(Err),
            }
        };
        let requests = &shared.server.connections().requests;
        let row = requests.run(until.into(), look).await??;
        let seen = || {
            let outcome: Option<Vec<u8>> = row.try_get(0)?;
            let machine: Option<String> = row.try_get(1)?;
            let epoch: Option<i64> = row.try_get(2)?;
            let by = SettledBy {
                machine: machine.unwrap_or_default(),
                epoch: epoch.map(i64::unsigned_abs),
            };
            let is_free: Option<bool> = row.try_get(6)?;
            let is_late: Option<bool> = row.try_get(7)?;
            Ok::<_, tokio_postgres::Error>(RequestStatus {
                settled: outcome.map(|outcome| (outcome, by)),
                is_free: is_free.unwrap_or(false),
                is_late: is_late.unwrap_or(false),
                taken: row.try_get(3)?,
                owner: row.try_get(4)?,
                epoch: row.try_get(5)?,
            })
        };
        Ok(seen().map_err(PostgresError::from)?)
    }

    /// Finds out why there is no row of this request.
    ///
    /// C9: the last number of a document is stored by the statement that inserts the request. So a
    /// lower one, or another request of this number, is of a server that has gone back to a state
    /// before the insert. Otherwise the row was removed, and the batch may have run. A standby may
    /// lack the row as yet, and cannot answer this.
    async fn missing(&self, session: &PostgresSession) -> Result<RequestError, PostgresError> {
        let shared = &self.requests.0;
        let schema = shared.server.schema();
        let statement = format!(
            "SELECT NOT EXISTS (SELECT FROM {schema}.doclock_request_number
                    WHERE document = $1 AND number >= $2)
                OR EXISTS (SELECT FROM {schema}.doclock_request
                    WHERE document = $1 AND number = $2), {TIMELINE}"
        );
        let parameters: [Parameter<'_>; 2] =
            [(&shared.document, Type::TEXT), (&self.number, Type::INT8)];
        let rows = session.query(&statement, &parameters).await?;
        let went_back: bool = rows.first().map_or(Ok(false), |row| row.try_get(0))?;
        let (document, number) = (shared.document.clone(), self.number());
        // Without a ticket, it may be a number that no request has had.
        Ok(match went_back && self.ticket.is_some() {
            true => RequestError::Lost { document, number },
            false => RequestError::NotFound { document, number },
        })
    }

    /// Settles the request without an owner, if none runs it.
    ///
    /// C9: the row lock orders this and the owner that takes the request. An owner that has taken
    /// it runs it only while it has the lease, in the epoch that is in the row. If another
    /// statement has changed the row meanwhile, the conditions are computed again, and an epoch
    /// that was read too early is only too low.
    async fn settle(
        &self,
        outcome: &SettledOutcome,
        cancels: bool,
        until: Instant,
    ) -> Result<(), PostgresError> {
        let shared = &self.requests.0;
        let schema = shared.server.schema();
        let statement = format!(
            "WITH c AS (SELECT q.taken IS NULL OR q.taken < l.epoch
                    OR (q.taken = l.epoch AND l.expires_at <= clock_timestamp()) AS is_free
                FROM {schema}.doclock_request q
                LEFT JOIN {schema}.doclock_lease l ON l.document = q.document
                WHERE q.document = $1 AND q.number = $2 AND q.outcome IS NULL
                    AND ($6::bigint IS NULL OR q.machine = $5 AND q.ticket = $6)
                    AND set_config('lock_timeout', '1000', true) IS NOT NULL
                FOR NO KEY UPDATE OF q)
            UPDATE {schema}.doclock_request q SET cancelled = q.cancelled OR $3,
                outcome = CASE WHEN c.is_free THEN $4 END,
                answered_by = CASE WHEN c.is_free THEN $5 END,
                answered_at = CASE WHEN c.is_free THEN clock_timestamp() END
            FROM c WHERE q.document = $1 AND q.number = $2 AND (c.is_free OR $3)"
        );
        let outcome = outcome.to_bytes();
        let parameters: [Parameter<'_>; 6] = [
            (&shared.document, Type::TEXT),
            (&self.number, Type::INT8),
            (&cancels, Type::BOOL),
            (&outcome, Type::BYTEA),
            (&shared.machine, Type::TEXT),
            (&self.ticket, Type::INT8),
        ];
        let execute =
            async |session: &PostgresSession| session.execute(&statement, &parameters).await;
        let requests = &shared.server.connections().requests;
        requests.run(until.into(), execute).await.map(drop)
    }

    fn read(&self, (outcome, by): (Vec<u8>, SettledBy)) -> Result<TransactionResult, RequestError> {
        let number = self.number();
        let read: Result<SettledOutcome, _> = serde_json::from_slice(&outcome);
        match read {
            Ok(outcome) => outcome.into_result(number, by),
            Err(error) => Err(RequestError::Unreadable {
                number,
                reason: error.to_string(),
            }),
        }
    }
}
