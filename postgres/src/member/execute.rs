//! One call for every machine: the owner runs a batch itself, and any other member requests it.

use std::time::{Duration, Instant};

use doclock::lock::{AcquireOptions, LockError};
use doclock::transaction::{IntoOperations, Operation, TransactionError, TransactionResult};
use doclock::{CommitError, DataStore, durable::Durability};

use super::Member;
use super::shared::Part;
use crate::request::{Draft, PATIENCE, evidence_of};
use crate::{PostgresError, RequestError, RequestOptions, Term};

/// How long a call pauses while the server cannot be reached.
const PAUSE: Duration = Duration::from_millis(100);

/// What a call returns.
type Outcome = Result<TransactionResult, RequestError>;

/// Why the store of this process has no outcome of a batch.
enum NoOutcome {
    /// The batch is not stored, and the term has ended.
    NotStored,
    /// Nothing says whether it is stored, except its idempotency key.
    Unknown,
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
    /// Blocks as long as the document has no owner or the server cannot be reached. A
    /// [timeout](RequestOptions::timeout) limits the time until the batch begins, and a
    /// [token](RequestOptions::cancel_token) cancels a batch that has not begun. A call may be made
    /// in a thread of an async runtime, which it blocks, and after the member has left.
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
    /// refused on each machine. After [`RequestError::Server`] the batch may still run: call again
    /// with the same [key](RequestOptions::key).
    pub fn execute_with(
        &self,
        operations: impl IntoOperations,
        options: RequestOptions,
    ) -> Result<TransactionResult, RequestError> {
        let has_own_key = options.key.is_none();
        let operations = operations.into_operations();
        let mut draft = self.0.requests.draft(&operations, options)?;
        // A time that no clock will show is no limit.
        let deadline = draft
            .timeout
            .and_then(|timeout| Instant::now().checked_add(timeout));
        let part = self.0.shared.state.lock().part.clone();
        if let Part::Owns(store, term) = part {
            match self.run_here(&store, &term, &draft, operations) {
                Ok(outcome) => return outcome,
                Err(NoOutcome::NotStored) => {}
                // It has begun in time. If it is stored, the request returns its result.
                Err(NoOutcome::Unknown) => (draft.timeout, draft.cancel) = (None, None),
            }
        }
        draft.check_cancelled()?;
        let mut result = self.request(draft, deadline)?;
        // Nothing but this call has the key.
        result.repeated &= !has_own_key;
        Ok(result)
    }

    /// Runs a batch in the queue of this process.
    fn run_here(
        &self,
        store: &DataStore,
        term: &Term,
        draft: &Draft,
        operations: Vec<Operation>,
    ) -> Result<Outcome, NoOutcome> {
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
        let error = match manager.execute_once(draft.key.as_str(), operations, options) {
            Ok(result) => return Ok(Ok(result)),
            Err(error) => error,
        };
        let (machine, epoch) = (self.0.options.term.owner.clone(), term.epoch());
        Ok(Err(match &error {
            TransactionError::Commit(CommitError::Unknown { .. }) => {
                return Err(NoOutcome::Unknown);
            }
            TransactionError::Commit(CommitError::Fenced { .. } | CommitError::ReadOnly { .. }) => {
                return Err(NoOutcome::NotStored);
            }
            TransactionError::Lock(LockError::Timeout(_)) => RequestError::Expired {
                number: None,
                error: Some(evidence_of(&error)),
                machine,
                epoch: Some(epoch),
            },
            TransactionError::Lock(LockError::Cancelled(_)) => RequestError::Cancelled {
                number: None,
                error: Some(evidence_of(&error)),
                machine,
                epoch: Some(epoch),
            },
            error => {
                // C12: it depends on what the batch has seen, which is at most this version.
                let seen = store.wait_durable(store.version(), None);
                if seen.is_err() || !term.is_owner() {
                    return Err(NoOutcome::NotStored);
                }
                RequestError::Failed {
                    number: None,
                    error: evidence_of(error),
                    machine,
                    epoch,
                }
            }
        }))
    }

    /// Requests a batch, and waits for the outcome.
    fn request(&self, mut draft: Draft, deadline: Option<Instant>) -> Outcome {
        let is_limited = draft.timeout.is_some();
        loop {
            if is_limited && let Some(deadline) = deadline {
                draft.timeout = Some(deadline.saturating_duration_since(Instant::now()));
            }
            // Each attempt is the same request, so it is inserted once.
            let until = Instant::now() + PATIENCE;
            let error = match self.0.requests.insert(&draft, until) {
                Ok(pending) => {
                    if self.0.doorbell.is_some() {
                        self.0.bell.ring(self.snapshot().version());
                    }
                    match pending.wait(None) {
                        // A failover has lost the request, and so its commit: it runs again.
                        Err(RequestError::Lost { .. }) => {
                            draft.check_cancelled()?;
                            continue;
                        }
                        outcome => return outcome,
                    }
                }
                Err(error) => error,
            };
            let is_passing = matches!(&error, RequestError::Server(error) if may_pass(error));
            let is_late = deadline.is_some_and(|deadline| Instant::now() >= deadline);
            if !is_passing || is_late || draft.is_cancelled() {
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
