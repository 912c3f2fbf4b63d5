//! Undo in a document that others edit, and edits that join an earlier entry of a history.

use std::time::Duration;

use doclock::dsl::{create, insert_text, text_node};
use doclock::history::{HistoryMode, HistoryOptions};
use doclock::{DataStore, Editor};

use super::ladder::Sample;
use crate::Result;

/// Two editors of a document with a text for each of them, in which each edit is an entry.
fn editors() -> Result<[Editor; 2]> {
    let store = DataStore::new();
    let options = HistoryOptions::new().group_interval(Duration::ZERO);
    let editors = ["ann", "bob"].map(|name| {
        let editor = Editor::new(store.clone(), name);
        editor.with_history(options.clone())
    });
    for editor in &editors {
        let id = editor.owner().as_str();
        editor.execute([create(text_node("text", "text").with_id(id))])?;
    }
    Ok(editors)
}

/// Types a letter into the text of an editor.
fn types(editor: &Editor) -> Result {
    let id = editor.owner().as_str();
    editor.execute([insert_text(0, "x").on(id)])?;
    Ok(())
}

/// One undo, in the thread that calls it.
pub fn beside_others(commits: usize) -> Result<Sample> {
    let [ann, bob] = editors()?;
    types(&ann)?;
    (0..commits).try_for_each(|_| types(&bob))?;
    Ok(Sample::timed(|| ann.undo().commit()))
}

/// All edits, which finish late and are undone together with an earlier one.
pub fn merged_late(edits: usize) -> Result<Sample> {
    let [ann, bob] = editors()?;
    let mode = |mode| {
        let edit = ann.transaction([insert_text(0, "x").on("ann")]);
        edit.in_history(mode).commit()
    };
    mode(HistoryMode::Named("upload".into()))?;
    types(&bob)?;
    let merge = |_| mode(HistoryMode::MergedInto("upload".into())).map(drop);
    Ok(Sample::timed(|| (0..edits).try_for_each(merge)))
}
