//! Admission: while a lossless subscriber has too much to read, or the journal too much to write,
//! requests wait before they request the lock.
//!
//! The log closes admission when a commit is announced and reopens it after a read: see
//! [`CommitLog::close_if_behind`]. Meanwhile the requests wait in the entry queue, a FIFO lock. The
//! first of them waits at the gate, a second FIFO lock, which the log holds while admission is
//! closed. A request leaves the entry queue when it has the store's lock, so the order of the entry
//! queue is that of the grants.

use std::borrow::Cow;
use std::panic::Location;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use smol_str::SmolStr;

use super::DataStore;
use super::diagnostics::AdmissionDiagnostics;
use super::log::{CommitLog, CommitRecords};
use crate::id::{LockId, OwnerId};
use crate::lock::{
    AcquireOptions, FifoLock, Grant, LockError, Priority, Requester, WaiterKind, blocking,
};

/// Counts the requests that wait for a lossless subscriber or for the journal.
#[derive(Debug, Default)]
pub(super) struct Admission {
    /// How many requests are in the entry queue, and one more while the gate is closed. Requests
    /// join the entry queue if it is not zero.
    entering: AtomicUsize,
}

/// The locks in which requests wait.
#[derive(Debug)]
pub(super) struct Locks {
    queue: FifoLock,
    gate: FifoLock,
}

/// Whether admission is closed, under the mutex of the log.
#[derive(Debug, Default)]
pub(super) struct Gate {
    pub(super) is_closed: bool,
    /// The grant of the gate, once a request has come to the closed gate.
    held: Option<LockId>,
}

/// The first of the entry queue, which was admitted. The next one follows when this is dropped,
/// after the lock was granted.
pub(crate) struct Admitted<'a> {
    entering: &'a AtomicUsize,
    queue: &'a FifoLock,
    /// `None` until it is the first.
    grant: Option<LockId>,
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        if let Some(grant) = self.grant {
            // It was revoked only if its task was not polled for long.
            let _ = self.queue.release_lock(grant);
        }
        self.entering.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Admission {
    /// Closes the gate. The log is locked.
    pub(super) fn close(&self, gate: &mut Gate) {
        if !std::mem::replace(&mut gate.is_closed, true) {
            self.entering.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Opens the gate. The log is locked. The request there goes on when [`release`] is called.
    ///
    /// [`release`]: Locks::release
    #[must_use = "the request at the gate must go on"]
    pub(super) fn open(&self, gate: &mut Gate) -> Option<LockId> {
        if std::mem::take(&mut gate.is_closed) {
            self.entering.fetch_sub(1, Ordering::Relaxed);
        }
        gate.held.take()
    }
}

impl Locks {
    /// Lets the request at the gate go on.
    pub(super) fn release(&self, held: LockId) {
        let _ = self.gate.release_lock(held);
    }
}

impl CommitLog {
    /// Closes admission if a lossless subscriber has more to read than its limit, or the journal
    /// more to write. Each commit that is announced calls it, with the log locked.
    pub(super) fn close_if_behind(&self, records: &mut CommitRecords) {
        if records.is_behind(|limit| limit) {
            self.admission.close(&mut records.gate);
        }
    }

    /// Reopens admission if the lossless subscribers have read enough. Half of a limit is between
    /// closing and opening, so that not every commit waits until its predecessor is read.
    #[must_use = "the request at the gate must go on"]
    pub(super) fn reopen(&self, records: &mut CommitRecords) -> Option<LockId> {
        let reopens = records.gate.is_closed && !records.is_behind(|limit| limit / 2);
        reopens
            .then(|| self.admission.open(&mut records.gate))
            .flatten()
    }

    /// Lets the request at the gate go on, which [`reopen`](Self::reopen) has opened.
    pub(super) fn let_pass(&self, held: Option<LockId>) {
        if let (Some(held), Some(locks)) = (held, self.lazy.admission()) {
            locks.release(held);
        }
    }

    /// Reads or changes the state of the gate.
    fn gate<R>(&self, use_it: impl FnOnce(&mut Gate) -> R) -> R {
        let mut log = self.records.lock();
        match &mut *log {
            Some(records) => use_it(&mut records.gate),
            // There is no subscriber.
            None => use_it(&mut Gate::default()),
        }
    }
}

/// The owner of the gate that a subscriber keeps closed.
const SUBSCRIBER: &str = "lossless subscriber";

/// The owner of the gate that the journal keeps closed.
const DISK: &str = "disk";

/// A task that is the first of the entry queue and is not polled for so long lets the next one go
/// ahead.
const UNPOLLED: Duration = Duration::from_secs(1);

/// The label of the requests in the entry queue.
const ENTERING: SmolStr = SmolStr::new_static("waits for admission");

impl DataStore {
    /// Whether requests may have to wait before they request the lock.
    #[inline]
    pub(super) fn has_entry_queue(&self) -> bool {
        self.0.log.admission.entering.load(Ordering::Relaxed) > 0
    }

    /// Waits until the request may request the lock. Returns the options for that, with what is
    /// left of the timeout.
    pub(crate) async fn admit_as<'o>(
        &self,
        waits_as: WaiterKind,
        requester: &Requester<'_>,
        options: &'o AcquireOptions,
    ) -> Result<(Option<Admitted<'_>>, Cow<'o, AcquireOptions>), LockError> {
        match self.has_entry_queue() {
            false => Ok((None, Cow::Borrowed(options))),
            true => {
                // On the heap: the future is larger than all the rest of the caller's.
                let admitted = Box::pin(self.wait_for_admission(waits_as, requester, options));
                let (admitted, left) = admitted.await?;
                Ok((Some(admitted), Cow::Owned(left)))
            }
        }
    }

    /// Waits for the lock, and before it for admission.
    pub(crate) async fn grant_as(
        &self,
        waits_as: WaiterKind,
        requester: &Requester<'_>,
        options: &AcquireOptions,
    ) -> Result<Grant, LockError> {
        let (_admitted, left) = self.admit_as(waits_as, requester, options).await?;
        self.0.lock.grant_as(waits_as, requester, &left).await
    }

    /// Takes the lock if it is free and no request waits for it.
    #[inline(always)]
    pub(crate) fn try_grant(
        &self,
        requester: &Requester<'_>,
        options: &AcquireOptions,
    ) -> Result<Option<Grant>, LockError> {
        match self.has_entry_queue() {
            false => self.0.lock.try_grant(requester, options),
            true => Ok(None),
        }
    }

    #[cold]
    async fn wait_for_admission(
        &self,
        waits_as: WaiterKind,
        requester: &Requester<'_>,
        options: &AcquireOptions,
    ) -> Result<(Admitted<'_>, AcquireOptions), LockError> {
        self.0.lock.check_reentry(requester)?;
        let log = &self.0.log;
        let gate_options = self.0.lock.companion_options();
        // The first of the entry queue holds it while it waits, and that wait is reported.
        let queue_options = self
            .0
            .lock
            .queue_options(gate_options.clone())
            .report_no_holds();
        let locks = log.lazy.get_or_make().admission.get_or_init(|| Locks {
            queue: FifoLock::with_options(queue_options),
            gate: FifoLock::with_options(gate_options),
        });
        let limit = options.limit(self.0.lock.timeout());
        let began = self.monotonic();
        let left = || {
            let options = options.clone();
            match limit {
                Some(limit) if limit.is_zero() => options.no_wait(),
                Some(limit) => {
                    let left = limit.saturating_sub(self.monotonic() - began);
                    options.timeout(left.max(Duration::from_nanos(1)))
                }
                None => options.no_timeout(),
            }
        };
        let grant = async |lock: &FifoLock, priority: Priority| {
            let options = left().or_label(ENTERING).priority(priority);
            let options = match waits_as {
                WaiterKind::Thread => options.no_hold_limit(),
                WaiterKind::Task => options.hold_limit(UNPOLLED),
            };
            let requester = Requester {
                bound: false,
                ..options.requester(requester.owner, requester.call_site, false)
            };
            lock.grant_as(waits_as, &requester, &options).await
        };
        let entering = &log.admission.entering;
        entering.fetch_add(1, Ordering::Relaxed);
        let queue = &locks.queue;
        let mut admitted = Admitted {
            entering,
            queue,
            grant: None,
        };
        admitted.grant = Some(grant(queue, options.priority).await?.id());
        let mut priority = Priority::Normal;
        while log.gate(|gate| gate.is_closed) {
            self.hold_gate(&locks.gate);
            let granted = grant(&locks.gate, priority).await?;
            self.leave_gate(&locks.gate, granted);
            // A commit may close the gate again. Then it stays ahead of requests that came later.
            priority = Priority::High;
        }
        Ok((admitted, left()))
    }

    /// Holds the gate on behalf of the log, if it is closed. Only the first of the entry queue is
    /// here, so the gate is free unless it is held already. Also those are here that were first and
    /// were not admitted for so long that the next one went ahead.
    fn hold_gate(&self, lock: &FifoLock) {
        // The evidence of the requests behind it names the subscriber, or the disk.
        let subscriber = self.0.log.furthest_behind();
        let owner = OwnerId::from(subscriber.map_or(DISK, |_| SUBSCRIBER));
        let call_site = subscriber.unwrap_or_else(|| Location::caller());
        let options = AcquireOptions::new().no_wait();
        let requester = Requester {
            bound: false,
            ..options.requester(&owner, call_site, false)
        };
        let granted = blocking(lock.grant_as(WaiterKind::Thread, &requester, &options));
        if let Ok(grant) = granted {
            self.keep_gate(lock, grant.id());
        }
    }

    /// Leaves the gate, which is open until a commit closes it again. If it is closed again and
    /// others are here, the log keeps the grant. Otherwise they would pass the gate to each other.
    fn leave_gate(&self, lock: &FifoLock, grant: Grant) {
        let is_kept =
            self.0.log.gate(|gate| gate.is_closed) && lock.queue_length() > 0 && lock.seal(grant);
        match is_kept {
            true => self.keep_gate(lock, grant.id()),
            false => drop(lock.release_lock(grant.id())),
        }
    }

    /// Lets the log hold the gate with this grant. Releases it if the gate is open.
    fn keep_gate(&self, lock: &FifoLock, grant: LockId) {
        let unused = self.0.log.gate(|gate| match gate.is_closed {
            true => gate.held.replace(grant),
            false => Some(grant),
        });
        if let Some(grant) = unused {
            let _ = lock.release_lock(grant);
        }
    }

    /// Times out the wait of `owner` for admission.
    #[cfg(loom)]
    pub(super) fn expire_admission(&self, owner: &OwnerId) {
        if let Some(locks) = self.0.log.lazy.admission() {
            locks.queue.expire(owner.clone());
            locks.gate.expire(owner.clone());
        }
    }

    /// Reads the entry queue and the gate. `None` if no request is there.
    pub(super) fn admission_diagnostics(&self) -> Option<AdmissionDiagnostics> {
        let Locks { queue, gate } = self.0.log.lazy.admission()?;
        let queue = queue.diagnostics();
        let gate = gate.diagnostics();
        let is_used = !(queue.holders.is_empty() && gate.holders.is_empty());
        is_used.then_some(AdmissionDiagnostics { gate, queue })
    }
}
