//! Ids, names in error texts, and hashes.

mod brief;
mod hashing;
mod ids;
mod node_ids;
