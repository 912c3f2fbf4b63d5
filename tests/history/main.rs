//! The promises of undo and redo, by number.

#[path = "../common/mod.rs"]
mod common;

mod carets;
mod facts;
mod filled;
mod first_place;
mod follow;
mod groups;
mod lag;
mod lists;
mod meanwhile;
mod others;
mod positions;
mod random;
mod recorded;
mod refusals;
mod same_ids;
mod scope_model;
mod scope_names;
mod scopes;
mod session;
mod stacks;
mod stuck;

use doclock::{DataStore, Editor, View, dsl::*, transaction::Operation};

/// An editor of a store that has a text node `t`, which is not in the editor's history.
fn editor_of(store: &DataStore, text: &str) -> Editor {
    let mut transaction = store.begin("setup").unwrap();
    let node = text_node("inline-text", text).with_id("t");
    transaction.create(node).unwrap();
    transaction.commit().unwrap();
    Editor::new(store.clone(), "ann")
}

fn run(editor: &Editor, operation: Operation) {
    transaction(editor, operation).commit().unwrap();
}

/// Types at an offset of the text node, one letter a transaction.
fn type_in(editor: &Editor, at: usize, text: &str) {
    for (nth, letter) in text.chars().enumerate() {
        run(editor, insert_text(at + nth, letter.to_string()).on("t"));
    }
}

/// Undoes an entry that has no effect any more: the undo succeeds and changes nothing.
fn undo_without_effect(editor: &Editor) {
    let version = editor.store().version();
    let seen = || {
        let depths = (editor.undo_depth(), editor.redo_depth());
        (image(editor), editor.store().version(), depths)
    };
    let (before, _, (undo, redo)) = seen();
    let result = editor.undo().commit().unwrap();
    assert_eq!((result.changed, result.version), (false, version));
    assert_eq!(seen(), (before, version, (undo - 1, redo + 1)));
}

fn text(editor: &Editor) -> String {
    common::text(&editor.store().snapshot(), "t")
}

fn image(editor: &Editor) -> String {
    common::image(&editor.store().snapshot())
}

fn exists(editor: &Editor, id: &str) -> bool {
    editor.store().snapshot().contains(id)
}
