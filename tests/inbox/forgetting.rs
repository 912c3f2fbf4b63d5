//! Forgetting records does not let anything happen again (INBOX 5).

use doclock::{EventState, Failure, InboxOptions, Outcome};

use crate::{Bank, CLAIM, at, credit, done};

#[test]
fn inbox_05_what_was_forgotten_is_too_old_and_not_new() {
    let bank = Bank::new(InboxOptions::new());
    for second in [3, 1, 2, 5] {
        bank.process(&(second.to_string(), at(second), ()), credit);
    }
    assert_eq!(bank.inbox.prune(at(3)), 2);
    assert_eq!(bank.inbox.prune(at(3)), 0);
    for (second, outcome) in [
        (1, Outcome::TooOld),
        (2, Outcome::TooOld),
        (3, Outcome::Duplicate),
        (5, Outcome::Duplicate),
    ] {
        let again = bank.process(&(second.to_string(), at(second), ()), credit);
        assert_eq!(again, outcome);
    }
    // Newer than all that was forgotten, though not newer than the moment that was asked for.
    assert_eq!(bank.inbox.prune(at(5)), 1);
    assert!(done(&bank.process(&("4", at(4), ()), credit)));
    assert_eq!(bank.process(&("new", at(3), ()), credit), Outcome::TooOld);
    assert_eq!(bank.ledger(), ["3", "1", "2", "5", "4"]);
}

#[test]
fn inbox_05_only_what_is_done_or_dead_is_forgotten() {
    let bank = Bank::new(InboxOptions::new());
    let claim = bank.inbox.claim(&("claimed", at(1), ())).unwrap();
    bank.process(&("waiting", at(1), ()), |_, _| {
        Err(Failure::transient("no network"))
    });
    bank.process(&("dead", at(1), ()), |_, _| Err(Failure::poison("bad")));
    bank.process(&("done", at(1), ()), credit);
    bank.process(&("timeless", ()), credit);
    assert_eq!(bank.inbox.prune(at(2)), 2);
    assert!(bank.inbox.dead_letters().is_empty());
    assert!(matches!(
        bank.inbox.event("timeless"),
        Some(EventState::Done { .. })
    ));
    assert_eq!(bank.process(&("timeless", ()), credit), Outcome::Duplicate);
    assert_eq!(bank.process(&("dead", at(1), ()), credit), Outcome::TooOld);
    bank.finish(claim).unwrap();
    bank.clock.advance(CLAIM);
    assert!(done(&bank.process(&("waiting", at(1), ()), credit)));
    assert_eq!(bank.inbox.prune(at(2)), 2, "now they are done");
}

#[test]
fn inbox_05_a_claim_that_became_too_old_meanwhile_is_not_lost() {
    let bank = Bank::new(InboxOptions::new());
    let old = ("old", at(1), ());
    // Between the claim and its withdrawal newer records are forgotten.
    let claim = bank.inbox.claim(&old).unwrap();
    bank.process(&("newer", at(2), ()), credit);
    assert_eq!(bank.inbox.prune(at(3)), 1);
    drop(claim);
    assert!(done(&bank.process(&old, credit)));
}

#[test]
fn inbox_05_a_record_that_died_twice_is_forgotten_once() {
    let bank = Bank::new(InboxOptions::new());
    let message = ("evt-1", at(1), ());
    for _ in 0..2 {
        bank.process(&message, |_, _| Err(Failure::poison("bad")));
        assert!(bank.inbox.revive("evt-1"));
        assert_eq!(bank.inbox.prune(at(9)), 0, "it is alive");
    }
    assert!(done(&bank.process(&message, credit)));
    assert_eq!(bank.inbox.prune(at(9)), 1);
    assert_eq!(bank.process(&message, credit), Outcome::TooOld);
}

#[test]
fn inbox_05_many_are_forgotten_piece_by_piece() {
    let bank = Bank::new(InboxOptions::new());
    for second in 0..2_000 {
        bank.process(&(second.to_string(), at(second), ()), |_, _| Ok(()));
    }
    assert_eq!(bank.inbox.prune(at(1_500)), 1_500);
    assert_eq!(bank.inbox.stats().remembered, 500);
}
