//! Inputs of dimensions with a cost in both time and bytes.

use doclock::dsl::{create, insert_text, text_node, transaction};
use doclock::{
    DataStore, Draft, Editor, Savepoint,
    document::{Mark, NodeSpec},
};

use crate::Result;

/// A text with marks that do not touch.
pub struct Marked {
    editor: Editor,
    gap: usize,
}

impl Marked {
    pub fn new(marks: usize) -> Result<Self> {
        const PIECE: &str = "ab  ";
        let start = |nth: usize| nth * PIECE.len();
        let mark = |nth| Mark::new("bold", start(nth)..start(nth) + 2);
        let text = text_node("text", PIECE.repeat(marks)).with_id("text");
        let editor = Editor::new(DataStore::new(), "growth");
        let text = text.with_marks((0..marks).map(mark));
        transaction(&editor, [create(text)]).commit()?;
        let gap = start(marks / 2) + 3;
        Ok(Self { editor, gap })
    }

    /// Types a character in the gap between two marks, after the characters typed before.
    pub fn keystroke(&self, before: usize) -> Result {
        let typed = insert_text(self.gap + before, "x").on("text");
        transaction(&self.editor, [typed]).commit()?;
        Ok(())
    }
}

/// Sets so many savepoints, with a new node before each.
pub fn savepoints(transaction: &mut Draft, count: usize) -> Result<Vec<Savepoint>> {
    let savepoint = |_| {
        transaction.create(NodeSpec::new("x"))?;
        Ok(transaction.savepoint())
    };
    (0..count).map(savepoint).collect()
}
