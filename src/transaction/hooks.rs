//! Code that runs before and after every transaction of a manager or an editor.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

use super::error::PanicPayload;
use super::user_code::UserCode;
use super::{HookFailure, HookId, Operation, TransactionError, TransactionResult};
use crate::caught::{catch, dispose};
use crate::codes::codes;
use crate::document::SharedList;
use crate::id::OwnerId;
use crate::store::Draft;
use crate::sync::{Mutex, rank};

/// Code that managers and editors run before and after their transactions. Set it with
/// [`TransactionManager::with_hooks`](super::TransactionManager::with_hooks) and
/// [`Editor::with_hooks`](super::Editor::with_hooks).
///
/// Clones refer to the same hooks, so any number of managers can share them. Hooks of a kind run in
/// the order in which they were registered. A transaction runs the before-hooks that are registered
/// when it is submitted, and the after-hooks that are registered when it ends. Hooks may register
/// and remove hooks. Neither kind runs for a batch without operations, nor for a repetition under
/// an idempotency key.
///
/// A hook that owns a manager with these same hooks forms a reference cycle: both stay alive until
/// the hook is removed.
///
/// ```
/// use doclock::{DataStore, Editor, dsl::*, transaction::{Hooks, Refusal}};
///
/// let hooks = Hooks::new();
/// hooks.before(|context, operations| match context.owner().as_str() {
///     "guest" => Err(Refusal::new("guests only read")),
///     _ => Ok(operations),
/// });
/// let editor = Editor::new(DataStore::new(), "guest").with_hooks(hooks.clone());
/// let error = transaction(&editor, [create(element("list", []))]).commit().unwrap_err();
/// assert_eq!(error.to_string(), "before-hook 1 refused the transaction: guests only read");
/// ```
#[derive(Clone, Default)]
pub struct Hooks(Arc<Mutex<{ rank::HOOKS }, Registered>>);

#[derive(Default)]
struct Registered {
    /// How many hooks were ever registered.
    count: u64,
    // Shared with the transactions that run them: no hook runs under the mutex.
    before: Arc<Vec<Hook<Before>>>,
    after: Arc<Vec<Hook<After>>>,
}

struct Hook<F: ?Sized> {
    id: HookId,
    code: Arc<UserCode<F>>,
}

/// The before-hooks of one transaction: those registered when it was submitted.
#[derive(Clone, Default)]
pub(super) struct BeforeHooks(Option<Arc<Vec<Hook<Before>>>>);

type Before =
    dyn Fn(&BeforeHook<'_>, Vec<Operation>) -> Result<Vec<Operation>, Refusal> + Send + Sync;
type After = dyn Fn(&TransactionResult) + Send + Sync;

/// The context of a before-hook.
#[derive(Debug)]
pub struct BeforeHook<'a> {
    owner: &'a OwnerId,
    draft: &'a Draft,
}

/// Why a before-hook refuses a transaction.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
#[non_exhaustive]
pub struct Refusal {
    /// The reason, in one sentence.
    pub reason: String,
}

codes! { Refusal {
    Self { reason } => "refused", 403;
}}

impl Hooks {
    /// How many after-hooks can run nested in one thread, each in a transaction that the outer one
    /// started.
    pub const DEEPEST: usize = 16;

    /// Creates an empty set of hooks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers code that runs before the first operation of each transaction, while the lock is
    /// held. It runs in the thread that submits the transaction, or in any thread that runs batches
    /// if the options allow [any thread](crate::lock::AcquireOptions::any_thread).
    ///
    /// The first hook gets the submitted operations, and each later one gets what the previous hook
    /// returned. A hook returns the operations to run: the same, others, or none. Alternatively it
    /// returns a [`Refusal`], which is the transaction's error then. A panic of the hook is an
    /// error of the transaction, too. In both cases nothing is changed, and the lock is released.
    ///
    /// Other requests wait meanwhile. If the hook starts a transaction of the same store, that is
    /// an error, because the thread would wait for itself.
    ///
    /// ```
    /// use doclock::{DataStore, TransactionManager, View, dsl::*, transaction::Hooks};
    ///
    /// let hooks = Hooks::new();
    /// hooks.before(|context, mut operations| {
    ///     if !context.draft().contains("log") {
    ///         operations.insert(0, create(text_node("log", "").with_id("log")));
    ///     }
    ///     operations.push(insert_text(0, "+").on("log"));
    ///     Ok(operations)
    /// });
    /// let manager = TransactionManager::new(DataStore::new()).with_hooks(hooks);
    /// manager.execute([create(element("list", []))])?;
    /// manager.execute([create(element("list", []))])?;
    /// assert_eq!(manager.store().snapshot().node("log").unwrap().text(), &"++");
    /// # Ok::<(), doclock::transaction::TransactionError>(())
    /// ```
    pub fn before(
        &self,
        code: impl Fn(&BeforeHook<'_>, Vec<Operation>) -> Result<Vec<Operation>, Refusal>
        + Send
        + Sync
        + 'static,
    ) -> HookId {
        let code = Arc::new(UserCode::new(code));
        let mut registered = self.0.lock();
        let id = registered.next_id();
        Arc::make_mut(&mut registered.before).push(Hook { id, code });
        id
    }

    /// Registers code that runs after each completed transaction, in the thread that submitted it,
    /// after the lock is released. It gets the result, which includes whether anything
    /// [changed](TransactionResult::changed).
    ///
    /// It may start transactions, even with the same manager, whose hooks run for them in turn,
    /// nested at most [`DEEPEST`](Self::DEEPEST) deep. A failure of the hook does not undo the
    /// transaction: if it panics or is nested too deeply,
    /// [`hook_failures`](TransactionResult::hook_failures) reports it, and the next hook runs.
    ///
    /// Hooks of transactions in different threads may run at the same time, and in another order
    /// than the commits. To observe commits in order, [subscribe](crate::DataStore::subscribe).
    ///
    /// ```
    /// use doclock::{DataStore, TransactionManager, dsl::*, transaction::Hooks};
    ///
    /// let hooks = Hooks::new();
    /// hooks.after(|result| assert_eq!(result.version, 0, "one is too many"));
    /// let manager = TransactionManager::new(DataStore::new()).with_hooks(hooks);
    /// let result = manager.execute([create(element("list", []))])?;
    /// assert_eq!((result.version, manager.store().version()), (1, 1));
    /// assert!(result.hook_failures[0].to_string().starts_with("after-hook 1 panicked: "));
    /// # Ok::<(), doclock::transaction::TransactionError>(())
    /// ```
    pub fn after(&self, code: impl Fn(&TransactionResult) + Send + Sync + 'static) -> HookId {
        let code = Arc::new(UserCode::new(code));
        let mut registered = self.0.lock();
        let id = registered.next_id();
        Arc::make_mut(&mut registered.after).push(Hook { id, code });
        id
    }

    /// Removes a hook and returns whether it was registered. A before-hook still runs for
    /// transactions that were submitted before the removal.
    ///
    /// ```
    /// let hooks = doclock::transaction::Hooks::new();
    /// let hook = hooks.after(|result| println!("version {}", result.version));
    /// assert!(hooks.remove(hook));
    /// assert!(!hooks.remove(hook));
    /// ```
    pub fn remove(&self, hook: HookId) -> bool {
        // Dropped after the mutex is free: a hook may own values whose drop removes other hooks.
        let (_before, _after);
        let mut registered = self.0.lock();
        _before = take(&mut registered.before, hook);
        _after = take(&mut registered.after, hook);
        _before.is_some() || _after.is_some()
    }

    /// Returns the before-hooks for a transaction that is submitted now.
    pub(super) fn of_submission(&self) -> BeforeHooks {
        let before = Arc::clone(&self.0.lock().before);
        BeforeHooks(Some(before).filter(|before| !before.is_empty()))
    }

    /// Runs all after-hooks, even if one of them fails.
    pub(super) fn run_after(&self, result: &TransactionResult) -> SharedList<HookFailure> {
        let hooks = Arc::clone(&self.0.lock().after);
        if hooks.is_empty() {
            return SharedList::default();
        }
        let run = |hook: &Hook<After>| {
            let Some(_level) = Level::enter() else {
                return Err(HookFailure::TooDeep {
                    hook: hook.id,
                    depth: Self::DEEPEST,
                });
            };
            let outcome = catch(|| (hook.code.get())(result));
            outcome.map_err(|panic| HookFailure::Panicked {
                hook: hook.id,
                message: panic.message().map(str::to_owned),
            })
        };
        let failures = hooks.iter().filter_map(|hook| run(hook).err()).collect();
        // A hook that was removed meanwhile is dropped here, after the commit.
        dispose(hooks);
        failures
    }
}

impl Drop for BeforeHooks {
    /// A hook that was removed meanwhile is dropped here. Its panic is not one of the submitter.
    fn drop(&mut self) {
        dispose(self.0.take());
    }
}

impl BeforeHooks {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the operations that run instead of these.
    pub(super) fn run(
        &self,
        (owner, draft): (&OwnerId, &Draft),
        operations: Vec<Operation>,
    ) -> Result<Vec<Operation>, TransactionError> {
        let context = BeforeHook { owner, draft };
        let mut hooks = self.0.iter().flat_map(|hooks| hooks.iter());
        hooks.try_fold(operations, |operations, hook| {
            let id = hook.id;
            match catch(|| (hook.code.get())(&context, operations)) {
                Ok(Ok(operations)) => Ok(operations),
                Ok(Err(Refusal { reason })) => Err(TransactionError::Refused { hook: id, reason }),
                Err(payload) => Err(TransactionError::HookPanicked {
                    hook: id,
                    payload: PanicPayload::new(payload),
                }),
            }
        })
    }
}

impl fmt::Debug for BeforeHooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hooks = self.0.iter().flat_map(|hooks| hooks.iter());
        f.debug_list().entries(hooks.map(|hook| hook.id)).finish()
    }
}

fn take<F: ?Sized>(hooks: &mut Arc<Vec<Hook<F>>>, id: HookId) -> Option<Hook<F>> {
    let position = hooks.iter().position(|hook| hook.id == id)?;
    Some(Arc::make_mut(hooks).remove(position))
}

impl Registered {
    fn next_id(&mut self) -> HookId {
        self.count += 1;
        HookId::new(self.count)
    }
}

std::thread_local! {
    /// How many after-hooks are running in this thread, over all stores: hooks of two stores could
    /// call each other in a cycle.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// Counts one running after-hook of the thread while it lives.
struct Level;

impl Level {
    fn enter() -> Option<Self> {
        DEPTH.with(|depth| {
            let next = depth.get() + 1;
            (next <= Hooks::DEEPEST).then(|| {
                depth.set(next);
                Self
            })
        })
    }
}

impl Drop for Level {
    fn drop(&mut self) {
        DEPTH.with(|depth| depth.set(depth.get() - 1));
    }
}

impl<'a> BeforeHook<'a> {
    /// Returns the owner of the transaction.
    pub fn owner(&self) -> &'a OwnerId {
        self.owner
    }

    /// Returns the draft of the transaction, for reading: it has no changes yet.
    pub fn draft(&self) -> &'a Draft {
        self.draft
    }
}

impl Refusal {
    /// Creates a refusal with a reason.
    pub fn new(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
        }
    }
}

impl<F: ?Sized> Clone for Hook<F> {
    fn clone(&self) -> Self {
        Self {
            id: self.id,
            code: Arc::clone(&self.code),
        }
    }
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Copied: the formatter may run code of a user.
        let (before, after) = {
            let registered = self.0.lock();
            (
                Arc::clone(&registered.before),
                Arc::clone(&registered.after),
            )
        };
        let before = before.iter().map(|hook| hook.id);
        let after = after.iter().map(|hook| hook.id);
        f.debug_struct("Hooks")
            .field("before", &before.collect::<Vec<_>>())
            .field("after", &after.collect::<Vec<_>>())
            .finish()
    }
}
