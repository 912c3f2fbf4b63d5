//! Races for locks on nodes.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use doclock::lock::LockMode::{Exclusive, NodeExclusive, NodeShared, Shared};
use doclock::{
    DataStore, NodeGuard, StoreOptions, View,
    document::NodeSpec,
    lock::{AcquireOptions, CancelToken, LockError, LockMode, Priority, RequestStats, node::Scope},
};
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread::{self, JoinHandle};

use crate::model::{Actor, Model, Run};

pub(crate) fn patient() -> DataStore {
    DataStore::with_options(StoreOptions::new().lock_timeout(None))
}

/// Checks that no node is locked, no request waits, no entry is left, and `granted` requests were
/// granted and ended.
pub(crate) fn at_rest(store: &DataStore, granted: u64) -> RequestStats {
    let stats = store.node_locks().stats();
    assert_eq!((stats.holders, stats.waiting, stats.entries), (0, 0, 0));
    assert_eq!((store.is_locked(), store.queue_length()), (false, 0));
    let ended = stats.total_releases + stats.total_revocations;
    assert_eq!((stats.total_acquisitions, ended), (granted, granted));
    stats
}

/// Runs code in a thread of its own.
pub(crate) fn spawn<T: 'static>(
    store: &DataStore,
    code: impl FnOnce(&DataStore) -> T + 'static,
) -> JoinHandle<T> {
    let store = store.clone();
    thread::spawn(move || code(&store))
}

/// Spawns as [`spawn`] does, for an actor.
pub(crate) fn act<T: 'static>(
    run: &Run,
    actor: &'static str,
    store: &DataStore,
    code: impl FnOnce(&DataStore) -> T + 'static,
) -> Actor<T> {
    let store = store.clone();
    run.spawn(actor, move || code(&store))
}

/// Locks nodes on behalf of another thread.
pub(crate) fn take(store: &DataStore, owner: &str, scope: impl Into<Scope>) -> NodeGuard {
    let options = AcquireOptions::new().no_wait().unbound();
    store
        .node_locks()
        .request(owner, scope)
        .options(options)
        .wait()
        .unwrap()
}

/// The visitors that are present, with their modes. Not loom's: it only records, and must not add
/// to the interleavings.
#[derive(Clone, Default)]
pub(crate) struct Place(Arc<Mutex<Vec<LockMode>>>);

impl Place {
    /// Enters and leaves. Returns whether other visitors were present meanwhile.
    pub(crate) fn visit(&self, mode: LockMode) -> bool {
        let reads = |mode: &LockMode| matches!(mode, NodeShared | Shared);
        let found = {
            let mut there = self.0.lock().unwrap();
            let found = there.len();
            assert!(found == 0 || reads(&mode) && there.iter().all(reads));
            there.push(mode);
            found
        };
        thread::yield_now();
        let mut there = self.0.lock().unwrap();
        let own = there.iter().position(|other| *other == mode).unwrap();
        there.remove(own);
        found + there.len() > 0
    }

    /// Visits with the node locked.
    pub(crate) fn visit_locked(
        &self,
        store: &DataStore,
        owner: &str,
        id: &str,
        mode: LockMode,
    ) -> bool {
        let guard = store.node_locks().lock(owner, [(id, mode)]).unwrap();
        let beside = self.visit(mode);
        drop(guard);
        beside
    }

    fn spawn_visit(
        &self,
        store: &DataStore,
        owner: &'static str,
        id: &'static str,
        mode: LockMode,
    ) -> JoinHandle<bool> {
        let place = self.clone();
        spawn(store, move |store| {
            place.visit_locked(store, owner, id, mode)
        })
    }

    /// Spawns an actor that visits, named as the owner.
    fn act_visit(
        &self,
        run: &Run,
        store: &DataStore,
        owner: &'static str,
        id: &'static str,
        mode: LockMode,
    ) -> Actor<bool> {
        let place = self.clone();
        act(run, owner, store, move |store| {
            place.visit_locked(store, owner, id, mode)
        })
    }
}

/// The owners that have released all their nodes. Only a record, like [`Place`].
#[derive(Clone, Default)]
pub(crate) struct Gone(Arc<Mutex<Vec<&'static str>>>);

impl Gone {
    pub(crate) fn note(&self, owner: &'static str) {
        self.0.lock().unwrap().push(owner);
    }

    pub(crate) fn until_now(&self) -> Vec<&'static str> {
        self.0.lock().unwrap().clone()
    }
}

#[test]
fn node_locks_readers_share_and_exclude_a_writer() {
    let model = Model::new("nodes: shared against exclusive", 2)
        .reaches(["readers apart"])
        .reaches_by("c", "readers together");
    model.check(|run| {
        let (store, place) = (patient(), Place::default());
        let b = place.spawn_visit(&store, "b", "n", NodeShared);
        let c = place.act_visit(run, &store, "c", "n", NodeShared);
        assert!(!place.visit_locked(&store, "a", "n", NodeExclusive));
        let (b, c) = (b.join().unwrap(), c.join());
        at_rest(&store, 2 + c.map_or(0, |_| 1));
        run.note(match b || c == Some(true) {
            true => "readers together",
            false => "readers apart",
        });
    });
}

/// Creates two sections, and a paragraph in the first.
fn sections() -> DataStore {
    let store = patient();
    let mut transaction = store.begin("setup").unwrap();
    let paragraph = NodeSpec::new("paragraph").with_id("p");
    let section = NodeSpec::new("section")
        .with_id("a")
        .with_children([paragraph]);
    transaction.create(section).unwrap();
    transaction
        .create(NodeSpec::new("section").with_id("b"))
        .unwrap();
    transaction.commit().unwrap();
    store
}

#[test]
fn node_locks_a_subtree_excludes_its_descendants() {
    let model = Model::new("nodes: subtree against descendant", 2)
        .reaches(["readers apart"])
        .reaches_by("c", "readers together");
    model.check(|run| {
        let (store, place) = (sections(), Place::default());
        let writer = place.spawn_visit(&store, "b", "p", NodeExclusive);
        let reader = place.act_visit(run, &store, "c", "p", NodeShared);
        let a = place.visit_locked(&store, "a", "a", Shared);
        writer.join().unwrap();
        let c = reader.join();
        at_rest(&store, 2 + c.map_or(0, |_| 1));
        run.note(match a || c == Some(true) {
            true => "readers together",
            false => "readers apart",
        });
    });
}

/// The parent of a node at the grant counts, not its parent at the request.
#[test]
fn node_locks_follow_a_node_that_is_moved() {
    let model = Model::new("nodes: request against a move", 2)
        .reaches(["before the move"])
        .reaches_by("mover", "after the move");
    model.check(|run| {
        let (store, place) = (sections(), Place::default());
        let of_node = place.spawn_visit(&store, "b", "p", NodeExclusive);
        let of_section = {
            let place = place.clone();
            spawn(&store, move |store| {
                let guard = store.node_locks().lock("c", [("b", Exclusive)]).unwrap();
                let moved = store.snapshot().node("p").unwrap().parent() == Some(&"b".into());
                if moved {
                    place.visit(Exclusive);
                }
                drop(guard);
                moved
            })
        };
        if run.has("mover") {
            let mut transaction = store.begin_on("a", Scope::new()).unwrap();
            transaction.move_node("p", "b", 0).unwrap();
            transaction.commit().unwrap();
        }
        of_node.join().unwrap();
        let moved = of_section.join().unwrap();
        // A request whose node was moved may need a second request.
        let granted = store.node_locks().stats().total_acquisitions;
        let least = 2 + u64::from(run.has("mover"));
        assert!((least..=least + 1).contains(&granted));
        at_rest(&store, granted);
        run.note(if moved {
            "after the move"
        } else {
            "before the move"
        });
    });
}

#[test]
fn node_locks_and_the_document_lock_exclude_each_other() {
    let model = Model::new("nodes: against the whole", 2)
        .reaches(["nodes together", "nodes apart"])
        .reaches_by("whole", "whole first")
        .reaches_by("whole", "whole in between")
        .reaches_by("whole", "whole last");
    model.check(|run| {
        let (store, place, gone) = (patient(), Place::default(), Gone::default());
        // Each on its own node, so that only the document lock blocks them.
        let nodes = ["b", "c"].map(|owner| {
            let (place, gone) = (place.clone(), gone.clone());
            spawn(&store, move |store| {
                let guard = store
                    .node_locks()
                    .lock(owner, Scope::new().write(owner))
                    .unwrap();
                let beside = place.visit(NodeShared);
                gone.note(owner);
                drop(guard);
                beside
            })
        });
        let wholes = u64::from(run.has("whole"));
        if run.has("whole") {
            let whole = store.lock("a").unwrap();
            let before = gone.until_now().len();
            assert!(!place.visit(Exclusive));
            drop(whole);
            run.note(["whole first", "whole in between", "whole last"][before]);
        }
        let [b, c] = nodes.map(|node| node.join().unwrap());
        at_rest(&store, 2);
        let stats = store.lock_stats();
        assert_eq!(
            (stats.total_acquisitions, stats.total_releases),
            (wholes, wholes)
        );
        run.note(if b || c {
            "nodes together"
        } else {
            "nodes apart"
        });
    });
}

/// A holder of nodes beside it does not keep it from going before a request for the whole lock.
#[test]
fn node_locks_of_high_priority_overtake_a_request_for_the_document_lock() {
    let model = Model::new("nodes: priority against the whole", 3)
        .reaches(["no request in the queue"])
        .reaches_by("whole", "a request in the queue");
    model.check(|run| {
        let (store, place) = (patient(), Place::default());
        let beside = take(&store, "beside", Scope::new().write("m"));
        let holder = take(&store, "a", Scope::new().write("n"));
        let whole = {
            let place = place.clone();
            act(run, "whole", &store, move |store| {
                let guard = store.lock("whole").unwrap();
                assert!(!place.visit(Exclusive));
                drop(guard);
            })
        };
        let high = {
            let place = place.clone();
            spawn(&store, move |store| {
                let options = AcquireOptions::new().priority(Priority::High);
                let set = Scope::new().write("n");
                let guard = store
                    .node_locks()
                    .request("high", set)
                    .options(options)
                    .wait()
                    .unwrap();
                place.visit(NodeExclusive);
                drop(guard);
            })
        };
        run.note(match store.queue_length() {
            0 => "no request in the queue",
            _ => "a request in the queue",
        });
        drop(holder);
        high.join().unwrap();
        drop(beside);
        whole.join();
        at_rest(&store, 3);
    });
}

#[test]
fn node_locks_a_removed_entry_loses_no_request() {
    let model = Model::new("nodes: eviction against requests", None)
        .reaches(["b first"])
        .reaches_by("c", "c first");
    model.check(|run| {
        let (store, place, gone) = (patient(), Place::default(), Gone::default());
        // So that no holder is alone, and each has its entry.
        let beside = take(&store, "beside", Scope::new().write("m"));
        let holder = take(&store, "a", Scope::new().write("n"));
        let entries = store.node_locks().stats().entries;
        let asks = |owner: &'static str| {
            let (place, gone) = (place.clone(), gone.clone());
            move |store: &DataStore| {
                let locks = store.node_locks();
                let guard = locks.lock(owner, Scope::new().write("n")).unwrap();
                assert!(!place.visit(NodeExclusive));
                gone.note(owner);
                drop(guard);
            }
        };
        let b = spawn(&store, asks("b"));
        let c = act(run, "c", &store, asks("c"));
        drop(holder);
        b.join().unwrap();
        let granted = 3 + c.join().map_or(0, |()| 1);
        assert!(store.node_locks().stats().entries < entries);
        drop(beside);
        at_rest(&store, granted);
        run.note(match gone.until_now()[0] {
            "b" => "b first",
            _ => "c first",
        });
    });
}

/// As plain data: only the lock on its node orders it.
fn count(data: &AtomicU64) {
    let before = data.load(Ordering::Relaxed);
    thread::yield_now();
    data.store(before + 1, Ordering::Relaxed);
}

#[test]
fn node_locks_a_lone_holder_is_downgraded_or_gone() {
    let model = Model::new("nodes: unmeasured release against downgrade", 3)
        .reaches_by("c", "beside the first")
        .reaches_by("c", "after the first");
    model.check(|run| {
        let store = patient();
        store.skip_measured_hold();
        let data = Arc::new(AtomicU64::new(0));
        let first = take(&store, "a", Scope::new().write("n"));
        let same = {
            let data = Arc::clone(&data);
            spawn(&store, move |store| {
                let _guard = store
                    .node_locks()
                    .lock("b", Scope::new().write("n"))
                    .unwrap();
                count(&data);
            })
        };
        let gone = Arc::new(AtomicBool::new(false));
        let other = {
            let (gone, run) = (Arc::clone(&gone), run.clone());
            act(&run.clone(), "c", &store, move |store| {
                let _guard = store
                    .node_locks()
                    .lock("c", Scope::new().write("m"))
                    .unwrap();
                let gone = gone.load(SeqCst);
                run.note(if gone {
                    "after the first"
                } else {
                    "beside the first"
                });
            })
        };
        count(&data);
        drop(first);
        gone.store(true, SeqCst);
        same.join().unwrap();
        let granted = 3 + other.join().map_or(0, |()| 1);
        let last = store
            .node_locks()
            .lock("last", Scope::new().write("n"))
            .unwrap();
        assert_eq!(data.load(Ordering::Relaxed), 2);
        drop(last);
        let stats = at_rest(&store, granted);
        assert_eq!(stats.hold.count, granted);
        assert_eq!(store.lock_stats().total_acquisitions, 0);
    });
}

/// `w` waits for a locked node, and holds another one for which a third request waits. An actor
/// withdraws `w`.
fn withdrawal(
    run: &Run,
    options: AcquireOptions,
    actor: &'static str,
    withdraw: impl FnOnce(&DataStore) + 'static,
) {
    let (store, place) = (patient(), Place::default());
    let holder = take(&store, "holder", Scope::new().write("n"));
    let asking = {
        let place = place.clone();
        spawn(&store, move |store| {
            let set = Scope::new().write("m").write("n");
            let guard = store
                .node_locks()
                .request("w", set)
                .options(options)
                .wait()?;
            place.visit(NodeExclusive);
            drop(guard);
            Ok(())
        })
    };
    let other = place.spawn_visit(&store, "other", "m", NodeExclusive);
    let actor = act(run, actor, &store, withdraw);
    drop(holder);
    let outcome: Result<(), LockError> = asking.join().unwrap();
    other.join().unwrap();
    actor.join();
    let stats = at_rest(&store, 2 + u64::from(outcome.is_ok()));
    let counts = (stats.total_timeouts, stats.total_cancellations);
    let (whole, refused) = {
        let stats = store.lock_stats();
        (stats.total_acquisitions, stats.total_cancellations)
    };
    assert_eq!(whole, 0);
    run.note(match outcome {
        Ok(()) => {
            assert_eq!((counts, refused), ((0, 0), 0));
            "granted"
        }
        Err(LockError::Timeout(evidence)) => {
            assert_eq!((counts, refused), ((1, 0), 0));
            assert!(evidence.node.is_some());
            "timed out"
        }
        Err(LockError::Cancelled(evidence)) => {
            assert_eq!(counts.1 + refused, 1);
            match evidence.queued {
                Some(_) => "cancelled",
                None => "refused",
            }
        }
        Err(other) => panic!("{other}"),
    });
}

#[test]
fn node_locks_a_request_expires_or_is_granted() {
    let model = Model::new("nodes: expiry against grant", 2)
        .reaches(["granted"])
        .reaches_by("timer", "timed out");
    model.check(|run| {
        let expire = |store: &DataStore| store.expire("w");
        withdrawal(run, AcquireOptions::new(), "timer", expire);
    });
}

#[test]
fn node_locks_a_request_is_cancelled_or_granted() {
    let model = Model::new("nodes: cancel against grant", 2)
        .reaches(["granted"])
        .reaches_by("canceller", "cancelled")
        .reaches_by("canceller", "refused");
    model.check(|run| {
        let token = CancelToken::new();
        let options = AcquireOptions::new().cancel_token(&token);
        withdrawal(run, options, "canceller", move |_| token.cancel());
    });
}
