//! The memory of a keyed lock for keys that were active and are idle.

use doclock::{
    lock::{LockError, keyed::KeyedLock},
    time::ManualClock,
};
use serde::{Deserialize, Serialize};

use crate::{Result, bytes};

type Lock = KeyedLock<u64>;

type Touch = fn(&Lock, u64, &mut dyn FnMut()) -> std::result::Result<(), LockError>;

pub struct Case {
    pub name: &'static str,
    pub note: &'static str,
    /// Activates so many keys, calls the last argument at the maximum, and makes the keys idle
    /// again.
    touch: Touch,
}

pub const CASES: [Case; 2] = [
    Case {
        name: "keys in turn",
        note: "a task for each key, one after the other",
        touch: |lock, keys, most| {
            for key in 0..keys {
                lock.execute_exclusive(&key, || ())?;
            }
            lock.execute_exclusive(&keys, most)
        },
    },
    Case {
        name: "keys at once",
        note: "a turn reserved at each key before the first is given up",
        touch: |lock, keys, most| {
            let turns = (0..keys).map(|key| lock.reserve(&key));
            let _turns: Vec<_> = turns.collect::<std::result::Result<_, _>>()?;
            most();
            Ok(())
        },
    },
];

/// The memory of a lock: bytes beyond those after some thousand keys.
#[derive(Serialize, Deserialize)]
pub struct Row {
    suite: String,
    pub case: String,
    subject: String,
    /// When all keys are idle.
    value: f64,
    unit: String,
    /// Bytes of a lock after some thousand keys.
    used: f64,
    /// When most keys are active, including the turns that the caller holds.
    most: f64,
    /// The capacity in keys at the beginning, at the maximum and at the end.
    room: [usize; 3],
}

pub fn heading(keys: usize) {
    println!("\n== keys ==");
    println!(
        "{keys} keys of a keyed lock become active and idle again. Bytes that are allocated for a lock that a few"
    );
    println!(
        "keys were used of; beyond these, when most keys are active (with the caller's turns) and when all are"
    );
    println!("idle; and for how many keys its table has room at these three times.\n");
    for case in &CASES {
        println!("  {:14}  {}", case.name, case.note);
    }
    println!(
        "\n{:14} {:>9} {:>11} {:>9} {:>9} {:>9} {:>9}",
        "case", "used", "most", "kept", "room", "room most", "room kept"
    );
}

impl Row {
    pub fn line(&self) -> String {
        let [room, room_most, room_kept] = self.room;
        format!(
            "{:14} {:>9} {:>11} {:>9} {room:>9} {room_most:>9} {room_kept:>9}",
            self.case, self.used, self.most, self.value
        )
    }
}

pub fn measured(case: &Case, keys: usize) -> Result<Row> {
    let clock = ManualClock::new();
    let start = bytes();
    // The size of the metrics depends on durations, not on counts.
    let lock = Lock::with_options(doclock::lock::keyed::KeyedOptions::new().clock(clock.clock()));
    for key in 0..10_000 {
        lock.execute_exclusive(&key, || ())?;
    }
    let (used, room) = (bytes(), lock.stats().capacity);
    let (mut most, mut room_most) = (0.0, 0);
    (case.touch)(&lock, keys as u64, &mut || {
        (most, room_most) = (bytes() - used, lock.stats().capacity);
    })?;
    let kept = bytes() - used;
    Ok(Row {
        suite: "keys".into(),
        case: case.name.into(),
        subject: "doclock".into(),
        value: kept,
        unit: "bytes".into(),
        used: used - start,
        most,
        room: [room, room_most, lock.stats().capacity],
    })
}
