//! Stale claims (INBOX 4).

use std::sync::Barrier;
use std::thread;

use doclock::{
    CommitError, StoreOptions,
    inbox::{DeadLetterCause, EventState, HandlerError, InboxOptions, Outcome},
};

use crate::{Bank, CLAIM, MS, credit, done};

#[test]
fn inbox_04_a_stale_claim_is_taken_over_with_a_larger_token() {
    let bank = Bank::new(InboxOptions::new());
    let message = ("evt-1", ());
    let old = bank.inbox.claim(&message).unwrap();
    bank.clock.advance(CLAIM - MS);
    let refused = bank.inbox.claim(&message).unwrap_err();
    assert_eq!(refused, Outcome::Taken { remaining: MS });
    bank.clock.advance(MS);
    let new = bank.inbox.claim(&message).unwrap();
    assert!(new.token() > old.token());
    assert_eq!((old.attempt(), new.attempt()), (1, 2));

    // The old worker cannot finish, neither during the new one's work nor afterwards.
    let refused = bank.finish(old).unwrap_err();
    let CommitError::Superseded { event, .. } = &refused else {
        panic!("{refused:?}");
    };
    assert_eq!(event, "evt-1");
    assert_eq!(
        refused.to_string(),
        "claim 1 on event \"evt-1\" was taken over before the commit"
    );
    assert!(bank.ledger().is_empty());
    bank.finish(new).unwrap();
    assert_eq!(bank.ledger(), ["evt-1"]);
    assert_eq!(bank.store.version(), 2);
    assert_eq!(bank.inbox.stats().superseded, 1);
}

#[test]
fn inbox_04_an_old_worker_can_neither_finish_nor_fail_an_event_taken_over() {
    let bank = Bank::new(InboxOptions::new());
    for (nth, message) in [("evt-1", ()), ("evt-2", ()), ("evt-3", ())]
        .iter()
        .enumerate()
    {
        let old = bank.inbox.claim(message).unwrap();
        bank.clock.advance(CLAIM);
        assert!(done(&bank.process(message, credit)));
        match nth {
            0 => assert!(matches!(
                bank.finish(old),
                Err(CommitError::Superseded { .. })
            )),
            1 => assert_eq!(old.fail(HandlerError::poison("late")), Outcome::Superseded),
            _ => drop(old),
        }
        let state = bank.inbox.event(message.0);
        assert!(matches!(state, Some(EventState::Done { .. })), "{state:?}");
    }
    assert_eq!(bank.ledger(), ["evt-1", "evt-2", "evt-3"]);
}

#[test]
fn inbox_04_a_stale_claim_without_a_takeover_may_finish() {
    let bank = Bank::new(InboxOptions::new());
    let claim = bank.inbox.claim(&("evt-1", ())).unwrap();
    bank.clock.advance(10 * CLAIM);
    bank.finish(claim).unwrap();
    assert_eq!(bank.process(&("evt-1", ()), credit), Outcome::Duplicate);
}

#[test]
fn inbox_04_the_commit_of_a_handler_fails_after_a_takeover_of_its_claim() {
    // During the old worker's work the lock is revoked, so the new one can begin.
    let settings = StoreOptions::new().hold_limit(CLAIM);
    let bank = Bank::with_store(settings, InboxOptions::new());
    let message = ("evt-1", ());
    let at_work = Barrier::new(2);
    thread::scope(|scope| {
        let old = scope.spawn(|| {
            bank.process(&message, |transaction, message| {
                credit(transaction, message)?;
                at_work.wait();
                at_work.wait();
                Ok(())
            })
        });
        at_work.wait();
        bank.clock.advance(CLAIM);
        assert!(done(&bank.process(&message, credit)));
        at_work.wait();
        assert_eq!(old.join().unwrap(), Outcome::Superseded);
    });
    assert_eq!(bank.ledger(), ["evt-1"]);
    let stats = bank.inbox.stats();
    assert_eq!((stats.taken_over, stats.superseded, stats.done), (1, 1, 1));
}

#[test]
fn inbox_04_a_message_that_kills_each_worker_becomes_a_dead_letter() {
    let bank = Bank::new(InboxOptions::new().attempts(3));
    let message = ("evt-1", ());
    for _ in 0..3 {
        bank.die_with(&message);
        bank.clock.advance(CLAIM);
    }
    let outcome = bank.process(&message, |_, _| panic!("it has had its attempts"));
    let Outcome::Dead(letter) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(
        (letter.cause, letter.attempts),
        (DeadLetterCause::Exhausted, 3)
    );
    assert_eq!(bank.inbox.stats().exhausted, 1);
}

#[test]
fn inbox_04_a_claim_that_is_dropped_is_free_at_once() {
    let bank = Bank::new(InboxOptions::new().attempts(2));
    let message = ("evt-1", ());
    let first = bank.inbox.claim(&message).unwrap();
    let token = first.token();
    drop(first);
    let second = bank.inbox.claim(&message).unwrap();
    assert!(second.token() > token);
    assert_eq!(second.attempt(), 2, "so that it does not go on for ever");
    drop(second);
    assert!(matches!(
        bank.inbox.claim(&message).unwrap_err(),
        Outcome::Dead(_)
    ));
    assert_eq!(bank.inbox.stats().taken_over, 0, "they were not stale");
}

#[test]
fn inbox_04_an_event_state_shows_the_claim_owner_and_the_remaining_time() {
    let bank = Bank::new(InboxOptions::new());
    assert_eq!(bank.inbox.event("evt-1"), None);
    let claim = bank.inbox.claim(&("evt-1", ())).unwrap();
    bank.clock.advance(CLAIM - 5 * MS);
    let Some(EventState::Claimed {
        owner,
        token,
        attempt,
        held_for,
        remaining,
        ..
    }) = bank.inbox.event("evt-1")
    else {
        panic!("{:?}", bank.inbox.event("evt-1"));
    };
    assert_eq!(
        (owner.as_str(), token, attempt),
        ("payments", claim.token(), 1)
    );
    assert_eq!((held_for, remaining), (CLAIM - 5 * MS, 5 * MS));
}
