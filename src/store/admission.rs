//! Admission: while a lossless subscriber has too much to read, or the journal too much to write,
//! requests wait before they request the lock.
//!
//! They wait in a line, a FIFO lock. The first of them waits at the door, a second FIFO lock, which
//! the log holds while admission is closed. A request leaves the line when it has the store's lock,
//! so the order of the line is that of the grants.

use std::borrow::Cow;
use std::panic::Location;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use smol_str::SmolStr;

use super::DataStore;
use super::diagnostics::AdmissionDiagnostics;
use crate::id::{LockId, OwnerId};
use crate::lock::{
    AcquireOptions, FifoLock, Grant, LockDiagnostics, LockError, Priority, Requester, WaitsAs,
    blocking,
};

/// Where requests wait for a lossless subscriber.
#[derive(Debug, Default)]
pub(super) struct Admission {
    /// How many requests stand in line, and one more while the door is closed. Requests join the
    /// line if it is not zero.
    in_line: AtomicUsize,
}

/// The locks in which requests wait.
#[derive(Debug)]
pub(super) struct Locks {
    line: FifoLock,
    door: FifoLock,
}

/// What admission is, under the mutex of the log.
#[derive(Debug, Default)]
pub(super) struct Door {
    pub(super) is_closed: bool,
    /// The grant of the door, once a request has come to the closed door.
    held: Option<LockId>,
}

/// The first of the line, which was admitted. The next one follows when this is dropped, after the
/// lock was granted.
pub(crate) struct Admitted<'a> {
    in_line: &'a AtomicUsize,
    line: &'a FifoLock,
    /// `None` until it is the first.
    grant: Option<LockId>,
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        if let Some(grant) = self.grant {
            // It was revoked only if its task was not polled for long.
            let _ = self.line.release_lock(grant);
        }
        self.in_line.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Admission {
    /// Closes the door. The log is locked.
    pub(super) fn close(&self, door: &mut Door) {
        if !std::mem::replace(&mut door.is_closed, true) {
            self.in_line.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Opens the door. The log is locked. The request there goes on when [`release`] is called.
    ///
    /// [`release`]: Locks::release
    #[must_use = "the request at the door must go on"]
    pub(super) fn open(&self, door: &mut Door) -> Option<LockId> {
        if std::mem::take(&mut door.is_closed) {
            self.in_line.fetch_sub(1, Ordering::Relaxed);
        }
        door.held.take()
    }
}

impl Locks {
    /// Lets the request at the door go on.
    pub(super) fn release(&self, held: LockId) {
        let _ = self.door.release_lock(held);
    }
}

/// The owner of the door that a subscriber keeps closed.
const SUBSCRIBER: &str = "lossless subscriber";

/// The owner of the door that the journal keeps closed.
const DISK: &str = "disk";

/// A task that is the first of the line and is not polled for so long lets the next one go ahead.
const UNPOLLED: Duration = Duration::from_secs(1);

/// The label of the requests in the line.
const IN_LINE: SmolStr = SmolStr::new_static("waits for admission");

impl DataStore {
    /// Whether requests may have to wait before they request the lock.
    #[inline]
    pub(super) fn has_line(&self) -> bool {
        self.0.log.admission.in_line.load(Ordering::Relaxed) > 0
    }

    /// Waits until the request may request the lock. Returns the options for that, with what is
    /// left of the timeout.
    pub(crate) async fn admit_as<'o>(
        &self,
        waits_as: WaitsAs,
        requester: &Requester<'_>,
        options: &'o AcquireOptions,
    ) -> Result<(Option<Admitted<'_>>, Cow<'o, AcquireOptions>), LockError> {
        match self.has_line() {
            false => Ok((None, Cow::Borrowed(options))),
            true => {
                // On the heap: the future is larger than all the rest of the caller's.
                let line = Box::pin(self.join_line(waits_as, requester, options));
                let (admitted, left) = line.await?;
                Ok((Some(admitted), Cow::Owned(left)))
            }
        }
    }

    /// Waits for the lock, and before it for lossless subscribers.
    pub(crate) async fn grant_as(
        &self,
        waits_as: WaitsAs,
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
        match self.has_line() {
            false => self.0.lock.try_grant(requester, options),
            true => Ok(None),
        }
    }

    #[cold]
    async fn join_line(
        &self,
        waits_as: WaitsAs,
        requester: &Requester<'_>,
        options: &AcquireOptions,
    ) -> Result<(Admitted<'_>, AcquireOptions), LockError> {
        self.0.lock.check_reentry(requester)?;
        let log = &self.0.log;
        let door_options = self.0.lock.companion_options();
        // The first of the line holds it while it waits, and that wait is reported.
        let line_options = self
            .0
            .lock
            .queue_options(door_options.clone())
            .report_no_holds();
        let locks = log.lazy.get_or_make().admission.get_or_init(|| Locks {
            line: FifoLock::with_options(line_options),
            door: FifoLock::with_options(door_options),
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
            let options = left().or_label(IN_LINE).priority(priority);
            let options = match waits_as {
                WaitsAs::Thread => options.no_hold_limit(),
                WaitsAs::Task => options.hold_limit(UNPOLLED),
            };
            let requester = options
                .requester(requester.owner, requester.call_site, false)
                .unbound();
            lock.grant_as(waits_as, &requester, &options).await
        };
        let in_line = &log.admission.in_line;
        in_line.fetch_add(1, Ordering::Relaxed);
        let line = &locks.line;
        let mut admitted = Admitted {
            in_line,
            line,
            grant: None,
        };
        admitted.grant = Some(grant(line, options.priority).await?.id());
        let mut priority = Priority::Normal;
        while log.door(|door| door.is_closed) {
            self.hold_door(&locks.door);
            let granted = grant(&locks.door, priority).await?;
            self.leave_door(&locks.door, granted);
            // A commit may close the door again. Then it stays ahead of requests that came later.
            priority = Priority::High;
        }
        Ok((admitted, left()))
    }

    /// Holds the door on behalf of the log, if it is closed. Only the first of the line is here, so
    /// the door is free unless it is held already. Also those are here that were first and were not
    /// admitted for so long that the next one went ahead.
    fn hold_door(&self, lock: &FifoLock) {
        // The evidence of the requests behind it names the subscriber, or the disk.
        let subscriber = self.0.log.furthest_behind();
        let owner = OwnerId::from(subscriber.map_or(DISK, |_| SUBSCRIBER));
        let call_site = subscriber.unwrap_or_else(|| Location::caller());
        let options = AcquireOptions::new().no_wait();
        let requester = options.requester(&owner, call_site, false).unbound();
        let granted = blocking(lock.grant_as(WaitsAs::Thread, &requester, &options));
        if let Ok(grant) = granted {
            self.close_door(lock, grant.id());
        }
    }

    /// Leaves the door, which is open until a commit closes it again. If it is closed again and
    /// others are here, the log keeps the grant. Otherwise they would pass the door to each other.
    fn leave_door(&self, lock: &FifoLock, grant: Grant) {
        let is_kept =
            self.0.log.door(|door| door.is_closed) && lock.queue_length() > 0 && lock.seal(grant);
        match is_kept {
            true => self.close_door(lock, grant.id()),
            false => drop(lock.release_lock(grant.id())),
        }
    }

    /// Lets the log hold the door with this grant. Releases it if the door is open.
    fn close_door(&self, lock: &FifoLock, grant: LockId) {
        let unused = self.0.log.door(|door| match door.is_closed {
            true => door.held.replace(grant),
            false => Some(grant),
        });
        if let Some(grant) = unused {
            let _ = lock.release_lock(grant);
        }
    }

    /// Times out the wait of `owner` for a lossless subscriber.
    #[cfg(loom)]
    pub(super) fn expire_admission(&self, owner: &OwnerId) {
        if let Some(locks) = self.0.log.lazy.admission() {
            locks.line.expire(owner.clone());
            locks.door.expire(owner.clone());
        }
    }

    /// Reads the line and the door. `None` if no request is there.
    pub(super) fn admission_diagnostics(&self) -> Option<AdmissionDiagnostics> {
        let Locks { line, door } = self.0.log.lazy.admission()?;
        let line = line.diagnostics();
        let door = door.diagnostics();
        let is_used = !(line.holders.is_empty() && door.holders.is_empty());
        is_used.then_some(AdmissionDiagnostics { door, line })
    }

    /// Describes the requests that wait for a lossless subscriber or for the journal, in readable
    /// form. `None` if none has had to.
    ///
    /// While admission is closed, the first request waits for the holder `lossless subscriber`, or
    /// `disk` if the journal has too much to write. The others wait for the first one.
    pub fn admission_dump(&self) -> Option<[LockDiagnostics; 2]> {
        let locks = self.0.log.lazy.admission()?;
        Some([&locks.line, &locks.door].map(FifoLock::diagnostics))
    }
}
