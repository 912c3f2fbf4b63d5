//! Random input against a budget of steps that grows with its size: scripts and schemas.

#[allow(dead_code, reason = "the property tests need the rest")]
#[path = "../../properties/generator/mod.rs"]
pub(super) mod generator;
mod schemas;
mod scripts;

use super::{budget, common};

#[test]
fn no_input_takes_more_steps_than_its_size_allows() {
    budget::draw(&[scripts::run, schemas::run]);
}
