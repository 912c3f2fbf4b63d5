//! A simulated disk: it records all calls, can lose power at any of them, and can fail at one.
//!
//! What a power cut leaves follows the [assumptions of redb][assumptions]: each byte is written
//! whole or not at all, a sync makes everything before it durable, and a write changes no byte
//! outside of its range. Nothing else is assumed: not the order of writes, nor that a sector is
//! whole.
//!
//! [assumptions]: https://github.com/cberner/redb/blob/master/docs/design.md

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

use redb::StorageBackend;

use crate::common::Dice;

const SECTOR: usize = 512;

/// What happened, in order: calls of the journal, and marks of the program that edits.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    Write(usize, Vec<u8>),
    SetLen(usize),
    Sync,
    /// A store was opened with this version.
    Opened(u64),
    /// A commit that makes this version begins.
    Begun(u64),
    /// This version was acknowledged.
    Acknowledged(u64),
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Disk(Arc<Mutex<State>>);

#[derive(Debug, Default)]
pub(crate) struct State {
    /// What a read returns.
    live: Vec<u8>,
    pub(crate) events: Vec<Event>,
    /// The events before a kill that were not synced.
    before: Vec<Event>,
    /// The contents after each sync, with the number of events until then.
    pub(crate) synced: Vec<(usize, Vec<u8>)>,
    /// The calls so far, in order.
    pub(crate) calls: Vec<Call>,
    fault: Option<Fault>,
    /// The numbers of the syncs that return without syncing.
    ignored_syncs: Range<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Call {
    Len,
    Read,
    Write,
    SetLen,
    Sync,
}

impl Call {
    pub(crate) const ALL: [Self; 5] =
        [Self::Len, Self::Read, Self::Write, Self::SetLen, Self::Sync];
}

/// Makes one call fail.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fault {
    /// The number of calls before it.
    pub(crate) at: usize,
    /// Whether the call fails after it has done its work.
    pub(crate) after: bool,
    pub(crate) kind: io::ErrorKind,
}

impl Disk {
    pub(crate) fn with(contents: Vec<u8>) -> Self {
        let state = State {
            live: contents.clone(),
            synced: vec![(0, contents)],
            ..State::default()
        };
        Self(Arc::new(Mutex::new(state)))
    }

    pub(crate) fn failing(self, fault: Fault) -> Self {
        self.state().fault = Some(fault);
        self
    }

    /// Makes the syncs with these numbers return without syncing.
    pub(crate) fn ignoring_syncs(self, numbers: Range<usize>) -> Self {
        self.state().ignored_syncs = numbers;
        self
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Records a mark, and returns the number of events before it.
    pub(crate) fn mark(&self, mark: Event) -> usize {
        let events = &mut self.state().events;
        events.push(mark);
        events.len() - 1
    }

    fn call(&self, call: Call, act: impl FnOnce(&mut State) -> io::Result<()>) -> io::Result<()> {
        let mut state = self.state();
        let nth = state.calls.len();
        state.calls.push(call);
        match state.fault.filter(|fault| fault.at == nth) {
            None => act(&mut state),
            Some(fault) => {
                if fault.after {
                    act(&mut state)?;
                }
                Err(io::Error::new(fault.kind, "the disk fails"))
            }
        }
    }

    /// What a power cut leaves behind that happens after so many events.
    pub(crate) fn after_a_cut(&self, at: usize, dice: &mut Dice) -> Vec<u8> {
        let state = self.state();
        let (contents, events) = state.unsynced(at);
        let mut unsynced = Unsynced::of(contents);
        for event in events {
            match event {
                Event::Write(offset, bytes) => unsynced.write(*offset, bytes),
                Event::SetLen(len) => unsynced.set_len(*len),
                _ => {}
            }
        }
        unsynced.survivors(contents.to_vec(), dice)
    }

    /// The disk after a kill of the process that happens after so many events. All writes are seen,
    /// but a power cut can still lose those that were not synced.
    pub(crate) fn after_a_kill(&self, at: usize) -> Self {
        let state = self.state();
        let (contents, events) = state.unsynced(at);
        let before: Vec<Event> = events.cloned().collect();
        let mut live = contents.to_vec();
        for event in &before {
            match event {
                Event::Write(offset, bytes) => write(&mut live, *offset, bytes),
                Event::SetLen(len) => live.resize(*len, 0),
                _ => {}
            }
        }
        let state = State {
            live,
            before,
            synced: vec![(0, contents.to_vec())],
            ..State::default()
        };
        Self(Arc::new(Mutex::new(state)))
    }
}

impl State {
    pub(crate) fn live(&self) -> &[u8] {
        &self.live
    }

    /// The contents after the last sync before this moment, and the events since then.
    fn unsynced(&self, at: usize) -> (&[u8], impl Iterator<Item = &Event>) {
        let synced = self.synced.partition_point(|(events, _)| *events <= at);
        let (from, contents) = &self.synced[synced - 1];
        let before = if synced == 1 { &self.before[..] } else { &[] };
        (contents, before.iter().chain(&self.events[*from..at]))
    }

    /// The moments after each sync.
    pub(crate) fn syncs(&self) -> Vec<usize> {
        let moments = self.events.iter().zip(1..);
        let syncs = moments.filter(|(event, _)| matches!(event, Event::Sync));
        syncs.map(|(_, after)| after).collect()
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        let mut len = 0;
        self.call(Call::Len, |state| {
            len = state.live.len() as u64;
            Ok(())
        })?;
        Ok(len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.call(Call::Read, |state| {
            let stored = state.live.get(offset as usize..);
            let stored = stored.and_then(|stored| stored.get(..out.len()));
            out.copy_from_slice(stored.ok_or(io::ErrorKind::UnexpectedEof)?);
            Ok(())
        })
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.call(Call::SetLen, |state| {
            state.live.resize(len as usize, 0);
            state.events.push(Event::SetLen(len as usize));
            Ok(())
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        self.call(Call::Sync, |state| {
            let number = state.syncs().len();
            state.events.push(Event::Sync);
            if !state.ignored_syncs.contains(&number) {
                state.synced.push((state.events.len(), state.live.clone()));
            }
            Ok(())
        })
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.call(Call::Write, |state| {
            write(&mut state.live, offset as usize, data);
            let event = Event::Write(offset as usize, data.to_vec());
            state.events.push(event);
            Ok(())
        })
    }
}

fn write(contents: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    contents.resize(contents.len().max(end), 0);
    contents[offset..end].copy_from_slice(bytes);
}

type Sector = [u8; SECTOR];

/// The writes since the last sync.
struct Unsynced {
    live: Vec<u8>,
    lengths: Vec<usize>,
    /// What each changed sector contained at one time, the oldest first.
    sectors: BTreeMap<usize, Vec<Sector>>,
}

impl Unsynced {
    fn of(contents: &[u8]) -> Self {
        Self {
            live: contents.to_vec(),
            lengths: vec![contents.len()],
            sectors: BTreeMap::new(),
        }
    }

    fn write(&mut self, offset: usize, bytes: &[u8]) {
        let touched = offset / SECTOR..(offset + bytes.len()).div_ceil(SECTOR);
        self.change(touched, |live| write(live, offset, bytes));
    }

    fn set_len(&mut self, len: usize) {
        // A growth brings zeros, also where the file once was longer.
        let touched = self.live.len() / SECTOR..len.div_ceil(SECTOR);
        self.change(touched, |live| live.resize(len, 0));
    }

    fn change(&mut self, touched: std::ops::Range<usize>, act: impl FnOnce(&mut Vec<u8>)) {
        for sector in touched.clone() {
            let before = contents_of(&self.live, sector);
            self.sectors.entry(sector).or_insert_with(|| vec![before]);
        }
        act(&mut self.live);
        self.lengths.push(self.live.len());
        for sector in touched {
            let after = contents_of(&self.live, sector);
            self.sectors.entry(sector).or_default().push(after);
        }
    }

    /// Draws which of the writes survive.
    fn survivors(self, mut contents: Vec<u8>, dice: &mut Dice) -> Vec<u8> {
        // Some cuts lose nearly all sectors, some nearly none, and the header is a case of its own.
        let [kept, kept_of_header] = [0, 0].map(|_| [0, 5, 50, 95, 100][dice.below(5)]);
        let length = match dice.one_in(2) {
            true => self.live.len(),
            false => self.lengths[dice.below(self.lengths.len())],
        };
        for (sector, versions) in self.sectors {
            let kept = if sector == 0 { kept_of_header } else { kept };
            let draw = |dice: &mut Dice| match dice.below(100) < kept {
                true => versions[versions.len() - 1],
                false => versions[dice.below(versions.len() - 1)],
            };
            let mut survivor = draw(dice);
            if dice.one_in(if sector == 0 { 2 } else { 8 }) {
                tear(&mut survivor, &draw(dice), dice);
            }
            write(&mut contents, sector * SECTOR, &survivor);
        }
        contents.resize(length, 0);
        contents
    }
}

/// Mixes two contents of a sector, byte by byte or at one place between bytes that differ.
fn tear(sector: &mut Sector, other: &Sector, dice: &mut Dice) {
    let pairs = sector.iter().zip(other).enumerate();
    let differing = pairs.filter(|(_, (byte, other))| byte != other);
    let differing: Vec<usize> = differing.map(|(at, _)| at).collect();
    if differing.is_empty() {
        return;
    }
    let place = (!dice.one_in(4)).then(|| differing[dice.below(differing.len())]);
    for (at, byte) in sector.iter_mut().enumerate() {
        if place.map_or_else(|| dice.one_in(2), |place| at >= place) {
            *byte = other[at];
        }
    }
}

fn contents_of(contents: &[u8], sector: usize) -> Sector {
    let mut found = [0; SECTOR];
    let from = contents.get(sector * SECTOR..).unwrap_or(&[]);
    let len = from.len().min(SECTOR);
    found[..len].copy_from_slice(&from[..len]);
    found
}
