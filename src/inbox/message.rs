//! What comes in, what a handler says of it, and what becomes of it.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::codes::codes;
use crate::store::DeadLetter;

/// Something that is delivered at least once, and is to have its effect once.
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
    /// The id of the event that it tells of: the same in each delivery, and that of no other event.
    /// A message whose id is empty is poison: each delivery of it is a dead letter, which cannot be
    /// [revived](super::Inbox::revive).
    fn event_id(&self) -> &str;

    /// When it was sent the first time: the same in each delivery. From this an inbox that forgets
    /// its records can tell what is too old to be new ([`Inbox::prune`](super::Inbox::prune)).
    /// Without it the event is forgotten only by
    /// [`Inbox::prune_untimed`](super::Inbox::prune_untimed) and
    /// [`Inbox::forget`](super::Inbox::forget).
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

/// What a handler says: `Ok(())` if the effect is in the transaction.
pub type Handled = Result<(), Failure>;

/// Why a handler has no effect.
///
/// With `?` any error becomes one that may pass, which is attempted again up to the limit and then
/// a dead letter. That an error will not pass has to be said:
///
/// ```
/// use doclock::inbox::{Failure, Handled};
///
/// fn cents(payload: &str) -> Result<u32, Failure> {
///     payload.parse().map_err(Failure::poison)
/// }
///
/// fn look_up(table: &str) -> Result<String, Failure> {
///     Ok(std::fs::read_to_string(table)?)
/// }
///
/// assert_eq!(cents("5 €"), Err(Failure::Poison("invalid digit found in string".into())));
/// assert!(matches!(look_up("/no/such/table"), Err(Failure::Transient(_))));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Another attempt may succeed. The reason is counted, so it should be one of a few.
    Transient(String),
    /// No attempt will ever succeed.
    Poison(String),
}

codes! { Failure {
    Self::Transient(reason) => "handlerTransient" { reason: reason } if true;
    Self::Poison(reason) => "handlerPoison" { reason: reason };
}}

impl Failure {
    /// One that may pass.
    pub fn transient(reason: impl fmt::Display) -> Self {
        Self::Transient(reason.to_string())
    }

    /// One that will not pass.
    pub fn poison(reason: impl fmt::Display) -> Self {
        Self::Poison(reason.to_string())
    }
}

impl<E: Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::transient(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Transient(reason) => write!(f, "transient: {reason}"),
            Self::Poison(reason) => write!(f, "poison: {reason}"),
        }
    }
}

/// What became of one delivery of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The effect and the mark were committed.
    Done {
        /// The document's version after that.
        version: u64,
        /// Whether the handler changed anything. The mark is there in any case.
        changed: bool,
    },
    /// The event was done before.
    Duplicate,
    /// The event is among the dead letters.
    Buried,
    /// There is no record of the event, and it was sent no later than some event whose record was
    /// forgotten. So it may have been done.
    TooOld,
    /// Somebody else works on the event, or it waits for its next attempt.
    Taken {
        /// When to look again: then the claim is stale, or the attempt due.
        remaining: Duration,
    },
    /// The attempt failed in passing. The next one is to be made after this time.
    Retry {
        /// How long to wait.
        after: Duration,
        /// What went wrong.
        error: String,
    },
    /// The event went to the dead letters.
    Dead(DeadLetter),
    /// The claim went stale during the attempt, and somebody else has the event now. The attempt
    /// had no effect.
    Superseded,
}

impl Outcome {
    /// Whether the delivery is over and can be acknowledged. If not, the message has to come again.
    pub fn is_settled(&self) -> bool {
        match self {
            Self::Done { .. } | Self::Duplicate | Self::Buried | Self::TooOld | Self::Dead(_) => {
                true
            }
            Self::Taken { .. } | Self::Retry { .. } | Self::Superseded => false,
        }
    }
}
