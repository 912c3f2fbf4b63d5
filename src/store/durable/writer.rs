//! The thread that writes commits to the journal, and the calls that wait for it.
//!
//! It reads the commit log as a lossless subscriber. All commits that it finds are one write, so a
//! batch is what arrived during the last write. It writes a checkpoint when enough was written: it
//! asks for a snapshot, which the next committing thread sends, and removes the records until then
//! in the same write.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, TryRecvError, select};
use serde::Serialize;

use super::form::{StoredHead, encode};
use super::{Durability, Journal, JournalError, JournalErrorKind, JournalWrite};
use crate::caught::catch;
use crate::codes::codes;
use crate::document::{Changes, Snapshot, View};
use crate::hashing::Secret;
use crate::id::NodeId;
use crate::store::events::Subscription;
use crate::store::{CommitError, DataStore, TransactionResult};
use crate::sync::{Condvar, Mutex, rank};
use crate::time::millis;

/// The journal's side of a store.
pub(in crate::store) struct Writer {
    shared: Arc<Shared>,
    thread: Mutex<{ rank::WRITER_THREAD }, Option<JoinHandle<()>>>,
    durability: Durability,
}

/// What the thread begins with.
pub(super) struct Beginning {
    pub(super) journal: Box<dyn Journal>,
    pub(super) head: StoredHead,
    /// The commits after the checkpoint, and the size of their records.
    pub(super) repeated: Vec<Changes>,
    pub(super) bytes: usize,
    pub(super) unwritten: usize,
    pub(super) checkpoint_after: usize,
    pub(super) control: Receiver<Control>,
}

/// What the thread shares with the calls that wait for it.
struct Shared {
    /// The last version that is durable.
    version: AtomicU64,
    /// Whether commits are refused. Set with the log locked if the store is closed, so that no
    /// commit is accepted that the thread does not write.
    refuses: AtomicBool,
    /// Whether the next thread that commits sends a snapshot.
    wants_snapshot: AtomicBool,
    state: Mutex<{ rank::DURABLE }, State>,
    /// Notified when the version or the state changes.
    changed: Condvar,
    control: Sender<Control>,
}

#[derive(Default)]
struct State {
    end: Option<End>,
    report: CloseReport,
}

/// Why the thread has ended.
#[derive(Clone)]
enum End {
    Closed,
    Failed(JournalError),
}

pub(super) enum Control {
    Checkpoint(Snapshot),
    Close(Snapshot),
}

/// What a durable store has written until it was closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CloseReport {
    /// The last version, which is durable.
    pub durable_version: u64,
    /// The number of commits that were written.
    pub commits: u64,
    /// The number of writes in which these commits were.
    pub writes: u64,
    /// The number of checkpoints.
    pub checkpoints: u64,
}

/// Why a version cannot be waited for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DurabilityError {
    /// The store is in memory.
    #[error("the store is not durable")]
    NotDurable,
    /// The timeout has passed.
    #[error("version {version} is not durable after {timeout:?}: version {durable_version} is")]
    Timeout {
        /// The version that was waited for.
        version: u64,
        /// The last version that is durable.
        durable_version: u64,
        /// The timeout.
        timeout: Duration,
    },
    /// The store was closed before it had the version.
    #[error("the store was closed with version {durable_version}")]
    Closed {
        /// The last version that is durable.
        durable_version: u64,
    },
    /// The journal failed. Versions after the durable one may be stored or not.
    #[error("the journal failed after version {durable_version}: {cause}")]
    Failed {
        /// The last version that is known to be durable.
        durable_version: u64,
        /// The error of the journal.
        cause: JournalError,
    },
}

codes! { DurabilityError {
    Self::NotDurable => "notDurable";
    Self::Timeout { version, durable_version, timeout } => "durabilityTimeout" {
        version: version, durable_version: durable_version, timeout_ms: millis::number(*timeout)
    };
    Self::Closed { durable_version } => "storeClosed";
    Self::Failed { durable_version, cause } => "journalFailed";
}}

impl Writer {
    /// Also returns what the thread receives from the store.
    pub(super) fn new(durability: Durability, version: u64) -> (Self, Receiver<Control>) {
        let (sender, control) = crossbeam_channel::unbounded();
        let writer = Self {
            shared: Arc::new(Shared {
                version: AtomicU64::new(version),
                refuses: AtomicBool::new(false),
                wants_snapshot: AtomicBool::new(false),
                state: Mutex::default(),
                changed: Condvar::default(),
                control: sender,
            }),
            thread: Mutex::default(),
            durability,
        };
        (writer, control)
    }

    pub(super) fn durable_version(&self) -> u64 {
        self.shared.version.load(Ordering::Acquire)
    }

    /// Waits until the version is durable, or never will be.
    pub(super) fn wait(
        &self,
        version: u64,
        timeout: Option<Duration>,
    ) -> Result<u64, DurabilityError> {
        let began = Instant::now();
        let reached = || Some(self.durable_version()).filter(|durable| *durable >= version);
        if let Some(durable) = reached() {
            return Ok(durable);
        }
        let mut state = self.shared.state.lock();
        loop {
            if let Some(durable) = reached() {
                return Ok(durable);
            }
            if let Some(end) = &state.end {
                return Err(self.ended(end.clone()));
            }
            state = match timeout {
                None => self.shared.changed.wait(state),
                Some(timeout) => match timeout.checked_sub(began.elapsed()) {
                    Some(left) if !left.is_zero() => self.shared.changed.wait_for(state, left),
                    _ => {
                        return Err(DurabilityError::Timeout {
                            version,
                            durable_version: self.durable_version(),
                            timeout,
                        });
                    }
                },
            };
        }
    }

    /// Why no further version becomes durable.
    fn ended(&self, end: End) -> DurabilityError {
        let durable_version = self.durable_version();
        match end {
            End::Closed => DurabilityError::Closed { durable_version },
            End::Failed(cause) => DurabilityError::Failed {
                durable_version,
                cause,
            },
        }
    }

    /// Waits until a commit may be acknowledged.
    pub(super) fn acknowledge(
        &self,
        version: u64,
        durability: Option<Durability>,
    ) -> Result<(), CommitError> {
        match durability.unwrap_or(self.durability) {
            Durability::Later => Ok(()),
            Durability::Durable => match self.wait(version, None) {
                Ok(_) => Ok(()),
                Err(cause) => {
                    let cause = Box::new(cause);
                    Err(CommitError::Unknown { version, cause })
                }
            },
        }
    }

    /// Why commits are refused, if they are. The log must be locked.
    #[inline]
    pub(in crate::store) fn refusal(&self) -> Option<CommitError> {
        match self.shared.refuses.load(Ordering::Relaxed) {
            false => None,
            true => Some(self.refused()),
        }
    }

    #[cold]
    fn refused(&self) -> CommitError {
        let cause = match &self.shared.state.lock().end {
            Some(End::Failed(cause)) => Some(cause.clone()),
            _ => None,
        };
        CommitError::ReadOnly { cause }
    }

    /// Sends a snapshot for a checkpoint, if the thread wants one.
    #[inline]
    pub(in crate::store) fn offer(&self, snapshot: impl FnOnce() -> Snapshot) {
        let wants = &self.shared.wants_snapshot;
        if wants.load(Ordering::Relaxed) && wants.swap(false, Ordering::Relaxed) {
            let _ = self.shared.control.send(Control::Checkpoint(snapshot()));
        }
    }

    pub(super) fn close(&self, store: &DataStore) -> Result<CloseReport, DurabilityError> {
        store.with_log_locked(|| self.shared.refuses.store(true, Ordering::Relaxed));
        // Nothing receives it if the thread has ended.
        let _ = self.shared.control.send(Control::Close(store.snapshot()));
        let mut state = self.shared.state.lock();
        let end = loop {
            match &state.end {
                Some(end) => break end.clone(),
                None => state = self.shared.changed.wait(state),
            }
        };
        let report = state.report;
        drop(state);
        self.join();
        match end {
            End::Closed => Ok(report),
            failed => Err(self.ended(failed)),
        }
    }

    /// Waits for the end of the thread, with which the journal is dropped.
    fn join(&self) {
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

impl Drop for Writer {
    /// The log has ended, so the thread ends when it has written all commits.
    fn drop(&mut self) {
        self.join();
    }
}

impl DataStore {
    /// Starts the thread.
    pub(super) fn start_writer(&self, beginning: Beginning) {
        let Some(writer) = &self.0.writer else {
            return;
        };
        let Beginning {
            journal,
            head,
            repeated,
            bytes,
            unwritten,
            checkpoint_after,
            control,
        } = beginning;
        let version = self.version();
        let mut thread = WriterThread {
            journal,
            commits: self.subscribe_lossless(unwritten),
            shared: Arc::clone(&writer.shared),
            control,
            head,
            touched: Touched::default(),
            records: VecDeque::from([(version, bytes)]),
            checkpoint_after,
            report: CloseReport::default(),
        };
        for changes in repeated {
            thread.touched.note(&changes, version);
        }
        let spawned = std::thread::Builder::new()
            .name("doclock-journal".into())
            .spawn(move || thread.run());
        match spawned {
            Ok(handle) => drop(writer.thread.lock().replace(handle)),
            Err(error) => writer.shared.fail(error.into()),
        }
    }
}

impl Shared {
    fn advance(&self, version: u64) {
        let state = self.state.lock();
        self.version.store(version, Ordering::Release);
        drop(state);
        self.changed.notify_all();
    }

    fn end(&self, end: End, report: CloseReport) {
        self.refuses.store(true, Ordering::Relaxed);
        let mut state = self.state.lock();
        // The first end stays.
        if state.end.is_none() {
            state.end = Some(end);
            state.report = report;
        }
        drop(state);
        self.changed.notify_all();
    }

    fn fail(&self, error: JournalError) {
        self.end(End::Failed(error), CloseReport::default());
    }
}

/// The nodes that a checkpoint has to write, each with the last version that changed it.
#[derive(Default)]
struct Touched {
    nodes: HashMap<NodeId, u64, Secret>,
    /// Nodes whose children may have got another parent.
    parents: HashMap<NodeId, u64, Secret>,
}

impl Touched {
    fn note(&mut self, changes: &Changes, version: u64) {
        let Self { nodes, parents } = self;
        for change in changes.iter() {
            change.each_stored_node(
                |id| _ = nodes.insert(id.clone(), version),
                |id| _ = parents.insert(id.clone(), version),
            );
        }
    }

    /// The nodes to write with a version.
    fn in_version(&self, snapshot: &Snapshot) -> HashSet<NodeId, Secret> {
        let parents = self.parents.keys();
        let children = parents.flat_map(|id| snapshot.children(id).map(|child| child.id().clone()));
        children.chain(self.nodes.keys().cloned()).collect()
    }

    /// Forgets what a checkpoint of this version has written.
    fn forget_through(&mut self, version: u64) {
        self.nodes.retain(|_, last| *last > version);
        self.parents.retain(|_, last| *last > version);
    }
}

struct WriterThread {
    journal: Box<dyn Journal>,
    commits: Subscription,
    shared: Arc<Shared>,
    control: Receiver<Control>,
    head: StoredHead,
    touched: Touched,
    /// The versions and sizes of the records after the checkpoint.
    records: VecDeque<(u64, usize)>,
    checkpoint_after: usize,
    report: CloseReport,
}

impl WriterThread {
    fn run(mut self) {
        let worked = catch(|| self.work());
        let worked = worked.unwrap_or_else(|panic| Err(panicked(panic.message())));
        let Self {
            journal,
            commits,
            shared,
            mut report,
            ..
        } = self;
        report.durable_version = shared.version.load(Ordering::Relaxed);
        if let Err(error) = worked {
            // At once: the journal may take long to close, or never close.
            shared.end(End::Failed(error), report);
        }
        drop(commits);
        let dropped = catch(|| drop(journal));
        // A store is closed when its file is free.
        shared.end(
            match dropped {
                Ok(()) => End::Closed,
                Err(panic) => End::Failed(panicked(panic.message())),
            },
            report,
        );
    }

    /// Writes commits until the store is closed or gone.
    fn work(&mut self) -> Result<(), JournalError> {
        let mut snapshot: Option<Snapshot> = None;
        let mut closes = false;
        loop {
            let store_is_gone = self.write_commits()?;
            // Another commit that it holds may be published, but not announced yet.
            let written = self.shared.version.load(Ordering::Relaxed);
            if let Some(snapshot) = snapshot.take_if(|it| it.version() <= written) {
                self.checkpoint(&snapshot)?;
                if closes {
                    return Ok(());
                }
            }
            if store_is_gone {
                return Ok(());
            }
            let bytes: usize = self.records.iter().map(|(_, bytes)| bytes).sum();
            if bytes > self.checkpoint_after {
                self.shared.wants_snapshot.store(true, Ordering::Relaxed);
            }
            select! {
                recv(self.commits.ready()) -> _ => {}
                recv(self.control) -> message => match message {
                    // That of a close is the last version.
                    Ok(Control::Checkpoint(_)) if closes => {}
                    Ok(Control::Checkpoint(sent)) => snapshot = Some(sent),
                    Ok(Control::Close(sent)) => {
                        snapshot = Some(sent);
                        closes = true;
                    }
                    Err(_) => return Ok(()),
                },
            }
        }
    }

    /// Writes all commits that are there, in one step. Returns whether the store is gone.
    fn write_commits(&mut self) -> Result<bool, JournalError> {
        let mut commits: Vec<Arc<TransactionResult>> = Vec::new();
        let store_is_gone = loop {
            match self.commits.try_recv() {
                Ok(event) => commits.push(event.commit),
                Err(TryRecvError::Empty) => break false,
                Err(TryRecvError::Disconnected) => break true,
            }
        };
        let Some(last) = commits.last().map(|commit| commit.version) else {
            return Ok(store_is_gone);
        };
        let mut write = JournalWrite::default();
        for commit in &commits {
            let record = encode(&**commit)?;
            self.records.push_back((commit.version, record.len()));
            write.records.push((commit.version, record));
        }
        self.write(&write)?;
        self.shared.advance(last);
        self.report.commits += commits.len() as u64;
        self.report.writes += 1;
        for commit in &commits {
            self.touched.note(&commit.changes, commit.version);
        }
        Ok(store_is_gone)
    }

    /// Writes the nodes that were touched since the last checkpoint, and removes the records that
    /// these make unnecessary.
    fn checkpoint(&mut self, snapshot: &Snapshot) -> Result<(), JournalError> {
        let version = snapshot.version();
        self.head.document = snapshot.head();
        let nodes = self.touched.in_version(snapshot).into_iter().map(|id| {
            let node = snapshot.node(&id).map(encode).transpose()?;
            Ok((id.to_string(), node))
        });
        let write = JournalWrite {
            head: Some(encode(&self.head)?),
            nodes: nodes.collect::<Result<_, JournalError>>()?,
            removed_through: Some(version),
            ..JournalWrite::default()
        };
        self.write(&write)?;
        self.touched.forget_through(version);
        self.records.retain(|(record, _)| *record > version);
        self.shared.wants_snapshot.store(false, Ordering::Relaxed);
        self.report.checkpoints += 1;
        Ok(())
    }

    fn write(&mut self, write: &JournalWrite) -> Result<(), JournalError> {
        catch(|| self.journal.write(write)).unwrap_or_else(|panic| Err(panicked(panic.message())))
    }
}

fn panicked(message: Option<&str>) -> JournalError {
    JournalError::new(JournalErrorKind::Panic, message.unwrap_or("no message"))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::document::NodeSpec;
    use crate::store::durable::{DurableOptions, StoredPart};

    /// Passes on what is written.
    struct Seen(Sender<JournalWrite>);

    impl Journal for Seen {
        fn load(
            &mut self,
            _: &mut dyn FnMut(StoredPart<'_>) -> Result<(), JournalError>,
        ) -> Result<(), JournalError> {
            Ok(())
        }

        fn write(&mut self, write: &JournalWrite) -> Result<(), JournalError> {
            let _ = self.0.send(write.clone());
            Ok(())
        }
    }

    fn commit(store: &DataStore) {
        let mut transaction = store.begin("ann").unwrap();
        let node = NodeSpec::new("text");
        transaction.create(node).unwrap();
        transaction.commit().unwrap();
    }

    /// Once a checkpoint could hold a commit whose record was not written yet. The record came
    /// after it, and the document could not be opened again.
    #[test]
    fn durable_08_no_record_follows_a_checkpoint_that_holds_its_commit() {
        let (sender, written) = crossbeam_channel::unbounded();
        let store = DataStore::open_journal(Seen(sender), DurableOptions::new()).unwrap();
        commit(&store);
        // As if another thread had published version 2 and not announced it yet.
        let ahead = DataStore::new();
        commit(&ahead);
        commit(&ahead);
        let control = &store.0.writer.as_ref().unwrap().shared.control;
        control.send(Control::Checkpoint(ahead.snapshot())).unwrap();
        while !control.is_empty() {
            std::thread::yield_now();
        }
        commit(&store);
        store.close().unwrap();
        let mut removed = 0;
        for write in written.try_iter() {
            let first = write.records.first().map(|(version, _)| *version);
            assert!(first.is_none_or(|first| first > removed), "after {removed}");
            removed = write.removed_through.unwrap_or(removed);
        }
        assert_eq!(removed, 2);
    }
}
