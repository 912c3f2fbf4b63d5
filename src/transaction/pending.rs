//! A transaction before it runs: what it does, who submits it, and its options.

use std::fmt;
use std::panic::Location;
use std::pin::Pin;
use std::time::Duration;

use smol_str::SmolStr;

use super::history::{Direction, UndoScope};
use super::manager::Submission;
use super::session::OwnedSession;
use super::{
    Editor, HistoryMode, IdempotencyKey, IntoIdempotencyKey, Published, TransactionError,
    TransactionManager, TransactionResult, UndoError,
};
use crate::id::NodeId;
use crate::lock::{AcquireOptions, CancelToken, WaiterKind, blocking};
use crate::store::durable::Durability;

/// A transaction that has not begun: a batch of operations, an undo or a redo, with its options.
///
/// [`TransactionManager::transaction`], [`Editor::transaction`], [`Editor::undo`] and
/// [`Editor::redo`] create it, and errors and statistics name their line. `E` is the error of the
/// commit. It runs in one of two ways:
///
/// - [`commit`](Self::commit) blocks the calling thread until it is committed.
/// - `.await` commits it in a task. Nothing happens before the first poll.
///
/// A batch can also be [published](Self::publish) before it is durable.
///
/// ```
/// use std::time::Duration;
///
/// use doclock::{DataStore, Editor, dsl::*};
///
/// let editor = Editor::new(DataStore::new(), "ann");
/// let note = create(text_node("paragraph", "Hello"));
/// editor
///     .transaction(note)
///     .label("first note")
///     .timeout(Duration::from_millis(200))
///     .idempotent("note 1")
///     .commit()?;
///
/// # pollster::block_on(async {
/// editor.undo().await?;
/// # Ok::<(), doclock::history::UndoError>(())
/// # })?;
/// assert!(editor.store().snapshot().is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # In a task
///
/// If the lock is free, the first poll runs the batch, and then at most 32 queued batches of
/// others, for at most 50 microseconds. Otherwise the batch joins the queue. It is run in its turn
/// even if the task is not polled meanwhile: by a thread or a task that has finished its own batch,
/// or by the keeper, a thread of the process for all waiting tasks. So a task never holds the lock
/// while it waits for something else. An undo runs in the poll that gets the lock. If its editor
/// [locks nodes](Editor::with_node_locks), any thread that publishes may run it.
///
/// Code of users, of an [`op`](crate::dsl::op) or a before-hook, runs in the poll or in the
/// keeper's thread. Other threads run it only with the option
/// [`any_thread`](AcquireOptions::any_thread). After-hooks run in the poll that returns the result.
/// A batch that [locks nodes](TransactionManager::with_node_locks) is run by its task, and its code
/// blocks the thread if it waits for further nodes.
///
/// # Cancel safety
///
/// If the future is dropped while the transaction is in the queue, it does not run. If it is
/// dropped later, it may still commit, and after-hooks do not run. A caller that must know whether
/// it was committed sets a [key](Self::idempotent), and submits it again with that key.
#[must_use = "nothing happens until it is committed"]
pub struct PendingTransaction<'a, E: PendingError = TransactionError> {
    work: E::Work<'a>,
    options: AcquireOptions,
    call_site: &'static Location<'static>,
}

/// The error of a pending transaction, with the work that can fail with it.
pub trait PendingError: Sized + Send {
    type Work<'a>: Work<Error = Self> + 'a;
}

/// What a pending transaction does.
pub trait Work: Sized + Send {
    type Error;

    fn once(&mut self, key: IdempotencyKey);

    fn durability(&mut self, durability: Durability);

    fn commit(
        self,
        options: AcquireOptions,
        call_site: &'static Location<'static>,
    ) -> Result<TransactionResult, Self::Error>;

    fn commit_in_task(
        self,
        options: AcquireOptions,
        call_site: &'static Location<'static>,
    ) -> impl Future<Output = Result<TransactionResult, Self::Error>> + Send;
}

impl<'a, E: PendingError> PendingTransaction<'a, E> {
    #[track_caller]
    fn new(work: E::Work<'a>) -> Self {
        Self {
            work,
            options: AcquireOptions::new(),
            call_site: Location::caller(),
        }
    }

    /// Sets the label of the lock request, which errors, the queue and the statistics show. The
    /// default is the name of the first operation, or `undo` or `redo`.
    pub fn label(self, label: impl Into<SmolStr>) -> Self {
        self.with(|options| options.label(label))
    }

    /// Sets the timeout of the lock request. Zero: it does not wait. The default is that of the
    /// store. It begins with [`commit`](Self::commit) or the first poll, and does not bound the
    /// wait for the disk. A transaction that [locks nodes](TransactionManager::with_node_locks) can
    /// wait several times, each time for at most so long.
    pub fn timeout(self, limit: Duration) -> Self {
        self.with(|options| options.timeout(limit))
    }

    /// Lets `token` cancel the lock request while it waits.
    pub fn cancel_token(self, token: &CancelToken) -> Self {
        self.with(|options| options.cancel_token(token))
    }

    fn with(mut self, set: impl FnOnce(AcquireOptions) -> AcquireOptions) -> Self {
        self.options = set(self.options);
        self
    }

    /// Sets all options of the lock request at once, and replaces those that were set before. It is
    /// for options that have no method here, such as the [priority](AcquireOptions::priority).
    pub fn options(mut self, options: AcquireOptions) -> Self {
        self.options = options;
        self
    }

    /// Commits once for a key. A repeated submission returns the result of the first, [marked as
    /// repeated](field@TransactionResult::repeated), and changes nothing: no operation and no hook
    /// runs, there is no version and no event, and history and selection stay as they are.
    ///
    /// So a caller can submit a transaction again if it cannot determine whether it was committed.
    /// The store keeps the result from the moment at which it publishes the changes, even if there
    /// are none. A transaction that failed is not recorded and can be retried. Of several
    /// concurrent transactions with one key, one runs; the others wait in the queue and get its
    /// result.
    ///
    /// A key belongs to the store, and all managers and editors share it. It stands for the
    /// operations of its first transaction, or for an undo or redo of its owner, in any editor.
    /// Anything else under the key is an error, unless it [accepts other
    /// operations](IdempotencyKey::accept_other_operations). The operations are compared as
    /// submitted, before hooks rewrite them; operations that run code are compared by name only.
    /// The store forgets a key after [as many newer keys](crate::StoreOptions::remembered_keys). A
    /// batch without operations does not use up its key.
    ///
    /// An option of a key sets none if it is `None`: a client may send requests without a key.
    ///
    /// The commit fails with an [`IdempotencyMismatch`](super::IdempotencyMismatch) if the first
    /// transaction with the key was another.
    ///
    /// An undo that failed because of its entry and is repeated with its key, in the same editor,
    /// does not continue with an older entry: it fails again, or undoes that entry. An editor does
    /// not know the keys of undos that failed in an earlier one.
    ///
    /// ```
    /// use doclock::{DataStore, Editor, dsl::*};
    ///
    /// let editor = Editor::new(DataStore::new(), "ann");
    /// let upload = || editor.transaction(create(element("image", []))).idempotent("upload 7");
    /// let (first, again) = (upload().commit()?, upload().commit()?);
    /// assert_eq!((again.version, again.transaction_id), (1, first.transaction_id));
    /// assert!(again.repeated && !first.repeated);
    /// assert_eq!(editor.store().snapshot().len(), 1);
    ///
    /// let undo = || editor.undo().idempotent("undo 1");
    /// assert!(!undo().commit()?.repeated);
    /// assert!(undo().commit()?.repeated);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn idempotent(mut self, key: impl IntoIdempotencyKey) -> Self {
        if let Some(key) = key.into_key() {
            self.work.once(key);
        }
        self
    }

    /// Sets when the commit returns, in a [durable](crate::durable) store. The default is that of
    /// the manager or editor.
    ///
    /// ```
    /// use doclock::{DataStore, Editor, dsl::*, durable::Durability};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// let editor = Editor::new(DataStore::open(folder.path().join("notes.doclock"))?, "ann");
    /// let note = create(text_node("paragraph", "Hello"));
    /// let result = editor.transaction(note).durability(Durability::Later).commit()?;
    /// editor.store().wait_durable(result.version).wait()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn durability(mut self, durability: Durability) -> Self {
        self.work.durability(durability);
        self
    }

    /// Blocks the calling thread until the transaction is committed. Another thread may run a
    /// batch: see [`TransactionManager::execute`].
    ///
    /// # Errors
    ///
    /// [`TransactionError`], or [`UndoError`] of an undo or redo. Nothing is changed then, apart
    /// from those [commit errors](crate::CommitError) that say otherwise. In a task the error of
    /// the lock is never [`Reentrant`](crate::lock::LockError::Reentrant), and can be
    /// [`NoKeeper`](crate::lock::LockError::NoKeeper).
    pub fn commit(self) -> Result<TransactionResult, E> {
        self.work.commit(self.options, self.call_site)
    }
}

impl<'a, E: PendingError> IntoFuture for PendingTransaction<'a, E> {
    type Output = Result<TransactionResult, E>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    /// Commits in a task: see [In a task](PendingTransaction#in-a-task).
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.work.commit_in_task(self.options, self.call_site))
    }
}

impl<E: PendingError> fmt::Debug for PendingTransaction<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingTransaction")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// A batch of operations, and who runs it.
#[allow(missing_debug_implementations)]
pub struct BatchWork<'a> {
    submitter: Submitter<'a>,
    submission: Submission,
}

enum Submitter<'a> {
    Manager(TransactionManager),
    Editor(&'a Editor),
}

impl Submitter<'_> {
    fn parts(&self) -> (&TransactionManager, Option<&OwnedSession>) {
        match self {
            Self::Manager(manager) => (manager, None),
            Self::Editor(editor) => {
                let (manager, session) = editor.parts();
                (manager, Some(session))
            }
        }
    }
}

impl PendingError for TransactionError {
    type Work<'a> = BatchWork<'a>;
}

impl Work for BatchWork<'_> {
    type Error = TransactionError;

    fn once(&mut self, key: IdempotencyKey) {
        self.submission.set_key(key);
    }

    fn durability(&mut self, durability: Durability) {
        self.submission.set_durability(durability);
    }

    fn commit(
        mut self,
        options: AcquireOptions,
        call_site: &'static Location<'static>,
    ) -> Result<TransactionResult, TransactionError> {
        let (manager, session) = self.submitter.parts();
        manager.run(&mut self.submission, &options, call_site, session)
    }

    // An `async fn` would keep its arguments twice.
    #[allow(clippy::manual_async_fn)]
    fn commit_in_task(
        self,
        options: AcquireOptions,
        call_site: &'static Location<'static>,
    ) -> impl Future<Output = Result<TransactionResult, TransactionError>> + Send {
        async move {
            let Self {
                submitter,
                mut submission,
            } = self;
            let (manager, session) = submitter.parts();
            let running = manager.run_in_task(&mut submission, &options, call_site, session);
            running.await
        }
    }
}

impl PendingTransaction<'static> {
    #[track_caller]
    pub(super) fn of_manager(manager: TransactionManager, submission: Submission) -> Self {
        Self::new(BatchWork {
            submitter: Submitter::Manager(manager),
            submission,
        })
    }
}

impl<'a> PendingTransaction<'a> {
    #[track_caller]
    pub(super) fn of_editor(editor: &'a Editor, submission: Submission) -> Self {
        Self::new(BatchWork {
            submitter: Submitter::Editor(editor),
            submission,
        })
    }

    /// Sets how the editor's history records the transaction. It has no effect on a transaction of
    /// a manager, which has no history.
    pub fn in_history(mut self, how: HistoryMode) -> Self {
        self.work.submission.set_history(how);
        self
    }

    /// Commits in the calling thread, and returns when the transaction is published: before it is
    /// durable, and before its after-hooks run. [`Published::wait_durable`] waits for the disk, and
    /// [`Published::finish`] runs the hooks.
    ///
    /// So a thread can run the next batch while a [durable](crate::durable) store writes the last
    /// one, and no after-hook runs for a commit that is then lost.
    ///
    /// It never waits for the journal. If more than the [limit] is not written, the next request
    /// for the lock waits. A [durability](Self::durability) of the transaction has no effect.
    ///
    /// [limit]: crate::durable::DurableOptions::unwritten_limit
    ///
    /// ```
    /// use doclock::{DataStore, TransactionManager, dsl::*};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// let store = DataStore::open(folder.path().join("notes.doclock"))?;
    /// let manager = TransactionManager::new(store);
    /// let pay = |key: &str| {
    ///     let payment = [create(text_node("payment", "100"))];
    ///     manager.transaction(payment).idempotent(key).publish()
    /// };
    /// let published = [pay("invoice 7")?, pay("invoice 8")?];
    /// for published in published {
    ///     published.wait_durable(None)?;
    ///     println!("version {}", published.finish().version);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`commit`](Self::commit).
    pub fn publish(mut self) -> Result<Published, TransactionError> {
        self.work.submission.set_published();
        let manager = self.work.submitter.parts().0.clone();
        Ok(Published::new(manager, self.commit()?))
    }
}

/// An undo or a redo of an editor.
#[allow(missing_debug_implementations)]
pub struct Rewinding<'a> {
    editor: &'a Editor,
    what: (Direction, UndoScope),
    key: Option<IdempotencyKey>,
    durability: Option<Durability>,
}

impl PendingError for UndoError {
    type Work<'a> = Rewinding<'a>;
}

impl<'a> PendingTransaction<'a, UndoError> {
    #[track_caller]
    pub(super) fn rewinding(editor: &'a Editor, direction: Direction) -> Self {
        Self::new(Rewinding {
            editor,
            what: (direction, UndoScope::default()),
            key: None,
            durability: None,
        })
    }

    /// Limits the undo or redo to entries that change nothing outside of the subtree of `node`: it
    /// reverts the latest of these, wherever it is in the history, and keeps the later ones.
    ///
    /// What counts is what the undo changes, in the document of that moment:
    ///
    /// - An entry that also changes nodes outside is not in the scope. This includes the creation,
    ///   the deletion and each move of `node` itself, and each move into the subtree or out of it.
    /// - Text and nodes that were moved count where they are now.
    /// - An entry whose undo has no effect any more is in no subtree and stays in the history. So
    ///   is one with an inverse as [code](crate::dsl::op_with_inverse).
    /// - An entry that cannot be undone is in the scope if the node of the conflict is. So it is in
    ///   no subtree if another editor has deleted that node, and is not reported.
    ///
    /// Such an undo can be redone until a later edit touches the subtree. An edit outside of it
    /// does not clear it.
    ///
    /// The undo of each later entry is computed to know what it changes, while the lock is held. So
    /// it takes as long as the undo of all these.
    ///
    /// The commit fails with [`UndoError::ScopeNotFound`] if `node` does not exist.
    ///
    /// ```
    /// use doclock::{DataStore, Editor, View, dsl::*};
    ///
    /// let store = DataStore::new();
    /// let ann = Editor::new(store.clone(), "ann");
    /// for chapter in ["one", "two"] {
    ///     ann.execute(create(text_node("chapter", "").with_id(chapter)))?;
    ///     ann.execute(insert_text(0, "text").on(chapter))?;
    /// }
    /// ann.undo().within("one").commit()?;
    /// ann.execute(insert_text(4, "!").on("two"))?;
    /// let text = |id| store.snapshot().node(id).unwrap().text().to_string();
    /// assert_eq!((text("one"), text("two")), ("".into(), "text!".into()));
    /// ann.redo().within("one").commit()?;
    /// assert_eq!(text("one"), "text");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn within(mut self, node: impl Into<NodeId>) -> Self {
        self.work.what.1.node = Some(node.into());
        self
    }

    /// Limits the undo or redo to entries of an [origin](HistoryMode::Origin): to those that have
    /// this name, also as [named](HistoryMode::Named) entries and [groups](Editor::group_named).
    ///
    /// Such an undo can be redone until a later edit in an entry of this name. With
    /// [`within`](Self::within), both limits hold.
    ///
    /// ```
    /// use doclock::{DataStore, Editor, View, dsl::*, history::HistoryMode};
    ///
    /// let store = DataStore::new();
    /// let ann = Editor::new(store.clone(), "ann");
    /// ann.execute(create(text_node("form", "").with_id("form")))?;
    /// let entered = ann.transaction(set_text("1").on("form"));
    /// entered.in_history(HistoryMode::Origin("form".into())).commit()?;
    /// ann.execute(create(text_node("paragraph", "two")))?;
    /// ann.undo().of("form").commit()?;
    /// assert!(store.snapshot().node("form").unwrap().text().is_empty());
    /// assert_eq!((store.snapshot().len(), ann.undo_depth()), (2, 2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn of(mut self, origin: impl Into<SmolStr>) -> Self {
        self.work.what.1.name = Some(origin.into());
        self
    }
}

impl Work for Rewinding<'_> {
    type Error = UndoError;

    fn once(&mut self, key: IdempotencyKey) {
        self.key = Some(key);
    }

    fn durability(&mut self, durability: Durability) {
        self.durability = Some(durability);
    }

    fn commit(
        self,
        options: AcquireOptions,
        call_site: &'static Location<'static>,
    ) -> Result<TransactionResult, UndoError> {
        blocking(self.undo_or_redo(WaiterKind::Thread, &options, call_site))
    }

    async fn commit_in_task(
        self,
        options: AcquireOptions,
        call_site: &'static Location<'static>,
    ) -> Result<TransactionResult, UndoError> {
        self.undo_or_redo(WaiterKind::Task, &options, call_site)
            .await
    }
}

impl Rewinding<'_> {
    async fn undo_or_redo(
        self,
        waits_as: WaiterKind,
        options: &AcquireOptions,
        call_site: &'static Location<'static>,
    ) -> Result<TransactionResult, UndoError> {
        let Self {
            editor,
            what,
            key,
            durability,
        } = self;
        editor
            .undo_or_redo(waits_as, what, (key, durability), options, call_site)
            .await
    }
}
