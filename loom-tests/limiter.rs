//! Races for the slots of a limiter.

use std::sync::{Arc, Mutex};

use doclock::{Call, CancelToken, InFlightLimiter, LimiterError, LimiterOptions};
use loom::thread::{self, JoinHandle};

use crate::model::{Seen, check_all};

type Limiter = InFlightLimiter<&'static str>;

fn limiter(slots: usize) -> Limiter {
    InFlightLimiter::with_options(LimiterOptions::new(slots).wait_limit(None))
}

/// What runs at present, and what ran, in that order. Not loom's: it only records.
#[derive(Clone, Default)]
struct Record(Arc<Mutex<(usize, Vec<&'static str>)>>);

impl Record {
    /// Runs a call of some weight; never more than `slots` are taken meanwhile.
    fn run(
        &self,
        limiter: &Limiter,
        name: &'static str,
        call: Call<&'static str>,
        weight: usize,
        slots: usize,
    ) -> Result<(), LimiterError> {
        limiter.run(call.weight(weight), |_| {
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

fn at_rest(limiter: &Limiter) {
    let snapshot = limiter.snapshot();
    assert_eq!((snapshot.in_flight, snapshot.queued), (0, 0));
    assert!(snapshot.keys.is_empty(), "an idle key is kept");
    assert_eq!(snapshot.total.latency.count, snapshot.total.acquired);
}

/// Two wait for the one slot that comes back, and one of them is withdrawn.
fn withdrawal(seen: &Seen, withdraw: impl FnOnce(&Limiter, &CancelToken) + 'static) {
    let (limiter, record) = (limiter(1), Record::default());
    let token = CancelToken::new();
    let held = limiter.acquire("k").unwrap();
    let call = Call::to("k").cancel_token(&token);
    let gone = spawn(&limiter, &record, |limiter, record| {
        record.run(limiter, "gone", call, 1, 1)
    });
    let stays = spawn(&limiter, &record, |limiter, record| {
        record.run(limiter, "stays", Call::to("k"), 1, 1)
    });
    let other = spawn(&limiter, &record, move |limiter, _| withdraw(limiter, &token));
    drop(held);
    let gone = gone.join().unwrap();
    stays.join().unwrap().unwrap();
    other.join().unwrap();
    at_rest(&limiter);
    let total = limiter.snapshot().total;
    let left = total.cancelled + total.timed_out;
    assert_eq!((total.acquired, left), (3 - left, u64::from(gone.is_err())));
    assert_eq!(record.names().contains(&"gone"), gone.is_ok());
    seen.note(match gone {
        Ok(()) => "ran",
        Err(LimiterError::Cancelled { call }) if call.place.is_none() => "refused",
        Err(LimiterError::Cancelled { .. }) => "cancelled",
        Err(LimiterError::Timeout { .. }) => "timed out",
        Err(other) => panic!("{other}"),
    });
}

#[test]
fn limiter_slot_return_against_cancel() {
    let outcomes = ["ran", "cancelled", "refused"];
    check_all("slot return against cancel", Some(2), outcomes, |seen| {
        withdrawal(seen, |_, token| token.cancel());
    });
}

#[test]
fn limiter_slot_return_against_expiry() {
    let outcomes = ["ran", "timed out"];
    check_all("slot return against expiry", Some(2), outcomes, |seen| {
        // Of whoever is first in line: if it is the one that stays, it is not this model's.
        withdrawal_of_first(seen);
    });
}

/// Two wait for the one slot that comes back, and the limit of the first of them passes.
fn withdrawal_of_first(seen: &Seen) {
    let (limiter, record) = (limiter(1), Record::default());
    let held = limiter.acquire("k").unwrap();
    let callers = ["a", "b"].map(|name| {
        spawn(&limiter, &record, move |limiter, record| {
            record.run(limiter, name, Call::to("k"), 1, 1)
        })
    });
    let timer = spawn(&limiter, &record, |limiter, _| limiter.expire(&"k", 1));
    drop(held);
    let ends = callers.map(|caller| caller.join().unwrap());
    timer.join().unwrap();
    at_rest(&limiter);
    let ran = ends.iter().filter(|end| end.is_ok()).count() as u64;
    let total = limiter.snapshot().total;
    assert_eq!((total.acquired, total.timed_out), (1 + ran, 2 - ran));
    assert_eq!(record.names().len() as u64, ran);
    for end in ends {
        match end {
            Ok(()) | Err(LimiterError::Timeout { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    }
    seen.note(if ran == 2 { "ran" } else { "timed out" });
}

#[test]
fn limiter_heavy_head_of_line_against_a_light_call() {
    let outcomes = ["heavy first", "light first"];
    check_all("heavy head against a light call", Some(2), outcomes, |seen| {
        let (limiter, record) = (limiter(2), Record::default());
        let held = limiter.acquire("k").unwrap();
        let heavy = spawn(&limiter, &record, |limiter, record| {
            record.run(limiter, "heavy", Call::to("k"), 2, 2)
        });
        let light = spawn(&limiter, &record, |limiter, record| {
            let behind = limiter.load(&"k").queued > 0;
            let before = record.names().len();
            record.run(limiter, "light", Call::to("k"), 1, 2).unwrap();
            // Whoever finds the heavy one in line does not overtake it.
            assert!(!behind || record.names()[before..].starts_with(&["heavy"]) || before > 0);
        });
        drop(held);
        heavy.join().unwrap().unwrap();
        light.join().unwrap();
        at_rest(&limiter);
        seen.note(match record.names()[..] {
            ["heavy", "light"] => "heavy first",
            ["light", "heavy"] => "light first",
            ref other => panic!("{other:?}"),
        });
    });
}

#[test]
fn limiter_light_calls_go_on_when_the_heavy_one_is_cancelled() {
    let outcomes = ["heavy ran", "heavy gone"];
    check_all("cancel of a heavy head", Some(2), outcomes, |seen| {
        let (limiter, record) = (limiter(2), Record::default());
        let token = CancelToken::new();
        let held = limiter.acquire("k").unwrap();
        let call = Call::to("k").cancel_token(&token);
        let heavy = spawn(&limiter, &record, |limiter, record| {
            record.run(limiter, "heavy", call, 2, 2)
        });
        let light = spawn(&limiter, &record, |limiter, record| {
            record.run(limiter, "light", Call::to("k"), 1, 2)
        });
        let canceller = thread::spawn(move || token.cancel());
        // The slot that is held never comes back while the light one waits, unless the heavy one goes.
        canceller.join().unwrap();
        light.join().unwrap().unwrap();
        drop(held);
        let heavy = heavy.join().unwrap();
        at_rest(&limiter);
        seen.note(match heavy {
            Ok(()) => "heavy ran",
            Err(LimiterError::Cancelled { .. }) => "heavy gone",
            Err(other) => panic!("{other}"),
        });
    });
}

#[test]
fn limiter_two_keys_under_the_global_limit() {
    let outcomes = ["a, b", "b, a"];
    check_all("two keys under the global limit", Some(2), outcomes, |seen| {
        let options = LimiterOptions::new(1).global_limit(1).wait_limit(None);
        let limiter: Limiter = InFlightLimiter::with_options(options);
        let record = Record::default();
        let held = limiter.acquire("a").unwrap();
        let callers = ["a", "b"].map(|key| {
            spawn(&limiter, &record, move |limiter, record| {
                record.run(limiter, key, Call::to(key), 1, 1)
            })
        });
        drop(held);
        callers.map(|caller| caller.join().unwrap().unwrap());
        at_rest(&limiter);
        seen.note(match record.names()[..] {
            ["a", "b"] => "a, b",
            ["b", "a"] => "b, a",
            ref other => panic!("{other:?}"),
        });
    });
}
