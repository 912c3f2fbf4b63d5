//! Whether transactions that run at the same time are serializable, by what they read: Elle for
//! lists that grow.
//!
//! [`driver`] runs random transactions through a closure, [`lists`] keeps their lists in a store,
//! [`checker`] judges what they saw. To check another way of running a transaction, write it as in
//! [`global`] and give it to [`assert_serializable`](lists::assert_serializable).

#[path = "../common/mod.rs"]
mod common;

mod anomaly;
mod checker;
mod cycle;
mod driver;
mod history;
mod lists;
mod model;
mod written;

mod anomalies;
mod global;
mod nodes;
mod random;
