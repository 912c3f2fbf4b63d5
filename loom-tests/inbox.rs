//! Races for the claim on an event.

use std::time::Duration;

use crate::model::{Actor, Model, Run};
use doclock::{
    CommitError, DataStore, Draft, StoreOptions,
    document::NodeSpec,
    inbox::{EventState, HandlerResult, Inbox, InboxOptions, Outcome},
    time::ManualClock,
};

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

/// An effect whose repetition would be noticed.
fn effect(transaction: &mut Draft, _: &Message) -> HandlerResult {
    transaction.create(NodeSpec::new("effect"))?;
    Ok(())
}

fn effects(inbox: &Inbox) -> usize {
    inbox.store().snapshot().len()
}

fn is_marked(inbox: &Inbox) -> bool {
    matches!(inbox.event(EVENT.0), Some(EventState::Done { .. }))
}

/// An actor that works on the event, and returns the outcome.
fn worker(run: &Run, inbox: &Inbox) -> Actor<Outcome> {
    let inbox = inbox.clone();
    run.spawn("worker", move || inbox.process(&EVENT, effect).unwrap())
}

/// Checks which worker is first, and whether a reader saw an effect without its mark.
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
    let model = Model::new("claim against claim", None)
        .reaches_by("worker", "duplicate")
        .reaches_by("worker", "taken");
    model.check(|run| {
        let (inbox, _clock) = inbox();
        let other = worker(run, &inbox);
        let mine = inbox.process(&EVENT, effect).unwrap();
        let ends: Vec<_> = [mine].into_iter().chain(other.join()).collect();
        one_effect(&inbox, &ends);
        for end in &ends {
            match end {
                Outcome::Done { .. } => {}
                Outcome::Duplicate => run.note("duplicate"),
                Outcome::Taken { .. } => run.note("taken"),
                other => panic!("{other:?}"),
            }
        }
    });
}

#[test]
fn inbox_claim_against_takeover() {
    let model = Model::new("claim against takeover", None)
        .reaches(["duplicate", "taken"])
        .reaches_by("mover", "taken over")
        .reaches_by("mover", "superseded");
    model.check(|run| {
        let (inbox, clock) = inbox();
        let workers = [worker(run, &inbox), worker(run, &inbox)];
        if run.has("mover") {
            // So that the time moves at any moment: loom does not see the clock.
            let _ = inbox.event(EVENT.0);
            // Every claim up to now is stale.
            clock.advance(CLAIM);
        }
        let ends: Vec<_> = workers.into_iter().filter_map(Actor::join).collect();
        one_effect(&inbox, &ends);
        if inbox.stats().taken_over > 0 {
            run.note("taken over");
        }
        for end in &ends {
            match end {
                Outcome::Done { .. } => {}
                Outcome::Superseded => run.note("superseded"),
                Outcome::Duplicate => run.note("duplicate"),
                Outcome::Taken { .. } => run.note("taken"),
                other => panic!("{other:?}"),
            }
        }
    });
}

#[test]
fn inbox_a_stale_claim_that_commits_against_its_takeover() {
    let model = Model::new("commit of a stale claim against its takeover", None)
        .reaches(["old"])
        .reaches_by("worker", "new");
    model.check(|run| {
        let (inbox, clock) = inbox();
        let old = inbox.claim(&EVENT).unwrap();
        clock.advance(CLAIM);
        let new = worker(run, &inbox);
        let mut transaction = inbox.store().begin("old").unwrap();
        effect(&mut transaction, &EVENT).unwrap();
        let old = old.commit(transaction);
        let new = new.join();
        assert_eq!((effects(&inbox), is_marked(&inbox)), (1, true));
        match (&old, &new) {
            (Ok(_), Some(Outcome::Duplicate) | None) => run.note("old"),
            // It took over, and requested the lock after the old one: the old one was refused.
            (Err(CommitError::Superseded { .. }), Some(Outcome::Done { .. })) => run.note("new"),
            other => panic!("{other:?}"),
        }
    });
}

#[test]
fn inbox_an_effect_is_seen_with_its_mark_or_not_at_all() {
    let model = Model::new("effect and mark against a look", None)
        .reaches(["before"])
        .reaches_by("worker", "after");
    model.check(|run| {
        let (inbox, _clock) = inbox();
        let worker = worker(run, &inbox);
        // Neither ever goes away again. So if the second look misses what the first has found, the
        // two were not published together.
        let effect = effects(&inbox);
        let marked = is_marked(&inbox);
        assert!(marked || effect == 0, "an effect without a mark");
        let marked = is_marked(&inbox);
        let effect = effects(&inbox);
        assert!(effect == 1 || !marked, "a mark without an effect");
        run.note(if marked { "after" } else { "before" });
        let end = worker.join();
        assert!(matches!(end, Some(Outcome::Done { .. }) | None));
    });
}

#[test]
fn inbox_a_failed_attempt_against_its_takeover() {
    let model = Model::new("failure against takeover", None)
        .reaches(["failed in time"])
        .reaches_by("worker", "failed too late");
    model.check(|run| {
        let (inbox, clock) = inbox();
        let old = inbox.claim(&EVENT).unwrap();
        clock.advance(CLAIM);
        let new = worker(run, &inbox);
        match old.fail(doclock::inbox::HandlerError::transient("no network")) {
            Outcome::Retry { .. } => run.note("failed in time"),
            Outcome::Superseded => run.note("failed too late"),
            other => panic!("{other:?}"),
        }
        match new.join() {
            None => assert_eq!((effects(&inbox), is_marked(&inbox)), (0, false)),
            Some(Outcome::Done { .. }) => {
                assert_eq!((effects(&inbox), is_marked(&inbox)), (1, true));
            }
            Some(other) => panic!("{other:?}"),
        }
    });
}
