//! Journals that fail: the failure is final, visible, and costs nothing that was acknowledged.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use doclock::durable::{
    Durability, DurabilityError, DurableOptions, Journal, JournalError, JournalErrorKind,
    JournalWrite, OpenError, StoredPart, check_journal,
};
use doclock::lock::AcquireOptions;
use doclock::transaction::Hooks;
use doclock::{CommitError, DataStore, TransactionManager, View, codes::CodedError, dsl::*};

use crate::memory::{Failure, Memory, Stored};
use crate::{add, later};

#[test]
fn the_journal_of_these_tests_keeps_the_contract() {
    let memory = Memory::default();
    check_journal(|| memory.clone()).unwrap();
}

/// How the `load_after` of a journal is wrong.
#[derive(Clone, Copy)]
enum Wrong {
    Block,
    Entry,
    Error,
}

struct Broken(Memory, Wrong);

impl Journal for Broken {
    fn load(
        &mut self,
        part: &mut dyn FnMut(StoredPart<'_>) -> Result<(), JournalError>,
    ) -> Result<(), JournalError> {
        self.0.load(part)
    }

    fn load_after(
        &mut self,
        block: u64,
        key: &str,
        part: &mut dyn FnMut(StoredPart<'_>) -> Result<(), JournalError>,
    ) -> Result<(), JournalError> {
        match self.1 {
            Wrong::Block => self.0.load_after(block.saturating_sub(1), key, part),
            Wrong::Entry => self.0.load_after(block, "head", part),
            Wrong::Error => {
                let _ = self.0.load_after(block, key, part);
                Ok(())
            }
        }
    }

    fn write(&mut self, write: &JournalWrite) -> Result<(), JournalError> {
        self.0.write(write)
    }
}

#[test]
fn a_journal_that_loads_other_parts_after_a_block_breaks_the_contract() {
    for (wrong, expected) in [
        (Wrong::Block, "after block 1 with the entry \"head\""),
        (Wrong::Entry, "after block 0 with the entry \"node/a\""),
        (
            Wrong::Error,
            "`load_after` does not return the error of `part`",
        ),
    ] {
        let memory = Memory::default();
        let error = check_journal(|| Broken(memory.clone(), wrong)).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn durable_05_a_failed_write_is_final_and_its_commit_unknown() {
    for failure in [Failure::Before, Failure::After, Failure::Panic] {
        let memory = Memory::default();
        let store = memory.open(DurableOptions::new());
        let subscription = store.subscribe();
        add(&store, "a");
        memory.fail_at(3, failure);
        let manager = TransactionManager::new(store.clone());
        let node = |id: &str| create(text_node("paragraph", id).with_id(id));
        let error = manager.execute(node("b")).unwrap_err();
        let cause = match failure {
            Failure::Panic => {
                let message = "the journal gives up";
                JournalError::new(JournalErrorKind::Panic, message)
            }
            _ => JournalError::new(JournalErrorKind::Io, "the disk is gone"),
        };
        assert_eq!(error.code(), "commitUnknown");
        let failed = DurabilityError::Failed {
            durable_version: 1,
            cause: cause.clone(),
        };
        assert_eq!(store.wait_durable(2).wait(), Err(failed.clone()));
        assert_eq!(store.close(), Err(failed));
        assert_eq!(store.durable_snapshot().map(|it| it.version()), Some(1));
        // The write was not tried again, and nothing further is accepted.
        assert_eq!(memory.writes(), 3);
        let refused = manager.execute(node("c")).unwrap_err();
        assert_eq!(refused.code(), "commitReadOnly");
        let mut transaction = store.begin("ann").unwrap();
        transaction.set_text("a", "x").unwrap();
        let read_only = CommitError::ReadOnly { cause: Some(cause) };
        assert_eq!(transaction.commit().unwrap_err(), read_only);
        assert_eq!(subscription.try_iter().count(), 2);
        drop((store, manager));
        // What the open finds is a version between the acknowledged and the published one.
        memory.mend();
        let store = memory.open(DurableOptions::new());
        assert_eq!(
            store.version(),
            if failure == Failure::After { 2 } else { 1 }
        );
        assert!(store.snapshot().contains("a"));
    }
}

/// Once each write in turn fails, with eight threads that wait for their commits.
#[test]
fn durable_05_no_failure_of_any_write_loses_an_acknowledged_commit() {
    for failure in [Failure::Before, Failure::After, Failure::Panic] {
        for at in 2..12 {
            let memory = Memory::default();
            let store = memory.open(DurableOptions::new().checkpoint_after(0));
            memory.fail_at(at, failure);
            let acknowledged: Vec<String> = thread::scope(|scope| {
                let threads: Vec<_> = (0..8)
                    .map(|thread| {
                        let store = store.clone();
                        scope.spawn(move || {
                            let manager = TransactionManager::new(store);
                            let ids = (0..).map(|nth| format!("{thread}-{nth}"));
                            let accepted = ids.take_while(|id| {
                                let node = text_node("paragraph", "").with_id(&**id);
                                manager.execute(create(node)).is_ok()
                            });
                            accepted.collect::<Vec<_>>()
                        })
                    })
                    .collect();
                let joined = threads.into_iter().map(|thread| thread.join().unwrap());
                joined.flatten().collect()
            });
            let published = store.version();
            drop(store);
            memory.mend();
            let store = memory.open(DurableOptions::new());
            let snapshot = store.snapshot();
            let lost = acknowledged
                .iter()
                .find(|id| !snapshot.contains(id.as_str()));
            assert_eq!(lost, None, "write {at}");
            assert_eq!(snapshot.len() as u64, snapshot.version());
            assert!((acknowledged.len() as u64..=published).contains(&snapshot.version()));
        }
    }
}

#[test]
fn durable_05_requests_do_not_wait_for_a_journal_that_failed_and_are_refused() {
    let memory = Memory::default();
    let store = memory.open(later().unwritten_limit(0));
    memory.fail_at(2, Failure::Before);
    add(&store, "a");
    assert!(store.wait_durable(1).wait().is_err());
    let mut transaction = store.begin("ann").unwrap();
    transaction.set_text("a", "x").unwrap();
    // Without a wait for the journal, only the refusal shows that the commit would be lost.
    let refused = transaction.commit().unwrap_err();
    assert_eq!(refused.code(), "commitReadOnly");
}

/// A second thread decodes its nodes.
#[test]
fn durable_06_a_damaged_node_anywhere_in_a_large_document_is_found() {
    let memory = Memory::default();
    let store = memory.open(DurableOptions::new());
    let text = "text ".repeat(5_000);
    let node = |nth| create(text_node("paragraph", &*text).with_id(format!("node {nth}")));
    let manager = TransactionManager::new(store.clone());
    manager
        .execute((0..16).map(node).collect::<Vec<_>>())
        .unwrap();
    store.close().unwrap();
    let opened = memory.copy().open(DurableOptions::new());
    assert_eq!(opened.snapshot(), store.snapshot());
    let error_of = |damage: &dyn Fn(&mut Stored)| {
        let left = memory.copy();
        damage(&mut left.stored());
        DataStore::open_journal(left, DurableOptions::new()).unwrap_err()
    };
    let keys: Vec<String> = memory.stored().entries.keys().cloned().collect();
    let nodes = keys.iter().filter(|key| key.starts_with("node/"));
    for key in nodes {
        let error = error_of(&|stored| stored.entries.get_mut(key).unwrap()[9] ^= 4);
        assert!(matches!(error, OpenError::Corrupt(_)), "{key}: {error}");
        let error = error_of(&|stored| {
            let node = stored.entries.remove(key).unwrap();
            stored.entries.insert(format!("{key}0"), node);
        });
        assert!(error.to_string().contains("another key"), "{key}: {error}");
    }
}

#[test]
fn durable_06_a_damaged_part_is_found_at_the_open() {
    let memory = Memory::default();
    let store = memory.open(DurableOptions::new());
    add(&store, "a");
    store.close().unwrap();
    drop(store);
    let store = memory.open(DurableOptions::new());
    add(&store, "b");
    add(&store, "c");
    // As if the process had ended here.
    let left = memory.copy();
    drop(store);
    type Part = fn(&mut Stored) -> &mut Vec<u8>;
    let parts: [Part; 3] = [
        |stored| stored.entries.get_mut("head").unwrap(),
        |stored| stored.entries.get_mut("node/a").unwrap(),
        |stored| stored.blocks.values_mut().next().unwrap(),
    ];
    for part in parts {
        let len = part(&mut left.stored()).len();
        for at in 0..len {
            part(&mut left.stored())[at] ^= 4;
            let error = DataStore::open_journal(left.clone(), DurableOptions::new());
            assert!(matches!(error, Err(OpenError::Corrupt(_))), "byte {at}");
            part(&mut left.stored())[at] ^= 4;
        }
    }
    type Damage = fn(&mut Stored);
    let refusals: [(Damage, &str); 4] = [
        (
            |stored| drop(stored.blocks.remove(&2)),
            "block 2 is missing: block 3 follows",
        ),
        (
            |stored| {
                let again = stored.blocks[&3].clone();
                stored.blocks.insert(4, again);
            },
            "the commit of version 4 is missing: version 3 follows",
        ),
        (
            |stored| drop(stored.entries.remove("head")),
            "the head is missing",
        ),
        (
            |stored| drop(stored.entries.insert("nod/a".into(), Vec::new())),
            "entry \"nod/a\": its key is unknown",
        ),
    ];
    for (damage, expected) in refusals {
        let damaged = left.copy();
        damage(&mut damaged.stored());
        let error = DataStore::open_journal(damaged, DurableOptions::new()).unwrap_err();
        let reason = "the document is damaged: the stored bytes are damaged:";
        assert_eq!(error.to_string(), format!("{reason} {expected}"));
    }
    assert_eq!(left.open(DurableOptions::new()).version(), 3);
}

/// Once a repetition of the key waited without end for a version that no commit makes.
#[test]
fn durable_06_a_receipt_of_a_later_version_than_the_document_is_damage() {
    let memory = Memory::default();
    let store = memory.open(DurableOptions::new());
    let manager = TransactionManager::new(store.clone());
    let node = create(text_node("paragraph", "a"));
    let options = doclock::lock::AcquireOptions::new();
    manager
        .transaction(node)
        .idempotent("key")
        .options(options)
        .commit()
        .unwrap();
    store.close().unwrap();
    let other = Memory::default();
    drop(other.open(DurableOptions::new()));
    let entries = memory.stored().entries.clone();
    let notes = entries
        .into_iter()
        .filter(|(key, _)| key.starts_with("note/"));
    other.stored().entries.extend(notes);
    let error = DataStore::open_journal(other, DurableOptions::new()).unwrap_err();
    let expected = "the document is damaged: the stored bytes are damaged: \
                    the receipt of key \"key\" is of a later version than the document";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn a_panic_of_the_progress_callback_reaches_the_caller_and_leaves_the_journal_free() {
    let memory = Memory::default();
    let store = memory.open(DurableOptions::new());
    let manager = TransactionManager::new(store.clone());
    for nth in 0..1_100 {
        let node = text_node("paragraph", "").with_id(format!("{nth}"));
        let later = manager
            .clone()
            .with_durability(doclock::durable::Durability::Later);
        later.execute(create(node)).unwrap();
    }
    store.close().unwrap();
    let options = DurableOptions::new().progress(|_| panic!("enough"));
    let opened = thread::spawn({
        let memory = memory.clone();
        move || DataStore::open_journal(memory, options).map(drop)
    });
    let panic = opened.join().unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"enough"));
    assert_eq!(memory.open(DurableOptions::new()).version(), 1_100);
}

#[test]
fn cluster_05_a_fenced_write_ends_its_commits_as_fenced_and_changes_nothing() {
    let memory = Memory::default();
    let store = memory.open(DurableOptions::new());
    add(&store, "a");
    memory.fail_at(3, Failure::Fenced);
    let manager = TransactionManager::new(store.clone());
    let node = |id: &str| create(text_node("paragraph", id).with_id(id));
    let error = manager.execute(node("b")).unwrap_err();
    assert_eq!(error.code(), "commitFenced");
    let expected = "version 2 is not stored: the journal is fenced after version 1: \
                    another owner has the document: the term has ended";
    assert_eq!(error.to_string(), expected);
    let fenced = DurabilityError::Fenced {
        durable_version: 1,
        cause: JournalError::new(JournalErrorKind::Fenced, "the term has ended"),
    };
    assert_eq!(store.wait_durable(2).wait(), Err(fenced.clone()));
    assert_eq!(
        manager.execute(node("c")).unwrap_err().code(),
        "commitReadOnly"
    );
    assert_eq!(store.close(), Err(fenced));
    assert_eq!(memory.writes(), 3);
    drop((store, manager));
    memory.mend();
    assert_eq!(memory.open(DurableOptions::new()).version(), 1);
}

/// Another failure leaves it open whether the commit is stored.
#[test]
fn cluster_05_only_a_fenced_or_refused_write_is_known_to_have_changed_nothing() {
    for (failure, code) in [
        (Failure::Before, "commitUnknown"),
        (Failure::Refused, "commitNotStored"),
        (Failure::Fenced, "commitFenced"),
    ] {
        let memory = Memory::default();
        let store = memory.open(DurableOptions::new());
        memory.fail_at(2, failure);
        let inbox = doclock::inbox::Inbox::new(&store, "inbox");
        let claim = inbox.claim(&("one", ())).unwrap();
        let mut transaction = store.begin("ann").unwrap();
        transaction.create(text_node("x", "")).unwrap();
        assert_eq!(claim.commit(transaction).unwrap_err().code(), code);
        // The delivery is not settled: the next owner handles it.
        let again = inbox.process(&("one", ()), |_, _| Ok(())).unwrap();
        assert!(!again.is_settled(), "{again:?}");
    }
}

#[test]
fn durable_05_a_published_transaction_runs_its_after_hooks_when_it_is_finished() {
    let memory = Memory::default();
    let store = memory.open(DurableOptions::new());
    let (runs, ran) = crossbeam_channel::unbounded();
    let hooks = Hooks::new();
    hooks.after(move |result| {
        runs.send(result.version).unwrap();
        assert_ne!(result.version, 2, "two is too many");
    });
    let manager = TransactionManager::new(store.clone()).with_hooks(hooks);
    let publish = |key: &str, id: &str| {
        let node = create(text_node("paragraph", id).with_id(id));
        let options = AcquireOptions::new();
        manager
            .transaction(node)
            .idempotent(key)
            .options(options)
            .publish()
            .unwrap()
    };
    let published = ["a", "b"].map(|id| publish(id, id));
    // It needs no call that waits, to be written.
    assert_eq!(store.wait_durable(2).wait(), Ok(2));
    assert_eq!(ran.try_iter().count(), 0);
    let [first, second] = published;
    assert_eq!(second.wait_durable(None), Ok(()));
    assert_eq!(second.finish().hook_failures.len(), 1);
    assert_eq!(first.finish().version, 1);
    assert_eq!(ran.try_iter().collect::<Vec<_>>(), [2, 1]);
    // Neither a repetition nor a batch without operations has hooks.
    let repeated = publish("a", "a");
    assert!(repeated.result().repeated && repeated.finish().repeated);
    let nothing: [doclock::transaction::Operation; 0] = [];
    let empty = manager.transaction(nothing).idempotent("empty").publish();
    assert_eq!(empty.unwrap().finish().version, 2);
    memory.fail_at(0, Failure::Refused);
    let lost = publish("c", "c");
    let failed = lost.wait_durable(None).unwrap_err();
    assert_eq!(failed.code(), "journalFailed");
    let again = lost.wait_durable(std::time::Duration::ZERO).unwrap_err();
    assert_eq!(again, failed);
    assert_eq!(ran.try_iter().count(), 0);
}

/// A journal that fails, and takes long to be dropped.
struct Slow {
    writes: usize,
    is_gone: Arc<AtomicBool>,
}

impl Journal for Slow {
    fn load(
        &mut self,
        _: &mut dyn FnMut(StoredPart<'_>) -> Result<(), JournalError>,
    ) -> Result<(), JournalError> {
        Ok(())
    }

    fn write(&mut self, _: &JournalWrite) -> Result<(), JournalError> {
        self.writes += 1;
        match self.writes {
            1 => Ok(()),
            _ => Err(std::io::Error::other("the disk is gone").into()),
        }
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        (0..10_000).for_each(|_| thread::yield_now());
        self.is_gone.store(true, Ordering::SeqCst);
    }
}

/// Another open of the file would find it locked.
#[test]
fn durable_07_a_close_after_a_failure_waits_until_the_journal_is_dropped() {
    // The call that commits writes itself, or a thread for journals does.
    for durability in [Durability::Durable, Durability::Later] {
        let is_gone = Arc::new(AtomicBool::new(false));
        let journal = Slow {
            writes: 0,
            is_gone: Arc::clone(&is_gone),
        };
        let store = DataStore::open_journal(journal, DurableOptions::new()).unwrap();
        let manager = TransactionManager::new(store.clone()).with_durability(durability);
        let _ = manager.execute(create(text_node("paragraph", "x")));
        assert!(store.wait_durable(1).wait().is_err());
        for _ in 0..2 {
            let closed = store.close();
            let is_failed = matches!(closed, Err(DurabilityError::Failed { .. }));
            assert!(is_failed, "{closed:?}");
            assert!(is_gone.load(Ordering::SeqCst));
        }
    }
}
