//! Whether concurrent transactions are serializable, judged by their reads: Elle for append-only
//! lists.
//!
//! [`driver`] runs random transactions through a closure, [`lists`] stores their lists, and
//! [`checker`] checks their reads. To check another way of running a transaction, write it as in
//! [`global`] and pass it to [`assert_serializable`](lists::assert_serializable).

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
