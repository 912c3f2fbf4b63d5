//! The suite `cluster` in a build without its feature.

use crate::Result;
use crate::options::Cluster;
use crate::report::Report;

pub const OWNER: &str = "cluster-owner";

const MISSING: &str = "this build has no suite cluster: build it with --features cluster";

pub const fn is_possible() -> bool {
    false
}

pub fn run(_: usize, _: &Cluster, _: &Report) -> Result {
    Err(MISSING.into())
}

pub fn owner(_: &[String]) -> Result {
    Err(MISSING.into())
}
