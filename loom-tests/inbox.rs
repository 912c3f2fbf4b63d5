//! Races for the claim on an event.

use std::time::Duration;

use doclock::{
    CommitError, DataStore, EventState, Handled, Inbox, InboxOptions, ManualClock, NodeSpec,
    Outcome, StoreOptions, Transaction, View,
};
use loom::thread;

use crate::model::check_all;

type Message = (&'static str, ());

const EVENT: Message = ("evt", ());
const CLAIM: Duration = Duration::from_secs(1);

fn inbox() -> (Inbox, ManualClock) {
    let clock = ManualClock::new();
    let settings = StoreOptions::new().lock_timeout(None).clock(clock.clock());
    let store = DataStore::with_options(settings);
    let options = InboxOptions::new()
        .claim_time(CLAIM)
        .backoff(Duration::ZERO, Duration::ZERO);
    (Inbox::with_options(&store, "inbox", options), clock)
}

/// An effect that could not happen a second time unnoticed.
fn effect(transaction: &mut Transaction, _: &Message) -> Handled {
    transaction.create(NodeSpec::new("effect"))?;
    Ok(())
}

fn effects(inbox: &Inbox) -> usize {
    inbox.store().snapshot().len()
}

fn is_marked(inbox: &Inbox) -> bool {
    matches!(inbox.event(EVENT.0), Some(EventState::Done { .. }))
}

/// Works on the event as a thread of its own, and tells whether it was the one.
fn worker(inbox: &Inbox) -> thread::JoinHandle<Outcome> {
    let inbox = inbox.clone();
    thread::spawn(move || inbox.process(&EVENT, effect).unwrap())
}

/// Who is first, and whether an effect without its mark was seen by somebody who only looks.
fn one_effect(inbox: &Inbox, outcomes: &[Outcome]) {
    assert_eq!((effects(inbox), is_marked(inbox)), (1, true));
    let done = |outcome: &&Outcome| matches!(outcome, Outcome::Done { .. });
    assert_eq!(outcomes.iter().filter(done).count(), 1);
    let stats = inbox.stats();
    assert_eq!((stats.done, stats.in_flight, stats.waiting), (1, 0, 0));
    assert_eq!(inbox.store().version(), 1);
}

#[test]
fn inbox_claim_against_claim() {
    let outcomes = ["duplicate", "taken"];
    check_all("claim against claim", None, outcomes, |seen| {
        let (inbox, _clock) = inbox();
        let other = worker(&inbox);
        let mine = inbox.process(&EVENT, effect).unwrap();
        let ends = [mine, other.join().unwrap()];
        one_effect(&inbox, &ends);
        for end in &ends {
            match end {
                Outcome::Done { .. } => {}
                Outcome::Duplicate => seen.note("duplicate"),
                Outcome::Taken { .. } => seen.note("taken"),
                other => panic!("{other:?}"),
            }
        }
    });
}

#[test]
fn inbox_claim_against_takeover() {
    let outcomes = ["taken over", "superseded", "duplicate", "taken"];
    check_all("claim against takeover", None, outcomes, |seen| {
        let (inbox, clock) = inbox();
        let workers = [worker(&inbox), worker(&inbox)];
        // So that the time moves at any moment: loom does not see the clock.
        let _ = inbox.event(EVENT.0);
        // Whatever is claimed by now is stale.
        clock.advance(CLAIM);
        let ends = workers.map(|worker| worker.join().unwrap());
        one_effect(&inbox, &ends);
        if inbox.stats().taken_over > 0 {
            seen.note("taken over");
        }
        for end in &ends {
            match end {
                Outcome::Done { .. } => {}
                Outcome::Superseded => seen.note("superseded"),
                Outcome::Duplicate => seen.note("duplicate"),
                Outcome::Taken { .. } => seen.note("taken"),
                other => panic!("{other:?}"),
            }
        }
    });
}

#[test]
fn inbox_a_stale_claim_that_commits_against_its_takeover() {
    let outcomes = ["old", "new"];
    check_all(
        "commit of a stale claim against its takeover",
        None,
        outcomes,
        |seen| {
            let (inbox, clock) = inbox();
            let old = inbox.claim(&EVENT).unwrap();
            clock.advance(CLAIM);
            let new = worker(&inbox);
            let mut transaction = inbox.store().begin("old").unwrap();
            effect(&mut transaction, &EVENT).unwrap();
            let old = old.commit(transaction);
            let new = new.join().unwrap();
            assert_eq!((effects(&inbox), is_marked(&inbox)), (1, true));
            match (&old, &new) {
                (Ok(_), Outcome::Duplicate) => seen.note("old"),
                // It took over, and came for the lock after the old one: the old one was refused.
                (Err(CommitError::Superseded { .. }), Outcome::Done { .. }) => seen.note("new"),
                other => panic!("{other:?}"),
            }
        },
    );
}

#[test]
fn inbox_an_effect_is_seen_with_its_mark_or_not_at_all() {
    let outcomes = ["before", "after"];
    check_all("effect and mark against a look", None, outcomes, |seen| {
        let (inbox, _clock) = inbox();
        let worker = worker(&inbox);
        // Neither ever goes away again. So if the second look misses what the first has found, they did not come together.
        let effect = effects(&inbox);
        let marked = is_marked(&inbox);
        assert!(marked || effect == 0, "an effect without a mark");
        let marked = is_marked(&inbox);
        let effect = effects(&inbox);
        assert!(effect == 1 || !marked, "a mark without an effect");
        seen.note(if marked { "after" } else { "before" });
        assert!(matches!(worker.join().unwrap(), Outcome::Done { .. }));
    });
}

#[test]
fn inbox_a_failed_attempt_against_its_takeover() {
    let outcomes = ["failed in time", "failed too late"];
    check_all("failure against takeover", None, outcomes, |seen| {
        let (inbox, clock) = inbox();
        let old = inbox.claim(&EVENT).unwrap();
        clock.advance(CLAIM);
        let new = worker(&inbox);
        match old.fail(doclock::Failure::transient("no network")) {
            Outcome::Retry { .. } => seen.note("failed in time"),
            Outcome::Superseded => seen.note("failed too late"),
            other => panic!("{other:?}"),
        }
        match new.join().unwrap() {
            Outcome::Done { .. } => assert_eq!((effects(&inbox), is_marked(&inbox)), (1, true)),
            other => panic!("{other:?}"),
        }
    });
}
