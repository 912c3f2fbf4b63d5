//! Lock types beside a store.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use doclock::DataStore;
use doclock::lock::keyed::{HeldKey, KeyedLock, KeyedOptions};
use doclock::lock::limiter::{InFlightLimiter, LimiterOptions, LimiterSnapshot};
use doclock::lock::{CallSite, FifoLock, PrimitiveState};
use doclock::time::ManualClock;

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
    let PrimitiveState::Limiter(load) = &uploads.state else {
        panic!("{uploads:?}")
    };
    let keys: Vec<_> = load.keys.iter().map(|key| &key.key).collect();
    assert_eq!((load.in_flight, load.total.acquired), (2, 2));
    assert_eq!(keys, ["\"a\"", "\"b\""]);
    let PrimitiveState::Keyed { stats, .. } = &accounts.state else {
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

/// The line of the call of this macro, in which a request is made.
macro_rules! here {
    () => {
        (file!(), line!())
    };
}

fn place(site: &CallSite) -> (&str, u32) {
    (&site.file, site.line)
}

fn held(store: &DataStore) -> Vec<HeldKey> {
    match store.diagnostics().registered.remove(0).state {
        PrimitiveState::Keyed { held, .. } => held,
        state => panic!("{state:?}"),
    }
}

fn limiter(store: &DataStore) -> LimiterSnapshot<String> {
    match store.diagnostics().registered.remove(0).state {
        PrimitiveState::Limiter(limiter) => *limiter,
        state => panic!("{state:?}"),
    }
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

#[test]
fn a_registered_keyed_lock_shows_each_held_key_with_its_holder_and_its_waiters() {
    let clock = ManualClock::new();
    let store = DataStore::new();
    let options = KeyedOptions::new().clock(clock.clock());
    let accounts = KeyedLock::<String>::with_options(options);
    store.register("accounts", &accounts);
    let _bob = accounts.request("bob", "import").reserve().unwrap();
    clock.advance(seconds(1));
    let (request, here) = (accounts.request("ann", "transfer"), here!());
    let ann = request.label("fan out").reserve().unwrap();
    clock.advance(seconds(2));
    let _waits = ["first", "second"].map(|owner| accounts.request("ann", owner).reserve().unwrap());
    clock.advance(seconds(3));

    let [waited_for, idle] = &held(&store)[..] else {
        panic!("two keys are held")
    };
    assert_eq!((&*waited_for.key, &*idle.key), ("\"ann\"", "\"bob\""));
    let holder = &waited_for.holder;
    assert_eq!(
        (holder.lock_id, holder.owner_id.as_str()),
        (ann.id(), "transfer")
    );
    assert_eq!((holder.held_for, holder.at_least), (seconds(5), false));
    assert_eq!(place(&holder.call_site), here);
    assert_eq!(waited_for.waiting, 2);
    let first = waited_for.first_waiter.as_ref().unwrap();
    assert_eq!(
        (first.owner_id.as_str(), first.wait_time),
        ("first", seconds(3))
    );
    assert_eq!((idle.holder.held_for, idle.waiting), (seconds(6), 0));
    assert_eq!(idle.first_waiter, None);

    let json = serde_json::to_value(store.diagnostics()).unwrap();
    let row = &json["registered"][0]["held"][0];
    assert_eq!(
        (&row["key"], &row["heldFor"]),
        (&"\"ann\"".into(), &5000.0.into())
    );
    let table = store.diagnostics().to_string();
    let at = table.find("keyed lock: 2 active keys, 2 waiting").unwrap();
    let rows: Vec<_> = table[at..].lines().skip(1).take(4).collect();
    assert_eq!(rows[0].split_whitespace().next(), Some("key"), "{table}");
    let line = format!("registered.rs:{}:", here.1);
    for part in ["\"ann\"", "transfer (fan out)", "5.0s", &line, "2 wait"] {
        assert!(rows[1].contains(part), "{part} in {table}");
    }
    assert!(
        rows[2].contains("1.") && rows[2].contains("first") && rows[2].contains("3.0s"),
        "{table}"
    );
    assert!(
        rows[3].contains("import") && !rows[3].contains("wait"),
        "{table}"
    );
}

#[test]
fn a_registered_limiter_shows_its_fullest_keys_with_a_permit_that_is_held() {
    let clock = ManualClock::new();
    let store = DataStore::new();
    let options = LimiterOptions::new(2).limit("idle", 1).clock(clock.clock());
    let uploads = InFlightLimiter::with_options(options);
    store.register("uploads", &uploads);
    let (first, here) = (uploads.acquire("s3").unwrap(), here!());
    clock.advance(seconds(4));
    assert!(
        store
            .diagnostics()
            .to_string()
            .contains("limiter: 1 of 2 in flight")
    );
    let second = uploads.acquire("s3").unwrap();
    let other = uploads.acquire("backup").unwrap();
    thread::scope(|threads| {
        threads.spawn(|| uploads.run("s3", |_| ()).unwrap());
        while uploads.load(&"s3").queued == 0 {
            thread::yield_now();
        }
        let keys = limiter(&store).keys;
        let names: Vec<_> = keys.iter().map(|key| &*key.key).collect();
        assert_eq!(names, ["\"s3\"", "\"backup\"", "\"idle\""]);
        assert_eq!(
            (keys[0].in_flight, keys[0].limit, keys[0].queued),
            (2, 2, 1)
        );
        let permit = keys[0].permit.as_ref().unwrap();
        assert_eq!((permit.held_for, permit.at_least), (seconds(4), false));
        assert_eq!(place(&permit.call_site), here);
        assert_eq!(keys[2].permit, None);

        let table = store.diagnostics().to_string();
        let at = table.find("limiter: 3 in flight, 1 waiting").unwrap();
        let row = table[at..].lines().nth(2).unwrap();
        let line = format!("registered.rs:{}:", here.1);
        for part in ["\"s3\"", "2 of 2 in flight", "4.0s", &line, "1 waits"] {
            assert!(row.contains(part), "{part} in {table}");
        }
        assert!(!table.contains("\"idle\""), "{table}");
        drop(first);
    });
    // The next permit that is granted is on record.
    drop((second, other));
    assert!(limiter(&store).keys.iter().all(|key| key.permit.is_none()));
    let (_third, here) = (uploads.acquire("s3").unwrap(), here!());
    assert_eq!(
        place(&limiter(&store).keys[0].permit.as_ref().unwrap().call_site),
        here
    );
}

#[test]
fn a_permit_stays_on_record_until_it_returns_and_a_full_key_has_one() {
    let store = DataStore::new();
    let uploads = InFlightLimiter::<u8>::new(3);
    store.register("uploads", &uploads);
    let permit = || limiter(&store).keys.remove(0).permit;
    let (first, here) = (uploads.acquire(1).unwrap(), here!());
    drop(uploads.acquire(1).unwrap());
    assert_eq!(place(&permit().unwrap().call_site), here);
    drop(first);
    // Each order in which three of six permits return.
    for returned in 0..27 {
        let mut held: Vec<_> = (0..3).map(|_| uploads.acquire(1).unwrap()).collect();
        for index in [returned % 3, returned / 3 % 3, returned / 9] {
            drop(held.remove(index));
            held.push(uploads.acquire(1).unwrap());
        }
        assert!(permit().is_some(), "{returned}");
    }
}

#[test]
fn the_keys_of_a_registered_lock_type_are_bounded() {
    let store = DataStore::new();
    let accounts = KeyedLock::<u32>::new();
    let uploads = InFlightLimiter::<u32>::new(2);
    store.register("accounts", &accounts);
    let turns: Vec<_> = (0..2_000)
        .map(|key| accounts.reserve(&key).unwrap())
        .collect();
    let _waits = accounts.reserve(&1_234).unwrap();
    let rows = held(&store);
    assert_eq!((rows.len(), &*rows[0].key), (64, "1234"));
    assert!(store.diagnostics().to_string().contains("… and 1988 more"));
    drop(turns);
    let permits: Vec<_> = (0..2_000)
        .map(|key| uploads.acquire(key).unwrap())
        .collect();
    let _full = uploads.acquire(1_234).unwrap();
    store.register("accounts", &uploads);
    let rows = limiter(&store).keys;
    assert_eq!((rows.len(), &*rows[0].key), (64, "1234"));
    drop(permits);
}

/// A key with code that panics, from when it is told to.
#[derive(PartialEq, Eq, Hash)]
struct Panics(&'static str, u8);

impl Panics {
    fn code(&self, place: &str) {
        assert!(
            self.0 != place || thread::panicking(),
            "the code of a key panics"
        );
    }
}

impl Clone for Panics {
    fn clone(&self) -> Self {
        if BROKEN.get() {
            self.code("clone");
        }
        Self(self.0, self.1)
    }
}

impl fmt::Debug for Panics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.code("debug");
        write!(f, "key {}", self.1)
    }
}

impl Drop for Panics {
    fn drop(&mut self) {
        if BROKEN.get() {
            self.code("drop");
        }
    }
}

thread_local! {
    static BROKEN: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

#[test]
fn a_panic_of_a_key_costs_only_its_text_in_the_picture() {
    let store = DataStore::new();
    for place in ["clone", "debug", "drop", "none"] {
        let accounts = KeyedLock::<Panics>::new();
        let uploads = InFlightLimiter::<Panics>::new(2);
        let _turns = [0, 1].map(|key| accounts.reserve(&Panics(place, key)).unwrap());
        let _permits = [0, 1].map(|key| uploads.acquire(Panics(place, key)).unwrap());
        BROKEN.set(true);
        store.register("keys", &accounts);
        let mut held: Vec<_> = held(&store).into_iter().map(|row| row.key).collect();
        store.register("keys", &uploads);
        let used = limiter(&store).keys.into_iter().map(|row| row.key);
        let used: Vec<_> = used.collect();
        BROKEN.set(false);
        held.sort();
        let expected = match place {
            "clone" | "debug" => ["(its code panics)"; 2],
            _ => ["key 0", "key 1"],
        };
        assert_eq!(held, expected, "{place}");
        assert_eq!(used, expected, "{place}");
        // Both are usable, and their mutexes are free.
        assert_eq!(accounts.stats().active_keys, 2);
        assert_eq!(uploads.load(&Panics("", 5)).total_in_flight, 2);
    }
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
fn a_keyed_lock_whose_key_is_being_compared_is_busy_and_blocks_no_picture() {
    let barriers: &'static [Barrier; 2] = Box::leak(Box::new([Barrier::new(2), Barrier::new(2)]));
    let store = DataStore::new();
    let keyed = KeyedLock::<Slow<'static>>::new();
    store.register("slow", &keyed);
    let turn = keyed.reserve(&Slow(barriers)).unwrap();
    thread::scope(|threads| {
        let compares = threads.spawn(|| keyed.is_active_key(&Slow(barriers)));
        barriers[0].wait();
        let registered = store.diagnostics().registered;
        assert_eq!(registered[0].state, PrimitiveState::Busy);
        barriers[1].wait();
        assert!(compares.join().unwrap());
    });
    assert_eq!(held(&store).len(), 1);
    drop(turn);
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
