//! What is derived from a timeline, and what is written.

mod chrome;
mod handoffs;
mod json;
mod layout;
mod synthetic;

use doclock_locks::TimelineOutcome::{
    Cancelled, Deadlock, Extended, Holding, Released, Revoked, TimedOut, Waiting,
};
use doclock_locks::{Timeline, TimelineEntry, TimelineOutcome};

use synthetic::{HOSTILE, With, hostile, released, request, simulated, timeline};
