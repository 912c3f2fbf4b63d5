//! Keys and calls of a limiter.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;

use doclock::lock::{
    AcquireOptions, CancelToken,
    limiter::{InFlightLimiter, LimiterError, LimiterOptions},
};

use crate::keys::{CODE, Ends, Key, Script};
use crate::{OnDrop, ends, message};

type Limiter = InFlightLimiter<Key>;
type Step = fn(&Limiter, Key);

/// Every public method. None waits for the end of another.
const STEPS: &[Step] = &[
    |limiter, key| drop(limiter.request(key).timeout(Duration::ZERO).run(|_| ())),
    |limiter, key| drop(limiter.request(key).no_wait().run(|_| ())),
    |limiter, key| drop(limiter.request(key).timeout(Duration::ZERO).wait()),
    |limiter, key| {
        drop(
            limiter
                .request(key)
                .timeout(Duration::from_millis(1))
                .wait(),
        )
    },
    |limiter, key| {
        drop(
            limiter
                .request(key)
                .options(AcquireOptions::new().queue_bound(0))
                .wait(),
        )
    },
    |limiter, key| drop(limiter.request(key).weight(9).wait()),
    |limiter, key| {
        let token = CancelToken::new();
        token.cancel();
        drop(limiter.request(key).cancel_token(&token).wait());
    },
    |limiter, key| drop(limiter.request(key).no_wait().wait()),
    |limiter, key| {
        let _ = limiter.load(&key);
    },
    |limiter, _| drop(limiter.snapshot()),
    |limiter, key| {
        let snapshot = limiter.snapshot();
        let _ = (snapshot.key(&key), snapshot.to_string());
    },
    |limiter, _| drop(format!("{limiter:?}")),
    |limiter, key| drop(format!("{:?}", limiter.request(key))),
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
    assert!(limiter.request(key).no_wait().wait().is_ok());
}

/// No mutex is locked while a key is hashed, dropped or formatted.
#[test]
fn limiter_02_keys_may_use_their_limiter_when_they_are_hashed_dropped_or_formatted() {
    for code in ["hash", "drop", "debug"] {
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
        assert_eq!([outside, inside], [[true, false]; 2], "{code}");
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
        assert_eq!(outside, [code != "drop", true], "{code}");
    }
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
        assert_eq!(noted.any(), [false, true]);
        assert_eq!(limiter.snapshot().in_flight, 2);
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
        assert_eq!(noted.any(), [true, false]);
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
            let call = limiter.request(Key::new(id, &script)).no_timeout();
            let call = call.cancel_token(&token);
            thread::spawn(move || call.wait().map(drop))
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
        let slots = limiter.request(Key::new(0, &plain)).weight(3);
        let slots = slots.wait().unwrap();
        let call = |id, script| -> Call {
            let call = limiter.request(Key::new(id, script)).no_timeout();
            let call = call.into_future();
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
