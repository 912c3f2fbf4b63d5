//! How a process takes part in a document.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use doclock::durable::DurableOptions;
use doclock::{DataStore, TransactionManager};

use crate::{RunnerOptions, TermOptions};

/// Options of a [`Member`](crate::Member).
///
/// ```
/// use std::time::Duration;
/// use doclock_postgres::{MemberOptions, TermOptions};
///
/// let term = TermOptions::new("machine-1").address("10.0.0.7:8080");
/// let options = MemberOptions::new(term).poll(Duration::from_millis(20)..=Duration::from_secs(2));
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct MemberOptions {
    pub(super) term: TermOptions,
    pub(super) durable: DurableOptions,
    pub(super) poll: (Duration, Duration),
    pub(super) doorbell: bool,
    pub(super) follows_only: bool,
    pub(super) managers: Managers,
    pub(super) requests: RunnerOptions,
}

/// Makes the manager for the owner of a transaction.
#[derive(Clone)]
pub(super) struct Managers(Arc<ManagerFactory>);

type ManagerFactory = dyn Fn(DataStore, &str) -> TransactionManager + Send + Sync;

impl Managers {
    pub(super) fn make(&self, store: DataStore, owner: &str) -> TransactionManager {
        (self.0)(store, owner)
    }
}

impl fmt::Debug for Managers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Managers").finish_non_exhaustive()
    }
}

impl MemberOptions {
    /// Creates options with those of the terms in which this member owns the document. The poll and
    /// the timeout of a term are not used: the member has a poll of its own.
    pub fn new(term: TermOptions) -> Self {
        Self {
            term,
            durable: DurableOptions::new(),
            poll: (Duration::from_millis(50), Duration::from_secs(1)),
            doorbell: true,
            follows_only: false,
            managers: Managers(Arc::new(|store, owner| {
                TransactionManager::for_owner(store, owner)
            })),
            requests: RunnerOptions::new(),
        }
    }

    /// Sets the options of the store that this member opens when it becomes the owner. All members
    /// of a document should have the same. With a [document](DurableOptions::document) in them,
    /// each takeover of a stored document fails.
    pub fn durable(mut self, options: DurableOptions) -> Self {
        self.durable = options;
        self
    }

    /// Sets how often a follower looks for changes: after the shorter time at first, and less often
    /// as long as it finds none, down to the longer time. The default is from 50 ms to a second.
    /// Both are at least a millisecond and at most a minute.
    pub fn poll(mut self, range: std::ops::RangeInclusive<Duration>) -> Self {
        let (least, most) = (Duration::from_millis(1), Duration::from_secs(60));
        let shortest = (*range.start()).clamp(least, most);
        self.poll = (shortest, (*range.end()).clamp(shortest, most));
        self
    }

    /// Sets whether members wake each other with NOTIFY when there is a change. The default is on.
    ///
    /// It needs a connection of the process to the server itself. Through a pooler that does not
    /// pass notifications on, members poll.
    pub fn doorbell(mut self, rings: bool) -> Self {
        self.doorbell = rings;
        self
    }

    /// Sets how this member makes the manager for the owner of a transaction when it owns the
    /// document, with the hooks and limits of the program. It makes one for each
    /// [call](crate::Member::execute_with) and for each request of another machine. All members
    /// of a document should do the same. The default is [`TransactionManager::for_owner`].
    ///
    /// ```
    /// use doclock::{TransactionManager, document::Limits};
    /// use doclock_postgres::{MemberOptions, TermOptions};
    ///
    /// let options = MemberOptions::new(TermOptions::new("machine-1"))
    ///     .managers(|store, owner| {
    ///         TransactionManager::for_owner(store, owner).with_limits(Limits::new())
    ///     });
    /// ```
    pub fn managers(
        mut self,
        make: impl Fn(DataStore, &str) -> TransactionManager + Send + Sync + 'static,
    ) -> Self {
        self.managers = Managers(Arc::new(make));
        self
    }

    /// Sets how this member runs requests of other machines when it owns the document.
    pub fn requests(mut self, options: RunnerOptions) -> Self {
        self.requests = options;
        self
    }

    /// Makes the member follow only: it never becomes the owner.
    pub fn follow_only(mut self) -> Self {
        self.follows_only = true;
        self
    }
}
