//! Admission: while a lossless subscriber has too much to read, requests wait before they request
//! the lock.
//!
//! They wait in a line, a FIFO lock. The first of them waits at the door, a second FIFO lock, which
//! the log holds while admission is closed. A request leaves the line when it has the store's lock,
//! so the order of the line is that of the grants.

use std::borrow::Cow;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use smol_str::SmolStr;

use super::DataStore;
use crate::id::LockId;
#[cfg(loom)]
use crate::id::OwnerId;
use crate::lock::{AcquireOptions, Asker, FifoLock, LockDump, LockError, LockOptions};

/// Where requests wait for a lossless subscriber.
#[derive(Debug, Default)]
pub(super) struct Admission {
    /// Whether requests join the line.
    is_guarded: AtomicBool,
    /// Made when the first request has to wait.
    locks: OnceLock<Box<Locks>>,
}

#[derive(Debug)]
struct Locks {
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
    store: &'a DataStore,
    line: &'a FifoLock,
    grant: LockId,
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        // It was not revoked, because it has no hold limit.
        let _ = self.line.release_lock(self.grant);
        let log = &self.store.0.log;
        log.door(|door| {
            if !door.is_closed && !self.line.is_locked() {
                log.admission.is_guarded.store(false, Ordering::Relaxed);
            }
        });
    }
}

impl Admission {
    /// Closes the door. The log is locked.
    pub(super) fn close(&self, door: &mut Door) {
        door.is_closed = true;
        self.is_guarded.store(true, Ordering::Relaxed);
    }

    /// Opens the door. The log is locked. The request there goes on when [`release`] is called.
    ///
    /// [`release`]: Self::release
    #[must_use = "the request at the door must go on"]
    pub(super) fn open(&self, door: &mut Door) -> Option<LockId> {
        door.is_closed = false;
        door.held.take()
    }

    pub(super) fn release(&self, held: Option<LockId>) {
        if let (Some(held), Some(locks)) = (held, self.locks.get()) {
            let _ = locks.door.release_lock(held);
        }
    }
}

/// The owner of the closed door.
const SUBSCRIBER: &str = "lossless subscriber";

/// The label of the requests in the line.
const IN_LINE: SmolStr = SmolStr::new_static("waits for a lossless subscriber");

impl DataStore {
    /// Whether requests may have to wait before they request the lock.
    #[inline]
    pub(super) fn is_guarded(&self) -> bool {
        self.0.log.admission.is_guarded.load(Ordering::Relaxed)
    }

    /// Waits until the request may request the lock. Returns the options for that, with what is
    /// left of the timeout.
    #[inline]
    pub(crate) fn admit<'o>(
        &self,
        asker: &Asker<'_>,
        options: &'o AcquireOptions,
    ) -> Result<(Option<Admitted<'_>>, Cow<'o, AcquireOptions>), LockError> {
        match self.is_guarded() {
            false => Ok((None, Cow::Borrowed(options))),
            true => {
                let (admitted, left) = self.join_line(asker, options)?;
                Ok((Some(admitted), Cow::Owned(left)))
            }
        }
    }

    #[cold]
    fn join_line(
        &self,
        asker: &Asker<'_>,
        options: &AcquireOptions,
    ) -> Result<(Admitted<'_>, AcquireOptions), LockError> {
        self.0.lock.check_reentry(asker)?;
        let log = &self.0.log;
        let clock = self.0.lock.clock();
        let locks = log.admission.locks.get_or_init(|| {
            let lock = || FifoLock::with_options(LockOptions::new().clock(clock.clone()));
            Box::new(Locks {
                line: lock(),
                door: lock(),
            })
        });
        let limit = options.limit(self.0.lock.timeout());
        let began = self.monotonic();
        let left = || {
            let left = |limit: Duration| limit.saturating_sub(self.monotonic() - began);
            let options = options.clone();
            match limit {
                Some(limit) => options.timeout(left(limit)),
                None => options.no_timeout(),
            }
        };
        let grant = |lock: &FifoLock| {
            let options = left().no_hold_limit().or_label(IN_LINE);
            let asker = options.asker(asker.owner, asker.call_site, false).unbound();
            Ok::<_, LockError>(lock.grant(&asker, &options)?.id())
        };
        let admitted = Admitted {
            store: self,
            line: &locks.line,
            grant: grant(&locks.line)?,
        };
        while log.door(|door| door.is_closed) {
            self.hold_door(&locks.door);
            // Open until a commit closes it again.
            let _ = locks.door.release_lock(grant(&locks.door)?);
        }
        Ok((admitted, left()))
    }

    /// Holds the door on behalf of the log, if it is closed. Only the first of the line is here, so
    /// the door is free unless it is held already.
    fn hold_door(&self, lock: &FifoLock) {
        let options = AcquireOptions::new().no_wait();
        let Ok(grant) = lock.acquire_lock_with(SUBSCRIBER, options) else {
            return;
        };
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
        if let Some(locks) = self.0.log.admission.locks.get() {
            locks.line.expire(owner.clone());
            locks.door.expire(owner.clone());
        }
    }

    /// Describes who waits for a lossless subscriber, in readable form. `None` if none has had to.
    ///
    /// While admission is closed, the first request waits for the holder `lossless subscriber`, and
    /// the others wait for the first one.
    pub fn admission_dump(&self) -> Option<[LockDump; 2]> {
        let locks = self.0.log.admission.locks.get()?;
        Some([&locks.line, &locks.door].map(FifoLock::lock_dump))
    }
}
