//! Both editors work in their sections, with locks on the sections or on the whole document.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use doclock::{
    DataStore, Transaction,
    lock::{LockError, node::Scope},
};

use crate::Failure;
use crate::document::{ANN, BOB, Editor};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locking {
    Section,
    Document,
}

/// The times at which an editor requested, acquired and released its lock.
pub struct Stay {
    pub name: &'static str,
    pub place: &'static str,
    pub asked: Instant,
    pub from: Instant,
    pub until: Instant,
}

/// The points at which both wait for each other.
struct Meetings {
    /// Ann has her lock, so Bob's request is the second one with either kind of lock.
    begun: Barrier,
    /// Both have their locks.
    inside: Barrier,
}

/// Both rewrite their sections, which takes each of them as long as `work`.
pub fn run(store: &DataStore, locking: Locking, work: Duration) -> Result<[Stay; 2], Failure> {
    let meetings = Meetings {
        begun: Barrier::new(2),
        inside: Barrier::new(2),
    };
    thread::scope(|scope| {
        let [ann, bob] = [&ANN, &BOB].map(|editor| {
            let meetings = &meetings;
            scope.spawn(move || rewrite(store, editor, locking, work, meetings))
        });
        Ok([joined(ann)?, joined(bob)?])
    })
}

fn rewrite(
    store: &DataStore,
    editor: &Editor,
    locking: Locking,
    work: Duration,
    meetings: &Meetings,
) -> Result<Stay, Failure> {
    let is_first = editor.name == ANN.name;
    if !is_first {
        meetings.begun.wait();
    }
    let asked = Instant::now();
    let begun = begin(store, editor, locking);
    let from = Instant::now();
    // Also after a failure: otherwise the other thread would wait forever.
    if is_first {
        meetings.begun.wait();
    }
    if locking == Locking::Section {
        // With the lock on the whole document this would be a deadlock: neither continues before
        // both have begun.
        meetings.inside.wait();
    }
    let mut transaction = begun?;
    let lines = editor.lines.len();
    for (id, nth) in editor.lines.into_iter().zip(1..) {
        thread::sleep(work / lines as u32);
        let text = format!("Line {nth} of {lines}, by {}.", editor.name);
        transaction.set_text(id, text)?;
    }
    transaction.commit()?;
    Ok(Stay {
        name: editor.name,
        place: match locking {
            Locking::Section => editor.section,
            Locking::Document => "everything",
        },
        asked,
        from,
        until: Instant::now(),
    })
}

fn begin(store: &DataStore, editor: &Editor, locking: Locking) -> Result<Transaction, LockError> {
    match locking {
        Locking::Section => store.begin_on(editor.name, Scope::new().write_subtree(editor.section)),
        Locking::Document => store.begin(editor.name),
    }
}

/// The result of a thread.
pub fn joined<T>(thread: thread::ScopedJoinHandle<'_, Result<T, Failure>>) -> Result<T, Failure> {
    thread
        .join()
        .unwrap_or_else(|_| Err("an editor panicked".into()))
}
