//! The reader: takes snapshots during writes, and checks every node of each.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use doclock::{DataStore, Snapshot, View, document::check};

/// Checks one snapshot after the other until `done` is set, and then the last one. Returns how many
/// versions it saw, or the error.
pub fn watch(store: &DataStore, done: &AtomicBool) -> Result<u64, String> {
    let mut checked = 0;
    let mut last = None;
    loop {
        // Read first: if it is set now, this snapshot is the last.
        let finished = done.load(Ordering::Acquire);
        let snapshot = store.snapshot();
        let version = snapshot.version();
        match last {
            Some(last) if version < last => {
                return Err(format!("version {version} came after version {last}"));
            }
            Some(last) if version == last => {
                drop(snapshot);
                thread::yield_now();
            }
            _ => {
                check_tree(&snapshot).map_err(|fault| format!("version {version}: {fault}"))?;
                checked += 1;
                last = Some(version);
            }
        }
        if finished {
            return Ok(checked);
        }
    }
}

/// A valid document with a single tree.
pub fn check_tree(snapshot: &Snapshot) -> Result<(), String> {
    check(snapshot).map_err(|fault| fault.to_string())?;
    let root = snapshot.root().ok_or("there is no root")?;
    let below = snapshot.descendants(root).count();
    let len = snapshot.len();
    match below == len {
        true => Ok(()),
        false => Err(format!("{below} of {len} nodes are in the root's tree")),
    }
}
