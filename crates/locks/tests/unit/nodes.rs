//! Requests for nodes beside many others: whom they find, and what they cost. Costs are in steps:
//! no request looks at all holders or at all waiters.

use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Waker};

use super::*;
use crate::id::NodeId;
use crate::node::{Refused, Scope, Tree};
use crate::queue::LockMode;
use crate::steps::counter::counted;
use crate::wait::WaiterKind;
use crate::{AcquireOptions, FifoLock, Requester};

struct Flat;

impl Tree for Flat {
    fn each_ancestor(&self, id: &NodeId, visit: &mut dyn FnMut(&NodeId)) -> u64 {
        if *id != NodeId::from("root") {
            visit(&"root".into());
        }
        self.version()
    }

    fn version(&self) -> u64 {
        0
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
    asks_for_more(lock, grant, Scope::new().write(node), Refused::Itself)
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
    lock.0.state.lock().bind(two.id(), 0);
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

/// A request for nodes of a named owner, in a task that is bound to no thread.
fn asks(lock: &FifoLock, owner: &'static str, options: AcquireOptions, scope: Scope) -> Requested {
    let lock = lock.clone();
    Box::pin(async move {
        let owner = OwnerId::from(owner);
        let requester = options.requester_as(WaiterKind::Task, &owner, Location::caller(), false);
        let asked = lock.grant_nodes_as(WaiterKind::Task, &requester, &options, scope, &Flat);
        asked.await
    })
}

fn takes(lock: &FifoLock, owner: &'static str, scope: Scope) -> Grant {
    let granted = polled(&mut asks(lock, owner, AcquireOptions::new(), scope)).0;
    granted.unwrap()
}

fn waits(lock: &FifoLock, owner: &'static str, scope: Scope) -> Requested {
    let mut request = asks(lock, owner, AcquireOptions::new().no_timeout(), scope);
    assert!(polled(&mut request).0.is_none());
    request
}

fn asks_for_more(lock: &FifoLock, grant: Grant, scope: Scope, refused: Refused) -> Requested {
    let lock = lock.clone();
    Box::pin(async move {
        let options = AcquireOptions::new().no_timeout();
        let asked = lock.extend_nodes(WaiterKind::Task, grant, &options, &scope, &Flat, refused);
        asked.await
    })
}

fn extends(lock: &FifoLock, grant: Grant, scope: Scope) -> Requested {
    let mut request = asks_for_more(lock, grant, scope, Refused::Itself);
    assert!(polled(&mut request).0.is_none());
    request
}

/// Ends the last wait for nodes that has begun. Returns the steps.
fn ends_last_wait(lock: &FifoLock, reason: Reason) -> usize {
    lock.0.step(|state| {
        let last = state
            .waiters_for_nodes()
            .max_by_key(|waiter| waiter.more.number);
        let waiting_at = last.unwrap().position_at(None);
        counted(|| state.withdraw_from_nodes(waiting_at, reason)).1
    })
}

/// What the timeout of the last wait says.
fn times_out(lock: &FifoLock, mut request: Requested) -> TimeoutEvidence {
    ends_last_wait(lock, Reason::Expired(Duration::ZERO));
    match request
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()))
    {
        std::task::Poll::Ready(Err(LockError::Timeout(evidence))) => *evidence,
        other => panic!("{other:?}"),
    }
}

fn ahead(evidence: &TimeoutEvidence) -> Vec<&str> {
    let ahead = evidence.ahead.iter();
    ahead.map(|entry| entry.owner_id.as_str()).collect()
}

#[test]
fn lock_05_a_timeout_names_the_holder_and_the_queue_of_one_node() {
    let lock = FifoLock::new();
    let both = || Scope::new().write("a").write("b");
    takes(&lock, "a's", Scope::new().write("a"));
    takes(&lock, "b's", Scope::new().write("b"));
    let of_node = |evidence: &TimeoutEvidence| {
        let node = evidence.node.as_ref().unwrap().node.clone();
        format!("{}'s", node.unwrap())
    };
    let request = waits(&lock, "late", both());
    let evidence = times_out(&lock, request);
    assert_eq!(evidence.holder.owner_id.as_str(), of_node(&evidence));
    let queued =
        ["a1", "b1", "b2"].map(|owner| waits(&lock, owner, Scope::new().write(&owner[..1])));
    let request = waits(&lock, "late", both());
    let evidence = times_out(&lock, request);
    assert_eq!((of_node(&evidence).as_str(), evidence.position), ("b's", 3));
    assert_eq!(
        (ahead(&evidence), evidence.holder.owner_id.as_str()),
        (vec!["b1", "b2"], "b's")
    );
    drop(queued);
}

#[test]
fn lock_05_a_timeout_names_those_ahead_from_the_head_of_the_queue() {
    let lock = FifoLock::new();
    let old = takes(&lock, "old", Scope::new().write("own"));
    takes(&lock, "holder", Scope::new().write("hot"));
    let hot = || Scope::new().write("hot");
    let first = waits(&lock, "first", hot());
    let more = extends(&lock, old, hot());
    let request = waits(&lock, "late", hot());
    let evidence = times_out(&lock, request);
    assert_eq!(ahead(&evidence), ["first", "old"]);
    drop((first, more));
}

/// It waits behind a request that its holder does not exclude.
#[test]
fn lock_05_a_timeout_of_a_holder_of_nodes_does_not_name_itself() {
    let lock = FifoLock::new();
    let own = takes(&lock, "own", Scope::new().write("own"));
    let reader = takes(&lock, "reader", Scope::new().read("hot"));
    takes(&lock, "another", Scope::new().write("other"));
    let more = extends(&lock, reader, Scope::new().write("other"));
    let writer = waits(&lock, "writer", Scope::new().write("hot"));
    let request = extends(&lock, own, Scope::new().read("hot"));
    let evidence = times_out(&lock, request);
    assert_eq!(evidence.holder.owner_id.as_str(), "reader");
    assert_eq!(ahead(&evidence), ["writer"]);
    drop((more, writer));
}

#[test]
fn lock_05_a_request_that_may_not_wait_names_a_holder_and_no_waiter() {
    let lock = FifoLock::new();
    takes(&lock, "reader", Scope::new().read("hot"));
    let writer = waits(&lock, "writer", Scope::new().write("hot"));
    let no_wait = AcquireOptions::new().no_wait();
    let mut refused = asks(&lock, "late", no_wait, Scope::new().read("hot"));
    match refused
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()))
    {
        std::task::Poll::Ready(Err(LockError::WouldBlock { holder, .. })) => {
            assert_eq!(holder.owner_id.as_str(), "reader");
        }
        other => panic!("{other:?}"),
    }
    drop(writer);
}

/// A request leaves from behind all others, by its timeout or its token.
#[test]
fn node_locks_02_a_request_leaves_at_the_same_cost_behind_ten_and_behind_ten_thousand() {
    for reason in [Reason::Expired(Duration::ZERO), Reason::Cancelled] {
        let steps = [10, 10_000].map(|waiters| {
            let lock = FifoLock::new();
            takes(&lock, "holder", Scope::new().write("hot"));
            let hot = || Scope::new().write("hot");
            let waiting: Vec<_> = (0..waiters)
                .map(|_| waits(&lock, "waiter", hot()))
                .collect();
            let steps = ends_last_wait(&lock, reason);
            drop(waiting);
            steps
        });
        // A search in the queue, by halves.
        assert!(steps[1] <= 5 * steps[0], "{steps:?}");
    }
}

/// The holder of a hot node, and a member that waits for it, have hold limits.
#[test]
fn node_locks_02_each_waiter_joins_at_the_cost_of_the_tenth_beside_hold_limits() {
    let lock = FifoLock::with_options(LockOptions::new().hold_limit(Duration::from_secs(3_600)));
    takes(&lock, "holder", Scope::new().write("hot"));
    let own = takes(&lock, "own", Scope::new().write("own"));
    let more = extends(&lock, own, Scope::new().write("hot"));
    let mut waiting = Vec::new();
    let steps = (0..1_000).map(|_| {
        let mut request = request(&lock, 0, &["hot".to_owned()]);
        let (granted, steps) = polled(&mut request);
        assert!(granted.is_none());
        waiting.push(request);
        steps
    });
    is_flat("a waiter beside hold limits", &steps.collect::<Vec<_>>());
    drop(more);
}

/// A member that waits ahead of many others is revoked, and its report names the next of them.
#[test]
fn lock_10_a_revocation_takes_no_more_steps_than_there_are_waiters() {
    let steps = [100, 10_000].map(|waiters| {
        let clock = crate::time::ManualClock::new();
        let lock = FifoLock::with_options(LockOptions::new().clock(clock.clock()));
        takes(&lock, "holder", Scope::new().write("hot"));
        let limited = AcquireOptions::new().hold_limit(Duration::from_secs(1));
        let mut limited = asks(&lock, "limited", limited, Scope::new().write("own"));
        let own = polled(&mut limited).0.unwrap();
        let more = extends(&lock, own, Scope::new().write("hot"));
        let hot = || Scope::new().write("hot");
        let waiting: Vec<_> = (0..waiters)
            .map(|_| waits(&lock, "waiter", hot()))
            .collect();
        let steps = lock.0.step(|state| {
            let overdue = state.hold_of(own.id()).and_then(|hold| hold.more.overdue);
            counted(|| state.revoke(own.id(), overdue.unwrap())).1
        });
        let delayed = lock.0.step(|state| state.revoked_for(own.id()));
        assert_eq!(delayed.unwrap().owner_id.as_str(), "waiter");
        drop((more, waiting));
        steps
    });
    assert!(steps[1] <= 200 * steps[0], "{steps:?}");
}

#[test]
fn node_locks_01_a_holder_that_is_alone_has_each_node_once() {
    let lock = FifoLock::new();
    let grant = takes(&lock, "alone", Scope::new().read("p"));
    for _ in 0..3 {
        let mut more = extend(&lock, grant, "p");
        assert!(polled(&mut more).0.is_some());
    }
    let page = lock.0.step(|state| state.members_page(None));
    let held = &page.0[0];
    assert_eq!((held.nodes.len(), held.node_count), (1, 1));
    assert_eq!(held.nodes[0].1, LockMode::NodeExclusive);
}

#[test]
fn a_guard_that_requests_again_is_taken_whatever_became_of_its_last_request() {
    let lock = FifoLock::new();
    let own = takes(&lock, "own", Scope::new().write("own"));
    let holder = takes(&lock, "holder", Scope::new().write("hot"));
    std::mem::forget(extends(&lock, own, Scope::new().write("hot")));
    lock.release_lock(holder.id()).unwrap();
    let untaken = || {
        lock.0
            .step(|state| state.hold_of(own.id()).unwrap().source.untaken)
    };
    assert!(untaken());
    assert!(polled(&mut extend(&lock, own, "more")).0.is_some());
    assert!(!untaken());
}

/// Without a release, a number in the list would stand for a member that is gone, and each further
/// hold would read the clock.
#[test]
fn a_hold_that_is_not_measured_is_listed_until_it_ends() {
    let lock = FifoLock::new();
    let listed = || {
        let numbers = |state: &mut LockState| state.nodes.as_ref().map(|it| it.unmeasured.clone());
        lock.0.step_if_timed(|_| false, numbers).unwrap_or_default()
    };
    let mut grants = Vec::new();
    for thread in 1..=2 + UNMEASURED as u64 {
        let mut request = request(&lock, thread, &[format!("node-{thread}")]);
        grants.extend(polled(&mut request).0);
    }
    let numbers = listed();
    assert_eq!(numbers.len(), UNMEASURED);
    lock.leave_grant(LockId::new(numbers[1], grants[0].id().lock));
    assert_eq!(listed(), [numbers[0], numbers[2], numbers[3]]);
    for grant in grants {
        lock.leave_grant(grant.id());
    }
    assert_eq!(listed(), []);
}

/// The owners of the cycle for which a request that waits was refused, beginning with its own.
fn refused_cycle(mut request: Requested) -> Vec<String> {
    let polled = request
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()));
    let std::task::Poll::Ready(Err(LockError::Deadlock(cycle))) = polled else {
        panic!("{polled:?}");
    };
    let links = cycle.links.iter();
    links.map(|link| link.owner_id.to_string()).collect()
}

/// Ann has `a`, Bob `b` and Cat `c`, and the other two wait for `a`.
#[test]
fn node_locks_04_a_request_that_refuses_others_breaks_each_cycle_that_it_closes() {
    let lock = FifoLock::new();
    let [ann, bob, cat] = [("ann", "a"), ("bob", "b"), ("cat", "c")]
        .map(|(owner, node)| takes(&lock, owner, Scope::new().write(node)));
    let bob_waits = extends(&lock, bob, Scope::new().write("a"));
    let cat_waits = extends(&lock, cat, Scope::new().write("a"));
    let both = Scope::new().write("b").write("c");
    let mut request = asks_for_more(&lock, ann, both, Refused::Another);
    assert!(polled(&mut request).0.is_none());
    assert_eq!(refused_cycle(bob_waits), ["bob", "ann"]);
    assert_eq!(refused_cycle(cat_waits), ["cat", "ann"]);
    // The others keep what they had.
    lock.leave_grant(bob.id());
    assert!(polled(&mut request).0.is_none());
    lock.leave_grant(cat.id());
    assert!(polled(&mut request).0.is_some());
    let [_, nodes] = lock.request_stats();
    assert_eq!((nodes.waiting, nodes.holders), (0, 1));
}

/// Ann waits only for Bob's place in the queue of a node that Cat shares.
#[test]
fn node_locks_04_a_request_that_refuses_what_is_before_it_in_a_queue_is_granted_at_once() {
    let lock = FifoLock::new();
    let ann = takes(&lock, "ann", Scope::new().write("a"));
    let bob = takes(&lock, "bob", Scope::new().write("b"));
    takes(&lock, "cat", Scope::new().read("c"));
    let bob_waits = extends(&lock, bob, Scope::new().write("a").write("c"));
    let mut request = asks_for_more(&lock, ann, Scope::new().read("c"), Refused::Another);
    // The answer is there when the request would begin to wait.
    let granted = polled(&mut request).0;
    assert!(granted.is_some() || polled(&mut request).0.is_some());
    assert_eq!(refused_cycle(bob_waits), ["bob", "ann"]);
}

/// Bob waits for Cat, who waits for Ann, who waits for Bob.
#[test]
fn node_locks_04_a_request_that_refuses_others_goes_before_the_next_of_its_cycle() {
    let lock = FifoLock::new();
    let [ann, bob, cat] = [("ann", "a"), ("bob", "b"), ("cat", "c")]
        .map(|(owner, node)| takes(&lock, owner, Scope::new().write(node)));
    let bob_waits = extends(&lock, bob, Scope::new().write("c"));
    let mut cat_waits = extends(&lock, cat, Scope::new().write("a"));
    let mut request = asks_for_more(&lock, ann, Scope::new().write("b"), Refused::Another);
    assert!(polled(&mut request).0.is_none());
    assert!(polled(&mut cat_waits).0.is_none());
    assert_eq!(refused_cycle(bob_waits), ["bob", "cat", "ann"]);
    lock.leave_grant(bob.id());
    assert!(polled(&mut request).0.is_some());
}

/// Cat has nothing, but stands before Ann in the queue of `b`, and waits for Ann.
#[test]
fn node_locks_04_a_first_request_is_not_refused_but_goes_behind() {
    let lock = FifoLock::new();
    let [ann, bob] = [("ann", "a"), ("bob", "b")]
        .map(|(owner, node)| takes(&lock, owner, Scope::new().write(node)));
    let mut cat = waits(&lock, "cat", Scope::new().write("a").write("b").read("d"));
    let mut dan = waits(&lock, "dan", Scope::new().write("d"));
    let mut request = asks_for_more(&lock, ann, Scope::new().write("b"), Refused::Another);
    assert!(polled(&mut request).0.is_none());
    lock.leave_grant(bob.id());
    assert!(polled(&mut request).0.is_some());
    assert!(polled(&mut cat).0.is_none());
    lock.leave_grant(ann.id());
    // Dan asked for `d` before Cat did again.
    assert!(polled(&mut cat).0.is_none());
    let dan = polled(&mut dan).0.unwrap();
    lock.leave_grant(dan.id());
    let cat = polled(&mut cat).0.unwrap();
    assert_eq!(lock.request_stats()[1].total_deadlocks, 0);
    lock.leave_grant(cat.id());
    let [_, nodes] = lock.request_stats();
    assert_eq!((nodes.waiting, nodes.holders, nodes.entries), (0, 0, 0));
}

/// Cat has got `b` of her request, and waits for `a`.
#[test]
fn node_locks_04_a_first_request_that_is_granted_in_part_goes_behind() {
    let lock = FifoLock::new();
    let [ann, bob] = [("ann", "a"), ("bob", "b")]
        .map(|(owner, node)| takes(&lock, owner, Scope::new().write(node)));
    let mut cat = waits(&lock, "cat", Scope::new().write("a").write("b"));
    lock.leave_grant(bob.id());
    let mut request = asks_for_more(&lock, ann, Scope::new().write("b"), Refused::Another);
    assert!(polled(&mut request).0.is_some());
    assert!(polled(&mut cat).0.is_none());
    lock.leave_grant(ann.id());
    let cat = polled(&mut cat).0.unwrap();
    lock.leave_grant(cat.id());
    let [_, nodes] = lock.request_stats();
    assert_eq!((nodes.waiting, nodes.holders, nodes.entries), (0, 0, 0));
}

/// Requests that have nothing wait for two nodes, one of which Ann has. Returns the steps in which
/// Ann passes them.
fn passed(count: usize) -> usize {
    let lock = FifoLock::new();
    let [ann, bob] = [("ann", "a"), ("bob", "b")]
        .map(|(owner, node)| takes(&lock, owner, Scope::new().write(node)));
    let mut waiting: Vec<_> = (0..count)
        .map(|_| waits(&lock, "cat", Scope::new().write("a").write("b")))
        .collect();
    let mut request = asks_for_more(&lock, ann, Scope::new().write("b"), Refused::Another);
    let (granted, steps) = polled(&mut request);
    assert!(granted.is_none());
    lock.leave_grant(bob.id());
    assert!(polled(&mut request).0.is_some());
    lock.leave_grant(ann.id());
    for request in &mut waiting {
        let granted = polled(request).0.unwrap();
        lock.leave_grant(granted.id());
    }
    steps
}

#[test]
fn node_locks_02_first_requests_that_go_behind_keep_their_order_at_the_cost_of_each() {
    let steps = [10, 100, 1_000].map(passed);
    println!("{steps:?} steps");
    // Each place in a queue is found in logarithmic time.
    let is_flat = |sizes: &[usize]| sizes[1] <= 20 * sizes[0];
    assert!(steps.windows(2).all(is_flat), "{steps:?}");
}
