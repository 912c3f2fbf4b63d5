//! What `tracing` and `metrics` see of transactions.

mod outcomes;
mod panics;
mod published;
mod recorder;
mod reports;
mod spans;
mod subscriber;
mod watched;
