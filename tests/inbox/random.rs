//! Random deliveries, failures, crashes, takeovers, prunes and removals against a plain reference.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use doclock::inbox::{Claim, EventState, HandlerError, InboxOptions, Message, Outcome};
use proptest::prelude::*;

use crate::common::cases;
use crate::{Bank, CLAIM, MS, at, credit};

const EVENTS: u64 = 9;
/// Messages from this number on have no time.
const UNTIMED: u64 = 6;
const ATTEMPTS: u32 = 3;
const BACKOFF: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug)]
enum Step {
    Deliver(u64, Handler),
    /// Claims an event and keeps the claim.
    Claim(u64),
    /// Ends one of the kept claims.
    End(usize, Ending),
    Advance(u64),
    Prune(u64),
    PruneUntimed(u64),
    Revive(u64),
    Forget(u64),
    Remove,
}

#[derive(Clone, Copy, Debug)]
enum Handler {
    Done,
    Transient,
    Panic,
    Poison,
}

#[derive(Clone, Copy, Debug)]
enum Ending {
    Commit,
    Fail,
    Poison,
    Drop,
    /// The worker dies.
    Die,
}

fn step() -> impl Strategy<Value = Step> {
    let handler = prop_oneof![
        3 => Just(Handler::Done),
        2 => Just(Handler::Transient),
        1 => Just(Handler::Panic),
        1 => Just(Handler::Poison),
    ];
    let ending = prop_oneof![
        3 => Just(Ending::Commit),
        1 => Just(Ending::Fail),
        1 => Just(Ending::Poison),
        1 => Just(Ending::Drop),
        1 => Just(Ending::Die),
    ];
    prop_oneof![
        6 => (0..EVENTS, handler).prop_map(|(event, handler)| Step::Deliver(event, handler)),
        3 => (0..EVENTS).prop_map(Step::Claim),
        3 => (0..4_usize, ending).prop_map(|(nth, ending)| Step::End(nth, ending)),
        3 => (1..20_u64).prop_map(Step::Advance),
        1 => (0..=UNTIMED).prop_map(Step::Prune),
        1 => (0..60_u64).prop_map(Step::PruneUntimed),
        1 => (0..EVENTS).prop_map(Step::Revive),
        1 => (0..EVENTS).prop_map(Step::Forget),
        1 => Just(Step::Remove),
    ]
}

/// The state of an event in the reference.
#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Claimed { number: u64, until: Duration },
    Waiting { until: Duration },
    Done { at: Duration },
    Dead { at: Duration },
}

/// A message with or without a time.
struct Sent(String, Option<SystemTime>);

impl Sent {
    fn new(event: u64) -> Self {
        Self(event.to_string(), (event < UNTIMED).then(|| at(event)))
    }
}

impl Message for Sent {
    fn event_id(&self) -> &str {
        &self.0
    }

    fn sent_at(&self) -> Option<SystemTime> {
        self.1
    }
}

#[derive(Default)]
struct Reference {
    now: Duration,
    events: BTreeMap<u64, (State, u32)>,
    claims: u64,
    watermark: Option<u64>,
    ledger: Vec<String>,
    /// Completed and forgotten events.
    repeatable: Vec<u64>,
}

impl Reference {
    /// The number of the claim, or the outcome if there is none.
    fn claim(&mut self, event: u64) -> Result<u64, Outcome> {
        let attempts = match self.events.get(&event) {
            None if event < UNTIMED && self.watermark.is_some_and(|mark| event <= mark) => {
                return Err(Outcome::TooOld);
            }
            None => 0,
            Some((State::Done { .. }, _)) => return Err(Outcome::Duplicate),
            Some((State::Dead { .. }, _)) => return Err(Outcome::AlreadyDead),
            Some((State::Claimed { until, .. } | State::Waiting { until }, _))
                if *until > self.now =>
            {
                let remaining = *until - self.now;
                return Err(Outcome::Taken { remaining });
            }
            Some((_, attempts)) => *attempts,
        };
        if attempts >= ATTEMPTS {
            let at = self.now;
            self.events.insert(event, (State::Dead { at }, attempts));
            // Any letter is fine.
            return Err(Outcome::Superseded);
        }
        self.claims += 1;
        let (number, until) = (self.claims, self.now + CLAIM);
        self.events
            .insert(event, (State::Claimed { number, until }, attempts + 1));
        Ok(number)
    }

    /// Ends a claim; false if it is no longer valid.
    fn end(&mut self, event: u64, claim: u64, state: State) -> bool {
        let Some((found, _)) = self.events.get_mut(&event) else {
            return false;
        };
        let holds = matches!(found, State::Claimed { number, .. } if *number == claim);
        if holds {
            *found = state;
        }
        if holds && matches!(state, State::Done { .. }) {
            self.ledger.push(event.to_string());
        }
        holds
    }

    fn failed(&mut self, event: u64, claim: u64) -> bool {
        let attempts = self.events.get(&event).map_or(0, |(_, attempts)| *attempts);
        let until = self.now + BACKOFF * 2_u32.pow(attempts.saturating_sub(1));
        let state = match attempts >= ATTEMPTS {
            true => self.dead(),
            false => State::Waiting { until },
        };
        self.end(event, claim, state)
    }

    fn prune(&mut self, before: u64) -> usize {
        let gone: Vec<u64> = self
            .events
            .iter()
            .filter(|(event, (state, _))| {
                let is_timed = **event < before.min(UNTIMED);
                is_timed && matches!(state, State::Done { .. } | State::Dead { .. })
            })
            .map(|(event, _)| *event)
            .collect();
        self.watermark = self.watermark.max(gone.iter().copied().max());
        self.events.retain(|event, _| !gone.contains(event));
        gone.len()
    }

    fn prune_untimed(&mut self, settled_for: Duration) -> usize {
        let before = self.events.len();
        let now = self.now;
        let repeatable = &mut self.repeatable;
        self.events.retain(|event, (state, _)| {
            let (State::Done { at } | State::Dead { at }) = *state else {
                return true;
            };
            let is_gone = *event >= UNTIMED && now - at >= settled_for;
            if is_gone && matches!(state, State::Done { .. }) {
                repeatable.push(*event);
            }
            !is_gone
        });
        before - self.events.len()
    }

    /// Removes all records, unless a claim is valid. Returns the number of valid claims.
    fn remove(&mut self) -> usize {
        let holds =
            |state: &State| matches!(state, State::Claimed { until, .. } if *until > self.now);
        let held = self
            .events
            .values()
            .filter(|(state, _)| holds(state))
            .count();
        if held == 0 {
            self.repeatable.extend(0..EVENTS);
            self.events.clear();
            self.watermark = None;
        }
        held
    }

    fn is_dead(&self, event: u64) -> bool {
        matches!(self.events.get(&event), Some((State::Dead { .. }, _)))
    }

    fn done(&self) -> State {
        State::Done { at: self.now }
    }

    fn dead(&self) -> State {
        State::Dead { at: self.now }
    }
}

/// The common part of a state.
fn kind(state: Option<EventState>) -> Option<(&'static str, u32)> {
    Some(match state? {
        EventState::Claimed { attempt, .. } => ("claimed", attempt),
        EventState::Waiting { attempts, .. } => ("waiting", attempts),
        EventState::Done { attempts, .. } => ("done", attempts),
        EventState::Dead(letter) => ("dead", letter.attempts),
        other => panic!("{other:?}"),
    })
}

fn compare(bank: &Bank, reference: &Reference) {
    assert_eq!(bank.ledger(), reference.ledger);
    for event in 0..EVENTS {
        let expected = reference.events.get(&event).map(|(state, attempts)| {
            let state = match state {
                State::Claimed { .. } => "claimed",
                State::Waiting { .. } => "waiting",
                State::Done { .. } => "done",
                State::Dead { .. } => "dead",
            };
            (state, *attempts)
        });
        assert_eq!(kind(bank.inbox.event(&event.to_string())), expected);
    }
}

fn deliver(bank: &Bank, reference: &mut Reference, event: u64, handler: Handler) {
    let (done, dead) = (reference.done(), reference.dead());
    let message = Sent::new(event);
    let outcome = bank.process(&message, |transaction, message| {
        credit(transaction, message)?;
        match handler {
            Handler::Done => Ok(()),
            Handler::Transient => Err(HandlerError::transient("no network")),
            Handler::Panic => panic!("bad luck"),
            Handler::Poison => Err(HandlerError::poison("bad")),
        }
    });
    match (reference.claim(event), handler) {
        (Err(Outcome::Superseded), _) => assert!(matches!(outcome, Outcome::Dead(_))),
        (Err(expected), _) => assert_eq!(outcome, expected),
        (Ok(claim), Handler::Done) => {
            assert!(reference.end(event, claim, done));
            assert!(crate::done(&outcome));
        }
        (Ok(claim), Handler::Transient | Handler::Panic) => {
            assert!(reference.failed(event, claim));
            assert!(matches!(outcome, Outcome::Retry { .. } | Outcome::Dead(_)));
        }
        (Ok(claim), Handler::Poison) => {
            assert!(reference.end(event, claim, dead));
            assert!(matches!(outcome, Outcome::Dead(_)));
        }
    }
}

fn end(bank: &Bank, reference: &mut Reference, (event, number, claim): Kept, ending: Ending) {
    match ending {
        Ending::Commit => {
            let holds = reference.end(event, number, reference.done());
            assert_eq!(bank.finish(claim).is_ok(), holds);
        }
        Ending::Fail => {
            let holds = reference.failed(event, number);
            let outcome = claim.fail(HandlerError::transient("no network"));
            assert_eq!(outcome != Outcome::Superseded, holds);
        }
        Ending::Poison => {
            let holds = reference.end(event, number, reference.dead());
            let outcome = claim.fail(HandlerError::poison("bad"));
            assert_eq!(outcome != Outcome::Superseded, holds);
        }
        Ending::Drop => {
            let until = reference.now;
            reference.end(event, number, State::Waiting { until });
            drop(claim);
        }
        Ending::Die => std::mem::forget(claim),
    }
}

/// A kept claim, with its event and its number in the reference.
type Kept = (u64, u64, Claim);

fn check(steps: &[Step]) {
    let options = InboxOptions::new()
        .attempts(ATTEMPTS)
        .backoff(BACKOFF, 64 * BACKOFF);
    let bank = Bank::new(options);
    let mut reference = Reference::default();
    let mut kept: Vec<Kept> = Vec::new();
    for step in steps {
        match *step {
            Step::Deliver(event, handler) => deliver(&bank, &mut reference, event, handler),
            Step::Claim(event) => {
                let claimed = bank.inbox.claim(&Sent::new(event));
                match (reference.claim(event), claimed) {
                    (Ok(number), Ok(claim)) => {
                        assert_eq!(claim.token().get(), number);
                        kept.push((event, number, claim));
                    }
                    (Err(Outcome::Superseded), Err(Outcome::Dead(_))) => {}
                    (Err(expected), Err(found)) => assert_eq!(found, expected),
                    (expected, found) => panic!("{found:?} for {expected:?}"),
                }
            }
            Step::End(nth, ending) if nth < kept.len() => {
                let claim = kept.remove(nth);
                end(&bank, &mut reference, claim, ending);
            }
            Step::End(..) => {}
            Step::Advance(seconds) => {
                let by = Duration::from_secs(seconds);
                bank.clock.advance(by);
                reference.now += by;
            }
            Step::Prune(before) => {
                assert_eq!(bank.inbox.prune(at(before)), reference.prune(before));
            }
            Step::PruneUntimed(seconds) => {
                let settled_for = Duration::from_secs(seconds);
                let forgotten = bank.inbox.prune_untimed(settled_for);
                assert_eq!(forgotten, reference.prune_untimed(settled_for));
            }
            Step::Forget(event) => {
                let dead = reference.is_dead(event);
                assert_eq!(bank.inbox.forget(&event.to_string()), dead);
                if dead {
                    reference.events.remove(&event);
                }
            }
            Step::Remove => {
                let held = bank
                    .inbox
                    .remove()
                    .map_or_else(|error| error.claims, |()| 0);
                assert_eq!(held, reference.remove());
            }
            Step::Revive(event) => {
                let dead = reference.is_dead(event);
                assert_eq!(bank.inbox.revive(&event.to_string()), dead);
                if dead {
                    let until = reference.now;
                    reference
                        .events
                        .insert(event, (State::Waiting { until }, 0));
                }
            }
        }
        compare(&bank, &reference);
    }
    let mut ledger = bank.ledger();
    ledger.retain(|event| {
        !reference
            .repeatable
            .iter()
            .any(|gone| gone.to_string() == *event)
    });
    ledger.sort_unstable();
    let effects = ledger.len();
    ledger.dedup();
    assert_eq!(ledger.len(), effects, "an effect happened twice");
    bank.clock.advance(MS);
}

proptest! {
    #![proptest_config(cases(1_000))]

    #[test]
    fn inbox_05_each_effect_happens_at_most_once(
        steps in prop::collection::vec(step(), 1..60),
    ) {
        check(&steps);
    }
}
