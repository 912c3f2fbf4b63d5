//! What is derived from a timeline, and what is written.

mod chrome;
mod durations;
mod handoffs;
mod layout;
mod pairs;
mod report;

use super::TimelineOutcome::{
    Cancelled, Deadlock, Extended, Holding, Released, Revoked, TimedOut, Waiting,
};
use super::synthetic::{Dice, request, simulated, timeline};
use super::{Timeline, TimelineEntry};

/// A request for the whole lock that was released.
fn released(number: u64, owner: &str, requested: u64, granted: u64, ended: u64) -> TimelineEntry {
    let request = request(number, requested, Released).of(owner);
    request.granted(granted).ended(ended)
}

/// Owners whose names end a string, a script or a comment, or change the direction of text.
const HOSTILE: [&str; 6] = [
    "\"};alert(1)//\\",
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "\u{0}\u{1f}\n\u{2028}",
    "\u{202e}nna\u{2066}",
    "<img src=x onerror=alert(1)>&amp;",
];

fn hostile() -> Timeline {
    let entries = HOSTILE.iter().enumerate().map(|(index, name)| {
        let at = index as u64 * 10;
        let next = at + 10;
        let request = request(at + 1, at.saturating_sub(5), Released).of(name);
        request.labelled(name).granted(at).ended(next)
    });
    timeline(100, entries.collect::<Vec<_>>())
}
