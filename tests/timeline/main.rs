//! What is derived from a timeline, and what is written.

mod chrome;
mod handoffs;
mod json;
mod layout;
mod synthetic;

use doclock::diagnostics::{TimelineLayout, chrome_trace};
use doclock::lock::TimelineOutcome::{
    Cancelled, Deadlock, Extended, Holding, Released, Revoked, TimedOut, Waiting,
};
use doclock::lock::{Timeline, TimelineEntry, TimelineOutcome};

use synthetic::{HOSTILE, With, hostile, released, request, simulated, timeline};
