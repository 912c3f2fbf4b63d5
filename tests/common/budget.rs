//! Tests of cost: the steps of a call grow with the size of its input, chosen or random.
//!
//! Steps inside dependencies are not counted. Their input is counted, byte by byte.

use std::collections::BTreeMap;
use std::env;
use std::hash::{BuildHasher, RandomState};
use std::thread;
use std::time::{Duration, Instant};

use doclock::{View, document::Node};

use super::common::Dice;
use crate::steps::counted;

/// The smaller size of an input.
pub(crate) const SIZE: usize = 1_000;

/// The allowed factor of steps for ten times the input. A logarithm fits; quadratic cost is a
/// hundred.
const MOST: usize = 20;

/// Checks the cost of `work`, which builds its input and returns the call to be measured.
pub(crate) fn grows_evenly<W: FnOnce()>(what: &str, work: impl Fn(usize) -> W) {
    grows_evenly_from(SIZE, what, work);
}

pub(crate) fn grows_evenly_from<W: FnOnce()>(size: usize, what: &str, work: impl Fn(usize) -> W) {
    let [small, large] = [size, 10 * size].map(|size| counted(work(size)).1);
    println!("{what}: {small} steps, {large} for ten times the input");
    assert!(
        small >= size / 2,
        "{what}: {small} steps are not all of them"
    );
    assert!(large <= MOST * small, "{what}: {small} steps, then {large}");
}

// --- Random input ---

/// The default duration; `DOCLOCK_FUZZ_SECONDS` sets another.
const SECONDS: u64 = 2;

/// The steps allowed for each unit of an input's size.
pub(crate) const STEPS: usize = 8;

/// The steps that do not depend on the input.
pub(crate) const FLOOR: usize = 2_000;

/// A debug build uses smaller inputs, and more of them.
pub(crate) const SCALE: usize = if cfg!(debug_assertions) { 1 } else { 8 };

/// The largest shares of the budget, and the inputs that took them.
#[derive(Default)]
pub(crate) struct Shares {
    seed: u64,
    largest: BTreeMap<String, (usize, u64)>,
    inputs: usize,
}

impl Shares {
    /// Runs `work` on an input of this size, and checks its number of steps. The size of the output
    /// counts as well.
    pub(crate) fn within_budget<R>(
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

    pub(crate) fn check(&mut self, what: &str, size: usize, steps: usize, budget: usize) {
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
pub(crate) fn weight(view: &impl View) -> usize {
    view.nodes().map(weight_of).sum()
}

fn weight_of(node: &Node) -> usize {
    let attributes = node.attributes().iter();
    let attributes = attributes.map(|(key, value)| key.len() + value.to_string().len());
    // A join of two nodes looks up their ids, siblings and parent: some 25 steps.
    4 + node.text().len() + 4 * node.marks().iter().count() + attributes.sum::<usize>()
}

/// A number up to `most`, with all orders of magnitude equally likely.
pub(crate) fn magnitude(dice: &mut Dice, most: usize) -> usize {
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

/// Draws inputs of these kinds for a while. `SEED` sets the first of the seeds, one for each round.
pub(crate) fn draw(kinds: &[fn(&mut Dice, &mut Shares)]) {
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
        kinds[dice.below(kinds.len())](&mut dice, &mut shares);
        drop(printed);
        shares.inputs += 1;
    }
    println!("{} inputs, the first with SEED={first}", shares.inputs);
    for (what, (percent, seed)) in &shares.largest {
        println!("{what}: {percent} % of its budget at most, with SEED={seed}");
    }
}
