//! The right to work on one event.

use std::fmt;

use smol_str::{SmolStr, ToSmolStr};

use super::event_table::{FailedAttempt, FailedKind, FailureOutcome};
use super::{HandlerError, Inbox, Outcome};
use crate::caught::CaughtPanic;
use crate::codes::{CodedError, Retry};
use crate::id::FencingToken;
use crate::lock::LockError;
use crate::store::{CommitError, Transaction, TransactionResult};

/// The right to work on one event, until it is stale and another worker takes it over.
///
/// Use it for work that does not fit into a handler: work that takes long, or that runs elsewhere
/// before its effect is committed. A claim borrows nothing, so a server can keep it between two
/// requests. Such work can carry the [token](Self::token), so that its target
/// can refuse a token that is smaller than the largest so far.
///
/// Dropping a claim gives it up: the next delivery of the message may claim the event at once, and
/// the attempt counts. A claim that is lost with its thread goes stale.
///
/// ```
/// use doclock::{DataStore, document::NodeSpec, inbox::{Inbox, Outcome}};
///
/// let store = DataStore::new();
/// let inbox = Inbox::new(&store, "payments");
/// let message = ("evt-1", "5 €");
///
/// let claim = inbox.claim(&message).map_err(|outcome| format!("{outcome:?}"))?;
/// let receipt = format!("paid under number {}", claim.token());
/// let mut transaction = store.begin("worker")?;
/// transaction.create(NodeSpec::new("receipt").with_text(receipt))?;
/// claim.commit(transaction)?;
///
/// assert!(matches!(inbox.claim(&message), Err(Outcome::Duplicate)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a claim that is dropped is given up"]
pub struct Claim {
    inbox: Inbox,
    event: SmolStr,
    token: FencingToken,
    attempt: u32,
    ended: bool,
}

impl Claim {
    pub(super) fn new(inbox: Inbox, event: SmolStr, token: FencingToken, attempt: u32) -> Self {
        Self {
            inbox,
            event,
            token,
            attempt,
            ended: false,
        }
    }

    /// Returns the id of the event.
    pub fn event_id(&self) -> &str {
        &self.event
    }

    /// Returns the fencing token of this claim, larger than those of all earlier claims of this
    /// inbox.
    pub fn token(&self) -> FencingToken {
        self.token
    }

    /// Returns the number of this attempt, counted from one.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Commits the transaction, and marks the event as done in the same step.
    ///
    /// # Errors
    ///
    /// [`CommitError::Superseded`]: another worker has taken the event over. Other errors are those
    /// of [`Transaction::commit`]; then the claim is given up, and the attempt counts. In each case
    /// neither the effect nor the mark is committed.
    pub fn commit(mut self, transaction: Transaction) -> Result<TransactionResult, CommitError> {
        self.try_commit(transaction)
    }

    /// Ends the attempt without an effect. In a [durable](crate::durable) store it waits until a
    /// dead letter is durable.
    pub fn fail(mut self, failure: HandlerError) -> Outcome {
        self.end_failed(failure.into())
    }

    pub(super) fn try_commit(
        &mut self,
        mut transaction: Transaction,
    ) -> Result<TransactionResult, CommitError> {
        let Inbox { store, key, .. } = &self.inbox;
        transaction.marks(store, key.clone(), self.event.clone(), self.token)?;
        let committed = transaction.commit();
        match &committed {
            Ok(_) => self.ended = true,
            // It is published, with its mark.
            Err(
                CommitError::Unknown { .. }
                | CommitError::NotStored { .. }
                | CommitError::Fenced { .. },
            ) => self.ended = true,
            Err(CommitError::Superseded { .. }) => {
                self.ended = true;
                self.inbox.with_inbox(|events, _| events.superseded());
            }
            Err(_) => {}
        }
        committed
    }

    pub(super) fn end_failed(&mut self, failed: FailedAttempt) -> Outcome {
        self.ended = true;
        let Inbox { options, .. } = &self.inbox;
        let delay = options.delay(&self.event, self.attempt);
        let error = failed.error.clone();
        let outcome = self.inbox.with_inbox(|events, now| {
            events.fail(
                &self.event,
                self.token,
                failed,
                (delay, options.attempts),
                now,
            )
        });
        let outcome = match outcome {
            FailureOutcome::Again => Outcome::Retry {
                after: delay,
                error,
            },
            FailureOutcome::Dead(letter) => Outcome::Dead(letter),
            FailureOutcome::Superseded => Outcome::Superseded,
        };
        self.inbox.acknowledged(&self.event, outcome)
    }

    /// Ends the attempt with an error that does not concern the event.
    pub(super) fn end_again(self, error: &CommitError) -> Outcome {
        let outcome = self.inbox.again(&self.event, error);
        self.withdraw();
        outcome
    }

    /// Ends the attempt without counting it.
    pub(super) fn withdraw(mut self) {
        self.ended = true;
        self.inbox
            .with_inbox(|events, now| events.uncount_attempt(&self.event, self.token, now));
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if !self.ended {
            self.inbox
                .with_inbox(|events, now| events.give_up(&self.event, self.token, now));
        }
    }
}

impl fmt::Debug for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claim")
            .field("inbox", &self.inbox.name())
            .field("event", &self.event)
            .field("token", &self.token)
            .field("attempt", &self.attempt)
            .finish()
    }
}

fn failed(kind: FailedKind, reason: impl ToSmolStr, error: String) -> FailedAttempt {
    FailedAttempt {
        kind,
        reason: reason.to_smolstr(),
        error,
    }
}

impl From<&CaughtPanic> for FailedAttempt {
    fn from(panic: &CaughtPanic) -> Self {
        let error = match panic.message() {
            Some(text) => format!("the handler panicked: {text}"),
            None => "the handler panicked".to_owned(),
        };
        failed(FailedKind::Panic, "panic", error)
    }
}

impl From<HandlerError> for FailedAttempt {
    fn from(failure: HandlerError) -> Self {
        let (kind, reason) = match failure {
            HandlerError::Transient(reason) => (FailedKind::Transient, reason),
            HandlerError::Poison(reason) => (FailedKind::Poison, reason),
        };
        failed(kind, &reason, reason.clone())
    }
}

impl From<LockError> for FailedAttempt {
    fn from(error: LockError) -> Self {
        failed(FailedKind::Transient, "lock", error.to_string())
    }
}

impl From<CommitError> for FailedAttempt {
    /// A lock or lease that was held for too long may succeed next time; a violation of the schema
    /// fails again.
    fn from(error: CommitError) -> Self {
        let passes = error.retry() == Retry::Now
            || matches!(
                error,
                CommitError::Revoked { .. } | CommitError::LeaseLost(_)
            );
        let kind = match passes {
            true => FailedKind::Transient,
            false => FailedKind::Poison,
        };
        failed(kind, "commit", error.to_string())
    }
}
