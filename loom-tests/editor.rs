//! Races between editors of one store: commits that move the selection and the history of the others.

use std::sync::Arc;

use doclock::{DataStore, Editor, Selection, StoreOptions, View, dsl::*};
use loom::thread;

use crate::model::check;

/// A store with a text node `t`, and its editors.
fn editors<const N: usize>(text: &str) -> [Arc<Editor>; N] {
    let store = DataStore::with_options(StoreOptions::new().lock_timeout(None));
    let mut transaction = store.begin("setup").unwrap();
    let node = text_node("text", text).with_id("t");
    transaction.create(node).unwrap();
    transaction.commit().unwrap();
    std::array::from_fn(|nth| Arc::new(Editor::new(store.clone(), format!("{nth}"))))
}

fn type_in(editor: &Editor, at: usize, letter: &'static str) {
    transaction(editor, insert_text(at, letter).on("t"))
        .commit()
        .unwrap();
}

fn text(editor: &Editor) -> String {
    let snapshot = editor.store().snapshot();
    snapshot.node(&"t".into()).unwrap().text().to_string()
}

#[test]
fn editor_an_undo_takes_only_its_own_among_two_who_type() {
    check("undo against 2 commits", Some(3), || {
        let [ann, bob, carl] = editors("-");
        type_in(&ann, 1, "a");
        let typists = [(bob, "b"), (carl, "c")]
            .map(|(editor, letter)| thread::spawn(move || type_in(&editor, 0, letter)));
        ann.undo().unwrap();
        typists
            .into_iter()
            .for_each(|typist| typist.join().unwrap());
        assert!(["bc-", "cb-"].contains(&text(&ann).as_str()));
        ann.redo().unwrap();
        assert!(["bc-a", "cb-a"].contains(&text(&ann).as_str()));
    });
}

#[test]
fn editor_a_selection_follows_the_commits_of_two_others() {
    check("selection against 2 commits", None, || {
        let [ann, bob, carl] = editors("-");
        ann.select(Selection::caret("t", 1)).unwrap();
        let typists = [(bob, "b"), (carl, "c")]
            .map(|(editor, letter)| thread::spawn(move || type_in(&editor, 0, letter)));
        let seen = ann.selection();
        let possible = (1..=3).map(|offset| Some(Selection::caret("t", offset)));
        assert!(possible.into_iter().any(|one| one == seen));
        typists
            .into_iter()
            .for_each(|typist| typist.join().unwrap());
        assert_eq!(ann.selection(), Some(Selection::caret("t", 3)));
    });
}

#[test]
fn editor_one_editor_in_two_threads_undoes_each_entry_once() {
    check("undo against undo", Some(3), || {
        let [ann, bob] = editors("");
        type_in(&ann, 0, "a");
        let group = ann.group();
        type_in(&ann, 1, "b");
        drop(group);
        let other = {
            let ann = Arc::clone(&ann);
            thread::spawn(move || ann.undo().is_ok())
        };
        let typist = thread::spawn(move || type_in(&bob, 0, "x"));
        let undone = usize::from(ann.undo().is_ok()) + usize::from(other.join().unwrap());
        typist.join().unwrap();
        assert_eq!((undone, text(&ann).as_str()), (2, "x"));
        assert_eq!((ann.undo_depth(), ann.redo_depth()), (0, 2));
    });
}
