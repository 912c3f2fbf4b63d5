//! Timelines for tests: written by hand, or of a simulated lock.

use std::time::{Duration, SystemTime};

use super::{Timeline, TimelineEntry, TimelineOutcome};
use crate::CallSite;
use crate::id::{LockId, OwnerId};

/// A request of `ann` for the whole lock. Times are in nanoseconds.
pub(super) fn request(number: u64, requested: u64, outcome: TimelineOutcome) -> TimelineEntry {
    TimelineEntry {
        lock_id: LockId { number, lock: 1 },
        owner_id: OwnerId::from("ann"),
        label: None,
        call_site: CallSite {
            file: "src/main.rs",
            line: 7,
            column: 13,
        },
        nodes: false,
        requested_at: Duration::from_nanos(requested),
        granted_at: None,
        ended_at: None,
        outcome,
    }
}

impl TimelineEntry {
    pub(super) fn of(mut self, owner: &str) -> Self {
        self.owner_id = owner.into();
        self
    }

    pub(super) fn labelled(mut self, label: &str) -> Self {
        self.label = Some(label.into());
        self
    }

    pub(super) fn granted(mut self, at: u64) -> Self {
        self.granted_at = Some(Duration::from_nanos(at));
        self
    }

    pub(super) fn ended(mut self, at: u64) -> Self {
        self.ended_at = Some(Duration::from_nanos(at));
        self
    }

    pub(super) fn on_nodes(mut self) -> Self {
        self.nodes = true;
        self
    }
}

/// Times in nanoseconds.
pub(super) fn timeline(read_at: u64, entries: impl Into<Vec<TimelineEntry>>) -> Timeline {
    Timeline {
        // 2026-11-25 08:23:04 UTC.
        began_at: SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_594_984),
        read_at: Duration::from_nanos(read_at),
        forgotten: 0,
        entries: entries.into(),
    }
}

/// Pseudo-random numbers from a seed (SplitMix64).
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    /// Mostly near the least, sometimes far above.
    fn skewed(&mut self, least: u64) -> u64 {
        let doublings = self.below(6) * self.below(6) / 5;
        (least << doublings) + self.below(least << doublings)
    }
}

/// A thread of the simulation.
struct Client {
    owner: &'static str,
    label: Option<&'static str>,
    call_site: CallSite,
    pause: u64,
    hold: u64,
    next: u64,
}

const MICROS: u64 = 1_000;
const MILLIS: u64 = 1_000_000;

fn clients() -> Vec<Client> {
    let client = |owner, label, file, line, pause, hold| Client {
        owner,
        label,
        call_site: CallSite {
            file,
            line,
            column: 14,
        },
        pause: pause * MICROS,
        hold: hold * MICROS,
        next: 0,
    };
    vec![
        client("window-1", Some("keystroke"), "src/window.rs", 88, 150, 40),
        client("window-2", Some("keystroke"), "src/window.rs", 88, 170, 40),
        client("window-2", Some("paste"), "src/window.rs", 131, 2000, 150),
        client("autosave", None, "src/autosave.rs", 20, 1200, 250),
        client("search", Some("index"), "src/search.rs", 64, 400, 90),
        client("import", Some("markdown"), "src/import.rs", 51, 4000, 700),
    ]
}

/// What threads do with a lock in FIFO order: some requests time out or are cancelled, some
/// holders are revoked.
pub(super) fn simulated(seed: u64, count: usize) -> Timeline {
    const TIMEOUT: u64 = 4 * MILLIS;
    const HOLD_LIMIT: u64 = 5 * MILLIS;
    let mut dice = Dice(seed);
    let mut clients = clients();
    let mut entries = Vec::with_capacity(count);
    let mut free_at = 0;
    while entries.len() < count {
        let next = clients.iter_mut().min_by_key(|client| client.next);
        let client = next.expect("there are clients");
        let (at, number) = (client.next, entries.len() as u64 + 1);
        let entry = request(number, at, TimelineOutcome::Released).of(client.owner);
        let granted = at.max(free_at);
        let patience = match dice.below(200) {
            0 => dice.below(MILLIS) + 1,
            _ => TIMEOUT,
        };
        let mut entry = if granted - at > patience {
            let outcome = match (patience, dice.below(3)) {
                (TIMEOUT, _) => TimelineOutcome::TimedOut,
                (_, 0) => TimelineOutcome::Deadlock,
                _ => TimelineOutcome::Cancelled,
            };
            let entry = TimelineEntry { outcome, ..entry }.ended(at + patience);
            match outcome {
                TimelineOutcome::Deadlock => entry.on_nodes(),
                _ => entry,
            }
        } else {
            let hold = dice.skewed(client.hold).min(HOLD_LIMIT);
            free_at = granted + hold;
            let outcome = match hold {
                HOLD_LIMIT => TimelineOutcome::Revoked,
                _ => TimelineOutcome::Released,
            };
            let entry = TimelineEntry { outcome, ..entry };
            entry.granted(granted).ended(free_at)
        };
        entry.label = client.label.map(Into::into);
        entry.call_site = client.call_site;
        client.next = entry.ended_at.map_or(at, |end| end.as_nanos() as u64);
        client.next += dice.skewed(client.pause);
        entries.push(entry);
    }
    read_during(entries)
}

/// Reads the timeline just after the last request: requests after it have not ended.
fn read_during(mut entries: Vec<TimelineEntry>) -> Timeline {
    let read_at = entries
        .last()
        .map_or(0, |last| last.requested_at.as_nanos()) as u64
        + 20 * MICROS;
    let timeline_read_at = Duration::from_nanos(read_at);
    for entry in &mut entries {
        entry.ended_at = entry.ended_at.filter(|end| *end <= timeline_read_at);
        entry.granted_at = entry.granted_at.filter(|at| *at <= timeline_read_at);
        entry.outcome = match (entry.granted_at, entry.ended_at) {
            (_, Some(_)) => entry.outcome,
            (Some(_), None) => TimelineOutcome::Holding,
            (None, None) => TimelineOutcome::Waiting,
        };
    }
    let state = |entry: &TimelineEntry| match entry.outcome {
        TimelineOutcome::Waiting => 2,
        TimelineOutcome::Holding => 1,
        _ => 0,
    };
    entries.sort_by_key(|entry| (state(entry), entry.ended_at));
    timeline(read_at, entries)
}
