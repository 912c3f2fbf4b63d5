//! The state of the program, without its windows.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use doclock::document::{Limits, Snapshot};
use doclock::durable::{CloseReport, DurabilityError, DurableOptions};
use doclock::lock::AcquireOptions;
use doclock::transaction::{Operation, TransactionResult, parse_operations};
use doclock::{DataStore, Editor, LockId, StoreOptions, TransactionManager, View, dsl};
use serde::Serialize;
use serde_json::{Value, json};

use crate::Outcome;

/// What a command returns to the page: a value, or an error as JSON.
pub type Answer = Result<Value, Value>;

/// The node that has the text.
const TEXT: &str = "text";

/// How long a window may hold the lock while another request waits.
const HOLD_LIMIT: Duration = Duration::from_secs(3);

pub struct Desktop {
    pub store: DataStore,
    name: String,
    sessions: Mutex<HashMap<String, Arc<Session>>>,
}

/// What the program keeps for a window.
pub struct Session {
    editor: Editor,
    /// The lock of a replacement that has begun.
    lock: Mutex<Option<LockId>>,
    closes: AtomicBool,
}

impl Desktop {
    /// Opens the file, or creates it.
    pub fn open(file: &Path) -> Outcome<Self> {
        let desktop = Self::open_with(file, DurableOptions::new())?;
        if desktop.store.version() == 0 {
            let page = dsl::element("page", [dsl::text_node("paragraph", "").with_id(TEXT)]);
            let create = [
                dsl::create(page.with_id("page")),
                dsl::set_root().on("page"),
            ];
            TransactionManager::new(desktop.store.clone()).execute(create)?;
        }
        match desktop.store.snapshot().node(TEXT) {
            Some(_) => Ok(desktop),
            None => Err("the document has another form: it has no node named text".into()),
        }
    }

    pub fn open_existing(file: &Path) -> Outcome<Self> {
        Self::open_with(file, DurableOptions::new().only_existing())
    }

    fn open_with(file: &Path, options: DurableOptions) -> Outcome<Self> {
        let limits = StoreOptions::new()
            .lock_timeout(Duration::from_secs(10))
            .hold_limit(HOLD_LIMIT);
        let name = file.file_name().unwrap_or_default();
        Ok(Self {
            store: DataStore::open_with(file, options.store(limits))?,
            name: name.to_string_lossy().into_owned(),
            sessions: Mutex::default(),
        })
    }

    pub fn text(&self) -> String {
        text(&self.store.snapshot())
    }

    pub fn document(&self) -> Value {
        let snapshot = self.store.snapshot();
        json!({"name": self.name, "version": snapshot.version(), "text": text(&snapshot)})
    }

    /// The durable version and the lock. Does not wait.
    pub fn status(&self) -> Value {
        let stats = self.store.lock_stats();
        let queue: Vec<String> = stats.queue.iter().map(ToString::to_string).collect();
        json!({
            "durableVersion": self.store.durable_snapshot().map(|it| it.version()),
            "owner": stats.current_lock.as_ref().map(|holder| &holder.owner_id),
            "holder": stats.current_lock.as_ref().map(ToString::to_string),
            "queue": queue.join("\n"),
            "revoked": stats.total_revocations,
            "lastRevoked": stats.last_revocations.last().map(ToString::to_string),
        })
    }

    pub fn session(&self, window: &str) -> Arc<Session> {
        let new = || Arc::new(Session::new(&self.store, window));
        let mut sessions = locked(&self.sessions);
        Arc::clone(sessions.entry(window.to_owned()).or_insert_with(new))
    }

    pub fn end_session(&self, window: &str) {
        let ended = locked(&self.sessions).remove(window);
        drop(ended);
    }

    /// Waits until everything is on the disk. Later commits are refused.
    pub fn close(&self) -> Result<CloseReport, DurabilityError> {
        self.store.close()
    }
}

impl Session {
    fn new(store: &DataStore, window: &str) -> Self {
        Self {
            editor: Editor::new(store.clone(), window).with_limits(Limits::new()),
            lock: Mutex::default(),
            closes: AtomicBool::new(false),
        }
    }

    /// Runs a batch that the page wrote.
    pub fn edit(&self, script: &str) -> Answer {
        let batch = parse_operations(script).map_err(failure)?;
        version(self.editor.execute(batch))
    }

    pub fn undo(&self) -> Answer {
        version(self.editor.undo().commit())
    }

    pub fn redo(&self) -> Answer {
        version(self.editor.redo().commit())
    }

    /// Locks the document and counts the matches. Another commit is possible only after the
    /// replacement has ended, or was revoked.
    pub fn begin_replacement(&self, find: &str) -> Answer {
        let (store, owner) = (self.editor.store(), self.editor.owner());
        self.cancel_replacement()?;
        let options = AcquireOptions::new().label("replacement");
        let id = store.request(owner).options(options).wait().map(|guard| guard.into_id()).map_err(failure)?;
        *locked(&self.lock) = Some(id);
        let matches = replacements(&store.snapshot(), find, "").len();
        Ok(json!({"matches": matches, "holdLimit": HOLD_LIMIT.as_secs()}))
    }

    /// Replaces the matches and unlocks the document.
    pub fn end_replacement(&self, find: &str, replacement: &str) -> Answer {
        let Some(id) = locked(&self.lock).take() else {
            return Err(json!({"code": "notBegun", "message": "no replacement has begun"}));
        };
        let store = self.editor.store();
        let batch = replacements(&store.snapshot(), find, replacement);
        let edited = TransactionManager::new(store.clone()).execute_under(id, batch);
        // After a revocation, this is the error that says so.
        let released = store.release_lock(id).map_err(failure);
        match edited {
            Ok(_) => version(edited),
            Err(error) => released.and(Err(failure(error))),
        }
    }

    pub fn cancel_replacement(&self) -> Answer {
        if let Some(id) = locked(&self.lock).take() {
            self.editor.store().release_lock(id).map_err(failure)?;
        }
        Ok(Value::Null)
    }

    pub fn is_first_close(&self) -> bool {
        !self.closes.swap(true, Ordering::Relaxed)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.cancel_replacement();
    }
}

fn text(snapshot: &Snapshot) -> String {
    snapshot
        .node(TEXT)
        .map_or_else(String::new, |node| node.text().to_string())
}

/// Replaces each match, the last one first, so that the offsets of the others stay.
fn replacements(snapshot: &Snapshot, find: &str, replacement: &str) -> Vec<Operation> {
    let text = text(snapshot);
    let length = find.chars().count();
    let operation = |(byte, _)| {
        let start = text[..byte].chars().count();
        dsl::replace_text(start, start + length, replacement).on(TEXT)
    };
    match find {
        "" => Vec::new(),
        _ => text.rmatch_indices(find).map(operation).collect(),
    }
}

fn version<E: Serialize>(outcome: Result<TransactionResult, E>) -> Answer {
    outcome
        .map(|result| json!({"version": result.version}))
        .map_err(failure)
}

/// The JSON of an error, with its code, its message and its evidence.
pub fn failure(error: impl Serialize) -> Value {
    let unreadable = |error: serde_json::Error| json!({"message": error.to_string()});
    serde_json::to_value(error).unwrap_or_else(unreadable)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
