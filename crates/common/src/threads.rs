//! What a person needs to know of the threads that hold or wait: their names, and where they wait.
//!
//! A thread is listed from its first request to its end. While it waits, it notes the address of
//! the lock, to which a store or a registration gives a name, and for what it waits there.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Not;
// Not the model's types: nothing here takes part in a race.
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use serde::Serialize;
use smol_str::{SmolStr, format_smolstr};

use crate::brief::Brief;

/// The thread of a holder or a waiter.
///
/// Serializes in camelCase.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ThreadInfo {
    /// The name of the thread. Of one without a name its id: on Linux that of the operating system,
    /// otherwise that of the standard library.
    pub name: SmolStr,
    /// The name of the store, keyed lock or limiter in which the thread waits, if it waits in one
    /// that has a name: that of `StoreOptions::name`, or of `DataStore::register`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_in: Option<SmolStr>,
    /// Whether the thread waits in a store, a lock or a limiter, with a name or without.
    #[serde(skip_serializing_if = "Not::not")]
    pub waits: bool,
    /// Its number: names of threads are not unique.
    #[serde(skip)]
    #[doc(hidden)]
    pub number: u64,
    /// For what it waits.
    #[serde(skip)]
    #[doc(hidden)]
    pub waits_for: Spot,
}

/// What a thread waits for: the address of a lock, and the number of the request, or of the key of
/// a keyed lock or a limiter.
pub type Spot = (usize, u64);

/// The number in a [`Spot`] of a wait for the end of all tasks of a keyed lock. No key has it.
pub const ALL_TASKS: u64 = u64::MAX;

impl fmt::Display for ThreadInfo {
    /// Formats as `thread ui, which waits in index`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "thread {}", Brief(&self.name))?;
        match &self.waits_in {
            Some(name) => write!(f, ", which waits in {}", Brief(name)),
            None if self.waits => f.write_str(", which waits in a lock without a name"),
            None => Ok(()),
        }
    }
}

struct Listed {
    name: SmolStr,
    /// The address of the lock in which it waits; zero for none.
    waits_in: AtomicUsize,
    /// The number of what it waits for there.
    waits_for: AtomicU64,
}

static THREADS: Mutex<BTreeMap<u64, Arc<Listed>>> = Mutex::new(BTreeMap::new());
/// By the addresses of the locks. Of several names, the last counts: a number tells them apart.
static NAMES: Mutex<BTreeMap<(usize, usize), SmolStr>> = Mutex::new(BTreeMap::new());

fn locked<T>(table: &Mutex<T>) -> MutexGuard<'_, T> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

thread_local! {
    static THIS: OnceCell<Entry> = const { OnceCell::new() };
}

/// The entry of a thread, removed at its end.
struct Entry(u64, Arc<Listed>);

impl Drop for Entry {
    fn drop(&mut self) {
        locked(&THREADS).remove(&self.0);
    }
}

/// Lists the calling thread under its number.
#[cold]
pub fn list(number: u64) {
    let this = thread::current();
    let name = match this.name() {
        Some(name) => name.into(),
        None => match std::fs::read_link("/proc/thread-self") {
            Ok(path) => format_smolstr!("{}", path.file_name().unwrap_or_default().display()),
            Err(_) => format_smolstr!("{:?}", this.id()),
        },
    };
    let listed = Arc::new(Listed {
        name,
        waits_in: AtomicUsize::new(0),
        waits_for: AtomicU64::new(0),
    });
    // Not while the thread ends.
    let _ = THIS.try_with(|entry| {
        if entry.set(Entry(number, Arc::clone(&listed))).is_ok() {
            locked(&THREADS).insert(number, listed);
        }
    });
}

/// Describes the thread with this number. `None` for zero, and for a thread that has ended.
pub fn describe(number: u64) -> Option<ThreadInfo> {
    let listed = locked(&THREADS).get(&number).cloned()?;
    let place = listed.waits_in.load(Ordering::Relaxed);
    Some(ThreadInfo {
        name: listed.name.clone(),
        waits_in: name_of(place),
        waits: place != 0,
        number,
        waits_for: (place, listed.waits_for.load(Ordering::Relaxed)),
    })
}

fn name_of(place: usize) -> Option<SmolStr> {
    let names = locked(&NAMES);
    let (_, last) = names.range((place, 0)..=(place, usize::MAX)).next_back()?;
    Some(last.clone())
}

/// Notes where the calling thread waits, until it is dropped.
///
/// Keeps for what the thread waited before: code of a user can run in a wait.
pub struct Waits(Spot);

impl Waits {
    pub fn in_queue<Q>(queue: &Arc<Q>, number: u64) -> Self {
        Self(note((Arc::as_ptr(queue).addr(), number)))
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        note(self.0);
    }
}

fn note((place, number): Spot) -> Spot {
    let noted = THIS.try_with(|entry| {
        let Entry(_, listed) = entry.get()?;
        let before = listed.waits_for.swap(number, Ordering::Relaxed);
        Some((listed.waits_in.swap(place, Ordering::Relaxed), before))
    });
    noted.ok().flatten().unwrap_or_default()
}

/// The name of a lock, until it is dropped.
#[derive(Debug)]
pub struct LockName((usize, usize));

impl LockName {
    pub fn new(place: usize, name: SmolStr) -> Self {
        static NUMBERS: AtomicUsize = AtomicUsize::new(0);
        let entry = (place, NUMBERS.fetch_add(1, Ordering::Relaxed));
        locked(&NAMES).insert(entry, name);
        Self(entry)
    }
}

impl Drop for LockName {
    fn drop(&mut self) {
        locked(&NAMES).remove(&self.0);
    }
}
