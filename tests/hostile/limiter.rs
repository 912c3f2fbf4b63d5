//! Keys and calls of a limiter.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use doclock::lock::{
    CancelToken,
    limiter::{CallOptions, InFlightLimiter, LimiterError, LimiterOptions},
};

use crate::keys::{CODE, Ends, Key, Script};
use crate::{OnDrop, ends, message};

type Limiter = InFlightLimiter<Key>;
type Step = fn(&Limiter, Key);

fn at_once(key: Key) -> CallOptions<Key> {
    CallOptions::to(key).timeout(Duration::ZERO)
}

/// Every public method. None waits for the end of another.
const STEPS: &[Step] = &[
    |limiter, key| drop(limiter.run(at_once(key), |_| ())),
    |limiter, key| drop(limiter.try_run(key, |_| ())),
    |limiter, key| drop(limiter.acquire(at_once(key))),
    |limiter, key| drop(limiter.acquire(CallOptions::to(key).timeout(Duration::from_millis(1)))),
    |limiter, key| drop(limiter.acquire(CallOptions::to(key).queue_bound(0))),
    |limiter, key| drop(limiter.acquire(CallOptions::to(key).weight(9))),
    |limiter, key| {
        let token = CancelToken::new();
        token.cancel();
        drop(limiter.acquire(CallOptions::to(key).cancel_token(&token)));
    },
    |limiter, key| drop(limiter.try_acquire(key)),
    |limiter, key| {
        let _ = limiter.load(&key);
    },
    |limiter, _| drop(limiter.snapshot()),
    |limiter, key| {
        let snapshot = limiter.snapshot();
        let _ = (snapshot.key(&key), snapshot.to_string());
    },
    |limiter, _| drop(format!("{limiter:?}")),
    |_, key| drop(format!("{:?}", CallOptions::to(key).clone())),
];

/// All steps, for a key at its limit, a configured key, and an idle one.
fn go_through(limiter: &Limiter, script: &Script, ends: &Ends) {
    for id in [1, 2, 3] {
        for step in STEPS {
            let key = Key::new(id, script);
            ends.note(move || step(limiter, key));
        }
    }
}

fn limiter() -> Limiter {
    let configured = Key::new(2, &Script::default());
    InFlightLimiter::with_options(LimiterOptions::new(1).limit(configured, 1))
}

fn is_at_rest(limiter: &Limiter) {
    let snapshot = limiter.snapshot();
    assert_eq!((snapshot.in_flight, snapshot.queued), (0, 0));
    assert_eq!(snapshot.keys.len(), 1);
    let key = Key::new(1, &Script::default());
    assert!(limiter.try_acquire(key).is_ok());
}

/// A key whose `Eq` or `Clone` used its limiter deadlocked.
#[test]
fn limiter_02_code_of_keys_that_uses_its_limiter_does_not_hang() {
    for code in CODE {
        let [outside, inside] = ends(move || {
            let limiter = limiter();
            let (script, inside) = (Script::default(), Arc::new(Ends::default()));
            let held = limiter.acquire(Key::new(1, &script)).unwrap();
            let (user, plain, noted) = (limiter.clone(), Script::default(), Arc::clone(&inside));
            script.when(code, move || go_through(&user, &plain, &noted));
            let outside = Ends::default();
            go_through(&limiter, &script, &outside);
            outside.note(|| drop(held));
            script.end();
            is_at_rest(&limiter);
            [outside.any(), inside.any()]
        });
        assert_eq!(outside, [true, false, false], "{code}");
        // Formatting a call uses no limiter, so it always succeeds.
        let refused = matches!(code, "eq" | "clone");
        assert_eq!(inside, [true, refused, false], "{code}");
    }
}

#[test]
fn limiter_02_a_panic_in_key_code_leaves_no_entry() {
    for code in CODE {
        let outside = ends(move || {
            let limiter = limiter();
            let script = Script::default();
            let held = limiter.acquire(Key::new(1, &script)).unwrap();
            // A second panic, of a value of the test, would abort the test.
            script.when(code, || assert!(thread::panicking(), "torn"));
            let outside = Ends::default();
            go_through(&limiter, &script, &outside);
            outside.note(|| drop(held));
            script.end();
            is_at_rest(&limiter);
            outside.any()
        });
        // Each step drops a key.
        assert_eq!(outside, [code != "drop", false, true], "{code}");
    }
}

#[test]
fn limiter_03_drops_and_cancels_during_a_key_comparison_take_effect_after_it() {
    ends(|| {
        let limiter = limiter();
        let (script, plain) = (Script::default(), Script::default());
        let held = limiter.acquire(Key::new(1, &script)).unwrap();
        let dropped = limiter.acquire(Key::new(2, &plain)).unwrap();
        let token = CancelToken::new();
        let waiting = {
            let (limiter, call) = (limiter.clone(), CallOptions::to(Key::new(1, &plain)));
            let call = call.no_timeout().cancel_token(&token);
            thread::spawn(move || limiter.acquire(call).map(drop))
        };
        while !format!("{token:?}").contains("waiting: 1 ") {
            thread::yield_now();
        }
        script.once("eq", move || {
            drop(dropped);
            token.cancel();
        });
        assert_eq!(limiter.load(&Key::new(1, &script)).in_flight, 1);
        script.end();
        let ended = waiting.join().unwrap();
        assert!(
            matches!(ended, Err(LimiterError::Cancelled { .. })),
            "{ended:?}"
        );
        assert_eq!(limiter.snapshot().in_flight, 1);
        drop(held);
        is_at_rest(&limiter);
    });
}

/// The copies of an incomplete snapshot were dropped while the limiter was locked, and deadlocked.
#[test]
fn limiter_10_copies_of_a_snapshot_that_is_not_made_may_use_the_limiter() {
    ends(|| {
        let limiter = InFlightLimiter::new(1);
        let script = Script::default();
        let _held = [1, 2].map(|id| limiter.acquire(Key::new(id, &script)).unwrap());
        let (user, armed) = (limiter.clone(), script.clone());
        let clones = std::sync::atomic::AtomicUsize::new(0);
        script.when("clone", move || {
            if clones.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 1 {
                let user = user.clone();
                armed.when("drop", move || {
                    assert_eq!(user.load(&Key::new(9, &Script::default())).in_flight, 0)
                });
                panic!("torn");
            }
        });
        let noted = Ends::default();
        noted.note(|| drop(limiter.snapshot()));
        script.end();
        assert_eq!(noted.any(), [false, false, true]);
        assert_eq!(limiter.snapshot().in_flight, 2);
    });
}

/// A call that panics while its key panics on drop aborted the program.
#[test]
fn limiter_03_a_call_that_panics_survives_a_key_that_panics_when_it_is_dropped() {
    ends(|| {
        let limiter = limiter();
        let script = Script::default();
        let key = Key::new(1, &script);
        let armed = script.clone();
        let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            limiter.run(key, |_| {
                armed.when("drop", || panic!("torn"));
                panic!("first");
            })
        }));
        assert_eq!(message(&*unwound.unwrap_err()), "first");
        script.end();
        is_at_rest(&limiter);
    });
}

#[test]
fn limiter_01_calls_and_their_values_may_use_the_limiter() {
    ends(|| {
        let limiter = limiter();
        let noted = Arc::new(Ends::default());
        let user = {
            let (limiter, noted) = (limiter.clone(), Arc::clone(&noted));
            move || go_through(&limiter, &Script::default(), &noted)
        };
        let owned = OnDrop(user.clone());
        let call = move |_: &doclock::lock::limiter::CallCancellation| {
            user();
            drop(owned);
        };
        limiter.run(Key::new(1, &Script::default()), call).unwrap();
        assert_eq!(noted.any(), [true, false, false]);
        is_at_rest(&limiter);
    });
}
