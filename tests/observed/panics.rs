//! Subscribers and recorders are code of users: what they do costs no transaction anything.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use doclock::Editor;
use doclock::dsl::{op, set_text};
use doclock::lock::AcquireOptions;

use crate::watched::{Watched, note};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Commits in each way. Returns how often.
fn commit_in_each_way(watched: &Watched) -> u64 {
    let before = watched.store.version();
    let (store, manager) = (&watched.store, watched.manager());
    let id = |way: &str| format!("{way}-{before}");
    let code = |id: String| {
        op(move |transaction| {
            let note = doclock::document::NodeSpec::new("note").with_id(id.clone());
            transaction.create(note).map(drop)
        })
    };
    manager.execute(note(&id("data"))).unwrap();
    manager.execute(code(id("code"))).unwrap();
    pollster::block_on(manager.transaction(code(id("task")))).unwrap();
    manager
        .clone()
        .with_node_locks(1)
        .execute(note(&id("nodes")))
        .unwrap();
    let mut transaction = store.begin("ann").unwrap();
    transaction.set_text(id("data").as_str(), "x").unwrap();
    transaction.commit().unwrap();
    drop(store.begin("ann").unwrap());
    let editor = Editor::new(store.clone(), "ann");
    editor.execute(set_text("y").on(id("data"))).unwrap();
    editor.undo().commit().unwrap();
    editor.redo().commit().unwrap();
    // Another thread runs the batch of an owner whose subscriber may panic.
    thread::scope(|scope| {
        let wait = {
            let store = store.clone();
            op(move |_| {
                while store.queue_length() == 0 {
                    thread::yield_now();
                }
                Ok::<_, Failure>(())
            })
        };
        let combiner = watched.spawn(scope, || watched.manager().execute(wait).unwrap());
        while !store.is_locked() {
            thread::yield_now();
        }
        let options = AcquireOptions::new().any_thread();
        manager
            .transaction(code(id("combined")))
            .options(options)
            .commit()
            .unwrap();
        combiner.join().unwrap();
    });
    store.version() - before
}

#[test]
fn a_panic_of_a_subscriber_changes_no_outcome() {
    for callback in ["new_span", "record", "enter", "exit", "try_close"] {
        let watched = Watched::new();
        let panics = Arc::new(AtomicUsize::new(0));
        let count = panics.clone();
        watched.spans.on_callback(move |name| {
            if name == callback {
                count.fetch_add(1, Ordering::Relaxed);
                panic!("on purpose, in {name}");
            }
        });
        assert_eq!(commit_in_each_way(&watched), 9, "{callback}");
        assert!(panics.load(Ordering::Relaxed) > 0, "{callback}");
        assert_eq!(watched.metrics.outcome("committed"), 9, "{callback}");
        assert!(!watched.store.is_locked(), "{callback}");
    }
}

#[test]
fn a_panic_of_a_recorder_changes_no_outcome() {
    let watched = Watched::new();
    watched
        .metrics
        .on_callback(|name| panic!("on purpose, in {name}"));
    assert_eq!(commit_in_each_way(&watched), 9);
    let spans = watched.spans.transactions();
    let committed = spans
        .iter()
        .filter(|span| span.field("outcome") == "committed");
    assert_eq!(committed.count(), 9);
}

#[test]
fn a_subscriber_that_panics_while_a_panic_unwinds_does_not_end_the_process() {
    let watched = Watched::new();
    watched
        .spans
        .on_callback(|name| panic!("on purpose, in {name}"));
    watched
        .metrics
        .on_callback(|name| panic!("on purpose, in {name}"));
    let outcome = thread::scope(|scope| {
        let code = || {
            let _transaction = watched.store.begin("ann").unwrap();
            panic!("on purpose");
        };
        watched.spawn(scope, code).join()
    });
    let panic = outcome.unwrap_err();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"on purpose"));
    assert!(!watched.store.is_locked());
}

/// A callback under an internal mutex would wait for itself here. In debug builds the ranks of
/// the mutexes are asserted, too.
#[test]
fn a_subscriber_and_a_recorder_can_read_the_store() {
    let watched = Watched::new();
    let calls = Arc::new(AtomicUsize::new(0));
    let read = {
        let (store, calls) = (watched.store.clone(), calls.clone());
        let events = store.subscribe();
        move |_: &'static str| {
            drop((store.snapshot(), store.lock_stats(), store.diagnostics()));
            drop((store.node_locks().holders(), store.version()));
            while events.try_recv().is_ok() {}
            calls.fetch_add(1, Ordering::Relaxed);
        }
    };
    let read = Arc::new(read);
    let other = read.clone();
    watched.spans.on_callback(move |name| read(name));
    watched.metrics.on_callback(move |name| other(name));
    commit_in_each_way(&watched);
    watched.store.publish_metrics();
    assert!(calls.load(Ordering::Relaxed) > 9);
    assert!(!watched.store.is_locked());
}
