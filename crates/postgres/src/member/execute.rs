//! One call for every machine: the owner runs a batch itself, and any other member requests it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use doclock::durable::{Durability, DurabilityError};
use doclock::lock::{AcquireOptions, CancelToken, LockError};
use doclock::transaction::{
    IntoOperations, Operation, Published, TransactionError, TransactionResult,
};
use doclock::{CommitError, DataStore};
use tokio_postgres::types::Type;

use super::Member;
use super::shared::MemberRole;
use crate::connection::{Parameter, PostgresSession};
use crate::request::{PATIENCE, RequestDraft, error_json_of};
use crate::{PostgresError, RequestError, RequestOptions, Term};

/// How long a call pauses while the server cannot be reached.
const PAUSE: Duration = Duration::from_millis(100);

/// What a call returns.
type ExecuteResult = Result<TransactionResult, RequestError>;

/// The batch is not stored by this process, so it can be requested of the next owner.
struct NotStored;

/// How long a call waits.
struct WaitLimits {
    /// Until when the batch must begin.
    deadline: Option<Instant>,
    cancel: Option<CancelToken>,
    /// When the token was found cancelled.
    cancelled: Option<Instant>,
    /// How much longer a batch that has begun is waited for. When its owner dies, the next one
    /// begins within this time.
    patience: Duration,
}

impl WaitLimits {
    /// Until when the outcome of a batch that has begun is waited for.
    fn until(&mut self) -> Option<Instant> {
        if self.cancel.as_ref().is_some_and(CancelToken::is_cancelled) {
            self.cancelled.get_or_insert_with(Instant::now);
        }
        let first = self.deadline.into_iter().chain(self.cancelled).min();
        first.and_then(|first| first.checked_add(self.patience))
    }

    fn are_over(&mut self) -> bool {
        self.until().is_some_and(|until| Instant::now() >= until)
    }

    /// Runs waits of a short time each, until one ends.
    fn wait<T>(
        &mut self,
        wait: impl Fn(Option<Duration>) -> Result<T, DurabilityError>,
    ) -> Result<T, DurabilityError> {
        let is_limited = self.deadline.is_some() || self.cancel.is_some();
        loop {
            match wait(is_limited.then_some(PAUSE)) {
                Err(DurabilityError::Timeout { .. }) if !self.are_over() => {}
                ended => return ended,
            }
        }
    }
}

impl Member {
    /// Runs an operation batch, whichever process owns the document: see
    /// [`execute_with`](Self::execute_with). The owner of the transaction is the name of this
    /// member.
    ///
    /// # Errors
    ///
    /// [`RequestError`].
    pub fn execute(
        &self,
        operations: impl IntoOperations,
    ) -> Result<TransactionResult, RequestError> {
        let owner = self.0.options.term.owner.clone();
        self.execute_with(operations, RequestOptions::new(owner))
    }

    /// Runs an operation batch, whichever process owns the document.
    ///
    /// If this member owns it, the batch joins the queue of its store. Otherwise it is a
    /// [request](crate::Requests) to the owner, which joins the queue there. The call returns when
    /// the commit is durable. Batches of all members run in one order, and each has one outcome. If
    /// the owner changes meanwhile, the call waits for the outcome in the next term. The batch has
    /// one effect, because it always has an idempotency key.
    ///
    /// The result has changes only if this member ran the batch; a follower reads them in the log.
    /// A follower may see the version of the result a moment later.
    ///
    /// Blocks as long as the document has no owner, or the server cannot be reached or refuses
    /// what the owner writes. A request is inserted again only as long as
    /// [outcomes are kept](crate::RunnerOptions::keep_outcomes): an hour by default.
    ///
    /// A [timeout](RequestOptions::timeout) limits the time until the batch begins, and a
    /// [token](RequestOptions::cancel_token) cancels a batch that has not begun. The outcome of a
    /// batch that has begun is waited for as long as two terms beyond that. A call may
    /// be made in a thread of an async runtime, which it blocks, and after the member has left.
    ///
    /// After-hooks run on the owner that has stored the commit, when it is durable, and at most
    /// once. If that process dies before, they do not run.
    ///
    /// ```no_run
    /// # use doclock_postgres::{Member, MemberOptions, Postgres, PostgresOptions, TermOptions};
    /// use std::time::Duration;
    /// use doclock::dsl::*;
    /// use doclock_postgres::RequestOptions;
    ///
    /// # let server = Postgres::connect(PostgresOptions::new("host=/run/postgresql")?)?;
    /// # let options = MemberOptions::new(TermOptions::new("machine-1"));
    /// let member = Member::join(&server, "notes", options)?;
    /// member.execute(create(text_node("paragraph", "Hello")))?;
    /// let options = RequestOptions::new("ann").timeout(Duration::from_secs(2));
    /// let result = member.execute_with(create(text_node("paragraph", "Hi")), options)?;
    /// println!("version {}", result.version);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`RequestError`]. A batch that fails has the same error on each machine, with the machine
    /// that ran it and the epoch. A batch that runs code, or that is too large for a request, is
    /// refused on each machine. If the server refuses what this owner writes, the error has the
    /// code `commitNotStored`, and nothing is stored.
    ///
    /// [`RequestError::Timeout`] or [`RequestError::Unknown`] if the wait for the outcome has ended
    /// without one. After [`RequestError::Server`] the batch may still run: call again with the
    /// same [key](RequestOptions::key).
    pub fn execute_with(
        &self,
        operations: impl IntoOperations,
        options: RequestOptions,
    ) -> Result<TransactionResult, RequestError> {
        let has_own_key = options.key.is_none();
        let operations = operations.into_operations();
        let draft = self.0.requests.draft(&operations, options)?;
        let mut limits = WaitLimits {
            // A time that no clock will show is no limit.
            deadline: draft
                .timeout
                .and_then(|timeout| Instant::now().checked_add(timeout)),
            cancel: draft.cancel.clone(),
            cancelled: None,
            patience: 2 * self.0.options.term.term,
        };
        let role = self.0.shared.state.lock().role.clone();
        if let MemberRole::Owns(store, term) = role
            && let Ok(outcome) = self.run_here(&store, &term, &draft, operations, &mut limits)
        {
            return outcome;
        }
        draft.check_cancelled()?;
        let mut result = self.request(draft, &mut limits)?;
        // Nothing but this call has the key.
        result.repeated &= !has_own_key;
        Ok(result)
    }

    /// Runs a batch in the queue of this process.
    fn run_here(
        &self,
        store: &DataStore,
        term: &Term,
        draft: &RequestDraft,
        operations: Vec<Operation>,
        limits: &mut WaitLimits,
    ) -> Result<ExecuteResult, NotStored> {
        let manager = self.0.options.managers.make(store.clone(), &draft.owner);
        let manager = manager.with_durability(Durability::Durable);
        let mut options = match draft.timeout {
            Some(timeout) => AcquireOptions::new().timeout(timeout),
            None => AcquireOptions::new().no_timeout(),
        };
        if let Some(label) = &draft.label {
            options = options.label(label.as_str());
        }
        if let Some(token) = &draft.cancel {
            options = options.cancel_token(token);
        }
        let error = match manager
            .transaction(operations)
            .idempotent(draft.key.as_str())
            .options(options)
            .publish()
        {
            Ok(published) => return self.complete(published, term, limits),
            Err(error) => error,
        };
        let (machine, epoch) = (self.0.options.term.owner.clone(), term.epoch());
        Ok(Err(match &error {
            TransactionError::Commit(
                CommitError::NotStored { .. }
                | CommitError::Fenced { .. }
                | CommitError::ReadOnly { .. },
            ) => return Err(NotStored),
            TransactionError::Lock(LockError::Timeout(_)) => RequestError::Expired {
                number: None,
                error: Some(error_json_of(&error)),
                machine,
                epoch: Some(epoch),
            },
            TransactionError::Lock(LockError::Cancelled(_)) => RequestError::Cancelled {
                number: None,
                error: Some(error_json_of(&error)),
                machine,
                epoch: Some(epoch),
            },
            error => {
                // C12: it depends on what the batch has seen, which is at most this version.
                let version = store.version();
                match limits.wait(|limit| store.wait_durable(version).timeout(limit).wait()) {
                    Ok(_) if term.is_owner() => RequestError::Failed {
                        number: None,
                        error: error_json_of(error),
                        machine,
                        epoch,
                    },
                    // It has changed nothing, and does not run again.
                    Err(DurabilityError::Timeout { .. }) => RequestError::Expired {
                        number: None,
                        error: Some(error_json_of(error)),
                        machine,
                        epoch: Some(epoch),
                    },
                    _ => return Err(NotStored),
                }
            }
        }))
    }

    /// Waits until a transaction of this process is durable.
    fn complete(
        &self,
        published: Published,
        term: &Term,
        limits: &mut WaitLimits,
    ) -> Result<ExecuteResult, NotStored> {
        let version = published.result().version;
        let cause = match limits.wait(|limit| published.wait_durable(limit)) {
            Ok(()) => return Ok(Ok(published.finish())),
            Err(cause) => cause,
        };
        match &cause {
            DurabilityError::Fenced { .. } => return Err(NotStored),
            DurabilityError::Timeout { .. } => return Ok(Err(self.unknown(term, version))),
            DurabilityError::Failed { cause: of, .. } if of.stored_nothing => {
                let cause = Box::new(cause);
                return Ok(Err(RequestError::Failed {
                    number: None,
                    error: error_json_of(&CommitError::NotStored { version, cause }),
                    machine: self.0.options.term.owner.clone(),
                    epoch: term.epoch(),
                }));
            }
            // What has changed nothing can run again.
            _ if !published.result().changed => return Err(NotStored),
            _ => {}
        }
        match self.is_stored(term, version, limits) {
            Ok(true) => Ok(Ok(published.finish())),
            Ok(false) => Err(NotStored),
            Err(error) => Ok(Err(error)),
        }
    }

    /// Finds out whether a version of a term that has ended is stored. Waits until that is certain:
    /// until the version is in the log, or the next term has begun.
    ///
    /// C8: a write of the earlier term takes effect before the next one begins, or never. Versions
    /// are dense, so it is stored if the next term begins with it or with a later one.
    fn is_stored(
        &self,
        term: &Term,
        version: u64,
        limits: &mut WaitLimits,
    ) -> Result<bool, RequestError> {
        let server = &self.0.server;
        let statement = format!(
            "SELECT EXISTS (SELECT FROM {schema}.doclock_log
                    WHERE document = $1 AND epoch = $2 AND first_version <= $3
                    AND last_version >= $3)
                OR (SELECT min(version) FROM {schema}.doclock_term
                    WHERE document = $1 AND follows <= $2 AND epoch > $2) >= $3,
                (SELECT max(epoch) FROM {schema}.doclock_term WHERE document = $1) > $2",
            schema = server.schema()
        );
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let (epoch, wanted) = (number(term.epoch()), number(version));
        loop {
            let until = Instant::now() + PATIENCE;
            let connections = Arc::clone(server.connections());
            let (document, statement) = (self.0.document.clone(), statement.clone());
            let found = server.call(Some(until), async move {
                let read = async |session: &PostgresSession| {
                    let parameters: [Parameter<'_>; 3] = [
                        (&document, Type::TEXT),
                        (&epoch, Type::INT8),
                        (&wanted, Type::INT8),
                    ];
                    let rows = session.query(&statement, &parameters).await?;
                    let Some(row) = rows.first() else {
                        return Ok((None, None));
                    };
                    Ok::<_, PostgresError>((row.try_get(0)?, row.try_get(1)?))
                };
                connections.requests.run(until.into(), read).await
            });
            match found.flatten() {
                Ok((Some(is_stored), _)) => return Ok(is_stored),
                // The row of the next term is kept no more.
                Ok((None, Some(true))) => return Err(self.unknown(term, version)),
                Ok((None, _)) => {}
                Err(error) if may_pass(&error) => {}
                Err(error) => return Err(error.into()),
            }
            if limits.are_over() {
                return Err(self.unknown(term, version));
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn unknown(&self, term: &Term, version: u64) -> RequestError {
        RequestError::Unknown {
            document: self.0.document.clone(),
            version,
            epoch: term.epoch(),
        }
    }

    /// Requests a batch, and waits for the outcome.
    fn request(&self, mut draft: RequestDraft, limits: &mut WaitLimits) -> ExecuteResult {
        let mut began = Instant::now();
        loop {
            if let Some(deadline) = limits.deadline {
                let remaining = deadline.saturating_duration_since(Instant::now());
                draft.timeout = Some(remaining);
            }
            // Each attempt is the same request, so it is inserted once.
            let until = Instant::now() + PATIENCE;
            let error = match self.0.requests.insert(&draft, until) {
                Ok(pending) => {
                    if self.0.doorbell.is_some() {
                        self.0.bell.ring(self.snapshot().version());
                    }
                    // The token of the request ends the wait itself.
                    let until = limits.deadline;
                    let until = until.and_then(|until| until.checked_add(limits.patience));
                    match pending.wait_until(until) {
                        // A failover has lost the request, and so its commit: it runs again.
                        Err(RequestError::Lost { .. }) => {
                            draft.check_cancelled()?;
                            began = Instant::now();
                            continue;
                        }
                        outcome => return outcome,
                    }
                }
                Err(error) => error,
            };
            let is_passing = matches!(&error, RequestError::Server(error) if may_pass(error));
            let is_late = limits
                .deadline
                .is_some_and(|deadline| Instant::now() >= deadline);
            // C8: an insert without an answer may have had an outcome that is kept no more.
            let is_old = began.elapsed() >= self.0.options.requests.kept().max(PATIENCE);
            if !is_passing || is_late || is_old || draft.is_cancelled() {
                return Err(error);
            }
            std::thread::sleep(PAUSE);
        }
    }
}

/// Whether another attempt can succeed.
fn may_pass(error: &PostgresError) -> bool {
    error.is_passing() || error.is_duplicate()
}
