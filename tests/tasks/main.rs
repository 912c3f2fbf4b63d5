//! Waiting in tasks: one queue with threads, cancel safety, tasks that are not polled, executors.

#![cfg(not(loom))]

mod cancellations;
mod common;
#[cfg(feature = "redb")]
mod durable;
mod executors;
mod futurelock;
#[path = "../common/gated.rs"]
mod gated;
mod keeper;
mod other_locks;
mod store;
mod waits;
mod wakers;
