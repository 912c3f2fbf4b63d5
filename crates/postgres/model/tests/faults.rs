//! Each fault changes one rule, and the exploration finds a state in which a property fails.

use std::collections::BTreeSet;

use doclock_postgres_model::{Bounds, Fault, Protocol};
use stateright::{Checker, HasDiscoveries, Model};

/// Explores the protocol with a fault, in order of depth, until each property named has failed.
fn find(fault: Fault, properties: &[&'static str]) {
    let bounds = Bounds {
        epochs: 2,
        locals: 1,
        requests: 1,
        cancels: 1,
        crashes: 1,
        losses: 1,
        slow_ticks: 0,
        failovers: u8::from(matches!(
            fault,
            Fault::TimelineIgnored | Fault::FailoverEndsLease
        )),
        callers: u8::from(matches!(
            fault,
            Fault::RepeatedAtOnce | Fault::RepeatedBeforeNextTerm
        )),
    };
    let bounds = match fault {
        Fault::NumberFromSequence => Bounds {
            requests: 2,
            ..bounds
        },
        Fault::NewestRowApplied => Bounds {
            requests: 2,
            ..bounds
        },
        _ => bounds,
    };
    let checker = Protocol::with_fault(bounds, fault)
        .checker()
        .threads(2)
        .finish_when(HasDiscoveries::AllOf(BTreeSet::from_iter(
            properties.iter().copied(),
        )))
        .spawn_bfs()
        .join();
    println!("{fault:?}: {} states", checker.unique_state_count());
    for property in properties {
        let path = checker.assert_any_discovery(property);
        println!("\"{property}\" fails after {:?}", path.into_actions());
    }
}

const STALE: &str = "a stale owner appends nothing";
const WINDOW: &str = "an owner with an open window has the lease";
const LATE: &str = "no acknowledgement without the lease";
const DENSE: &str = "versions are dense";
const EPOCHS: &str = "epochs only rise";
const ACKNOWLEDGED: &str = "an acknowledged commit is in the log";
const FENCED: &str = "a fenced commit is not in the log";
const TWICE: &str = "nothing runs twice";
const OUTCOME: &str = "a request has one outcome, that of the log";
const ORDER: &str = "requests run in the order of their numbers";
const FOLLOWER: &str = "the follower has a prefix of the log";

#[test]
fn a_renewal_by_name_opens_the_window_of_an_owner_that_lost_the_lease() {
    find(Fault::RenewByName, &[WINDOW]);
}

#[test]
fn an_upsert_on_renewal_brings_an_epoch_back() {
    find(Fault::UpsertOnRenewal, &[EPOCHS, WINDOW]);
}

#[test]
fn an_epoch_that_is_reset_returns() {
    find(Fault::ResetEpoch, &[EPOCHS]);
}

#[test]
fn an_append_that_does_not_lock_the_lease_comes_after_a_takeover() {
    find(Fault::AppendWithoutLock, &[STALE]);
}

#[test]
fn an_append_that_is_sent_twice_lands_twice_without_a_primary_key() {
    find(Fault::NoPrimaryKey, &[TWICE, DENSE]);
}

#[test]
fn a_result_outside_the_statement_lets_a_request_run_twice() {
    find(Fault::ResultOutside, &[TWICE, OUTCOME]);
}

#[test]
fn an_append_that_overwrites_an_outcome_runs_a_cancelled_request() {
    find(Fault::OutcomeOverwritten, &[OUTCOME]);
}

#[test]
fn a_number_from_a_sequence_is_overtaken_before_it_is_visible() {
    find(Fault::NumberFromSequence, &[ORDER]);
}

#[test]
fn an_expiry_by_the_clock_of_a_candidate_makes_two_owners() {
    find(Fault::ExpiryByOwnClock, &[WINDOW, LATE]);
}

#[test]
fn a_window_from_the_end_of_a_renewal_outlasts_the_lease() {
    find(Fault::AnchorAtEnd, &[WINDOW, LATE]);
}

#[test]
fn an_owner_that_does_not_check_its_window_acknowledges_too_late() {
    find(Fault::NoWindowCheck, &[LATE]);
}

#[test]
fn an_append_that_is_taken_for_lost_leaves_a_gap_or_lands_twice() {
    find(Fault::GuessedLost, &[DENSE, TWICE]);
}

#[test]
fn an_append_that_is_taken_for_done_is_acknowledged_and_lost() {
    find(Fault::GuessedDone, &[ACKNOWLEDGED]);
}

#[test]
fn an_append_that_is_sent_twice_and_fenced_once_may_have_landed() {
    find(Fault::FencedWithoutLookup, &[FENCED]);
}

#[test]
fn an_append_that_met_an_expired_lease_may_land_before_the_next_owner() {
    find(Fault::FencedByExpiry, &[FENCED]);
}

#[test]
fn an_epoch_without_a_timeline_returns_after_a_failover() {
    find(Fault::TimelineIgnored, &[EPOCHS]);
}

#[test]
fn a_failover_that_ends_the_lease_at_once_leaves_the_window_of_its_owner_open() {
    find(Fault::FailoverEndsLease, &[LATE]);
}

#[test]
fn a_follower_that_applies_the_newest_row_has_a_gap() {
    find(Fault::NewestRowApplied, &[FOLLOWER]);
}

#[test]
fn a_call_that_requests_an_unknown_commit_without_a_look_runs_twice() {
    find(Fault::RepeatedAtOnce, &[TWICE]);
}

#[test]
fn a_call_that_requests_an_unknown_commit_before_the_next_term_runs_twice() {
    find(Fault::RepeatedBeforeNextTerm, &[TWICE]);
}
