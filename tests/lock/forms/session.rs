//! The session of an editor whose batches another thread runs: selection, history, clipboard.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use doclock::history::{HistoryOptions, UndoError};
use doclock::transaction::RunOperations;
use doclock::{CommitError, Editor, StoreOptions, View, document::Selection, dsl};

use super::{Form, Scene, any_thread, in_both_forms, pause};
use crate::until_waiting;

in_both_forms!(
    a_queued_batch_of_an_editor_can_be_undone_and_redone,
    an_editors_selection_follows_earlier_batches_in_the_queue,
    an_undo_waits_in_the_queue,
);

fn text(scene: &Scene) -> String {
    let snapshot = scene.store.snapshot();
    snapshot.node("t").unwrap().text().to_string()
}

/// A scene whose document has the text node `t`, and two editors.
fn desks(form: Form, options: StoreOptions) -> (Scene, Arc<Editor>, Arc<Editor>) {
    let clock = doclock::time::ManualClock::new();
    let options = form.of(options).clock(clock.clock());
    let store = doclock::DataStore::with_options(options);
    // Each edit is an entry of its own.
    let options = HistoryOptions::new().group_interval(Duration::ZERO);
    let editor = |name| Editor::new(store.clone(), name).with_history(options.clone());
    let [ann, ben] = ["ann", "ben"].map(|name| Arc::new(editor(name)));
    let hello = dsl::text_node("x", "Hello").with_id("t");
    doclock::TransactionManager::new(store.clone())
        .execute(dsl::create(hello))
        .unwrap();
    (Scene::on(form, store, clock), ann, ben)
}

fn a_queued_batch_of_an_editor_can_be_undone_and_redone(form: Form) {
    let (scene, ann, ben) = desks(form, StoreOptions::new());
    let lists = [(&ann, "a"), (&ben, "b"), (&ann, "c")].map(|(editor, letter)| {
        let editor = Arc::clone(editor);
        let append = dsl::op(move |transaction| {
            let end = transaction.node("t").map_or(0, |node| node.text().len());
            transaction.insert_text("t", end, letter)
        });
        scene.join(move |_| editor.transaction([append]).options(any_thread()).commit())
    });
    scene.first.resume();
    for (version, list) in (2..).zip(lists) {
        assert_eq!(list.join().unwrap().unwrap().version, version);
    }
    assert_eq!(text(&scene), "Helloabc");
    ann.undo().commit().unwrap();
    assert_eq!(text(&scene), "Helloab");
    ben.undo().commit().unwrap();
    assert_eq!(text(&scene), "Helloa");
    ann.undo().commit().unwrap();
    assert_eq!((text(&scene).as_str(), ann.can_undo()), ("Hello", false));
    ann.redo().commit().unwrap();
    ann.redo().commit().unwrap();
    assert_eq!(text(&scene), "Helloac");
}

fn an_editors_selection_follows_earlier_batches_in_the_queue(form: Form) {
    let (scene, ann, ben) = desks(form, StoreOptions::new());
    ann.select(Selection::caret("t", 5)).unwrap();
    let lists = [(&ben, 0, ">> "), (&ann, 8, "!"), (&ben, 0, "> ")].map(|(editor, at, letters)| {
        let editor = Arc::clone(editor);
        scene.join(move |_| editor.execute(dsl::insert_text(at, letters).on("t")))
    });
    scene.first.resume();
    let [_, own, _] = lists.map(|list| list.join().unwrap().unwrap());
    assert_eq!(own.selection_before, Some(Selection::caret("t", 8)));
    assert_eq!(own.selection_after, Some(Selection::caret("t", 9)));
    assert_eq!(text(&scene), "> >> Hello!");
    assert_eq!(ann.selection(), Some(Selection::caret("t", 11)));
}

fn an_undo_waits_in_the_queue(form: Form) {
    let (scene, ann, ben) = desks(form, StoreOptions::new());
    let insert = |letters: &'static str| dsl::insert_text(0, letters).on("t");
    let done = Arc::clone(&ann);
    let done = scene.join(move |_| done.execute(insert("a")).unwrap());
    // The undo itself is never delegated: only the editor can access its history.
    scene.first.resume();
    done.join().unwrap();
    let Scene {
        form,
        store,
        clock,
        holder,
        ..
    } = scene;
    holder.join().unwrap().unwrap();
    let scene = Scene::on(form, store, clock);
    let before = scene.join(move |_| ben.execute(insert("b")).unwrap().version);
    let undoing = Arc::clone(&ann);
    let undo = scene.join(move |_| undoing.undo().commit().unwrap().version);
    let label = scene.store.queue_info()[1].label.clone();
    assert_eq!(label.as_deref(), Some("undo"));
    let redoing = Arc::clone(&ann);
    let behind = scene.join(move |_| redoing.execute(insert("c")).unwrap().version);
    scene.first.resume();
    let versions = [before, undo, behind].map(|waiter| waiter.join().unwrap());
    assert_eq!(versions, [3, 4, 5]);
    assert_eq!(text(&scene), "cbHello");
}

/// An undo was never revoked: other threads waited for the code of its inverses without limit.
#[test]
fn lock_10_an_undo_that_holds_for_too_long_is_revoked_and_its_entry_stays() {
    const LIMIT: Duration = Duration::from_millis(100);
    let options = StoreOptions::new().hold_limit(LIMIT);
    let (scene, ann, ben) = desks(Form::HandedOff, options);
    let clock = scene.clock.clone();
    let store = scene.go_on();

    let (pausing, inside) = pause();
    let undone = dsl::op_with_inverse(
        |_| Ok::<_, doclock::document::EditError>(()),
        move |transaction| transaction.run(pausing.clone()),
    );
    let insert = dsl::insert_text(5, " World").on("t");
    ann.execute([insert, undone]).unwrap();
    let undoing = Arc::clone(&ann);
    let undo = thread::spawn(move || undoing.undo().commit());
    inside.entered();
    let behind = thread::spawn(move || ben.execute(dsl::insert_text(0, ">> ").on("t")));
    until_waiting(&store, 1);
    clock.advance(LIMIT);
    // The undo is still in its inverse.
    behind.join().unwrap().unwrap();
    inside.resume();
    match undo.join().unwrap().unwrap_err() {
        UndoError::Commit(CommitError::Revoked { owner, .. }) => assert_eq!(owner.as_str(), "ann"),
        other => panic!("{other:?}"),
    }
    let text = || {
        let snapshot = store.snapshot();
        snapshot.node("t").unwrap().text().to_string()
    };
    assert_eq!((text().as_str(), ann.undo_depth()), (">> Hello World", 1));
    // The entry has observed ben's changes.
    inside.resume();
    ann.undo().commit().unwrap();
    assert_eq!(text(), ">> Hello");
    ann.redo().commit().unwrap();
    assert_eq!(text(), ">> Hello World");
}

/// An inverse that waited for another thread of the same store deadlocked, because that thread
/// waited for the lock.
#[test]
fn lock_10_an_inverse_that_waits_for_another_thread_of_its_store_ends() {
    const LIMIT: Duration = Duration::from_millis(100);
    let options = StoreOptions::new().hold_limit(LIMIT);
    let (scene, ann, ben) = desks(Form::HandedOff, options);
    let clock = scene.clock.clone();
    let store = scene.go_on();

    let waits = dsl::op_with_inverse(
        |_| Ok::<_, doclock::document::EditError>(()),
        move |_| {
            let ben = Arc::clone(&ben);
            let insert = dsl::insert_text(0, ">> ").on("t");
            let other = thread::spawn(move || ben.execute(insert));
            drop(other.join().unwrap().unwrap());
            Ok::<_, doclock::document::EditError>(())
        },
    );
    let insert = dsl::insert_text(5, " World").on("t");
    ann.execute([insert, waits]).unwrap();
    let undoing = Arc::clone(&ann);
    let undo = thread::spawn(move || undoing.undo().commit());
    until_waiting(&store, 1);
    clock.advance(LIMIT);
    let error = undo.join().unwrap().unwrap_err();
    assert!(
        matches!(error, UndoError::Commit(CommitError::Revoked { .. })),
        "{error}"
    );
    assert_eq!(ann.undo_depth(), 1);
}
