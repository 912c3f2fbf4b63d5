//! The models that loom explores: `RUSTFLAGS="--cfg loom" cargo test --release --test loom`.
//!
//! Each prints its name, its preemption bound, its number of executions, whether it ran to the end,
//! and how often it reached each of its outcomes. A model that did not run to the end is reported
//! as `capped` and fails. Then it is explored without each of its actors, and must lose outcomes
//! each time (`model.rs`). Without `--cfg loom` this test is empty.
//!
//! Under loom time stands still and no wait times out, so an expiry is a thread that calls `expire`
//! or `expire_hold`, the code that a waiter or the keeper runs then. Where the way there matters,
//! the model moves a manual clock. The first hold of a lock is measured, unless the model calls
//! `skip_measured_hold`.

#![cfg(loom)]

mod combining;
mod durable;
mod editor;
mod inbox;
mod leases;
mod lock;
mod log;
mod model;
mod node_commits;
mod node_deadlocks;
mod node_locks;
mod pool;
mod priorities;
mod revocation;
mod site;
mod stale;
mod store;
mod tasks;
mod word;
