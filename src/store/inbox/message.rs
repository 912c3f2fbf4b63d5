//! Messages, the results of handlers, and the outcomes of deliveries.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::DeadLetter;
use crate::codes::codes;

/// A message that is delivered at least once, and is to have its effect once.
///
/// Pairs and triples are messages: `(id, payload)` and `(id, sent_at, payload)`.
///
/// ```
/// use doclock::inbox::Message;
/// use std::time::{Duration, SystemTime};
///
/// struct OrderPaid {
///     event_id: String,
///     occurred_at_millis: u64,
///     cents: u32,
/// }
///
/// impl Message for OrderPaid {
///     fn event_id(&self) -> &str {
///         &self.event_id
///     }
///
///     fn sent_at(&self) -> Option<SystemTime> {
///         Some(SystemTime::UNIX_EPOCH + Duration::from_millis(self.occurred_at_millis))
///     }
/// }
/// # let paid = OrderPaid { event_id: "e".into(), occurred_at_millis: 1, cents: 2 };
/// # assert_eq!((paid.event_id(), paid.cents), ("e", 2));
/// assert_eq!(("evt-1", 500).event_id(), "evt-1");
/// ```
pub trait Message {
    /// Returns the id of the event that the message reports.
    ///
    /// The id is the same in each delivery, and different from the id of every other event. A
    /// message with an empty id is poison: each of its deliveries is a dead letter, which cannot be
    /// [revived](super::Inbox::revive).
    fn event_id(&self) -> &str;

    /// Returns when the message was first sent; the same in each delivery.
    ///
    /// With this time, an inbox that forgets its records can recognize messages that are too old to
    /// be new ([`Inbox::prune`](super::Inbox::prune)). Without it, only
    /// [`Inbox::prune_untimed`](super::Inbox::prune_untimed) and
    /// [`Inbox::forget`](super::Inbox::forget) forget the event.
    fn sent_at(&self) -> Option<SystemTime> {
        None
    }
}

impl<I: AsRef<str>, T> Message for (I, T) {
    fn event_id(&self) -> &str {
        self.0.as_ref()
    }
}

impl<I: AsRef<str>, T> Message for (I, SystemTime, T) {
    fn event_id(&self) -> &str {
        self.0.as_ref()
    }

    fn sent_at(&self) -> Option<SystemTime> {
        Some(self.1)
    }
}

macro_rules! message_behind {
    ($($pointer:ty),*) => {$(
        impl<M: Message + ?Sized> Message for $pointer {
            fn event_id(&self) -> &str {
                (**self).event_id()
            }

            fn sent_at(&self) -> Option<SystemTime> {
                (**self).sent_at()
            }
        }
    )*};
}

message_behind!(&M, Box<M>, Arc<M>);

/// The result of a handler: `Ok(())` if the effect is in the transaction.
pub type HandlerResult = Result<(), HandlerError>;

/// The reason why a handler has no effect.
///
/// The `?` operator turns any error into a transient failure. Such a failure is retried up to the
/// limit and then becomes a dead letter. A failure that no retry can solve must be marked as
/// poison:
///
/// ```
/// use doclock::inbox::{HandlerError, HandlerResult};
///
/// fn cents(payload: &str) -> Result<u32, HandlerError> {
///     payload.parse().map_err(HandlerError::poison)
/// }
///
/// fn look_up(table: &str) -> Result<String, HandlerError> {
///     Ok(std::fs::read_to_string(table)?)
/// }
///
/// assert_eq!(cents("5 €"), Err(HandlerError::Poison("invalid digit found in string".into())));
/// assert!(matches!(look_up("/no/such/table"), Err(HandlerError::Transient(_))));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandlerError {
    /// Another attempt may succeed. The reason is counted, so it should be one of a few.
    Transient(String),
    /// No attempt will ever succeed.
    Poison(String),
}

codes! { HandlerError {
    Self::Transient(reason) => "handlerTransient" { reason: reason } if true, 503;
    Self::Poison(reason) => "handlerPoison" { reason: reason };
}}

impl HandlerError {
    /// Creates a transient failure, which a retry may solve.
    pub fn transient(reason: impl fmt::Display) -> Self {
        Self::Transient(reason.to_string())
    }

    /// Creates a failure that no retry can solve.
    pub fn poison(reason: impl fmt::Display) -> Self {
        Self::Poison(reason.to_string())
    }
}

impl<E: Error> From<E> for HandlerError {
    fn from(error: E) -> Self {
        Self::transient(error)
    }
}

impl fmt::Display for HandlerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Transient(reason) => write!(f, "transient: {reason}"),
            Self::Poison(reason) => write!(f, "poison: {reason}"),
        }
    }
}

/// The outcome of one delivery of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The effect and the mark were committed.
    Done {
        /// The document's version after the commit.
        version: u64,
        /// Whether the handler changed anything. The mark is committed in any case.
        changed: bool,
    },
    /// The event was already done.
    Duplicate,
    /// The event is among the dead letters.
    AlreadyDead,
    /// There is no record of the event, and it was sent no later than an event whose record was
    /// forgotten. So it may have been done.
    TooOld,
    /// Another worker has claimed the event, or the event waits for its next attempt.
    Taken {
        /// When to check again: then the claim is stale, or the attempt due.
        remaining: Duration,
    },
    /// The attempt failed with a transient error, or a [durable](crate::durable) store became
    /// read-only before the outcome was durable. The next attempt is due after this time.
    Retry {
        /// The time to wait.
        after: Duration,
        /// The error of the attempt.
        error: String,
    },
    /// The event became a dead letter.
    Dead(DeadLetter),
    /// The claim went stale during the attempt, and another worker has taken the event over. The
    /// attempt had no effect.
    Superseded,
}

impl Outcome {
    /// Returns whether the delivery is over and can be acknowledged.
    ///
    /// If not, the message must be delivered again.
    pub fn is_settled(&self) -> bool {
        match self {
            Self::Done { .. }
            | Self::Duplicate
            | Self::AlreadyDead
            | Self::TooOld
            | Self::Dead(_) => true,
            Self::Taken { .. } | Self::Retry { .. } | Self::Superseded => false,
        }
    }
}
