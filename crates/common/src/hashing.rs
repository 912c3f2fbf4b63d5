//! Hashing of ids and other values of users.
//!
//! A client that can predict the hashes of a table can choose values that all collide, which makes
//! each access linear. So every hash depends on a secret of the process.

use std::hash::BuildHasher;
#[cfg(not(loom))]
use std::hash::RandomState;
use std::sync::LazyLock;

use ahash::AHasher;

static KEYS: LazyLock<ahash::RandomState> = LazyLock::new(|| {
    // aHash takes its keys from the operating system only with a further dependency.
    #[cfg(not(loom))]
    let key = {
        let random = RandomState::new();
        move |nth: u64| random.hash_one(nth)
    };
    // In a model, each execution has the same hashes.
    #[cfg(loom)]
    let key = |nth: u64| nth;
    ahash::RandomState::with_seeds(key(0), key(1), key(2), key(3))
});

/// Hashes with the secret of the process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Secret;

impl BuildHasher for Secret {
    type Hasher = AHasher;

    #[inline]
    fn build_hasher(&self) -> AHasher {
        KEYS.build_hasher()
    }
}
