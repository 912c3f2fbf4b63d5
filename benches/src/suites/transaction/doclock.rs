//! doclock, in its two forms: a transaction begun and committed by hand, and the composable one
//! that an editor executes.

use doclock::dsl::{create, delete_text_range, insert_text, text_node, transaction};
use doclock::{DataStore, Editor, NodeId, View};

use super::{Change, Edit, INSERTED, Snapshots, Subject, TEXT};
use crate::Result;

const OWNER: &str = "benchmark";

#[derive(Clone, Copy, PartialEq)]
enum Form {
    Raw,
    Dsl,
}

struct Doclock {
    store: DataStore,
    editor: Editor,
    ids: Vec<NodeId>,
    form: Form,
}

pub fn open_raw(nodes: usize) -> Result<Box<dyn Subject>> {
    open(nodes, Form::Raw)
}

pub fn open_dsl(nodes: usize) -> Result<Box<dyn Subject>> {
    open(nodes, Form::Dsl)
}

fn open(nodes: usize, form: Form) -> Result<Box<dyn Subject>> {
    let store = DataStore::new();
    let editor = Editor::new(store.clone(), OWNER);
    let creations = vec![create(text_node("inline-text", TEXT)); nodes];
    let created = transaction(&editor, creations).commit()?.operations;
    let ids = created.into_iter().flat_map(|operation| operation.created);
    let ids = ids.collect();
    Ok(Box::new(Doclock {
        store,
        editor,
        ids,
        form,
    }))
}

impl Doclock {
    fn edit_raw(&self, edit: &Edit) -> Result {
        let id = &self.ids[edit.node];
        let mut transaction = self.store.begin(self.editor.owner())?;
        match edit.change {
            Change::Insert => transaction.insert_text(id, edit.offset, INSERTED)?,
            Change::Delete => transaction.delete_text(id, edit.offset..edit.offset + 1)?,
        }
        transaction.commit()?;
        Ok(())
    }

    fn edit_dsl(&self, edit: &Edit) -> Result {
        let id = &self.ids[edit.node];
        let operation = match edit.change {
            Change::Insert => insert_text(edit.offset, INSERTED).on(id),
            Change::Delete => delete_text_range(edit.offset, edit.offset + 1).on(id),
        };
        transaction(&self.editor, [operation]).commit()?;
        Ok(())
    }
}

impl Subject for Doclock {
    fn name(&self) -> &'static str {
        match self.form {
            Form::Raw => "doclock (begin)",
            Form::Dsl => "doclock (dsl)",
        }
    }

    fn note(&self) -> &'static str {
        match self.form {
            Form::Raw => {
                "serializable in strict order of asking, atomic, snapshot readers; not durable; validated; events"
            }
            Form::Dsl => {
                "the same, from a list of operations that names what failed and maps the selection"
            }
        }
    }

    fn run(&mut self, edits: &[Edit], snapshots: Snapshots) -> Result {
        let mut _held = (snapshots != Snapshots::None).then(|| self.store.snapshot());
        for edit in edits {
            if snapshots == Snapshots::Fresh {
                _held = Some(self.store.snapshot());
            }
            match self.form {
                Form::Raw => self.edit_raw(edit)?,
                Form::Dsl => self.edit_dsl(edit)?,
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
