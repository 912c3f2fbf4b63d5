//! Races that end in a refused deadlock, or must not.

use doclock::lock::LockMode::{NodeExclusive, NodeShared};
use doclock::{
    DataStore, NodeGuard,
    lock::{LockError, node::Scope},
};
use loom::thread;

use crate::model::Model;
use crate::node_locks::{Gone, Place, act, at_rest, patient, spawn, take};

#[test]
fn node_deadlocks_of_two_upgrades_one_fails_at_once_and_one_is_granted() {
    let model = Model::new("nodes: upgrade against upgrade", 3)
        .reaches_by("b", "a refused")
        .reaches_by("b", "b refused");
    model.check(|run| {
        let (store, place) = (patient(), Place::default());
        let holders = ["a", "b"].map(|owner| take(&store, owner, Scope::new().read("n")));
        let [a, b] = holders.map(|mut guard| {
            let place = place.clone();
            move || match guard.extend([("n", NodeExclusive)]) {
                Ok(()) => !place.visit(NodeExclusive),
                Err(LockError::UpgradeConflict(_)) => {
                    // It still has its earlier nodes.
                    place.visit(NodeShared);
                    false
                }
                Err(other) => panic!("{other}"),
            }
        });
        let (a, b) = (thread::spawn(a), run.spawn("b", b));
        place.visit_locked(&store, "c", "n", NodeExclusive);
        let (a, b) = (a.join().unwrap(), b.join());
        let stats = at_rest(&store, 3);
        let conflicts = b.map_or(0, |_| 1);
        assert_eq!(
            (stats.total_upgrade_conflicts, stats.total_deadlocks),
            (conflicts, conflicts)
        );
        match (a, b) {
            (true, None) => {}
            (true, Some(false)) => run.note("b refused"),
            (false, Some(true)) => run.note("a refused"),
            both => panic!("one of them: {both:?}"),
        }
    });
}

/// Requests a second node while it holds one. Returns whether that was granted.
fn ask_across(
    mut guard: NodeGuard,
    owner: &'static str,
    for_node: &'static str,
    place: &Place,
    gone: &Gone,
) -> Result<(), LockError> {
    let gone_before = gone.until_now();
    let asked = guard.extend([(for_node, NodeExclusive)]);
    match &asked {
        Ok(()) => assert!(!place.visit(NodeExclusive)),
        Err(LockError::Deadlock(cycle)) => {
            let links = &cycle.links;
            assert_eq!(links[0].owner_id.as_str(), owner);
            let is_there = |name: &str| !gone_before.contains(&name);
            assert!(links.iter().all(|link| is_there(link.owner_id.as_str())));
            // Queues alone make no cycle.
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

/// `a` has one node and requests another; `b` has that, or gets it, and requests the first.
fn cycle(
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
fn node_deadlocks_only_a_request_that_closes_a_cycle_is_refused() {
    let model = Model::new("nodes: cycle against release", 3)
        .reaches(["a refused", "b refused", "no cycle"])
        // If each would wait for the third, which requested earlier and waits for both.
        .reaches_by("c", "both refused");
    model.check(|run| {
        let (store, gone) = (patient(), Gone::default());
        let a = take(&store, "a", Scope::new().write("one"));
        let third = {
            let gone = gone.clone();
            act(run, "c", &store, move |store| {
                let set = Scope::new().write("two").write("one");
                drop(store.node_locks().lock("c", set).unwrap());
                gone.note("c");
            })
        };
        let b = |store: &DataStore| {
            let set = Scope::new().write("two");
            store.node_locks().lock("b", set).unwrap()
        };
        let asked = cycle(&store, &gone, a, b);
        let granted = 2 + third.join().map_or(0, |()| 1);
        let stats = at_rest(&store, granted);
        let refused = asked.map(|asked| asked.is_err());
        let count = refused.into_iter().filter(|refused| *refused).count();
        assert_eq!(stats.total_deadlocks, count as u64);
        run.note(match refused {
            [true, true] => "both refused",
            [true, false] => "a refused",
            [false, true] => "b refused",
            [false, false] => "no cycle",
        });
    });
}

#[test]
fn node_deadlocks_a_release_by_id_ends_a_request_for_more() {
    let model = Model::new("nodes: cycle against release by id", 3)
        .reaches(["a refused", "b refused"])
        .reaches_by("releaser", "b released");
    model.check(|run| {
        let (store, gone) = (patient(), Gone::default());
        let a = take(&store, "a", Scope::new().write("one"));
        let b = take(&store, "b", Scope::new().write("two"));
        let id = b.id();
        let releaser = act(run, "releaser", &store, move |store| {
            store.release_lock(id).is_ok()
        });
        let asked = cycle(&store, &gone, a, |_| b);
        let released = releaser.join();
        let stats = at_rest(&store, 2);
        assert!(stats.total_deadlocks <= 1);
        run.note(match asked {
            [Err(LockError::Deadlock(_)), _] => "a refused",
            [Ok(()), Err(LockError::Deadlock(_))] => "b refused",
            [Ok(()), Err(LockError::Revoked { .. })] => {
                assert_eq!(released, Some(true));
                "b released"
            }
            other => panic!("{other:?}"),
        });
    });
}

#[test]
fn node_deadlocks_a_request_in_its_turn_is_granted() {
    let model = Model::new("nodes: cycle in a turn against expiry", 2)
        .reaches(["b refused"])
        .reaches_by("timer", "b timed out");
    model.check(|run| {
        let store = patient();
        let mut a = take(&store, "a", Scope::new().write("one"));
        let mut b = take(&store, "b", Scope::new().write("two"));
        let b = spawn(&store, move |_| b.extend([("one", NodeExclusive)]));
        let c = spawn(&store, |store| {
            let set = Scope::new().write("two").write("one");
            drop(store.node_locks().lock("c", set).unwrap());
        });
        let timer = act(run, "timer", &store, |store| store.expire("b"));
        a.extend_in_turn(Scope::new().write("two")).unwrap();
        drop(a);
        let asked = b.join().unwrap();
        c.join().unwrap();
        timer.join();
        let stats = at_rest(&store, 3);
        assert_eq!(
            (stats.total_deadlocks, stats.total_timeouts),
            match asked {
                Ok(()) => (0, 0),
                Err(LockError::Timeout(_)) => (0, 1),
                Err(_) => (1, 0),
            }
        );
        run.note(match asked {
            Err(LockError::Deadlock(_)) => "b refused",
            Err(LockError::Timeout(_)) => "b timed out",
            other => panic!("{other:?}"),
        });
    });
}
