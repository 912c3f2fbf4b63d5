//! The picture as text.

use std::thread;
use std::time::Duration;

use doclock::inbox::{HandlerResult, Inbox};
use doclock::lock::keyed::KeyedLock;
use doclock::lock::limiter::InFlightLimiter;
use doclock::lock::{AcquireOptions, node::Scope};
use doclock::{DataStore, Editor, TransactionManager, dsl::*, events::Filter};
use proptest::prelude::*;

use super::{timed_store, until_waiting};

#[test]
fn the_table_begins_with_the_cause_then_the_holder_and_the_requests_behind_it() {
    let (store, clock) = timed_store();
    let id = store
        .request("ann")
        .label("import")
        .wait()
        .unwrap()
        .into_id();
    clock.advance(Duration::from_millis(500));
    thread::scope(|threads| {
        let ben = thread::Builder::new().name("ui".to_owned());
        ben.spawn_scoped(threads, || drop(store.begin("ben")))
            .unwrap();
        until_waiting(&store, 1);
        let patient = AcquireOptions::new().no_timeout();
        threads.spawn(|| pollster::block_on(store.request("cem").options(patient)).map(drop));
        until_waiting(&store, 2);
        clock.advance(Duration::from_secs(2));
        let table = store.diagnostics().to_string();
        store.release_lock(id).unwrap();

        let lock = id.to_string().split_off("lock-1-".len());
        let (cause, table) = table.split_once("\nLOCK").unwrap();
        let cause = cause.split_whitespace().collect::<Vec<_>>().join(" ");
        let by_no_thread = "CAUSE 2 requests wait for the lock, which no thread holds (ann, …";
        assert!(cause.starts_with(by_no_thread), "{cause}");
        assert!(
            cause.ends_with("): held by a task, by its id, or unbound"),
            "{cause}"
        );
        let lines: Vec<_> = table.lines().take(7).collect();
        let title = format!(
            "            held, 2 requests wait, the longest for 2.0s (#1 is lock-1-{lock})"
        );
        assert_eq!(lines[0], title);
        let words = |line: &str| {
            let words = line
                .split_whitespace()
                .filter(|word| !word.contains(".rs:"));
            words.map(str::to_owned).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(words(lines[1]), "id owner (label) for left from");
        assert_eq!(words(lines[2]), "holds #1 ann (import) 2.5s -");
        let by_id = "no thread: held by a task, by its id, or unbound";
        assert_eq!(words(lines[3]), by_id);
        assert_eq!(words(lines[4]), "1. #2 ben 2.0s 3.0s behind #1");
        assert_eq!(words(lines[5]), "thread ui");
        assert_eq!(words(lines[6]), "2. #3 cem 2.0s - task, behind #2");
    });
}

/// `ann` and `ben` each block others, `ben` one of them through `cem`, who holds and waits too.
#[test]
fn the_holder_that_blocks_most_and_waits_for_nothing_comes_first() {
    let (store, _clock) = timed_store();
    let locks = store.node_locks();
    let lock = |owner: &str, id: &str| {
        let patient = AcquireOptions::new().no_timeout().unbound();
        let request = locks.request(owner, Scope::new().write(id));
        request.options(patient).wait().unwrap()
    };
    let [ann, ben, mut cem] =
        [("ann", "a"), ("ben", "b"), ("cem", "c")].map(|(owner, id)| lock(owner, id));
    let rows = || {
        let table = store.diagnostics().to_string();
        let held = table.lines().filter(|line| line.contains("  holds #"));
        let row = |line: &str| {
            let owner = line.split_whitespace().nth(2).unwrap_or_default();
            let blocks = line.split_once("blocks ").map_or("", |(_, count)| count);
            format!("{owner} {blocks}")
        };
        held.map(row).collect::<Vec<_>>()
    };
    assert_eq!(rows(), ["ann ", "ben ", "cem "]);
    thread::scope(|threads| {
        threads.spawn(|| drop(lock("eve", "a")));
        until_waiting(&store, 1);
        assert_eq!(rows(), ["ann 1", "ben ", "cem "]);
        threads.spawn(|| {
            let more = cem.request_more(Scope::new().write("b"));
            more.options(AcquireOptions::new().no_timeout())
                .wait()
                .unwrap();
            drop(cem);
        });
        until_waiting(&store, 2);
        threads.spawn(|| drop(lock("dan", "c")));
        until_waiting(&store, 3);
        assert_eq!(rows(), ["ben 2", "ann 1", "cem "]);
        // A request for the whole document waits for all of them.
        threads.spawn(|| {
            let patient = AcquireOptions::new().no_timeout();
            store.request("fay").options(patient).wait().map(drop)
        });
        until_waiting(&store, 4);
        assert_eq!(rows(), ["ben 3", "ann 2", "cem "]);
        drop((ann, ben));
    });
}

#[test]
fn a_long_queue_is_cut_and_counted() {
    const WAITERS: usize = 30;
    let store = DataStore::new();
    let id = store.acquire_lock("ann").unwrap();
    thread::scope(|threads| {
        for waiting in 0..WAITERS {
            threads.spawn(|| store.lock("ben").map(drop));
            until_waiting(&store, waiting + 1);
        }
        let table = store.diagnostics().to_string();
        store.release_lock(id).unwrap();
        assert!(table.contains("held, 30 requests wait"), "{table}");
        assert!(table.contains("12.   #13 "), "{table}");
        assert!(table.contains("… and 18 more"), "{table}");
        assert!(!table.contains("13.   #14 "), "{table}");
    });
}

/// Names from clients, with control characters and characters of two columns.
fn name() -> impl Strategy<Value = String> {
    prop_oneof!["\\PC{1,300}", "(?s).{1,60}", "[文🦀]{1,80}", "[a-z]{1,8}"]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_name_makes_a_line_longer_than_a_hundred_columns(
        [owner, label, node, inbox, registered] in [name(), name(), name(), name(), name()],
        wide in any::<bool>(),
    ) {
        let store = DataStore::new();
        let _editor = Editor::new(store.clone(), owner.as_str());
        let _events = store.subscription().matching(Filter::Subtree(node.as_str().into()));
        let limiter = InFlightLimiter::<String>::new(1);
        store.register(&registered, &limiter);
        let _permit = limiter.acquire(node.clone()).unwrap();
        let keyed = KeyedLock::<String>::new();
        store.register(&inbox, &keyed);
        let turn = || keyed.request(&node, owner.as_str()).label(label.as_str()).reserve();
        let _turns = [turn().unwrap(), turn().unwrap()];
        let minute = Duration::from_secs(60);
        let targets: Vec<_> = (0..40).map(|nth| format!("{node}{nth}")).collect();
        let _lease = store.leases().acquire(targets.clone(), owner.as_str(), minute);
        let messages = Inbox::new(&store, inbox.as_str());
        let message = ("first", ());
        let _ = messages.process(&message, |_, _| -> HandlerResult { Ok(()) });
        TransactionManager::new(store.clone())
            .execute(create(text_node("paragraph", "x").with_id(node.as_str())))
            .unwrap();
        let options = || AcquireOptions::new().label(label.as_str()).unbound();
        let locks = store.node_locks();
        let scope = match wide {
            true => targets.iter().fold(Scope::new(), |scope, id| scope.write(id.as_str())),
            false => Scope::new().write(node.as_str()),
        };
        let held = locks.request(owner.as_str(), scope.clone()).options(options()).wait().unwrap();
        let lines = thread::scope(|threads| {
            threads.spawn(|| locks.request(owner.as_str(), scope).options(options()).wait().map(drop));
            threads.spawn(|| store.request(owner.as_str()).options(options()).wait().map(drop));
            until_waiting(&store, 2);
            let table = store.diagnostics().to_string();
            drop(held);
            table.lines().map(str::to_owned).collect::<Vec<_>>()
        });
        prop_assert!(lines.len() > 10);
        for line in lines {
            // At least the wide characters that the names have.
            let wide = line.chars().filter(|character| matches!(character, '文' | '🦀'));
            let columns = line.chars().count() + wide.count();
            prop_assert!(columns <= 100, "{} columns: {}", columns, line);
            prop_assert!(!line.contains(char::is_control), "{:?}", line);
        }
    }
}
