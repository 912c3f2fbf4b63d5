//! Lock types beside a store.

use std::hash::{Hash, Hasher};
use std::sync::Barrier;
use std::thread;

use doclock::DataStore;
use doclock::lock::keyed::KeyedLock;
use doclock::lock::limiter::InFlightLimiter;
use doclock::lock::{FifoLock, PrimitiveState};

fn names(store: &DataStore) -> Vec<String> {
    let registered = store.diagnostics().registered.into_iter();
    registered.map(|entry| entry.name.to_string()).collect()
}

#[test]
fn registered_lock_types_show_their_load_until_their_last_handle_is_dropped() {
    let store = DataStore::new();
    let limiter = InFlightLimiter::<&str>::new(3);
    let keyed = KeyedLock::<u64>::new();
    let lock = FifoLock::new();
    store.register("uploads", &limiter);
    store.register("accounts", &keyed);
    store.register("printer", &lock);
    let permits = ["a", "b"].map(|key| limiter.acquire(key).unwrap());
    let _turn = keyed.reserve(&7).unwrap();
    let guard = lock.lock("ann").unwrap();

    let registered = store.diagnostics().registered;
    let [uploads, accounts, printer] = &registered[..] else {
        panic!("{registered:?}")
    };
    let PrimitiveState::Limiter(totals) = &uploads.state else {
        panic!("{uploads:?}")
    };
    assert_eq!((totals.in_flight, totals.keys, totals.acquired), (2, 2, 2));
    let PrimitiveState::Keyed(stats) = &accounts.state else {
        panic!("{accounts:?}")
    };
    assert_eq!((stats.active_keys, stats.queue_length), (1, 0));
    let PrimitiveState::Lock(state) = &printer.state else {
        panic!("{printer:?}")
    };
    assert_eq!(state.holders[0].holder.owner_id.as_str(), "ann");
    let json = serde_json::to_value(uploads).unwrap();
    assert_eq!(
        (&json["name"], &json["kind"]),
        (&"uploads".into(), &"limiter".into())
    );
    assert_eq!(json["inFlight"], 2);

    drop((limiter, lock.clone(), lock));
    assert_eq!(names(&store), ["uploads", "accounts", "printer"]);
    drop(permits);
    assert_eq!(names(&store), ["accounts", "printer"]);
    drop(guard);
    assert_eq!(names(&store), ["accounts"]);
}

#[test]
fn a_name_and_a_lock_type_are_listed_once() {
    let store = DataStore::new();
    let [one, two] = [(), ()].map(|()| FifoLock::new());
    for _ in 0..3 {
        store.register("first", &one);
        store.register("second", &two);
    }
    assert_eq!(names(&store), ["first", "second"]);
    store.register("renamed", &one);
    assert_eq!(names(&store), ["second", "renamed"]);
    store.register("renamed", &two.clone());
    assert_eq!(names(&store), ["renamed"]);
}

/// A key whose comparison waits while the table is locked.
#[derive(Clone, Debug)]
struct Slow<'b>(&'b [Barrier; 2]);

impl PartialEq for Slow<'_> {
    fn eq(&self, _: &Self) -> bool {
        for barrier in self.0 {
            barrier.wait();
        }
        true
    }
}

impl Eq for Slow<'_> {}

impl Hash for Slow<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        0.hash(state);
    }
}

/// `Eq` of a key runs under the mutex of its table, so a picture must not wait for it.
#[test]
fn a_limiter_whose_key_is_being_compared_is_busy_and_blocks_no_picture() {
    let barriers: &'static [Barrier; 2] = Box::leak(Box::new([Barrier::new(2), Barrier::new(2)]));
    let store = DataStore::new();
    let limiter = InFlightLimiter::<Slow<'static>>::new(2);
    store.register("slow", &limiter);
    let permit = limiter.acquire(Slow(barriers)).unwrap();
    thread::scope(|threads| {
        let compares = threads.spawn(|| limiter.load(&Slow(barriers)));
        barriers[0].wait();
        let registered = store.diagnostics().registered;
        assert_eq!(registered[0].state, PrimitiveState::Busy);
        assert!(
            store
                .diagnostics()
                .to_string()
                .contains("busy: a key is compared")
        );
        barriers[1].wait();
        compares.join().unwrap();
    });
    drop(permit);
}

#[test]
fn a_store_lists_the_lock_types_that_were_registered_last() {
    let store = DataStore::new();
    let locks: Vec<_> = (0..100).map(|_| FifoLock::new()).collect();
    for (number, lock) in locks.iter().enumerate() {
        store.register(format!("lock {number}"), lock);
    }
    let names = names(&store);
    assert_eq!(names.len(), 64);
    assert_eq!(names.last().unwrap(), "lock 99");
}
