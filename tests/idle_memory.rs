//! The memory of idle objects: new ones, and those used without contention. A separate binary,
//! because all allocations of the process count.

use std::alloc::System;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use doclock::dsl::{delete_text_range, insert_text};
use doclock::{
    DataStore, Editor, Snapshot, StoreOptions,
    document::{Mark, NodeSpec},
    inbox::{HandlerError, Inbox},
    lock::{
        FifoLock, LockOptions,
        keyed::{KeyedLock, KeyedOptions},
        limiter::{InFlightLimiter, LimiterOptions},
        node::Scope,
    },
    time::ManualClock,
};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The most memory of a lock of any type.
const LOCK: usize = 1024;

/// The most memory of a keyed lock, which has 16 shards of 256 bytes. Each shard that was used
/// keeps room for some keys.
const KEYED: usize = LOCK + 16 * 256;
const KEYED_USED: usize = KEYED + 16 * 192;

/// The most memory of what observes a store. The tests have the features `tracing` and `metrics`.
const OBSERVED: usize = 256;

/// The most memory of the provenance of a document of which nothing is recorded.
const UNRECORDED: usize = 640;

/// The most memory of a store beyond its document.
const STORE: usize = 2048 + OBSERVED + UNRECORDED;

/// Allocations of concurrent tests would count.
static ALONE: Mutex<()> = Mutex::new(());

/// How often each object is used.
const USES: u64 = 1_000;

/// The currently allocated bytes.
fn bytes() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated - stats.bytes_deallocated
}

/// So often it is measured until the bytes are the same twice in a row. Then the least counts.
const ATTEMPTS: usize = 20;

/// The bytes of the value that `make` returns. One-time allocations do not count, nor does what the
/// test harness allocates or frees meanwhile: that is not the same twice in a row.
fn kept<T>(make: impl Fn() -> T) -> usize {
    drop(make());
    let kept = || {
        let before = bytes();
        let made = make();
        let kept = bytes().wrapping_sub(before);
        drop(made);
        kept
    };
    let mut seen = vec![kept()];
    while seen.len() < ATTEMPTS {
        let next = kept();
        if seen.last() == Some(&next) {
            return next;
        }
        seen.push(next);
    }
    seen.into_iter().min().unwrap()
}

/// Times from 100 nanoseconds to a millisecond, spread evenly over these four decades.
fn times() -> impl Iterator<Item = Duration> {
    let mut seed = 1u64;
    (0..USES).map(move |_| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let power = (seed >> 40) as f64 / (1u64 << 24) as f64;
        Duration::from_secs_f64(1e-7 * 10f64.powf(4.0 * power))
    })
}

fn within(bound: usize, what: &str, kept: usize) {
    println!("{what}: {kept} bytes");
    assert!(kept <= bound, "{what}: {kept} bytes");
}

/// A store with a paragraph, on a clock that the test moves.
fn store(clock: &ManualClock) -> DataStore {
    let store = DataStore::with_options(StoreOptions::new().clock(clock.clock()));
    let mut transaction = store.begin("setup").unwrap();
    let paragraph = NodeSpec::new("paragraph").with_id("p").with_text("a");
    transaction.create(paragraph).unwrap();
    transaction.commit().unwrap();
    store
}

/// Each histogram took 37 kB from the beginning, so an idle lock took 75 kB and ten thousand idle
/// stores 780 MB.
#[test]
fn idle_objects_are_small_also_after_uncontended_use() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let clock = ManualClock::new();
    within(LOCK, "a lock", kept(FifoLock::new));
    let used = kept(|| {
        let lock = FifoLock::with_options(LockOptions::new().clock(clock.clock()));
        for nanoseconds in 0..USES {
            let guard = lock.lock("ann").unwrap();
            clock.advance(Duration::from_nanos(nanoseconds % 100));
            drop(guard);
        }
        lock
    });
    within(LOCK, "a lock that was used", used);

    let document = kept(Snapshot::default);
    let idle = kept(DataStore::new) - document;
    within(STORE, "a store beyond its document", idle);
    let holds = kept(|| {
        let store = DataStore::with_options(StoreOptions::new().clock(clock.clock()));
        for time in times() {
            let guard = store.lock("ann").unwrap();
            clock.advance(time);
            drop(guard);
        }
        store
    });
    within(STORE, "a store whose lock was used", holds - document);
    within(
        LOCK,
        "its lock",
        holds - document - idle + kept(FifoLock::new),
    );

    let before = kept(|| store(&clock));
    let commits = kept(|| {
        let store = store(&clock);
        for (time, text) in times().zip(["b", "a"].into_iter().cycle()) {
            let mut transaction = store.begin("ann").unwrap();
            transaction.set_text("p", text).unwrap();
            clock.advance(time);
            transaction.commit().unwrap();
        }
        store
    });
    within(STORE, "a store with commits", idle + commits - before);
    let nodes = kept(|| {
        let store = store(&clock);
        for time in times() {
            let guard = store.node_locks().lock("ann", Scope::new().write("p"));
            clock.advance(time);
            drop(guard.unwrap());
        }
        store
    });
    within(STORE, "a store with locks on nodes", idle + nodes - before);

    let published = kept(|| {
        let store = store(&clock);
        for (time, text) in times().zip(["b", "a"].into_iter().cycle()) {
            let mut transaction = store.begin_on("ann", Scope::new().write("p")).unwrap();
            transaction.set_text("p", text).unwrap();
            clock.advance(time);
            transaction.commit().unwrap();
        }
        store
    });
    // With the lock under which transactions on nodes publish.
    let size = idle + published - before;
    within(STORE + LOCK, "a store with commits on nodes", size);

    let limiter = || -> InFlightLimiter<u64> {
        InFlightLimiter::with_options(LimiterOptions::new(4).clock(clock.clock()))
    };
    within(LOCK, "a limiter", kept(limiter));
    let used = kept(|| {
        let limiter = limiter();
        for (time, key) in times().zip(0..) {
            limiter.run(key, |_| clock.advance(time)).unwrap();
        }
        limiter
    });
    within(LOCK, "a limiter that was used", used);

    let keyed = || -> KeyedLock<String> {
        KeyedLock::with_options(KeyedOptions::new().clock(clock.clock()))
    };
    within(KEYED, "a keyed lock", kept(keyed));
    let used = kept(|| {
        let keyed = keyed();
        for (time, key) in times().zip(0..) {
            let key = key.to_string();
            let executed = keyed.execute_exclusive(key.as_str(), || clock.advance(time));
            executed.unwrap();
        }
        keyed
    });
    within(KEYED_USED, "a keyed lock that was used", used);
}

/// An inbox kept 43 MB for a million pruned events: the capacity of its pruning list.
#[test]
fn an_inbox_keeps_no_memory_of_pruned_events() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let clock = ManualClock::new();
    let day = |day: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(day * 24 * 3600);
    let inbox = |events: u64| {
        let store = store(&clock);
        let inbox = Inbox::new(&store, "orders");
        for nth in 0..events {
            let event = (format!("evt-{nth}"), day(1), ());
            inbox.process(&event, |_, _| Ok(())).unwrap();
        }
        assert_eq!(inbox.prune(day(2)) as u64, events);
        inbox
    };
    let idle = kept(|| inbox(1));
    let pruned = kept(|| inbox(20_000));
    println!("an inbox: {idle} bytes, {pruned} after events that were pruned");
    // Capacity for a few events is kept.
    assert!(pruned <= idle + 4 * LOCK, "{idle} bytes, then {pruned}");
}

/// Each keystroke kept two full lists of marks: with ten thousand marks, a thousand keystrokes took
/// 560 MB of history.
#[test]
fn undo_01_a_keystroke_keeps_no_marks_in_the_history() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    const KEYSTROKES: usize = 500;
    const MARKS: usize = 2_000;
    let history = |typed: bool| {
        let store = DataStore::new();
        let mut transaction = store.begin("setup").unwrap();
        let marks = (0..MARKS).map(|nth| Mark::new("bold", 3 * nth..3 * nth + 2));
        let text = NodeSpec::new("text")
            .with_id("t")
            .with_text("abc".repeat(MARKS));
        transaction.create(text.with_marks(marks)).unwrap();
        transaction.commit().unwrap();
        let editor = Editor::new(store, "ann");
        for nth in 0..KEYSTROKES {
            // Within marks, at changing positions, so no keystroke joins the last one.
            let at = 3 * (nth * 7_919 % MARKS) + 1;
            let keystroke = match nth % 2 {
                0 => insert_text(at, "x"),
                _ => delete_text_range(at, at + 1),
            };
            let result = editor.execute([keystroke.on("t")]).unwrap();
            assert!(!typed || result.version as usize == nth + 2);
            if !typed {
                editor.clear_history();
            }
        }
        editor
    };
    let kept = kept(|| history(true)) - kept(|| history(false));
    within(KEYSTROKES * 1024, "keystrokes beside marks", kept);
}

/// An inbox took 8 kB before its first event and 46 kB with a few hundred, and lived as long as its
/// store.
#[test]
fn an_inbox_takes_memory_only_for_its_events_and_none_after_its_removal() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    const INBOXES: usize = 1_000;
    let clock = ManualClock::new();
    let store = store(&clock);
    let filled = |name: usize, events: u64| {
        let inbox = Inbox::new(&store, name.to_string());
        for nth in 0..events {
            let event = (format!("evt-{nth}"), ());
            inbox.process(&event, |_, _| Ok(())).unwrap();
        }
        inbox
    };
    // The store allocates something for its first inbox.
    filled(0, 1).remove().unwrap();
    let before = bytes();
    let unused: Vec<Inbox> = (0..INBOXES).map(|name| filled(name, 0)).collect();
    let handles = unused.capacity() * size_of::<Inbox>();
    // The test harness may allocate something meanwhile.
    within(
        handles + LOCK,
        "inboxes without a message",
        bytes() - before,
    );
    drop(unused);

    for (events, bound) in [(1, 2 * LOCK), (300, 300 * 160)] {
        let mut inboxes = Vec::with_capacity(INBOXES);
        let before = bytes();
        inboxes.extend((0..INBOXES).map(|name| filled(name, events)));
        within(bound, "an inbox with events", (bytes() - before) / INBOXES);
        inboxes.iter().for_each(|inbox| inbox.remove().unwrap());
        // Capacity for a few in the table of inboxes.
        let kept = bytes().saturating_sub(before);
        within(2 * LOCK, "a thousand inboxes that were removed", kept);
    }
}

/// Dead events without a time could not be forgotten.
#[test]
fn an_inbox_keeps_no_memory_of_pruned_events_without_a_time() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let clock = ManualClock::new();
    let inbox = |events: u64| {
        let inbox = Inbox::new(&store(&clock), "orders");
        for nth in 0..events {
            let event = (format!("evt-{nth}"), ());
            inbox.process(&event, |_, _| Ok(())).unwrap();
            let event = (format!("bad {nth}"), ());
            inbox
                .process(&event, |_, _| Err(HandlerError::poison("bad")))
                .unwrap();
        }
        assert_eq!(inbox.prune_untimed(Duration::ZERO) as u64, 2 * events);
        inbox
    };
    let idle = kept(|| inbox(1));
    let pruned = kept(|| inbox(10_000));
    println!("an inbox: {idle} bytes, {pruned} after events that were forgotten");
    assert!(pruned <= idle + 4 * LOCK, "{idle} bytes, then {pruned}");
}
