//! The guarantees for operation batches, in both forms of contended execution: *delegated* to the
//! combiner, or after the lock was *handed off* to the submitter.

mod batch;
mod ends;
mod evidence;
mod holds;
mod hooks;
mod metrics;
mod order;
mod session;
mod waits;

use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::{Duration, Instant};

use doclock::dsl::op;
use doclock::{
    DataStore, Draft, StoreOptions, TransactionManager,
    document::EditError,
    lock::AcquireOptions,
    time::ManualClock,
    transaction::{IntoOperations, Operation, TransactionError, TransactionResult},
};

/// Runs each test in both forms.
macro_rules! in_both_forms {
    ($($name:ident),* $(,)?) => {
        mod delegated {
            $(#[test] fn $name() { super::$name($crate::forms::Form::Delegated) })*
        }
        mod handed_off {
            $(#[test] fn $name() { super::$name($crate::forms::Form::HandedOff) })*
        }
    };
}
use in_both_forms;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Delegated,
    HandedOff,
}

impl Form {
    /// The options with which batches run in this form, for any number of them.
    fn of(self, options: StoreOptions) -> StoreOptions {
        let lists = match self {
            Self::Delegated => usize::MAX,
            Self::HandedOff => 0,
        };
        options.batch_limit(lists, Duration::MAX).lock_timeout(None)
    }
}

type Outcome = Result<TransactionResult, TransactionError>;

/// A store whose lock is held by a thread inside an operation batch, and the queue. The clock is
/// stopped until the test advances it.
struct Scene {
    form: Form,
    store: DataStore,
    clock: ManualClock,
    first: Pause,
    server: ThreadId,
    holder: JoinHandle<Outcome>,
}

impl Scene {
    fn new(form: Form) -> Self {
        Self::with(form, StoreOptions::new())
    }

    fn with(form: Form, options: StoreOptions) -> Self {
        let clock = ManualClock::new();
        let options = form.of(options).clock(clock.clock());
        Self::on(form, DataStore::with_options(options), clock)
    }

    /// On a store that is in this form already.
    fn on(form: Form, store: DataStore, clock: ManualClock) -> Self {
        let (pausing, first) = pause();
        let manager = TransactionManager::for_owner(store.clone(), "holder");
        let holder =
            thread::spawn(move || manager.transaction(pausing).options(any_thread()).commit());
        let server = first.entered();
        Self {
            form,
            store,
            clock,
            first,
            server,
            holder,
        }
    }

    /// A thread that requests the lock, and is now last in the queue.
    fn join<T: Send + 'static>(
        &self,
        body: impl FnOnce(&DataStore) -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let before = self.store.queue_length();
        let store = self.store.clone();
        let waiter = thread::spawn(move || body(&store));
        until(|| self.store.queue_length() > before);
        waiter
    }

    /// A thread that has submitted a batch, which is now last in the queue.
    fn list(&self, owner: &str, operations: impl IntoOperations) -> JoinHandle<Outcome> {
        let manager = TransactionManager::for_owner(self.store.clone(), owner);
        let operations = operations.into_operations();
        self.join(move |_| {
            manager
                .transaction(operations)
                .options(any_thread())
                .commit()
        })
    }

    /// The thread that will run the batch of this one, after other batches only.
    fn runner(&self, submitter: ThreadId) -> ThreadId {
        match self.form {
            Form::Delegated => self.server,
            Form::HandedOff => submitter,
        }
    }

    /// Lets the holder finish its batch, and returns when `execute` has returned.
    fn go_on(self) -> DataStore {
        self.first.resume();
        self.back()
    }

    /// Returns when the resumed holder has returned from `execute`.
    fn back(self) -> DataStore {
        self.holder.join().unwrap().unwrap();
        self.store
    }
}

/// Pauses a thread until it is resumed.
struct Pause {
    entered: mpsc::Receiver<ThreadId>,
    go_on: mpsc::Sender<()>,
}

/// An operation in which its thread waits. Each run needs its own `resume`.
fn pause() -> (Operation, Pause) {
    let (tell, entered) = mpsc::channel();
    let (go_on, told) = mpsc::channel();
    let told = Mutex::new(told);
    let pausing = act(move |_| {
        // The receiver is gone if the test has failed.
        let _ = tell.send(thread::current().id());
        let _ = told.lock().unwrap().recv();
    });
    (pausing, Pause { entered, go_on })
}

impl Pause {
    /// Returns once a thread is inside the operation: that thread.
    fn entered(&self) -> ThreadId {
        self.entered.recv_timeout(PATIENCE).unwrap()
    }

    fn resume(&self) {
        self.go_on.send(()).unwrap();
    }
}

/// Allows any thread to run a batch, even with code.
fn any_thread() -> AcquireOptions {
    AcquireOptions::new().any_thread()
}

/// An operation that runs code and changes nothing.
fn act(code: impl Fn(&mut Draft) + Send + Sync + 'static) -> Operation {
    op(move |transaction| {
        code(transaction);
        Ok::<_, EditError>(())
    })
}

/// Recorded notes, in order, with their threads.
struct Notes<T>(Arc<Mutex<Vec<(T, ThreadId)>>>);

impl<T: Clone + Send + Sync + 'static> Notes<T> {
    fn new() -> Self {
        Self(Arc::default())
    }

    fn add(&self, note: T) {
        let by = thread::current().id();
        self.0.lock().unwrap().push((note, by));
    }

    /// An operation that records its run.
    fn note(&self, note: T) -> Operation {
        let notes = self.clone();
        act(move |_| notes.add(note.clone()))
    }

    fn all(&self) -> Vec<(T, ThreadId)> {
        self.0.lock().unwrap().clone()
    }

    fn what(&self) -> Vec<T> {
        self.all().into_iter().map(|(note, _)| note).collect()
    }

    fn by(&self) -> Vec<ThreadId> {
        self.all().into_iter().map(|(_, by)| by).collect()
    }
}

impl<T> Clone for Notes<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// The timeout for events that come at once or never.
const PATIENCE: Duration = Duration::from_secs(60);

fn until(reached: impl Fn() -> bool) {
    let asked = Instant::now();
    while !reached() {
        assert!(asked.elapsed() < PATIENCE, "it never came");
        thread::yield_now();
    }
}
