//! When calls return.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use doclock::durable::{
    Durability, DurabilityError, DurableOptions, Journal, JournalError, JournalErrorKind,
    JournalWrite, StoredPart,
};
use doclock::lock::{AcquireOptions, CancelToken};
use doclock::transaction::Hooks;
use doclock::{DataStore, Editor, TransactionManager, View, codes::CodedError, dsl::*};

use crate::memory::Memory;
use crate::{Folder, add, later, parts};

/// A journal in memory, whose writes end when the test says so.
struct Gate {
    begun: mpsc::Sender<JournalWrite>,
    end: mpsc::Receiver<()>,
}

pub(crate) struct GateKeeper {
    begun: mpsc::Receiver<JournalWrite>,
    end: mpsc::Sender<()>,
}

impl Journal for Gate {
    fn load(
        &mut self,
        _: &mut dyn FnMut(StoredPart<'_>) -> Result<(), JournalError>,
    ) -> Result<(), JournalError> {
        Ok(())
    }

    fn write(&mut self, write: &JournalWrite) -> Result<(), JournalError> {
        // Without a keeper, all writes end at once.
        if self.begun.send(write.clone()).is_ok() {
            let _ = self.end.recv();
        }
        Ok(())
    }
}

impl GateKeeper {
    /// Waits for the next write, and returns the versions of its commits.
    pub(crate) fn begun(&self) -> Vec<u64> {
        let Some((_, block)) = self.begun.recv().unwrap().block else {
            return Vec::new();
        };
        // A commit has the difference to the version of the commit before.
        let block = parts::tree(&block);
        let commits = block[0].as_array().unwrap().iter();
        let versions = commits.scan(0, |version, commit| {
            *version += commit[2].as_u64().unwrap();
            Some(*version)
        });
        versions.collect()
    }

    pub(crate) fn end(&self) {
        self.end.send(()).unwrap();
    }
}

pub(crate) fn gate(options: DurableOptions) -> (DataStore, GateKeeper) {
    let (begun_sender, begun) = mpsc::channel();
    let (end, end_receiver) = mpsc::channel();
    let gate = Gate {
        begun: begun_sender,
        end: end_receiver,
    };
    // The open writes the head.
    end.send(()).unwrap();
    let store = DataStore::open_journal(gate, options).unwrap();
    let keeper = GateKeeper { begun, end };
    assert!(keeper.begun().is_empty());
    (store, keeper)
}

/// Every way to commit returns only when its write has ended, and holds no lock meanwhile.
#[test]
fn durable_01_every_way_to_commit_waits_for_its_write_without_the_lock() {
    let (store, keeper) = gate(DurableOptions::new());
    let manager = TransactionManager::new(store.clone());
    let editor = Editor::new(store.clone(), "ann");
    let node = |id: &str| create(text_node("paragraph", id).with_id(id));
    let by_hand = || {
        let mut transaction = store.begin("by hand").unwrap();
        transaction.set_text("a", "by hand").unwrap();
        transaction.commit().unwrap().version
    };
    let once = || {
        let options = AcquireOptions::new();
        manager
            .transaction(node("c"))
            .idempotent("key")
            .options(options)
            .commit()
            .unwrap()
            .version
    };
    let on_nodes = || {
        let manager = manager.clone().with_node_locks(3);
        manager
            .execute(insert_text(0, "x").on("a"))
            .unwrap()
            .version
    };
    let under_a_lock = || {
        let id = store.acquire_lock("window").unwrap();
        let result = manager.execute_under(id, insert_text(0, "x").on("a"));
        store.release_lock(id).unwrap();
        result.unwrap().version
    };
    let ways: [(&str, &(dyn Fn() -> u64 + Sync)); 8] = [
        ("execute", &|| manager.execute(node("a")).unwrap().version),
        ("editor", &|| editor.execute(node("b")).unwrap().version),
        ("undo", &|| editor.undo().commit().unwrap().version),
        ("redo", &|| editor.redo().commit().unwrap().version),
        ("by hand", &by_hand),
        ("once", &once),
        ("on nodes", &on_nodes),
        ("under a lock", &under_a_lock),
    ];
    for (nth, (name, commit)) in ways.into_iter().enumerate() {
        let version = nth as u64 + 1;
        thread::scope(|scope| {
            let commit = scope.spawn(commit);
            assert_eq!(keeper.begun(), [version], "{name}");
            assert_eq!(store.version(), version);
            assert_eq!(
                store.durable_snapshot().map(|it| it.version()),
                Some(version - 1)
            );
            if name != "under a lock" {
                // Published before it is released.
                let free = store.lock("test").map(drop);
                assert_eq!(free, Ok(()), "{name} waits with the lock");
            }
            let waits = !commit.is_finished();
            keeper.end();
            assert!(waits, "{name} has not waited");
            assert_eq!(commit.join().unwrap(), version, "{name}");
            assert_eq!(
                store.durable_snapshot().map(|it| it.version()),
                Some(version)
            );
        });
    }
    drop(keeper);
}

/// A repetition is an acknowledgement as well.
#[test]
fn durable_01_a_repeated_transaction_waits_for_the_write_of_the_first() {
    let (store, keeper) = gate(DurableOptions::new());
    let manager = TransactionManager::new(store.clone());
    let once = || {
        let node = create(text_node("paragraph", "a"));
        let result = manager.transaction(node).idempotent("key").commit();
        result.unwrap().repeated
    };
    thread::scope(|scope| {
        let first = scope.spawn(once);
        assert_eq!(keeper.begun(), [1]);
        let again = scope.spawn(once);
        assert!(!first.is_finished() && !again.is_finished());
        keeper.end();
        assert!(!first.join().unwrap());
        assert!(again.join().unwrap());
    });
    drop(keeper);
}

#[test]
fn commits_that_arrive_during_a_write_are_the_next_write() {
    let (store, keeper) = gate(DurableOptions::new());
    thread::scope(|scope| {
        scope.spawn(|| add(&store, "first"));
        assert_eq!(keeper.begun(), [1]);
        for nth in 0..8 {
            let store = &store;
            scope.spawn(move || add(store, &format!("{nth}")));
        }
        while store.version() < 9 {
            thread::yield_now();
        }
        keeper.end();
        assert_eq!(keeper.begun(), (2..=9).collect::<Vec<_>>());
        keeper.end();
    });
    drop(keeper);
    let report = store.close().unwrap();
    assert_eq!((report.commits, report.writes), (9, 2));
}

/// The other writes were counted as well.
#[test]
fn the_report_of_a_close_counts_the_writes_that_have_commits() {
    let memory = Memory::default();
    let store = memory.open(DurableOptions::new());
    add(&store, "a");
    // Written before the close returns, if not before.
    let lease = store.leases().acquire("a", "ann", Duration::from_secs(60));
    lease.unwrap().release().unwrap();
    let report = store.close().unwrap();
    assert_eq!((report.commits, report.writes), (1, 1));
}

#[test]
fn a_later_commit_returns_before_its_write_and_can_be_waited_for() {
    let (store, keeper) = gate(later());
    let version = add(&store, "a");
    assert_eq!(keeper.begun(), [1]);
    let timeout = Duration::from_millis(5);
    let error = store
        .wait_durable(version)
        .timeout(timeout)
        .wait()
        .unwrap_err();
    let expected = "version 1 is not durable after 5ms: version 0 is";
    assert_eq!(error.to_string(), expected);
    keeper.end();
    assert_eq!(store.wait_durable(version).wait(), Ok(1));
    let strict = TransactionManager::new(store.clone()).with_durability(Durability::Durable);
    thread::scope(|scope| {
        let commit = scope.spawn(|| strict.execute(insert_text(0, "x").on("a")).unwrap());
        assert_eq!(keeper.begun(), [2]);
        assert!(!commit.is_finished());
        keeper.end();
    });
    drop(keeper);
    store.close().unwrap();
    let closed = DurabilityError::Closed { durable_version: 2 };
    assert_eq!(store.wait_durable(3).wait(), Err(closed));
    let in_memory = DataStore::new();
    assert_eq!(in_memory.durable_snapshot().map(|it| it.version()), None);
    assert_eq!(
        in_memory.wait_durable(0).wait(),
        Err(DurabilityError::NotDurable)
    );
}

/// A token ends a wait for the disk as it ends a wait for the lock: of a thread, of a task, and at
/// once if it is cancelled already.
#[test]
fn a_cancelled_token_ends_a_wait_for_the_disk() {
    let (store, keeper) = gate(later());
    let version = add(&store, "a");
    assert_eq!(keeper.begun(), [1]);
    let cancelled = Err(DurabilityError::Cancelled {
        version: 1,
        durable_version: 0,
    });
    let token = CancelToken::new();
    let wait = || store.wait_durable(version).cancel_token(&token);
    thread::scope(|scope| {
        let waits = scope.spawn(|| wait().wait());
        let task = wait().into_future();
        let task = scope.spawn(|| pollster::block_on(task));
        while store.diagnostics().durable.unwrap().waiting_calls != 2 {
            thread::yield_now();
        }
        token.cancel();
        assert_eq!(waits.join().unwrap(), cancelled);
        assert_eq!(task.join().unwrap(), cancelled);
    });
    assert_eq!(wait().wait(), cancelled);
    keeper.end();
    assert_eq!(store.wait_durable(version).wait(), Ok(1));
    assert_eq!(wait().wait(), Ok(1), "it need not wait");
    drop(keeper);
    store.close().unwrap();
}

/// Each call can say that it does not wait, and the snapshot of what is durable stays behind.
#[test]
fn a_single_call_returns_before_its_write_if_it_says_so() {
    let (store, keeper) = gate(DurableOptions::new());
    let editor = Editor::new(store.clone(), "ann");
    let note = create(text_node("paragraph", "a").with_id("a"));
    let batch = transaction(&editor, note).durability(Durability::Later);
    assert_eq!(batch.commit().unwrap().version, 1);
    assert_eq!(keeper.begun(), [1]);
    let mut by_hand = store.begin("bob").unwrap();
    by_hand.set_text("a", "b").unwrap();
    assert_eq!(by_hand.commit_with(Durability::Later).unwrap().version, 2);
    assert_eq!(store.durable_snapshot().unwrap().version(), 0);
    keeper.end();
    assert_eq!(keeper.begun(), [2]);
    let durable = store.durable_snapshot().unwrap();
    assert_eq!(
        (durable.version(), durable.text_of("a").unwrap()),
        (1, "a".into())
    );
    assert_eq!(store.snapshot().text_of("a").unwrap(), "b");
    keeper.end();
    drop(keeper);
    assert_eq!(store.wait_durable(2).wait(), Ok(2));
    assert_eq!(store.durable_snapshot().unwrap(), store.snapshot());
    assert_eq!(
        DataStore::new().durable_snapshot().map(|it| it.version()),
        None
    );
}

/// After-hooks may send what they see to other programs.
#[test]
fn after_hooks_run_when_the_commit_is_durable() {
    let folder = Folder::new();
    let store = folder.open();
    let hooks = Hooks::new();
    let seen = store.clone();
    hooks.after(move |result| {
        assert_eq!(
            seen.durable_snapshot().map(|it| it.version()),
            Some(result.version)
        )
    });
    let manager = TransactionManager::new(store.clone()).with_hooks(hooks);
    for nth in 0..20 {
        let node = create(text_node("paragraph", nth.to_string()));
        let result = manager.execute(node).unwrap();
        assert!(
            result.hook_failures.is_empty(),
            "{:?}",
            result.hook_failures
        );
    }
}

/// Requests wait for the journal before they request the lock.
#[test]
fn requests_wait_when_too_many_bytes_are_unwritten() {
    let (store, keeper) = gate(later().unwritten_limit(0));
    add(&store, "a");
    assert_eq!(keeper.begun(), [1]);
    // The first commit is being written, so it is not unread any more.
    add(&store, "b");
    let refused = store
        .request("ann")
        .options(AcquireOptions::new().no_wait())
        .wait();
    let refused = refused.unwrap_err();
    assert_eq!(refused.code(), "lockWouldBlock");
    // The program has no subscriber.
    assert!(refused.to_string().contains("disk"), "{refused}");
    assert!(!store.is_locked());
    keeper.end();
    assert_eq!(keeper.begun(), [2]);
    drop(store.lock("ann").unwrap());
    keeper.end();
    drop(keeper);
}

/// Nothing but their own calls bounds leases and receipts: they need not wait for the lock.
#[test]
fn leases_and_receipts_wait_for_the_disk_when_too_many_bytes_are_unwritten() {
    type Store = fn(&DataStore, &str);
    let lease: Store = |store, name| {
        let minute = Duration::from_secs(60);
        drop(
            store
                .leases()
                .acquire(name, "w".repeat(1_000), minute)
                .unwrap(),
        );
    };
    let renewal: Store = |store, name| {
        let minute = Duration::from_secs(60);
        let holder = store.leases().holder("form");
        let token = holder.map(|holder| holder.lease.fencing_token);
        let found = token.and_then(|token| store.leases().by_token(token));
        let lease = || {
            store
                .leases()
                .acquire("form", name.repeat(1_000), minute)
                .unwrap()
        };
        found.unwrap_or_else(lease).renew(minute).unwrap();
    };
    // A batch without a change has a receipt and no commit.
    let receipt: Store = |store, name| {
        let key = format!("{name}{}", "k".repeat(200));
        let manager = TransactionManager::new(store.clone());
        let options = AcquireOptions::new();
        let batch = manager
            .transaction(set_text("a").on("a"))
            .idempotent(key)
            .options(options)
            .commit();
        assert!(!batch.unwrap().changed);
    };
    const NOTES: usize = 300;
    for one in [lease, renewal, receipt] {
        let (store, keeper) = gate(later().unwritten_limit(20_000));
        add(&store, "a");
        assert_eq!(keeper.begun(), [1]);
        let stored = AtomicUsize::new(0);
        thread::scope(|scope| {
            scope.spawn(|| {
                for nth in 0..NOTES {
                    one(&store, &nth.to_string());
                    stored.fetch_add(1, Ordering::Relaxed);
                }
            });
            // The write has not ended, so the thread waits before it has stored all.
            let waits = || store.diagnostics().durable.unwrap().waiting_calls == 1;
            while !waits() && stored.load(Ordering::Relaxed) < NOTES {
                thread::yield_now();
            }
            let unwritten = stored.load(Ordering::Relaxed);
            drop(keeper);
            assert!(unwritten < NOTES / 2, "{unwritten} are not written");
        });
        assert_eq!(stored.into_inner(), NOTES);
        store.close().unwrap();
    }
}

/// Once it waited for its receipt, longer than its timeout.
#[test]
fn a_batch_that_is_published_waits_for_no_write() {
    let (store, keeper) = gate(later().unwritten_limit(0));
    add(&store, "a");
    assert_eq!(keeper.begun(), [1]);
    let manager = TransactionManager::new(store.clone());
    let (ends, ended) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            for (key, text) in [("changes", "x"), ("changes nothing", "x")] {
                let options = AcquireOptions::new().timeout(Duration::from_secs(10));
                let batch = [set_text(text).on("a")];
                ends.send(
                    manager
                        .transaction(batch)
                        .idempotent(key)
                        .options(options)
                        .publish(),
                )
                .unwrap();
            }
        });
        let published = ended.recv_timeout(Duration::from_secs(5));
        drop(keeper);
        let published = published.expect("it waits for the write").unwrap();
        assert_eq!(published.wait_durable(None), Ok(()));
        let unchanged = ended.recv().unwrap().unwrap();
        assert!(!unchanged.result().changed);
        assert_eq!(unchanged.wait_durable(None), Ok(()));
    });
    store.close().unwrap();
}

/// A commit beside a close is refused, or it is written: none is accepted and lost.
#[test]
fn durable_07_a_close_refuses_commits_before_it_writes_the_last_ones() {
    let (store, keeper) = gate(later());
    add(&store, "a");
    assert_eq!(keeper.begun(), [1]);
    thread::scope(|scope| {
        let close = scope.spawn(|| store.close().unwrap());
        keeper.end();
        // The checkpoint of the close.
        assert!(keeper.begun().is_empty());
        let mut transaction = store.begin("ann").unwrap();
        transaction.set_text("a", "x").unwrap();
        let refused = transaction.commit();
        keeper.end();
        assert_eq!(refused.unwrap_err().code(), "commitReadOnly");
        assert_eq!(close.join().unwrap().durable_version, 1);
    });
    assert_eq!(store.version(), 1);
}

/// A close ends although leases are renewed all the time: what comes after it began is refused.
#[test]
fn a_close_ends_beside_calls_that_take_leases_all_the_time() {
    let (store, keeper) = gate(later().checkpoint_after(usize::MAX));
    add(&store, "a");
    keeper.begun();
    let minute = Duration::from_secs(60);
    let mut lease = store.leases().acquire("a", "ann", minute).unwrap();
    thread::scope(|scope| {
        let close = scope.spawn(|| store.close().unwrap());
        let ends = (0..100_000).any(|_| {
            // Before each write ends there is a further note, until the close refuses it.
            let _ = lease.renew(minute);
            keeper.end();
            keeper.begun.recv().unwrap().block.is_none()
        });
        keeper.end();
        drop(keeper);
        assert!(ends, "the last checkpoint is not written");
        assert_eq!(close.join().unwrap().durable_version, 1);
    });
    assert_eq!(lease.renew(minute).unwrap_err().code(), "commitReadOnly");
}

/// A journal that drops a handle of a store within a write.
struct Dropping {
    handle: Arc<Mutex<Option<DataStore>>>,
    written: mpsc::Sender<u64>,
}

impl Journal for Dropping {
    fn load(
        &mut self,
        _: &mut dyn FnMut(StoredPart<'_>) -> Result<(), JournalError>,
    ) -> Result<(), JournalError> {
        Ok(())
    }

    fn write(&mut self, write: &JournalWrite) -> Result<(), JournalError> {
        drop(self.handle.lock().unwrap().take());
        let _ = self.written.send(write.version);
        Ok(())
    }
}

#[test]
fn durable_07_the_last_handle_may_be_dropped_within_a_write() {
    let handle = Arc::new(Mutex::new(None));
    let (written, versions) = mpsc::channel();
    let journal = Dropping {
        handle: Arc::clone(&handle),
        written,
    };
    let store = DataStore::open_journal(journal, later()).unwrap();
    let mut transaction = store.begin("ann").unwrap();
    transaction.create(text_node("paragraph", "")).unwrap();
    // The write waits for the handle.
    let mut last = handle.lock().unwrap();
    transaction.commit().unwrap();
    *last = Some(store);
    drop(last);
    // The open, the commit, and the checkpoint of the end.
    assert_eq!(versions.iter().collect::<Vec<_>>(), [0, 1, 1]);
}

/// A journal that fails after the open, and whose drop ends when the test says so.
struct SlowToDrop(bool, mpsc::Receiver<()>);

impl Journal for SlowToDrop {
    fn load(
        &mut self,
        _: &mut dyn FnMut(StoredPart<'_>) -> Result<(), JournalError>,
    ) -> Result<(), JournalError> {
        Ok(())
    }

    fn write(&mut self, _: &JournalWrite) -> Result<(), JournalError> {
        match std::mem::replace(&mut self.0, true) {
            false => Ok(()),
            true => Err(JournalError::new(JournalErrorKind::Io, "the disk is gone")),
        }
    }
}

impl Drop for SlowToDrop {
    fn drop(&mut self) {
        let _ = self.1.recv();
    }
}

/// It was taken for a close, which waits until the journal is gone.
#[test]
fn a_wait_for_the_largest_version_ends_when_the_journal_fails() {
    let (end, ends) = mpsc::channel();
    let store = DataStore::open_journal(SlowToDrop(false, ends), later()).unwrap();
    add(&store, "a");
    store.wait_durable(1).wait().unwrap_err();
    let wait = store
        .wait_durable(u64::MAX)
        .timeout(Duration::from_secs(20));
    let error = wait.wait().unwrap_err();
    drop(end);
    assert_eq!(error.code(), "journalFailed");
}
