//! Removal of inboxes.

use doclock::{
    CommitError,
    inbox::{DeadLetter, EventState, HandlerError, Inbox, InboxOptions, Outcome},
};

use crate::{Bank, CLAIM, MS, at, credit, done};

/// The records of an inbox lived as long as their store.
#[test]
fn inbox_05_a_removed_inbox_is_as_a_new_one() {
    let bank = Bank::new(InboxOptions::new());
    let other = Inbox::new(&bank.store, "refunds");
    other.process(&("evt-1", ()), |_, _| Ok(())).unwrap();
    bank.process(&("evt-1", at(1), ()), credit);
    bank.process(&("evt-2", at(2), ()), |_, _| {
        Err(HandlerError::poison("bad"))
    });
    bank.process(&("", ()), |_, _| Ok(()));
    bank.process(&("evt-3", at(3), ()), |_, _| {
        Err(HandlerError::transient("no network"))
    });
    assert_eq!(bank.inbox.prune(at(2)), 1);

    bank.inbox.remove().unwrap();
    let fresh = Bank::new(InboxOptions::new()).inbox;
    for inbox in [&bank.inbox, &Inbox::new(&bank.store, "payments")] {
        assert_eq!(inbox.stats(), fresh.stats());
        assert_eq!(inbox.dead_letters(), Vec::<DeadLetter>::new());
        assert_eq!(inbox.event("evt-3"), None);
        assert!(!inbox.revive("evt-2") && !inbox.forget("evt-2"));
    }
    assert!(matches!(
        other.event("evt-1"),
        Some(EventState::Done { .. })
    ));

    // Neither records nor the time of the newest pruned event remain.
    for id in ["evt-1", "evt-2", "evt-3"] {
        assert!(done(&bank.process(&(id, at(1), ()), credit)));
    }
    assert_eq!(bank.ledger(), ["evt-1", "evt-1", "evt-2", "evt-3"]);
    bank.inbox.remove().unwrap();
    bank.inbox.remove().unwrap();
}

#[test]
fn inbox_05_an_inbox_with_a_claim_that_holds_is_not_removed() {
    let bank = Bank::new(InboxOptions::new());
    let first = bank.inbox.claim(&("evt-1", ())).unwrap();
    bank.clock.advance(CLAIM / 2);
    let second = bank.inbox.claim(&("evt-2", ())).unwrap();
    let error = bank.inbox.remove().unwrap_err();
    assert_eq!((error.claims, error.remaining), (2, CLAIM));
    assert_eq!(
        error.to_string(),
        "inbox payments was not removed: 2 events are claimed, the last for another 30.0s",
    );
    bank.finish(first).unwrap();
    assert_eq!(bank.inbox.remove().unwrap_err().claims, 1);
    assert_eq!(bank.process(&("evt-1", ()), credit), Outcome::Duplicate);
    drop(second);
    bank.inbox.remove().unwrap();
}

/// Tokens that restarted at one would let the old worker finish the new one's work.
#[test]
fn inbox_04_a_stale_claim_cannot_finish_after_a_removal() {
    let bank = Bank::new(InboxOptions::new());
    let stale = bank.inbox.claim(&("evt-1", ())).unwrap();
    bank.clock.advance(CLAIM);
    bank.inbox.remove().unwrap();
    let next = bank.inbox.claim(&("evt-1", ())).unwrap();
    assert!(next.token() > stale.token());
    let error = bank.finish(stale).unwrap_err();
    assert!(matches!(error, CommitError::Superseded { .. }));
    assert_eq!(bank.ledger(), Vec::<String>::new());
    bank.finish(next).unwrap();
    assert_eq!(bank.ledger(), ["evt-1"]);
}

#[test]
fn inbox_04_a_stale_claim_on_a_removed_inbox_leaves_no_record() {
    let bank = Bank::new(InboxOptions::new());
    let claims = ["a", "b", "c"].map(|id| bank.inbox.claim(&(id, ())).unwrap());
    bank.clock.advance(CLAIM);
    bank.inbox.remove().unwrap();
    let before = bank.inbox.stats();
    let [dropped, failed, finished] = claims;
    drop(dropped);
    assert_eq!(
        failed.fail(HandlerError::poison("bad")),
        Outcome::Superseded
    );
    assert!(bank.finish(finished).is_err());
    bank.clock.advance(MS);
    assert_eq!(bank.inbox.stats(), before);
}
