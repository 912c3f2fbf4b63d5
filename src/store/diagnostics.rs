//! One picture of a store: what holds, waits, lags and pins memory.

use std::ops::Not;
use std::time::{Duration, SystemTime};

use crossbeam_channel::Receiver;
use serde::Serialize;
use smol_str::SmolStr;

use super::DataStore;
use super::events::Filter;
use super::inbox::InboxStats;
use super::lease::table::{Holding, LeaseTable};
use super::lease::{LeaseInfo, LeaseTargets};
pub use super::pinned::{KeptVersion, KeptVersions};
pub use super::registry::RegisteredPrimitive;
use crate::id::OwnerId;
use crate::lock::{
    CallSite, FifoLock, LockInfo, LockReport, LockStats, Primitive, QueueEntry, Registrable,
    SlowReport, Timeline,
};
use crate::millis;
use crate::time::MonotonicTime;

/// The state of a store for a person who looks for a cause.
///
/// [`DataStore::diagnostics`] documents which parts are of one moment. Serializes in camelCase,
/// durations in milliseconds and `takenAt` in milliseconds since 1970.
/// [`Display`](std::fmt::Display) prints a table of at most 100 columns, with the most important
/// first. The table has the first rows of each kind. `lock` prints a line for each holder and each
/// request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Diagnostics {
    /// When the reading began, by the machine's calendar.
    #[serde(with = "millis::moment")]
    pub taken_at: SystemTime,
    /// The causes for which requests wait: a sentence for each culprit, which follows the waits
    /// through the lock, transactions that publish, and the registered lock types. At most 16. A
    /// guard that was moved counts for the thread that requested it.
    pub causes: Vec<String>,
    /// The holders and the waiters of the lock and of nodes, and which of them wait for which.
    pub lock: LockReport,
    /// The transaction on nodes that publishes at this moment, and those that wait for that. `None`
    /// if none does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub publishing: Option<LockReport>,
    /// The published version.
    pub version: u64,
    /// The journal, if the document is durable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub durable: Option<DurableDiagnostics>,
    /// The old versions that are kept in memory.
    pub kept_versions: KeptVersions,
    /// The commit log with its followers: subscribers and editor sessions.
    pub log: LogDiagnostics,
    /// The first [`Diagnostics::LISTED`] leases that have not ended, in the order in which they
    /// were taken.
    pub leases: Vec<LeaseDiagnostics>,
    /// The number of leases that have not ended.
    pub lease_count: usize,
    /// At most [`Diagnostics::LISTED`] inboxes of the store, by name.
    pub inboxes: Vec<InboxDiagnostics>,
    /// The number of inboxes.
    pub inbox_count: usize,
    /// The lock types that were [registered](DataStore::register).
    pub registered: Vec<RegisteredPrimitive>,
}

impl Diagnostics {
    /// How many leases and how many inboxes are listed at most.
    pub const LISTED: usize = 64;
}

/// The journal of a durable document.
///
/// Serializes in camelCase.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct DurableDiagnostics {
    /// The last durable version.
    pub version: u64,
    /// How many commits are published and not durable.
    pub unwritten_commits: u64,
    /// How many notes are not durable: leases, receipts and marks of inboxes.
    pub pending_notes: u64,
    /// How many calls wait for the journal.
    pub waiting_calls: usize,
    /// Whether a thread writes at this moment.
    pub writing: bool,
    /// Whether the store is closed.
    #[serde(skip_serializing_if = "Not::not")]
    pub closed: bool,
    /// The error after which nothing is written any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// The commit log and its followers.
///
/// Serializes in camelCase.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct LogDiagnostics {
    /// The number of commits in the log that were not merged.
    pub commits: usize,
    /// Their size in bytes, estimated.
    pub bytes: usize,
    /// Whether the lock is closed: requests wait for a lossless subscriber, or for the journal.
    pub lock_closed: bool,
    /// The subscribers that keep the lock closed, then those that are furthest behind: at most
    /// [`LogDiagnostics::LISTED`].
    pub subscribers: Vec<SubscriberDiagnostics>,
    /// The number of subscribers.
    pub subscriber_count: usize,
    /// The editor sessions that are furthest behind: at most [`LogDiagnostics::LISTED`].
    pub sessions: Vec<SessionDiagnostics>,
    /// The number of editor sessions. An editor has one from its first use on: an edit, or a call
    /// that reads or sets its selection. An editor that locks nodes has one more for each batch
    /// that runs.
    pub session_count: usize,
}

impl LogDiagnostics {
    /// How many subscribers and how many sessions are listed at most.
    pub const LISTED: usize = 64;
}

/// A subscriber and how far it is behind.
///
/// Serializes in camelCase.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SubscriberDiagnostics {
    /// Where it subscribed. `None` for the journal of the store.
    pub call_site: Option<CallSite>,
    /// Which commits it receives.
    pub filter: Filter,
    /// How many commits it has not looked at, with those that its filter excludes.
    pub unread_commits: u64,
    /// The size of these commits in bytes, estimated.
    pub unread_bytes: usize,
    /// How many commits it has missed since its last event.
    pub missed: u64,
    /// Whether it receives durable commits only.
    #[serde(skip_serializing_if = "Not::not")]
    pub durable: bool,
    /// For a lossless subscriber, from how many unread bytes on requests for the lock wait for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lossless_limit: Option<usize>,
    /// Whether requests for the lock wait for it now.
    #[serde(skip_serializing_if = "Not::not")]
    pub closes_lock: bool,
}

/// The session of an editor and how far it is behind.
///
/// A session reads the commits of others when its editor is next used, so an idle one lags without
/// harm. Serializes in camelCase.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SessionDiagnostics {
    /// The owner of the editor.
    pub owner_id: OwnerId,
    /// How many commits it has not read.
    pub unread_commits: u64,
}

/// A lease that has not ended.
///
/// Serializes in camelCase, `remaining` in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct LeaseDiagnostics {
    /// The lease. Of its targets, at most [`LeaseDiagnostics::TARGETS`] are listed.
    #[serde(flatten)]
    pub lease: LeaseInfo,
    /// The number of its targets.
    pub target_count: usize,
    /// How much longer it lasts, by the store's clock.
    #[serde(with = "millis::duration")]
    pub remaining: Duration,
}

impl LeaseDiagnostics {
    /// How many targets of a lease are listed at most.
    pub const TARGETS: usize = 16;

    fn of(holding: &Holding, now: MonotonicTime) -> Self {
        let targets = holding.targets.iter().take(Self::TARGETS).cloned();
        let lease = LeaseInfo::new(holding);
        Self {
            lease: LeaseInfo {
                targets: targets.collect::<LeaseTargets>(),
                ..lease
            },
            target_count: holding.targets.len(),
            remaining: holding.expiry.left(now),
        }
    }

    /// Returns the first leases, and how many there are.
    fn list(leases: &LeaseTable, now: MonotonicTime) -> (Vec<Self>, usize) {
        let mut live: Vec<_> = leases.valid(now).collect();
        let count = live.len();
        live.sort_unstable_by_key(|holding| holding.token);
        live.truncate(Diagnostics::LISTED);
        let listed = live.into_iter().map(|holding| Self::of(holding, now));
        (listed.collect(), count)
    }
}

/// An inbox of the store.
///
/// Serializes in camelCase, with the fields of the metrics beside the name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct InboxDiagnostics {
    /// The name of the inbox.
    pub name: SmolStr,
    /// Its metrics and its state.
    #[serde(flatten)]
    pub stats: InboxStats,
}

/// Another store shows the lock.
impl Registrable for DataStore {
    fn primitive(&self) -> Primitive {
        self.0.lock.primitive()
    }
}

/// # Diagnostics
impl DataStore {
    /// Returns one picture of the store: what holds the lock, what waits, lags and pins memory.
    ///
    /// Never waits for a transaction. It delays a transaction by no more than a copy: the lists are
    /// read in pages or have a bound, and each mutex is free again after a page.
    ///
    /// # What is of one moment
    ///
    /// - The counters of the lock, its first 32 holders and its first 32 waiters. The other holders
    ///   and waiters follow page by page: a request that waits meanwhile is listed once and in
    ///   order.
    /// - The version, the leases, the log with its subscribers and sessions.
    /// - The journal. It is read before the version, so the durable version is never the later one.
    /// - Each inbox, and each registered lock type except a keyed lock.
    ///
    /// They are read in this order: journal, lock, transactions that publish, log, kept
    /// versions, inboxes, registered lock types. So the holder may have published the version of
    /// the picture, and may have ended since it was listed. So in a busy program a cause can be one
    /// that never was at one moment: a hang has the same causes in the next picture.
    ///
    /// # Code of users
    ///
    /// `Clone` and `Debug` of the keys of registered keyed locks and limiters run in this call, and
    /// it waits for them.
    ///
    /// # What is not in it
    ///
    /// The label of a batch is the name of its first operation. Which operation runs at this moment
    /// is not known: each operation would have to note it for other threads.
    ///
    /// ```
    /// use doclock::DataStore;
    ///
    /// let store = DataStore::new();
    /// let guard = store.request("ann").label("import").wait()?;
    /// let diagnostics = store.diagnostics();
    /// assert_eq!(diagnostics.lock.holders[0].holder.owner_id.as_str(), "ann");
    /// assert!(diagnostics.lock.waiters.is_empty());
    /// println!("{diagnostics}");
    /// let lock = diagnostics.lock.to_string();
    /// assert!(lock.starts_with("held by lock-1-") && lock.ends_with("no request waits"), "{lock}");
    /// let json = serde_json::to_value(&diagnostics)?;
    /// assert_eq!(json["lock"]["holders"][0]["label"], "import");
    /// # drop(guard);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn diagnostics(&self) -> Diagnostics {
        let taken_at = SystemTime::now();
        let writer = self.0.writer.as_ref();
        let durable = writer.map(|writer| writer.diagnostics());
        let lock = self.0.lock.diagnostics();
        let publishing = self.publishing_diagnostics();
        let (log, version, leases) = self.read_log();
        let durable_version = durable.as_ref().map(|journal| journal.version);
        let kept_versions = self.kept_versions(durable_version);
        let (leases, lease_count) = LeaseDiagnostics::list(&leases, self.monotonic());
        let (inboxes, inbox_count) = self.inbox_diagnostics();
        let registered = self.registered();
        let place = |lock: &FifoLock| lock.primitive().place();
        let publisher = self
            .0
            .log
            .lazy
            .get()
            .and_then(|parts| parts.publishing.get());
        let own = [
            Some((&lock, place(&self.0.lock))),
            publishing.as_ref().zip(publisher.map(place)),
        ];
        let causes = super::causes::of(own, &registered);
        Diagnostics {
            taken_at,
            causes,
            lock,
            publishing,
            version,
            durable: durable.map(|journal| DurableDiagnostics {
                unwritten_commits: version.saturating_sub(journal.version),
                ..journal
            }),
            kept_versions,
            log,
            leases,
            lease_count,
            inboxes,
            inbox_count,
            registered,
        }
    }

    /// Returns whether the lock is held.
    pub fn is_locked(&self) -> bool {
        self.0.lock.is_locked()
    }

    /// Describes the current holder of the lock, if there is one.
    pub fn current_lock(&self) -> Option<LockInfo> {
        self.0.lock.current_lock()
    }

    /// Returns the number of requests that wait for the lock.
    pub fn queue_length(&self) -> usize {
        self.0.lock.queue_length()
    }

    /// Lists the requests that wait for the lock, in order.
    pub fn queue_info(&self) -> Vec<QueueEntry> {
        self.0.lock.queue_info()
    }

    /// Returns the metrics and the state of the lock.
    ///
    /// All values are of one moment, except for the waiters behind the first 32.
    pub fn lock_stats(&self) -> LockStats {
        self.0.lock.lock_stats()
    }

    /// Returns what the lock has recorded: its last requests, with those that hold or wait.
    ///
    /// `None` if the [option](crate::StoreOptions::timeline) does not turn the recorder on. Other
    /// threads continue while it is taken.
    ///
    /// ```
    /// use doclock::{DataStore, StoreOptions, lock::TimelineOutcome};
    ///
    /// let store = DataStore::with_options(StoreOptions::new().timeline(100_000));
    /// store.begin("ann")?.rollback();
    /// let timeline = store.timeline().unwrap();
    /// assert_eq!(timeline.entries[0].owner_id.as_str(), "ann");
    /// assert_eq!(timeline.entries[0].outcome, TimelineOutcome::Released);
    /// # Ok::<(), doclock::lock::LockError>(())
    /// ```
    pub fn timeline(&self) -> Option<Timeline> {
        self.0.lock.timeline()
    }

    /// Returns the channel of the reports of long holds and long waits.
    ///
    /// `None` if neither [`report_holds`](crate::StoreOptions::report_holds) nor
    /// [`report_waits`](crate::StoreOptions::report_waits) is set. All receivers share the channel:
    /// each report goes to one of them. It keeps the last [`SlowReport::KEPT`] reports that no
    /// receiver has taken. A [report](SlowReport) has an example.
    pub fn lock_reports(&self) -> Option<Receiver<SlowReport>> {
        self.0.lock.reports()
    }

    /// Resets the metrics of the lock to zero.
    ///
    /// Holder and queue stay. A hold that began before the reset counts in full when it ends.
    pub fn reset_lock_stats(&self) {
        self.0.lock.reset_lock_stats();
    }

    /// Shows a lock type, or the lock of another store, in the [diagnostics](Self::diagnostics) of
    /// this store, under a name.
    ///
    /// The store does not keep it: it disappears from the diagnostics when its last handle is
    /// dropped. A later registration under the same name replaces the earlier one. A lock type
    /// that is registered again has only the new name. Inboxes and leases of the store need no
    /// registration.
    ///
    /// ```
    /// use doclock::{DataStore, lock::limiter::InFlightLimiter};
    ///
    /// let store = DataStore::new();
    /// let uploads = InFlightLimiter::<&str>::new(4);
    /// store.register("uploads", &uploads);
    /// let permit = uploads.acquire("pictures")?;
    /// assert_eq!(store.diagnostics().registered[0].name, "uploads");
    /// // The causes of a hang follow the waits into the other store.
    /// let index = DataStore::new();
    /// store.register("index", &index);
    /// drop((permit, uploads, index));
    /// assert!(store.diagnostics().registered.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn register(&self, name: impl Into<SmolStr>, primitive: &impl Registrable) {
        self.add_registered(name.into(), primitive.primitive());
    }

    /// Publishes the state of the store as metrics: the length of the queue, the oldest hold,
    /// timeouts and revocations, versions, and the lag of journal and subscribers.
    ///
    /// Call it before each scrape. Metrics of transactions need no call. They go to the recorder
    /// that was current when the store was created, and the published ones to the recorder that is
    /// current now. The page [observing](crate::guide::observing) lists the metrics.
    ///
    /// Never waits for a transaction. Takes the time to list the waiting requests.
    ///
    /// ```
    /// use doclock::DataStore;
    ///
    /// // After the recorder is installed.
    /// let store = DataStore::new();
    /// store.publish_metrics();
    /// ```
    #[cfg(feature = "metrics")]
    #[cfg_attr(docsrs, doc(cfg(feature = "metrics")))]
    pub fn publish_metrics(&self) {
        self.set_metrics();
    }

    fn inbox_diagnostics(&self) -> (Vec<InboxDiagnostics>, usize) {
        let bookkeeping = self.0.bookkeeping.lock();
        let (keys, count) = bookkeeping.inboxes.names(Diagnostics::LISTED);
        drop(bookkeeping);
        let inboxes = keys.into_iter().map(|key| InboxDiagnostics {
            stats: self.with_inbox(&key, |events, _| events.stats()),
            name: key.name().clone(),
        });
        let mut inboxes: Vec<_> = inboxes.collect();
        inboxes.sort_by(|one, other| one.name.cmp(&other.name));
        (inboxes, count)
    }
}
