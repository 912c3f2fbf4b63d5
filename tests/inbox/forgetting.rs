//! Forgotten records cause no repetition (INBOX 5).

use std::time::Duration;

use doclock::inbox::{EventState, HandlerError, InboxOptions, Outcome};

use crate::{Bank, CLAIM, MS, at, credit, done};

#[test]
fn inbox_05_a_pruned_event_is_too_old_and_not_new() {
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
    // Newer than all forgotten records, though not newer than the requested time.
    assert_eq!(bank.inbox.prune(at(5)), 1);
    assert!(done(&bank.process(&("4", at(4), ()), credit)));
    assert_eq!(bank.process(&("new", at(3), ()), credit), Outcome::TooOld);
    assert_eq!(bank.ledger(), ["3", "1", "2", "5", "4"]);
}

#[test]
fn inbox_05_only_done_and_dead_events_are_pruned() {
    let bank = Bank::new(InboxOptions::new());
    let claim = bank.inbox.claim(&("claimed", at(1), ())).unwrap();
    bank.process(&("waiting", at(1), ()), |_, _| {
        Err(HandlerError::transient("no network"))
    });
    bank.process(&("dead", at(1), ()), |_, _| {
        Err(HandlerError::poison("bad"))
    });
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
    // Newer records are forgotten between the claim and its withdrawal.
    let claim = bank.inbox.claim(&old).unwrap();
    bank.process(&("newer", at(2), ()), credit);
    assert_eq!(bank.inbox.prune(at(3)), 1);
    drop(claim);
    assert!(done(&bank.process(&old, credit)));
}

#[test]
fn inbox_05_a_record_that_died_twice_is_pruned_once() {
    let bank = Bank::new(InboxOptions::new());
    let message = ("evt-1", at(1), ());
    for _ in 0..2 {
        bank.process(&message, |_, _| Err(HandlerError::poison("bad")));
        assert!(bank.inbox.revive("evt-1"));
        assert_eq!(bank.inbox.prune(at(9)), 0, "it is alive");
    }
    assert!(done(&bank.process(&message, credit)));
    assert_eq!(bank.inbox.prune(at(9)), 1);
    assert_eq!(bank.process(&message, credit), Outcome::TooOld);
}

/// Dead events without a time could not be forgotten, nor could completed ones.
#[test]
fn inbox_05_events_without_a_time_are_pruned_by_the_age_of_their_outcome() {
    let bank = Bank::new(InboxOptions::new());
    let poison = |id: &'static str| {
        bank.process(&(id, ()), |_, _| Err(HandlerError::poison("bad")));
    };
    bank.process(&("done", ()), credit);
    poison("dead");
    poison("revived");
    poison("");
    bank.process(&("timed", at(1), ()), |_, _| {
        Err(HandlerError::poison("bad"))
    });
    bank.process(&("", at(1), ()), |_, _| Ok(()));
    bank.process(&("waiting", ()), |_, _| {
        Err(HandlerError::transient("later"))
    });
    let claim = bank.inbox.claim(&("claimed", ())).unwrap();
    assert!(bank.inbox.revive("revived"));
    bank.clock.advance(CLAIM);
    bank.process(&("late", ()), credit);
    poison("late and dead");

    assert_eq!(bank.inbox.prune(at(9)), 2, "those with a time");
    assert_eq!(bank.inbox.prune_untimed(CLAIM + MS), 0);
    assert_eq!(bank.inbox.prune_untimed(CLAIM), 3);
    assert_eq!(bank.inbox.prune_untimed(CLAIM), 0);
    let letters = bank.inbox.dead_letters();
    let dead: Vec<_> = letters.iter().map(|letter| &*letter.event_id).collect();
    assert_eq!(dead, ["late and dead"]);
    for (id, known) in [
        ("done", false),
        ("dead", false),
        ("revived", true),
        ("waiting", true),
        ("claimed", true),
        ("late", true),
    ] {
        assert_eq!(bank.inbox.event(id).is_some(), known, "{id}");
    }
    bank.finish(claim).unwrap();
    assert!(done(&bank.process(&("revived", ()), credit)));
    assert!(done(&bank.process(&("dead", ()), credit)));
    bank.clock.advance(CLAIM);
    assert_eq!(bank.inbox.prune_untimed(CLAIM), 5);
}

#[test]
fn inbox_05_a_forgotten_dead_event_is_attempted_as_a_new_one() {
    let bank = Bank::new(InboxOptions::new());
    for message in [("evt-1", at(5), ()), ("evt-2", at(1), ())] {
        bank.process(&message, |_, _| Err(HandlerError::poison("bad")));
        assert!(bank.inbox.forget(message.0));
        assert!(!bank.inbox.forget(message.0), "it is forgotten already");
        assert_eq!(bank.inbox.event(message.0), None);
        assert!(done(&bank.process(&message, credit)));
        assert!(!bank.inbox.forget(message.0), "it is done");
        assert_eq!(bank.process(&message, credit), Outcome::Duplicate);
    }
    assert_eq!(bank.inbox.prune(at(9)), 2);
    assert_eq!(bank.ledger(), ["evt-1", "evt-2"]);
}

/// The record of a dead event is the only source of its time.
#[test]
fn inbox_05_a_message_is_pruned_by_the_time_with_which_it_was_processed() {
    let bank = Bank::new(InboxOptions::new());
    bank.process(&("evt-1", at(1), ()), |_, _| {
        Err(HandlerError::poison("bad"))
    });
    assert!(bank.inbox.forget("evt-1"));
    assert!(done(&bank.process(&("evt-1", at(8), ()), credit)));
    assert_eq!(bank.inbox.prune(at(5)), 0);
    assert_eq!(
        bank.process(&("evt-1", at(8), ()), credit),
        Outcome::Duplicate
    );
    assert_eq!(bank.inbox.prune(at(9)), 1);
    assert_eq!(bank.process(&("evt-1", at(8), ()), credit), Outcome::TooOld);
}

#[test]
fn inbox_05_many_events_are_pruned() {
    let bank = Bank::new(InboxOptions::new());
    for number in 0..2_000 {
        bank.process(&(number.to_string(), ()), |_, _| Ok(()));
        bank.process(&(format!("bad {number}"), ()), |_, _| {
            Err(HandlerError::poison(""))
        });
    }
    assert_eq!(bank.inbox.prune_untimed(Duration::ZERO), 4_000);
    assert_eq!(
        (bank.inbox.stats().remembered, bank.inbox.stats().dead),
        (0, 0)
    );
    for second in 0..2_000 {
        bank.process(&(second.to_string(), at(second), ()), |_, _| Ok(()));
    }
    assert_eq!(bank.inbox.prune(at(1_500)), 1_500);
    assert_eq!(bank.inbox.stats().remembered, 500);
}
