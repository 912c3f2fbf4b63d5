//! Requests for nodes beside many others: whom they find, and what they cost. Costs are in steps:
//! no request looks at all holders or at all waiters.

use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Waker};

use super::*;
use crate::id::NodeId;
use crate::node::{Scope, Tree};
use crate::steps::counter::counted;
use crate::wait::WaiterKind;
use crate::{AcquireOptions, FifoLock};

struct Flat;

impl Tree for Flat {
    fn each_ancestor(&self, id: &NodeId, visit: &mut dyn FnMut(&NodeId)) {
        if *id != NodeId::from("root") {
            visit(&"root".into());
        }
    }
}

/// A member with its request.
type Requested = Pin<Box<dyn Future<Output = Result<Grant, LockError>>>>;

/// Polls a request once. Returns whether it waits, and the steps.
fn polled(request: &mut Requested) -> (Option<Grant>, usize) {
    let mut context = Context::from_waker(Waker::noop());
    let (polled, steps) = counted(|| request.as_mut().poll(&mut context));
    match polled {
        std::task::Poll::Ready(granted) => (Some(granted.unwrap()), steps),
        std::task::Poll::Pending => (None, steps),
    }
}

/// Requests nodes in a task that is bound to a thread, as a transaction of that thread would be.
fn request(lock: &FifoLock, thread: u64, nodes: &[String]) -> Requested {
    let (lock, owner) = (lock.clone(), OwnerId::from(format!("owner-{thread}")));
    let nodes = nodes.iter().map(String::as_str);
    let scope = nodes.fold(Scope::new(), |scope, id| scope.write(id));
    Box::pin(async move {
        let options = AcquireOptions::new().no_timeout();
        let requester = options.requester(&owner, Location::caller(), false);
        let requester = Requester {
            thread,
            ..requester
        };
        let asked = lock.grant_nodes_as(WaiterKind::Task, &requester, &options, scope, &Flat);
        asked.await
    })
}

fn extend(lock: &FifoLock, grant: Grant, node: &str) -> Requested {
    let (lock, scope) = (lock.clone(), Scope::new().write(node));
    Box::pin(async move {
        let options = AcquireOptions::new().no_timeout();
        let owner = OwnerId::from("more");
        let requester = options.requester(&owner, Location::caller(), false);
        let asked = lock.extend_nodes(WaiterKind::Task, grant, &requester, &options, &scope, &Flat);
        asked.await
    })
}

/// Checks the steps of the tenth, the hundredth and the thousandth.
fn is_flat(what: &str, steps: &[usize]) {
    let [tenth, hundredth, thousandth] = [10, 100, 1_000].map(|nth: usize| steps[nth - 1]);
    println!("{what}: {tenth}, {hundredth} and {thousandth} steps");
    assert!(hundredth <= 2 * tenth && thousandth <= 2 * tenth, "{what}");
}

#[test]
fn node_locks_02_each_waiter_of_one_node_joins_at_the_cost_of_the_tenth() {
    let lock = FifoLock::new();
    let hot = ["hot".to_owned()];
    let mut first = request(&lock, 1, &hot);
    assert!(polled(&mut first).0.is_some());
    let mut waiting = Vec::new();
    let steps = (2..1_002).map(|thread| {
        let mut request = request(&lock, thread, &hot);
        let (granted, steps) = polled(&mut request);
        assert!(granted.is_none());
        waiting.push(request);
        steps
    });
    is_flat("a waiter", &steps.collect::<Vec<_>>());
}

/// Each holds a node of its own, and requests one that all others wait for.
#[test]
fn node_locks_04_each_holder_that_waits_for_one_node_joins_at_the_cost_of_the_tenth() {
    let lock = FifoLock::new();
    assert!(
        polled(&mut request(&lock, 1, &["hot".to_owned()]))
            .0
            .is_some()
    );
    let holders: Vec<Grant> = (2..1_002)
        .map(|thread| {
            let own = [format!("own-{thread}")];
            polled(&mut request(&lock, thread, &own)).0.unwrap()
        })
        .collect();
    let mut waiting = Vec::new();
    let steps = holders.into_iter().map(|grant| {
        let mut request = extend(&lock, grant, "hot");
        let (granted, steps) = polled(&mut request);
        assert!(granted.is_none());
        waiting.push(request);
        steps
    });
    is_flat("a holder that waits", &steps.collect::<Vec<_>>());
}

/// Holders of other nodes, none of which another one waits for.
#[test]
fn node_locks_02_each_holder_of_another_node_is_granted_at_the_cost_of_the_tenth() {
    let lock = FifoLock::new();
    let steps = (1..1_001).map(|thread| {
        let own = [format!("own-{thread}")];
        let (granted, steps) = polled(&mut request(&lock, thread, &own));
        assert!(granted.is_some());
        1 + steps
    });
    is_flat("a holder", &steps.collect::<Vec<_>>());
}

/// A search for a cycle that finds none visits each waiter once. Once it walked the queue again for
/// each waiter in it.
#[test]
fn node_locks_04_a_search_for_a_cycle_takes_as_many_steps_as_there_are_waiters() {
    let steps = [100, 1_000, 10_000].map(|waiters: u64| {
        let lock = FifoLock::new();
        assert!(
            polled(&mut request(&lock, 1, &["hot".to_owned()]))
                .0
                .is_some()
        );
        // All wait for the first, and one of them keeps the last from an early end.
        let own = ["own".to_owned()];
        let last = polled(&mut request(&lock, 2, &own)).0.unwrap();
        let mut waiting = Vec::new();
        for thread in 3..3 + waiters {
            let own = [format!("own-{thread}")];
            let grant = polled(&mut request(&lock, thread, &own)).0.unwrap();
            let mut more = extend(&lock, grant, "hot");
            assert!(polled(&mut more).0.is_none());
            waiting.push(more);
        }
        let mut behind = request(&lock, 3 + waiters, &own);
        assert!(polled(&mut behind).0.is_none());
        waiting.push(behind);
        let mut more = extend(&lock, last, "hot");
        let (granted, steps) = polled(&mut more);
        assert!(granted.is_none());
        waiting.push(more);
        steps
    });
    println!("searches beside 100, 1,000 and 10,000 waiters: {steps:?} steps");
    // A binary search for the place of each; a walk of the queue for each would be quadratic.
    for (&steps, waiters) in steps.iter().zip([100_usize, 1_000, 10_000]) {
        let allowed = waiters..2 * waiters * waiters.ilog2() as usize;
        assert!(allowed.contains(&steps), "{steps} for {waiters}");
    }
}

/// Each request is refused while any grant on nodes is bound to its thread.
#[test]
fn node_locks_01_a_thread_with_two_grants_is_refused_until_both_have_ended() {
    let lock = FifoLock::new();
    let [one, two] = ["one", "two"].map(|node| {
        let grant = polled(&mut request(&lock, 0, &[node.to_owned()]))
            .0
            .unwrap();
        lock.bind(grant);
        grant
    });
    let here = crate::sync::thread_number();
    let refusal = || {
        let mut third = request(&lock, here, &["three".to_owned()]);
        match third.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            std::task::Poll::Ready(Err(LockError::Reentrant { holder, .. })) => {
                Some(holder.lock_id)
            }
            std::task::Poll::Ready(Ok(_)) => None,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(refusal(), Some(one.id()));
    lock.release_lock(one.id()).unwrap();
    assert_eq!(refusal(), Some(two.id()));
    lock.unbind(two.id());
    assert_eq!(refusal(), None);
}

/// It waits behind a reader of the whole tree, and no holder is in its way.
#[test]
fn node_locks_01_a_request_that_may_not_wait_is_refused_without_a_look_at_all_holders() {
    let steps = [10, 1_000].map(|holders: u64| {
        let lock = FifoLock::new();
        for thread in 1..=holders {
            let own = [format!("own-{thread}")];
            assert!(polled(&mut request(&lock, thread, &own)).0.is_some());
        }
        let of_all = |options: AcquireOptions, scope: Scope| {
            let lock = lock.clone();
            Box::pin(async move {
                let owner = OwnerId::from("late");
                let requester = options.requester(&owner, Location::caller(), false);
                let requester = Requester {
                    thread: 0,
                    ..requester
                };
                let asked =
                    lock.grant_nodes_as(WaiterKind::Task, &requester, &options, scope, &Flat);
                asked.await
            })
        };
        let reader = Scope::new().read_subtree("root");
        let mut waits: Requested = of_all(AcquireOptions::new().no_timeout(), reader);
        assert!(polled(&mut waits).0.is_none());
        let mut refused = of_all(AcquireOptions::new().no_wait(), Scope::new().write("free"));
        let mut context = Context::from_waker(Waker::noop());
        let (polled, steps) = counted(|| refused.as_mut().poll(&mut context));
        let is_refused = |error: &LockError| matches!(error, LockError::WouldBlock { .. });
        assert!(matches!(&polled, std::task::Poll::Ready(Err(error)) if is_refused(error)));
        steps
    });
    assert!(steps[1] <= 2 * steps[0], "{steps:?}");
}
