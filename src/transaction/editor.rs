//! An editor session: a store, an owner, a selection, a clipboard and a history.

use std::fmt;
use std::panic::Location;

use crossbeam_channel::Receiver;
use smol_str::SmolStr;

use super::history::{Direction, History, HistoryEvent, UndoScope};
use super::idempotency::IdempotentBatch;
use super::manager::{Completion, Submission};
use super::session::{OwnedSession, Session};
use super::undo::UndoOrRedo;
use super::{
    HistoryOptions, Hooks, IdempotencyKey, IntoOperations, PendingTransaction, TransactionError,
    TransactionManager, TransactionResult, UndoError,
};
use crate::document::{EditError, Fragment, Limits, Selection};
use crate::id::OwnerId;
use crate::lock::{AcquireOptions, WaiterKind};
use crate::store::durable::Durability;
use crate::store::{DataStore, ObservedTransaction};

/// Edits a store on behalf of an owner, and keeps the selection, clipboard and history of that
/// owner.
///
/// The selection moves with the changes of all editors. An edit of the editor can be undone and
/// redone, even after other editors have changed the document.
///
/// ```
/// use doclock::{DataStore, Editor, document::Selection, dsl::*};
///
/// let editor = Editor::new(DataStore::new(), "ann");
/// transaction(&editor, [create(text_node("inline-text", "Hello").with_id("text"))]).commit()?;
/// editor.select(Selection::caret("text", 5))?;
/// let result = transaction(&editor, [insert_text(5, " World").on("text")]).commit()?;
/// assert_eq!(result.selection_after, Some(Selection::caret("text", 11)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Editor {
    manager: TransactionManager,
    session: OwnedSession,
}

impl Editor {
    /// Creates an editor with no selection and an empty history.
    pub fn new(store: DataStore, owner: impl Into<OwnerId>) -> Self {
        let owner = owner.into();
        Self {
            session: OwnedSession::open(store.clone(), owner.clone()),
            manager: TransactionManager::for_owner(store, owner),
        }
    }

    /// Replaces the history with an empty one that has these options. Open groups stay open.
    #[must_use]
    pub fn with_history(self, options: HistoryOptions) -> Self {
        let before = self.session.state().history.replace(options);
        drop(before);
        self
    }

    /// Replaces the history with that of earlier editors of this owner, as far as the store has
    /// kept their commits. In a [durable](crate::durable) store these can be commits of earlier
    /// processes.
    ///
    /// [`StoreOptions::kept_commits`](crate::StoreOptions::kept_commits) sets how many a store
    /// keeps, and [`DurableOptions::keep_log`](crate::durable::DurableOptions::keep_log) does so
    /// for a file. Set the [options of the history](Self::with_history) before.
    ///
    /// An undo is the same as in the editor that made the commit, and keeps later edits by others.
    /// The limits:
    ///
    /// - Each commit is an entry. Commits that were undone together before stay together. Groups,
    ///   names and pauses in typing are not stored.
    /// - The edits of several earlier editors of the owner form one history. An edit is in one
    ///   history only: edits of an editor that still exists count as edits by others.
    /// - Commits that were [skipped](crate::history::HistoryMode::Skipped) or had an inverse as
    ///   [code](crate::dsl::op_with_inverse), and those of other ways to commit, are no entries.
    ///   They count as edits by others.
    /// - Entries that were discarded or cleared return, and a stuck entry reports its conflict once
    ///   more.
    /// - The history begins after an undo that cannot be repeated exactly: of an entry whose first
    ///   commits are no longer kept, of more than 256 commits, or one to which a commit was
    ///   [merged](crate::history::HistoryMode::MergedInto) late.
    /// - An undo that changed nothing in the document is known as long as the process lives.
    /// - The selection of the editor is not restored. That of an entry is.
    ///
    /// Takes time in proportion to the kept commits. It does not wait for the lock, and holds none
    /// meanwhile.
    ///
    /// ```
    /// use doclock::{DataStore, Editor, StoreOptions, View, dsl::*, durable::DurableOptions};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("notes.doclock");
    /// let options = DurableOptions::new()
    ///     .keep_log(4 << 20)
    ///     .store(StoreOptions::new().kept_commits(16 << 20));
    /// let store = DataStore::open_with(&path, options.clone())?;
    /// let ann = Editor::new(store.clone(), "ann");
    /// ann.execute(create(text_node("paragraph", "one").with_id("p")))?;
    /// ann.execute(set_text("two").on("p"))?;
    /// store.close()?;
    /// drop((ann, store));
    ///
    /// let store = DataStore::open_with(&path, options)?;
    /// let ann = Editor::new(store.clone(), "ann").with_restored_history();
    /// assert_eq!(ann.undo_depth(), 2);
    /// ann.undo().commit()?;
    /// assert_eq!(store.snapshot().node("p").unwrap().text(), &"one");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_restored_history(self) -> Self {
        let (state, _) = self.session.latest();
        let options = state.history.options().clone();
        drop(state);
        let (store, id) = (self.store(), self.session.id());
        let rebuilt = History::rebuilt(options, id, self.owner(), store);
        let before = self.session.state().history.restore(rebuilt);
        drop(before);
        self
    }

    /// Replaces the hooks of the editor.
    #[must_use]
    pub fn with_hooks(self, hooks: Hooks) -> Self {
        Self {
            manager: self.manager.with_hooks(hooks),
            ..self
        }
    }

    /// Sets limits for the resources that each transaction may use: see
    /// [`TransactionManager::with_limits`]. Undo and redo are not limited, apart from their keys.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self {
            manager: self.manager.with_limits(limits),
            ..self
        }
    }

    /// Makes the editor lock nodes in place of the document: see
    /// [`TransactionManager::with_node_locks`]. So it can edit, undo and redo while others have
    /// nodes locked that it does not need.
    ///
    /// The history is in the order of versions, whichever threads submit to the editor. A batch
    /// begins with the selection of the editor, which moves with the commits of others while the
    /// batch waits. If the selection is [set](Self::select) meanwhile, that one is kept, and moves
    /// with the edits of the batch. A selection that the batch has read is like a node that it has
    /// read: if a commit of others moves it, the batch is tried again.
    ///
    /// An undo or a redo locks the nodes that it changes. It is determined while no other
    /// transaction is published. If its nodes are not locked yet, it is determined again when they
    /// are, `attempts` times at most, and then it locks the document. An undo also does so while
    /// any entry of the history has an inverse as [code](crate::dsl::op_with_inverse).
    ///
    /// ```
    /// use doclock::{DataStore, Editor, View, dsl::*, lock::node::Scope};
    ///
    /// let store = DataStore::new();
    /// let ann = Editor::new(store.clone(), "ann").with_node_locks(3);
    /// for id in ["title", "chapter"] {
    ///     ann.execute(create(text_node("paragraph", "").with_id(id)))?;
    /// }
    /// let import = store.begin_on("import", Scope::new().write_subtree("chapter"))?;
    /// std::thread::scope(|threads| {
    ///     let typing = threads.spawn(|| {
    ///         ann.execute(insert_text(0, "Draft").on("title"))?;
    ///         ann.undo().commit()?;
    ///         Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    ///     });
    ///     typing.join().unwrap().unwrap();
    /// });
    /// import.commit()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_node_locks(self, attempts: u32) -> Self {
        let manager = self.manager.with_node_locks(attempts);
        Self { manager, ..self }
    }

    /// Sets when a commit returns in a durable store: see
    /// [`TransactionManager::with_durability`].
    #[must_use]
    pub fn with_durability(self, durability: Durability) -> Self {
        let manager = self.manager.with_durability(durability);
        Self { manager, ..self }
    }

    /// Returns the store.
    pub fn store(&self) -> &DataStore {
        self.manager.store()
    }

    /// Returns the owner of the editor.
    pub fn owner(&self) -> &OwnerId {
        self.manager.owner()
    }

    /// Returns the selection in the latest version of the document.
    ///
    /// `None` if nothing is selected, and while a selected node does not exist: the selection
    /// returns when the node is restored. Reads the commits of others since the editor was used
    /// last; after 100,000 commits this takes some milliseconds. Never waits for the lock, except
    /// while a brief batch of this editor runs: at most 512 operations, without code of users.
    pub fn selection(&self) -> Option<Selection> {
        self.session.selection()
    }

    /// Sets or clears the selection, in the latest version of the document.
    ///
    /// # Errors
    ///
    /// [`EditError`]: a node does not exist, or an offset is greater than the length of its text.
    /// The selection is unchanged then.
    pub fn select(&self, selection: impl Into<Option<Selection>>) -> Result<(), EditError> {
        self.session.select(selection.into())
    }

    /// Returns the clipboard.
    pub fn clipboard(&self) -> Option<Fragment> {
        self.session.state().clipboard.clone()
    }

    /// Sets or clears the clipboard.
    pub fn set_clipboard(&self, fragment: impl Into<Option<Fragment>>) {
        self.session.state().clipboard = fragment.into();
    }

    /// What runs the transactions of the editor, and its session.
    pub(super) fn parts(&self) -> (&TransactionManager, &OwnedSession) {
        (&self.manager, &self.session)
    }

    /// Waits for the lock, runs the operations in the order given, and commits. Like
    /// [`TransactionManager::execute`]; the result includes the selection before and after.
    ///
    /// # Errors
    ///
    /// [`TransactionError`]; neither the document nor the selection is changed then.
    #[track_caller]
    pub fn execute(
        &self,
        operations: impl IntoOperations,
    ) -> Result<TransactionResult, TransactionError> {
        let (batch, options) = (&mut Submission::new(operations), AcquireOptions::new());
        let (call_site, session) = (Location::caller(), Some(&self.session));
        self.manager.run(batch, &options, call_site, session)
    }

    /// Returns a transaction of the operations that has not begun, to set its options. Nothing
    /// happens before [`commit`](PendingTransaction::commit) or `.await`.
    #[track_caller]
    pub fn transaction(&self, operations: impl IntoOperations) -> PendingTransaction<'_> {
        PendingTransaction::of_editor(self, Submission::new(operations))
    }
}

/// # Undo and redo
///
/// The history belongs to the editor. It contains the commits of this editor as entries. A
/// transaction is one entry, unless it joins the previous one: text typed or deleted without a
/// pause, whatever others do meanwhile, edits while a [`group`](Editor::group) is open, and edits
/// that are [merged into](crate::history::HistoryMode::MergedInto) an earlier entry.
///
/// An undo takes its entry out of effect: the document is then as if the edits of the entry had not
/// been made, and all other edits had. A redo puts the entry back into effect. The result does not
/// depend on the order in which editors undo and redo. If a later edit of another editor makes the
/// undo impossible, or the undo would revert such an edit, the undo returns a
/// [`UndoConflict`](crate::document::UndoConflict) and changes nothing. Only edits that are in
/// effect conflict, so the conflict ends when the other edit is undone. A redo is not refused
/// because of later edits. It returns a conflict only if the tree forbids it: a node would be
/// inside itself, or its id is taken.
///
/// The entry of an undo that fails stays in the history, and is *stuck*. The next undo tries it
/// again, because the other edit may have been undone meanwhile. If it still fails, the undo
/// continues with the newest older entry for which that is possible. So a stuck entry blocks no
/// other, and its error is returned once. If no entry can be reverted, the undo returns the error
/// of the newest. A redo does the same with the entries that were undone.
///
/// An undo whose entry has no effect any more succeeds, for example if another editor deleted its
/// text. Its result has [`changed`](field@TransactionResult::changed) as `false`, and there is no
/// new version and no event. The entry can be redone. With
/// [`undo_next_effective`](crate::history::HistoryOptions::undo_next_effective) such an undo also
/// continues with the next entry.
impl Editor {
    /// Undoes the latest entry of the history, in a transaction of its own. Nothing happens before
    /// [`commit`](PendingTransaction::commit) or `.await`. The selection is restored to what it was
    /// before the entry. [Stuck entries](#undo-and-redo) are tried again, and left in their place
    /// if they fail again.
    ///
    /// After-hooks run for it. Before-hooks do not, because there are no operations to rewrite.
    /// Result and event list one executed operation, `undo`: see
    /// [`ExecutedOperation`](crate::events::ExecutedOperation).
    ///
    /// If no other editor changed the same nodes, the document is restored exactly, including ids.
    ///
    /// ```
    /// use doclock::{DataStore, Editor, View, dsl::*};
    ///
    /// let store = DataStore::new();
    /// let (ann, bob) = (Editor::new(store.clone(), "ann"), Editor::new(store.clone(), "bob"));
    /// ann.execute([create(text_node("inline-text", "world").with_id("t"))])?;
    /// ann.execute([insert_text(5, "!").on("t")])?;
    /// bob.execute([insert_text(0, "Hello ").on("t")])?;
    /// ann.undo().commit()?;
    /// assert_eq!(store.snapshot().node("t").unwrap().text(), &"Hello world");
    /// // Ann created the node. It stays for Bob's text.
    /// ann.undo().commit()?;
    /// assert_eq!(store.snapshot().node("t").unwrap().text(), &"Hello ");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The commit returns an [`UndoError`]; the document is not changed then, and no entry is
    /// removed.
    #[track_caller]
    pub fn undo(&self) -> PendingTransaction<'_, UndoError> {
        PendingTransaction::rewinding(self, Direction::Undo)
    }

    /// Redoes the entry that was undone last. Nothing happens before
    /// [`commit`](PendingTransaction::commit) or `.await`. [Stuck entries](#undo-and-redo) are
    /// tried again, and left in their place if they fail again. Any other edit of the editor clears
    /// the entries that can be redone, the stuck ones too. It keeps those that were undone
    /// [within a node](PendingTransaction::within) or [of an origin](PendingTransaction::of), if it
    /// is in none of these scopes.
    ///
    /// # Errors
    ///
    /// As for [`undo`](Self::undo).
    #[track_caller]
    pub fn redo(&self) -> PendingTransaction<'_, UndoError> {
        PendingTransaction::rewinding(self, Direction::Redo)
    }

    pub(super) async fn undo_or_redo(
        &self,
        waits_as: WaiterKind,
        what: (Direction, UndoScope),
        (key, durability): (Option<IdempotencyKey>, Option<Durability>),
        options: &AcquireOptions,
        call_site: &'static Location<'static>,
    ) -> Result<TransactionResult, UndoError> {
        let mut observed = ObservedTransaction::default();
        let of_history = |key| IdempotentBatch::of_history(key, (what.0, &what.1), self.owner());
        let once = key.map(of_history);
        let reversal = UndoOrRedo::new(&self.manager, &self.session, &what, once);
        let mut outcome = match reversal.check_in() {
            Ok(()) => {
                self.session.approach_undo(what.0, &what.1);
                let published = reversal.publish(waits_as, (options, call_site), &mut observed);
                published.await
            }
            Err(refused) => Err(refused),
        };
        self.session.drop_removed();
        observed.ended(outcome.as_ref().map_err(UndoError::observed_code));
        let completion = Completion::Here(durability);
        let manager = &self.manager;
        manager
            .complete(waits_as, &mut outcome, completion, &mut observed)
            .await;
        outcome
    }

    /// Returns whether the history has an entry to undo. A [stuck](#undo-and-redo) one counts: it
    /// may be possible to undo it again.
    pub fn can_undo(&self) -> bool {
        self.undo_depth() > 0
    }

    /// Returns whether the history has an entry to redo. A [stuck](#undo-and-redo) one counts.
    pub fn can_redo(&self) -> bool {
        self.redo_depth() > 0
    }

    /// Returns how many entries the history has to undo, with the [stuck](#undo-and-redo) ones.
    pub fn undo_depth(&self) -> usize {
        self.session.state().history.depth(Direction::Undo)
    }

    /// Returns how many entries the history has to redo, with the [stuck](#undo-and-redo) ones.
    pub fn redo_depth(&self) -> usize {
        self.session.state().history.depth(Direction::Redo)
    }

    /// Discards the latest entry without undoing it, [stuck](#undo-and-redo) or not, and returns
    /// whether there was one. An undo tries it no more.
    pub fn discard_undo(&self) -> bool {
        self.discard(Direction::Undo)
    }

    /// Discards the entry that was undone last, [stuck](#undo-and-redo) or not, and returns whether
    /// there was one.
    pub fn discard_redo(&self) -> bool {
        self.discard(Direction::Redo)
    }

    fn discard(&self, direction: Direction) -> bool {
        let (mut state, document) = self.session.latest();
        let discarded = state.history.discard(direction);
        drop(state);
        drop(document);
        self.session.drop_removed();
        discarded
    }

    /// Clears the history, with the [stuck](#undo-and-redo) entries.
    pub fn clear_history(&self) {
        let mut state = self.session.state();
        state.history.clear();
        drop(state);
        self.session.drop_removed();
    }

    /// Opens a group: all commits of the editor until the group is dropped form one entry. Groups
    /// nest; only the outermost has an effect. To begin a new entry, drop the open group first.
    ///
    /// An undo while the group is open undoes the commits of the group so far. Later commits form a
    /// new entry, also if that undo failed.
    ///
    /// ```
    /// use doclock::{DataStore, Editor, dsl::*};
    ///
    /// let editor = Editor::new(DataStore::new(), "ann");
    /// let group = editor.group();
    /// for _ in 0..3 {
    ///     transaction(&editor, [create(element("paragraph", []))]).commit()?;
    /// }
    /// drop(group);
    /// editor.undo().commit()?;
    /// assert!(editor.store().snapshot().is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn group(&self) -> EditGroup {
        self.open_group(None)
    }

    /// Opens a group as [`group`](Self::group) does, and names its entry. Later transactions can be
    /// [merged](crate::history::HistoryMode::MergedInto) into a named entry.
    pub fn group_named(&self, name: impl Into<SmolStr>) -> EditGroup {
        self.open_group(Some(name.into()))
    }

    fn open_group(&self, name: Option<SmolStr>) -> EditGroup {
        let outermost = self.session.state().history.open_group(name);
        EditGroup {
            session: Session::clone(&self.session),
            outermost,
        }
    }

    /// Closes the open group of this name, with all groups in it, and returns whether it was open.
    /// The drop of its [`EditGroup`] has no effect then. So a server can close it by a request of
    /// the client alone.
    ///
    /// ```
    /// use doclock::{DataStore, Editor, dsl::*};
    ///
    /// let editor = Editor::new(DataStore::new(), "ann");
    /// let group = editor.group_named("drag");
    /// editor.execute(create(element("image", []).with_id("cat")))?;
    /// assert!(editor.close_group("drag"));
    /// editor.execute(set_attrs([("width", 100.into())]).on("cat"))?;
    /// drop(group);
    /// assert_eq!(editor.undo_depth(), 2);
    /// # Ok::<(), doclock::transaction::TransactionError>(())
    /// ```
    pub fn close_group(&self, name: &str) -> bool {
        self.session.state().history.close_named(name)
    }

    /// Returns a channel that receives what happens to the entries of the history from now on, for
    /// the buttons of an interface.
    ///
    /// The events are in the order of the commits, and come before the call returns that causes
    /// them. The channel has no bound: drop the receiver, or read it. It ends with the editor.
    ///
    /// ```
    /// use doclock::{DataStore, Editor, dsl::*, history::HistoryEventKind::{Added, Undone}};
    ///
    /// let editor = Editor::new(DataStore::new(), "ann");
    /// let events = editor.history_events();
    /// editor.execute(create(text_node("paragraph", "one")))?;
    /// editor.undo().commit()?;
    /// let events: Vec<_> = events.try_iter().map(|it| (it.kind, it.undo_depth)).collect();
    /// assert_eq!(events, [(Added, 1), (Undone, 0)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn history_events(&self) -> Receiver<HistoryEvent> {
        self.session.state().history.listen()
    }
}

impl fmt::Debug for Editor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Editor")
            .field("owner", self.owner())
            .field("selection", &self.selection())
            .field("undo", &self.undo_depth())
            .field("redo", &self.redo_depth())
            .finish()
    }
}

/// An open group: until it is dropped, all commits of its editor form one entry of the history.
///
/// It borrows nothing, so a server can keep it between requests. A group that outlives its editor
/// has no effect.
///
/// An open group has no limit of time or size, so a server drops it when its client is gone. Edits
/// by other editors do not end it. Text of the group that they have deleted stays deleted by an
/// undo, which undoes the rest.
#[must_use = "the group ends when it is dropped"]
pub struct EditGroup {
    session: Session,
    /// The number of the outermost group.
    outermost: u64,
}

impl fmt::Debug for EditGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EditGroup").finish_non_exhaustive()
    }
}

impl Drop for EditGroup {
    fn drop(&mut self) {
        let mut state = self.session.state();
        state.history.close_group(self.outermost);
    }
}
