//! What the calls that wait for the journal share with the thread that writes to it.
//!
//! One thread at a time has the [`JournalWriter`]. It writes all commits that there are, as one
//! block, so a batch is what arrived during the last write. Mostly it is one of the threads that
//! all stores of the process share. A call that waits for its commit while no other does writes it
//! itself, which saves the way to a thread and back.

mod error;
mod journal_writer;
mod serve;
mod since_checkpoint;
#[cfg(not(loom))]
mod threads;
mod waits;

use std::collections::BTreeMap;
#[cfg(not(loom))]
use std::sync::OnceLock;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use serde::Serialize;

use super::format::{Checksum, StoredHead};
use super::{Durability, Journal, JournalError};
use crate::document::Snapshot;
use crate::lock::{CancelToken, KeeperSlot, Mailbox, Rest, WaiterKind, WakeChain};
use crate::store::diagnostics::DurableDiagnostics;
use crate::store::notes::NoteChange;
use crate::store::{CommitError, DataStore, TransactionResult};
#[cfg(loom)]
use crate::sync::Condvar;
use crate::sync::{AtomicBool, AtomicU64, Mutex, rank, thread_number};
use crate::time::Clock;
pub use error::DurabilityError;
use journal_writer::JournalWriter;
pub(super) use since_checkpoint::SinceCheckpoint;
#[cfg(not(loom))]
use threads::UsedThreads;
use waits::{DurabilityResult, Goal, JournalWait, WaitMode, acknowledged};

/// The journal's side of a store.
pub(in crate::store) struct Writer {
    shared: Arc<SharedWriter>,
    durability: Durability,
    /// Set from the start of writing on. A model has a thread of its own.
    #[cfg(not(loom))]
    threads: OnceLock<UsedThreads>,
}

/// What writing begins with.
pub(super) struct WriterStart {
    pub(super) journal: Box<dyn Journal>,
    pub(super) head: StoredHead,
    pub(super) since: SinceCheckpoint,
    pub(super) last_block: Option<Checksum>,
    pub(super) unwritten: usize,
    pub(super) checkpoint_after: usize,
    pub(super) kept_log: usize,
}

/// What the threads share that write and wait.
struct SharedWriter {
    /// The last version that is durable.
    version: AtomicU64,
    /// Whether commits are refused, and other changes. Set while there is none if the store is
    /// closed, so that nothing is accepted that is not written.
    refuses: AtomicBool,
    /// Whether a thread has to be called to find new commits. The one that writes looks for commits
    /// once more after it was set, so none is overlooked.
    sleeps: AtomicBool,
    /// Whether the notes that are not written yet take more bytes than may wait.
    has_many_notes: AtomicBool,
    /// How many bytes of notes may wait.
    most_note_bytes: usize,
    clock: Clock,
    /// Ends the waits of tasks at their deadlines.
    keeper: KeeperSlot,
    state: Mutex<{ rank::DURABLE }, WriterState>,
    /// Itself, for the thread that is called.
    #[cfg_attr(loom, expect(dead_code, reason = "a model has a thread of its own"))]
    this: Weak<Self>,
    /// Wakes the thread of a model.
    #[cfg(loom)]
    called: Condvar,
    /// Calls that are answered, of which one wakes the next.
    answered: WakeChain<Mailbox<DurabilityResult>>,
}

struct WriterState {
    /// `None` while a thread writes.
    journal: Option<Box<JournalWriter>>,
    /// The number of the thread that has the journal; zero for none.
    writing: u64,
    /// Whether there is something to write.
    is_called: bool,
    /// Whether a thread is called that has not looked yet, or writes.
    has_thread: bool,
    /// Whether no more commits come.
    closes: bool,
    /// The notes that are not written yet, each with the version that it belongs to.
    notes: Vec<(u64, NoteChange)>,
    /// About how many bytes these take.
    note_bytes: usize,
    /// How many notes there have been, and how many of them are durable.
    noted: u64,
    durable_notes: u64,
    /// The document of the last durable version.
    durable: Snapshot,
    /// By their tickets, in the order in which they came.
    waiting: BTreeMap<u64, JournalWait>,
    /// How many calls have waited: the last ticket.
    waits: u64,
    end: Option<WriterEnd>,
    /// Whether the journal is dropped, so that its file is free. Closes wait for it.
    is_gone: bool,
    report: CloseReport,
}

/// Why nothing is written any more.
#[derive(Clone)]
enum WriterEnd {
    Closed,
    Failed(JournalError),
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

impl Writer {
    pub(super) fn new(
        durability: Durability,
        most_note_bytes: usize,
        document: Snapshot,
        clock: Clock,
    ) -> Self {
        let shared = Arc::new_cyclic(|this| SharedWriter {
            version: AtomicU64::new(document.version()),
            refuses: AtomicBool::new(false),
            sleeps: AtomicBool::new(true),
            has_many_notes: AtomicBool::new(false),
            most_note_bytes,
            clock,
            keeper: KeeperSlot::default(),
            state: Mutex::new(WriterState {
                journal: None,
                writing: 0,
                is_called: false,
                has_thread: false,
                closes: false,
                notes: Vec::new(),
                note_bytes: 0,
                noted: 0,
                durable_notes: 0,
                durable: document,
                waiting: BTreeMap::new(),
                waits: 0,
                end: None,
                is_gone: false,
                report: CloseReport::default(),
            }),
            this: this.clone(),
            #[cfg(loom)]
            called: Condvar::default(),
            answered: WakeChain::default(),
        });
        Self {
            shared,
            durability,
            #[cfg(not(loom))]
            threads: OnceLock::new(),
        }
    }

    pub(super) fn durable_document(&self) -> Snapshot {
        self.shared.state.lock().durable.clone()
    }

    /// Returns the state of the journal.
    pub(in crate::store) fn diagnostics(&self) -> DurableDiagnostics {
        let state = self.shared.state.lock();
        let failure = match &state.end {
            Some(WriterEnd::Failed(error)) => Some(error.to_string()),
            _ => None,
        };
        DurableDiagnostics {
            version: state.durable.version(),
            // Computed with the published version, which is read later.
            unwritten_commits: 0,
            pending_notes: state.noted - state.durable_notes,
            waiting_calls: state.waiting.len(),
            writing: state.journal.is_none() && state.end.is_none(),
            closed: state.end.is_some() && failure.is_none(),
            failure,
        }
    }

    /// Waits until a version is durable, in a thread or a task. Returns the durable version.
    pub(super) async fn wait_as(
        &self,
        waits_as: WaiterKind,
        version: u64,
        timeout: Option<Duration>,
        cancel: Option<&CancelToken>,
    ) -> DurabilityResult {
        let goal = Goal::Durable { version, notes: 0 };
        let mode = WaitMode::Until(timeout, cancel);
        self.shared.wait_as(waits_as, goal, mode).await
    }

    /// Waits until a transaction may be acknowledged.
    pub(super) fn acknowledge(
        &self,
        result: &TransactionResult,
        durability: Option<Durability>,
    ) -> Result<(), CommitError> {
        // The notes of a commit are in its block.
        match self.goal(result.version, !result.changed, durability) {
            Some(goal) => acknowledged(goal, self.shared.wait(goal, WaitMode::Writes)),
            None => Ok(()),
        }
    }

    /// Waits until a transaction is durable. Without a timeout, the call may write itself.
    pub(super) fn wait_for(
        &self,
        result: &TransactionResult,
        timeout: Option<Duration>,
    ) -> Result<(), DurabilityError> {
        let mode = match timeout {
            None => WaitMode::Writes,
            timeout => WaitMode::Until(timeout, None),
        };
        let goal = self.goal(result.version, !result.changed, Some(Durability::Durable));
        goal.map_or(Ok(()), |goal| self.shared.wait(goal, mode).map(drop))
    }

    /// Waits as [`acknowledge`](Self::acknowledge) does, in a task.
    pub(super) async fn acknowledge_in_task(
        &self,
        result: &TransactionResult,
        durability: Option<Durability>,
    ) -> Result<(), CommitError> {
        match self.goal(result.version, !result.changed, durability) {
            Some(goal) => {
                let wait = self
                    .shared
                    .wait_as(WaiterKind::Task, goal, WaitMode::Writes);
                acknowledged(goal, wait.await)
            }
            None => Ok(()),
        }
    }

    /// Waits until all may be acknowledged that was noted so far. The published version is this one
    /// or a later one.
    pub(super) fn acknowledge_notes(&self, version: u64) -> Result<(), CommitError> {
        // The last notes may not have been taken.
        self.check_open()?;
        match self.goal(version, true, None) {
            Some(goal) => acknowledged(goal, self.shared.wait(goal, WaitMode::Writes)),
            None => Ok(()),
        }
    }

    /// Whether an acknowledgement does not wait. Then the thread is called to write.
    #[inline]
    pub(super) fn acknowledges_unwritten(&self, durability: Option<Durability>) -> bool {
        let later = durability.unwrap_or(self.durability) == Durability::Later;
        let at_once = later && !self.shared.has_many_notes();
        if at_once {
            self.shared.call_if_asleep();
        }
        at_once
    }

    /// Returns what an acknowledgement waits for. `None` if it does not wait.
    fn goal(&self, version: u64, and_notes: bool, durability: Option<Durability>) -> Option<Goal> {
        if self.acknowledges_unwritten(durability) {
            return None;
        }
        let notes = match and_notes || self.shared.has_many_notes() {
            true => self.shared.state.lock().noted,
            false => 0,
        };
        Some(Goal::Durable { version, notes })
    }

    /// Adds notes for the journal, which belong to a version. A store that closes takes no more:
    /// otherwise the close could wait for ever later ones.
    pub(in crate::store) fn add_notes(&self, version: u64, notes: Vec<NoteChange>) {
        let bytes: usize = notes.iter().map(NoteChange::bytes).sum();
        let mut state = self.shared.state.lock();
        if state.closes || state.end.is_some() {
            return;
        }
        state.noted += notes.len() as u64;
        state.note_bytes += bytes;
        let notes = notes.into_iter().map(|note| (version, note));
        state.notes.extend(notes);
        self.shared.note_many(&state);
    }

    /// Lets the thread write what there is, if it does not do so already.
    pub(in crate::store) fn wake(&self) {
        self.shared.call_if_asleep();
    }

    /// Lets the thread write what there is, if it does not do so already. Waits for the write if
    /// too many bytes of notes are not written: nothing else bounds them.
    pub(in crate::store) fn call(&self) {
        match self.shared.has_many_notes() {
            false => self.wake(),
            true => {
                let notes = self.shared.state.lock().noted;
                let goal = Goal::Durable { version: 0, notes };
                // A journal that has failed takes no more notes, and refuses the next commit.
                let _ = self.shared.wait(goal, WaitMode::Until(None, None));
            }
        }
    }

    /// Whether commits are refused.
    #[inline]
    pub(super) fn refuses(&self) -> bool {
        self.shared.refuses.load(Ordering::Relaxed)
    }

    /// Fails if commits are refused. With the log locked, they are not refused until it is
    /// unlocked, unless the journal fails.
    #[inline]
    pub(in crate::store) fn check_open(&self) -> Result<(), CommitError> {
        match self.refuses() {
            false => Ok(()),
            true => Err(self.refused()),
        }
    }

    #[cold]
    fn refused(&self) -> CommitError {
        let cause = match &self.shared.state.lock().end {
            Some(WriterEnd::Failed(cause)) => Some(cause.clone()),
            _ => None,
        };
        CommitError::ReadOnly { cause }
    }

    pub(super) fn close(&self, store: &DataStore) -> Result<CloseReport, DurabilityError> {
        store.without_changes(|| self.shared.refuses.store(true, Ordering::Relaxed));
        match self.shared.close() {
            Err(DurabilityError::Closed { .. }) | Ok(_) => Ok(self.shared.state.lock().report),
            Err(failed) => Err(failed),
        }
    }
}

impl Drop for Writer {
    /// The last handle of the store is gone, so no more commits come. If the journal drops it
    /// itself, the thread that writes goes on alone.
    fn drop(&mut self) {
        let _ = self.shared.close();
    }
}

impl DataStore {
    /// Begins to write. Fails only if no thread can be started.
    pub(super) fn start_writer(&self, start: WriterStart) -> Result<(), JournalError> {
        let Some(writer) = &self.0.writer else {
            return Ok(());
        };
        let commits = self.read_for_journal(start.unwritten);
        let journal = JournalWriter::new(start, commits);
        #[cfg(not(loom))]
        let _ = writer.threads.set(UsedThreads::new()?);
        writer.shared.begin(Box::new(journal));
        Ok(())
    }

    /// The code of the thread that writes. Without it, the end of the store waits for nothing.
    #[cfg(loom)]
    #[doc(hidden)]
    pub fn journal_thread(&self) -> impl FnOnce() + use<> {
        let shared = self.0.writer.as_ref();
        let shared = shared.map(|writer| Arc::clone(&writer.shared));
        move || shared.into_iter().for_each(|shared| shared.run())
    }
}

impl WriterState {
    /// Takes the journal, unless another thread has it.
    fn take_journal(&mut self) -> Option<Box<JournalWriter>> {
        let journal = self.journal.take()?;
        self.writing = thread_number();
        Some(journal)
    }
}

impl SharedWriter {
    fn durable_version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Takes the journal, before there is anything to write.
    fn begin(&self, journal: Box<JournalWriter>) {
        let mut state = self.state.lock();
        state.journal = Some(journal);
        if state.is_called {
            self.call(&mut state);
        }
    }

    /// Lets a thread write what there is.
    fn call(&self, state: &mut WriterState) {
        state.is_called = true;
        #[cfg(loom)]
        self.called.notify_one();
        #[cfg(not(loom))]
        if !std::mem::replace(&mut state.has_thread, true)
            && let Some(writer) = self.this.upgrade()
        {
            threads::call(writer);
        }
    }

    /// Notes whether the thread has to be called to find new commits.
    fn set_sleeping(&self, sleeps: bool) {
        self.sleeps.store(sleeps, Ordering::Relaxed);
    }

    fn call_if_asleep(&self) {
        if self.sleeps.load(Ordering::Relaxed) {
            self.call(&mut self.state.lock());
        }
    }

    fn has_many_notes(&self) -> bool {
        self.has_many_notes.load(Ordering::Relaxed)
    }

    fn note_many(&self, state: &WriterState) {
        let many = state.note_bytes > self.most_note_bytes;
        self.has_many_notes.store(many, Ordering::Relaxed);
    }

    /// Writes what is left, in the calling thread if no other writes, and closes the journal. Waits
    /// until that is done, unless the journal itself closes the store.
    fn close(self: &Arc<Self>) -> DurabilityResult {
        let mut state = self.state.lock();
        state.closes = true;
        state.is_called = true;
        let is_own = state.writing == thread_number();
        if state.journal.is_none() && state.writing == 0 {
            // It is dropped already, or was never begun.
            state.is_gone = true;
            state.end.get_or_insert(WriterEnd::Closed);
        }
        drop(state);
        if is_own {
            return Ok(self.durable_version());
        }
        self.serve();
        self.wait(Goal::End, WaitMode::Until(None, None))
    }

    /// Takes the notes of versions up to this one, and returns how many notes there have been until
    /// then. A note of a later version waits, with those after it.
    fn take_notes(&self, version: u64) -> (Vec<NoteChange>, u64) {
        let mut state = self.state.lock();
        let until = state.notes.iter().position(|(of, _)| *of > version);
        let until = until.unwrap_or(state.notes.len());
        let notes = state.notes.drain(..until).map(|(_, note)| note).collect();
        state.note_bytes = state.notes.iter().map(|(_, note)| note.bytes()).sum();
        self.note_many(&state);
        (notes, state.noted - state.notes.len() as u64)
    }

    /// Takes a document for durable, with so many notes, and answers the calls that wait for it.
    /// Returns how many there were.
    fn advance(&self, document: Snapshot, notes: u64) -> u64 {
        let version = document.version();
        let mut state = self.state.lock();
        let before = std::mem::replace(&mut state.durable, document);
        state.durable_notes = notes;
        self.version.store(version, Ordering::Release);
        let is_reached = |_: &u64, it: &mut JournalWait| it.goal.is_reached(version, notes);
        let reached = state.waiting.extract_if(.., is_reached);
        let reached: Vec<_> = reached.map(|(_, waiting)| waiting).collect();
        drop(state);
        let answered = reached.len() as u64;
        self.answer(reached, &Ok(version));
        drop(before);
        answered
    }

    fn answer(&self, waiting: impl IntoIterator<Item = JournalWait>, answer: &DurabilityResult) {
        let answered = waiting.into_iter().map(|it| it.answer);
        let sleepers = answered.filter(|it| it.leave(answer.clone()) != Rest::Awake);
        self.answered.begin(sleepers.collect::<Vec<_>>());
    }

    /// Gives the journal back after a write, for the next one. If a checkpoint is due, the thread
    /// writes it.
    fn give_back(&self, journal: Box<JournalWriter>, written: Result<(), JournalError>) {
        if let Err(error) = written {
            // The thread drops the journal, which may take long.
            self.fail(error);
        }
        let is_due = journal.is_due();
        let mut state = self.state.lock();
        state.journal = Some(journal);
        state.writing = 0;
        if is_due || state.is_called || state.end.is_some() {
            self.call(&mut state);
        }
    }

    /// Ends the writing. Closes go on to wait until the journal `is_gone`.
    fn end(&self, end: WriterEnd, report: CloseReport, is_gone: bool) {
        let mut state = self.state.lock();
        if is_gone {
            (state.is_gone, state.writing) = (true, 0);
        }
        // The first end stays.
        if state.end.is_none() {
            state.end = Some(end);
            state.report = report;
        }
        // With the state locked, so that a commit that is refused finds the reason.
        self.refuses.store(true, Ordering::Relaxed);
        let is_over = |_: &u64, it: &mut JournalWait| is_gone || !it.goal.is_end();
        let waiting = state.waiting.extract_if(.., is_over);
        let waiting: Vec<_> = waiting.map(|(_, waiting)| waiting).collect();
        let ended = state.end.as_ref().map(|end| self.ended(end));
        #[cfg(loom)]
        self.called.notify_one();
        drop(state);
        if let Some(ended) = ended {
            self.answer(waiting, &Err(ended));
        }
    }

    fn fail(&self, error: JournalError) {
        self.end(WriterEnd::Failed(error), CloseReport::default(), false);
    }
}

#[cfg(all(test, not(loom)))]
#[path = "../../../tests/unit/durable_writer.rs"]
mod tests;
