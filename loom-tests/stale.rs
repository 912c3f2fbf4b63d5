//! Races between a withdrawal and a later wait of the same guard.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use doclock::{
    DataStore,
    lock::{AcquireOptions, CancelToken, LockError, node::Scope},
};
use loom::thread::{self, JoinHandle};

use crate::model::{Actor, Model, Run};
use crate::node_locks::{at_rest, patient, spawn, take};

/// Whether the guard waits for the second time. Not loom's: it only records.
type Again = Arc<AtomicBool>;

/// A request that waits for `n`. Its guard then waits for `m`, without a token or a timeout.
fn twice(
    store: &DataStore,
    again: &Again,
    options: AcquireOptions,
) -> JoinHandle<Result<(), LockError>> {
    let again = Arc::clone(again);
    spawn(store, move |store| {
        let locks = store.node_locks();
        let mut guard = locks
            .request("w", Scope::new().write("n"))
            .options(options)
            .wait()?;
        again.store(true, SeqCst);
        let extended = guard.request_more(Scope::new().write("m")).wait();
        again.store(false, SeqCst);
        assert_eq!(
            extended,
            Ok(()),
            "its second wait has no token and no limit"
        );
        Ok(())
    })
}

/// An actor that withdraws the first wait, and returns whether the second one has begun by then.
fn withdraws(
    run: &Run,
    actor: &'static str,
    again: &Again,
    withdraw: impl FnOnce() + 'static,
) -> Actor<bool> {
    let again = Arc::clone(again);
    run.spawn(actor, move || {
        let before = again.load(SeqCst);
        withdraw();
        !before && again.load(SeqCst)
    })
}

/// Notes the outcome of the first wait. If that was granted, the second one was too.
fn note(run: &Run, store: &DataStore, first: &Result<(), LockError>, late: Option<bool>) {
    run.note(match first {
        Ok(()) if late == Some(true) => "granted, and waits again",
        Ok(()) => "granted",
        Err(LockError::Timeout(_)) => "timed out",
        Err(LockError::Cancelled(evidence)) if evidence.queued.is_none() => "refused",
        Err(LockError::Cancelled(_)) => "cancelled",
        Err(other) => panic!("{other}"),
    });
    at_rest(store, 2 + u64::from(first.is_ok()));
}

#[test]
fn stale_cancellation_against_another_wait_of_the_guard() {
    Model::new("nodes: cancel against extend", None)
        .reaches(["granted"])
        .reaches_by("canceller", "granted, and waits again")
        .reaches_by("canceller", "cancelled")
        .reaches_by("canceller", "refused")
        .check(|run| {
            let (store, again) = (patient(), Again::default());
            let token = CancelToken::new();
            let holders = ["n", "m"].map(|node| take(&store, node, Scope::new().write(node)));
            let options = AcquireOptions::new().cancel_token(&token);
            let waiter = twice(&store, &again, options);
            let canceller = withdraws(run, "canceller", &again, move || token.cancel());
            drop(holders);
            let late = canceller.join();
            note(run, &store, &waiter.join().unwrap(), late);
        });
}

#[test]
fn stale_expiry_against_another_wait_of_the_guard() {
    Model::new("nodes: expiry against extend", 5)
        .reaches(["granted"])
        .reaches_by("timer", "granted, and waits again")
        .reaches_by("timer", "timed out")
        .check(|run| {
            let (store, again) = (patient(), Again::default());
            let holders = ["n", "m"].map(|node| take(&store, node, Scope::new().write(node)));
            let waiter = twice(&store, &again, AcquireOptions::new());
            while store.node_locks().stats().waiting == 0 {
                thread::yield_now();
            }
            let expiry = store.expiry("w").expect("it waits for the first time");
            let timer = withdraws(run, "timer", &again, expiry);
            drop(holders);
            let late = timer.join();
            note(run, &store, &waiter.join().unwrap(), late);
        });
}
