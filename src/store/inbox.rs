//! Effects that happen exactly once, of messages that are delivered at least once.
//!
//! **Use it** behind a queue that redelivers messages after a failure: [`Inbox`] commits the effect
//! of a message and the mark that it is done in one transaction. **Do not use it** for effects
//! outside of the store, such as an e-mail: those cannot be part of a commit.

mod claim;
pub(super) mod event_table;
mod feed;
mod message;
mod options;

use std::fmt;
use std::time::{Duration, SystemTime};

use smol_str::SmolStr;

pub use claim::Claim;
pub use feed::{Feed, Interrupted, Interruption};
pub use message::{HandlerError, HandlerResult, Message, Outcome};
pub use options::InboxOptions;

pub use event_table::{
    DeadLetter, DeadLetterCause, EventState, InboxInUse, InboxStats, ReasonCount,
};

use crate::caught::catch;
use crate::id::OwnerId;
use crate::lock::{AcquireOptions, CancelToken, LockError, PendingRequest};
use crate::store::{CommitError, DataStore, Draft, Transaction, TransactionRequest};
use crate::sync::assert_unlocked;
use crate::time::MonotonicTime;
use event_table::{ClaimOutcome, Claimant, Delivery, EventTable, FailedAttempt, InboxKey};
use feed::RunningWorker;

/// Takes in messages that may be delivered more than once, and runs each event's effect once.
///
/// A delivery claims its event and runs the handler in a transaction. The commit publishes the
/// effect together with the mark that the event is done: both in one step, or neither. A later
/// delivery that finds the mark is a duplicate. A claim whose worker does not finish goes stale,
/// and another worker takes it over with a larger fencing token. The commit of the old worker fails
/// then.
///
/// The records are in the store, beside the document, under the name of the inbox. Inboxes with the
/// same name share their records. Clones are handles of the same inbox. An inbox takes memory from
/// its first message until it is [removed](Self::remove).
///
/// # Order
///
/// Handlers run under the store's lock, one at a time, in the order in which their workers
/// requested the lock. So several threads may run the same inbox; they take turns. The inbox does
/// not order events. An event that arrives before the event that it builds on should fail as
/// transient, and is retried later.
///
/// ```
/// use doclock::{DataStore, View, document::NodeSpec, inbox::{HandlerError, Inbox}};
///
/// let store = DataStore::new();
/// let mut transaction = store.begin("setup")?;
/// let account = transaction.create(NodeSpec::new("account").with_text("0"))?;
/// transaction.commit()?;
///
/// let (deliver, messages) = crossbeam_channel::unbounded();
/// for message in [("evt-1", "5"), ("evt-2", "five"), ("evt-1", "5")] {
///     deliver.send(message)?;
/// }
/// drop(deliver);
///
/// let inbox = Inbox::new(&store, "payments");
/// inbox.run(&messages, |transaction, (_, amount)| {
///     let amount: u64 = amount.parse().map_err(HandlerError::poison)?;
///     let balance: u64 = transaction.text_of(&account)?.parse()?;
///     transaction.set_text(&account, (balance + amount).to_string())?;
///     Ok(())
/// })?;
///
/// assert_eq!(store.snapshot().text_of(&account)?, "5");
/// let stats = inbox.stats();
/// assert_eq!((stats.done, stats.duplicates, stats.poison), (1, 1, 1));
/// assert_eq!(
///     inbox.dead_letters()[0].to_string(),
///     "event \"evt-2\", poison after 1 attempt: invalid digit found in string",
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Inbox {
    store: DataStore,
    key: InboxKey,
    owner: OwnerId,
    options: InboxOptions,
}

impl Inbox {
    /// Creates a handle of the inbox with this name.
    ///
    /// A claim goes stale after thirty seconds, and each event gets five attempts.
    pub fn new(store: &DataStore, name: impl Into<SmolStr>) -> Self {
        Self::with_options(store, name, InboxOptions::new())
    }

    /// Creates a handle of the inbox with this name and the given options.
    ///
    /// The options belong to this handle and its clones.
    pub fn with_options(
        store: &DataStore,
        name: impl Into<SmolStr>,
        options: InboxOptions,
    ) -> Self {
        let name = name.into();
        Self {
            store: store.clone(),
            owner: name.as_str().into(),
            key: InboxKey::new(name),
            options,
        }
    }

    /// Returns the name of the inbox.
    pub fn name(&self) -> &str {
        self.key.name()
    }

    /// Returns the store that the inbox is part of.
    pub fn store(&self) -> &DataStore {
        &self.store
    }

    // --- Taking in ---

    /// Takes in messages, in this thread, until the channel is disconnected and no message waits.
    ///
    /// An event with a transient failure is retried when it is due; other messages do not wait for
    /// it. A message that meets the claim of another worker is kept and checked again, until the
    /// event is done or its claim is stale. So every message taken from the channel is settled when
    /// this returns `Ok`.
    ///
    /// A panic of the handler is caught: the transaction is rolled back and the attempt counts as a
    /// transient failure. The handler's own variables are as the panic left them.
    ///
    /// # Errors
    ///
    /// [`Interrupted`], with the messages that are not settled: the feed's token was cancelled, the
    /// thread already holds the store's lock, or the store is [durable](crate::durable) and became
    /// read-only.
    ///
    /// # Panics
    ///
    /// If [the callback](Feed::on_outcome) or the code of a message panics. The worker takes no
    /// further message from the channel, settles those that it has taken, and retries them if
    /// needed. Then the first panic resumes. If the worker is stopped before, it returns
    /// [`Interrupted`] instead. A message whose own code panics is dropped.
    #[track_caller]
    pub fn run<'a, M: Message + Send + 'static>(
        &'a self,
        feed: impl Into<Feed<'a, M>>,
        handler: impl FnMut(&mut Draft, &M) -> HandlerResult,
    ) -> Result<(), Interrupted<M>> {
        RunningWorker::new(self, feed.into()).work(handler)
    }

    /// Takes in one delivery of a message and returns its outcome. In a
    /// [durable](crate::durable) store it waits until a settled outcome is durable.
    ///
    /// If the outcome is not [settled](Outcome::is_settled), the message must be delivered again.
    ///
    /// # Errors
    ///
    /// [`LockError::Reentrant`]: the calling thread already holds the store's lock. No attempt was
    /// made. Every other error of the lock counts as a transient failure of the attempt.
    ///
    /// ```
    /// use doclock::{DataStore, inbox::{HandlerError, Inbox, Outcome}};
    ///
    /// let inbox = Inbox::new(&DataStore::new(), "payments");
    /// let outcome = inbox.process(&("evt-1", 5), |_, _| Err(HandlerError::transient("no network")))?;
    /// assert!(matches!(outcome, Outcome::Retry { .. }));
    /// # Ok::<(), doclock::lock::LockError>(())
    /// ```
    #[track_caller]
    pub fn process<M: Message>(
        &self,
        message: &M,
        handler: impl FnOnce(&mut Draft, &M) -> HandlerResult,
    ) -> Result<Outcome, LockError> {
        let attempt = ProcessingAttempt {
            inbox: self,
            owner: &self.owner,
            first: true,
            cancel: None,
        };
        let request = self.store.request_transaction(self.owner.clone());
        attempt.make(request, message, handler)
    }

    /// Claims the event of a message, for work that does not fit into a handler.
    ///
    /// # Errors
    ///
    /// The outcome of this delivery: [`Outcome::Duplicate`], [`AlreadyDead`](Outcome::AlreadyDead),
    /// [`TooOld`](Outcome::TooOld), [`Taken`](Outcome::Taken), or [`Dead`](Outcome::Dead). The last
    /// means that the event has used up its attempts and the last attempt did not report its end.
    pub fn claim(&self, message: &impl Message) -> Result<Claim, Outcome> {
        self.claim_as(&self.owner, message, true)
    }

    fn claim_as(
        &self,
        owner: &OwnerId,
        message: &impl Message,
        first: bool,
    ) -> Result<Claim, Outcome> {
        assert_unlocked("the methods of a message are called");
        let id = message.event_id();
        if id.is_empty() {
            // Code of the user, hence before the mutex.
            let sent_at = message.sent_at();
            let letter = self.store.with_new_inbox(&self.key, |events, now| {
                events.reject_without_id(sent_at, first, now)
            });
            return Err(self.acknowledged(id, Outcome::Dead(letter)));
        }
        let delivery = Delivery {
            id,
            sent_at: message.sent_at(),
            first,
        };
        let claimant = Claimant {
            owner,
            claim_time: self.options.claim_time,
            attempts: self.options.attempts,
        };
        let claimed = self.store.with_new_inbox(&self.key, |events, now| {
            events.claim(&delivery, &claimant, now)
        });
        let outcome = match claimed {
            ClaimOutcome::Claimed { token, attempt } => {
                return Ok(Claim::new(self.clone(), SmolStr::new(id), token, attempt));
            }
            ClaimOutcome::Duplicate => Outcome::Duplicate,
            ClaimOutcome::AlreadyDead => Outcome::AlreadyDead,
            ClaimOutcome::TooOld => Outcome::TooOld,
            ClaimOutcome::Taken { remaining } => Outcome::Taken { remaining },
            ClaimOutcome::Dead(letter) => Outcome::Dead(letter),
        };
        Err(self.acknowledged(id, outcome))
    }

    /// The outcome of a delivery when it may be acknowledged. If it never may, the message must be
    /// delivered again: its mark or its letter may be lost.
    fn acknowledged(&self, event: &str, outcome: Outcome) -> Outcome {
        if !outcome.is_settled() {
            return outcome;
        }
        let acknowledged = self.store.acknowledge_notes();
        acknowledged.map_or_else(|error| self.again(event, &error), |()| outcome)
    }

    /// The outcome of a delivery whose attempt does not count.
    fn again(&self, event: &str, error: &CommitError) -> Outcome {
        Outcome::Retry {
            after: self.options.delay(event, 1),
            error: error.to_string(),
        }
    }

    // --- The records ---

    /// Returns the state of an event, or `None` if it never arrived or was forgotten.
    pub fn event(&self, id: &str) -> Option<EventState> {
        self.with_inbox(|events, now| events.state(id, now))
    }

    /// Lists the dead letters, in the order in which they died.
    ///
    /// The list includes the latest [`DeadLetter::KEPT_WITHOUT_ID`] messages without an event id.
    pub fn dead_letters(&self) -> Vec<DeadLetter> {
        let mut dead = self.with_inbox(|events, now| events.dead(now));
        dead.sort_unstable_by_key(|(number, _)| *number);
        dead.into_iter().map(|(_, letter)| letter).collect()
    }

    /// Gives a dead event all its attempts again. Returns whether the event was dead.
    ///
    /// The inbox keeps no messages, so the message must be delivered again. Returns `false` also if
    /// the store is [durable](crate::durable) and read-only: the event stays dead.
    ///
    /// ```
    /// use doclock::{DataStore, inbox::{HandlerError, Inbox, Outcome}};
    ///
    /// let inbox = Inbox::new(&DataStore::new(), "payments");
    /// inbox.process(&("evt-1", 5), |_, _| Err(HandlerError::poison("unknown currency")))?;
    /// assert!(matches!(inbox.process(&("evt-1", 5), |_, _| Ok(()))?, Outcome::AlreadyDead));
    ///
    /// // The program supports the currency now.
    /// assert!(inbox.revive("evt-1"));
    /// assert!(matches!(inbox.process(&("evt-1", 5), |_, _| Ok(()))?, Outcome::Done { .. }));
    /// # Ok::<(), doclock::lock::LockError>(())
    /// ```
    pub fn revive(&self, id: &str) -> bool {
        self.change(false, |events, now| events.revive(id, now))
    }

    /// Forgets all done or dead events that were sent before this moment. Returns how many.
    ///
    /// Forgetting does not let any event have its effect twice. The inbox remembers the newest time
    /// of sending of the events that it forgot. A message that was sent no later and has no record
    /// may be a late duplicate of one of them. So it is [`TooOld`](Outcome::TooOld) and never
    /// handled. The price is that a new message sent that long ago is not handled either. So forget
    /// only events that are older than any message that may still arrive for the first time.
    ///
    /// Claimed and waiting events are not forgotten. Events whose messages carry no time of sending
    /// are forgotten by [`prune_untimed`](Self::prune_untimed).
    ///
    /// ```
    /// use doclock::{DataStore, inbox::{Inbox, Outcome}};
    /// use std::time::{Duration, SystemTime};
    ///
    /// let inbox = Inbox::new(&DataStore::new(), "payments");
    /// let day = |day: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(day * 24 * 3600);
    /// for (id, sent_at) in [("evt-1", day(1)), ("evt-2", day(2))] {
    ///     inbox.process(&(id, sent_at, ()), |_, _| Ok(()))?;
    /// }
    /// assert_eq!(inbox.prune(day(2)), 1);
    /// assert_eq!(inbox.event("evt-1"), None);
    /// assert_eq!(inbox.process(&("evt-1", day(1), ()), |_, _| Ok(()))?, Outcome::TooOld);
    /// # Ok::<(), doclock::lock::LockError>(())
    /// ```
    pub fn prune(&self, sent_before: SystemTime) -> usize {
        self.in_pieces(|events, piece, _| events.prune(sent_before, piece))
    }

    /// Forgets events without a time of sending, settled for at least `settled_for`. Returns how
    /// many.
    ///
    /// These are the events whose messages return `None` from [`sent_at`](Message::sent_at) and
    /// that have been done or dead for at least this long, by the store's clock.
    ///
    /// A later delivery of such a message counts as new: an event that was done has its effect a
    /// second time. So choose a time longer than the longest delay of a redelivery. A message with
    /// a time of sending does not depend on that choice: see [`prune`](Self::prune).
    ///
    /// ```
    /// use doclock::{DataStore, StoreOptions, inbox::{Inbox, Outcome}, time::ManualClock};
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new();
    /// let store = DataStore::with_options(StoreOptions::new().clock(clock.clock()));
    /// let inbox = Inbox::new(&store, "payments");
    /// let week = Duration::from_secs(7 * 24 * 3600);
    /// inbox.process(&("evt-1", ()), |_, _| Ok(()))?;
    /// assert_eq!(inbox.prune_untimed(week), 0);
    /// clock.advance(week);
    /// assert_eq!(inbox.process(&("evt-1", ()), |_, _| Ok(()))?, Outcome::Duplicate);
    /// assert_eq!(inbox.prune_untimed(week), 1);
    /// assert!(matches!(inbox.process(&("evt-1", ()), |_, _| Ok(()))?, Outcome::Done { .. }));
    /// # Ok::<(), doclock::lock::LockError>(())
    /// ```
    pub fn prune_untimed(&self, settled_for: Duration) -> usize {
        self.in_pieces(|events, piece, now| events.prune_untimed(settled_for, piece, now))
    }

    /// Forgets a dead event, with or without a time of sending. Returns whether the event was dead.
    ///
    /// A dead event has had no effect, so no effect happens twice. A later delivery of its message
    /// is attempted as a new one. Returns `false` also if the store is [durable](crate::durable)
    /// and read-only: the event stays dead.
    ///
    /// ```
    /// use doclock::{DataStore, inbox::{HandlerError, Inbox}};
    ///
    /// let inbox = Inbox::new(&DataStore::new(), "payments");
    /// inbox.process(&("evt-1", 5), |_, _| Err(HandlerError::poison("unknown currency")))?;
    /// for letter in inbox.dead_letters() {
    ///     println!("{letter}");
    ///     assert!(inbox.forget(&letter.event_id));
    /// }
    /// assert!(inbox.dead_letters().is_empty());
    /// # Ok::<(), doclock::lock::LockError>(())
    /// ```
    pub fn forget(&self, id: &str) -> bool {
        self.change(false, |events, _| events.forget(id))
    }

    /// Removes the inbox with all its records, and frees its memory.
    ///
    /// The records are those of all events and dead letters, the time of the newest pruned event,
    /// and the metrics.
    ///
    /// Afterwards no event is known to be done: a redelivered message has its effect again. So
    /// remove an inbox only when its messages cannot arrive any more.
    ///
    /// In a store that is [durable](crate::durable) and read-only, the removal is not stored: the
    /// records are there again after the next open.
    ///
    /// Handles of the inbox stay usable. The next message makes the inbox anew, through an old
    /// handle or through one from [`Inbox::new`] with the same name. Stale claims end: a commit
    /// under one returns [`CommitError::Superseded`]. Fencing tokens keep rising across a removal.
    ///
    /// # Errors
    ///
    /// [`InboxInUse`]: a worker holds a claim that is not stale. Nothing was forgotten.
    ///
    /// ```
    /// use doclock::{DataStore, inbox::{Inbox, Outcome}};
    ///
    /// let inbox = Inbox::new(&DataStore::new(), "import of 4 May");
    /// inbox.process(&("row 1", ()), |_, _| Ok(()))?;
    /// inbox.remove()?;
    /// assert_eq!(inbox.event("row 1"), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn remove(&self) -> Result<(), InboxInUse> {
        self.store.remove_inbox(&self.key)
    }

    /// Forgets in pieces, so that readers do not wait for long. Returns how many events were
    /// forgotten; none in a read-only store.
    fn in_pieces(
        &self,
        forget: impl Fn(&mut EventTable, usize, MonotonicTime) -> (usize, bool),
    ) -> usize {
        const PIECE: usize = 256;
        let mut forgotten = 0;
        loop {
            let (more, over) = self.change((0, true), |events, now| forget(events, PIECE, now));
            forgotten += more;
            if over {
                return forgotten;
            }
        }
    }

    /// Returns the metrics and the state of the inbox.
    pub fn stats(&self) -> InboxStats {
        self.with_inbox(|events, _| events.stats())
    }

    /// Changes records. If the store is read-only, nothing changes, because it would not be stored,
    /// and this returns `refused`.
    fn change<R>(&self, refused: R, code: impl FnOnce(&mut EventTable, MonotonicTime) -> R) -> R {
        self.with_inbox(|events, now| match self.store.is_read_only() {
            true => refused,
            false => code(events, now),
        })
    }

    fn with_inbox<R>(&self, code: impl FnOnce(&mut EventTable, MonotonicTime) -> R) -> R {
        self.store.with_inbox(&self.key, code)
    }
}

impl fmt::Debug for Inbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox")
            .field("name", self.key.name())
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// One attempt to process a message.
struct ProcessingAttempt<'a> {
    inbox: &'a Inbox,
    owner: &'a OwnerId,
    /// Whether this is the first attempt of this delivery.
    first: bool,
    cancel: Option<&'a CancelToken>,
}

impl ProcessingAttempt<'_> {
    /// Makes the attempt, with a request that has no options yet.
    fn make<M: Message>(
        &self,
        request: PendingRequest<'static, TransactionRequest>,
        message: &M,
        handler: impl FnOnce(&mut Draft, &M) -> HandlerResult,
    ) -> Result<Outcome, LockError> {
        let claim = match self.inbox.claim_as(self.owner, message, self.first) {
            Ok(claim) => claim,
            Err(outcome) => return Ok(outcome),
        };
        let mut options = AcquireOptions::new().label(claim.event_id());
        if let Some(token) = self.cancel {
            options = options.cancel_token(token);
        }
        match request.options(options).wait() {
            Ok(transaction) => Ok(carry_out(claim, transaction, message, handler)),
            // Neither concerns the event.
            Err(error @ (LockError::Reentrant { .. } | LockError::Cancelled(_))) => {
                claim.withdraw();
                Err(error)
            }
            Err(error) => Ok({ claim }.end_failed(error.into())),
        }
    }
}

fn carry_out<M>(
    mut claim: Claim,
    mut transaction: Transaction,
    message: &M,
    handler: impl FnOnce(&mut Draft, &M) -> HandlerResult,
) -> Outcome {
    assert_unlocked("a handler is called");
    let handled = catch(|| handler(&mut transaction, message));
    let failed = match handled {
        Ok(Ok(())) => match claim.try_commit(transaction) {
            Ok(committed) => {
                return Outcome::Done {
                    version: committed.version,
                    changed: committed.changed,
                };
            }
            Err(CommitError::Superseded { .. }) => return Outcome::Superseded,
            Err(
                error @ (CommitError::Unknown { .. }
                | CommitError::NotStored { .. }
                | CommitError::Fenced { .. }
                | CommitError::ReadOnly { .. }),
            ) => return claim.end_again(&error),
            Err(error) => error.into(),
        },
        Ok(Err(failure)) => {
            transaction.rollback();
            failure.into()
        }
        Err(panic) => {
            transaction.rollback();
            FailedAttempt::from(&panic)
        }
    };
    claim.end_failed(failed)
}
