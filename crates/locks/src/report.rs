//! Reports of holds and waits that take longer than a threshold.

use std::fmt;
use std::ops::Not;
use std::sync::Arc;
// Not the model's type: the value takes part in no race.
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use serde::Serialize;

use super::{LockInfo, QueueEntry};
use crate::caught::catch;
use crate::millis;
use crate::show::{Millis, RequestsAhead, list};
use crate::sync::assert_unlocked;

/// A hold or a wait that took longer than its threshold, with the evidence of that moment.
///
/// [`LockOptions::report_holds`](super::LockOptions::report_holds) and
/// [`LockOptions::report_waits`](super::LockOptions::report_waits) turn reports on. Serializes in
/// camelCase with durations in milliseconds, and prints as one line:
///
/// ```
/// use std::{thread, time::Duration};
///
/// use doclock::{DataStore, StoreOptions, lock::{AcquireOptions, SlowRequest}};
///
/// let threshold = Duration::from_millis(20);
/// let store = DataStore::with_options(StoreOptions::new().report_waits(threshold));
/// let reports = store.lock_reports().unwrap();
/// let held = store.request("ann").label("import").wait()?.into_id();
///
/// let theirs = store.clone();
/// let ben = thread::spawn(move || theirs.lock("ben").map(drop));
/// let report = reports.recv()?;
/// println!("{report}");
/// let SlowRequest::Wait { request, .. } = &report.slow else { panic!("{report}") };
/// assert_eq!(request.owner_id.as_str(), "ben");
/// assert_eq!(report.holder.unwrap().owner_id.as_str(), "ann");
///
/// store.release_lock(held)?;
/// ben.join().unwrap()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SlowReport {
    /// The hold or the wait.
    #[serde(flatten)]
    pub slow: SlowRequest,
    /// The threshold that it exceeds.
    #[serde(with = "millis::duration")]
    pub threshold: Duration,
    /// The holder: of a long hold, the one that holds for so long; of a long wait, its cause, which
    /// waits for nothing itself. `None` for a wait that has ended.
    pub holder: Option<LockInfo>,
    /// The number of requests that wait.
    pub waiting: usize,
    /// The first requests in the queue, at most [`SlowReport::FIRST`].
    pub first: Vec<QueueEntry>,
    /// The number of this report, from one. Those that no receiver took in time are missing.
    pub number: u64,
}

/// What a [`SlowReport`] is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "camelCase")]
#[serde(rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum SlowRequest {
    /// A hold. The report comes while it lasts if a request waits for it, otherwise at its end.
    Hold {
        /// Whether it has ended.
        #[serde(skip_serializing_if = "Not::not")]
        ended: bool,
    },
    /// A wait. The report comes while it lasts.
    Wait {
        /// The request that waits.
        request: QueueEntry,
        /// Whether it has ended: the request was granted or has failed.
        #[serde(skip_serializing_if = "Not::not")]
        ended: bool,
    },
}

impl SlowReport {
    /// How many requests of the queue a report lists.
    pub const FIRST: usize = 3;

    /// How many reports a lock keeps for its receivers. Beyond them, the oldest is dropped.
    pub const KEPT: usize = 256;
}

impl fmt::Display for SlowReport {
    /// Formats as `long hold: lock-3-x9 of ann (import) from src/main.rs:7:13, held for 1200ms,
    /// more than 1000ms; 2 requests waiting, first lock-4-x9 of ben from …, waiting for 800ms`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let over = format_args!("more than {}", Millis(self.threshold));
        match (&self.slow, &self.holder) {
            (SlowRequest::Hold { ended }, Some(holder)) => {
                let ended = if *ended { ", released" } else { "" };
                write!(f, "long hold: {holder}, {over}{ended}")?;
            }
            (SlowRequest::Hold { .. }, None) => write!(f, "long hold: {over}")?,
            (SlowRequest::Wait { request, .. }, holder) => {
                write!(f, "long wait: {request}, {over}")?;
                match holder {
                    Some(holder) => write!(f, "; held by {holder}")?,
                    None => f.write_str(", ended")?,
                }
            }
        }
        write!(f, "; {}", RequestsAhead(self.waiting, "request"))?;
        let is_hold = matches!(self.slow, SlowRequest::Hold { .. });
        list(f, ", first ", self.first.first().filter(|_| is_hold))
    }
}

/// From how long on a hold or a wait is reported.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReportThresholds {
    pub(super) holds: Option<Duration>,
    pub(super) waits: Option<Duration>,
}

impl ReportThresholds {
    pub(super) fn shortest(self) -> Option<Duration> {
        self.holds.into_iter().chain(self.waits).min()
    }
}

/// Sees each report beside the channel.
pub trait ReportObserver: fmt::Debug + Send + Sync {
    /// Called by the thread that notices the report, with no mutex locked. A panic ends there.
    fn observe(&self, report: &SlowReport);
}

/// The reports that no receiver has taken yet.
#[derive(Debug)]
pub(crate) struct ReportChannel {
    pub(crate) thresholds: ReportThresholds,
    send: Sender<SlowReport>,
    pub(super) reports: Receiver<SlowReport>,
    last_number: AtomicU64,
    observer: Option<Arc<dyn ReportObserver>>,
}

impl ReportChannel {
    /// `None` without a threshold.
    pub(super) fn with(
        thresholds: ReportThresholds,
        observer: Option<Arc<dyn ReportObserver>>,
    ) -> Option<Arc<Self>> {
        thresholds.shortest()?;
        let (send, reports) = bounded(SlowReport::KEPT);
        Some(Arc::new(Self {
            thresholds,
            send,
            reports,
            last_number: AtomicU64::new(0),
            observer,
        }))
    }

    /// Publishes a report. Never blocks: of reports that no receiver takes, the oldest is dropped.
    pub(super) fn publish(&self, mut report: SlowReport) {
        report.number = self.last_number.fetch_add(1, Ordering::Relaxed) + 1;
        if let Some(observer) = &self.observer {
            assert_unlocked("a subscriber or a recorder");
            drop(catch(|| observer.observe(&report)));
        }
        let mut refused = self.send.try_send(report);
        while let Err(TrySendError::Full(report)) = refused {
            drop(self.reports.try_recv());
            refused = self.send.try_send(report);
        }
    }
}
