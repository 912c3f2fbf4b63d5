//! Ids, names in error texts, hashes, and panics that are caught.

mod brief;
mod caught;
mod hashing;
mod ids;
mod node_ids;
