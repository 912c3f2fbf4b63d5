//! Consuming a channel.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, TryRecvError, never};

use super::{Handled, Inbox, Message, Outcome};
use crate::codes::codes;
use crate::id::OwnerId;
use crate::lock::{CancelToken, LockError, Received, receive};
use crate::store::{DeadLetter, Transaction};
use crate::sync::assert_unlocked;
use crate::time::Deadline;

/// Where a worker takes its messages from, and what is to be done with those that die. A receiver
/// alone is a feed.
///
/// ```
/// use doclock::{DataStore, inbox::{Feed, Inbox, Outcome}, lock::CancelToken};
///
/// let (to_inbox, messages) = crossbeam_channel::unbounded();
/// let (bury, dead_letters) = crossbeam_channel::unbounded();
/// to_inbox.send(("evt-1", "5 €"))?;
/// drop(to_inbox);
///
/// let token = CancelToken::new();
/// let feed = Feed::from(&messages)
///     .worker("worker 1")
///     .dead_letters(&bury)
///     .cancel_token(&token)
///     .on_outcome(|(id, _), outcome| {
///         // Here a broker is told.
///         println!("{id}: {}", if outcome.is_settled() { "ack" } else { "kept" });
///     });
/// Inbox::new(&DataStore::new(), "payments").run(feed, |_, _| Ok(()))?;
/// assert!(dead_letters.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub struct Feed<'a, M> {
    messages: &'a Receiver<M>,
    worker: Option<OwnerId>,
    dead_letters: Option<&'a Sender<(M, DeadLetter)>>,
    cancel: Option<&'a CancelToken>,
    on_outcome: Option<OnOutcome<'a, M>>,
}

type OnOutcome<'a, M> = Box<dyn FnMut(&M, &Outcome) + 'a>;

impl<'a, M> From<&'a Receiver<M>> for Feed<'a, M> {
    fn from(messages: &'a Receiver<M>) -> Self {
        Self {
            messages,
            worker: None,
            dead_letters: None,
            cancel: None,
            on_outcome: None,
        }
    }
}

impl<'a, M> Feed<'a, M> {
    /// Who takes them, to be read in commits, claims and whatever tells of the store's lock. The
    /// inbox's name unless set.
    pub fn worker(mut self, name: impl Into<OwnerId>) -> Self {
        self.worker = Some(name.into());
        self
    }

    /// Where messages go that die. Without this, or when nobody receives there any more, only their
    /// records stay.
    ///
    /// Take a channel without a bound: one that is full holds up the worker.
    pub fn dead_letters(mut self, sender: &'a Sender<(M, DeadLetter)>) -> Self {
        self.dead_letters = Some(sender);
        self
    }

    /// Ends the work when the token is cancelled. An attempt that has begun is finished first.
    pub fn cancel_token(mut self, token: &'a CancelToken) -> Self {
        self.cancel = Some(token);
        self
    }

    /// Is told what becomes of each delivery, in the worker's thread: once for each attempt, and
    /// once for each time that a message met the claim of somebody else. The last outcome of a
    /// message is [settled](Outcome::is_settled).
    pub fn on_outcome(mut self, tell: impl FnMut(&M, &Outcome) + 'a) -> Self {
        self.on_outcome = Some(Box::new(tell));
        self
    }
}

impl<M> fmt::Debug for Feed<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed")
            .field("messages", &self.messages.len())
            .field("worker", &self.worker)
            .field("dead_letters", &self.dead_letters.is_some())
            .field("cancel", &self.cancel)
            .finish_non_exhaustive()
    }
}

/// A worker that stopped before its channel came to an end.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("the worker stopped with {} of its messages unfinished: {cause}", .messages.len())]
#[non_exhaustive]
pub struct Interrupted<M> {
    /// Messages that it had taken from the channel and that are not settled: those that wait, in
    /// the order in which they are due. Whatever it had not taken is in the channel still.
    pub messages: Vec<M>,
    /// Why it stopped.
    #[source]
    pub cause: Interruption,
}

codes! { Interrupted<M> [M] {
    Self { messages, cause } => "workerInterrupted" { unfinished: messages.len(), cause: cause }
        if cause.is_transient();
}}

impl<M> fmt::Debug for Interrupted<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interrupted")
            .field("messages", &self.messages.len())
            .field("cause", &self.cause)
            .finish()
    }
}

/// Why a worker stopped before its channel came to an end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Interruption {
    /// Its token was cancelled.
    #[error("it was cancelled")]
    Cancelled,
    /// The worker's thread held the store's lock and would have waited for itself.
    #[error(transparent)]
    Lock(LockError),
}

codes! { Interruption {
    Self::Cancelled => "workerCancelled";
    Self::Lock(error) => as error;
}}

/// A worker at work.
pub(super) struct Run<'a, M> {
    inbox: &'a Inbox,
    feed: Feed<'a, M>,
    worker: OwnerId,
    waiting: BTreeMap<Place, Taken<M>>,
    /// How many have waited.
    waited: u64,
    connected: bool,
    /// Whether the last message was one that had waited.
    was_due: bool,
}

/// By when it is due, and then in the order in which it came. Each deadline comes, so each message
/// is looked at again.
type Place = (Deadline, u64);

/// A message that was taken from the channel.
struct Taken<M> {
    message: M,
    /// How often it was looked at.
    looks: u32,
}

impl<'a, M: Message + Send + 'static> Run<'a, M> {
    pub(super) fn new(inbox: &'a Inbox, feed: Feed<'a, M>) -> Self {
        Self {
            inbox,
            worker: feed.worker.clone().unwrap_or_else(|| inbox.owner.clone()),
            feed,
            waiting: BTreeMap::new(),
            waited: 0,
            connected: true,
            was_due: false,
        }
    }

    #[track_caller]
    pub(super) fn work(
        mut self,
        mut handler: impl FnMut(&mut Transaction, &M) -> Handled,
    ) -> Result<(), Interrupted<M>> {
        while let Some(mut taken) = self.next()? {
            taken.looks += 1;
            let delivery = super::Attempt {
                inbox: self.inbox,
                owner: &self.worker,
                first: taken.looks == 1,
                cancel: self.feed.cancel,
            };
            match delivery.make(&taken.message, &mut handler) {
                Ok(outcome) => self.settle(taken, outcome),
                Err(error) => return Err(self.interrupted(Some(taken), error)),
            }
        }
        Ok(())
    }

    /// The message to look at now, new or due: the one place where a worker waits. `None` when the
    /// channel has come to its end and nothing waits.
    fn next(&mut self) -> Result<Option<Taken<M>>, Interrupted<M>> {
        let nothing = never();
        loop {
            if self.is_cancelled() {
                return Err(self.stopped(None, Interruption::Cancelled));
            }
            // In turns, so that what is due again at once does not hold up what is new.
            let new_first = std::mem::take(&mut self.was_due);
            if !new_first && let Some(due) = self.due() {
                self.was_due = true;
                return Ok(Some(due));
            }
            if !self.connected && self.waiting.is_empty() {
                return Ok(None);
            }
            let full = self.waiting.len() >= self.inbox.options.waiting_bound;
            let messages = match self.connected && !full {
                true => self.feed.messages,
                false => &nothing,
            };
            let received = match messages.try_recv() {
                Ok(message) => Received::Message(message),
                Err(TryRecvError::Disconnected) => Received::Disconnected,
                Err(TryRecvError::Empty) => {
                    let first = self.waiting.keys().next();
                    let deadline = first.map(|(deadline, _)| *deadline);
                    let clock = self.inbox.store.clock();
                    receive(messages, clock, deadline, self.feed.cancel)
                }
            };
            match received {
                Received::Message(message) => return Ok(Some(Taken { message, looks: 0 })),
                Received::Disconnected => self.connected = false,
                Received::Due | Received::Cancelled => {}
            }
        }
    }

    fn is_cancelled(&self) -> bool {
        self.feed.cancel.is_some_and(CancelToken::is_cancelled)
    }

    fn due(&mut self) -> Option<Taken<M>> {
        let first = self.waiting.first_entry()?;
        let (deadline, _) = *first.key();
        let passed = self.inbox.store.clock().until(deadline).is_none();
        passed.then(|| first.remove())
    }

    fn settle(&mut self, taken: Taken<M>, outcome: Outcome) {
        // Who has the event may be done long before its claim is stale, or may be lost with its
        // thread.
        let patience = |event| self.inbox.options.delay(event, taken.looks);
        let delay = match &outcome {
            Outcome::Retry { after, .. } => Some(*after),
            Outcome::Taken { remaining } => {
                Some(patience(taken.message.event_id()).min(*remaining))
            }
            Outcome::Superseded => Some(patience(taken.message.event_id())),
            _ => None,
        };
        let place = delay.map(|delay| self.place(delay));
        if let Some(tell) = &mut self.feed.on_outcome {
            assert_unlocked("an outcome is told");
            tell(&taken.message, &outcome);
        }
        if let Some(place) = place {
            self.waiting.insert(place, taken);
        } else if let (Outcome::Dead(letter), Some(sender)) = (outcome, self.feed.dead_letters) {
            // If nobody receives there any more the record is all that stays.
            let _ = sender.send((taken.message, letter));
        }
    }

    /// Where something waits that is due after this time.
    fn place(&mut self, delay: Duration) -> Place {
        let deadline = self.inbox.store.clock().due(delay);
        self.waited += 1;
        (deadline, self.waited)
    }

    fn interrupted(&mut self, taken: Option<Taken<M>>, error: LockError) -> Interrupted<M> {
        let cause = match error {
            LockError::Cancelled(_) => Interruption::Cancelled,
            error => Interruption::Lock(error),
        };
        self.stopped(taken, cause)
    }

    fn stopped(&mut self, taken: Option<Taken<M>>, cause: Interruption) -> Interrupted<M> {
        let waiting = std::mem::take(&mut self.waiting).into_values();
        let messages = taken.into_iter().chain(waiting);
        Interrupted {
            messages: messages.map(|taken| taken.message).collect(),
            cause,
        }
    }
}
