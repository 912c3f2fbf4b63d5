//! Retries, poison and dead letters (INBOX 3).

use std::thread;
use std::time::Duration;

use doclock::{
    DataStore, StoreOptions,
    inbox::{DeadLetterCause, EventState, HandlerError, Inbox, InboxOptions, Outcome},
    lock::LockError,
};

use crate::{Bank, CLAIM, MS, at, credit, done};

fn failing(reason: &str) -> Result<(), HandlerError> {
    Err(HandlerError::transient(reason))
}

#[test]
fn inbox_03_transient_failures_are_retried_up_to_the_limit() {
    let options = InboxOptions::new().attempts(4).backoff(10 * MS, 25 * MS);
    let bank = Bank::new(options);
    let message = ("evt-1", at(7), ());
    let mut attempts = 0;
    for delay in [10, 20, 25] {
        let outcome = bank.process(&message, |_, _| {
            attempts += 1;
            failing("no network")
        });
        let (after, error) = (delay * MS, "no network".to_owned());
        assert_eq!(outcome, Outcome::Retry { after, error });
        bank.clock.advance(after - MS);
        let early = bank.process(&message, |_, _| panic!("it is not due"));
        assert_eq!(early, Outcome::Taken { remaining: MS });
        bank.clock.advance(MS);
    }
    let outcome = bank.process(&message, |_, _| failing("no network at all"));
    let Outcome::Dead(letter) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(attempts, 3);
    assert_eq!(
        (letter.cause, letter.attempts),
        (DeadLetterCause::Exhausted, 4)
    );
    assert_eq!(letter.error, "no network at all");
    assert_eq!((&*letter.event_id, letter.sent_at), ("evt-1", Some(at(7))));
    bank.clock.advance(CLAIM);
    assert_eq!(bank.process(&message, credit), Outcome::AlreadyDead);
    let [listed] = &bank.inbox.dead_letters()[..] else {
        panic!("{:?}", bank.inbox.dead_letters());
    };
    assert_eq!(listed.dead_for, CLAIM);
    assert_eq!(listed.error, letter.error);
}

#[test]
fn inbox_03_success_after_failures_counts_once() {
    let bank = Bank::new(InboxOptions::new().backoff(MS, MS));
    for attempt in 1..=3 {
        let outcome = bank.process(&("evt-1", ()), |transaction, message| {
            credit(transaction, message)?;
            if attempt < 3 {
                failing("no network")
            } else {
                Ok(())
            }
        });
        assert_eq!(done(&outcome), attempt == 3);
        bank.clock.advance(MS);
    }
    assert_eq!(bank.ledger(), ["evt-1"]);
    assert!(matches!(
        bank.inbox.event("evt-1"),
        Some(EventState::Done { attempts: 3, .. })
    ));
}

#[test]
fn inbox_03_poison_is_a_dead_letter_at_once() {
    let bank = Bank::new(InboxOptions::new());
    let outcome = bank.process(&("evt-1", ()), |transaction, message| {
        credit(transaction, message)?;
        Err(HandlerError::poison("unknown currency"))
    });
    let Outcome::Dead(letter) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(
        (letter.cause, letter.attempts),
        (DeadLetterCause::Poison, 1)
    );
    assert_eq!(
        letter.to_string(),
        "event \"evt-1\", poison after 1 attempt: unknown currency"
    );
    assert!(bank.ledger().is_empty());
    assert_eq!(bank.process(&("evt-1", ()), credit), Outcome::AlreadyDead);
}

/// A message without an id was `Dead` and in no list, so its loss was invisible.
#[test]
fn inbox_03_each_message_without_an_id_is_poison_and_a_dead_letter() {
    let bank = Bank::new(InboxOptions::new());
    for nth in 1..=2 {
        let outcome = bank.process(&("", at(nth), ()), credit);
        let Outcome::Dead(letter) = outcome else {
            panic!("{outcome:?}");
        };
        assert_eq!(
            (letter.cause, letter.attempts),
            (DeadLetterCause::Poison, 0)
        );
        assert_eq!(bank.inbox.dead_letters().last(), Some(&letter));
    }
    bank.process(&("evt-1", at(2), ()), |_, _| {
        Err(HandlerError::poison("no"))
    });
    bank.process(&("", ()), credit);
    bank.clock.advance(MS);
    let letters = bank.inbox.dead_letters();
    let known: Vec<_> = letters
        .iter()
        .map(|it| (&*it.event_id, it.sent_at))
        .collect();
    let expected = [
        ("", Some(at(1))),
        ("", Some(at(2))),
        ("evt-1", Some(at(2))),
        ("", None),
    ];
    assert_eq!(known, expected, "in the order in which they died");
    assert_eq!(letters[0].dead_for, MS);
    assert_eq!(
        letters[0].to_string(),
        "event \"\", poison after 0 attempts: the message has no event id"
    );
    let stats = bank.inbox.stats();
    assert_eq!((stats.poison, stats.dead), (4, 4));
    assert!(!bank.inbox.revive("") && bank.inbox.event("").is_none());
    assert_eq!(bank.inbox.prune(at(2)), 1);
    assert_eq!(bank.inbox.dead_letters().len(), 3);
    assert_eq!(bank.inbox.prune(at(3)), 2);
    assert_eq!(
        bank.inbox.dead_letters().len(),
        1,
        "not known when it was sent"
    );
}

#[test]
fn inbox_03_of_messages_without_an_id_the_latest_are_kept() {
    let bank = Bank::new(InboxOptions::new());
    let most = doclock::inbox::DeadLetter::KEPT_WITHOUT_ID as u64;
    for nth in 0..most + 5 {
        bank.process(&("", at(nth), ()), credit);
    }
    let letters = bank.inbox.dead_letters();
    assert_eq!(letters.len() as u64, most);
    assert_eq!(letters[0].sent_at, Some(at(5)));
    assert_eq!(bank.inbox.stats().poison, most + 5);
}

#[test]
fn inbox_03_panics_count_as_attempts() {
    let bank = Bank::new(InboxOptions::new().attempts(2).backoff(MS, MS));
    let crash = |_: &mut doclock::Draft, _: &(&str, ())| panic!("bad luck");
    assert!(matches!(
        bank.process(&("evt-1", ()), crash),
        Outcome::Retry { .. }
    ));
    bank.clock.advance(MS);
    let outcome = bank.process(&("evt-1", ()), crash);
    let Outcome::Dead(letter) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(letter.error, "the handler panicked: bad luck");
    let odd = bank.process(&("evt-2", ()), |_, _| std::panic::panic_any(7));
    assert!(matches!(odd, Outcome::Retry { error, .. } if error == "the handler panicked"));
}

#[test]
fn inbox_03_an_unavailable_lock_is_a_transient_failure() {
    let settings = StoreOptions::new().lock_timeout(Duration::ZERO);
    let bank = Bank::with_store(settings, InboxOptions::new().backoff(MS, MS));
    let guard = thread::scope(|scope| {
        let other = scope.spawn(|| bank.store.lock("other").unwrap());
        other.join().unwrap()
    });
    let outcome = bank.process(&("evt-1", ()), credit);
    let Outcome::Retry { error, .. } = outcome else {
        panic!("{outcome:?}");
    };
    assert!(error.contains("of other from"), "{error}");
    drop(guard);
    bank.clock.advance(MS);
    assert!(done(&bank.process(&("evt-1", ()), credit)));
    assert_eq!(&*bank.inbox.stats().reasons[0].reason, "lock");
}

#[test]
fn inbox_03_a_thread_that_holds_the_lock_is_refused_without_an_attempt() {
    let bank = Bank::new(InboxOptions::new().attempts(1));
    let guard = bank.store.lock("test").unwrap();
    let refused = bank.inbox.process(&("evt-1", ()), credit).unwrap_err();
    assert!(matches!(refused, LockError::Reentrant { .. }));
    assert_eq!(bank.inbox.event("evt-1"), None);
    drop(guard);
    assert!(done(&bank.process(&("evt-1", ()), credit)));
}

#[test]
fn inbox_03_a_handler_that_uses_its_inbox_is_refused_without_a_deadlock() {
    let bank = Bank::new(InboxOptions::new());
    let outcome = bank.process(&("evt-1", ()), |_, _| {
        bank.inbox.process(&("evt-2", ()), credit)?;
        Ok(())
    });
    assert!(matches!(outcome, Outcome::Retry { .. }), "{outcome:?}");
    assert_eq!(bank.inbox.event("evt-2"), None);
}

#[test]
fn inbox_03_a_dead_event_that_is_revived_has_all_its_attempts_again() {
    let bank = Bank::new(InboxOptions::new().attempts(2).backoff(MS, MS));
    let message = ("evt-1", at(1), ());
    let dead = bank.process(&message, |_, _| {
        Err(HandlerError::poison("unknown currency"))
    });
    assert!(matches!(dead, Outcome::Dead(_)));
    assert!(bank.inbox.revive("evt-1"));
    assert!(!bank.inbox.revive("evt-1"), "it is alive");
    assert!(!bank.inbox.revive("evt-2"), "it never was");
    // Newer records are forgotten, so without its record it would count as too old.
    bank.process(&("evt-9", at(9), ()), credit);
    assert_eq!(bank.inbox.prune(at(10)), 1);
    assert!(matches!(
        bank.process(&message, |_, _| failing("again")),
        Outcome::Retry { .. }
    ));
    bank.clock.advance(MS);
    assert!(done(&bank.process(&message, credit)));
    assert_eq!(bank.ledger(), ["evt-9", "evt-1"]);
    assert!(!bank.inbox.revive("evt-1"), "what is done stays done");
}

#[test]
fn inbox_03_dead_letters_are_listed_in_order_of_failure() {
    let bank = Bank::new(InboxOptions::new());
    let events: Vec<String> = (0..100).map(|event| event.to_string()).collect();
    for event in &events {
        bank.process(&(event, ()), |_, _| Err(HandlerError::poison("bad")));
    }
    let listed = bank.inbox.dead_letters();
    assert!(listed.iter().map(|letter| &*letter.event_id).eq(&events));
}

#[test]
fn inbox_03_limits_of_zero_still_allow_one_attempt() {
    let options = InboxOptions::new()
        .attempts(0)
        .backoff(Duration::MAX, Duration::ZERO);
    let inbox = Inbox::with_options(&DataStore::new(), "", options.claim_time(Duration::ZERO));
    let outcome = inbox
        .process(&("evt-1", ()), |_, _| failing("no network"))
        .unwrap();
    assert!(matches!(outcome, Outcome::Dead(letter) if letter.attempts == 1));
    assert!(done(&inbox.process(&("evt-2", ()), |_, _| Ok(())).unwrap()));
}

/// A worker waited forever for a retry with a deadline beyond the range of its clock.
#[test]
fn inbox_03_a_retry_beyond_the_end_of_the_clock_is_due_at_its_end() {
    let bank = Bank::new(InboxOptions::new().attempts(3).backoff(CLAIM, CLAIM));
    bank.clock.advance(Duration::MAX);
    let (sender, messages) = crossbeam_channel::unbounded();
    sender.send(("evt-1", ())).unwrap();
    drop(sender);
    let inbox = bank.inbox.clone();
    let (done, over) = std::sync::mpsc::channel();
    thread::spawn(move || {
        let mut attempts = 0;
        let outcome = inbox.run(&messages, |_, _: &(&str, ())| {
            attempts += 1;
            failing("no network")
        });
        done.send((outcome.is_ok(), attempts)).unwrap();
    });
    let over = over.recv_timeout(crate::common::PATIENCE);
    assert_eq!(over.expect("the worker returns"), (true, 3));
    assert_eq!(
        bank.inbox.dead_letters()[0].cause,
        DeadLetterCause::Exhausted
    );
}
