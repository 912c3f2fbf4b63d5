//! Workers on a channel: they settle every event that they take, wait for nothing else, and can be
//! stopped.

use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, bounded, unbounded};
use doclock::{
    StoreOptions,
    inbox::{
        DeadLetterCause, EventState, Feed, HandlerError, InboxOptions, Interruption, Message,
        Outcome,
    },
    lock::CancelToken,
};

use crate::common::PATIENCE;
use crate::{Bank, CLAIM, MS, credit};

type Event = (&'static str, ());

/// A closed channel with these messages.
fn closed(events: &[&'static str]) -> Receiver<Event> {
    let (sender, receiver) = unbounded();
    events
        .iter()
        .for_each(|event| sender.send((*event, ())).unwrap());
    receiver
}

/// Returns once so many events wait.
fn until_waiting(bank: &Bank, count: usize) {
    while bank.inbox.stats().waiting != count {
        thread::yield_now();
    }
}

#[test]
fn inbox_01_a_worker_settles_each_delivery() {
    let bank = Bank::new(InboxOptions::new());
    let messages = closed(&["a", "b", "a", "c", "b", "a"]);
    bank.inbox.run(&messages, credit).unwrap();
    assert_eq!(bank.ledger(), ["a", "b", "c"]);
    let stats = bank.inbox.stats();
    assert_eq!((stats.received, stats.done, stats.duplicates), (6, 3, 3));
}

#[test]
fn inbox_03_a_retry_that_is_due_later_does_not_hold_up_others() {
    let bank = Bank::new(InboxOptions::new().backoff(10 * MS, 10 * MS));
    let (sender, messages) = unbounded();
    thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let mut attempts = 0;
            bank.inbox.run(&messages, |transaction, message: &Event| {
                attempts += usize::from(message.0 == "slow");
                if message.0 == "slow" && attempts < 3 {
                    return Err(HandlerError::transient("no network"));
                }
                credit(transaction, message)
            })
        });
        sender.send(("slow", ())).unwrap();
        until_waiting(&bank, 1);
        // The clock is stopped, so the slow one is not due.
        for event in ["a", "b"] {
            sender.send((event, ())).unwrap();
            while bank
                .inbox
                .event(event)
                .is_none_or(|state| !matches!(state, EventState::Done { .. }))
            {
                thread::yield_now();
            }
        }
        // After the channel closes, the worker finishes all waiting events before it returns.
        drop(sender);
        while !worker.is_finished() {
            if bank.inbox.stats().waiting == 1 {
                bank.clock.advance(10 * MS);
            }
            thread::yield_now();
        }
        worker.join().unwrap().unwrap();
    });
    assert_eq!(bank.ledger(), ["a", "b", "slow"]);
}

#[test]
fn inbox_03_an_immediate_retry_does_not_delay_other_messages() {
    let options = InboxOptions::new().backoff(Duration::ZERO, Duration::ZERO);
    let bank = Bank::new(options.attempts(u32::MAX));
    let messages = closed(&["early", "order", "other"]);
    // It comes before the event that it depends on.
    bank.inbox
        .run(&messages, |transaction, message| {
            let is_there = bank.inbox.event("order").is_some();
            match (message.0, is_there) {
                ("early", false) => Err(HandlerError::transient("there is no such order")),
                _ => credit(transaction, message),
            }
        })
        .unwrap();
    assert_eq!(bank.ledger(), ["order", "early", "other"]);
}

#[test]
fn inbox_03_dead_letters_are_sent_with_their_messages() {
    let bank = Bank::new(
        InboxOptions::new()
            .attempts(2)
            .backoff(Duration::ZERO, Duration::ZERO),
    );
    let (died, dead) = unbounded();
    let messages = closed(&["good", "poison", "weak", "", "poison"]);
    let feed = Feed::from(&messages).dead_letters(&died);
    let handle = |transaction: &mut doclock::Draft, message: &Event| match message.0 {
        "poison" => Err(HandlerError::poison("bad")),
        "weak" => Err(HandlerError::transient("no network")),
        _ => credit(transaction, message),
    };
    bank.inbox.run(feed, handle).unwrap();
    let mut found: Vec<_> = dead
        .try_iter()
        .map(|((event, ()), letter)| (event, letter.cause, letter.attempts))
        .collect();
    found.sort_unstable_by_key(|(event, ..)| *event);
    let expected = [
        ("", DeadLetterCause::Poison, 0),
        ("poison", DeadLetterCause::Poison, 1),
        ("weak", DeadLetterCause::Exhausted, 2),
    ];
    assert_eq!(found, expected);
    assert_eq!(bank.ledger(), ["good"]);

    // Without a receiver, the records stay.
    drop(dead);
    let messages = closed(&["poison"]);
    bank.inbox.revive("poison");
    bank.inbox
        .run(Feed::from(&messages).dead_letters(&died), handle)
        .unwrap();
    let letters = bank.inbox.dead_letters();
    let events: Vec<_> = letters.iter().map(|letter| &*letter.event_id).collect();
    assert_eq!(events, ["weak", "", "poison"]);
}

#[test]
fn inbox_04_the_message_of_a_worker_that_died_is_kept_and_taken_over() {
    let bank = Bank::new(InboxOptions::new());
    bank.die_with(&("evt-1", ()));
    let (taken, looks) = unbounded();
    thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let messages = closed(&["evt-1", "evt-2"]);
            let feed = Feed::from(&messages).on_outcome(move |_: &Event, outcome| {
                taken.send(outcome.clone()).unwrap();
            });
            bank.inbox.run(feed, credit)
        });
        let next = || looks.recv_timeout(PATIENCE).unwrap();
        assert_eq!(next(), Outcome::Taken { remaining: CLAIM });
        assert!(crate::done(&next()), "the other is not held up");
        bank.clock.advance(CLAIM - MS);
        assert_eq!(next(), Outcome::Taken { remaining: MS });
        bank.clock.advance(MS);
        assert!(crate::done(&next()));
        worker.join().unwrap().unwrap();
    });
    assert_eq!(bank.ledger(), ["evt-2", "evt-1"]);
    assert_eq!(bank.inbox.stats().taken_over, 1);
}

#[test]
fn inbox_05_several_workers_have_each_effect_once() {
    let options = InboxOptions::new().backoff(Duration::ZERO, Duration::ZERO);
    let bank = Bank::new(options.attempts(u32::MAX));
    let (sender, receiver) = unbounded();
    for round in 0..4 {
        for event in 0..500 {
            let event = (event * 7 + round) % 500;
            sender.send((event.to_string(), ())).unwrap();
        }
    }
    drop(sender);
    let attempts = std::sync::Mutex::new(HashMap::new());
    thread::scope(|scope| {
        for worker in 0..4 {
            let (receiver, attempts, bank) = (&receiver, &attempts, &bank);
            scope.spawn(move || {
                let feed = Feed::from(receiver).worker(format!("worker {worker}"));
                bank.inbox
                    .run(feed, |transaction, message: &(String, ())| {
                        let nth = {
                            let mut attempts = attempts.lock().unwrap();
                            let nth: &mut u32 = attempts.entry(message.0.clone()).or_default();
                            *nth += 1;
                            *nth
                        };
                        credit(transaction, message)?;
                        match (message.0.len(), nth) {
                            (1, 1) => Err(HandlerError::transient("no network")),
                            (2, 1) => panic!("bad luck"),
                            _ => Ok(()),
                        }
                    })
                    .unwrap();
            });
        }
    });
    let mut ledger = bank.ledger();
    ledger.sort_unstable();
    ledger.dedup();
    assert_eq!((ledger.len(), bank.ledger().len()), (500, 500));
    let stats = bank.inbox.stats();
    assert_eq!(
        (stats.received, stats.done, stats.duplicates),
        (2_000, 500, 1_500)
    );
    assert_eq!(
        (stats.transient, stats.panics, stats.retried),
        (100, 90, 100)
    );
    assert_eq!((stats.in_flight, stats.waiting, stats.dead), (0, 0, 0));
}

#[test]
fn a_cancelled_worker_returns_its_unsettled_messages() {
    let bank = Bank::new(InboxOptions::new().backoff(MS, MS));
    let (sender, messages) = unbounded();
    let token = CancelToken::new();
    thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let feed = Feed::from(&messages).cancel_token(&token);
            bank.inbox.run(feed, |_, _: &Event| {
                Err(HandlerError::transient("no network"))
            })
        });
        for event in ["a", "b"] {
            sender.send((event, ())).unwrap();
        }
        until_waiting(&bank, 2);
        token.cancel();
        let interrupted = worker.join().unwrap().unwrap_err();
        assert_eq!(interrupted.messages, [("a", ()), ("b", ())]);
        assert_eq!(interrupted.cause, Interruption::Cancelled);
        assert_eq!(
            interrupted.to_string(),
            "the worker stopped with 2 unfinished messages: its token was cancelled"
        );
    });
    sender.send(("c", ())).unwrap();
    let feed = Feed::from(&messages).cancel_token(&token);
    bank.inbox.run(feed, credit).unwrap_err();
    assert_eq!(messages.len(), 1, "what was not taken stays in the channel");
}

#[test]
fn a_worker_is_cancelled_also_while_it_waits_for_the_lock_and_no_attempt_counts() {
    let settings = StoreOptions::new().lock_timeout(None);
    let bank = Bank::with_store(settings, InboxOptions::new().attempts(1));
    let guard = bank.store.lock("test").unwrap();
    let token = CancelToken::new();
    thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let messages = closed(&["a"]);
            let feed = Feed::from(&messages).cancel_token(&token);
            bank.inbox.run(feed, credit)
        });
        while bank.store.queue_length() == 0 {
            thread::yield_now();
        }
        let [entry] = &bank.store.queue_info()[..] else {
            panic!("one waits");
        };
        assert_eq!(entry.label.as_deref(), Some("a"), "the event is visible");
        token.cancel();
        let interrupted = worker.join().unwrap().unwrap_err();
        assert_eq!(interrupted.messages, [("a", ())]);
        assert_eq!(interrupted.cause, Interruption::Cancelled);
    });
    drop(guard);
    assert_eq!(bank.inbox.event("a"), None);
    assert!(crate::done(&bank.process(&("a", ()), credit)));
}

#[test]
fn a_worker_in_a_thread_that_holds_the_lock_returns_its_message() {
    let bank = Bank::new(InboxOptions::new());
    let messages = closed(&["a", "b"]);
    let guard = bank.store.lock("test").unwrap();
    let interrupted = bank.inbox.run(&messages, credit).unwrap_err();
    assert_eq!(interrupted.messages, [("a", ())]);
    assert!(matches!(interrupted.cause, Interruption::Lock(_)));
    drop(guard);
    bank.inbox.run(&messages, credit).unwrap();
    assert_eq!(bank.ledger(), ["b"]);
}

#[test]
fn a_worker_at_its_waiting_bound_receives_no_more_messages() {
    let options = InboxOptions::new().backoff(MS, MS).waiting_bound(2);
    let bank = Bank::new(options);
    let (sender, messages) = bounded(8);
    let token = CancelToken::new();
    let healthy = AtomicUsize::new(0);
    thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let feed = Feed::from(&messages).cancel_token(&token);
            bank.inbox.run(feed, |transaction, message: &Event| {
                match healthy.load(Ordering::Relaxed) {
                    0 => Err(HandlerError::transient("no network")),
                    _ => credit(transaction, message),
                }
            })
        });
        for event in ["a", "b", "c"] {
            sender.send((event, ())).unwrap();
        }
        until_waiting(&bank, 2);
        assert_eq!(messages.len(), 1);
        healthy.store(1, Ordering::Relaxed);
        drop(sender);
        bank.clock.advance(MS);
        worker.join().unwrap().unwrap();
    });
    let mut ledger = bank.ledger();
    ledger.sort_unstable();
    assert_eq!(ledger, ["a", "b", "c"]);
}

#[test]
fn sleeping_workers_wake_up_for_new_messages() {
    let bank = Bank::new(InboxOptions::new());
    let (sender, messages) = unbounded();
    let (done, outcomes) = unbounded();
    let start = Barrier::new(2);
    thread::scope(|scope| {
        scope.spawn(|| {
            start.wait();
            let feed = Feed::from(&messages).on_outcome(|_: &Event, _| done.send(()).unwrap());
            bank.inbox.run(feed, credit).unwrap();
        });
        start.wait();
        for event in ["a", "b", "c"] {
            sender.send((event, ())).unwrap();
            outcomes.recv_timeout(PATIENCE).unwrap();
        }
        drop(sender);
    });
    assert_eq!(bank.ledger(), ["a", "b", "c"]);
}

/// Once the messages that waited for a retry were lost.
#[test]
fn a_worker_settles_what_it_has_taken_before_a_panic_of_its_callback_resumes() {
    let bank = Bank::new(InboxOptions::new().backoff(MS, MS));
    let messages = closed(&["a", "b", "c", "d"]);
    let (mut failed, mut outcomes) = (HashSet::new(), 0);
    let feed = Feed::from(&messages).on_outcome(|_, _| {
        outcomes += 1;
        if outcomes == 3 {
            bank.clock.advance(10 * MS);
            panic!("no broker");
        }
    });
    let handler = |transaction: &mut _, message: &Event| match failed.insert(message.0) {
        true => Err(HandlerError::transient("no network")),
        false => credit(transaction, message),
    };
    let run = catch_unwind(AssertUnwindSafe(|| bank.inbox.run(feed, handler)));
    assert_eq!(run.unwrap_err().downcast_ref(), Some(&"no broker"));
    assert_eq!(bank.ledger(), ["a", "b", "c"]);
    assert_eq!(outcomes, 6);
    assert_eq!(messages.len(), 1, "the worker takes no further message");
}

#[test]
fn a_worker_that_is_stopped_after_a_panic_of_its_callback_returns_its_messages() {
    let bank = Bank::new(InboxOptions::new().backoff(MS, MS));
    let messages = closed(&["a", "b", "c"]);
    let token = CancelToken::new();
    let feed = Feed::from(&messages).cancel_token(&token);
    let feed = feed.on_outcome(|(event, ()), _| {
        if *event == "b" {
            token.cancel();
            panic!("no broker");
        }
    });
    let run = bank.inbox.run(feed, |_, _: &Event| {
        Err(HandlerError::transient("no network"))
    });
    let interrupted = run.unwrap_err();
    assert_eq!(interrupted.messages, [("a", ()), ("b", ())]);
    assert_eq!(interrupted.cause, Interruption::Cancelled);
}

#[test]
fn a_panic_of_the_outcome_callback_loses_no_dead_letter() {
    let bank = Bank::new(InboxOptions::new());
    let messages = closed(&["a"]);
    let (died, dead) = unbounded();
    let feed = Feed::from(&messages).dead_letters(&died);
    let feed = feed.on_outcome(|_, _| panic!("no broker"));
    let poison = |_: &mut _, _: &Event| Err(HandlerError::poison("unknown currency"));
    let run = catch_unwind(AssertUnwindSafe(|| bank.inbox.run(feed, poison)));
    assert_eq!(run.unwrap_err().downcast_ref(), Some(&"no broker"));
    let letter = dead.try_recv().unwrap();
    assert_eq!(
        (letter.0, letter.1.cause),
        (("a", ()), DeadLetterCause::Poison)
    );
}

/// A message whose code panics if it is the odd one.
struct Odd(&'static str);

impl Message for Odd {
    fn event_id(&self) -> &str {
        assert_ne!(self.0, "odd", "no id");
        self.0
    }
}

#[test]
fn a_message_whose_code_panics_costs_no_other_message() {
    let none = Duration::ZERO;
    let bank = Bank::new(InboxOptions::new().backoff(none, none));
    let (sender, messages) = unbounded();
    for event in ["a", "odd", "b"] {
        sender.send(Odd(event)).unwrap();
    }
    let mut attempts = 0;
    let handler = |transaction: &mut _, message: &Odd| {
        attempts += 1;
        match attempts {
            // A retry and a new message take turns.
            1 | 2 => Err(HandlerError::transient("no network")),
            _ => credit(transaction, message),
        }
    };
    let run = catch_unwind(AssertUnwindSafe(|| bank.inbox.run(&messages, handler)));
    assert!(run.is_err());
    assert_eq!(bank.ledger(), ["a"]);
    assert_eq!(messages.len(), 1);
}
