//! The commit log beside sessions that read it, or do not.

use super::OwnedSession;
use crate::document::Selection;
use crate::dsl::*;
use crate::store::{DataStore, StoreOptions};
use crate::transaction::{Editor, TransactionManager};

const LIMIT: usize = 16 << 10;

fn store() -> DataStore {
    let store = DataStore::with_options(StoreOptions::new().log_limit(LIMIT));
    let manager = TransactionManager::new(store.clone());
    let node = text_node("text", "").with_id("t");
    manager.execute(create(node)).unwrap();
    store
}

/// An editor that follows the document, which it does from its first use on.
fn used_editor(store: &DataStore, owner: &str) -> Editor {
    let editor = Editor::new(store.clone(), owner);
    assert_eq!(editor.selection(), None);
    editor
}

#[test]
fn an_editor_that_was_never_used_costs_commits_nothing() {
    let store = store();
    let unused = Editor::new(store.clone(), "ann");
    let manager = TransactionManager::new(store.clone());
    for _ in 0..200 {
        manager.execute(insert_text(0, "a").on("t")).unwrap();
        assert_eq!(store.log_sizes(), (0, 0, 0));
    }
    assert_eq!(store.diagnostics().log.session_count, 0);
    unused.select(Selection::caret("t", 9)).unwrap();
    manager.execute(insert_text(3, "bbb").on("t")).unwrap();
    assert_eq!(store.log_sizes().1, 1);
    let moved = Selection::caret("t", 12);
    assert_eq!(unused.selection(), Some(moved));
}

/// A batch that another thread runs can outlast the editor.
#[test]
fn a_session_that_has_ended_does_not_begin_to_follow() {
    let store = store();
    let owned = OwnedSession::open(store.clone(), "ann".into());
    let session = owned.session.clone();
    drop(owned);
    let mut state = session.state();
    session.catch_up(&mut state, &store);
    assert_eq!(store.diagnostics().log.session_count, 0);
}

#[test]
fn the_records_stay_under_the_limit_beside_an_idle_editor() {
    let store = store();
    let idle = Editor::new(store.clone(), "idle");
    idle.execute(insert_text(0, "a").on("t")).unwrap();
    let busy = Editor::new(store.clone(), "busy");
    for nth in 0..2_000 {
        busy.execute(insert_text(nth % 7, "b").on("t")).unwrap();
        let (bytes, _, stretches) = store.log_sizes();
        assert!(bytes <= LIMIT, "{bytes} bytes after {nth} commits");
        assert!(stretches <= 12, "{stretches} stretches after {nth} commits");
    }
    assert!(store.log_sizes().2 > 0, "nothing was merged");
    idle.undo().commit().unwrap();
    let text = store.snapshot();
    let text = crate::View::node(&text, "t").unwrap().text().to_string();
    assert_eq!(text, "b".repeat(2_000));
}

#[test]
fn an_editor_alone_records_none_of_its_commits() {
    let store = store();
    let editor = Editor::new(store.clone(), "ann");
    for _ in 0..10 {
        editor.execute(insert_text(0, "a").on("t")).unwrap();
    }
    assert_eq!(store.log_sizes(), (0, 0, 0));
    let other = used_editor(&store, "bob");
    editor.execute(insert_text(0, "a").on("t")).unwrap();
    assert_eq!(store.log_sizes().1, 1);
    drop(other);
    drop(editor);
    assert_eq!(store.log_sizes(), (0, 0, 0));
}

#[test]
fn editors_and_subscribers_keep_no_old_version() {
    let store = store();
    let _events = store
        .subscription()
        .matching(crate::events::Filter::Subtree("t".into()));
    let [ann, bob] = ["ann", "bob"].map(|name| Editor::new(store.clone(), name));
    for _ in 0..10 {
        for editor in [&ann, &bob] {
            editor.execute(insert_text(0, "a").on("t")).unwrap();
        }
        ann.undo().commit().unwrap();
    }
    assert_eq!(store.noted_versions(), 0);
}

#[test]
fn records_that_all_editors_have_read_are_dropped_and_not_merged() {
    let store = store();
    let [ann, bob] = ["ann", "bob"].map(|name| Editor::new(store.clone(), name));
    for _ in 0..1_000 {
        for editor in [&ann, &bob] {
            editor.execute(insert_text(0, "a").on("t")).unwrap();
        }
        let (bytes, _, stretches) = store.log_sizes();
        assert!(bytes <= LIMIT && stretches == 0);
    }
}

/// A second editor as far behind as the first gets the same stretches.
#[test]
fn a_late_editor_merges_what_it_missed_for_the_others_too() {
    let store = DataStore::new();
    let late = ["ann", "bob"].map(|name| used_editor(&store, name));
    let manager = TransactionManager::new(store.clone());
    manager
        .execute(create(text_node("text", "").with_id("t")))
        .unwrap();
    for _ in 0..1_000 {
        manager.execute(insert_text(0, "a").on("t")).unwrap();
    }
    assert_eq!(store.log_sizes().1, 1_001);
    assert_eq!(late[0].selection(), None);
    let (_, apart, stretches) = store.log_sizes();
    assert!(
        apart <= 128 && stretches > 0,
        "{apart} records, {stretches} stretches"
    );
    assert_eq!(late[1].selection(), None);
    assert_eq!(store.log_sizes().1, apart);
}

/// Once attributes and marks counted nothing, so the log kept hundreds of megabytes of them.
#[test]
fn attributes_count_toward_the_limit() {
    let store = store();
    let unread = store.subscribe();
    let busy = Editor::new(store.clone(), "busy");
    for nth in 0..20 {
        let value = format!("{nth}").repeat(LIMIT);
        busy.execute(set_attrs([("key", value.into())]).on("t"))
            .unwrap();
        let (_, apart, _) = store.log_sizes();
        // The newest stays, so that the subscriber learns that it has missed others.
        assert_eq!(apart, 1);
    }
    assert_eq!(unread.recv().unwrap().missed, 19);
}

#[test]
fn an_idle_editor_keeps_nothing_of_attributes_and_texts() {
    let store = store();
    let idle = used_editor(&store, "idle");
    let busy = Editor::new(store.clone(), "busy");
    for nth in 0..20 {
        let value = format!("{nth}").repeat(LIMIT);
        let edit = [set_attrs([("key", value.clone().into())]), set_text(value)];
        busy.execute(edit.map(|edit| edit.on("t"))).unwrap();
    }
    let (bytes, apart, _) = store.log_sizes();
    assert!(
        bytes < LIMIT && apart == 20,
        "{bytes} bytes, {apart} records"
    );
    assert_eq!(idle.selection(), None);
}

/// Once the log kept what only a closed editor had not read until another program committed.
#[test]
fn what_only_a_closed_editor_had_not_read_goes_with_the_next_commit() {
    let store = store();
    let [idle, busy] = ["idle", "busy"].map(|name| used_editor(&store, name));
    for _ in 0..1_000 {
        busy.execute(insert_text(0, "a").on("t")).unwrap();
    }
    assert_ne!(store.log_sizes(), (0, 0, 0));
    drop(idle);
    busy.execute(insert_text(0, "a").on("t")).unwrap();
    assert_eq!(store.log_sizes(), (0, 0, 0));
}

/// Once each transaction locked the log for good, after the last editor was closed.
#[test]
fn without_editors_no_transaction_locks_the_log() {
    let store = store();
    drop(["ann", "bob"].map(|name| used_editor(&store, name)));
    let manager = TransactionManager::new(store.clone());
    manager.execute(insert_text(0, "a").on("t")).unwrap();
    assert!(!store.log_is_overfull());
}

/// How many mutexes a call locks, beside the lock itself.
#[cfg(debug_assertions)]
fn locked(call: impl Fn()) -> usize {
    (0..20)
        .map(|_| {
            let before = crate::sync::locked();
            call();
            crate::sync::locked() - before
        })
        .min()
        .unwrap()
}

#[test]
#[cfg(debug_assertions)]
fn an_uncontended_keystroke_of_an_editor_locks_four_mutexes_also_alone() {
    let store = store();
    let letter = || insert_text(0, "a").on("t");
    let manager = TransactionManager::new(store.clone());
    let of_a_manager = locked(|| drop(manager.execute(letter()).unwrap()));
    let editor = Editor::new(store.clone(), "ann");
    let of_an_editor = locked(|| drop(editor.execute(letter()).unwrap()));
    let other = used_editor(&store, "bob");
    let of_two = locked(|| drop(editor.execute(letter()).unwrap()));
    drop(other);
    assert_eq!((of_a_manager, of_an_editor, of_two), (2, 4, 4));
}
