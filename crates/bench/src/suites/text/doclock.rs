//! doclock, through its DSL.

use doclock::dsl::{create, delete_text_range, insert_text, text_node, transaction};
use doclock::{DataStore, Editor, NodeId};

use super::Subject;
use crate::Result;

pub struct Doclock {
    editor: Editor,
    text: NodeId,
    length: usize,
}

impl Default for Doclock {
    fn default() -> Self {
        Self {
            editor: Editor::new(DataStore::new(), "benchmark"),
            text: NodeId::from("text"),
            length: 0,
        }
    }
}

impl Subject for Doclock {
    fn name(&self) -> &'static str {
        "doclock (dsl)"
    }

    fn note(&self) -> &'static str {
        "long text in a rope; atomic, validated, exact inverses"
    }

    fn reset(&mut self, length: usize) -> Result {
        *self = Self {
            length,
            ..Self::default()
        };
        let node = text_node("inline-text", "x".repeat(length)).with_id(&self.text);
        transaction(&self.editor, [create(node)]).commit()?;
        Ok(())
    }

    fn run(&mut self, keystrokes: usize) -> Result {
        let middle = self.length / 2;
        for keystroke in 0..keystrokes {
            let _reader = self.editor.store().snapshot();
            let operation = if keystroke % 2 == 0 {
                insert_text(middle, "y")
            } else {
                delete_text_range(middle, middle + 1)
            };
            transaction(&self.editor, [operation.on(&self.text)]).commit()?;
        }
        Ok(())
    }
}
