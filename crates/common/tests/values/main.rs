//! Ids, names in error texts, hashes, distributions, and panics that are caught.

mod brief;
mod caught;
mod hashing;
mod ids;
mod node_ids;
mod samples;
