//! The protocol without a fault: every state is explored, and no property fails in any.

use std::collections::{HashSet, VecDeque};

use doclock_postgres_model::{Bounds, Event, Protocol, representative};
use stateright::{Checker, Model};

const NONE: Bounds = Bounds {
    epochs: 2,
    locals: 0,
    requests: 0,
    cancels: 0,
    crashes: 0,
    losses: 0,
    slow_ticks: 0,
    failovers: 0,
    callers: 0,
};

/// Explores all states. Fails for a property that does not hold, for another number of states than
/// the model has, and for an event that none of its steps is.
///
/// There is no target count, depth or timeout. The number shows it: `is_done` of stateright is also
/// true of an exploration that was cut short. After a change of the model, take the number printed.
fn explore(name: &str, bounds: Bounds, states: usize, events: &[Event]) {
    let checker = Protocol::new(bounds)
        .checker()
        .threads(2)
        .symmetry_fn(representative)
        .spawn_dfs()
        .join();
    println!(
        "{name}: {} states, by {} steps, at most {} deep",
        checker.unique_state_count(),
        checker.state_count(),
        checker.max_depth()
    );
    for event in Event::ALL {
        println!("    {event:?}: {}", checker.model().reached(event));
    }
    checker.assert_properties();
    assert_eq!(checker.unique_state_count(), states, "{name}: states");
    for event in events {
        assert!(
            checker.model().reached(*event) > 0,
            "{name}: no step is {event:?}"
        );
    }
}

#[test]
fn one_of_each_is_explored_to_the_end() {
    let bounds = Bounds {
        locals: 1,
        requests: 1,
        cancels: 1,
        crashes: 1,
        losses: 1,
        ..NONE
    };
    let others = [Event::LeaseChangeLost, Event::FoundStored, Event::Repeated];
    let reached: Vec<_> = Event::ALL
        .into_iter()
        .filter(|event| !others.contains(event))
        .collect();
    explore(
        "one of each",
        Bounds {
            slow_ticks: 1,
            ..bounds
        },
        5_539_395,
        &reached,
    );
}

#[test]
fn three_terms_are_explored_to_the_end() {
    let bounds = Bounds {
        epochs: 3,
        locals: 1,
        requests: 1,
        crashes: 1,
        losses: 1,
        ..NONE
    };
    let events = [
        Event::TakeoverFromPausedOwner,
        Event::HandOver,
        Event::FencedAppend,
        Event::FencedAfterLanding,
        Event::RequestContinued,
    ];
    explore("three terms", bounds, 7_049_912, &events);
}

#[test]
fn two_requests_are_explored_to_the_end() {
    let bounds = Bounds {
        requests: 2,
        cancels: 2,
        crashes: 1,
        losses: 1,
        ..NONE
    };
    let events = [
        Event::RequestSettledBefore,
        Event::RequestContinued,
        Event::LookupFoundNothing,
    ];
    explore("two requests", bounds, 1_466_877, &events);
}

#[test]
fn two_lost_replies_are_explored_to_the_end() {
    let bounds = Bounds {
        locals: 2,
        losses: 2,
        slow_ticks: 1,
        ..NONE
    };
    let events = [
        Event::LandedWithoutReply,
        Event::LandedAfterWindow,
        Event::LookupFound,
        Event::LookupFoundNothing,
        Event::FencedByExpiry,
        Event::AppendAfterExpiry,
        Event::FencedAfterLanding,
        Event::VersionTaken,
    ];
    explore("two lost replies", bounds, 3_026_527, &events);
}

#[test]
fn a_failover_is_explored_to_the_end() {
    let bounds = Bounds {
        locals: 1,
        losses: 1,
        slow_ticks: 1,
        failovers: 1,
        ..NONE
    };
    let events = [
        Event::LeaseChangeLost,
        Event::FencedAppend,
        Event::LookupFound,
    ];
    explore("a failover, with lost replies", bounds, 695_441, &events);
    let bounds = Bounds {
        epochs: 3,
        requests: 1,
        crashes: 1,
        failovers: 1,
        ..NONE
    };
    let events = [
        Event::LeaseChangeLost,
        Event::FencedAppend,
        Event::RequestContinued,
    ];
    explore("a failover, with three terms", bounds, 526_235, &events);
}

#[test]
fn a_caller_of_an_unknown_commit_is_explored_to_the_end() {
    let bounds = Bounds {
        epochs: 3,
        locals: 1,
        losses: 1,
        callers: 1,
        ..NONE
    };
    let events = [
        Event::FoundStored,
        Event::Repeated,
        Event::FencedByExpiry,
        Event::LandedWithoutReply,
    ];
    explore("a caller that waits", bounds, 413_799, &events);
}

/// Each state that can be reached has a representative that the exploration reaches.
#[test]
fn states_with_one_representative_behave_alike() {
    let crash = Bounds {
        requests: 1,
        crashes: 1,
        ..NONE
    };
    let failover = Bounds {
        locals: 1,
        failovers: 1,
        ..NONE
    };
    let loss = Bounds {
        locals: 1,
        losses: 1,
        slow_ticks: 1,
        ..NONE
    };
    for bounds in [crash, failover, loss] {
        let protocol = Protocol::new(bounds);
        let mut seen: HashSet<_> = protocol.init_states().into_iter().collect();
        let mut queue: VecDeque<_> = seen.iter().cloned().collect();
        while let Some(state) = queue.pop_front() {
            for next in protocol.next_states(&state) {
                if seen.insert(next.clone()) {
                    queue.push_back(next);
                }
            }
        }
        let representatives: HashSet<_> = seen.iter().map(representative).collect();
        let checker = protocol
            .checker()
            .symmetry_fn(representative)
            .spawn_dfs()
            .join();
        println!(
            "{} states have {} representatives",
            seen.len(),
            representatives.len()
        );
        assert_eq!(checker.unique_state_count(), representatives.len());
    }
}
