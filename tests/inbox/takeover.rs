//! Stale claims (INBOX 4).

use std::collections::HashMap;
use std::sync::Barrier;
use std::thread;

use doclock::{
    CommitError, DataStore, Draft, StoreOptions,
    inbox::{Claim, DeadLetterCause, EventState, HandlerError, Inbox, InboxOptions, Outcome},
    time::ManualClock,
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

/// The commands of a server: one claims, a later one in another thread finishes.
#[test]
fn inbox_04_a_claim_lives_across_the_threads_and_calls_of_a_server() {
    let bank = Bank::new(InboxOptions::new());
    let mut claims: HashMap<u32, Claim> = HashMap::new();
    for (nth, id) in [(0, "evt-1"), (1, "evt-2"), (2, "evt-3")] {
        // The claim does not borrow the handle that made it.
        let inbox = bank.inbox.clone();
        claims.insert(nth, inbox.claim(&(id, ())).unwrap());
    }
    let mut claims = thread::spawn(move || {
        drop(claims.remove(&2));
        claims
    })
    .join()
    .unwrap();
    thread::scope(|scope| {
        let claim = claims.remove(&0).unwrap();
        scope.spawn(|| bank.finish(claim).unwrap());
    });
    assert_eq!(bank.ledger(), ["evt-1"]);
    let taken = bank.inbox.claim(&("evt-2", ())).unwrap_err();
    assert!(matches!(taken, Outcome::Taken { .. }), "{taken:?}");
    let again = bank.inbox.claim(&("evt-3", ())).unwrap();
    assert_eq!(again.attempt(), 2, "the dropped claim was given up");
}

/// Regression: claims and pauses ended too early.
#[test]
fn claims_and_pauses_before_retries_last_as_long_as_the_options_say() {
    let clock = ManualClock::new();
    let store = DataStore::with_options(StoreOptions::new().clock(clock.clock()));
    let options = InboxOptions::new()
        .claim_time(30_000 * MS)
        .backoff(10_000 * MS, 10_000 * MS);
    let inbox = Inbox::with_options(&store, "payments", options);

    let claim = inbox.claim(&("evt-1", ())).unwrap();
    clock.advance(16_000 * MS);
    let remaining = 14_000 * MS;
    let other = inbox.claim(&("evt-1", ())).unwrap_err();
    assert_eq!(other, Outcome::Taken { remaining });
    drop(claim);

    let failure = |_: &mut Draft, _: &_| Err(HandlerError::transient("no network"));
    let outcome = inbox.process(&("evt-2", ()), failure).unwrap();
    assert!(matches!(outcome, Outcome::Retry { .. }));
    clock.advance(6_000 * MS);
    let remaining = 4_000 * MS;
    let outcome = inbox.process(&("evt-2", ()), failure).unwrap();
    assert_eq!(outcome, Outcome::Taken { remaining });
    clock.advance(remaining);
    let outcome = inbox.process(&("evt-2", ()), |_, _| Ok(())).unwrap();
    assert!(matches!(outcome, Outcome::Done { .. }));
}
