//! Feeds: the channel of a worker with its options.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{
    Receiver, RecvError, Sender, TryRecvError, after, never, select, unbounded,
};

use super::DeadLetter;
use super::{HandlerResult, Inbox, Message, Outcome};
use crate::caught::{CaughtPanic, catch, dispose};
use crate::codes::codes;
use crate::id::OwnerId;
use crate::lock::{CancelToken, LockError, PendingRequest};
use crate::store::{CommitError, Draft, TransactionRequest};
use crate::sync::assert_unlocked;
use crate::time::{Deadline, Pause, TimeListener};

/// The channel that a worker takes its messages from, with options for the worker.
///
/// A receiver alone is a feed without options.
///
/// ```
/// use doclock::{DataStore, inbox::{Feed, Inbox, Outcome}, lock::CancelToken};
///
/// let (to_inbox, messages) = crossbeam_channel::unbounded();
/// let (died, dead_letters) = crossbeam_channel::unbounded();
/// to_inbox.send(("evt-1", "5 €"))?;
/// drop(to_inbox);
///
/// let token = CancelToken::new();
/// let feed = Feed::from(&messages)
///     .worker("worker 1")
///     .dead_letters(&died)
///     .cancel_token(&token)
///     .on_outcome(|(id, _), outcome| {
///         // Here the outcome is acknowledged to a broker.
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
    /// Sets the name of the worker in commits, claims and reports of the store's lock.
    ///
    /// The default is the name of the inbox.
    pub fn worker(mut self, name: impl Into<OwnerId>) -> Self {
        self.worker = Some(name.into());
        self
    }

    /// Sets the channel that receives the messages that die.
    ///
    /// Without a channel, or when its receivers are gone, only the records of such messages stay.
    ///
    /// Use an unbounded channel: a full one blocks the worker.
    pub fn dead_letters(mut self, sender: &'a Sender<(M, DeadLetter)>) -> Self {
        self.dead_letters = Some(sender);
        self
    }

    /// Stops the worker when the token is cancelled. A running attempt finishes first.
    pub fn cancel_token(mut self, token: &'a CancelToken) -> Self {
        self.cancel = Some(token);
        self
    }

    /// Sets a callback that receives the outcome of each delivery, in the worker's thread.
    ///
    /// It runs once for each attempt, and once each time that a message meets the claim of another
    /// worker. The last outcome of a message is [settled](Outcome::is_settled). A panic of it
    /// [ends the worker](Inbox::run), and loses no message.
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

/// An error: a worker stopped before the end of its channel.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("the worker stopped with {} unfinished messages: {cause}", .messages.len())]
#[non_exhaustive]
pub struct Interrupted<M> {
    /// The messages that the worker took from the channel and that are not settled, in the order in
    /// which they are due. All other messages are still in the channel.
    pub messages: Vec<M>,
    /// The reason why the worker stopped.
    #[source]
    pub cause: Interruption,
}

codes! { Interrupted<M> [M] {
    Self { messages, cause } => "workerInterrupted" { unfinished: messages.len(), cause: cause }
        if cause.retry(), cause.http_status();
}}

impl<M> fmt::Debug for Interrupted<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interrupted")
            .field("messages", &self.messages.len())
            .field("cause", &self.cause)
            .finish()
    }
}

/// The reason why a worker stopped before the end of its channel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Interruption {
    /// The token of the worker was cancelled.
    #[error("its token was cancelled")]
    Cancelled,
    /// The worker's thread held the store's lock and would have waited for itself.
    #[error(transparent)]
    Lock(LockError),
    /// The store was closed or its journal failed, so no further attempt can succeed.
    #[error(transparent)]
    ReadOnly(Box<CommitError>),
}

codes! { Interruption {
    Self::Cancelled => "workerCancelled", 503;
    Self::Lock(error) => as error;
    Self::ReadOnly(error) => as error;
}}

/// A running worker.
pub(super) struct RunningWorker<'a, M> {
    inbox: &'a Inbox,
    feed: Feed<'a, M>,
    worker: OwnerId,
    waiting: BTreeMap<FeedPosition, TakenMessage<M>>,
    /// How many messages have waited.
    waited: u64,
    connected: bool,
    /// Whether the last message was one that had waited.
    was_due: bool,
    /// The first panic of its code beside the handler.
    panic: Option<CaughtPanic>,
}

/// Ordered by deadline, then by arrival. Each deadline passes, so each message is checked again.
type FeedPosition = (Deadline, u64);

/// A message that was taken from the channel.
struct TakenMessage<M> {
    message: M,
    /// How often the message was checked.
    looks: u32,
}

impl<'a, M: Message + Send + 'static> RunningWorker<'a, M> {
    pub(super) fn new(inbox: &'a Inbox, feed: Feed<'a, M>) -> Self {
        Self {
            inbox,
            worker: feed.worker.clone().unwrap_or_else(|| inbox.owner.clone()),
            feed,
            waiting: BTreeMap::new(),
            waited: 0,
            connected: true,
            was_due: false,
            panic: None,
        }
    }

    #[track_caller]
    pub(super) fn work(
        mut self,
        mut handler: impl FnMut(&mut Draft, &M) -> HandlerResult,
    ) -> Result<(), Interrupted<M>> {
        while let Some(taken) = self.next()? {
            // Made here, because errors name the line of the caller.
            let request = self.inbox.store.request_transaction(self.worker.clone());
            match catch(|| self.deliver(taken, request, &mut handler)) {
                Ok(delivered) => delivered?,
                Err(panic) => self.end_with(panic),
            }
        }
        self.panic.map_or(Ok(()), |panic| panic.resume())
    }

    /// Makes an attempt for a message, which then waits if it is not settled.
    fn deliver(
        &mut self,
        mut taken: TakenMessage<M>,
        request: PendingRequest<'static, TransactionRequest>,
        handler: impl FnMut(&mut Draft, &M) -> HandlerResult,
    ) -> Result<(), Interrupted<M>> {
        taken.looks += 1;
        let attempt = super::ProcessingAttempt {
            inbox: self.inbox,
            owner: &self.worker,
            first: taken.looks == 1,
            cancel: self.feed.cancel,
        };
        match attempt.make(request, &taken.message, handler) {
            Ok(outcome) => match self.inbox.store.check_writable() {
                Err(refusal) if !outcome.is_settled() => {
                    let cause = Interruption::ReadOnly(Box::new(refusal));
                    return Err(self.stopped(Some(taken), cause));
                }
                _ => self.end_delivery(taken, outcome),
            },
            Err(error) => return Err(self.interrupted(Some(taken), error)),
        }
        Ok(())
    }

    /// Resumes a panic at the end, which comes when the messages that wait are settled: they would
    /// be lost with the worker.
    fn end_with(&mut self, panic: CaughtPanic) {
        self.connected = false;
        if self.panic.is_none() {
            self.panic = Some(panic);
        } else {
            dispose(panic);
        }
    }

    /// The next message, new or due. `None` when the channel is disconnected and no message waits.
    fn next(&mut self) -> Result<Option<TakenMessage<M>>, Interrupted<M>> {
        let nothing = never();
        loop {
            if self.is_cancelled() {
                return Err(self.stopped(None, Interruption::Cancelled));
            }
            // Alternates, so that messages that are due again at once do not delay new ones.
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
                Err(TryRecvError::Empty) => self.receive(messages),
                received => Some(received.map_err(|_| RecvError)),
            };
            match received {
                Some(Ok(message)) => return Ok(Some(TakenMessage { message, looks: 0 })),
                Some(Err(RecvError)) => self.connected = false,
                None => {}
            }
        }
    }

    /// Waits for a message or the end of the channel: the only place where a worker waits. `None`
    /// if the first message that waits may be due, or the token is cancelled.
    ///
    /// It does not wait at a mailbox, as requests do: a channel wakes only its own receivers.
    fn receive(&self, messages: &Receiver<M>) -> Option<Result<M, RecvError>> {
        let (send, events) = unbounded();
        let clock = self.inbox.store.clock();
        let listener = Arc::new(ClockListener(send.clone()));
        clock.listen(&listener);
        // A token that is cancelled already sends at once.
        let _attached = self.feed.cancel.map(|token| {
            token.attach(move || {
                let _ = send.send(());
            })
        });
        let first = self.waiting.keys().next();
        let passed = match first.map(|(deadline, _)| clock.until(*deadline)) {
            Some(None) => return None,
            Some(Some(Pause::For(left))) => after(left),
            None | Some(Some(Pause::UntilAdvanced)) => never(),
        };
        select! {
            recv(messages) -> message => Some(message),
            recv(events) -> _ => None,
            recv(passed) -> _ => None,
        }
    }

    fn is_cancelled(&self) -> bool {
        self.feed.cancel.is_some_and(CancelToken::is_cancelled)
    }

    fn due(&mut self) -> Option<TakenMessage<M>> {
        let first = self.waiting.first_entry()?;
        let (deadline, _) = *first.key();
        let passed = self.inbox.store.clock().until(deadline).is_none();
        passed.then(|| first.remove())
    }

    fn end_delivery(&mut self, taken: TakenMessage<M>, outcome: Outcome) {
        // The claimant may finish long before its claim is stale, or may be lost with its thread.
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
            assert_unlocked("an outcome callback is called");
            if let Err(panic) = catch(|| tell(&taken.message, &outcome)) {
                self.end_with(panic);
            }
        }
        if let Some(place) = place {
            self.waiting.insert(place, taken);
        } else if let (Outcome::Dead(letter), Some(sender)) = (outcome, self.feed.dead_letters) {
            // Without a receiver, only the record stays.
            let _ = sender.send((taken.message, letter));
        }
    }

    /// The place in the order of a message that is due after this time.
    fn place(&mut self, delay: Duration) -> FeedPosition {
        let deadline = self.inbox.store.clock().due(delay);
        self.waited += 1;
        (deadline, self.waited)
    }

    fn interrupted(&mut self, taken: Option<TakenMessage<M>>, error: LockError) -> Interrupted<M> {
        let cause = match error {
            LockError::Cancelled(_) => Interruption::Cancelled,
            error => Interruption::Lock(error),
        };
        self.stopped(taken, cause)
    }

    fn stopped(&mut self, taken: Option<TakenMessage<M>>, cause: Interruption) -> Interrupted<M> {
        dispose(self.panic.take());
        let waiting = std::mem::take(&mut self.waiting).into_values();
        let messages = taken.into_iter().chain(waiting);
        Interrupted {
            messages: messages.map(|taken| taken.message).collect(),
            cause,
        }
    }
}

/// Wakes a worker when the time is moved.
struct ClockListener(Sender<()>);

impl TimeListener for ClockListener {
    fn time_advanced(&self) {
        // The send fails if the wait is over.
        let _ = self.0.send(());
    }
}
