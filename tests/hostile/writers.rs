//! Writers that call the store or panic during formatting.

use std::fmt::{self, Debug, Display, Write};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use doclock::dsl::*;
use doclock::{
    DataStore, Editor, StoreOptions, TransactionManager, View,
    document::{EditError, NodeSpec},
    inbox::Inbox,
    lease::LeaseTarget,
    lock::{CancelToken, FifoLock, keyed::KeyedLock, limiter::InFlightLimiter, node::Scope},
    time::ManualClock,
    transaction::Hooks,
};

use crate::{ends, message};

/// Runs an act for each piece of text.
struct Writer<'a>(&'a dyn Fn());

impl Write for Writer<'_> {
    fn write_str(&mut self, _: &str) -> fmt::Result {
        (self.0)();
        Ok(())
    }
}

impl io::Write for Writer<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (self.0)();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Serializes a value into a writer.
type Serialize<'a> = &'a dyn Fn(&mut Writer<'_>) -> serde_json::Result<()>;

/// All values that can be formatted, in use.
struct Things {
    store: DataStore,
    editor: Editor,
    lock: FifoLock,
    keyed: KeyedLock<u32>,
    limiter: InFlightLimiter<u32>,
    hooks: Hooks,
    inbox: Inbox,
    token: CancelToken,
    clock: ManualClock,
}

impl Things {
    fn new() -> Self {
        let clock = ManualClock::new();
        let store = DataStore::with_options(StoreOptions::new().clock(clock.clock()));
        let hooks = Hooks::new();
        hooks.before(|_, operations| Ok(operations));
        hooks.after(|_| ());
        let editor = Editor::new(store.clone(), "ann");
        editor.execute(create(NodeSpec::new("x"))).unwrap();
        let token = CancelToken::new();
        Self {
            inbox: Inbox::new(&store, "inbox"),
            editor,
            lock: FifoLock::new(),
            keyed: KeyedLock::new(),
            limiter: InFlightLimiter::new(2),
            hooks,
            token,
            clock,
            store,
        }
    }

    /// Locks each mutex.
    fn use_all(&self) {
        let store = &self.store;
        let _ = (store.snapshot(), store.version(), store.lock_stats());
        let _ = (store.diagnostics().to_string(), store.node_locks().stats());
        drop((store.subscribe(), store.try_lock("writer")));
        let _ = (self.editor.can_undo(), self.editor.selection());
        drop(Editor::new(store.clone(), "writer"));
        let _ = (self.lock.lock_stats(), self.lock.queue_info());
        drop(self.lock.try_lock("writer"));
        let _ = (self.keyed.stats(), self.keyed.active_keys());
        drop(self.keyed.reserve(&7));
        let _ = (
            self.limiter.snapshot(),
            self.limiter.request(7).no_wait().wait().map(drop),
        );
        let hook = self.hooks.before(|_, operations| Ok(operations));
        assert!(self.hooks.remove(hook));
        let _ = (
            self.inbox.stats(),
            self.inbox.claim(&("writer", ())).is_ok(),
        );
        let _ = (
            self.token.is_cancelled(),
            self.clock.advance(Duration::from_nanos(1)),
        );
    }

    /// Formats everything.
    fn format(&self, mut write: impl FnMut(&dyn Debug, Option<&dyn Display>)) {
        let store = &self.store;
        write(store, None);
        write(&store.snapshot(), None);
        write(&self.editor, None);
        write(&self.editor.group(), None);
        write(&store.lock_stats(), Some(&store.lock_stats()));
        write(&store.diagnostics(), Some(&store.diagnostics()));
        write(
            &store.node_locks().stats(),
            Some(&store.node_locks().stats()),
        );
        write(&store.subscribe(), None);
        write(&TransactionManager::new(store.clone()), None);
        write(&self.hooks, None);
        write(&self.token, None);
        write(&self.clock, None);
        write(&self.inbox, None);
        write(&self.inbox.stats(), Some(&self.inbox.stats()));
        write(&self.inbox.claim(&("event", ())), None);
        {
            let _held = self.lock.lock("ann");
            write(&self.lock, None);
            write(&_held, None);
        }
        {
            let turn = self.keyed.reserve(&1).unwrap();
            write(&self.keyed, None);
            write(&turn, None);
            write(&self.keyed.current_execution(&1), None);
            write(&self.keyed.stats(), Some(&self.keyed.stats()));
        }
        {
            let permit = self.limiter.request(1).no_wait().wait().unwrap();
            write(&self.limiter, None);
            write(&permit, None);
            write(&self.limiter.snapshot(), Some(&self.limiter.snapshot()));
        }
        {
            let guard = store.try_lock("ann").unwrap();
            write(&guard, None);
            let info = store.current_lock().unwrap();
            write(&info, Some(&info));
            write(store, None);
        }
        {
            let transaction = store.begin("ann").unwrap();
            write(&transaction, None);
        }
        {
            let scope = Scope::new().write("some-node");
            let transaction = store.begin_on("ann", scope);
            write(&transaction, None);
        }
        let lease = store
            .leases()
            .acquire(LeaseTarget::Document, "ann", Duration::from_secs(1));
        write(&lease, None);
        let torn = op(|_| -> Result<(), EditError> { panic!("torn") });
        let error = self.editor.execute(torn).unwrap_err();
        write(&error, Some(&error));
    }

    /// Serializes everything.
    fn serialize(&self, mut write: impl FnMut(Serialize<'_>)) {
        let store = &self.store;
        let _held = self.lock.lock("ann");
        let _turn = self.keyed.reserve(&1).unwrap();
        let _permit = self.limiter.request(1).no_wait().wait().unwrap();
        let _guard = store.try_lock("ann").unwrap();
        write(&|writer| serde_json::to_writer(writer, &store.current_lock()));
        write(&|writer| serde_json::to_writer(writer, &store.lock_stats()));
        write(&|writer| serde_json::to_writer(writer, &store.diagnostics()));
        write(&|writer| serde_json::to_writer(writer, &store.queue_info()));
        write(&|writer| serde_json::to_writer(writer, &store.node_locks().stats()));
        write(&|writer| serde_json::to_writer(writer, &store.snapshot().nodes().next()));
        write(&|writer| serde_json::to_writer(writer, &self.editor.selection()));
        write(&|writer| serde_json::to_writer(writer, &self.lock.lock_stats()));
        write(&|writer| serde_json::to_writer(writer, &self.lock.queue_info()));
        write(&|writer| serde_json::to_writer(writer, &self.keyed.stats()));
        write(&|writer| serde_json::to_writer(writer, &self.limiter.snapshot()));
        write(&|writer| serde_json::to_writer(writer, &self.inbox.stats()));
    }
}

#[test]
fn lock_09_a_writer_that_something_is_formatted_into_may_use_everything() {
    ends(|| {
        let things = Arc::new(Things::new());
        let (user, mut written) = (Arc::clone(&things), 0);
        things.format(|debug, display| {
            let mut writer = Writer(&|| user.use_all());
            write!(writer, "{debug:?}").unwrap();
            if let Some(display) = display {
                write!(writer, "{display}").unwrap();
            }
            written += 1;
        });
        assert!(written > 25);
    });
}

#[test]
fn lock_09_a_writer_that_panics_leaves_no_lock_held() {
    ends(|| {
        let things = Things::new();
        things.format(|debug, display| {
            let mut writer = Writer(&|| panic!("burst"));
            let formatted = catch_unwind(AssertUnwindSafe(|| {
                let _ = write!(writer, "{debug:?}");
                display.map(|display| write!(writer, "{display}"))
            }));
            assert_eq!(message(&*formatted.unwrap_err()), "burst");
            things.use_all();
        });
    });
}

#[test]
fn lock_09_a_writer_that_something_is_serialized_into_may_use_everything() {
    ends(|| {
        let things = Things::new();
        let mut written = 0;
        things.serialize(|serialize| {
            serialize(&mut Writer(&|| things.use_all())).unwrap();
            written += 1;
        });
        assert!(written > 11);
    });
}

#[test]
fn lock_09_a_serializer_that_panics_leaves_no_lock_held() {
    ends(|| {
        let things = Things::new();
        things.serialize(|serialize| {
            let serialized = catch_unwind(AssertUnwindSafe(|| {
                serialize(&mut Writer(&|| panic!("burst")))
            }));
            assert_eq!(message(&*serialized.unwrap_err()), "burst");
            things.use_all();
        });
    });
}
