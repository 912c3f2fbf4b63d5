//! Hashing of ids and other values of users.
//!
//! A client that can predict the hashes of a table can choose values that all collide, which makes
//! each access linear. So every hash depends on a secret of the process.
//!
//! - **Texts** are hashed with SipHash-1-3, which resists such a choice.
//! - **Numbers**, of which generated ids consist, are multiplied by secret factors of 128 bits and
//!   summed. The hash is the upper 64 bits. Two values chosen without the secret collide with a
//!   probability of 2⁻⁶⁴ (multiply-shift for vectors: M. Dietzfelbinger, "Universal hashing
//!   and k-wise independent random variables via integer arithmetic without primes", STACS
//!   1996). The finalizer of MurmurHash3, a bijection, then makes each bit depend on all others,
//!   so consecutive numbers do not get consecutive positions.

use std::hash::{BuildHasher, DefaultHasher, Hasher};

/// How many numbers of a value have factors. Further numbers are hashed as text.
const FACTORS: usize = 4;

/// The secret.
struct Keys {
    offset: u128,
    factors: [u128; FACTORS],
    #[cfg(not(loom))]
    text: std::hash::RandomState,
}

impl Keys {
    #[cfg(not(loom))]
    #[inline]
    fn get() -> &'static Self {
        use std::hash::RandomState;
        use std::sync::LazyLock;

        static KEYS: LazyLock<Keys> = LazyLock::new(|| {
            let text = RandomState::new();
            let half = |nth: usize| u128::from(text.hash_one(("factor", nth)));
            let random = |nth: usize| half(2 * nth) << 64 | half(2 * nth + 1);
            Keys {
                offset: random(0),
                factors: std::array::from_fn(|nth| random(nth + 1)),
                text,
            }
        });
        &KEYS
    }

    #[cfg(not(loom))]
    fn text(&self) -> DefaultHasher {
        self.text.build_hasher()
    }

    /// In a model, each execution has the same hashes.
    #[cfg(loom)]
    fn get() -> &'static Self {
        const FACTOR: u128 = 0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835;
        static KEYS: Keys = Keys {
            offset: FACTOR,
            factors: [FACTOR, FACTOR << 1 | 1, FACTOR << 2 | 1, FACTOR << 3 | 1],
        };
        &KEYS
    }

    #[cfg(loom)]
    fn text(&self) -> DefaultHasher {
        DefaultHasher::new()
    }
}

/// Hashes with the secret of the process.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Secret;

impl BuildHasher for Secret {
    type Hasher = SecretHasher;

    #[inline]
    fn build_hasher(&self) -> SecretHasher {
        let keys = Keys::get();
        SecretHasher {
            keys,
            sum: keys.offset,
            numbers: 0,
            text: None,
        }
    }
}

pub(crate) struct SecretHasher {
    keys: &'static Keys,
    sum: u128,
    /// How many numbers are in the sum.
    numbers: usize,
    /// Used from the first text on, and for numbers without a factor.
    text: Option<DefaultHasher>,
}

impl SecretHasher {
    #[inline]
    fn number(&mut self, number: u64) {
        match (self.keys.factors.get(self.numbers), &mut self.text) {
            (Some(factor), None) => {
                let product = factor.wrapping_mul(u128::from(number));
                self.sum = self.sum.wrapping_add(product);
                self.numbers += 1;
            }
            _ => self.text().write_u64(number),
        }
    }

    fn text(&mut self) -> &mut DefaultHasher {
        self.text.get_or_insert_with(|| self.keys.text())
    }
}

impl Hasher for SecretHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.text().write(bytes);
    }

    #[inline]
    fn write_u8(&mut self, number: u8) {
        self.number(number.into());
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.number(number.into());
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        self.number(number);
    }

    #[inline]
    fn write_usize(&mut self, number: usize) {
        self.number(number as u64);
    }

    #[inline]
    fn write_isize(&mut self, number: isize) {
        self.number(number as u64);
    }

    #[inline]
    fn finish(&self) -> u64 {
        let mut hash = (self.sum >> 64) as u64;
        hash = (hash ^ hash >> 33).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
        hash = (hash ^ hash >> 33).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
        hash ^= hash >> 33;
        self.text.as_ref().map_or(hash, |text| hash ^ text.finish())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::NodeId;

    /// With fixed seeds, a client could choose ids that collide in every process: 30,000 of them
    /// held the lock for 17 seconds.
    #[test]
    fn hashes_depend_on_a_secret() {
        let known = std::hash::BuildHasherDefault::<DefaultHasher>::default();
        assert_ne!(
            Secret.hash_one("introduction"),
            known.hash_one("introduction")
        );
        assert_eq!(
            Secret.hash_one("introduction"),
            Secret.hash_one("introduction")
        );
        let keys = Keys::get();
        let distinct: HashSet<u128> = keys.factors.into_iter().chain([keys.offset, 0]).collect();
        assert_eq!(distinct.len(), FACTORS + 2);
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

    /// Numbers beyond those with factors, and numbers after a text, count as well.
    #[test]
    fn every_part_of_a_value_counts() {
        let numbers = [1u64, 2, 3, 4, 5, 6];
        let with = |at: usize| {
            let mut other = numbers;
            other[at] = 9;
            Secret.hash_one(other.map(Some))
        };
        let hashes: HashSet<u64> = (0..6)
            .map(with)
            .chain([Secret.hash_one(numbers.map(Some))])
            .collect();
        assert_eq!(hashes.len(), 7);
        assert_ne!(Secret.hash_one(("a", 1u64)), Secret.hash_one(("a", 2u64)));
        assert_ne!(Secret.hash_one((1u64, "a")), Secret.hash_one((2u64, "a")));
    }
}
