//! Timelines for tests: written by hand, or of a simulated lock.
//!
//! The tests of the page in `crates/tool` have them, too, so entries are read from JSON.

use std::sync::LazyLock;
use std::time::Duration;

use serde_json::json;

use super::{Timeline, TimelineEntry, TimelineOutcome};

/// A request of `ann` for the whole lock. Times are in nanoseconds.
pub(super) fn request(number: u64, requested: u64, outcome: TimelineOutcome) -> TimelineEntry {
    static REQUEST: LazyLock<TimelineEntry> = LazyLock::new(|| {
        let request = json!({
            "lockId": "lock-0-1",
            "ownerId": "ann",
            "callSite": "src/main.rs:7:13",
            "requestedAt": 0,
            "outcome": "waiting",
        });
        serde_json::from_value(request).expect("it is a request")
    });
    let mut request = REQUEST.clone();
    request.lock_id = format!("lock-{number}-1").parse().expect("it is an id");
    request.requested_at = Duration::from_nanos(requested);
    request.outcome = outcome;
    request
}

/// A request for the whole lock that was released.
pub(super) fn released(
    number: u64,
    owner: &str,
    requested: u64,
    granted: u64,
    ended: u64,
) -> TimelineEntry {
    let request = request(number, requested, TimelineOutcome::Released).of(owner);
    request.granted(granted).ended(ended)
}

/// Changes an entry. Times are in nanoseconds.
pub(super) trait With {
    fn of(self, owner: &str) -> Self;
    fn labelled(self, label: &str) -> Self;
    fn granted(self, at: u64) -> Self;
    fn ended(self, at: u64) -> Self;
    fn on_nodes(self) -> Self;
}

impl With for TimelineEntry {
    fn of(mut self, owner: &str) -> Self {
        self.owner_id = owner.into();
        self
    }

    fn labelled(mut self, label: &str) -> Self {
        self.label = Some(label.into());
        self
    }

    fn granted(mut self, at: u64) -> Self {
        self.granted_at = Some(Duration::from_nanos(at));
        self
    }

    fn ended(mut self, at: u64) -> Self {
        self.ended_at = Some(Duration::from_nanos(at));
        self
    }

    fn on_nodes(mut self) -> Self {
        self.nodes = true;
        self
    }
}

/// Times in nanoseconds.
pub(super) fn timeline(read_at: u64, entries: impl Into<Vec<TimelineEntry>>) -> Timeline {
    let timeline = json!({
        // 2026-11-25 08:23:04 UTC.
        "beganAt": 1_795_594_984_000_u64,
        "readAt": 0,
        "forgotten": 0,
        "entries": [],
    });
    let mut timeline: Timeline = serde_json::from_value(timeline).expect("it is a timeline");
    timeline.read_at = Duration::from_nanos(read_at);
    timeline.entries = entries.into();
    timeline
}

/// Owners whose names end a string, a script or a comment, or change the direction of text.
pub(super) const HOSTILE: [&str; 6] = [
    "\"};alert(1)//\\",
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "\u{0}\u{1f}\n\u{2028}",
    "\u{202e}nna\u{2066}",
    "<img src=x onerror=alert(1)>&amp;",
];

pub(super) fn hostile() -> Timeline {
    let entries = HOSTILE.iter().enumerate().map(|(index, name)| {
        let at = index as u64 * 10;
        let next = at + 10;
        let request = request(at + 1, at.saturating_sub(5), TimelineOutcome::Released).of(name);
        request.labelled(name).granted(at).ended(next)
    });
    timeline(100, entries.collect::<Vec<_>>())
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
    file: &'static str,
    line: u32,
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
        file,
        line,
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
        let mut entry = request(number, at, TimelineOutcome::Released).of(client.owner);
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
            entry.outcome = outcome;
            let entry = entry.ended(at + patience);
            match outcome {
                TimelineOutcome::Deadlock => entry.on_nodes(),
                _ => entry,
            }
        } else {
            let hold = dice.skewed(client.hold).min(HOLD_LIMIT);
            free_at = granted + hold;
            entry.outcome = match hold {
                HOLD_LIMIT => TimelineOutcome::Revoked,
                _ => TimelineOutcome::Released,
            };
            entry.granted(granted).ended(free_at)
        };
        entry.label = client.label.map(Into::into);
        entry.call_site.file = client.file.into();
        entry.call_site.line = client.line;
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
