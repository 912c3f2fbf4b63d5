//! The metrics of a store. The recorder is code of users.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use metrics::{
    Counter, Histogram, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge,
    histogram,
};
use smol_str::SmolStr;

use super::outcome::TransactionOutcome;
use crate::store::DataStore;

/// The metrics that each transaction changes, and what was published of the rest.
pub(super) struct StoreMetrics {
    /// In the order of [`TransactionOutcome`].
    transactions: [Counter; TransactionOutcome::ALL.len()],
    wait: Histogram,
    hold: Histogram,
    published: Mutex<Totals>,
}

/// Totals of the lock, which programs can reset.
#[derive(Clone, Copy, Default)]
struct Totals {
    timeouts: u64,
    revocations: u64,
}

/// The label that tells stores apart. Owners are no label: each would be a series without an end.
const STORE: &str = "store";

impl StoreMetrics {
    /// Registers the metrics with the recorder of the calling thread, or the global one.
    pub(super) fn register(store: &SmolStr) -> Self {
        describe();
        let store = || store.as_str().to_owned();
        let transactions = |outcome: TransactionOutcome| {
            let name = "doclock_transactions_total";
            counter!(name, STORE => store(), "outcome" => outcome.name())
        };
        Self {
            transactions: TransactionOutcome::ALL.map(transactions),
            wait: histogram!("doclock_transaction_wait_seconds", STORE => store()),
            hold: histogram!("doclock_transaction_hold_seconds", STORE => store()),
            published: Mutex::default(),
        }
    }

    #[inline]
    pub(super) fn transaction(
        &self,
        outcome: TransactionOutcome,
        wait: Duration,
        hold: Option<Duration>,
    ) {
        self.transactions[outcome as usize].increment(1);
        self.wait.record(wait);
        if let Some(hold) = hold {
            self.hold.record(hold);
        }
    }

    /// Returns how much the totals have grown since the last call.
    fn growth(&self, read: impl FnOnce() -> Totals) -> Totals {
        // Read under the mutex, so that a later reading is published later.
        let mut published = self
            .published
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let totals = read();
        let before = std::mem::replace(&mut *published, totals);
        Totals {
            timeouts: since(before.timeouts, totals.timeouts),
            revocations: since(before.revocations, totals.revocations),
        }
    }
}

/// How much a total has grown. A smaller one was reset meanwhile.
fn since(before: u64, now: u64) -> u64 {
    now.checked_sub(before).unwrap_or(now)
}

fn describe() {
    describe_counter!("doclock_transactions_total", "Transactions that ended.");
    describe_histogram!(
        "doclock_transaction_wait_seconds",
        Unit::Seconds,
        "Time from the request of a transaction to its grant, or to its end without a grant."
    );
    describe_histogram!(
        "doclock_transaction_hold_seconds",
        Unit::Seconds,
        "Time from the grant of a transaction to its end."
    );
    describe_counter!(
        "doclock_lock_timeouts_total",
        "Lock requests that timed out."
    );
    describe_counter!(
        "doclock_lock_revocations_total",
        "Grants that exceeded their hold limit and were revoked."
    );
    describe_counter!(
        "doclock_long_holds_total",
        "Holds that exceeded the threshold of reports."
    );
    describe_counter!(
        "doclock_long_waits_total",
        "Waits that exceeded the threshold of reports."
    );
    describe_gauge!("doclock_lock_queue_length", "Lock requests that wait now.");
    describe_gauge!(
        "doclock_lock_held_seconds",
        Unit::Seconds,
        "Age of the oldest current hold."
    );
    describe_gauge!("doclock_version", "Version of the document.");
    describe_gauge!(
        "doclock_durable_version",
        "Last version that survives a power cut."
    );
    describe_gauge!(
        "doclock_journal_backlog_commits",
        "Commits that the journal has not stored yet."
    );
    describe_gauge!(
        "doclock_subscriber_lag_commits",
        "Commits that the slowest subscriber has not read yet."
    );
}

impl DataStore {
    /// Sets the gauges and adds to the counters of the store.
    pub(in crate::store) fn set_metrics(&self) {
        let set = |name: &'static str, value: f64| {
            gauge!(name, STORE => self.name().to_owned()).set(value);
        };
        let (lock, nodes) = (self.lock_stats(), self.node_locks());
        let waiting = lock.queue_length + nodes.stats().waiting;
        let holders = nodes.holders();
        let holders = holders.iter().map(|holder| &holder.holder);
        let holds = holders.chain(&lock.current_lock).map(|it| it.held_for);
        let oldest = holds.max().unwrap_or_default();
        set("doclock_lock_queue_length", waiting as f64);
        set("doclock_lock_held_seconds", oldest.as_secs_f64());
        let grown = self.0.observer.metrics().growth(|| {
            let (lock, nodes) = (self.lock_stats(), self.node_locks().stats());
            Totals {
                timeouts: lock.total_timeouts + nodes.total_timeouts,
                revocations: lock.total_revocations + nodes.total_revocations,
            }
        });
        let add = |name: &'static str, count: u64| {
            counter!(name, STORE => self.name().to_owned()).increment(count);
        };
        add("doclock_lock_timeouts_total", grown.timeouts);
        add("doclock_lock_revocations_total", grown.revocations);
        // Before the version, so that the backlog is not negative.
        let durable = self.durable_snapshot().map(|it| it.version());
        let version = self.version();
        set("doclock_version", version as f64);
        if let Some(durable) = durable {
            set("doclock_durable_version", durable as f64);
            let backlog = version.saturating_sub(durable);
            set("doclock_journal_backlog_commits", backlog as f64);
        }
        set(
            "doclock_subscriber_lag_commits",
            self.subscriber_lag() as f64,
        );
    }
}
