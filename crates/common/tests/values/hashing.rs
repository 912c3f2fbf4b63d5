//! Hashes depend on a secret, and spread ids.

use std::collections::HashSet;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use doclock_common::hashing::Secret;
use doclock_common::id::NodeId;

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
