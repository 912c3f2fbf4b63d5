//! Code before and after transactions: TRANSACTION 5.

mod common;

use std::panic::panic_any;
use std::sync::mpsc;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use common::{PATIENCE, commit, image, store, text};
use doclock::dsl::*;
use doclock::{
    DataStore, Editor, StoreOptions, TransactionManager,
    document::{EditError, Selection},
    lock::{AcquireOptions, LockError},
    transaction::{
        BeforeHook, HookFailure, Hooks, Operation, Refusal, TransactionError, TransactionResult,
    },
};

/// A store with the text node `note` (`Hello`), at version 1.
fn with_note() -> DataStore {
    let store = store();
    let note = text_node("inline-text", "Hello").with_id("note");
    commit(&store, |on| drop(on.create(note).unwrap()));
    store
}

fn manager(store: &DataStore, hooks: &Hooks) -> TransactionManager {
    TransactionManager::for_owner(store.clone(), "ann").with_hooks(hooks.clone())
}

/// Recorded notes, in order.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    fn add(&self, note: impl Into<String>) {
        self.0.lock().unwrap().push(note.into());
    }

    fn taken(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

fn names(operations: &[Operation]) -> String {
    let names: Vec<_> = operations.iter().map(Operation::name).collect();
    names.join(" ")
}

/// Registers a before-hook and an after-hook that record their runs.
fn noting(hooks: &Hooks, notes: &Notes) {
    let note = notes.clone();
    hooks.before(move |_, operations| {
        note.add(format!("before: {}", names(&operations)));
        Ok(operations)
    });
    let note = notes.clone();
    hooks.after(move |result| note.add(format!("after: {}", result.version)));
}

/// Runs `body` in a thread and fails if it does not return.
fn within_patience<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = mpsc::channel();
    let thread = thread::spawn(move || done.send(body()));
    match result.recv_timeout(PATIENCE) {
        Ok(value) => value,
        Err(_) if thread.is_finished() => panic!("it failed"),
        Err(_) => panic!("it hangs"),
    }
}

// --- Before ---

#[test]
fn transaction_05_each_before_hook_gets_the_operations_of_the_previous_one() {
    let (store, hooks, notes) = (with_note(), Hooks::new(), Notes::default());
    hooks.before(|_, mut operations| {
        operations.push(set_attrs([("n", 1.into())]).on("note"));
        Ok(operations)
    });
    let note = notes.clone();
    hooks.before(move |_, operations| {
        note.add(names(&operations));
        Ok(operations
            .into_iter()
            .rev()
            .chain([delete_node().on("note")])
            .collect())
    });
    let note = notes.clone();
    hooks.before(move |_, mut operations| {
        note.add(names(&operations));
        operations.pop();
        Ok(operations)
    });
    let result = manager(&store, &hooks)
        .execute([insert_text(5, "!").on("note")])
        .unwrap();
    assert_eq!(
        notes.taken(),
        ["insertText setAttrs", "setAttrs insertText delete"]
    );
    let executed: Vec<_> = result
        .operations
        .iter()
        .map(|done| done.name.as_str())
        .collect();
    assert_eq!(executed, ["setAttrs", "insertText"]);
    assert_eq!(text(&store.snapshot(), "note"), "Hello!");
}

#[test]
fn transaction_05_a_before_hook_runs_under_the_lock_with_the_owner_and_the_document() {
    let (store, hooks, notes) = (with_note(), Hooks::new(), Notes::default());
    let (note, inside) = (notes.clone(), store.clone());
    hooks.before(move |context: &BeforeHook<'_>, operations| {
        let draft = context.draft();
        note.add(format!("{} {}", context.owner(), text(draft, "note")));
        assert!(draft.changes().is_empty());
        assert_eq!(inside.current_lock().unwrap().owner_id, *context.owner());
        assert!(matches!(
            inside.begin("ann"),
            Err(LockError::Reentrant { .. })
        ));
        Ok(operations)
    });
    let result = manager(&store, &hooks)
        .execute([set_text("x").on("note")])
        .unwrap();
    assert_eq!(notes.taken(), ["ann Hello"]);
    assert_eq!(result.version, 2);
}

#[test]
fn transaction_05_a_refusal_is_the_error_and_nothing_is_changed() {
    let (store, hooks, notes) = (with_note(), Hooks::new(), Notes::default());
    let (before, events) = (image(&store.snapshot()), store.subscribe());
    let refusing = hooks.before(|_, _| Err(Refusal::new("it is late")));
    noting(&hooks, &notes);
    let editor = Editor::new(store.clone(), "ann").with_hooks(hooks);
    editor.select(Selection::caret("note", 5)).unwrap();
    let error = transaction(&editor, [set_text("x").on("note")])
        .commit()
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "before-hook 1 refused the transaction: it is late"
    );
    let TransactionError::Refused { hook, reason, .. } = error else {
        panic!("{error}")
    };
    assert_eq!((hook, reason.as_str()), (refusing, "it is late"));
    assert_eq!(notes.taken(), [""; 0], "no further hook has run");
    assert_eq!(editor.selection(), Some(Selection::caret("note", 5)));
    assert_eq!((image(&store.snapshot()), store.version()), (before, 1));
    assert!(events.try_recv().is_err());
    assert!(!store.is_locked());
}

#[test]
fn transaction_05_a_before_hook_that_panics_returns_an_error() {
    let (store, hooks, notes) = (with_note(), Hooks::new(), Notes::default());
    let before = image(&store.snapshot());
    let panicking = hooks.before(|_, _| panic_any("no more".to_owned()));
    noting(&hooks, &notes);
    let error = manager(&store, &hooks)
        .execute([set_text("x").on("note")])
        .unwrap_err();
    assert_eq!(error.to_string(), "before-hook 1 panicked: no more");
    let TransactionError::HookPanicked { hook, payload, .. } = error else {
        panic!("{error}")
    };
    assert_eq!(
        (hook, payload.message().as_deref()),
        (panicking, Some("no more"))
    );
    assert_eq!(notes.taken(), [""; 0]);
    assert_eq!((image(&store.snapshot()), store.version()), (before, 1));
    assert!(!store.is_locked());
}

#[test]
fn transaction_05_a_hook_that_fails_passes_the_lock_to_the_next_waiter() {
    for panics in [false, true] {
        let (store, hooks) = (with_note(), Hooks::new());
        let inside = store.clone();
        hooks.before(move |_, _| {
            while inside.queue_length() == 0 {
                thread::yield_now();
            }
            match panics {
                true => panic!("no"),
                false => Err(Refusal::new("no")),
            }
        });
        thread::scope(|scope| {
            let failing = scope.spawn(|| manager(&store, &hooks).execute([clear_selection()]));
            while !store.is_locked() {
                thread::yield_now();
            }
            let waiter = TransactionManager::new(store.clone());
            assert_eq!(
                waiter.execute([set_text("x").on("note")]).unwrap().version,
                2
            );
            failing.join().unwrap().unwrap_err();
        });
        let stats = store.lock_stats();
        assert_eq!((stats.total_acquisitions, stats.total_releases), (3, 3));
    }
}

#[test]
fn transaction_05_a_before_hook_may_leave_nothing_to_do() {
    let (store, hooks, notes) = (with_note(), Hooks::new(), Notes::default());
    hooks.before(|_, _| Ok(Vec::new()));
    let note = notes.clone();
    hooks.after(move |result| note.add(format!("{} {}", result.version, result.changed)));
    let result = manager(&store, &hooks)
        .execute([set_text("x").on("note")])
        .unwrap();
    assert_eq!(
        (result.version, result.changed, result.operations.len()),
        (1, false, 0)
    );
    assert_eq!(notes.taken(), ["1 false"]);
}

// --- After ---

#[test]
fn transaction_05_after_hooks_see_the_committed_result_in_order_when_the_lock_is_released() {
    let (store, hooks) = (with_note(), Hooks::new());
    let seen: Arc<Mutex<Vec<(u8, TransactionResult)>>> = Arc::default();
    for n in [1, 2] {
        let (seen, store) = (seen.clone(), store.clone());
        let submitter = thread::current().id();
        hooks.after(move |result| {
            assert_eq!(thread::current().id(), submitter);
            assert!(!store.is_locked());
            assert_eq!(text(&store.snapshot(), "note"), "Hello!");
            seen.lock().unwrap().push((n, result.clone()));
        });
    }
    let editor = Editor::new(store, "ann").with_hooks(hooks);
    editor.select(Selection::caret("note", 5)).unwrap();
    let result = transaction(&editor, [insert_text(5, "!").on("note")])
        .commit()
        .unwrap();
    assert!(result.hook_failures.is_empty());
    assert_eq!(result.selection_after, Some(Selection::caret("note", 6)));
    assert_eq!(*seen.lock().unwrap(), [(1, result.clone()), (2, result)]);
}

#[test]
fn transaction_05_after_hooks_run_for_empty_changes_and_not_for_failures() {
    let (store, hooks, notes) = (with_note(), Hooks::new(), Notes::default());
    noting(&hooks, &notes);
    let manager = manager(&store, &hooks);
    manager.execute([set_text("Hello").on("note")]).unwrap();
    assert_eq!(notes.taken(), ["before: setText", "after: 1"]);
    manager.execute([delete_node().on("nowhere")]).unwrap_err();
    assert_eq!(notes.taken(), ["before: delete"]);
}

#[test]
fn transaction_05_no_hook_runs_for_an_empty_batch() {
    let (store, hooks, notes) = (with_note(), Hooks::new(), Notes::default());
    noting(&hooks, &notes);
    let manager = manager(&store, &hooks);
    manager.execute(Vec::<Operation>::new()).unwrap();
    manager.execute([control("note", [])]).unwrap();
    let lock = store.acquire_lock("ann").unwrap();
    let result = manager.execute_under(lock, [control("note", [])]).unwrap();
    assert_eq!((result.version, result.changed), (1, false));
    assert_eq!(notes.taken(), [""; 0]);
}

#[test]
fn transaction_05_hooks_run_under_a_lock_that_is_held_by_id_too() {
    let (store, hooks, notes) = (with_note(), Hooks::new(), Notes::default());
    noting(&hooks, &notes);
    let lock = store.acquire_lock("ann").unwrap();
    manager(&store, &hooks)
        .execute_under(lock, [set_text("x").on("note")])
        .unwrap();
    assert_eq!(notes.taken(), ["before: setText", "after: 2"]);
    store.release_lock(lock).unwrap();
}

#[test]
fn transaction_05_an_after_hook_that_panics_is_reported_and_keeps_the_commit() {
    let (store, hooks, notes) = (with_note(), Hooks::new(), Notes::default());
    let first = hooks.after(|_| panic!("no more"));
    let second = hooks.after(|_| panic_any(7));
    noting(&hooks, &notes);
    let result = manager(&store, &hooks)
        .execute([set_text("x").on("note")])
        .unwrap();
    assert_eq!((result.version, result.changed), (2, true));
    assert_eq!(text(&store.snapshot(), "note"), "x");
    assert!(!store.is_locked());
    assert_eq!(
        notes.taken(),
        ["before: setText", "after: 2"],
        "the next hook runs"
    );

    let told: Vec<String> = result
        .hook_failures
        .iter()
        .map(|told| told.to_string())
        .collect();
    assert_eq!(
        told,
        [
            "after-hook 1 panicked: no more",
            "after-hook 2 panicked: without a message"
        ]
    );
    let [
        HookFailure::Panicked { hook, message, .. },
        HookFailure::Panicked { hook: other, .. },
    ] = &result.hook_failures[..]
    else {
        panic!()
    };
    assert_eq!((*hook, message.as_deref()), (first, Some("no more")));
    assert_eq!(*other, second);
    let json = serde_json::to_value(&result).unwrap();
    assert_eq!(
        json["hookFailures"][0],
        serde_json::json!({
            "code": "afterHookPanicked",
            "message": "after-hook 1 panicked: no more",
            "hook": 1,
            "panicMessage": "no more",
        })
    );
}

#[test]
fn transaction_05_an_after_hook_may_start_transactions_that_run_hooks_again() {
    let (store, hooks) = (with_note(), Hooks::new());
    let again = manager(&store, &hooks);
    hooks.after(move |result| {
        if result.version < 6 {
            again.execute([insert_text(0, "+").on("note")]).unwrap();
        }
    });
    let result = manager(&store, &hooks)
        .execute([insert_text(5, "!").on("note")])
        .unwrap();
    assert_eq!((result.version, store.version()), (2, 6));
    assert!(result.hook_failures.is_empty());
    assert_eq!(text(&store.snapshot(), "note"), "++++Hello!");
}

#[test]
fn transaction_05_endless_recursion_of_after_hooks_is_stopped_and_reported() {
    let (store, hooks) = (with_note(), Hooks::new());
    let again = manager(&store, &hooks);
    let failures: Arc<Mutex<Vec<HookFailure>>> = Arc::default();
    let told = failures.clone();
    let panics = Arc::new(Mutex::new(false));
    let panicking = panics.clone();
    let hook = hooks.after(move |_| {
        let result = again.execute([insert_text(0, "+").on("note")]).unwrap();
        told.lock()
            .unwrap()
            .extend(result.hook_failures.iter().cloned());
        assert!(!*panicking.lock().unwrap(), "no more");
    });
    // Again, also after panics: the thread is in no hook any more.
    for (round, panicking) in [(1, false), (2, true), (3, false)] {
        *panics.lock().unwrap() = panicking;
        let result = manager(&store, &hooks)
            .execute([insert_text(0, "+").on("note")])
            .unwrap();
        assert_eq!(store.version(), 1 + round * (1 + Hooks::DEEPEST as u64));
        assert_eq!(result.hook_failures.len(), usize::from(panicking));
        let failures = std::mem::take(&mut *failures.lock().unwrap());
        let deep = |failure: &&HookFailure| matches!(failure, HookFailure::TooDeep { .. });
        let deep: Vec<_> = failures.iter().filter(deep).collect();
        assert_eq!(
            deep[0].to_string(),
            format!("after-hook {hook} was not run: 16 after-hooks are nested already")
        );
        assert_eq!(deep.len(), 1);
    }
}

// --- Registration ---

#[test]
fn transaction_05_hooks_are_shared_between_clones_and_removed_by_id() {
    let (store, hooks, notes) = (with_note(), Hooks::new(), Notes::default());
    let note = notes.clone();
    let before = hooks.before(move |context, operations| {
        note.add(format!("before {}", context.owner()));
        Ok(operations)
    });
    let note = notes.clone();
    let after = hooks.after(move |_| note.add("after"));
    assert_ne!(before, after);
    let editor = Editor::new(store.clone(), "bob").with_hooks(hooks.clone());
    let run = || {
        manager(&store, &hooks)
            .execute([set_text("x").on("note")])
            .unwrap();
        editor.execute([set_text("y").on("note")]).unwrap();
        notes.taken()
    };
    assert_eq!(run(), ["before ann", "after", "before bob", "after"]);
    assert!(hooks.remove(before));
    assert_eq!(run(), ["after", "after"]);
    assert!(!hooks.remove(before));
    assert!(hooks.remove(after));
    assert_eq!(run(), [""; 0]);
}

#[test]
fn transaction_05_hooks_may_register_and_remove_hooks_without_changing_a_run() {
    within_patience(|| {
        let (store, hooks, notes) = (with_note(), Hooks::new(), Notes::default());
        let (own, note) = (hooks.clone(), notes.clone());
        let slot = Arc::new(Mutex::new(None));
        let mine = slot.clone();
        let id = hooks.before(move |_, operations| {
            let note = note.clone();
            note.add("once");
            let of_after = note.clone();
            own.before(move |_, operations| {
                note.add("before");
                Ok(operations)
            });
            own.after(move |_| of_after.add("after"));
            let me = mine.lock().unwrap().unwrap();
            assert!(own.remove(me));
            Ok(operations)
        });
        *slot.lock().unwrap() = Some(id);
        let manager = manager(&store, &hooks);
        manager.execute([set_text("x").on("note")]).unwrap();
        // The before-hooks of this transaction were fixed before it registered one, the after-hooks
        // after that.
        assert_eq!(notes.taken(), ["once", "after"]);
        manager.execute([set_text("y").on("note")]).unwrap();
        assert_eq!(notes.taken(), ["before", "after"]);
    });
}

#[test]
fn transaction_05_a_hook_that_is_removed_may_remove_others_when_it_is_dropped() {
    struct Remover(Hooks);
    impl Drop for Remover {
        fn drop(&mut self) {
            let other = self.0.after(|_| {});
            assert!(self.0.remove(other));
        }
    }
    within_patience(|| {
        let hooks = Hooks::new();
        let remover = Remover(hooks.clone());
        let hook = hooks.after(move |_| {
            let _owned = &remover;
        });
        assert!(hooks.remove(hook));
    });
}

/// A hook that removes itself is dropped after its run, and its `Drop` is code of the user.
#[test]
fn transaction_05_a_hook_that_removes_itself_may_panic_in_drop() {
    let (store, hooks, notes) = (with_note(), Hooks::new(), Notes::default());
    let own = Arc::new(OnceLock::new());
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }
    let (bomb, handle, id) = (Bomb, hooks.clone(), Arc::clone(&own));
    let first = hooks.after(move |_| {
        let _owned = &bomb;
        assert!(handle.remove(*id.get().unwrap()));
    });
    own.set(first).unwrap();
    let note = notes.clone();
    hooks.after(move |result| note.add(format!("after: {}", result.version)));
    let manager = TransactionManager::new(store).with_hooks(hooks);
    let result = manager.execute([insert_text(0, "x").on("note")]).unwrap();
    assert!(result.hook_failures.is_empty());
    assert_eq!(notes.taken(), [format!("after: {}", result.version)]);
}

/// A batch waits behind a batch of another thread, which could run it as the combiner.
#[test]
fn before_hooks_of_a_batch_that_waits_run_in_its_thread_unless_it_allows_any_thread() {
    for any_thread in [false, true] {
        let options = StoreOptions::new().batch_limit(usize::MAX, Duration::MAX);
        let store = DataStore::with_options(options);
        let (entered, has_entered) = mpsc::channel();
        let (go_on, goes_on) = mpsc::channel::<()>();
        let goes_on = Mutex::new(goes_on);
        let pause = op(move |_| -> Result<(), EditError> {
            entered.send(thread::current().id()).unwrap();
            goes_on.lock().unwrap().recv().unwrap();
            Ok(())
        });
        let combiner = TransactionManager::new(store.clone());
        let combiner = thread::spawn(move || combiner.execute(pause).unwrap());
        let combiner_id = has_entered.recv().unwrap();

        let (hooks, (ran, has_run)) = (Hooks::new(), mpsc::channel());
        hooks.before(move |_, operations| {
            ran.send(thread::current().id()).unwrap();
            Ok(operations)
        });
        let manager = TransactionManager::new(store.clone()).with_hooks(hooks);
        let options = match any_thread {
            false => AcquireOptions::new(),
            true => AcquireOptions::new().any_thread(),
        };
        let list = create(element("list", []));
        let submitter =
            thread::spawn(move || manager.transaction(list).options(options).commit().unwrap());
        while store.queue_length() == 0 {
            thread::yield_now();
        }
        go_on.send(()).unwrap();
        let expected = match any_thread {
            false => submitter.thread().id(),
            true => combiner_id,
        };
        assert_eq!(has_run.recv().unwrap(), expected);
        submitter.join().unwrap();
        combiner.join().unwrap();
    }
}
