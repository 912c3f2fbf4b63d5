//! Metrics (INBOX 6).

use std::time::Duration;

use crossbeam_channel::unbounded;
use doclock::{
    CommitError,
    inbox::{HandlerError, InboxOptions, Outcome},
};

use crate::{Bank, CLAIM, MS, at, credit};

#[test]
fn inbox_06_counters_record_each_outcome_and_its_reason() {
    let bank = Bank::new(InboxOptions::new().attempts(2).backoff(MS, MS));
    let process = |event: &str, verdict: fn() -> doclock::inbox::HandlerResult| {
        let outcome = bank.process(&(event, at(1), ()), |_, _| {
            bank.clock.advance(2 * MS);
            verdict()
        });
        bank.clock.advance(MS);
        outcome
    };
    let weak = || Err(HandlerError::transient("no network"));
    process("good", || Ok(()));
    process("good", || Ok(()));
    process("poison", || Err(HandlerError::poison("bad")));
    process("poison", || Ok(()));
    process("weak", weak);
    process("weak", weak);
    process("crash", || panic!("bad luck"));
    process("crash", || Ok(()));
    let stale = bank.inbox.claim(&("stale", at(5), ())).unwrap();
    bank.process(&("stale", at(5), ()), credit);
    bank.clock.advance(CLAIM);
    bank.process(&("stale", at(5), ()), credit);
    assert!(matches!(
        bank.finish(stale),
        Err(CommitError::Superseded { .. })
    ));
    assert_eq!(bank.inbox.prune(at(2)), 4);
    assert_eq!(process("good", || Ok(())), Outcome::TooOld);
    let _held = bank.inbox.claim(&("held", at(9), ())).unwrap();
    bank.process(&("waiting", at(9), ()), |_, _| weak());

    let stats = bank.inbox.stats();
    assert_eq!((stats.received, stats.done, stats.duplicates), (14, 3, 2));
    assert_eq!((stats.too_old, stats.taken), (1, 1));
    assert_eq!((stats.transient, stats.panics, stats.retried), (4, 1, 3));
    assert_eq!((stats.poison, stats.exhausted), (1, 1));
    assert_eq!((stats.taken_over, stats.superseded), (1, 1));
    assert_eq!((stats.in_flight, stats.waiting, stats.dead), (1, 1, 0));
    assert_eq!(stats.remembered, 1);
    let reasons: Vec<_> = stats
        .reasons
        .iter()
        .map(|count| (&*count.reason, count.failed, count.dead))
        .collect();
    let expected = [("bad", 1, 1), ("no network", 3, 1), ("panic", 1, 0)];
    assert_eq!(reasons, expected);
    assert_eq!((stats.latency.count, stats.latency.max), (3, 2 * MS));
}

#[test]
fn inbox_06_each_delivery_of_a_channel_is_counted_once() {
    let bank = Bank::new(
        InboxOptions::new()
            .attempts(2)
            .backoff(Duration::ZERO, Duration::ZERO),
    );
    let (sender, messages) = unbounded();
    for nth in 0..300_u64 {
        sender
            .send((format!("{}", nth % 90), at(nth % 90), nth % 90))
            .unwrap();
    }
    drop(sender);
    bank.inbox
        .run(&messages, |_, (_, _, nth)| match nth % 9 {
            0 => Err(HandlerError::poison("bad")),
            1 => Err(HandlerError::transient("no network")),
            _ => Ok(()),
        })
        .unwrap();
    let stats = bank.inbox.stats();
    assert_eq!((stats.done, stats.poison, stats.exhausted), (70, 10, 10));
    assert_eq!(
        (stats.received, stats.duplicates, stats.retried),
        (300, 210, 10)
    );
}

#[test]
fn inbox_06_the_number_of_failure_reasons_is_bounded() {
    let bank = Bank::new(InboxOptions::new());
    for nth in 0..100 {
        bank.process(&(nth.to_string(), ()), |_, _| {
            Err(HandlerError::poison(nth))
        });
    }
    let reasons = bank.inbox.stats().reasons;
    assert_eq!(reasons.len(), 33);
    let last = reasons.last().unwrap();
    assert_eq!((&*last.reason, last.failed, last.dead), ("others", 68, 68));
}

#[test]
fn inbox_06_metrics_print_as_a_table_and_as_json() {
    let bank = Bank::new(InboxOptions::new());
    bank.process(&("evt-1", ()), |transaction, message| {
        bank.clock.advance(5 * MS);
        credit(transaction, message)
    });
    bank.process(&("evt-2", at(86_400), ()), |_, _| {
        Err(HandlerError::poison("bad"))
    });
    let stats = bank.inbox.stats();
    let table = stats.to_string();
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(
        lines[0].split_whitespace().collect::<Vec<_>>(),
        ["received", "2"]
    );
    assert_eq!(
        lines[16],
        "latency       mean 5.0ms, p50 5.0ms, p99 5.0ms, max 5.0ms"
    );
    assert_eq!(lines[17], "failed 1, dead 1: bad");
    let json = serde_json::to_value(&stats).unwrap();
    assert_eq!(json["tooOld"], 0);
    assert_eq!(json["latency"]["max"], 5.0);
    assert_eq!(json["reasons"][0]["reason"], "bad");
    let json = serde_json::to_value(bank.inbox.dead_letters()).unwrap();
    assert_eq!(json[0]["eventId"], "evt-2");
    assert_eq!(json[0]["cause"], "poison");
}

#[test]
fn inboxes_go_to_other_threads_and_errors_are_values() {
    fn shared<T: Send + Sync + Clone>(_: &T) {}
    fn sent<T: Send>(_: &T) {}
    let bank = Bank::new(InboxOptions::new());
    shared(&bank.inbox);
    sent(&bank.inbox.claim(&("evt-1", ())).unwrap());
    let (_sender, messages) = unbounded::<(&str, ())>();
    let token = doclock::lock::CancelToken::new();
    token.cancel();
    let feed = doclock::inbox::Feed::from(&messages).cancel_token(&token);
    let error = bank.inbox.run(feed, credit).unwrap_err();
    let error: Box<dyn std::error::Error + Send + Sync> = error.into();
    assert_eq!(
        error.to_string(),
        "the worker stopped with 0 unfinished messages: its token was cancelled"
    );
}
