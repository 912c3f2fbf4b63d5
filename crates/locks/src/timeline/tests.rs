//! What is derived from a timeline, and what is written.

mod chrome;
mod handoffs;
mod json;
mod layout;

use super::TimelineOutcome::{
    Cancelled, Deadlock, Extended, Holding, Released, Revoked, TimedOut, Waiting,
};
use super::synthetic::{HOSTILE, With, hostile, released, request, simulated, timeline};
use super::{Timeline, TimelineEntry, TimelineOutcome};
