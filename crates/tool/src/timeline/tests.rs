//! The page, of timelines that are written by hand, simulated, or nonsense.

mod durations;
mod pairs;
mod report;
// What the tests of the layout read, too.
#[path = "../../../../tests/timeline/synthetic.rs"]
mod synthetic;

use doclock::diagnostics::TimelineLayout;
use doclock::lock::TimelineOutcome::{
    Cancelled, Deadlock, Extended, Holding, Released, Revoked, TimedOut, Waiting,
};
use doclock::lock::{Timeline, TimelineEntry, TimelineOutcome};

use synthetic::{Dice, HOSTILE, With, hostile, released, request, simulated, timeline};
