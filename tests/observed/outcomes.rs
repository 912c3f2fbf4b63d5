//! Each way to begin a transaction reports each outcome that it can have, once.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use doclock::document::NodeSpec;
use doclock::dsl::{delete_node, insert_text, op, op_with_inverse, set_text};
use doclock::lock::node::Scope;
use doclock::lock::{AcquireOptions, CancelToken};
use doclock::transaction::{Hooks, Operation, Refusal};
use doclock::{Editor, Transaction, TransactionManager};

use crate::watched::{LIMIT, Watched, note};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Code that changes nothing.
fn nothing() -> Operation {
    op(|_| Ok::<_, Failure>(()))
}

/// The request of a transaction, which ends without a grant.
type Request<'a> = &'a (dyn Fn(AcquireOptions) + Sync);

/// Requests that time out, are cancelled, or are refused, in this order.
fn without_a_grant(watched: &Watched, request: Request) {
    let limit = AcquireOptions::new().timeout(Duration::from_secs(1));
    watched.while_held(|| request(limit), |_| watched.clock.advance(LIMIT / 2));
    let token = CancelToken::new();
    let cancelled = AcquireOptions::new().cancel_token(&token);
    watched.while_held(|| request(cancelled), |_| token.cancel());
    request(AcquireOptions::new().cancel_token(&token));
    let lock = watched.store.acquire_lock("holder").unwrap();
    request(AcquireOptions::new().no_wait());
    watched.store.release_lock(lock).unwrap();
}

/// What [`without_a_grant`] leads to, for a kind of transaction.
fn refusals(kind: &str) -> Vec<String> {
    let outcomes = [
        "timed_out lockTimeout",
        "cancelled lockCancelled",
        "cancelled lockCancelled",
        "failed lockWouldBlock",
    ];
    outcomes.map(|outcome| format!("{kind} {outcome}")).to_vec()
}

#[test]
fn a_request_without_a_grant_is_reported_on_each_path() {
    let watched = Watched::new();
    let (store, manager) = (&watched.store, watched.manager());
    manager.execute(note("n")).unwrap();
    let editor = Editor::new(store.clone(), "ann");
    editor.execute(set_text("x").on("n")).unwrap();
    editor.execute(set_text("y").on("n")).unwrap();
    editor.undo().commit().unwrap();
    let on_nodes = manager.clone().with_node_locks(3);
    let paths: [(&str, Request); 11] = [
        ("by_hand", &|options| {
            store
                .request_transaction("ann")
                .options(options)
                .wait()
                .unwrap_err();
        }),
        ("by_hand", &|options| {
            let begun = store
                .request_transaction("ann")
                .options(options)
                .into_future();
            pollster::block_on(begun).unwrap_err();
        }),
        ("on_nodes", &|options| {
            let begun = store
                .request_transaction("ann")
                .on(Scope::new().write("n"))
                .options(options)
                .wait();
            begun.unwrap_err();
        }),
        ("on_nodes", &|options| {
            let scope = Scope::new().write("n");
            let begun = store
                .request_transaction("ann")
                .on(scope)
                .options(options)
                .into_future();
            pollster::block_on(begun).unwrap_err();
        }),
        ("batch", &|options| {
            manager
                .transaction(nothing())
                .options(options)
                .commit()
                .unwrap_err();
        }),
        ("batch", &|options| {
            let run = manager
                .transaction(nothing())
                .options(options)
                .into_future();
            pollster::block_on(run).unwrap_err();
        }),
        ("on_nodes", &|options| {
            let text = set_text("x").on("n");
            on_nodes
                .transaction(text)
                .options(options)
                .commit()
                .unwrap_err();
        }),
        ("on_nodes", &|options| {
            let text = set_text("x").on("n");
            let run = on_nodes.transaction(text).options(options).into_future();
            pollster::block_on(run).unwrap_err();
        }),
        ("undo", &|options| {
            editor.undo().options(options).commit().unwrap_err();
        }),
        ("undo", &|options| {
            pollster::block_on(editor.undo().options(options)).unwrap_err();
        }),
        ("redo", &|options| {
            editor.redo().options(options).commit().unwrap_err();
        }),
    ];
    for (number, (kind, request)) in paths.into_iter().enumerate() {
        let before = watched.ended().len();
        without_a_grant(&watched, request);
        assert_eq!(watched.after(before), refusals(kind), "path {number}");
    }
}

#[test]
fn a_transaction_by_hand_reports_each_outcome() {
    let watched = Watched::new();
    let store = &watched.store;
    let begin = || store.begin("ann").unwrap();
    fn edit(mut transaction: Transaction) -> Transaction {
        transaction.create(NodeSpec::new("x")).unwrap();
        transaction
    }
    edit(begin()).commit().unwrap();
    begin().commit().unwrap();
    edit(begin()).rollback();
    let panicking = catch_unwind(AssertUnwindSafe(|| {
        let _transaction = begin();
        panic!("on purpose");
    }));
    panicking.unwrap_err();
    let revoked = edit(begin());
    watched.revoke_holder();
    revoked.commit().unwrap_err();
    let lock = store.acquire_lock("ben").unwrap();
    edit(store.begin_under(lock).unwrap()).commit().unwrap();
    store.release_lock(lock).unwrap();
    pollster::block_on(async {
        let transaction = store.request_transaction("ann").await.unwrap();
        edit(transaction).commit_async().await.unwrap();
    });
    let outcomes = [
        "by_hand committed",
        "by_hand nothing_changed",
        "by_hand rolled_back",
        "by_hand panicked",
        "by_hand revoked commitRevoked",
        "by_hand committed",
        "by_hand committed",
    ];
    assert_eq!(watched.after(0), outcomes);
    let spans = watched.ended();
    let owners = spans.iter().map(|span| span.field("owner"));
    assert_eq!(owners.collect::<Vec<_>>()[5..], ["ben", "ann"]);
    let versions = spans.iter().map(|span| span.field("version"));
    let expected = ["1", "1", "", "", "", "2", "3"];
    assert_eq!(versions.collect::<Vec<_>>(), expected);
}

/// A way to run a batch.
type Run<'a> = &'a dyn Fn(&TransactionManager, Operation);

/// Runs batches with each outcome that they can have after a grant.
fn batches(manager: &TransactionManager, run: Run) {
    run(manager, insert_text(0, "x").on("n"));
    run(manager, nothing());
    run(manager, insert_text(99, "x").on("n"));
    run(
        manager,
        op(|_| -> Result<(), Failure> { panic!("on purpose") }),
    );
    let hooks = Hooks::new();
    hooks.before(|_, _| Err(Refusal::new("not now")));
    run(&manager.clone().with_hooks(hooks), nothing());
    let hooks = Hooks::new();
    hooks.before(|_, _| panic!("on purpose"));
    run(&manager.clone().with_hooks(hooks), nothing());
}

fn ends_of_batches(kind: &str) -> Vec<String> {
    let outcomes = [
        "committed",
        "nothing_changed",
        "failed operationFailed",
        "panicked codePanicked",
        "failed beforeHookRefused",
        "panicked beforeHookPanicked",
    ];
    outcomes.map(|outcome| format!("{kind} {outcome}")).to_vec()
}

#[test]
fn a_batch_reports_each_outcome_in_a_thread_a_task_and_on_nodes() {
    let watched = Watched::new();
    let manager = watched.manager();
    manager.execute(note("n")).unwrap();
    let in_thread = |manager: &TransactionManager, operation| drop(manager.execute(operation));
    let in_task = |manager: &TransactionManager, operation| {
        drop(pollster::block_on(manager.transaction(operation)));
    };
    let on_nodes = |manager: &TransactionManager, operation| {
        drop(manager.clone().with_node_locks(1).execute(operation));
    };
    let ways: [(&str, Run); 3] = [
        ("batch", &in_thread),
        ("batch", &in_task),
        ("on_nodes", &on_nodes),
    ];
    for (kind, run) in ways {
        let before = watched.ended().len();
        batches(&manager, run);
        assert_eq!(watched.after(before), ends_of_batches(kind));
    }
}

#[test]
fn a_repeated_batch_and_a_repeated_undo_are_reported_as_repeated() {
    let watched = Watched::new();
    let (manager, editor) = (watched.manager(), Editor::new(watched.store.clone(), "ann"));
    let once = |manager: &TransactionManager| {
        let batch = || set_text("x").on("n");
        let options = AcquireOptions::new();
        manager
            .transaction(batch())
            .idempotent("key")
            .options(options.clone())
            .commit()
            .unwrap();
        // While the lock is held, it is found without one.
        let lock = watched.store.acquire_lock("holder").unwrap();
        manager
            .transaction(batch())
            .idempotent("key")
            .options(options)
            .commit()
            .unwrap();
        watched.store.release_lock(lock).unwrap();
    };
    editor.execute([note("n"), note("m")]).unwrap();
    once(&manager);
    once(&manager.clone().with_node_locks(1));
    for _ in 0..2 {
        editor.undo().idempotent("undo").commit().unwrap();
    }
    let outcomes = [
        "batch committed",
        "batch committed",
        "batch repeated",
        "on_nodes repeated",
        "on_nodes repeated",
        "undo committed",
        "undo repeated",
    ];
    assert_eq!(watched.after(0), outcomes);
}

#[test]
fn a_revoked_batch_is_reported_as_revoked() {
    let watched = Watched::new();
    thread::scope(|scope| {
        let store = watched.store.clone();
        let clock = watched.clock.clone();
        let slow = op(move |_| {
            while store.queue_length() == 0 {
                thread::yield_now();
            }
            clock.advance(2 * LIMIT);
            while store
                .current_lock()
                .is_none_or(|holder| holder.owner_id.as_str() != "other")
            {
                thread::yield_now();
            }
            Ok::<_, Failure>(())
        });
        let other = scope.spawn(|| {
            while !watched.store.is_locked() {
                thread::yield_now();
            }
            watched.request_of_other()
        });
        watched.manager().execute([note("n"), slow]).unwrap_err();
        let other = other.join().unwrap();
        watched.store.release_lock(other).unwrap();
    });
    assert_eq!(watched.after(0), ["batch revoked commitRevoked"]);
    assert_eq!(watched.metrics.outcome("revoked"), 1);
}

#[test]
fn undo_and_redo_report_their_outcomes() {
    let watched = Watched::new();
    let [ann, ben] = ["ann", "ben"].map(|owner| Editor::new(watched.store.clone(), owner));
    ann.execute(note("n")).unwrap();
    ann.execute(set_text("x").on("n")).unwrap();
    let before = watched.ended().len();
    ann.undo().commit().unwrap();
    ann.redo().commit().unwrap();
    ben.execute(delete_node().on("n")).unwrap();
    ann.undo().commit().unwrap_err();
    let cem = Editor::new(watched.store.clone(), "cem");
    cem.execute(op_with_inverse(
        |transaction| transaction.create(NodeSpec::new("x")).map(drop),
        |_| -> Result<(), Failure> { panic!("on purpose") },
    ))
    .unwrap();
    cem.undo().commit().unwrap_err();
    // Without an entry, no request is made.
    let new = Editor::new(watched.store.clone(), "ann");
    new.undo().commit().unwrap_err();
    let outcomes = [
        "undo committed",
        "redo committed",
        "batch committed",
        "undo failed undoConflict",
        "batch committed",
        "undo panicked codePanicked",
    ];
    assert_eq!(watched.after(before), outcomes);
}

#[test]
fn a_batch_under_a_held_lock_is_reported() {
    let watched = Watched::new();
    let lock = watched.store.acquire_lock("ben").unwrap();
    let manager = watched.manager();
    manager.execute_under(lock, note("n")).unwrap();
    manager.execute_under(lock, note("n")).unwrap_err();
    watched.store.release_lock(lock).unwrap();
    // No request is made for these.
    manager.execute_under(lock, note("m")).unwrap_err();
    manager.execute(Vec::<Operation>::new()).unwrap();
    assert_eq!(
        watched.after(0),
        ["batch committed", "batch failed operationFailed"]
    );
}

#[test]
fn a_transaction_on_nodes_reports_each_outcome() {
    let watched = Watched::new();
    watched.manager().execute([note("a"), note("b")]).unwrap();
    let on = |id: &'static str| {
        let scope = Scope::new().write(id);
        watched.store.begin_on("ann", scope).unwrap()
    };
    let before = watched.ended().len();
    let mut transaction = on("a");
    transaction.set_text("a", "x").unwrap();
    transaction.commit().unwrap();
    drop(on("a"));
    on("a").commit().unwrap();
    let outcomes = [
        "on_nodes committed",
        "on_nodes rolled_back",
        "on_nodes nothing_changed",
    ];
    assert_eq!(watched.after(before), outcomes);
}

#[test]
fn a_task_that_is_dropped_while_it_waits_is_reported_as_cancelled() {
    let watched = Watched::new();
    let editor = Editor::new(watched.store.clone(), "ann");
    editor.execute(note("n")).unwrap();
    let before = watched.ended().len();
    let lock = watched.store.acquire_lock("holder").unwrap();
    let poll = |future: &mut dyn FnMut(&mut Context<'_>) -> bool| {
        assert!(!future(&mut Context::from_waker(Waker::noop())));
    };
    {
        let mut begin = pin!(watched.store.request_transaction("ann").into_future());
        poll(&mut |context| begin.as_mut().poll(context).is_ready());
        let mut batch = pin!(watched.manager().transaction(nothing()).into_future());
        poll(&mut |context| batch.as_mut().poll(context).is_ready());
        let mut undo = pin!(editor.undo().into_future());
        poll(&mut |context| undo.as_mut().poll(context).is_ready());
    }
    watched.store.release_lock(lock).unwrap();
    let mut outcomes = watched.after(before);
    outcomes.sort_unstable();
    let all = ["batch cancelled", "by_hand cancelled", "undo cancelled"];
    assert_eq!(outcomes, all);
}

#[test]
fn a_batch_that_runs_without_its_task_is_reported_with_its_outcome() {
    let watched = Watched::new();
    let lock = watched.store.acquire_lock("holder").unwrap();
    let mut batch = Box::pin(watched.manager().transaction(note("n")).into_future());
    let context = &mut Context::from_waker(Waker::noop());
    assert!(matches!(batch.as_mut().poll(context), Poll::Pending));
    // The keeper runs it.
    watched.store.release_lock(lock).unwrap();
    while watched.store.version() == 0 || watched.store.is_locked() {
        thread::yield_now();
    }
    drop(batch);
    while watched.spans.transactions().is_empty() {
        thread::yield_now();
    }
    assert_eq!(watched.after(0), ["batch committed"]);
}
