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

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::HashSet;
    use std::hash::{BuildHasherDefault, DefaultHasher};

    use super::*;
    use crate::NodeId;

    /// With fixed seeds, a client could choose ids that collide in every process: 30,000 of them
    /// held the lock for 17 seconds.
    #[test]
    fn hashes_depend_on_a_secret() {
        let id = "introduction";
        let known = [
            BuildHasherDefault::<DefaultHasher>::default().hash_one(id),
            ahash::RandomState::with_seeds(0, 1, 2, 3).hash_one(id),
        ];
        assert!(!known.contains(&Secret.hash_one(id)));
        assert_eq!(Secret.hash_one(id), Secret.hash_one(id));
    }

    /// Consecutive ids, in the counter, in the session or in both, near or far, fill a table like
    /// random numbers.
    #[test]
    fn rows_of_generated_ids_are_spread() {
        const IDS: usize = 1 << 12;
        for (step, session) in [
            (1, 0),
            (32, 0),
            (1 << 20, 0),
            (1 << 40, 0),
            (0, 1),
            (1, 1),
            (3 << 52, 7),
        ] {
            let id = |nth: u64| NodeId::generated((nth * session) as u32, nth.wrapping_mul(step));
            let hashes: Vec<u64> = (0..IDS as u64)
                .map(|nth| Secret.hash_one(id(nth)))
                .collect();
            let places = |bits: fn(u64) -> u64| {
                hashes
                    .iter()
                    .map(|hash| bits(*hash))
                    .collect::<HashSet<_>>()
            };
            assert_eq!(places(|hash| hash).len(), IDS, "{step} {session}");
            // With as many positions as ids, random numbers leave 37 % empty.
            for bits in [|hash| hash % IDS as u64, |hash| hash >> 52] {
                let used = places(bits).len();
                assert!(
                    (IDS / 2..IDS * 3 / 4).contains(&used),
                    "{step} {session}: {used}"
                );
            }
        }
    }
}
