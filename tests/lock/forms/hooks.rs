//! Hooks and keys of batches that another thread runs (TRANSACTION 5, 7).

use doclock::{
    TransactionManager, View,
    document::NodeSpec,
    dsl,
    transaction::{Hooks, Operation, Refusal},
};

use super::{Form, Notes, Scene, any_thread, in_both_forms};

in_both_forms!(
    before_hooks_run_in_the_combiner_and_after_hooks_in_the_submitter,
    a_before_hook_can_refuse_or_rewrite_a_queued_batch,
    an_after_hook_that_fails_is_reported_in_the_result,
    an_after_hook_can_submit_batches,
    one_of_the_queued_batches_with_the_same_key_runs,
    the_key_of_a_failed_batch_is_free_for_the_next_in_the_queue,
);

fn create(id: &'static str) -> Operation {
    dsl::create(NodeSpec::new("x").with_id(id))
}

fn before_hooks_run_in_the_combiner_and_after_hooks_in_the_submitter(form: Form) {
    let scene = Scene::new(form);
    let (hooks, notes) = (Hooks::new(), Notes::new());
    let note = notes.clone();
    hooks.before(move |context, operations| {
        note.add(format!("before {}", context.owner()));
        Ok(operations)
    });
    let (note, store) = (notes.clone(), scene.store.clone());
    hooks.after(move |result| {
        note.add(format!("after {}", result.version));
        // This thread holds no lock.
        drop(store.lock("after").unwrap());
    });
    let manager = TransactionManager::for_owner(scene.store.clone(), "ann").with_hooks(hooks);
    let list = scene.join(move |_| {
        manager
            .transaction(create("a"))
            .options(any_thread())
            .commit()
    });
    let own = list.thread().id();
    let runner = scene.runner(own);
    scene.go_on();
    let result = list.join().unwrap().unwrap();
    assert!(result.hook_failures.is_empty());
    let expected = [("before ann".to_string(), runner), ("after 1".into(), own)];
    assert_eq!(notes.all(), expected);
}

fn a_before_hook_can_refuse_or_rewrite_a_queued_batch(form: Form) {
    let scene = Scene::new(form);
    let hooks = Hooks::new();
    hooks.before(
        |context, mut operations| match context.draft().base().version() {
            0 => {
                operations.push(create("added"));
                Ok(operations)
            }
            _ => Err(Refusal::new("once is enough")),
        },
    );
    let manager = TransactionManager::new(scene.store.clone()).with_hooks(hooks);
    let lists = ["a", "b"].map(|id| {
        let manager = manager.clone();
        scene.join(move |_| {
            manager
                .transaction(create(id))
                .options(any_thread())
                .commit()
        })
    });
    let store = scene.go_on();
    let [rewritten, refused] = lists.map(|list| list.join().unwrap());
    assert_eq!(rewritten.unwrap().operations.len(), 2);
    let refused = refused.unwrap_err().to_string();
    assert_eq!(
        refused,
        "before-hook 1 refused the transaction: once is enough"
    );
    let snapshot = store.snapshot();
    assert!(snapshot.contains("added") && !snapshot.contains("b"));
}

fn an_after_hook_that_fails_is_reported_in_the_result(form: Form) {
    let scene = Scene::new(form);
    let hooks = Hooks::new();
    hooks.after(|_| panic!("too late"));
    let manager = TransactionManager::new(scene.store.clone()).with_hooks(hooks);
    let failing = scene.join(move |_| {
        manager
            .transaction(create("a"))
            .options(any_thread())
            .commit()
    });
    let behind = scene.list("w", create("b"));
    scene.go_on();
    let failures = failing.join().unwrap().unwrap().hook_failures;
    assert_eq!(failures[0].to_string(), "after-hook 1 panicked: too late");
    assert!(behind.join().unwrap().unwrap().hook_failures.is_empty());
}

/// Each of them in queue order: they are submitted while others wait.
fn an_after_hook_can_submit_batches(form: Form) {
    let scene = Scene::new(form);
    let (hooks, inner) = (Hooks::new(), TransactionManager::new(scene.store.clone()));
    hooks.after(move |_| {
        inner
            .transaction(create("after"))
            .options(any_thread())
            .commit()
            .unwrap();
    });
    let manager = TransactionManager::new(scene.store.clone()).with_hooks(hooks);
    let list = scene.join(move |_| {
        manager
            .transaction(create("a"))
            .options(any_thread())
            .commit()
    });
    let behind = scene.list("w", create("b"));
    let store = scene.go_on();
    let result = list.join().unwrap().unwrap();
    assert!(result.hook_failures.is_empty(), "{result:?}");
    behind.join().unwrap().unwrap();
    assert_eq!(store.version(), 3);
}

fn one_of_the_queued_batches_with_the_same_key_runs(form: Form) {
    let scene = Scene::new(form);
    let notes = Notes::new();
    let lists: Vec<_> = (0..4)
        .map(|nth| {
            let operations = [notes.note(nth), dsl::create(NodeSpec::new("x"))];
            scene.join(move |store| {
                let manager = TransactionManager::new(store.clone());
                manager
                    .transaction(operations)
                    .idempotent("key")
                    .options(any_thread())
                    .commit()
            })
        })
        .collect();
    let store = scene.go_on();
    let results = lists.into_iter().map(|list| list.join().unwrap().unwrap());
    let results: Vec<_> = results.collect();
    assert_eq!((notes.what(), store.version()), (vec![0], 1));
    for (nth, result) in results.iter().enumerate() {
        assert_eq!(result.repeated, nth > 0);
        assert_eq!(result.transaction_id, results[0].transaction_id);
        assert_eq!(result.operations, results[0].operations);
    }
}

fn the_key_of_a_failed_batch_is_free_for_the_next_in_the_queue(form: Form) {
    let scene = Scene::new(form);
    let lists = [dsl::delete_node().on("nowhere"), create("a"), create("a")].map(|operation| {
        scene.join(move |store| {
            let manager = TransactionManager::new(store.clone());
            manager
                .transaction(operation)
                .idempotent("key")
                .options(any_thread())
                .commit()
        })
    });
    let store = scene.go_on();
    let [failed, first, again] = lists.map(|list| list.join().unwrap());
    failed.unwrap_err();
    assert!(!first.unwrap().repeated);
    assert!(again.unwrap().repeated);
    assert_eq!(store.snapshot().len(), 1);
}
