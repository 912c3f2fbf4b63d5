//! Changes of the history during an undo: by the code of an inverse, or by another thread.

use std::sync::{Arc, Mutex, OnceLock, Weak, mpsc};
use std::thread;

use doclock::dsl::*;
use doclock::{
    DataStore, Editor, document::EditError, history::HistoryMode, transaction::Operation,
};

use super::{editor_of, run, text};

/// An operation that changes nothing, and whose inverse runs this.
fn undone_by(code: impl Fn() + Send + Sync + 'static) -> Operation {
    op_with_inverse(
        |_| Ok::<_, EditError>(()),
        move |_| {
            code();
            Ok::<_, EditError>(())
        },
    )
}

/// An editor with two entries. The upper one is `upload`, with a late part whose inverse runs this
/// code.
fn with_late_part(meanwhile: fn(&Editor)) -> Arc<Editor> {
    let editor = Arc::new(editor_of(&DataStore::new(), "Hello"));
    let own: Arc<OnceLock<Weak<Editor>>> = Arc::default();
    let weak = Arc::clone(&own);
    own.set(Arc::downgrade(&editor)).unwrap();
    run(&editor, insert_text(0, "below ").on("t"));
    let inverse = undone_by(move || meanwhile(&weak.get().unwrap().upgrade().unwrap()));
    let upload = transaction(&editor, [insert_text(0, "1").on("t"), inverse]);
    upload
        .in_history(HistoryMode::Named("upload".into()))
        .commit()
        .unwrap();
    run(&editor, insert_text(12, "!").on("t"));
    let late = transaction(&editor, insert_text(0, "2").on("t"));
    late.in_history(HistoryMode::MergedInto("upload".into()))
        .commit()
        .unwrap();
    assert_eq!(text(&editor), "21below Hello!");
    editor.undo().commit().unwrap();
    assert_eq!(
        (text(&editor).as_str(), editor.undo_depth()),
        ("21below Hello", 2)
    );
    editor
}

/// Late parts were counted twice, and the count fell below zero.
#[test]
fn undo_02_a_history_that_an_inverse_clears_stays_empty() {
    let editor = with_late_part(Editor::clear_history);
    editor.undo().commit().unwrap();
    assert_eq!(text(&editor), "below Hello");
    assert_eq!((editor.undo_depth(), editor.redo_depth()), (0, 0));
    run(&editor, insert_text(0, "> ").on("t"));
    editor.undo().commit().unwrap();
    editor.redo().commit().unwrap();
    assert_eq!(text(&editor), "> below Hello");
}

#[test]
fn undo_02_an_entry_that_its_inverse_discards_is_undone_and_not_redone() {
    let editor = with_late_part(|editor| assert!(editor.discard_undo()));
    editor.undo().commit().unwrap();
    assert_eq!(text(&editor), "below Hello");
    assert_eq!(editor.undo_depth(), 1);
    // The lower entry has observed both.
    editor.undo().commit().unwrap();
    assert_eq!(text(&editor), "Hello");
    editor.redo().commit().unwrap();
    assert_eq!(text(&editor), "below Hello");
}

/// The same from another thread.
#[test]
fn undo_02_a_history_that_another_thread_clears_during_an_undo_stays_empty() {
    let editor = Arc::new(editor_of(&DataStore::new(), "Hello"));
    let (tell, inside) = mpsc::channel();
    let (go_on, told) = mpsc::channel();
    let (tell, told) = (Mutex::new(tell), Mutex::new(told));
    let inverse = undone_by(move || {
        tell.lock().unwrap().send(()).unwrap();
        told.lock().unwrap().recv().unwrap();
    });
    transaction(&editor, [insert_text(5, "!").on("t"), inverse])
        .commit()
        .unwrap();
    let undoing = Arc::clone(&editor);
    let undo = thread::spawn(move || undoing.undo().commit());
    inside.recv().unwrap();
    editor.clear_history();
    go_on.send(()).unwrap();
    undo.join().unwrap().unwrap();
    assert_eq!(
        (text(&editor).as_str(), editor.can_undo(), editor.can_redo()),
        ("Hello", false, false)
    );
}
