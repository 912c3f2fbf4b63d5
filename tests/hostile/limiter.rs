//! Keys and calls of a limiter.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
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
        let clones = AtomicUsize::new(0);
        script.when("clone", move || {
            if clones.fetch_add(1, Ordering::Relaxed) == 1 {
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
        let unwound = catch_unwind(AssertUnwindSafe(|| {
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

/// The later requests of a token waited on, without a timeout for ever.
#[test]
fn limiter_03_a_token_cancels_every_request_though_keys_panic_when_they_are_dropped() {
    ends(|| {
        let limiter = Limiter::with_options(LimiterOptions::new(1).global_limit(1));
        let (script, plain) = (Script::default(), Script::default());
        let slot = limiter.acquire(Key::new(0, &plain)).unwrap();
        let token = CancelToken::new();
        let call = |id| {
            let call = CallOptions::to(Key::new(id, &script)).no_timeout();
            let call = call.cancel_token(&token);
            let waiting = limiter.clone();
            thread::spawn(move || waiting.acquire(call).map(drop))
        };
        let calls = [1, 2, 3].map(call);
        while limiter.snapshot().queued < 3 {
            thread::yield_now();
        }
        while !format!("{token:?}").contains("waiting: 3 ") {
            thread::yield_now();
        }
        let canceller = thread::current().id();
        script.when("drop", move || {
            if thread::current().id() == canceller {
                panic!("torn");
            }
        });
        let unwound = catch_unwind(AssertUnwindSafe(|| token.cancel()));
        assert_eq!(message(&*unwound.unwrap_err()), "torn");
        for call in calls {
            let ended = call.join().unwrap();
            assert!(
                matches!(ended, Err(LimiterError::Cancelled { .. })),
                "{ended:?}"
            );
        }
        script.end();
        drop(slot);
        let snapshot = limiter.snapshot();
        assert_eq!((snapshot.in_flight, snapshot.keys.len()), (0, 0));
    });
}

/// The last handle of a limiter, or of its options, drops several keys that panic: a second panic
/// aborted the program.
#[test]
fn limiter_02_every_key_that_panics_in_drop_is_dropped_with_its_limiter() {
    struct Counts(u32, Arc<AtomicUsize>);
    impl Drop for Counts {
        fn drop(&mut self) {
            self.1.fetch_add(1, Ordering::SeqCst);
            panic!("torn");
        }
    }
    impl std::fmt::Debug for Counts {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("Counts")
        }
    }
    impl Clone for Counts {
        fn clone(&self) -> Self {
            Self(self.0, Arc::clone(&self.1))
        }
    }
    impl PartialEq for Counts {
        fn eq(&self, other: &Self) -> bool {
            self.0 == other.0
        }
    }
    impl Eq for Counts {}
    impl std::hash::Hash for Counts {
        fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
            self.0.hash(state);
        }
    }
    let catch = |code: Box<dyn FnOnce()>| {
        let unwound = catch_unwind(AssertUnwindSafe(code));
        message(&*unwound.unwrap_err()).to_owned()
    };
    let options = |drops: &Arc<AtomicUsize>| {
        let keys = (0..3).map(|key| Counts(key, Arc::clone(drops)));
        keys.fold(LimiterOptions::new(1), |options, key| options.limit(key, 1))
    };
    for unwinds in [false, true] {
        for of_options in [false, true] {
            let drops = Arc::default();
            let options = options(&drops);
            let message = catch(Box::new(move || {
                let _dropped: Box<dyn std::any::Any> = match of_options {
                    true => Box::new(options),
                    false => Box::new(InFlightLimiter::with_options(options)),
                };
                if unwinds {
                    panic!("first");
                }
            }));
            assert_eq!(message, if unwinds { "first" } else { "torn" });
            assert_eq!(drops.load(Ordering::SeqCst), 3);
        }
    }
}

/// Three calls are granted in one step. The waker of the first drops the second, whose slot comes
/// back and whose key panics when it is dropped. The third was never told of its slot.
#[test]
fn limiter_03_a_key_that_panics_between_two_grants_costs_no_later_one() {
    struct Drops(Mutex<Option<Call>>);
    type Call = Pin<Box<dyn Future<Output = Result<(), LimiterError>> + Send>>;
    impl Wake for Drops {
        fn wake(self: Arc<Self>) {
            let call = self.0.lock().unwrap().take();
            drop(call);
        }
    }
    ends(|| {
        let limiter = Limiter::with_options(LimiterOptions::new(3).global_limit(3));
        let (script, plain) = (Script::default(), Script::default());
        let slots = CallOptions::to(Key::new(0, &plain)).weight(3);
        let slots = limiter.acquire(slots).unwrap();
        let call = |id, script| -> Call {
            let call = CallOptions::to(Key::new(id, script)).no_timeout();
            let call = limiter.acquire_async(call);
            Box::pin(async { call.await.map(drop) })
        };
        let mut calls = [call(1, &plain), call(2, &script), call(3, &plain)];
        let waker = Arc::new(Drops(Mutex::new(None)));
        let first = Waker::from(Arc::clone(&waker));
        let noop = Waker::noop();
        for (call, waker) in calls.iter_mut().zip([&first, noop, noop]) {
            let polled = call.as_mut().poll(&mut Context::from_waker(waker));
            assert!(polled.is_pending());
        }
        let [mut one, two, mut three] = calls;
        *waker.0.lock().unwrap() = Some(two);
        // The first drop is that of the future's own key.
        let drops = AtomicUsize::new(0);
        script.when("drop", move || {
            if drops.fetch_add(1, Ordering::SeqCst) == 1 {
                panic!("torn");
            }
        });
        let _ = catch_unwind(AssertUnwindSafe(|| drop(slots)));
        for call in [&mut one, &mut three] {
            let mut context = Context::from_waker(noop);
            assert!(
                call.as_mut().poll(&mut context).is_ready(),
                "it was granted"
            );
        }
        let snapshot = limiter.snapshot();
        assert_eq!((snapshot.in_flight, snapshot.keys.len()), (0, 0));
    });
}
