//! The log that is kept beside the checkpoint.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use doclock::durable::{DurableOptions, JournalErrorKind, OpenError};
use doclock::events::MissingCommits;
use doclock::inbox::{HandlerError, Inbox, Outcome};
use doclock::transaction::TransactionResult;
use doclock::{DataStore, Editor, StoreOptions, TransactionManager, View, dsl::*};

use crate::memory::Memory;
use crate::{Folder, add};

const ALL: usize = usize::MAX;

type Blocks = BTreeMap<u64, Vec<u8>>;

/// Options that keep so many bytes of the log in the journal and in memory.
fn kept(journal: usize, memory: usize) -> DurableOptions {
    let store = StoreOptions::new().kept_commits(memory);
    DurableOptions::new().keep_log(journal).store(store)
}

/// Commits so often, and returns the commits.
fn commits(store: &DataStore, count: usize) -> Vec<TransactionResult> {
    let editor = Editor::new(store.clone(), "ann");
    let version = store.version();
    let commits = (0..count).map(|nth| match nth % 4 {
        0 => editor.execute(create(
            text_node("x", "one").with_id(format!("{version}-{nth}")),
        )),
        1 => editor.execute(insert_text(0, "two").on(format!("{version}-{}", nth - 1))),
        2 => editor.undo().commit().map_err(|error| panic!("{error}")),
        _ => editor.redo().commit().map_err(|error| panic!("{error}")),
    });
    commits.map(Result::unwrap).collect()
}

fn since(store: &DataStore, version: u64) -> Vec<TransactionResult> {
    let commits = store.commits_since(version).unwrap();
    commits.into_iter().map(Arc::unwrap_or_clone).collect()
}

#[test]
fn durable_09_kept_commits_are_there_after_each_of_several_opens() {
    for checkpoint_after in [0, 400, ALL] {
        let memory = Memory::default();
        let options = kept(ALL, 1 << 20).checkpoint_after(checkpoint_after);
        let (mut expected, mut journal) = (Vec::new(), memory);
        for round in 0..6 {
            let store = journal.open(options.clone());
            assert_eq!(since(&store, 0), expected, "round {round}");
            expected.extend(commits(&store, 9));
            assert_eq!(since(&store, 0), expected, "round {round}");
            if round % 2 == 0 {
                store.close().unwrap();
            }
            journal = journal.copy();
        }
    }
}

#[test]
fn durable_09_the_newest_kept_commits_fit_into_the_room_of_the_store() {
    let memory = Memory::default();
    let store = memory.open(kept(ALL, 1 << 20));
    let all = commits(&store, 200);
    store.close().unwrap();
    for room in [1, 1000, 5000, 20_000] {
        let store = memory.copy().open(kept(ALL, room));
        let error = store.commits_since(0).unwrap_err();
        let MissingCommits::Removed { earliest, .. } = error else {
            panic!("{error}");
        };
        assert!(0 < earliest && earliest < 200, "{earliest}");
        assert_eq!(since(&store, earliest), all[earliest as usize..]);
    }
    // Without room nothing is put into memory.
    let store = memory.open(DurableOptions::new().keep_log(ALL));
    let error = store.commits_since(199).unwrap_err();
    assert!(matches!(
        error,
        MissingCommits::Removed { earliest: 200, .. }
    ));
    let more = commits(&store, 4);
    assert_eq!((more[0].version, store.version()), (201, 204));
}

fn size(memory: &Memory) -> usize {
    memory.stored().blocks.values().map(Vec::len).sum()
}

#[test]
fn durable_09_the_kept_log_is_bounded() {
    let memory = Memory::default();
    let mut largest = 0;
    for _ in 0..4 {
        let store = memory.open(kept(10_000, 1 << 20).checkpoint_after(2000));
        for _ in 0..50 {
            commits(&store, 4);
            largest = largest.max(size(&memory));
        }
        store.close().unwrap();
        assert!(
            (8000..=10_000).contains(&size(&memory)),
            "{}",
            size(&memory)
        );
    }
    // A checkpoint takes place after a block that exceeds its limit.
    assert!(largest < 10_000 + 2000 + 2 * 1000, "{largest}");
    memory.open(kept(3000, 0)).close().unwrap();
    assert!(size(&memory) <= 3000, "{}", size(&memory));
    memory.open(DurableOptions::new()).close().unwrap();
    assert_eq!(size(&memory), 0);
}

#[test]
fn durable_09_a_file_with_a_kept_log_does_not_grow_without_end() {
    let folder = Folder::new();
    let size_after = |rounds: usize| {
        let store = folder.open_with(kept(4000, 0).checkpoint_after(1000));
        // One node, so the document does not grow.
        let manager = TransactionManager::new(store.clone());
        if !store.snapshot().contains("a") {
            add(&store, "a");
        }
        for nth in 0..rounds {
            manager.execute(set_text(format!("{nth}")).on("a")).unwrap();
        }
        store.close().unwrap();
        drop((manager, store));
        std::fs::metadata(folder.path()).unwrap().len()
    };
    // Enough for the log to be full.
    let full = size_after(200);
    let later = size_after(800);
    assert!(later <= 2 * full, "{full}, then {later}");
}

#[test]
fn durable_09_the_document_is_the_same_with_and_without_the_kept_log() {
    let memory = Memory::default();
    let store = memory.open(kept(ALL, 1 << 20).checkpoint_after(1000));
    commits(&store, 60);
    store.close().unwrap();
    let without = memory.copy();
    without.stored().blocks.clear();
    let [with, without] = [memory, without].map(|memory| memory.open(kept(ALL, 1 << 20)));
    assert_eq!(with.snapshot(), store.snapshot());
    assert_eq!(without.snapshot(), store.snapshot());
    assert_eq!((since(&with, 0).len(), since(&without, 60).len()), (60, 0));
}

#[test]
fn durable_09_a_damaged_or_missing_kept_block_is_found_at_the_open() {
    let memory = Memory::default();
    let store = memory.open(kept(ALL, 0).checkpoint_after(200));
    commits(&store, 20);
    store.close().unwrap();
    let refused = |damage: &dyn Fn(&mut Blocks)| {
        let damaged = memory.copy();
        damage(&mut damaged.stored().blocks);
        for options in [DurableOptions::new(), kept(ALL, 1 << 20)] {
            let error = DataStore::open_journal(damaged.clone(), options).unwrap_err();
            let OpenError::Corrupt(cause) = error else {
                panic!("{error}");
            };
            assert_eq!(cause.kind, JournalErrorKind::Corrupt);
        }
    };
    let last = *memory.stored().blocks.keys().next_back().unwrap();
    assert_eq!(last, 20);
    for number in 1..=last {
        refused(&|blocks| blocks.get_mut(&number).unwrap()[40] ^= 1);
        if number > 1 {
            refused(&|blocks| drop(blocks.remove(&number)));
        }
    }
    // The oldest may be gone, as after a checkpoint with less room.
    memory.stored().blocks.remove(&1);
    assert_eq!(memory.open(kept(ALL, 0)).snapshot(), store.snapshot());
}

/// The blocks of a journal that has kept all, on an empty document.
fn only_blocks(memory: &Memory) -> Memory {
    let empty = Memory::default();
    empty.open(DurableOptions::new()).close().unwrap();
    empty.stored().blocks = memory.stored().blocks.clone();
    empty
}

#[test]
fn durable_09_a_document_rebuilt_from_its_log_is_the_same_and_handles_no_message_again() {
    let options = || kept(ALL, 1 << 20).checkpoint_after(600);
    let memory = Memory::default();
    let handle = |store: &DataStore, id: &str| {
        let effect = |transaction: &mut doclock::Draft, message: &(String, ())| {
            let node = text_node("x", "paid").with_id(message.0.as_str());
            transaction.create(node).map_err(HandlerError::poison)?;
            Ok(())
        };
        let message = (id.to_owned(), ());
        Inbox::new(store, "payments").process(&message, effect)
    };
    let once = |store: &DataStore, key: &str| {
        let manager = TransactionManager::new(store.clone());
        let node = create(text_node("x", "").with_id(key));
        manager.transaction(node).idempotent(key).commit()
    };
    for round in 0..4 {
        let store = memory.open(options());
        commits(&store, 20);
        for nth in 0..5 {
            let outcome = handle(&store, &format!("message {round}-{nth}")).unwrap();
            assert!(matches!(outcome, Outcome::Done { .. }));
            once(&store, &format!("key {round}-{nth}")).unwrap();
        }
        let lease = store
            .leases()
            .acquire("x", "ann", Duration::from_secs(60))
            .unwrap();
        lease.release().unwrap();
        store.close().unwrap();
    }
    let stored = memory.open(options());
    let rebuilt = only_blocks(&memory).open(options());
    assert_eq!(rebuilt.snapshot(), stored.snapshot());
    assert_eq!(since(&rebuilt, 0), since(&stored, 0));
    assert_eq!(rebuilt.version(), 4 * 30);
    for round in 0..4 {
        for nth in 0..5 {
            let outcome = handle(&rebuilt, &format!("message {round}-{nth}")).unwrap();
            assert!(matches!(outcome, Outcome::Duplicate), "{outcome:?}");
            let key = format!("key {round}-{nth}");
            let [again, expected] = [&rebuilt, &stored].map(|it| once(it, &key).unwrap());
            assert_eq!(again, expected);
            assert!(again.repeated);
        }
    }
    assert_eq!(rebuilt.version(), 4 * 30);
    // A new message has its effect.
    let outcome = handle(&rebuilt, "new").unwrap();
    assert!(matches!(outcome, Outcome::Done { .. }));
}
