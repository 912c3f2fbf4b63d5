//! Ids that collide where node ids are hashed by foldhash with its fixed seed.

use std::collections::HashSet;
use std::hash::BuildHasher;
use std::time::Instant;

use doclock::dsl::{create, insert_text, text_node};
use doclock::{DataStore, TransactionManager, document::NodeSpec, transaction::Operation};
use foldhash::fast::FixedState;

use super::ladder::Sample;
use crate::Result;

const KEYSTROKES: usize = 101;

/// 39 bytes. The word from byte 8 is the state with which foldhash combines it, so half of the hash
/// is zero for any value of the other factor: the last seven bytes.
const PREFIX: &str = "growing-\u{c}gWǎr]q of colliding id";

fn colliding(count: usize) -> Result<Vec<String>> {
    let ids: Vec<_> = (0..count).map(|nth| format!("{PREFIX}{nth:07}")).collect();
    let hash = |id: &String| FixedState::default().hash_one(id);
    let hashes: HashSet<_> = ids.iter().map(hash).collect();
    match hashes.len() {
        0 | 1 => Ok(ids),
        hashes => Err(format!("the ids have {hashes} hashes on this machine").into()),
    }
}

fn creations(ids: &[String]) -> Vec<Operation> {
    let node = |id: &String| create(NodeSpec::new("x").with_id(id.as_str()));
    ids.iter().map(node).collect()
}

pub fn batch(count: usize) -> Result<Sample> {
    let operations = creations(&colliding(count)?);
    let manager = TransactionManager::new(DataStore::new());
    Ok(Sample::timed(|| manager.execute(operations)))
}

pub fn keystroke(count: usize) -> Result<Sample> {
    let ids = colliding(count + 1)?;
    let (text, others) = ids.split_first().ok_or("no ids")?;
    let manager = TransactionManager::new(DataStore::new());
    manager.execute(creations(others))?;
    manager.execute([create(text_node("text", "").with_id(text.as_str()))])?;
    let keystroke = |_| {
        let start = Instant::now();
        manager.execute([insert_text(0, "x").on(text.as_str())])?;
        Ok(start.elapsed().as_nanos() as f64)
    };
    let times: Result<_> = (0..KEYSTROKES).map(keystroke).collect();
    Sample::quantile(times?, 0.5)
}
