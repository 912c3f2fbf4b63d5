//! Values that operations and hooks capture, whose `Drop` calls back or panics.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::thread;

use doclock::dsl::*;
use doclock::{
    DataStore, Editor, StoreOptions, TransactionManager,
    document::{EditError, NodeSpec},
    history::{HistoryMode, HistoryOptions},
    transaction::{Hooks, Operation},
};

use crate::{OnDrop, ends, message};

/// An operation with an inverse; both only own a value.
fn owning(value: impl Send + Sync + 'static) -> Operation {
    let value = Arc::new(value);
    let inverse = Arc::clone(&value);
    op_with_inverse(
        move |_| {
            let _owned = &value;
            Ok::<_, EditError>(())
        },
        move |_| {
            let _owned = &inverse;
            Ok::<_, EditError>(())
        },
    )
}

/// Calls every method of an editor and its store that does not wait for the lock, and tries the
/// lock.
fn call_every_method(editor: &Editor) {
    let store = editor.store();
    let _ = (
        editor.selection(),
        editor.clipboard(),
        editor.can_undo(),
        editor.can_redo(),
    );
    editor.select(None).unwrap();
    editor.set_clipboard(None);
    let _ = (
        editor.undo().commit(),
        editor.redo().commit(),
        editor.discard_undo(),
        editor.discard_redo(),
    );
    editor.clear_history();
    drop(editor.group());
    let another = Editor::new(store.clone(), "another");
    // It follows the document from its first use on.
    assert_eq!(another.selection(), None);
    drop(another);
    let subscription = store.subscribe();
    drop((subscription.ready().clone(), subscription));
    let _ = (
        store.snapshot(),
        store.version(),
        store.is_locked(),
        store.current_lock(),
    );
    let _ = (
        store.queue_length(),
        store.queue_info(),
        store.lock_stats(),
        store.diagnostics(),
    );
    let _ = (
        format!("{store:?} {editor:?}"),
        store.node_locks().holders(),
    );
    let _ = store.try_lock("hostile").map(drop);
    let _ = editor.execute(create(element("x", [])));
}

/// An editor, a value whose `Drop` calls all its methods, and the number of drops.
fn editor_with(options: HistoryOptions) -> (Arc<Editor>, Operation, Arc<AtomicUsize>) {
    let editor = Editor::new(DataStore::new(), "ann").with_history(options);
    let editor = Arc::new(editor);
    let drops = Arc::new(AtomicUsize::new(0));
    let (weak, count) = (Arc::downgrade(&editor), Arc::clone(&drops));
    let hostile = OnDrop(move || {
        count.fetch_add(1, Ordering::Relaxed);
        if let Some(editor) = Weak::upgrade(&weak) {
            call_every_method(&editor);
        }
    });
    (editor, owning(hostile), drops)
}

/// An operation without changes hung when its captured value called the editor on drop.
#[test]
fn undo_03_unrecorded_code_may_use_its_editor_in_drop() {
    let change = || create(element("x", []));
    type Case = (
        HistoryOptions,
        HistoryMode,
        fn(Operation, Operation) -> Vec<Operation>,
    );
    let cases: [Case; 3] = [
        (
            HistoryOptions::new().limit(0),
            HistoryMode::Recorded,
            |a, b| vec![a, b],
        ),
        (HistoryOptions::new(), HistoryMode::Recorded, |a, _| vec![a]),
        (HistoryOptions::new(), HistoryMode::Skipped, |a, b| {
            vec![a, b]
        }),
    ];
    for (options, how, operations) in cases {
        let drops = ends(move || {
            let (editor, hostile, drops) = editor_with(options);
            let list = operations(hostile, change());
            transaction(&editor, list).in_history(how).commit().unwrap();
            drops.load(Ordering::Relaxed)
        });
        assert_eq!(drops, 1);
    }
}

/// Each way in which an entry leaves the history.
#[test]
fn undo_03_code_in_the_history_may_use_its_editor_in_drop() {
    let ways: [fn(&Editor); 5] = [
        |editor| drop(editor.undo().commit().unwrap()),
        |editor| assert!(editor.discard_undo()),
        |editor| editor.clear_history(),
        |editor| drop(editor.execute(create(element("x", []))).unwrap()),
        |_| (),
    ];
    for (nth, way) in ways.into_iter().enumerate() {
        let drops = ends(move || {
            let (editor, hostile, drops) = editor_with(HistoryOptions::new().limit(1));
            editor.execute([create(element("x", [])), hostile]).unwrap();
            assert_eq!(drops.load(Ordering::Relaxed), 0);
            way(&editor);
            drop(editor);
            drops.load(Ordering::Relaxed)
        });
        assert_eq!(drops, 1, "way {nth}");
    }
}

/// An operation is dropped after the release of the lock, for any end of its batch.
#[test]
fn lock_11_code_of_a_batch_is_dropped_when_the_lock_is_released() {
    let failing: fn() -> Operation = || delete_text_range(0, 9).on("nowhere");
    let torn: fn() -> Operation = || op(|_| -> Result<(), EditError> { panic!("torn") });
    let plain: fn() -> Operation = || create(element("x", []));
    for last in [plain, failing, torn] {
        let was_locked = ends(move || {
            let store = DataStore::new();
            let was_locked = Arc::new(AtomicBool::new(true));
            let (asked, found) = (store.clone(), Arc::clone(&was_locked));
            let captured = OnDrop(move || found.store(asked.is_locked(), Ordering::Relaxed));
            let code = op(move |_| {
                let _captured = &captured;
                Ok::<_, EditError>(())
            });
            let _ = TransactionManager::new(store).execute([code, last()]);
            was_locked.load(Ordering::Relaxed)
        });
        assert!(!was_locked);
    }
}

/// A commit dropped the history of a dropped editor under the lock of the store. Values of the
/// history could deadlock there, or panic and lose the event of the commit.
#[test]
fn undo_03_an_editor_that_goes_while_others_commit_drops_its_history_in_its_own_thread() {
    const ROUNDS: usize = 300;
    ends(|| {
        let store = DataStore::with_options(StoreOptions::new().log_limit(usize::MAX));
        let events = store.subscribe();
        let manager = TransactionManager::new(store.clone());
        manager
            .execute(create(text_node("x", "").with_id("t")))
            .unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let committer = {
            let (manager, stop) = (manager.clone(), Arc::clone(&stop));
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    manager.execute(set_text("a").on("t")).unwrap();
                    manager.execute(set_text("b").on("t")).unwrap();
                }
            })
        };
        for round in 0..ROUNDS {
            let editor = Editor::new(store.clone(), "ann");
            let owner = thread::current().id();
            let asked = store.clone();
            let hostile = OnDrop(move || {
                assert_eq!(thread::current().id(), owner, "dropped by another thread");
                drop(Editor::new(asked.clone(), "from a drop"));
                if round % 2 == 0 {
                    panic!("burst");
                }
            });
            editor
                .execute([create(element("x", [])), owning(hostile)])
                .unwrap();
            // The committer is committing from here on.
            let version = store.version();
            while store.version() < version + 2 {
                std::hint::spin_loop();
            }
            match catch_unwind(AssertUnwindSafe(|| drop(editor))) {
                Err(payload) => assert_eq!((round % 2, message(&*payload)), (0, "burst")),
                Ok(()) => assert_eq!(round % 2, 1),
            }
        }
        stop.store(true, Ordering::Relaxed);
        committer.join().unwrap();
        let versions = events.try_iter().map(|event| event.commit.version);
        assert!(
            versions.eq(1..=store.version()),
            "each commit once, in order"
        );
    });
}

/// The transaction that ran the removed hook dropped it, under the lock of the store.
#[test]
fn transaction_05_a_hook_that_is_removed_while_it_runs_is_dropped_when_the_lock_is_released() {
    let was_locked = ends(|| {
        let store = DataStore::new();
        let (hooks, was_locked) = (Hooks::new(), Arc::new(AtomicBool::new(true)));
        let (asked, found) = (store.clone(), Arc::clone(&was_locked));
        let captured = OnDrop(move || found.store(asked.is_locked(), Ordering::Relaxed));
        let registered = hooks.clone();
        let hook = Arc::new(std::sync::OnceLock::new());
        let own = Arc::clone(&hook);
        let id = hooks.before(move |_, operations| {
            let _captured = &captured;
            assert!(registered.remove(*own.get().unwrap()));
            Ok(operations)
        });
        hook.set(id).unwrap();
        let manager = TransactionManager::new(store).with_hooks(hooks);
        manager.execute(create(NodeSpec::new("x"))).unwrap();
        was_locked.load(Ordering::Relaxed)
    });
    assert!(!was_locked);
}
