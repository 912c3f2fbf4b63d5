//! Races for locks on nodes.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use doclock::LockMode::{Exclusive, NodeExclusive, NodeShared, Shared};
use doclock::{
    AcquireOptions, CancelToken, DataStore, LockError, LockMode, NodeGuard, NodeLockStats,
    NodeSpec, Priority, Scope, StoreOptions, View,
};
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread::{self, JoinHandle};

use crate::model::{Seen, check_all};

pub(crate) fn patient() -> DataStore {
    DataStore::with_options(StoreOptions::new().lock_timeout(None))
}

/// Nobody has a node, nobody waits for one, nothing is kept of any; and so many were granted what they asked for, and ended.
pub(crate) fn at_rest(store: &DataStore, granted: u64) -> NodeLockStats {
    let stats = store.node_locks().stats();
    assert_eq!((stats.holders, stats.waiting, stats.entries), (0, 0, 0));
    assert_eq!((store.is_locked(), store.queue_length()), (false, 0));
    let ended = stats.total_releases + stats.total_revocations;
    assert_eq!((stats.total_acquisitions, ended), (granted, granted));
    stats
}

/// Runs in a thread of its own.
pub(crate) fn spawn<T: 'static>(
    store: &DataStore,
    code: impl FnOnce(&DataStore) -> T + 'static,
) -> JoinHandle<T> {
    let store = store.clone();
    thread::spawn(move || code(&store))
}

/// Takes nodes on behalf of another thread.
pub(crate) fn take(store: &DataStore, owner: &str, scope: impl Into<Scope>) -> NodeGuard {
    let options = AcquireOptions::new().no_wait().unbound();
    store.node_locks().lock_with(owner, scope, options).unwrap()
}

/// Who is there now, and who of them to itself. Not loom's: it only records, and must not add to the interleavings.
#[derive(Clone, Default)]
struct Place(Arc<Mutex<Vec<LockMode>>>);

impl Place {
    /// Comes and goes. Whether others were there meanwhile.
    fn visit(&self, mode: LockMode) -> bool {
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

    /// With the node locked.
    fn visit_locked(&self, store: &DataStore, owner: &str, id: &str, mode: LockMode) -> bool {
        let guard = store.node_locks().lock_nodes(owner, [(id, mode)]).unwrap();
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
}

#[test]
fn node_locks_readers_share_and_exclude_a_writer() {
    let outcomes = ["readers together", "readers apart"];
    check_all(
        "nodes: shared against exclusive",
        Some(3),
        outcomes,
        |seen| {
            let (store, place) = (patient(), Place::default());
            let readers = ["b", "c"].map(|owner| place.spawn_visit(&store, owner, "n", NodeShared));
            assert!(!place.visit_locked(&store, "a", "n", NodeExclusive));
            let [b, c] = readers.map(|reader| reader.join().unwrap());
            at_rest(&store, 3);
            seen.note(if b || c {
                "readers together"
            } else {
                "readers apart"
            });
        },
    );
}

#[test]
fn node_locks_of_two_upgrades_one_fails_at_once_and_one_is_granted() {
    let outcomes = ["a refused", "b refused"];
    check_all(
        "nodes: upgrade against upgrade",
        Some(3),
        outcomes,
        |seen| {
            let (store, place) = (patient(), Place::default());
            let holders = ["a", "b"].map(|owner| take(&store, owner, Scope::new().read("n")));
            let upgrades = holders.map(|mut guard| {
                let place = place.clone();
                thread::spawn(move || match guard.lock("n", NodeExclusive) {
                    Ok(()) => !place.visit(NodeExclusive),
                    Err(LockError::UpgradeConflict(_)) => {
                        // What it had it has still.
                        place.visit(NodeShared);
                        false
                    }
                    Err(other) => panic!("{other}"),
                })
            });
            place.visit_locked(&store, "c", "n", NodeExclusive);
            let [a, b] = upgrades.map(|upgrade| upgrade.join().unwrap());
            assert!(a != b, "one of them");
            let stats = at_rest(&store, 3);
            assert_eq!(
                (stats.total_upgrade_conflicts, stats.total_deadlocks),
                (1, 1)
            );
            seen.note(if a { "b refused" } else { "a refused" });
        },
    );
}

/// Who has released all that it had. Only a record, as [`Place`] is.
#[derive(Clone, Default)]
struct Gone(Arc<Mutex<Vec<&'static str>>>);

impl Gone {
    fn note(&self, owner: &'static str) {
        self.0.lock().unwrap().push(owner);
    }

    fn until_now(&self) -> Vec<&'static str> {
        self.0.lock().unwrap().clone()
    }
}

/// Asks for a second node while it has one, and says whether that was granted.
fn ask_across(
    mut guard: NodeGuard,
    owner: &'static str,
    for_node: &'static str,
    place: &Place,
    gone: &Gone,
) -> Result<(), LockError> {
    let gone_before = gone.until_now();
    let asked = guard.lock(for_node, NodeExclusive);
    match &asked {
        Ok(()) => assert!(!place.visit(NodeExclusive)),
        Err(LockError::Deadlock(circle)) => {
            let links = &circle.links;
            assert_eq!(links[0].owner_id.as_str(), owner);
            let is_there = |name: &str| !gone_before.contains(&name);
            assert!(links.iter().all(|link| is_there(link.owner_id.as_str())));
            // Lines alone make no circle.
            assert!(links.iter().any(|link| link.held_by_next.is_some()));
            let mut owners: Vec<_> = links.iter().map(|link| &link.owner_id).collect();
            owners.sort_unstable();
            owners.dedup();
            assert!(owners.len() == links.len() && links.len() > 1);
        }
        Err(LockError::Revoked { .. }) => {}
        Err(other) => panic!("{other}"),
    }
    drop(guard);
    gone.note(owner);
    asked
}

/// `a` has one node and asks for another; `b` has that, or gets it, and asks for the first.
fn circle(
    store: &DataStore,
    gone: &Gone,
    a: NodeGuard,
    b: impl FnOnce(&DataStore) -> NodeGuard + 'static,
) -> [Result<(), LockError>; 2] {
    let [one, two] = [(); 2].map(|()| Place::default());
    let b = {
        let gone = gone.clone();
        spawn(store, move |store| {
            ask_across(b(store), "b", "one", &one, &gone)
        })
    };
    let a = ask_across(a, "a", "two", &two, gone);
    [a, b.join().unwrap()]
}

#[test]
fn node_locks_a_circle_is_refused_and_nothing_else_is() {
    // Both, if each would wait for the third, who asked before and waits for both.
    let outcomes = ["a refused", "b refused", "both refused", "no circle"];
    check_all("nodes: circle against release", Some(3), outcomes, |seen| {
        let (store, gone) = (patient(), Gone::default());
        let a = take(&store, "a", Scope::new().write("one"));
        let third = {
            let gone = gone.clone();
            spawn(&store, move |store| {
                let set = Scope::new().write("two").write("one");
                drop(store.node_locks().lock("c", set).unwrap());
                gone.note("c");
            })
        };
        let b = |store: &DataStore| {
            let set = Scope::new().write("two");
            store.node_locks().lock("b", set).unwrap()
        };
        let asked = circle(&store, &gone, a, b);
        third.join().unwrap();
        let stats = at_rest(&store, 3);
        let refused = asked.map(|asked| asked.is_err());
        let count = refused.into_iter().filter(|refused| *refused).count();
        assert_eq!(stats.total_deadlocks, count as u64);
        seen.note(match refused {
            [true, true] => "both refused",
            [true, false] => "a refused",
            [false, true] => "b refused",
            [false, false] => "no circle",
        });
    });
}

#[test]
fn node_locks_a_release_by_id_ends_a_request_for_more() {
    let outcomes = ["a refused", "b refused", "b released"];
    check_all(
        "nodes: circle against release by id",
        Some(3),
        outcomes,
        |seen| {
            let (store, gone) = (patient(), Gone::default());
            let a = take(&store, "a", Scope::new().write("one"));
            let b = take(&store, "b", Scope::new().write("two"));
            let id = b.id();
            let third = spawn(&store, move |store| store.release_lock(id).is_ok());
            let asked = circle(&store, &gone, a, |_| b);
            let released = third.join().unwrap();
            let stats = at_rest(&store, 2);
            assert!(stats.total_deadlocks <= 1);
            seen.note(match asked {
                [Err(LockError::Deadlock(_)), _] => "a refused",
                [Ok(()), Err(LockError::Deadlock(_))] => "b refused",
                [Ok(()), Err(LockError::Revoked { .. })] => {
                    assert!(released);
                    "b released"
                }
                other => panic!("{other:?}"),
            });
        },
    );
}

/// Two sections, and a paragraph in the first.
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
fn node_locks_a_subtree_excludes_what_is_below_it() {
    let outcomes = ["readers together", "readers apart"];
    check_all(
        "nodes: subtree against descendant",
        Some(3),
        outcomes,
        |seen| {
            let (store, place) = (sections(), Place::default());
            let writer = place.spawn_visit(&store, "b", "p", NodeExclusive);
            let reader = place.spawn_visit(&store, "c", "p", NodeShared);
            let a = place.visit_locked(&store, "a", "a", Shared);
            writer.join().unwrap();
            let c = reader.join().unwrap();
            at_rest(&store, 3);
            seen.note(if a || c {
                "readers together"
            } else {
                "readers apart"
            });
        },
    );
}

/// Where a node stands when it is granted counts, not where it stood when it was asked for.
#[test]
fn node_locks_follow_a_node_that_is_moved() {
    let outcomes = ["before the move", "after the move"];
    check_all("nodes: request against a move", Some(3), outcomes, |seen| {
        let (store, place) = (sections(), Place::default());
        let of_node = place.spawn_visit(&store, "b", "p", NodeExclusive);
        let of_section = {
            let place = place.clone();
            spawn(&store, move |store| {
                let guard = store
                    .node_locks()
                    .lock_nodes("c", [("b", Exclusive)])
                    .unwrap();
                let moved =
                    store.snapshot().node(&"p".into()).unwrap().parent() == Some(&"b".into());
                if moved {
                    place.visit(Exclusive);
                }
                drop(guard);
                moved
            })
        };
        let mut transaction = store.begin_on("a", Scope::new()).unwrap();
        transaction.move_node(&"p".into(), &"b".into(), 0).unwrap();
        transaction.commit().unwrap();
        of_node.join().unwrap();
        let moved = of_section.join().unwrap();
        // Who finds its node elsewhere may have to ask anew.
        let granted = store.node_locks().stats().total_acquisitions;
        assert!((3..=4).contains(&granted));
        at_rest(&store, granted);
        seen.note(if moved {
            "after the move"
        } else {
            "before the move"
        });
    });
}

#[test]
fn node_locks_and_the_whole_exclude_each_other() {
    let outcomes = ["nodes together", "nodes apart"];
    check_all("nodes: against the whole", Some(3), outcomes, |seen| {
        let (store, place) = (patient(), Place::default());
        // Each on its own node, so that only the whole is in their way.
        let nodes = ["b", "c"].map(|owner| {
            let place = place.clone();
            spawn(&store, move |store| {
                let guard = store
                    .node_locks()
                    .lock(owner, Scope::new().write(owner))
                    .unwrap();
                let beside = place.visit(NodeShared);
                drop(guard);
                beside
            })
        });
        let whole = store.lock("a").unwrap();
        assert!(!place.visit(Exclusive));
        drop(whole);
        let [b, c] = nodes.map(|node| node.join().unwrap());
        at_rest(&store, 2);
        let stats = store.lock_stats();
        assert_eq!((stats.total_acquisitions, stats.total_releases), (1, 1));
        seen.note(if b || c {
            "nodes together"
        } else {
            "nodes apart"
        });
    });
}

/// Whoever holds nodes beside it does not keep it from going before the whole.
#[test]
fn node_locks_of_high_priority_go_before_one_that_waits_for_the_whole() {
    let outcomes = ["nobody in line", "somebody in line"];
    check_all(
        "nodes: priority against the whole",
        Some(3),
        outcomes,
        |seen| {
            let (store, place) = (patient(), Place::default());
            let beside = take(&store, "beside", Scope::new().write("m"));
            let holder = take(&store, "a", Scope::new().write("n"));
            let whole = {
                let place = place.clone();
                spawn(&store, move |store| {
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
                    let guard = store.node_locks().lock_with("high", set, options).unwrap();
                    place.visit(NodeExclusive);
                    drop(guard);
                })
            };
            seen.note(match store.queue_length() {
                0 => "nobody in line",
                _ => "somebody in line",
            });
            drop(holder);
            high.join().unwrap();
            drop(beside);
            whole.join().unwrap();
            at_rest(&store, 3);
        },
    );
}

#[test]
fn node_locks_an_entry_that_goes_takes_no_request_with_it() {
    check_all("nodes: eviction against requests", None, [], |_| {
        let (store, place) = (patient(), Place::default());
        // So that nobody is alone, and each has its entry.
        let beside = take(&store, "beside", Scope::new().write("m"));
        let holder = take(&store, "a", Scope::new().write("n"));
        let entries = store.node_locks().stats().entries;
        let asking = ["b", "c"].map(|owner| place.spawn_visit(&store, owner, "n", NodeExclusive));
        drop(holder);
        for thread in asking {
            assert!(!thread.join().unwrap());
        }
        assert!(store.node_locks().stats().entries < entries);
        drop(beside);
        at_rest(&store, 4);
    });
}

/// As plain data: only the lock on its node orders it.
fn count(data: &AtomicU64) {
    let before = data.load(Ordering::Relaxed);
    thread::yield_now();
    data.store(before + 1, Ordering::Relaxed);
}

#[test]
fn node_locks_who_is_alone_is_narrowed_or_gone() {
    let outcomes = ["beside the first", "after the first"];
    check_all(
        "nodes: hurried release against narrowing",
        Some(3),
        outcomes,
        |seen| {
            let store = patient();
            store.hurry();
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
            let (gone, seen) = (Arc::new(AtomicBool::new(false)), seen.clone());
            let other = {
                let gone = Arc::clone(&gone);
                spawn(&store, move |store| {
                    let _guard = store
                        .node_locks()
                        .lock("c", Scope::new().write("m"))
                        .unwrap();
                    let gone = gone.load(SeqCst);
                    seen.note(if gone {
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
            other.join().unwrap();
            let last = store
                .node_locks()
                .lock("last", Scope::new().write("n"))
                .unwrap();
            assert_eq!(data.load(Ordering::Relaxed), 2);
            drop(last);
            let stats = at_rest(&store, 4);
            assert_eq!(stats.hold.count, 4);
            assert_eq!(store.lock_stats().total_acquisitions, 0);
        },
    );
}

/// `w` waits for a node that is held, and has another one already for which somebody else waits. It gives up.
fn withdrawal(seen: &Seen, options: AcquireOptions, withdraw: impl FnOnce(&DataStore) + 'static) {
    let (store, place) = (patient(), Place::default());
    let holder = take(&store, "holder", Scope::new().write("n"));
    let asking = {
        let place = place.clone();
        spawn(&store, move |store| {
            let set = Scope::new().write("m").write("n");
            let guard = store.node_locks().lock_with("w", set, options)?;
            place.visit(NodeExclusive);
            drop(guard);
            Ok(())
        })
    };
    let other = place.spawn_visit(&store, "other", "m", NodeExclusive);
    let giving_up = spawn(&store, withdraw);
    drop(holder);
    let outcome: Result<(), LockError> = asking.join().unwrap();
    other.join().unwrap();
    giving_up.join().unwrap();
    let stats = at_rest(&store, 2 + u64::from(outcome.is_ok()));
    let counts = (stats.total_timeouts, stats.total_cancellations);
    let (whole, refused) = {
        let stats = store.lock_stats();
        (stats.total_acquisitions, stats.total_cancellations)
    };
    assert_eq!(whole, 0);
    seen.note(match outcome {
        Ok(()) => {
            assert_eq!((counts, refused), ((0, 0), 0));
            "granted"
        }
        Err(LockError::Timeout(evidence)) => {
            assert_eq!((counts, refused), ((1, 0), 0));
            assert!(evidence.node.is_some());
            "withdrawn"
        }
        Err(LockError::Cancelled(evidence)) => {
            assert_eq!(counts.1 + refused, 1);
            match evidence.stood {
                Some(_) => "withdrawn",
                None => "refused",
            }
        }
        Err(other) => panic!("{other}"),
    });
}

#[test]
fn node_locks_a_request_expires_or_is_granted() {
    let outcomes = ["granted", "withdrawn"];
    check_all("nodes: expiry against grant", Some(3), outcomes, |seen| {
        withdrawal(seen, AcquireOptions::new(), |store| store.expire("w"));
    });
}

#[test]
fn node_locks_a_request_is_cancelled_or_granted() {
    let outcomes = ["granted", "withdrawn", "refused"];
    check_all("nodes: cancel against grant", Some(3), outcomes, |seen| {
        let token = CancelToken::new();
        let options = AcquireOptions::new().cancel_token(&token);
        withdrawal(seen, options, move |_| token.cancel());
    });
}
