//! A storage whose changes are held back until they are released.

use std::io;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use redb::{BackendError, StorageBackend};

use crate::sync::{Mutex, rank};

/// A storage that keeps all changes in memory until [`release`](Self::release), and all other calls
/// see them. Without a release the storage below stays as it is.
///
/// It leaves out syncs that order nothing. A power cut between two writes of the same byte leaves
/// one of its values, with a sync in between or without. So if nothing else was written, the sync
/// waits for the next change.
///
/// Exclusive locks that were waited for are kept until then too. They keep readers in other
/// processes away while the pages of the version that they would read are given to others.
#[derive(Clone, Debug)]
pub(super) struct HeldStorage(Arc<SharedStorage>);

#[derive(Debug)]
struct SharedStorage {
    below: Box<dyn StorageBackend>,
    /// Whether shared locks take the place of exclusive ones.
    is_read: bool,
    /// `None` after the release. The storage below may be code of a user, so it is not called with
    /// this locked.
    held: Mutex<{ rank::DURABLE }, Option<Held>>,
    /// The length that the storage was given last.
    len: AtomicU64,
    unsynced: Mutex<{ rank::DURABLE }, Unsynced>,
    /// Whether the engine is being closed.
    is_closing: AtomicBool,
}

/// The changes that are not synced.
#[derive(Clone, Copy, Debug, Default)]
struct Unsynced {
    changes: Difference,
    /// Whether they must be synced before the next change.
    is_due: bool,
    /// Whether they are those of a file that is not at its path yet.
    is_new: bool,
}

/// Which bytes differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Difference {
    #[default]
    None,
    /// The one at this position.
    Byte(u64),
    Several,
}

impl Difference {
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::None, it) | (it, Self::None) => it,
            (Self::Byte(at), Self::Byte(same)) if at == same => self,
            _ => Self::Several,
        }
    }
}

/// What is held back.
#[derive(Debug, Default)]
struct Held {
    /// The changes in their order.
    changes: Arc<Vec<StorageOperation>>,
    /// The exclusive locks.
    locks: Vec<(Bound<u64>, Bound<u64>)>,
}

#[derive(Clone, Debug)]
enum StorageOperation {
    Length(u64),
    Write(u64, Vec<u8>),
    Sync,
}

impl HeldStorage {
    pub(super) fn new(below: impl StorageBackend) -> io::Result<Self> {
        Self::with(below, false)
    }

    /// The storage of a file that is never released, and only read. Shared locks keep writers away,
    /// and no other readers.
    pub(super) fn of_read_file(below: impl StorageBackend) -> io::Result<Self> {
        Self::with(below, true)
    }

    /// The storage of a file that is not at its path yet. Its changes are made at once, and synced
    /// only by [`finish`](Self::finish) or a close: if it is interrupted, nothing reads it.
    pub(super) fn of_new_file(below: impl StorageBackend) -> io::Result<Self> {
        let storage = Self::with(below, false)?;
        storage.end_hold()?;
        storage.0.unsynced.lock().is_new = true;
        Ok(storage)
    }

    fn with(below: impl StorageBackend, is_read: bool) -> io::Result<Self> {
        let held = Mutex::new(Some(Held::default()));
        let len = AtomicU64::new(below.len()?);
        let below = Box::new(below);
        // An earlier process may have been killed before it synced what is read here.
        let unsynced = Unsynced {
            changes: Difference::Several,
            ..Unsynced::default()
        };
        Ok(Self(Arc::new(SharedStorage {
            below,
            is_read,
            held,
            len,
            unsynced: Mutex::new(unsynced),
            is_closing: AtomicBool::new(false),
        })))
    }

    /// Syncs a new file. Later syncs are made in their order. Does nothing to another file.
    pub(super) fn finish(&self) -> io::Result<()> {
        match self.unsynced().is_new {
            true => self.sync_below(),
            false => Ok(()),
        }
    }

    /// The length that the storage was given last.
    pub(super) fn given_len(&self) -> u64 {
        self.0.len.load(Ordering::Relaxed)
    }

    fn set_len_below(&self, len: u64) -> io::Result<()> {
        self.add_unsynced(Difference::Several);
        self.final_error(self.0.below.set_len(len))?;
        self.0.len.store(len, Ordering::Relaxed);
        Ok(())
    }

    fn write_below(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.add_unsynced(Difference::Several);
        self.0.below.write(offset, data)
    }

    /// Writes what differs from the storage, after the sync that is due, unless it is the same byte
    /// again.
    fn write_difference(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let difference = self.final_error(self.difference(offset, data))?;
        // redb writes a header again that it has not changed.
        if difference == Difference::None {
            return Ok(());
        }
        if self.unsynced().changes.and(difference) == Difference::Several {
            self.sync_due()?;
        }
        self.add_unsynced(difference);
        self.final_error(self.0.below.write(offset, data))
    }

    /// Where the storage differs from these bytes.
    fn difference(&self, offset: u64, bytes: &[u8]) -> io::Result<Difference> {
        if self.0.below.len()? < offset + bytes.len() as u64 {
            return Ok(Difference::Several);
        }
        let mut found = vec![0; bytes.len()];
        self.0.below.read(offset, &mut found)?;
        let pairs = (offset..).zip(found.iter().zip(bytes));
        let differing = pairs.filter(|(_, (found, byte))| found != byte);
        let differing = differing.map(|(at, _)| Difference::Byte(at));
        Ok(differing.take(2).fold(Difference::None, Difference::and))
    }

    fn unsynced(&self) -> Unsynced {
        *self.0.unsynced.lock()
    }

    /// Adds a change that is about to be made to those that are not synced.
    fn add_unsynced(&self, change: Difference) {
        let mut unsynced = self.0.unsynced.lock();
        unsynced.changes = unsynced.changes.and(change);
    }

    /// After an error nothing is synced any more.
    fn final_error<T>(&self, result: io::Result<T>) -> io::Result<T> {
        if result.is_err() {
            self.0.unsynced.lock().is_due = false;
        }
        result
    }

    /// Syncs the storage, unless nothing has changed since the last sync.
    fn sync_below(&self) -> io::Result<()> {
        if self.unsynced().changes != Difference::None {
            self.final_error(self.0.below.sync_data())?;
            *self.0.unsynced.lock() = Unsynced::default();
        }
        Ok(())
    }

    /// Syncs the storage now, or before the next change if only one byte has changed.
    fn sync_later(&self) -> io::Result<()> {
        match self.unsynced().changes {
            Difference::Several => self.sync_below(),
            changes => {
                self.0.unsynced.lock().is_due = changes != Difference::None;
                Ok(())
            }
        }
    }

    fn sync_due(&self) -> io::Result<()> {
        match self.unsynced().is_due {
            true => self.sync_below(),
            false => Ok(()),
        }
    }

    /// Makes the held changes in their order, with their syncs, and releases the kept locks: a
    /// crash in between leaves what a crash could have left without the hold. Later changes are not
    /// held.
    ///
    /// # Errors
    ///
    /// The first error. The later changes, also those that follow, stay held.
    pub(super) fn release(&self) -> io::Result<()> {
        let Some(changes) = self.held() else {
            return Ok(());
        };
        for change in changes.iter() {
            match change {
                StorageOperation::Length(len) => {
                    self.sync_due().and_then(|()| self.set_len_below(*len))
                }
                StorageOperation::Write(offset, bytes) => self.write_difference(*offset, bytes),
                StorageOperation::Sync => self.sync_later(),
            }?;
        }
        self.sync_due()?;
        self.end_hold()
    }

    /// Later changes are not held, and the kept locks are released.
    fn end_hold(&self) -> io::Result<()> {
        let released = self.0.held.lock().take();
        for (start, end) in released.into_iter().flat_map(|held| held.locks) {
            self.0.below.unlock_range(start, end)?;
        }
        Ok(())
    }

    /// Leaves out syncs that order nothing from now on, also before a cut of the file. The close of
    /// the storage syncs the rest.
    ///
    /// The commit before must have been made with one sync, as without readers. redb syncs the last
    /// commit before it names it as the newest one. Then it cuts off the end of the file, which is
    /// free in that commit. A power cut may keep this cut without the name: redb then takes the
    /// newest commit that is whole.
    pub(super) fn begin_close(&self) {
        self.0.is_closing.store(true, Ordering::Relaxed);
    }

    fn is_closing(&self) -> bool {
        self.0.is_closing.load(Ordering::Relaxed)
    }

    /// The held changes.
    fn held(&self) -> Option<Arc<Vec<StorageOperation>>> {
        let held = self.0.held.lock();
        held.as_ref().map(|held| Arc::clone(&held.changes))
    }

    /// Holds a change back. Returns whether changes are held.
    fn hold(&self, change: impl FnOnce() -> StorageOperation) -> bool {
        let mut held = self.0.held.lock();
        let push = |held: &mut Held| Arc::make_mut(&mut held.changes).push(change());
        held.as_mut().map(push).is_some()
    }

    /// Keeps an exclusive lock until the release.
    fn keep_lock(&self, start: Bound<u64>, end: Bound<u64>) {
        if let Some(held) = self.0.held.lock().as_mut() {
            held.locks.push((start, end));
        }
    }

    /// Whether an exclusive lock is kept.
    fn keeps_lock(&self, start: Bound<u64>, end: Bound<u64>) -> bool {
        let held = self.0.held.lock();
        held.as_ref()
            .is_some_and(|held| held.locks.contains(&(start, end)))
    }
}

/// The length of a storage after changes.
fn len_after(stored: u64, changes: &[StorageOperation]) -> u64 {
    changes.iter().fold(stored, |len, change| match change {
        StorageOperation::Length(new) => *new,
        StorageOperation::Write(offset, bytes) => len.max(offset + bytes.len() as u64),
        StorageOperation::Sync => len,
    })
}

impl StorageBackend for HeldStorage {
    fn len(&self) -> io::Result<u64> {
        let stored = self.final_error(self.0.below.len())?;
        let held = self.held();
        Ok(held.map_or(stored, |changes| len_after(stored, &changes)))
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let Some(changes) = self.held().filter(|changes| !changes.is_empty()) else {
            return self.final_error(self.0.below.read(offset, out));
        };
        let stored = self.given_len();
        let end = offset.checked_add(out.len() as u64);
        if end.is_none_or(|end| end > len_after(stored, &changes)) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // Where a position of the storage is in `out`.
        let len = out.len();
        let within = |position: u64| position.saturating_sub(offset).min(len as u64) as usize;
        let (old, new) = out.split_at_mut(within(stored));
        self.0.below.read(offset, old)?;
        new.fill(0);
        for change in changes.iter() {
            match change {
                StorageOperation::Length(len) => out[within(*len)..].fill(0),
                StorageOperation::Write(start, bytes) => {
                    let part = within(*start)..within(start + bytes.len() as u64);
                    if !part.is_empty() {
                        let from = (offset + part.start as u64 - start) as usize;
                        out[part.clone()].copy_from_slice(&bytes[from..from + part.len()]);
                    }
                }
                StorageOperation::Sync => {}
            }
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        if self.hold(|| StorageOperation::Length(len)) {
            return Ok(());
        }
        // Otherwise see `begin_close`.
        if len > self.given_len() {
            self.sync_due()?;
        }
        self.set_len_below(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        match self.hold(|| StorageOperation::Sync) {
            true => Ok(()),
            false if self.unsynced().is_new => Ok(()),
            false if self.is_closing() => self.sync_later(),
            false => self.sync_below(),
        }
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        match self.hold(|| StorageOperation::Write(offset, data.to_vec())) {
            true => Ok(()),
            false if self.is_closing() => self.write_difference(offset, data),
            false => self.write_below(offset, data),
        }
    }

    fn close(&self) -> io::Result<()> {
        let synced = self.finish().and_then(|()| self.sync_due());
        let closed = self.0.below.close();
        synced.and(closed)
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        match self.0.is_read {
            true => self.0.below.try_lock_shared_range(start, end),
            false => self.0.below.try_lock_range(start, end),
        }
    }

    fn try_lock_shared_range(
        &self,
        start: Bound<u64>,
        end: Bound<u64>,
    ) -> Result<bool, BackendError> {
        self.0.below.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        if self.keeps_lock(start, end) {
            return Ok(());
        }
        match self.0.is_read {
            true => self.0.below.lock_shared_range(start, end),
            false => self.0.below.lock_range(start, end),
        }?;
        self.keep_lock(start, end);
        Ok(())
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        match self.keeps_lock(start, end) {
            true => Ok(()),
            false => self.0.below.lock_shared_range(start, end),
        }
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        match self.keeps_lock(start, end) {
            true => Ok(()),
            false => self.0.below.unlock_range(start, end),
        }
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.below.query_lock_range(start, end)
    }
}

#[cfg(all(test, not(loom)))]
#[path = "../../../../tests/unit/durable_redb_held.rs"]
mod tests;
