//! Races of a durable store: acknowledgement, close, a closed lock, failure, snapshots, notes, end.
//!
//! Each store has a journal in memory. Where a model does not say otherwise, the thread of the
//! journal writes, and so does a submitter that waits alone.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use crossbeam_channel::TryRecvError;
use doclock::durable::{
    Durability, DurabilityError, DurableOptions, Journal, JournalError, JournalErrorKind,
    JournalWrite, StoredPart,
};
use doclock::time::ManualClock;
use doclock::{
    CommitError, DataStore, StoreOptions, TransactionManager, View, codes::CodedError,
    document::NodeSpec, dsl::*,
};
use loom::sync::mpsc;
use loom::thread::{self, JoinHandle};

use crate::model::{Actor, Model};

/// A journal in memory, of which loom sees nothing.
#[derive(Clone, Default)]
pub(crate) struct Memory(Arc<Mutex<Stored>>);

#[derive(Clone, Default)]
struct Stored {
    entries: BTreeMap<String, Vec<u8>>,
    blocks: BTreeMap<u64, Vec<u8>>,
    /// The version of the last write.
    version: u64,
    writes: usize,
    /// The write that fails, with all later ones.
    fails_at: Option<usize>,
    /// What was stored after each block.
    history: Vec<Stored>,
    /// The threads that wrote a block.
    threads: Vec<thread::ThreadId>,
}

impl Journal for Memory {
    fn load(
        &mut self,
        part: &mut dyn FnMut(StoredPart<'_>) -> Result<(), JournalError>,
    ) -> Result<(), JournalError> {
        let stored = self.stored().clone();
        for (key, bytes) in &stored.entries {
            part(StoredPart::Entry { key, bytes })?;
        }
        for (number, bytes) in &stored.blocks {
            let number = *number;
            part(StoredPart::Block { number, bytes })?;
        }
        Ok(())
    }

    fn write(&mut self, write: &JournalWrite) -> Result<(), JournalError> {
        let mut stored = self.stored();
        stored.writes += 1;
        if stored.fails_at.is_some_and(|at| at <= stored.writes) {
            return Err(JournalError::new(JournalErrorKind::Io, "the disk is gone"));
        }
        for (key, entry) in write.entries.clone() {
            match entry {
                Some(entry) => drop(stored.entries.insert(key, entry)),
                None => drop(stored.entries.remove(&key)),
            }
        }
        if let Some(removed) = write.removed_through {
            stored.blocks.retain(|number, _| *number > removed);
        }
        stored.version = write.version;
        if write.block.is_some() {
            stored.blocks.extend(write.block.clone());
            stored.threads.push(thread::current().id());
            let state = Stored {
                entries: stored.entries.clone(),
                blocks: stored.blocks.clone(),
                ..Stored::default()
            };
            stored.history.push(state);
        }
        Ok(())
    }
}

impl Memory {
    fn stored(&self) -> MutexGuard<'_, Stored> {
        self.0.lock().unwrap()
    }

    fn open(&self, options: DurableOptions) -> DataStore {
        let in_memory = StoreOptions::new().lock_timeout(None);
        DataStore::open_journal(self.clone(), options.store(in_memory)).unwrap()
    }

    /// The last version that is stored.
    fn version(&self) -> u64 {
        self.stored().version
    }

    /// What is stored at the end, as a store. Its journal has no thread.
    fn reopen(&self) -> DataStore {
        let end = self.stored().clone();
        Self(Arc::new(Mutex::new(end))).open(DurableOptions::new())
    }
}

fn later() -> DurableOptions {
    DurableOptions::new().durability(Durability::Later)
}

/// Adds a node, so that a document has as many nodes as its version says.
fn add(store: &DataStore, durability: Durability) -> Result<u64, CommitError> {
    let mut transaction = store.begin("writer").unwrap();
    transaction.create(NodeSpec::new("node")).unwrap();
    let result = transaction.commit_with(durability)?;
    Ok(result.version)
}

/// Adds a node and checks the acknowledgement. Returns whether the commit was accepted.
fn add_unless_closed(store: &DataStore, memory: &Memory, durability: Durability) -> bool {
    match add(store, durability) {
        Ok(version) => {
            let is_stored = memory.version() >= version;
            assert!(is_stored || durability == Durability::Later, "not written");
            true
        }
        Err(CommitError::ReadOnly { cause: None }) => false,
        Err(other) => panic!("{other}"),
    }
}

fn run_journal(store: &DataStore) -> JoinHandle<()> {
    thread::spawn(store.journal_thread())
}

/// Each commit is refused, or acknowledged and written; a close ends when all are.
#[test]
fn durable_a_close_beside_two_acknowledgements_refuses_or_writes() {
    Model::new("durable: acknowledgement against close", 2)
        .reaches(["none accepted"])
        .reaches_by("writers", "one accepted")
        .reaches_by("writers", "both accepted")
        .reaches_by("writers", "written by a submitter")
        .check(|run| {
            let memory = Memory::default();
            let store = memory.open(DurableOptions::new());
            let journal = run_journal(&store);
            let thread = journal.thread().id();
            let writers = [Durability::Durable, Durability::Durable].map(|durability| {
                let (store, memory) = (store.clone(), memory.clone());
                run.spawn("writers", move || {
                    add_unless_closed(&store, &memory, durability)
                })
            });
            let report = store.close().unwrap();
            journal.join().unwrap();
            assert_eq!(report.durable_version, memory.version());
            let accepted = writers.into_iter().filter_map(Actor::join);
            let accepted = accepted.filter(|accepted| *accepted).count();
            assert_eq!(report.durable_version, accepted as u64);
            if memory.stored().threads.iter().any(|id| *id != thread) {
                run.note("written by a submitter");
            }
            run.note(["none accepted", "one accepted", "both accepted"][accepted]);
        });
}

/// A commit that does not wait is written before the close ends, if it was accepted.
#[test]
fn durable_a_close_writes_a_later_commit_that_it_does_not_refuse() {
    Model::new("durable: later commit against close", 2)
        .reaches(["none accepted"])
        .reaches_by("later", "only the later one")
        .reaches_by("strict", "only the strict one")
        .reaches_by("later", "both accepted")
        .check(|run| {
            let memory = Memory::default();
            let store = memory.open(DurableOptions::new());
            let journal = run_journal(&store);
            let writer = |actor, durability| {
                let (store, memory) = (store.clone(), memory.clone());
                run.spawn(actor, move || {
                    add_unless_closed(&store, &memory, durability)
                })
            };
            let later = writer("later", Durability::Later);
            let strict = writer("strict", Durability::Durable);
            let report = store.close().unwrap();
            journal.join().unwrap();
            assert_eq!(report.durable_version, memory.version());
            let accepted = [later, strict].map(|writer| writer.join().unwrap_or_default());
            let count = accepted.iter().filter(|accepted| **accepted).count();
            assert_eq!(memory.version(), count as u64);
            run.note(match accepted {
                [false, false] => "none accepted",
                [true, false] => "only the later one",
                [false, true] => "only the strict one",
                [true, true] => "both accepted",
            });
        });
}

/// The receipt of a transaction that changes nothing is stored as well, if it was accepted.
#[test]
fn durable_a_close_stores_a_receipt_without_a_commit_that_it_does_not_refuse() {
    Model::new("durable: receipt without a commit against close", 2)
        .reaches(["refused"])
        .reaches_by("keyed", "accepted")
        .check(|run| {
            let memory = Memory::default();
            let store = memory.open(later());
            let mut transaction = store.begin("setup").unwrap();
            let node = text_node("paragraph", "a").with_id("a");
            transaction.create(node).unwrap();
            transaction.commit().unwrap();
            let journal = run_journal(&store);
            let nothing = |store: &DataStore| {
                let manager = TransactionManager::new(store.clone());
                let batch = set_text("a").on("a");
                let result = manager.transaction(batch).idempotent("key").commit();
                result.map(|result| result.repeated)
            };
            let keyed = {
                let store = store.clone();
                run.spawn("keyed", move || nothing(&store).is_ok())
            };
            let writer = {
                let (store, memory) = (store.clone(), memory.clone());
                thread::spawn(move || add_unless_closed(&store, &memory, Durability::Later))
            };
            store.close().unwrap();
            journal.join().unwrap();
            writer.join().unwrap();
            let accepted = keyed.join() == Some(true);
            let is_stored = nothing(&memory.reopen()).unwrap();
            assert_eq!(is_stored, accepted, "an accepted receipt is not stored");
            run.note(if accepted { "accepted" } else { "refused" });
        });
}

/// Requests that wait for the journal all go on, and the lock is open at the end.
#[test]
fn durable_requests_at_the_closed_lock_go_on_when_the_journal_has_read() {
    Model::new("durable: closed lock against drain", 2)
        .reaches(["without a wait"])
        .reaches_by("requests", "after a wait")
        .check(|run| {
            let memory = Memory::default();
            let store = memory.open(later().unwritten_limit(0));
            // It closes the lock.
            add(&store, Durability::Later).unwrap();
            let journal = run_journal(&store);
            let requests = [(), ()].map(|()| {
                let store = store.clone();
                run.spawn("requests", move || add(&store, Durability::Later).unwrap())
            });
            let count = requests.into_iter().filter_map(Actor::join).count() as u64;
            let version = 1 + count;
            assert_eq!(store.wait_durable(version).wait(), Ok(version));
            assert_eq!(memory.version(), version);
            drop(store.try_lock("test").expect("the lock is open"));
            let has_waited = store.has_waited();
            assert_eq!(store.diagnostics().lock.closed_by, None);
            store.close().unwrap();
            journal.join().unwrap();
            run.note(match has_waited {
                true => "after a wait",
                false => "without a wait",
            });
        });
}

/// After a failed write nothing is written, no commit is accepted, and no call waits.
#[test]
fn durable_a_failed_write_answers_every_waiter_and_is_the_last() {
    Model::new("durable: failure against waiters", 2)
        .reaches(["no commit failed"])
        .reaches_by("others", "one unknown")
        .reaches_by("others", "two unknown")
        .reaches_by("others", "one refused")
        .check(|run| {
            let memory = Memory::default();
            // The open writes first, then come the blocks.
            memory.stored().fails_at = Some(3);
            let store = memory.open(DurableOptions::new());
            let journal = run_journal(&store);
            let submit = |store: &DataStore, memory: &Memory| {
                let result = add(store, Durability::Durable);
                match &result {
                    Ok(version) => assert!(memory.version() >= *version),
                    Err(CommitError::Unknown { .. } | CommitError::ReadOnly { cause: Some(_) }) => {
                    }
                    Err(other) => panic!("{other:?}"),
                }
                result
            };
            let others = [(), ()].map(|()| {
                let (store, memory) = (store.clone(), memory.clone());
                run.spawn("others", move || submit(&store, &memory))
            });
            let mut results = vec![submit(&store, &memory)];
            results.extend(others.into_iter().filter_map(Actor::join));
            let failed = results.iter().filter_map(|result| result.as_ref().err());
            let unknown = failed
                .clone()
                .filter(|error| error.code() == "commitUnknown");
            let (unknown, failed) = (unknown.count(), failed.count());
            // It ends by itself, or with the checkpoint, which fails.
            let mut journal = Some(journal);
            if failed > 0 {
                journal.take().map(JoinHandle::join);
            }
            let closed = store.close();
            assert!(matches!(closed, Err(DurabilityError::Failed { .. })));
            let refused = add(&store, Durability::Later);
            assert!(matches!(refused, Err(CommitError::ReadOnly { .. })));
            journal.take().map(JoinHandle::join);
            assert_eq!(memory.stored().writes, 3, "a write after one that failed");
            let durable = store.durable_snapshot().map(|it| it.version());
            for result in &results {
                if let Err(CommitError::Unknown { version, .. }) = result {
                    assert!(durable < Some(*version));
                }
            }
            if failed > unknown {
                run.note("one refused");
            }
            match unknown {
                0 => run.note("no commit failed"),
                1 => run.note("one unknown"),
                _ => run.note("two unknown"),
            }
        });
}

/// What is durable is between what was durable before and what is newest after, and whole.
#[test]
fn durable_a_reader_finds_the_durable_document_at_most_as_new_as_the_newest() {
    Model::new("durable: durable against newest snapshot", 2)
        .reaches(["nothing yet"])
        .reaches_by("writers", "durable behind newest")
        .reaches_by("writers", "durable and newest")
        .check(|run| {
            let memory = Memory::default();
            let store = memory.open(DurableOptions::new());
            let events = store.subscription().durable().all();
            let journal = run_journal(&store);
            let writers = [Durability::Later, Durability::Durable].map(|durability| {
                let store = store.clone();
                run.spawn("writers", move || add(&store, durability).unwrap())
            });
            let before = store.durable_snapshot().map(|it| it.version()).unwrap();
            let durable = store.durable_snapshot().unwrap();
            let feed = store
                .subscription()
                .durable()
                .after(durable.version())
                .unwrap();
            let newest = store.snapshot();
            assert!(before <= durable.version());
            assert!(durable.version() <= newest.version());
            for snapshot in [&durable, &newest] {
                assert_eq!(snapshot.len() as u64, snapshot.version());
            }
            let received = events.try_iter().last();
            let received = received.map_or(0, |event| event.commit.version);
            assert!(
                received <= memory.version(),
                "received before it is durable"
            );
            assert!(Some(received) <= store.durable_snapshot().map(|it| it.version()));
            run.note(match (durable.version(), newest.version()) {
                (_, 0) => "nothing yet",
                (durable, newest) if durable < newest => "durable behind newest",
                _ => "durable and newest",
            });
            for writer in writers {
                writer.join();
            }
            store.close().unwrap();
            journal.join().unwrap();
            let fed = feed.try_iter().map(|event| event.commit.version);
            let all = store.version();
            assert!(fed.eq(durable.version() + 1..=all), "a gap in the feed");
        });
}

/// A journal that reports each block, so that a model can wait without a call.
struct Reporting(Memory, mpsc::Sender<u64>);

impl Journal for Reporting {
    fn load(
        &mut self,
        part: &mut dyn FnMut(StoredPart<'_>) -> Result<(), JournalError>,
    ) -> Result<(), JournalError> {
        self.0.load(part)
    }

    fn write(&mut self, write: &JournalWrite) -> Result<(), JournalError> {
        self.0.write(write)?;
        if write.block.is_some() {
            self.1.send(write.version).unwrap();
        }
        Ok(())
    }
}

/// The thread finds each commit, also one that comes when it goes to sleep.
#[test]
fn durable_a_thread_that_goes_to_sleep_overlooks_no_commit() {
    Model::new("durable: commit against sleep", 3)
        .reaches(["each alone"])
        .reaches_by("other", "both in one block")
        .check(|run| {
            let (reports, written) = mpsc::channel();
            let memory = Memory::default();
            let journal = Reporting(memory.clone(), reports);
            let options = later().store(StoreOptions::new().lock_timeout(None));
            let store = DataStore::open_journal(journal, options).unwrap();
            let journal = run_journal(&store);
            let other = {
                let store = store.clone();
                run.spawn("other", move || add(&store, Durability::Later).unwrap())
            };
            add(&store, Durability::Later).unwrap();
            let count = 1 + u64::from(other.join().is_some());
            while written.recv().unwrap() < count {}
            let blocks = memory.stored().blocks.len() as u64;
            store.close().unwrap();
            journal.join().unwrap();
            run.note(match blocks == count {
                true => "each alone",
                false => "both in one block",
            });
        });
}

/// A wait for a version ends with its write or with its timeout, whichever comes first.
#[test]
fn durable_a_wait_that_times_out_beside_the_write_holds_up_no_other() {
    Model::new("durable: timeout against a write", 2)
        .reaches(["written in time"])
        .reaches_by("mover", "timed out")
        .check(|run| {
            let memory = Memory::default();
            let clock = ManualClock::new();
            let options = StoreOptions::new().lock_timeout(None).clock(clock.clock());
            let options = later().store(options);
            let store = DataStore::open_journal(memory.clone(), options).unwrap();
            let journal = run_journal(&store);
            let writer = {
                let store = store.clone();
                thread::spawn(move || add(&store, Durability::Durable).unwrap())
            };
            let mover = run.spawn("mover", move || clock.advance(Duration::from_secs(1)));
            let outcome = store.wait_durable(1).timeout(Duration::from_secs(1)).wait();
            let is_stored = memory.version() == 1;
            assert_eq!(writer.join().unwrap(), 1);
            mover.join();
            store.close().unwrap();
            journal.join().unwrap();
            run.note(match outcome {
                Ok(1) if is_stored => "written in time",
                Err(DurabilityError::Timeout { version: 1, .. }) => "timed out",
                other => panic!("{other:?}"),
            });
        });
}

/// Whatever is stored, a receipt is there if and only if its commit is; and a lease is there.
#[test]
fn durable_a_receipt_is_stored_with_its_commit_beside_a_lease() {
    Model::new("durable: receipt and lease against a block", 3)
        .reaches(["lease with the commit"])
        .reaches_by("leaser", "lease before the commit")
        .reaches_by("leaser", "lease after the commit")
        .check(|run| {
            let memory = Memory::default();
            let store = memory.open(later());
            let journal = run_journal(&store);
            let keyed = |store: &DataStore| {
                let manager = TransactionManager::new(store.clone());
                let node = create(text_node("paragraph", "").with_id("keyed"));
                let result = manager.transaction(node).idempotent("key").commit();
                result.expect("a receipt with its commit").repeated
            };
            let leaser = {
                let store = store.clone();
                run.spawn("leaser", move || {
                    let lease = store
                        .leases()
                        .acquire("node", "ann", Duration::from_secs(3600));
                    drop(lease.unwrap());
                })
            };
            assert!(!keyed(&store));
            let leases = usize::from(leaser.join().is_some());
            store.close().unwrap();
            journal.join().unwrap();
            let states = memory.stored().history.clone();
            let states = states.into_iter().map(|state| {
                let store = Memory(Arc::new(Mutex::new(state))).open(later());
                let has_commit = store.snapshot().contains("keyed");
                assert_eq!(keyed(&store), has_commit, "a receipt before its commit");
                (has_commit, store.leases().list().len())
            });
            let states: Vec<_> = states.collect();
            let end = memory.reopen();
            assert!(end.snapshot().contains("keyed") && keyed(&end));
            assert_eq!(end.leases().list().len(), leases);
            run.note(match states[0] {
                (true, 0) if leases > 0 => "lease after the commit",
                (true, _) => "lease with the commit",
                (false, _) => "lease before the commit",
            });
        });
}

/// The end of the last handle writes what was accepted, and a subscription receives it.
#[test]
fn durable_the_last_handle_writes_all_commits_for_a_subscription() {
    Model::new("durable: drop of the last handle", 2)
        .reaches(["received at the end"])
        .reaches_by("writers", "received before the end")
        .check(|run| {
            let memory = Memory::default();
            let store = memory.open(later());
            let events = store.subscription().durable().all();
            let journal = run_journal(&store);
            let writers = [(), ()].map(|()| {
                let store = store.clone();
                run.spawn("writers", move || {
                    add(&store, Durability::Later).unwrap();
                })
            });
            drop(store);
            let received = events.try_iter().count();
            let count = writers.into_iter().filter_map(Actor::join).count();
            journal.join().unwrap();
            assert_eq!(memory.version(), count as u64);
            assert_eq!(received + events.try_iter().count(), count);
            assert_eq!(events.try_recv().err(), Some(TryRecvError::Disconnected));
            run.note(match received {
                0 => "received at the end",
                _ => "received before the end",
            });
        });
}
