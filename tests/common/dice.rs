//! Pseudo-random numbers from a seed, and random changes of JSON.

use std::hash::{BuildHasher, RandomState};

use serde_json::{Value, json};

/// The seed of a random test, which it prints: that of `SEED`, or another one each time.
///
/// It has 32 bits, so a script has it exactly, too.
pub(crate) fn seed() -> u64 {
    let given = std::env::var("SEED").ok();
    let given = given.and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(|| RandomState::new().hash_one(0) >> 32);
    println!("SEED={seed}");
    seed
}

/// Pseudo-random numbers from a seed (SplitMix64).
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    pub(crate) fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }
}

/// Changes one random part of a JSON value.
pub(crate) fn spoil(value: &mut Value, dice: &mut Dice) {
    match value {
        Value::Array(items) if !items.is_empty() && !dice.one_in(8) => {
            let at = dice.below(items.len());
            match dice.below(8) {
                0 => drop(items.remove(at)),
                1 => items.push(items[at].clone()),
                2 => items.swap(0, at),
                _ => spoil(&mut items[at], dice),
            }
        }
        Value::Object(fields) if !fields.is_empty() && !dice.one_in(8) => {
            let key = fields.keys().nth(dice.below(fields.len())).cloned();
            let key = key.unwrap_or_default();
            if dice.one_in(8) {
                fields.remove(&key);
            } else {
                spoil(&mut fields[&key], dice);
            }
        }
        _ => {
            let all = [
                json!(null),
                json!(0),
                json!(1),
                json!(usize::MAX),
                json!(-1.5),
                json!(true),
                json!(""),
                json!("a"),
                json!("b"),
                json!([]),
                json!({}),
            ];
            *value = all[dice.below(all.len())].clone();
        }
    }
}
