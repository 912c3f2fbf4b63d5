//! Unit tests of `src/store/provenance.rs`.

use std::collections::VecDeque;
use std::time::Duration;

use crate::document::SilentReversals;
use crate::history::HistoryOptions;
use crate::{DataStore, Editor, StoreOptions, View, dsl::*};

/// A commit without a unit left the queue when the next one came, and was in no record.
#[test]
fn commits_that_follow_kept_ones_wait_until_these_are_recorded() {
    for kept in [0, 1 << 20] {
        let store = DataStore::with_options(StoreOptions::new().kept_commits(kept));
        let events = store.subscribe();
        let (owner, editor) = ("ann".into(), Editor::new(store.clone(), "ann"));
        let (id, _) = store.follow(&owner);
        let latest = || store.snapshot();
        drop(store.0.log.take_kept(id, &owner, VecDeque::new(), latest));
        for _ in 0..3 {
            let mut transaction = store.begin("bob").unwrap();
            transaction.create(text_node("paragraph", "")).unwrap();
            transaction.commit().unwrap();
        }
        let taken = store.0.log.take_unrecorded(VecDeque::new(), latest);
        assert_eq!(taken.unwrap().commits.len(), 3, "{kept} bytes are kept");
        drop((editor, events));
    }
}

/// Kept commits are recorded between the publication of an undo and its record, by which
/// the record gets other keys.
#[cfg(feature = "redb")]
#[test]
fn undo_04_a_published_undo_is_recorded_once_if_kept_commits_are_recorded_meanwhile() {
    use crate::Draft;
    use crate::durable::DurableOptions;

    let folder = tempfile::tempdir().unwrap();
    let kept = StoreOptions::new().kept_commits(1 << 20);
    let options = DurableOptions::new().keep_log(1 << 20).store(kept);
    let open = || DataStore::open_with(folder.path().join("store"), options.clone()).unwrap();
    let ann = Editor::new(open(), "ann");
    ann.execute([create(text_node("paragraph", "ab").with_id("t"))])
        .unwrap();
    ann.execute([insert_text(2, "c").on("t")]).unwrap();
    ann.store().close().unwrap();
    drop(ann);
    let store = open();
    let bob = Editor::new(store.clone(), "bob");
    bob.execute([insert_text(3, "d").on("t")]).unwrap();
    let unit = store.newest_unit().unwrap();
    let mut draft = Draft::under_no_lock(&store.0.document, store.snapshot());
    let mut before = SilentReversals::default();
    let undo = store.undo_units(&mut draft, &mut before, |it| {
        it.set_in_effect(&[unit], false, false)
    });
    let ((), undone) = undo.unwrap();
    let made = bob.undo().commit().unwrap();
    let ann = Editor::new(store.clone(), "ann").with_restored_history();
    let made = (made.version, &made.changes[..]);
    store.apply_published_undo((before, Some(undone)), made, None);
    let text = || store.snapshot().node("t").unwrap().text().to_string();
    ann.undo().commit().unwrap();
    assert_eq!(text(), "ab");
    bob.redo().commit().unwrap();
    assert_eq!(text(), "abd");
    ann.redo().commit().unwrap();
    assert_eq!(text(), "abcd");
}

/// What a store records after two editors alternate, with histories of ten entries.
fn recorded_after(edits: usize) -> [usize; 3] {
    let store = DataStore::new();
    let options = HistoryOptions::new()
        .limit(10)
        .group_interval(Duration::ZERO);
    let editors =
        ["ann", "bob"].map(|name| Editor::new(store.clone(), name).with_history(options.clone()));
    let spec = text_node("paragraph", "").with_id("p");
    editors[0].execute([create(spec)]).unwrap();
    for nth in 0..edits {
        let editor = &editors[nth % 2];
        let document = store.snapshot();
        let node = document.node("p").unwrap();
        let length = node.text().to_string().len();
        let edit = match (nth % 5, node.children().iter().next()) {
            (3, _) if length > 20 => delete_text_range(3, 20).on("p"),
            (4, Some(child)) => delete_node().on(child.clone()),
            (4, None) => add_child(text_node("note", "note"), None).on("p"),
            _ => insert_text(length / 2, "letters").on("p"),
        };
        editor.execute([edit]).unwrap();
        if nth % 7 == 0 {
            editor.undo().commit().unwrap();
        }
    }
    editors[0].undo().commit().unwrap();
    store.record_commits();
    store.0.provenance.lock().provenance.sizes()
}

#[test]
fn undo_02_what_no_history_refers_to_is_forgotten() {
    let [few, many] = [300, 6_000].map(recorded_after);
    println!("nodes, units and items: {few:?}, then {many:?}");
    assert!(many[0] <= 2 * few[0] && many[1] <= 2 * few[1], "{many:?}");
    assert!(many[2] <= 2 * few[2], "{many:?}");
}
