//! Keys whose `Hash`, `Eq`, `Clone`, `Drop` and `Debug` panic, or call the object with the key.

use std::cell::Cell;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::message;

/// Code of a key, by name.
pub(crate) const CODE: [&str; 5] = ["hash", "eq", "clone", "drop", "debug"];

type Act = Arc<dyn Fn() + Send + Sync>;

/// The acts of keys.
#[derive(Clone, Default)]
pub(crate) struct Script(Arc<Mutex<Option<(&'static str, Act)>>>);

thread_local! {
    /// Whether the thread runs an act. Acts do not nest.
    static ACTS: Cell<bool> = const { Cell::new(false) };
}

impl Script {
    /// Runs the act whenever this code of a key runs.
    pub(crate) fn when(&self, code: &'static str, act: impl Fn() + Send + Sync + 'static) {
        *self.0.lock().unwrap() = Some((code, Arc::new(act)));
    }

    pub(crate) fn end(&self) {
        let act = self.0.lock().unwrap().take();
        drop(act);
    }

    fn reached(&self, code: &str) {
        let act = self.0.lock().unwrap().clone();
        let Some((_, act)) = act.filter(|(armed, _)| *armed == code) else {
            return;
        };
        if !ACTS.replace(true) {
            let ended = catch_unwind(AssertUnwindSafe(|| act()));
            ACTS.set(false);
            if let Err(payload) = ended {
                std::panic::resume_unwind(payload);
            }
        }
    }
}

/// A key with scripted code.
pub(crate) struct Key {
    pub(crate) id: u32,
    pub(crate) script: Script,
}

impl Key {
    pub(crate) fn new(id: u32, script: &Script) -> Self {
        let script = script.clone();
        Self { id, script }
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.script.reached("hash");
        self.id.hash(state);
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.script.reached("eq");
        self.id == other.id
    }
}

impl Eq for Key {}

impl Clone for Key {
    fn clone(&self) -> Self {
        self.script.reached("clone");
        Self::new(self.id, &self.script)
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        self.script.reached("drop");
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.script.reached("debug");
        write!(f, "{}", self.id)
    }
}

/// How many steps succeeded, and how many panicked in a key.
#[derive(Default)]
pub(crate) struct Ends {
    pub(crate) well: AtomicUsize,
    pub(crate) torn: AtomicUsize,
}

impl Ends {
    pub(crate) fn note(&self, step: impl FnOnce()) {
        let count = match catch_unwind(AssertUnwindSafe(step)) {
            Ok(()) => &self.well,
            Err(payload) => match message(&*payload) {
                "torn" => &self.torn,
                other => panic!("{other}"),
            },
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether there were successes, and panics.
    pub(crate) fn any(&self) -> [bool; 2] {
        [&self.well, &self.torn].map(|count| count.load(Ordering::Relaxed) > 0)
    }
}
