//! The models of the keyed lock and of the limiter. Those of the document lock are in the
//! `loom-tests` of doclock, whose first page says how models are explored.

#![cfg(loom)]

mod keyed;
mod keyed_joins;
mod limiter;
#[path = "../../../loom-tests/model.rs"]
mod model;
