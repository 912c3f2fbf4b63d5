//! Races for the slots of a limiter.

use std::sync::{Arc, Mutex};

use doclock_locks::{
    CancelToken, PendingRequest,
    limiter::{CallRequest, InFlightLimiter, LimiterError, LimiterOptions},
};
use loom::thread::{self, JoinHandle};

use crate::model::{Actor, Model, Run};

type Limiter = InFlightLimiter<&'static str>;

fn limiter(slots: usize) -> Limiter {
    InFlightLimiter::with_options(LimiterOptions::new(slots).timeout(None))
}

/// The present calls, and all calls in order. Not loom's: it only records.
#[derive(Clone, Default)]
struct Record(Arc<Mutex<(usize, Vec<&'static str>)>>);

impl Record {
    /// Runs a call of some weight; never more than `slots` are taken meanwhile.
    fn run(
        &self,
        name: &'static str,
        call: PendingRequest<'static, CallRequest<&'static str>>,
        weight: usize,
        slots: usize,
    ) -> Result<(), LimiterError> {
        call.weight(weight).run(|_| {
            {
                let (taken, names) = &mut *self.0.lock().unwrap();
                *taken += weight;
                names.push(name);
                assert!(*taken <= slots, "{taken} of {slots} slots taken");
            }
            thread::yield_now();
            self.0.lock().unwrap().0 -= weight;
        })
    }

    fn names(&self) -> Vec<&'static str> {
        self.0.lock().unwrap().1.clone()
    }
}

fn spawn<T: 'static>(
    limiter: &Limiter,
    record: &Record,
    code: impl FnOnce(&Limiter, &Record) -> T + 'static,
) -> JoinHandle<T> {
    let (limiter, record) = (limiter.clone(), record.clone());
    thread::spawn(move || code(&limiter, &record))
}

/// Spawns as [`spawn`] does, for an actor.
fn act<T: 'static>(
    run: &Run,
    actor: &'static str,
    limiter: &Limiter,
    record: &Record,
    code: impl FnOnce(&Limiter, &Record) -> T + 'static,
) -> Actor<T> {
    let (limiter, record) = (limiter.clone(), record.clone());
    run.spawn(actor, move || code(&limiter, &record))
}

fn at_rest(limiter: &Limiter) {
    let snapshot = limiter.snapshot();
    assert_eq!((snapshot.in_flight, snapshot.queued), (0, 0));
    assert!(snapshot.keys.is_empty(), "an idle key is kept");
    assert_eq!(snapshot.total.latency.count, snapshot.total.acquired);
}

/// Returns the outcomes of two calls that waited for a returned slot.
fn outcome(
    limiter: &Limiter,
    record: &Record,
    ends: [Result<(), LimiterError>; 2],
) -> &'static str {
    at_rest(limiter);
    let ran = ends.iter().filter(|end| end.is_ok()).count() as u64;
    let total = limiter.snapshot().total;
    assert_eq!(total.acquired, 1 + ran);
    assert_eq!(total.cancelled + total.timed_out, 2 - ran);
    assert_eq!(record.names().len() as u64, ran, "who left never runs");
    match ends.into_iter().find_map(Result::err) {
        None => "both ran",
        Some(LimiterError::Timeout { .. }) => "timed out",
        Some(LimiterError::Cancelled { call }) if call.position.is_none() => "refused",
        Some(LimiterError::Cancelled { .. }) => "cancelled",
        Some(other) => panic!("{other}"),
    }
}

#[test]
fn limiter_slot_return_against_cancel() {
    let model = Model::new("slot return against cancel", 4)
        .reaches(["both ran"])
        .reaches_by("canceller", "cancelled")
        .reaches_by("canceller", "refused");
    model.check(|run| {
        let (limiter, record) = (limiter(1), Record::default());
        let token = CancelToken::new();
        let held = limiter.acquire("k").unwrap();
        let calls = [
            ("a", limiter.request("k").cancel_token(&token)),
            ("b", limiter.request("k")),
        ];
        let callers = calls.map(|(name, call)| {
            spawn(&limiter, &record, move |_, record| {
                record.run(name, call, 1, 1)
            })
        });
        let canceller = run.spawn("canceller", move || token.cancel());
        drop(held);
        let ends = callers.map(|caller| caller.join().unwrap());
        canceller.join();
        assert!(ends[1].is_ok());
        run.note(outcome(&limiter, &record, ends));
    });
}

#[test]
fn limiter_slot_return_against_expiry() {
    let model = Model::new("slot return against expiry", 4)
        .reaches(["both ran"])
        .reaches_by("timer", "timed out");
    model.check(|run| {
        let (limiter, record) = (limiter(1), Record::default());
        let held = limiter.acquire("k").unwrap();
        let callers = ["a", "b"].map(|name| {
            spawn(&limiter, &record, move |limiter, record| {
                record.run(name, limiter.request("k"), 1, 1)
            })
        });
        // Of the call at the head of the queue, if there is one.
        let expire = |limiter: &Limiter, _: &Record| limiter.expire();
        let timer = act(run, "timer", &limiter, &record, expire);
        drop(held);
        let ends = callers.map(|caller| caller.join().unwrap());
        timer.join();
        run.note(outcome(&limiter, &record, ends));
    });
}

#[test]
fn limiter_heavy_head_of_queue_against_a_light_call() {
    let model = Model::new("heavy head of the queue against a light call", None)
        .reaches_by("heavy", "heavy queued first")
        .reaches_by("heavy", "heavy first")
        .reaches_by("heavy", "light first");
    model.check(|run| {
        let (limiter, record) = (limiter(2), Record::default());
        let held = limiter.acquire("k").unwrap();
        let heavy = act(run, "heavy", &limiter, &record, |limiter, record| {
            record.run("heavy", limiter.request("k"), 2, 2)
        });
        let light = spawn(&limiter, &record, |limiter, record| {
            let behind = limiter.load(&"k").queued > 0;
            record.run("light", limiter.request("k"), 1, 2).unwrap();
            behind
        });
        drop(held);
        assert!(matches!(heavy.join(), Some(Ok(())) | None));
        let behind = light.join().unwrap();
        at_rest(&limiter);
        match record.names()[..] {
            ["light"] => {}
            ["heavy", "light"] if behind => run.note("heavy queued first"),
            ["heavy", "light"] => run.note("heavy first"),
            ["light", "heavy"] if !behind => run.note("light first"),
            ref other => panic!("{other:?}: it overtook a queued call"),
        }
    });
}

fn heavy_model(name: &'static str) -> Model {
    Model::new(name, None)
        .reaches(["heavy ran"])
        .reaches_by("canceller", "cancelled")
        .reaches_by("canceller", "refused")
}

fn outcome_of_heavy(heavy: Result<(), LimiterError>) -> &'static str {
    match heavy {
        Ok(()) => "heavy ran",
        Err(LimiterError::Cancelled { call }) if call.position.is_none() => "refused",
        Err(LimiterError::Cancelled { .. }) => "cancelled",
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn limiter_light_calls_proceed_when_the_heavy_one_is_cancelled() {
    heavy_model("cancel of a heavy head of line").check(|run| {
        let (limiter, record) = (limiter(2), Record::default());
        let token = CancelToken::new();
        let held = limiter.acquire("k").unwrap();
        let call = limiter.request("k").cancel_token(&token);
        let heavy = spawn(&limiter, &record, |_, record| {
            record.run("heavy", call, 2, 2)
        });
        let light = spawn(&limiter, &record, |limiter, record| {
            record.run("light", limiter.request("k"), 1, 2)
        });
        let canceller = run.spawn("canceller", move || token.cancel());
        // The held slot does not come back before the light call ran, so the light call must
        // continue when the heavy one leaves.
        let held = run.has("canceller").then_some(held);
        light.join().unwrap().unwrap();
        drop(held);
        canceller.join();
        let heavy = heavy.join().unwrap();
        at_rest(&limiter);
        run.note(outcome_of_heavy(heavy));
    });
}

#[test]
fn limiter_two_keys_under_the_global_limit() {
    let model = Model::new("two keys under the global limit", None)
        .reaches_by("b", "a, b")
        .reaches_by("b", "b, a");
    model.check(|run| {
        let options = LimiterOptions::new(1).global_limit(1).timeout(None);
        let limiter: Limiter = InFlightLimiter::with_options(options);
        let record = Record::default();
        let held = limiter.acquire("a").unwrap();
        let call = |key: &'static str| {
            move |limiter: &Limiter, record: &Record| {
                record.run(key, limiter.request(key), 1, 1).unwrap();
            }
        };
        let a = spawn(&limiter, &record, call("a"));
        let b = act(run, "b", &limiter, &record, call("b"));
        drop(held);
        a.join().unwrap();
        b.join();
        at_rest(&limiter);
        match record.names()[..] {
            ["a"] => {}
            ["a", "b"] => run.note("a, b"),
            ["b", "a"] => run.note("b, a"),
            ref other => panic!("{other:?}"),
        }
    });
}

#[test]
fn limiter_another_key_proceeds_when_the_next_heavy_call_is_cancelled() {
    heavy_model("cancel of a heavy key in turn").check(|run| {
        let options = LimiterOptions::new(2).global_limit(2).timeout(None);
        let limiter: Limiter = InFlightLimiter::with_options(options);
        let record = Record::default();
        let token = CancelToken::new();
        let held = limiter.acquire("held").unwrap();
        let call = limiter.request("heavy").cancel_token(&token);
        let heavy = spawn(&limiter, &record, |_, record| {
            record.run("heavy", call, 2, 2)
        });
        let light = spawn(&limiter, &record, |limiter, record| {
            record.run("light", limiter.request("light"), 1, 2)
        });
        let canceller = run.spawn("canceller", move || token.cancel());
        // No slot is returned: the light call must continue when the heavy one leaves the turn to
        // it.
        let held = run.has("canceller").then_some(held);
        light.join().unwrap().unwrap();
        drop(held);
        canceller.join();
        let heavy = heavy.join().unwrap();
        at_rest(&limiter);
        run.note(outcome_of_heavy(heavy));
    });
}
