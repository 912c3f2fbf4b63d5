//! Messages, handlers, outcomes and errors of an inbox.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use doclock::{
    DataStore, Draft,
    document::NodeSpec,
    inbox::{Feed, HandlerError, HandlerResult, Inbox, Message, Outcome},
    lock::LockError,
};

use crate::{OnDrop, ends, message};

type Act = Arc<dyn Fn() + Send + Sync>;

/// A message whose code runs an act.
#[derive(Clone)]
struct Letter {
    id: &'static str,
    acts_in: &'static str,
    act: Act,
}

impl Letter {
    fn reached(&self, code: &str) {
        if self.acts_in == code {
            (self.act)();
        }
    }
}

impl Message for Letter {
    fn event_id(&self) -> &str {
        self.reached("event_id");
        self.id
    }

    fn sent_at(&self) -> Option<SystemTime> {
        self.reached("sent_at");
        Some(SystemTime::UNIX_EPOCH)
    }
}

impl Drop for Letter {
    fn drop(&mut self) {
        self.reached("drop");
    }
}

/// An error whose code runs an act.
struct Hostile(&'static str, Act);

impl fmt::Display for Hostile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == "display" {
            (self.1)();
        }
        f.write_str("hostile")
    }
}

impl fmt::Debug for Hostile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Hostile {}

impl Drop for Hostile {
    fn drop(&mut self) {
        if self.0 == "error drop" {
            (self.1)();
        }
    }
}

/// Calls all methods of the inbox and its store. The thread may hold the lock of the store.
fn use_all(inbox: &Inbox) {
    let store = inbox.store();
    let _ = inbox.process(&("nested", 1), |_, _| Ok(()));
    drop(inbox.claim(&("claimed", 1)));
    let (send, messages) = crossbeam_channel::unbounded();
    send.send(("run", 1)).unwrap();
    drop(send);
    let _ = inbox.run(&messages, |_, _| Ok(()));
    let _ = (inbox.event("event"), inbox.dead_letters(), inbox.stats());
    let _ = (inbox.revive("nested"), inbox.prune(SystemTime::UNIX_EPOCH));
    let _ = (format!("{inbox:?} {store:?}"), inbox.name(), inbox.clone());
    let _ = (store.snapshot(), store.version(), store.diagnostics());
    drop(store.try_lock("hostile"));
}

const CODE: [&str; 7] = [
    "event_id",
    "sent_at",
    "drop",
    "handler",
    "outcome",
    "display",
    "error drop",
];

/// Handles one message with an act at this point. Returns how often the handler succeeded.
fn deliver(inbox: &Inbox, code: &'static str, act: &Act) -> usize {
    let done = AtomicUsize::new(0);
    let handler = |transaction: &mut Draft, _: &Letter| -> HandlerResult {
        let _owned = OnDrop(|| {
            if code == "handler" {
                act();
            }
        });
        transaction.create(NodeSpec::new("x"))?;
        if matches!(code, "display" | "error drop") && done.load(Ordering::Relaxed) == 0 {
            done.fetch_add(1, Ordering::Relaxed);
            return Err(Hostile(code, Arc::clone(act)).into());
        }
        done.fetch_add(1, Ordering::Relaxed);
        Ok(())
    };
    let letter = Letter {
        id: "letter",
        acts_in: code,
        act: Arc::clone(act),
    };
    let (send, messages) = crossbeam_channel::unbounded();
    send.send(letter).unwrap();
    drop(send);
    let feed = Feed::from(&messages).on_outcome(|_, _| {
        if code == "outcome" {
            act();
        }
    });
    inbox.run(feed, handler).unwrap();
    done.load(Ordering::Relaxed)
}

#[test]
fn inbox_01_code_of_messages_and_handlers_may_use_the_inbox() {
    for code in CODE {
        ends(move || {
            let inbox = Inbox::new(&DataStore::new(), "inbox");
            let used = Arc::new(AtomicUsize::new(0));
            let (user, count) = (inbox.clone(), Arc::clone(&used));
            let act: Act = Arc::new(move || {
                count.fetch_add(1, Ordering::Relaxed);
                use_all(&user);
            });
            assert!(deliver(&inbox, code, &act) > 0);
            assert!(used.load(Ordering::Relaxed) > 0, "{code}");
            let state = inbox.process(&("letter", ()), |_, _| Ok(())).unwrap();
            assert!(matches!(state, Outcome::Duplicate), "{code}: {state:?}");
            assert!(!inbox.store().is_locked());
        });
    }
}

/// No effect is repeated and no claim remains, at any point where user code panics.
#[test]
fn inbox_02_code_of_messages_and_handlers_that_panics_costs_no_event() {
    for code in CODE {
        ends(move || {
            let store = DataStore::new();
            let inbox = Inbox::new(&store, "inbox");
            let left = Arc::new(AtomicUsize::new(1));
            let act: Act = Arc::new(move || {
                let last =
                    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
                assert!(last.is_err(), "torn");
            });
            let delivered = catch_unwind(AssertUnwindSafe(|| deliver(&inbox, code, &act)));
            if let Err(payload) = delivered {
                assert_eq!(message(&*payload), "torn", "{code}");
                // The message was lost with its worker, and is delivered again.
                deliver(&inbox, code, &act);
            }
            assert_eq!(store.snapshot().len(), 1, "{code}");
            assert_eq!(inbox.stats().done, 1, "{code}");
            assert!(!store.is_locked());
        });
    }
}

/// A request for the lock that the worker holds fails at once.
#[test]
fn inbox_01_a_handler_that_delivers_to_its_own_inbox_is_refused() {
    ends(|| {
        let inbox = Inbox::new(&DataStore::new(), "inbox");
        let nested = inbox.clone();
        let handler = move |_: &mut Draft, _: &(&str, ())| {
            let refused = nested.process(&("nested", ()), |_, _| Ok(()));
            assert!(matches!(refused, Err(LockError::Reentrant { .. })));
            Err(HandlerError::poison("enough"))
        };
        let outcome = inbox.process(&("outer", ()), handler).unwrap();
        assert!(matches!(outcome, Outcome::Dead(_)), "{outcome:?}");
    });
}
