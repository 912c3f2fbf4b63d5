//! How ids and other values of users are hashed.
//!
//! Whoever knows the hash of a table can choose values that all collide in it, and each use of such a table takes time in proportion
//! to their number. So the hash is SipHash-1-3, which is made to resist that, with a secret of this process. Tables of numbers that
//! only the crate gives may use a faster hash.

use std::hash::{BuildHasher, DefaultHasher};

/// Hashes with the secret of the process.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Secret;

impl BuildHasher for Secret {
    type Hasher = DefaultHasher;

    #[cfg(not(loom))]
    #[inline]
    fn build_hasher(&self) -> DefaultHasher {
        use std::hash::RandomState;
        use std::sync::LazyLock;

        static SECRET: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        SECRET.build_hasher()
    }

    /// In a model each execution has the same hashes.
    #[cfg(loom)]
    fn build_hasher(&self) -> DefaultHasher {
        DefaultHasher::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// With fixed seeds, ids that collide in every process could be chosen: 30,000 of them held the lock for 17 seconds.
    #[test]
    fn hashes_are_those_of_a_secret() {
        let known = std::hash::BuildHasherDefault::<DefaultHasher>::default();
        assert_ne!(
            Secret.hash_one("introduction"),
            known.hash_one("introduction")
        );
        assert_eq!(
            Secret.hash_one("introduction"),
            Secret.hash_one("introduction")
        );
    }
}
