//! A disk in memory, which may be full.

use std::io;
use std::sync::{Arc, Mutex};

use doclock::durable::{DurableOptions, OpenError, RedbJournal};
use doclock::{DataStore, Snapshot};

use crate::add;

#[derive(Clone, Debug, Default)]
pub(super) struct Disk(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    bytes: Vec<u8>,
    /// How many changes succeed before the disk is full.
    room: Option<usize>,
}

impl Disk {
    pub(super) fn with(bytes: Vec<u8>) -> Self {
        let disk = Self::default();
        disk.0.lock().unwrap().bytes = bytes;
        disk
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().bytes.clone()
    }

    pub(super) fn set_room(&self, changes: Option<usize>) {
        self.0.lock().unwrap().room = changes;
    }

    pub(super) fn open(&self) -> Result<DataStore, OpenError> {
        DataStore::open_journal(RedbJournal::over(self.clone())?, DurableOptions::new())
    }

    /// Makes a change. When the disk gets full, only a part of it.
    fn change(&self, change: impl FnOnce(&mut Vec<u8>, bool)) -> io::Result<()> {
        let State { bytes, room } = &mut *self.0.lock().unwrap();
        let before = *room;
        *room = before.map(|left| left.saturating_sub(1));
        match before {
            Some(0) => {
                change(bytes, false);
                Err(io::ErrorKind::StorageFull.into())
            }
            _ => {
                change(bytes, true);
                Ok(())
            }
        }
    }
}

impl redb::StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().unwrap().bytes.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.0.lock().unwrap();
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let found = start.checked_add(out.len());
        let found = found.and_then(|end| state.bytes.get(start..end));
        out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change(|bytes, whole| {
            if whole {
                bytes.resize(len as usize, 0);
            }
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        self.change(|_, _| {})
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.change(|bytes, whole| {
            let len = if whole { data.len() } else { data.len() / 2 };
            bytes[offset as usize..][..len].copy_from_slice(&data[..len]);
        })
    }
}

/// A state in which a disk is found.
pub(super) struct Found {
    pub(super) name: &'static str,
    pub(super) bytes: Vec<u8>,
    pub(super) document: Snapshot,
    /// The document before the last write. An open of a file that was not closed finds it if the
    /// last write is damaged: it looks like one that a power cut has torn.
    pub(super) before: Option<Snapshot>,
}

/// The disk of a document after a close, after a drop, which leaves records, and after a kill.
pub(super) fn found() -> [Found; 3] {
    let disk = Disk::default();
    let store = disk.open().unwrap();
    for nth in 0..8 {
        add(&store, &format!("node {nth}"));
    }
    store.close().unwrap();
    let closed = Found {
        name: "closed",
        bytes: disk.bytes(),
        document: store.snapshot(),
        before: None,
    };
    let store = disk.open().unwrap();
    for nth in 8..12 {
        add(&store, &format!("node {nth}"));
    }
    let before = store.snapshot();
    add(&store, "last");
    let document = store.snapshot();
    let killed = disk.bytes();
    drop(store);
    let dropped = Found {
        name: "dropped",
        bytes: disk.bytes(),
        document: document.clone(),
        before: None,
    };
    let killed = Found {
        name: "killed",
        bytes: killed,
        document,
        before: Some(before),
    };
    [closed, dropped, killed]
}
