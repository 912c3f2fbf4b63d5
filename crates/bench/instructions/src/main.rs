//! Types in a document, for `scripts/instructions`, which counts the instructions of a keystroke.
//! The argument is the path of a new file. With `--keystroke` it types in memory, and with `--wait`
//! it waits for a lock, for `scripts/path`, which lists the functions that are entered.
//!
//! One editor with a history types beside a subscriber and beside another editor, in a durable
//! store whose commits need not wait for the disk. Each row of twenty letters is in another text.
//! The clock stands still, so the lock measures each hold and no count depends on the speed of the
//! machine.

use std::error::Error;
use std::ffi::OsStr;
use std::time::Duration;

use doclock::durable::{Durability, DurableOptions};
use doclock::lock::{FifoLock, LockError, ReleaseError, ReleaseOutcome};
use doclock::time::ManualClock;
use doclock::{
    DataStore, Editor, LockId, NodeId, StoreOptions,
    document::NodeSpec,
    dsl::{create, insert_text},
    history::HistoryOptions,
};

const TEXTS: usize = 1_000;

const LETTERS_IN_A_ROW: usize = 20;

/// Keystrokes that are not counted: the history is full after the first hundred.
const BEFORE: usize = 1_000;

/// Keystrokes that are counted. The script divides by the number that the program prints.
const COUNTED: usize = 3_000;

/// The function whose instructions are counted, with all that it calls.
#[inline(never)]
fn keystroke(editor: &Editor, text: &NodeId, at: usize) -> Result<(), Box<dyn Error>> {
    editor.execute([insert_text(at, "x").on(text)])?;
    Ok(())
}

/// The same before it is counted.
#[inline(never)]
fn warm_up(editor: &Editor, text: &NodeId, at: usize) -> Result<(), Box<dyn Error>> {
    editor.execute([insert_text(at, "x").on(text)])?;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let argument = std::env::args_os().nth(1).ok_or("which file?")?;
    match argument.to_str() {
        Some("--keystroke") => types_in_memory(),
        Some("--wait") => waits(),
        _ => types(&argument),
    }
}

/// How often each path is taken for `scripts/path`. One in 64 holds is measured, and is no part of
/// the path.
const TAKEN: usize = 300;

/// A keystroke of the only user of a document in memory.
fn types_in_memory() -> Result<(), Box<dyn Error>> {
    let editor = Editor::new(DataStore::new(), "editor");
    let text = NodeId::from("text");
    let node = NodeSpec::new("text").with_id(text.clone());
    editor.execute([create(node)])?;
    for _ in 0..TAKEN {
        keystroke(&editor, &text, 0)?;
    }
    Ok(())
}

/// A request that waits until another thread releases the lock.
fn waits() -> Result<(), Box<dyn Error>> {
    let lock = FifoLock::new();
    for _ in 0..TAKEN {
        let held = lock.acquire_lock("holder")?;
        std::thread::scope(|threads| {
            let waiter = threads.spawn(|| wait(&lock));
            while lock.queue_length() == 0 {
                std::thread::yield_now();
            }
            release(&lock, held)?;
            let granted = waiter.join().map_err(|_| "the waiter panicked")??;
            lock.release_lock(granted).map_err(Box::<dyn Error>::from)
        })?;
    }
    Ok(())
}

#[inline(never)]
fn wait(lock: &FifoLock) -> Result<LockId, LockError> {
    lock.acquire_lock("waiter")
}

#[inline(never)]
fn release(lock: &FifoLock, held: LockId) -> Result<ReleaseOutcome, ReleaseError> {
    lock.release_lock(held)
}

fn types(file: &OsStr) -> Result<(), Box<dyn Error>> {
    let clock = ManualClock::new();
    let options = DurableOptions::new()
        .durability(Durability::Later)
        .store(StoreOptions::new().clock(clock.clock()));
    let store = DataStore::open_with(file, options)?;
    let mut transaction = store.begin("setup")?;
    let text = || NodeSpec::new("text").with_text("The quick brown fox jumps");
    let texts = (0..TEXTS).map(|_| transaction.create(text()));
    let texts = texts.collect::<Result<Vec<NodeId>, _>>()?;
    transaction.commit()?;

    let history = HistoryOptions::new().group_interval(Duration::ZERO);
    let other = Editor::new(store.clone(), "other").with_history(history.clone());
    for text in texts.iter().step_by(50) {
        other.execute([insert_text(0, "a").on(text)])?;
    }
    let events = store.subscribe();
    let editor = Editor::new(store.clone(), "editor").with_history(history);
    for nth in 0..BEFORE + COUNTED {
        let row = nth / LETTERS_IN_A_ROW;
        if nth % LETTERS_IN_A_ROW == 0 {
            // Which thread frees what the journal has read does not depend on the disk then.
            store.wait_durable(store.version()).wait()?;
        }
        // Far from the last one, and each text again after all others.
        let text = &texts[row * 617 % TEXTS];
        let at = 3 + nth % LETTERS_IN_A_ROW;
        match nth < BEFORE {
            true => warm_up(&editor, text, at)?,
            false => keystroke(&editor, text, at)?,
        }
        while events.try_recv().is_ok() {}
    }
    println!("{COUNTED}");
    drop(other);
    Ok(())
}
