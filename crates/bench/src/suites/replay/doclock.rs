//! The complete doclock: every recorded transaction goes through the DSL, which validates it, keeps
//! each change with its inverse, maps the selection and publishes a version.

use doclock::dsl::{create, delete_text_range, insert_text, replace_text, text_node, transaction};
use doclock::{DataStore, Editor, NodeId, View, history::HistoryOptions, transaction::Operation};

use super::trace::Patch;
use super::{Subject, Trace};
use crate::Result;

pub struct Doclock {
    store: DataStore,
    editor: Editor,
    text: NodeId,
    /// Whether edits can be undone.
    history: bool,
}

impl Doclock {
    pub fn open(history: bool) -> Result<Self> {
        let store = DataStore::new();
        let editor = Editor::new(store.clone(), "benchmark");
        let editor = match history {
            true => editor,
            false => editor.with_history(HistoryOptions::new().limit(0)),
        };
        let text = NodeId::from("text");
        let node = text_node("inline-text", "").with_id(&text);
        transaction(&editor, [create(node)]).commit()?;
        Ok(Self {
            store,
            editor,
            text,
            history,
        })
    }

    fn operation(&self, patch: &Patch) -> Operation {
        let (start, end) = (patch.at, patch.at + patch.deleted);
        let inserted = patch.inserted.as_str();
        let operation = match (patch.deleted, inserted) {
            (0, _) => insert_text(start, inserted),
            (_, "") => delete_text_range(start, end),
            _ => replace_text(start, end, inserted),
        };
        operation.on(&self.text)
    }
}

impl Subject for Doclock {
    fn name(&self) -> &'static str {
        match self.history {
            true => "doclock with history",
            false => "doclock (dsl)",
        }
    }

    fn note(&self) -> &'static str {
        match self.history {
            true => {
                "the same, and each keystroke can be undone: the last 100 entries, typing without a pause being one"
            }
            false => {
                "a version per commit; atomic, validated, exact inverses; one replica, so nothing to merge with"
            }
        }
    }

    fn reset(&mut self) -> Result {
        *self = Self::open(self.history)?;
        Ok(())
    }

    fn replay(&mut self, trace: &Trace) -> Result {
        for patches in &trace.transactions {
            let operations: Vec<_> = patches.iter().map(|patch| self.operation(patch)).collect();
            transaction(&self.editor, operations).commit()?;
        }
        Ok(())
    }

    fn text(&self) -> Result<String> {
        let snapshot = self.store.snapshot();
        let node = snapshot.node(&self.text).ok_or("the text is gone")?;
        Ok(node.text().to_string())
    }
}
