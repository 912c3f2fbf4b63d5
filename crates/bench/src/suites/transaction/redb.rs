//! redb on its in-memory backend: a copy-on-write tree of pages.
//!
//! Commits have the weakest durability: the next reader sees them, which is also doclock's
//! guarantee. The text is changed through the entry found, which walks the tree once instead of
//! twice.

use redb::backends::InMemoryBackend;
use redb::{Database, Durability, ReadableDatabase, TableDefinition};

use super::{Edit, Snapshots, Subject, TEXT};
use crate::Result;

const NODES: TableDefinition<u64, &str> = TableDefinition::new("node");

struct Redb(Database);

pub fn open(nodes: usize) -> Result<Box<dyn Subject>> {
    let database = Database::builder().create_with_backend(InMemoryBackend::new())?;
    let transaction = database.begin_write()?;
    {
        let mut table = transaction.open_table(NODES)?;
        for node in 0..nodes {
            table.insert(node as u64, TEXT)?;
        }
    }
    transaction.commit()?;
    Ok(Box::new(Redb(database)))
}

impl Subject for Redb {
    fn name(&self) -> &'static str {
        "redb"
    }

    fn note(&self) -> &'static str {
        "serializable, atomic, snapshot readers; Durability::None in memory; no validation; no events"
    }

    fn run(&mut self, edits: &[Edit], snapshots: Snapshots) -> Result {
        let database = &self.0;
        let mut _held = match snapshots {
            Snapshots::None => None,
            Snapshots::Held | Snapshots::Fresh => Some(database.begin_read()?),
        };
        for edit in edits {
            if snapshots == Snapshots::Fresh {
                _held = Some(database.begin_read()?);
            }
            let mut transaction = database.begin_write()?;
            transaction.set_durability(Durability::None)?;
            {
                let mut table = transaction.open_table(NODES)?;
                let mut entry = table.get_mut(edit.node as u64)?.ok_or("no such node")?;
                let mut text = entry.value().to_owned();
                edit.apply(&mut text);
                entry.insert(text.as_str())?;
            }
            transaction.commit()?;
        }
        Ok(())
    }

    fn text(&self, node: usize) -> Result<String> {
        let table = self.0.begin_read()?.open_table(NODES)?;
        let text = table.get(node as u64)?.ok_or("no such node")?;
        Ok(text.value().to_owned())
    }
}
