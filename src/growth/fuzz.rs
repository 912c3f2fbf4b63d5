//! Random input against a budget of steps that grows with its size: scripts, Markdown and schemas.
//!
//! Steps inside dependencies, the Markdown parser and the pattern search, are not counted. Their
//! input is counted, byte by byte.

#[allow(
    dead_code,
    reason = "the tests of scripts that were spoilt need the rest"
)]
#[path = "../../tests/common/dice.rs"]
mod common;
#[allow(dead_code, reason = "the property tests need the rest")]
#[path = "../../tests/properties/generator/mod.rs"]
pub(super) mod generator;
mod pages;
mod schemas;
mod scripts;

use std::collections::BTreeMap;
use std::env;
use std::hash::{BuildHasher, RandomState};
use std::thread;
use std::time::{Duration, Instant};

use crate::steps::counted;
use crate::{View, document::Node};
use common::Dice;

/// The default duration; `DOCLOCK_FUZZ_SECONDS` sets another.
const SECONDS: u64 = 2;

/// The steps allowed for each unit of an input's size.
const STEPS: usize = 8;

/// The steps that do not depend on the input.
const FLOOR: usize = 2_000;

/// A debug build uses smaller inputs, and more of them.
const SCALE: usize = if cfg!(debug_assertions) { 1 } else { 8 };

/// The largest shares of the budget, and the inputs that took them.
#[derive(Default)]
struct Shares {
    seed: u64,
    largest: BTreeMap<String, (usize, u64)>,
    inputs: usize,
}

impl Shares {
    /// Runs `work` on an input of this size, and checks its number of steps. The size of the output
    /// counts as well.
    fn within_budget<R>(
        &mut self,
        what: &str,
        size: usize,
        work: impl FnOnce() -> R,
        weight: impl FnOnce(&R) -> usize,
    ) -> R {
        let (result, steps) = counted(work);
        let size = size + weight(&result);
        self.check(what, size, steps, FLOOR + STEPS * size);
        result
    }

    fn check(&mut self, what: &str, size: usize, steps: usize, budget: usize) {
        let percent = steps * 100 / budget;
        let largest = self.largest.entry(what.to_owned()).or_default();
        *largest = (*largest).max((percent, self.seed));
        assert!(
            steps <= budget,
            "{what} of size {size} took {steps} steps, of {budget} allowed"
        );
    }
}

/// The size of a document: its nodes, characters, marks and attributes.
fn weight(view: &impl View) -> usize {
    view.nodes().map(weight_of).sum()
}

fn weight_of(node: &Node) -> usize {
    let attributes = node.attributes().iter();
    let attributes = attributes.map(|(key, value)| key.len() + value.to_string().len());
    // A join of two nodes looks up their ids, siblings and parent: some 25 steps.
    4 + node.text().len() + 4 * node.marks().iter().count() + attributes.sum::<usize>()
}

/// A number up to `most`, with all orders of magnitude equally likely.
fn magnitude(dice: &mut Dice, most: usize) -> usize {
    let bits = most.ilog2() as usize;
    let top = 1 << dice.below(bits + 1);
    (top + dice.below(top)).min(most)
}

/// Prints the seed of a failing input.
struct SeedOfFailure(u64);

impl Drop for SeedOfFailure {
    fn drop(&mut self) {
        if thread::panicking() {
            println!("SEED={}", self.0);
        }
    }
}

/// `SEED` sets the first of the seeds, one for each round.
#[test]
fn no_input_takes_more_steps_than_its_size_allows() {
    let given = |name| env::var(name).ok().and_then(|value| value.parse().ok());
    let first: u64 = given("SEED").unwrap_or_else(|| RandomState::new().hash_one(0));
    let length = Duration::from_secs(given("DOCLOCK_FUZZ_SECONDS").unwrap_or(SECONDS));
    let mut shares = Shares::default();
    let start = Instant::now();
    for round in 0.. {
        if start.elapsed() >= length {
            break;
        }
        shares.seed = first.wrapping_add(round);
        let mut dice = Dice(shares.seed);
        let printed = SeedOfFailure(shares.seed);
        match dice.below(3) {
            0 => scripts::run(&mut dice, &mut shares),
            1 => pages::run(&mut dice, &mut shares),
            _ => schemas::run(&mut dice, &mut shares),
        }
        drop(printed);
        shares.inputs += 1;
    }
    println!("{} inputs, the first with SEED={first}", shares.inputs);
    for (what, (percent, seed)) in &shares.largest {
        println!("{what}: {percent} % of its budget at most, with SEED={seed}");
    }
}
