//! The models that loom explores: `RUSTFLAGS="--cfg loom" cargo test --release --test loom`.
//!
//! Each prints its name, its preemption bound, how many executions it took, whether it ran to the
//! end, and how often it reached each of its outcomes. A model that did not run to the end is
//! reported as `capped` and fails. Then it is explored without each of its actors, which must cost
//! it outcomes (`model.rs`). Without `--cfg loom` there is nothing here to run.
//!
//! Under loom time stands still and no wait times out, so an expiry is a thread that calls `expire`
//! or `expire_hold`, which is the code that a waiter runs when its deadline comes. Where the way
//! there matters, the model moves a manual clock. Every hold is measured, unless the model has the
//! lock believe that it is in a `hurry`.

#![cfg(loom)]

mod delegation;
mod editor;
mod inbox;
mod keyed;
mod keyed_joins;
mod leases;
mod limiter;
mod lock;
mod model;
mod node_commits;
mod node_deadlocks;
mod node_locks;
mod priorities;
mod revocation;
mod site;
mod stale;
mod store;
mod word;
