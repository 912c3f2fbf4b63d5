//! Code that runs before and after every transaction of whoever has it.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use super::error::PanicPayload;
use super::user_code::UserCode;
use super::{Operation, TransactionError, TransactionResult};
use crate::caught::{catch, dispose};
use crate::codes::codes;
use crate::id::OwnerId;
use crate::store::Transaction;
use crate::sync::{Mutex, rank};

/// Code that managers and editors run before and after their transactions, given to them with
/// [`TransactionManager::with_hooks`](super::TransactionManager::with_hooks) and
/// [`Editor::with_hooks`](super::Editor::with_hooks).
///
/// Clones are handles of the same hooks, so any number of managers can share them. Hooks of a kind
/// run in the order in which they were registered. The before-hooks of a transaction are those that
/// are registered when it is submitted, its after-hooks those that are registered when it is over.
/// Hooks may register and remove hooks. Neither kind runs for a list without operations, nor for a
/// repetition under an idempotency key.
///
/// A hook that owns a manager which has these hooks keeps both alive for good, unless it is
/// removed.
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
    /// How many hooks there have been.
    count: u64,
    // Shared with the transactions that run them: no hook runs under the mutex.
    before: Arc<Vec<Hook<Before>>>,
    after: Arc<Vec<Hook<After>>>,
}

struct Hook<F: ?Sized> {
    id: HookId,
    code: Arc<UserCode<F>>,
}

/// The before-hooks of one transaction: those that were registered when it was submitted.
#[derive(Clone, Default)]
pub(super) struct BeforeHooks(Option<Arc<Vec<Hook<Before>>>>);

type Before =
    dyn Fn(&BeforeHook<'_>, Vec<Operation>) -> Result<Vec<Operation>, Refusal> + Send + Sync;
type After = dyn Fn(&TransactionResult) + Send + Sync;

/// A hook of some [`Hooks`]: the first is number 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct HookId(u64);

/// What a before-hook can look at.
#[derive(Debug)]
pub struct BeforeHook<'a> {
    transaction: &'a Transaction,
}

/// Why a before-hook does not let a transaction happen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
#[non_exhaustive]
pub struct Refusal {
    /// In one sentence.
    pub reason: String,
}

codes! { Refusal {
    Self { reason } => "refused";
}}

/// An after-hook that did not do its work. The transaction is committed all the same.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HookFailure {
    /// It panicked.
    #[error("after-hook {hook} panicked: {}", .message.as_deref().unwrap_or("without a message"))]
    Panicked {
        /// The hook.
        hook: HookId,
        /// The message of the panic, if it had one.
        message: Option<String>,
    },
    /// It was not run, because the transaction was started by an after-hook, in a transaction that
    /// was started by an after-hook, and so on.
    #[error("after-hook {hook} was not run: {depth} after-hooks run within each other already")]
    TooDeep {
        /// The hook.
        hook: HookId,
        /// How many after-hooks this thread was in.
        depth: usize,
    },
}

codes! { HookFailure {
    Self::Panicked { hook, message } => "afterHookPanicked" { hook: hook, panic_message: message };
    Self::TooDeep { hook, depth } => "afterHookTooDeep";
}}

impl Hooks {
    /// How many after-hooks can run within each other in one thread, each in a transaction that the
    /// one around it started.
    pub const DEEPEST: usize = 16;

    /// No hooks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers code that runs before the first operation of each transaction, when the lock is
    /// held.
    ///
    /// It gets the operations, in the first hook those that were submitted, in each further one
    /// what the hook before it returned. It returns those that are to be carried out: the same,
    /// others, none; or a [`Refusal`], which is the transaction's error then. If it panics, that is
    /// its error too. Either way nothing was changed, and the lock goes to the next in line.
    ///
    /// Others wait meanwhile; a transaction of the same store that it starts is an error, because
    /// the thread would wait for itself.
    ///
    /// ```
    /// use doclock::{DataStore, TransactionManager, View, dsl::*, transaction::Hooks};
    ///
    /// let hooks = Hooks::new();
    /// hooks.before(|context, mut operations| {
    ///     if !context.transaction().contains(&"log".into()) {
    ///         operations.insert(0, create(text_node("log", "").with_id("log")));
    ///     }
    ///     operations.push(insert_text(0, "+").on("log"));
    ///     Ok(operations)
    /// });
    /// let manager = TransactionManager::new(DataStore::new()).with_hooks(hooks);
    /// manager.execute([create(element("list", []))])?;
    /// manager.execute([create(element("list", []))])?;
    /// assert_eq!(manager.store().snapshot().node(&"log".into()).unwrap().text(), &"++");
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

    /// Registers code that runs after each transaction that was carried out, in the thread that
    /// submitted it, when the lock is released. It sees the result, which says whether anything was
    /// [changed](TransactionResult::changed).
    ///
    /// It may start transactions, also with the same manager, whose hooks run for them in turn, but
    /// no more than [`DEEPEST`](Self::DEEPEST) of them within each other. What happens to it does
    /// not undo the transaction: if it panics or is too deep, the result says so in
    /// [`hook_failures`](TransactionResult::hook_failures), and the next hook runs.
    ///
    /// Hooks of transactions in different threads may run at the same time, and in another order
    /// than that of the commits; for those in order, [subscribe](crate::DataStore::subscribe).
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

    /// Removes a hook. A before-hook still runs for transactions that were submitted before.
    /// Returns whether it was there.
    ///
    /// ```
    /// let hooks = doclock::transaction::Hooks::new();
    /// let hook = hooks.after(|result| println!("version {}", result.version));
    /// assert!(hooks.remove(hook));
    /// assert!(!hooks.remove(hook));
    /// ```
    pub fn remove(&self, hook: HookId) -> bool {
        // Dropped after the mutex is free: what a hook owns may have hooks of its own to remove.
        let (_before, _after);
        let mut registered = self.0.lock();
        _before = take(&mut registered.before, hook);
        _after = take(&mut registered.after, hook);
        _before.is_some() || _after.is_some()
    }

    /// The before-hooks, for a transaction that is submitted now.
    pub(super) fn of_submission(hooks: Option<&Self>) -> BeforeHooks {
        let before = hooks.map(|hooks| Arc::clone(&hooks.0.lock().before));
        BeforeHooks(before.filter(|before| !before.is_empty()))
    }

    /// Runs the after-hooks, every one whatever becomes of the others.
    pub(super) fn run_after(&self, result: &TransactionResult) -> Vec<HookFailure> {
        let hooks = Arc::clone(&self.0.lock().after);
        if hooks.is_empty() {
            return Vec::new();
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

impl BeforeHooks {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The operations that are to be carried out in the place of these.
    pub(super) fn run(
        &self,
        transaction: &Transaction,
        operations: Vec<Operation>,
    ) -> Result<Vec<Operation>, TransactionError> {
        let context = BeforeHook { transaction };
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
        f.debug_list().entries(hooks.map(|hook| hook.id.0)).finish()
    }
}

fn take<F: ?Sized>(hooks: &mut Arc<Vec<Hook<F>>>, id: HookId) -> Option<Hook<F>> {
    let position = hooks.iter().position(|hook| hook.id == id)?;
    Some(Arc::make_mut(hooks).remove(position))
}

impl Registered {
    fn next_id(&mut self) -> HookId {
        self.count += 1;
        HookId(self.count)
    }
}

std::thread_local! {
    /// How many after-hooks this thread is in, those of all stores: they could call each other in a
    /// circle.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// One more after-hook that the thread is in, as long as it lives.
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
    /// For whom the transaction runs.
    pub fn owner(&self) -> &'a OwnerId {
        self.transaction.owner()
    }

    /// The open transaction, to be read: nothing has been done in it yet.
    pub fn transaction(&self) -> &'a Transaction {
        self.transaction
    }
}

impl Refusal {
    /// A refusal for a reason.
    pub fn new(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
        }
    }
}

impl fmt::Display for HookId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
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
        // Copied: what is written to may be code of a user.
        let (before, after) = {
            let registered = self.0.lock();
            (
                Arc::clone(&registered.before),
                Arc::clone(&registered.after),
            )
        };
        let before = before.iter().map(|hook| hook.id.0);
        let after = after.iter().map(|hook| hook.id.0);
        f.debug_struct("Hooks")
            .field("before", &before.collect::<Vec<_>>())
            .field("after", &after.collect::<Vec<_>>())
            .finish()
    }
}
