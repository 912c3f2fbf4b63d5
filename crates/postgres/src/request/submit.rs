//! Submitting requests from any machine.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use doclock::lock::CancelToken;
use doclock::transaction::{IntoOperations, Operation, TransactionResult};
use tokio::sync::Notify;
use tokio_postgres::types::Type;

use super::{PendingRequest, RequestError};
use crate::connection::{Parameter, PostgresSession, backoff};
use crate::random::random;
use crate::schema::{LONGEST_DOCUMENT, checked_name, micros};
use crate::{Postgres, PostgresError};

/// The longest idempotency key of a request, in bytes.
const LONGEST_KEY: usize = 512;

/// How long a statement waits for the server.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// The longest timeout of a request.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// Submits operation batches to the owner of a document, from any machine.
///
/// Requests of all machines run in one order, that of their numbers. Clones are handles of the same
/// value. The methods block, and can be called in a thread of an async runtime.
///
/// ```no_run
/// use doclock::dsl::*;
/// use doclock_postgres::{Postgres, PostgresOptions, RequestOptions};
///
/// let server = Postgres::connect(PostgresOptions::new("host=/run/postgresql dbname=app")?)?;
/// let requests = server.requests("notes", "machine-2")?;
/// let options = RequestOptions::new("ann").key("invoice 7");
/// let pending = requests.submit(create(text_node("paragraph", "Hello")), options)?;
/// let result = pending.wait(None)?;
/// println!("request {} made version {}", pending.number(), result.version);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Requests(pub(super) Arc<SharedRequests>);

pub(super) struct SharedRequests {
    pub(super) server: Postgres,
    pub(super) document: String,
    pub(super) machine: String,
    largest_batch: usize,
    /// Notified when waiting requests are to look for their outcomes at once.
    pub(super) bell: Notify,
}

impl fmt::Debug for Requests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Requests")
            .field("document", &self.0.document)
            .field("machine", &self.0.machine)
            .finish_non_exhaustive()
    }
}

/// Options of a request.
#[derive(Clone, Debug)]
#[must_use]
pub struct RequestOptions {
    owner: String,
    label: Option<String>,
    pub(crate) key: Option<String>,
    pub(crate) timeout: Option<Duration>,
    cancel: Option<CancelToken>,
}

impl RequestOptions {
    /// Creates options with the owner of the transaction, of at most 255 bytes.
    pub fn new(owner: impl Into<String>) -> Self {
        Self {
            owner: owner.into(),
            label: None,
            key: None,
            timeout: None,
            cancel: None,
        }
    }

    /// Sets the label of the lock request, of at most 255 bytes. The default is the name of the
    /// first operation.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Sets the idempotency key, of at most 512 bytes: batches with one key have one effect, on
    /// whichever machines and in whichever call they are submitted. The default is a new key.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Sets within which time after its insert the batch must begin, by the clock of the server.
    /// Otherwise it never does.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Lets the batch wait as long as it takes. This is the default.
    pub fn no_timeout(mut self) -> Self {
        self.timeout = None;
        self
    }

    /// Lets `token` cancel the batch, unless it has begun, as [`PendingRequest::cancel`] does. It
    /// ends the wait of a call: for the lock of the owner, or for the outcome of a request.
    ///
    /// The call then returns what has happened: [`RequestError::Cancelled`], or the outcome of a
    /// batch that has begun. If the server does not answer within some seconds, it returns
    /// [`RequestError::Server`].
    ///
    /// ```no_run
    /// # use doclock_postgres::{Member, RequestError};
    /// use doclock::{dsl::*, lock::CancelToken};
    /// use doclock_postgres::RequestOptions;
    ///
    /// # fn call(member: &Member, token: &CancelToken) -> Result<(), RequestError> {
    /// // Another thread calls `token.cancel()`, for example when a client is gone.
    /// let options = RequestOptions::new("ann").cancel_token(token);
    /// match member.execute_with(create(text_node("paragraph", "Hello")), options) {
    ///     Err(RequestError::Cancelled { .. }) => println!("nothing has changed"),
    ///     ended => println!("version {}", ended?.version),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn cancel_token(mut self, token: &CancelToken) -> Self {
        self.cancel = Some(token.clone());
        self
    }
}

impl Postgres {
    /// Returns a handle to submit requests for a document. `machine` has at most 255 bytes, and
    /// should be the name of this machine also after a restart, so that
    /// [`find`](Requests::find) finds earlier requests. Needs no connection.
    ///
    /// # Errors
    ///
    /// [`PostgresError::Name`].
    pub fn requests(&self, document: &str, machine: &str) -> Result<Requests, PostgresError> {
        Ok(Requests(Arc::new(SharedRequests {
            server: self.clone(),
            document: checked_name(document, LONGEST_DOCUMENT)?.to_owned(),
            machine: checked_name(machine, 255)?.to_owned(),
            largest_batch: 1 << 20,
            bell: Notify::new(),
        })))
    }
}

impl Requests {
    /// Sets the largest batch in bytes of JSON. The default is 1 MiB, and at most 64 MiB are
    /// possible. The result is another handle, which [`wake`](Self::wake) rings for separately.
    #[must_use]
    pub fn largest_batch(self, bytes: usize) -> Self {
        Self(Arc::new(SharedRequests {
            server: self.0.server.clone(),
            document: self.0.document.clone(),
            machine: self.0.machine.clone(),
            largest_batch: bytes.min(1 << 26),
            bell: Notify::new(),
        }))
    }

    /// Inserts a request, and returns when it has a number.
    ///
    /// If the connection is lost, the request is looked up, and inserted again if it is missing.
    /// Blocks for at most 5 seconds.
    ///
    /// A [token](RequestOptions::cancel_token) that is cancelled before the call refuses the
    /// request. Later it ends a [`wait`](PendingRequest::wait) of the returned handle or a clone,
    /// which cancels the request. While nothing waits, it has no effect.
    ///
    /// # Errors
    ///
    /// [`RequestError::TooLarge`], [`RequestError::NotData`] or [`RequestError::Cancelled`], or the
    /// error of the server.
    pub fn submit(
        &self,
        operations: impl IntoOperations,
        options: RequestOptions,
    ) -> Result<PendingRequest, RequestError> {
        let draft = self.draft(&operations.into_operations(), options)?;
        draft.check_cancelled()?;
        let deadline = Instant::now() + PATIENCE;
        self.insert(&draft, deadline)
    }

    /// Checks a batch and its options, and draws what identifies the request.
    pub(crate) fn draft(
        &self,
        operations: &[Operation],
        options: RequestOptions,
    ) -> Result<RequestDraft, RequestError> {
        let batch = serde_json::to_vec(operations).map_err(|error| RequestError::NotData {
            reason: error.to_string(),
        })?;
        let (bytes, most) = (batch.len(), self.0.largest_batch);
        if bytes > most {
            return Err(RequestError::TooLarge { bytes, most });
        }
        let ticket = random().cast_signed();
        let key = match options.key {
            Some(key) => checked_name(&key, LONGEST_KEY)?.to_owned(),
            None => format!("{}/{:016x}", self.0.machine, random()),
        };
        let label = options.label.as_deref();
        let label = label.map(|label| checked_name(label, 255)).transpose()?;
        let timeout = options.timeout.map(|timeout| timeout.min(LONGEST_TIMEOUT));
        Ok(RequestDraft {
            shared: Arc::clone(&self.0),
            ticket,
            owner: checked_name(&options.owner, 255)?.to_owned(),
            label: label.map(str::to_owned),
            key,
            batch: batch.into(),
            timeout,
            cancel: options.cancel,
        })
    }

    /// Inserts a request. If that fails, it may be inserted all the same. A repetition with the
    /// same draft then finds it.
    pub(crate) fn insert(
        &self,
        draft: &RequestDraft,
        deadline: Instant,
    ) -> Result<PendingRequest, RequestError> {
        let (insert, server) = (draft.clone(), &self.0.server);
        let number = server.call(Some(deadline), async move { insert.run(deadline).await })??;
        let key = Some((draft.key.clone(), draft.ticket));
        let pending = PendingRequest::new(self.clone(), number, key);
        Ok(pending.with_token(draft.cancel.clone()))
    }

    /// Submits a batch and waits for its outcome: see [`submit`](Self::submit) and
    /// [`wait`](PendingRequest::wait). Without a [timeout](RequestOptions::timeout) it waits as
    /// long as the document has no owner, unless its [token](RequestOptions::cancel_token) is
    /// cancelled. It waits for a batch that has begun until five seconds after the timeout.
    ///
    /// # Errors
    ///
    /// [`RequestError`].
    pub fn execute(
        &self,
        operations: impl IntoOperations,
        options: RequestOptions,
    ) -> Result<TransactionResult, RequestError> {
        let limit = options.timeout;
        let limit = limit.map(|timeout| timeout.saturating_add(PATIENCE));
        self.submit(operations, options)?.wait(limit)
    }

    /// Returns the request of this number, as a handle. Needs no connection.
    pub fn request(&self, number: u64) -> PendingRequest {
        let number = i64::try_from(number).unwrap_or(i64::MAX);
        PendingRequest::new(self.clone(), number, None)
    }

    /// Finds the last request of this machine with a key, also one of an earlier process.
    ///
    /// # Errors
    ///
    /// The error of the server.
    pub fn find(&self, key: &str) -> Result<Option<PendingRequest>, RequestError> {
        let shared = Arc::clone(&self.0);
        let key = checked_name(key, LONGEST_KEY)?.to_owned();
        let wanted = key.clone();
        let deadline = Instant::now() + PATIENCE;
        let found = self.0.server.call(Some(deadline), async move {
            let statement = format!(
                "SELECT number, ticket FROM {}.doclock_request
                WHERE document = $1 AND machine = $2 AND key = $3
                ORDER BY number DESC LIMIT 1",
                shared.server.schema()
            );
            let parameters: [Parameter<'_>; 3] = [
                (&shared.document, Type::TEXT),
                (&shared.machine, Type::TEXT),
                (&wanted, Type::TEXT),
            ];
            let query =
                async |session: &PostgresSession| session.query(&statement, &parameters).await;
            let requests = &shared.server.connections().requests;
            let rows = requests.run(deadline.into(), query).await?;
            let Some(row) = rows.first() else {
                return Ok(None);
            };
            let found: (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
            Ok::<_, PostgresError>(Some(found))
        })??;
        Ok(found
            .map(|(number, ticket)| PendingRequest::new(self.clone(), number, Some((key, ticket)))))
    }

    /// Lets the requests that wait with this handle or a clone look for their outcomes at once: for
    /// a doorbell.
    pub fn wake(&self) {
        self.0.bell.notify_waiters();
    }
}

/// A request before its insert.
#[derive(Clone)]
pub(crate) struct RequestDraft {
    shared: Arc<SharedRequests>,
    ticket: i64,
    pub(crate) owner: String,
    pub(crate) label: Option<String>,
    pub(crate) key: String,
    batch: Arc<[u8]>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) cancel: Option<CancelToken>,
}

impl RequestDraft {
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancel.as_ref().is_some_and(CancelToken::is_cancelled)
    }

    /// Refuses a request that is not inserted, if its token is cancelled.
    pub(crate) fn check_cancelled(&self) -> Result<(), RequestError> {
        match self.is_cancelled() {
            false => Ok(()),
            true => Err(RequestError::Cancelled {
                number: None,
                error: None,
                machine: self.shared.machine.clone(),
                epoch: None,
            }),
        }
    }

    /// Inserts the request, in as many attempts as it takes until the deadline.
    async fn run(&self, deadline: Instant) -> Result<i64, PostgresError> {
        let requests = &self.shared.server.connections().requests;
        let mut failures = 0;
        loop {
            // An attempt leaves time for another one.
            let patience = (PATIENCE / 4).max(Duration::from_millis(1));
            let until = deadline.min(Instant::now() + patience);
            let attempt = async |session: &PostgresSession| {
                if failures > 0
                    && let Some(number) = self.find(session).await?
                {
                    return Ok(number);
                }
                self.insert(session).await
            };
            match requests.run(until.into(), attempt).await {
                // An earlier attempt has inserted it, whose answer was lost.
                Err(error) if error.is_passing() || error.is_duplicate() => {
                    if Instant::now() >= deadline || self.is_cancelled() {
                        return Err(error);
                    }
                    failures += 1;
                }
                ended => return ended,
            }
            tokio::time::sleep(backoff(failures)).await;
        }
    }

    async fn find(&self, session: &PostgresSession) -> Result<Option<i64>, PostgresError> {
        let statement = format!(
            "SELECT number FROM {}.doclock_request
            WHERE document = $1 AND machine = $2 AND ticket = $3",
            self.shared.server.schema()
        );
        let parameters: [Parameter<'_>; 3] = [
            (&self.shared.document, Type::TEXT),
            (&self.shared.machine, Type::TEXT),
            (&self.ticket, Type::INT8),
        ];
        let rows = session.query(&statement, &parameters).await?;
        Ok(rows.first().map(|row| row.try_get(0)).transpose()?)
    }

    async fn insert(&self, session: &PostgresSession) -> Result<i64, PostgresError> {
        let (batch, timeout) = (&*self.batch, self.timeout.map(micros));
        let parameters: [Parameter<'_>; 8] = [
            (&self.shared.document, Type::TEXT),
            (&self.shared.machine, Type::TEXT),
            (&self.ticket, Type::INT8),
            (&self.owner, Type::TEXT),
            (&self.label, Type::TEXT),
            (&self.key, Type::TEXT),
            (&batch, Type::BYTEA),
            (&timeout, Type::INT8),
        ];
        let statement = &self.shared.server.connections().of_requests.insert;
        let rows = session.query(statement, &parameters).await?;
        match rows.first() {
            Some(row) => Ok(row.try_get(0)?),
            None => Err(PostgresError::thread("the insert has returned no number")),
        }
    }
}
