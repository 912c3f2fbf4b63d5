//! Regular expressions that are expensive to compile or to search, or that have a large output.

use doclock::dsl::{create, replace_pattern, text_node};
use doclock::{DataStore, TransactionManager};

use super::ladder::Sample;
use crate::Result;

/// A compiled character class takes many kilobytes.
pub const REPETITIONS: &[usize] = &[1, 3, 10, 30, 100, 300, 1_000];

/// Replaces a pattern in a text, from the pattern's source to the result.
fn replaced(text: &str, pattern: &str, replacement: String) -> Result<Sample> {
    let manager = TransactionManager::new(DataStore::new());
    manager.execute([create(text_node("text", text).with_id("text"))])?;
    Ok(Sample::timed(|| {
        manager.execute([replace_pattern(pattern, replacement).on("text")])
    }))
}

pub fn size(repetitions: usize) -> Result<Sample> {
    replaced("a", &format!(r"\w{{{repetitions}}}"), String::new())
}

/// The search for a missing `c` reads the whole text for each match.
pub fn search(characters: usize) -> Result<Sample> {
    replaced(&"ab".repeat(characters / 2), "a(?:[ab]*c)?", "x".into())
}

pub fn output(characters: usize) -> Result<Sample> {
    replaced(&"a".repeat(characters), ".*", "$0".repeat(characters))
}
