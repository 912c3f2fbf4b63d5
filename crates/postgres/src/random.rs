//! Random numbers.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

/// A number that no other call has, in any process.
pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
