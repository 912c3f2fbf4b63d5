//! What an open continues.

use std::collections::HashSet;
use std::time::Duration;

use doclock::document::{Change, NodeSpec, Selection, SplitPoint, check};
use doclock::durable::{DurableOptions, LARGEST_EPOCH, OpenError, OpenProgress};
use doclock::history::HistoryOptions;
use doclock::lock::node::Scope;
use doclock::{CommitError, DataStore, Editor, Snapshot, TransactionManager, View, dsl::*};

use crate::memory::Memory;
use crate::{Folder, add, later};

#[test]
fn durable_01_a_document_is_the_same_after_a_close() {
    let folder = Folder::new();
    let store = folder.open();
    let editor = Editor::new(store.clone(), "ann");
    let list = element("list", [text_node("item", "one").with_id("one")]).with_id("list");
    editor
        .execute([create(list), set_root().on("list")])
        .unwrap();
    editor
        .execute([
            split_text_node(1).on("one"),
            apply_mark("bold", 0..1).on("one"),
        ])
        .unwrap();
    editor.undo().commit().unwrap();
    editor.redo().commit().unwrap();
    let before = store.snapshot();
    let report = store.close().unwrap();
    assert_eq!((report.durable_version, report.commits), (4, 4));
    drop(editor);
    drop(store);

    let store = folder.open();
    assert_eq!(store.version(), 4);
    assert_eq!(store.durable_snapshot().map(|it| it.version()), Some(4));
    assert_eq!(store.snapshot(), before);
    assert_eq!(store.snapshot().root(), before.root());
    assert_eq!(check(&store.snapshot()), Ok(()));
}

#[test]
fn durable_07_dropping_the_last_handle_loses_no_accepted_commit() {
    let folder = Folder::new();
    for round in 0..20 {
        let store = folder.open_with(later());
        assert_eq!(store.version(), 10 * round);
        for nth in 0..10 {
            add(&store, &format!("{round}-{nth}"));
        }
        drop(store);
    }
}

#[test]
fn durable_03_no_id_session_or_token_returns_used_by_a_commit_or_not() {
    let folder = Folder::new();
    let mut seen = HashSet::new();
    for _ in 0..5 {
        let store = folder.open();
        for _ in 0..3 {
            // Not recorded by any commit.
            let id = store.acquire_lock("window").unwrap();
            let transaction = store.begin_under(id).unwrap();
            assert!(seen.insert(format!("transaction {}", transaction.id())));
            transaction.rollback();
            store.release_lock(id).unwrap();
            assert!(seen.insert(format!("lock {}", id.number())));
            let node = store.generate_id().unwrap();
            assert!(seen.insert(format!("node {node}")));
            let lease = store
                .leases()
                .acquire("x", "ann", Duration::from_secs(9))
                .unwrap();
            assert!(seen.insert(format!("lease {}", lease.fencing_token().get())));
            lease.release().unwrap();
        }
        let manager = TransactionManager::new(store.clone());
        let result = manager.execute(create(text_node("paragraph", ""))).unwrap();
        assert!(seen.insert(format!("token {}", result.fencing_token)));
        // Neither a close nor its checkpoint.
        std::mem::forget((store, manager));
        // The file is locked by the store that was forgotten: so each open is of a copy.
        let copy = std::fs::read(folder.path()).unwrap();
        std::fs::remove_file(folder.path()).unwrap();
        std::fs::write(folder.path(), copy).unwrap();
    }
}

#[test]
fn feed_05_if_unchanged_of_an_earlier_open_is_refused_after_later_commits() {
    let folder = Folder::new();
    let store = folder.open();
    add(&store, "a");
    add(&store, "b");
    drop(store);
    let store = folder.open();
    add(&store, "c");
    let manager = TransactionManager::new(store);
    let refused = manager.execute([if_unchanged(2), create(text_node("paragraph", "d"))]);
    let expected = "operation 0 (ifUnchanged): the document is at version 3, not 2";
    assert_eq!(refused.unwrap_err().to_string(), expected);
}

/// A checkpoint writes only the nodes that were touched. Moved children of split and joined nodes
/// are touched too.
#[test]
fn durable_08_any_operations_are_the_same_after_checkpoints_in_between() {
    let folder = Folder::new();
    let mut expected: Option<Snapshot> = None;
    for round in 0..6 {
        // A checkpoint after each commit in half of the rounds.
        let after = if round % 2 == 0 { 0 } else { usize::MAX };
        let store = folder.open_with(DurableOptions::new().checkpoint_after(after));
        if let Some(expected) = &expected {
            assert_eq!(&store.snapshot(), expected, "round {round}");
        }
        let editor = Editor::new(store.clone(), "ann");
        if round == 0 {
            let items = (0..6).map(|nth| text_node("item", format!("item {nth}")));
            let list = element("list", items.collect::<Vec<_>>()).with_id("list");
            let page = element("page", [list]).with_id("page");
            editor
                .execute([create(page), set_root().on("page")])
                .unwrap();
        }
        let items = |store: &DataStore, of: &str| -> Vec<_> {
            let snapshot = store.snapshot();
            snapshot
                .children(of)
                .map(|node| node.id().clone())
                .collect()
        };
        let of_list = items(&store, "list");
        let mut transaction = store.begin("bob").unwrap();
        let right = transaction
            .split_node(
                "list",
                SplitPoint {
                    text: 0,
                    children: 3,
                },
                None,
            )
            .unwrap();
        transaction.commit().unwrap();
        editor.execute(insert_text(0, "x").on(&of_list[4])).unwrap();
        if round % 3 == 0 {
            let mut transaction = store.begin("bob").unwrap();
            transaction.join_nodes("list", &right).unwrap();
            transaction.commit().unwrap();
        } else {
            editor.execute(delete_node().on(&of_list[0])).unwrap();
            let mut transaction = store.begin("bob").unwrap();
            transaction.join_nodes("list", &right).unwrap();
            transaction.commit().unwrap();
            editor.undo().commit().unwrap();
        }
        assert_eq!(check(&store.snapshot()), Ok(()));
        expected = Some(store.snapshot());
        if round % 3 == 0 {
            store.close().unwrap();
        }
    }
}

/// Such a thread writes its blocks itself. Once the thread that writes checkpoints was not called.
#[test]
fn durable_08_a_checkpoint_follows_also_if_one_thread_commits() {
    let memory = Memory::default();
    let store = memory.open(DurableOptions::new().checkpoint_after(200));
    for nth in 0..100 {
        add(&store, &format!("{nth}"));
        let stored = memory.stored();
        let bytes: usize = stored.blocks.values().map(Vec::len).sum();
        assert!(bytes < 400, "{bytes} after {nth}");
    }
    assert!(store.close().unwrap().checkpoints > 10);
}

#[test]
fn a_closed_store_is_read_only_and_reports_the_same_again() {
    let folder = Folder::new();
    let store = folder.open();
    add(&store, "a");
    let report = store.close().unwrap();
    assert_eq!(store.close().unwrap(), report);
    assert_eq!(
        (report.durable_version, report.commits, report.checkpoints),
        (1, 1, 1)
    );
    let mut transaction = store.begin("ann").unwrap();
    transaction.set_text("a", "b").unwrap();
    let error = transaction.commit().unwrap_err();
    assert_eq!(error, CommitError::ReadOnly { cause: None });
    assert_eq!(error.to_string(), "the store is read-only: it was closed");
    assert_eq!(store.snapshot().node("a").unwrap().text(), &"a");
    // The file is free.
    assert_eq!(folder.open().version(), 1);
}

/// An undo that goes on had left an entry without an effect undone, and failed.
#[test]
fn an_undo_of_a_closed_store_that_fails_removes_no_entry() {
    let folder = Folder::new();
    let store = folder.open();
    add(&store, "t");
    let options = HistoryOptions::new().undo_next_effective(true);
    let ann = Editor::new(store.clone(), "ann");
    let ann = ann.with_history(options.group_interval(Duration::ZERO));
    ann.execute(insert_text(0, "a").on("t")).unwrap();
    ann.execute(insert_text(0, "b").on("t")).unwrap();
    Editor::new(store.clone(), "bob")
        .execute(delete_text_range(0, 1).on("t"))
        .unwrap();
    store.close().unwrap();
    // The first entry has no effect, so its undo writes nothing.
    assert!(!ann.undo().commit().unwrap().changed);
    assert_eq!((ann.undo_depth(), ann.redo_depth()), (1, 1));
    ann.undo().commit().unwrap_err();
    assert_eq!((ann.undo_depth(), ann.redo_depth()), (1, 1));
}

#[test]
fn the_changes_of_a_record_are_repeated_through_their_checks() {
    let folder = Folder::new();
    let store = folder.open();
    let id = store.generate_id().unwrap();
    let mut transaction = store.begin("ann").unwrap();
    let node = NodeSpec::new("paragraph").with_id(id.clone());
    transaction.create(node).unwrap();
    let result = transaction.commit().unwrap();
    assert!(matches!(
        &result.changes[..],
        [Change::InsertSubtree { .. }]
    ));
    drop(store);
    assert!(folder.open().snapshot().contains(&id));
}

/// Once the record of such a commit could not be repeated, so the document was lost.
#[test]
fn durable_02_a_selection_that_another_commit_outdated_does_not_stop_an_open() {
    let folder = Folder::new();
    let store = folder.open();
    add(&store, "a");
    add(&store, "n");
    let mut one = store.begin_on("ann", Scope::new().write("a")).unwrap();
    one.set_text("a", "x").unwrap();
    one.select(Selection::caret("n", 1)).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut other = store.begin_on("bob", Scope::new().write("n")).unwrap();
            other.set_text("n", "").unwrap();
            other.commit().unwrap();
        });
    });
    one.commit().unwrap();
    drop(store);
    assert_eq!(folder.open().version(), 4);
}

/// Once a client could create a node of the next session, which shut the document.
#[test]
fn durable_03_ids_of_clients_in_any_session_do_not_stop_an_open() {
    let folder = Folder::new();
    for _ in 0..3 {
        let store = folder.open();
        let id = store.generate_id().unwrap().to_string();
        let session: u32 = id.split_once(':').unwrap().0.parse().unwrap();
        let (step, last) = (0x9E37_79B9_u32, u64::MAX);
        for session in [0, 1, session.wrapping_add(1), session.wrapping_add(step)] {
            let id = format!("{session}:{last}");
            if !store.snapshot().contains(&*id) {
                add(&store, &id);
            }
        }
        drop(store);
    }
    let store = folder.open();
    assert!(store.generate_id().is_some());
}

#[test]
fn the_progress_of_an_open_ends_with_the_number_of_nodes_and_of_commits() {
    let memory = Memory::default();
    let store = memory.open(DurableOptions::new());
    for id in ["a", "b", "c"] {
        add(&store, id);
    }
    store.close().unwrap();
    let store = memory.open(DurableOptions::new());
    add(&store, "d");
    add(&store, "e");
    let ended = memory.copy();
    let (sender, reached) = std::sync::mpsc::channel();
    let options = DurableOptions::new().progress(move |reached| sender.send(reached).unwrap());
    drop(ended.open(options));
    let expected = [OpenProgress::Nodes(3), OpenProgress::Commits(2)];
    assert_eq!(reached.try_iter().collect::<Vec<_>>(), expected);
}

/// An imported document is whole in the first write, with its version and its detached nodes.
#[test]
fn a_new_file_begins_with_an_imported_document_and_an_existing_one_is_refused() {
    let other = DataStore::new();
    let editor = Editor::new(other.clone(), "ann");
    let list = element("list", [text_node("item", "one").with_id("one")]).with_id("list");
    editor
        .execute([create(list), set_root().on("list")])
        .unwrap();
    editor
        .execute(create(text_node("paragraph", "detached")))
        .unwrap();
    let document = other.snapshot();
    let import = || DurableOptions::new().document(document.clone());

    let memory = Memory::default();
    let store = memory.open(import());
    assert_eq!(
        (
            store.version(),
            store.durable_snapshot().map(|it| it.version())
        ),
        (2, Some(2))
    );
    let ended = memory.copy().open(DurableOptions::new());
    assert_eq!((ended.version(), ended.snapshot()), (2, document.clone()));
    assert_eq!(ended.snapshot().root(), document.root());
    assert_eq!(add(&ended, "next"), 3);
    // Its leases, numbers and sessions are those of a store of its own.
    let ids = [&other, &store, &ended].map(|store| store.generate_id().unwrap().to_string());
    let sessions: HashSet<_> = ids.iter().map(|id| id.split_once(':').unwrap().0).collect();
    assert_eq!(sessions.len(), 3, "{ids:?}");
    let exists = DataStore::open_journal(memory.copy(), import());
    assert_eq!(exists.unwrap_err(), OpenError::Exists);

    let folder = Folder::new();
    drop(folder.open_with(import()));
    let exists = DataStore::open_with(folder.path(), import());
    assert_eq!(exists.unwrap_err(), OpenError::Exists);
    assert_eq!(folder.open().snapshot(), document);
}

/// An imported document has the tokens of its store, which may have been opened often.
#[test]
fn durable_03_no_token_returns_after_an_import() {
    let exporter = Memory::default();
    let mut exported = Snapshot::default();
    for nth in 0..5 {
        let store = exporter.open(DurableOptions::new());
        add(&store, &format!("{nth}"));
        exported = store.snapshot();
    }
    let mut memory = Memory::default();
    let mut last = 0;
    for nth in 0..3 {
        let options = DurableOptions::new();
        let store = memory.open(match nth {
            0 => options.document(exported.clone()),
            _ => options,
        });
        let lease = store
            .leases()
            .acquire("x", "ann", Duration::from_secs(9))
            .unwrap();
        let token = lease.fencing_token().get();
        assert!(token > last, "{token} after {last}");
        last = token;
        lease.release().unwrap();
        // No commit has recorded it.
        memory = memory.copy();
    }
}

/// The largest numbers of an imported document leave room for those of its file.
#[test]
fn a_document_with_the_largest_numbers_can_be_opened_again_after_an_import() {
    let mut form = serde_json::to_value(Snapshot::default()).unwrap();
    for path in ["/version", "/tokens/lock", "/tokens/lease", "/tokens/claim"] {
        *form.pointer_mut(path).unwrap() = (u64::MAX / 2).into();
    }
    let imported: Snapshot = serde_json::from_value(form).unwrap();
    let memory = Memory::default();
    let mut options = DurableOptions::new().document(imported);
    let mut version = u64::MAX / 2;
    let mut last_token = 0;
    for id in ["a", "b", "c"] {
        let store = DataStore::open_journal(memory.clone(), options).unwrap();
        assert_eq!(store.version(), version);
        version = add(&store, id);
        let lease = store
            .leases()
            .acquire("x", "ann", Duration::from_secs(9))
            .unwrap();
        let token = lease.fencing_token().get();
        assert!(token > last_token, "{token} after {last_token}");
        last_token = token;
        lease.release().unwrap();
        store.close().unwrap();
        options = DurableOptions::new();
    }
}

/// An open of a journal without epochs has the next number.
#[test]
fn cluster_01_the_epoch_of_a_token_is_that_of_the_journal_and_only_rises() {
    let memory = Memory::default();
    let mut last = 0;
    for (epoch, expected) in [
        (None, 1),
        (Some(7), 7),
        (None, 8),
        // It does not fall, whatever the journal reports.
        (Some(3), 9),
        (Some(9), 10),
        (Some(LARGEST_EPOCH), LARGEST_EPOCH),
    ] {
        memory.set_epoch(epoch);
        let store = memory.open(DurableOptions::new());
        let lease = store
            .leases()
            .acquire("x", "ann", Duration::from_secs(9))
            .unwrap();
        let guard = store.lock("ann").unwrap();
        for token in [lease.fencing_token(), guard.fencing_token()] {
            assert_eq!(token.epoch(), expected, "{epoch:?}");
            assert!(token.get() > last);
        }
        last = lease.fencing_token().max(guard.fencing_token()).get();
        drop(guard);
        lease.release().unwrap();
        drop(store);
        memory.set_epoch(None);
    }
    let before = memory.stored().entries.clone();
    let error = DataStore::open_journal(memory.clone(), DurableOptions::new()).unwrap_err();
    let expected = OpenError::EpochTooLarge {
        epoch: LARGEST_EPOCH + 1,
        largest: LARGEST_EPOCH,
    };
    assert_eq!(error, expected);
    for epoch in [LARGEST_EPOCH + 1, u64::MAX] {
        let new = Memory::default();
        new.set_epoch(Some(epoch));
        let error = DataStore::open_journal(new, DurableOptions::new()).unwrap_err();
        let largest = LARGEST_EPOCH;
        assert_eq!(error, OpenError::EpochTooLarge { epoch, largest });
    }
    assert_eq!(memory.stored().entries, before);
}
