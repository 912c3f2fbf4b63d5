//! concread's B+ tree: a copy-on-write map with one writer and snapshot readers, the simplest
//! structure with the isolation of doclock.
//!
//! Texts are shared strings, because a copy of a changed leaf copies its neighbours' values too.
//! This is faster than owned strings, and than concread's hash map.

use std::sync::Arc;

use concread::bptree::BptreeMap;

use super::{Edit, INSERTED, Snapshots, Subject, TEXT};
use crate::Result;

struct Concread(BptreeMap<u64, Arc<str>>);

pub fn open(nodes: usize) -> Result<Box<dyn Subject>> {
    let texts = (0..nodes).map(|node| (node as u64, Arc::from(TEXT)));
    Ok(Box::new(Concread(texts.collect())))
}

impl Subject for Concread {
    fn name(&self) -> &'static str {
        "concread bptree"
    }

    fn note(&self) -> &'static str {
        "serializable, atomic, snapshot readers; not durable; no validation; no events"
    }

    fn run(&mut self, edits: &[Edit], snapshots: Snapshots) -> Result {
        let map = &self.0;
        let mut _held = (snapshots != Snapshots::None).then(|| map.read());
        for edit in edits {
            if snapshots == Snapshots::Fresh {
                _held = Some(map.read());
            }
            let mut transaction = map.write();
            let text = transaction
                .get_mut(&(edit.node as u64))
                .ok_or("no such node")?;
            let mut changed = String::with_capacity(text.len() + INSERTED.len());
            changed.push_str(text);
            edit.apply(&mut changed);
            *text = changed.into();
            transaction.commit();
        }
        Ok(())
    }

    fn text(&self, node: usize) -> Result<String> {
        let snapshot = self.0.read();
        let text = snapshot.get(&(node as u64)).ok_or("no such node")?;
        Ok(text.to_string())
    }
}
