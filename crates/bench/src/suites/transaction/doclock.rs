//! doclock, in its two forms: a transaction begun and committed by hand, and a batch that an editor
//! executes.

use doclock::dsl::{create, delete_text_range, insert_text, text_node, transaction};
use doclock::{DataStore, Editor, NodeId, OwnerId, TransactionManager, View};

use super::{Change, Edit, INSERTED, Snapshots, Subject, TEXT};
use crate::Result;

const OWNER: &str = "benchmark";

struct Doclock {
    store: DataStore,
    owner: OwnerId,
    /// Only if needed: an editor observes the commits of others.
    editor: Option<Editor>,
    ids: Vec<NodeId>,
}

pub fn open_raw(nodes: usize) -> Result<Box<dyn Subject>> {
    open(nodes, false)
}

pub fn open_dsl(nodes: usize) -> Result<Box<dyn Subject>> {
    open(nodes, true)
}

fn open(nodes: usize, dsl: bool) -> Result<Box<dyn Subject>> {
    let store = DataStore::new();
    let creations = vec![create(text_node("inline-text", TEXT)); nodes];
    let manager = TransactionManager::for_owner(store.clone(), OWNER);
    let created = manager.execute(creations)?.operations;
    let ids = created
        .iter()
        .flat_map(|operation| operation.created.clone());
    let ids = ids.collect();
    Ok(Box::new(Doclock {
        owner: OwnerId::from(OWNER),
        editor: dsl.then(|| Editor::new(store.clone(), OWNER)),
        store,
        ids,
    }))
}

impl Doclock {
    fn edit_raw(&self, edit: &Edit) -> Result {
        let id = &self.ids[edit.node];
        let mut transaction = self.store.begin(&self.owner)?;
        match edit.change {
            Change::Insert => transaction.insert_text(id, edit.offset, INSERTED)?,
            Change::Delete => transaction.delete_text(id, edit.offset..edit.offset + 1)?,
        }
        transaction.commit()?;
        Ok(())
    }

    fn edit_dsl(&self, editor: &Editor, edit: &Edit) -> Result {
        let id = &self.ids[edit.node];
        let operation = match edit.change {
            Change::Insert => insert_text(edit.offset, INSERTED).on(id),
            Change::Delete => delete_text_range(edit.offset, edit.offset + 1).on(id),
        };
        transaction(editor, [operation]).commit()?;
        Ok(())
    }
}

impl Subject for Doclock {
    fn name(&self) -> &'static str {
        match self.editor {
            None => "doclock (begin)",
            Some(_) => "doclock (dsl)",
        }
    }

    fn note(&self) -> &'static str {
        match self.editor {
            None => {
                "serializable in strict order of asking, atomic, snapshot readers; not durable; validated; events"
            }
            Some(_) => {
                "the same, from a list of operations that names what failed, by an editor who can undo it"
            }
        }
    }

    fn run(&mut self, edits: &[Edit], snapshots: Snapshots) -> Result {
        let mut _held = (snapshots != Snapshots::None).then(|| self.store.snapshot());
        for edit in edits {
            if snapshots == Snapshots::Fresh {
                _held = Some(self.store.snapshot());
            }
            match &self.editor {
                None => self.edit_raw(edit)?,
                Some(editor) => self.edit_dsl(editor, edit)?,
            }
        }
        Ok(())
    }

    fn text(&self, node: usize) -> Result<String> {
        let snapshot = self.store.snapshot();
        let node = snapshot.node(&self.ids[node]).ok_or("no such node")?;
        Ok(node.text().to_string())
    }
}
