//! A copy of a store has everything: the document, and what keeps effects from happening twice.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use doclock::durable::OpenError;
use doclock::inbox::{HandlerError, Inbox, Outcome};
use doclock::lock::AcquireOptions;
use doclock::{DataStore, TransactionManager, View, dsl::*};

use crate::{Folder, add, later};

const HOUR: Duration = Duration::from_secs(3600);

/// The JSON of a snapshot was called a complete backup, and a message had its effect again.
#[test]
fn durable_11_what_had_its_effect_before_a_copy_has_none_again() {
    let folder = Folder::new();
    for store in [folder.open(), DataStore::new()] {
        let path = folder
            .0
            .path()
            .join(format!("{}.doclock", store.durable_snapshot().is_some()));
        add(&store, "n");
        let pay = |store: &DataStore, sent: u64| {
            let message = ("evt", SystemTime::UNIX_EPOCH + Duration::from_secs(sent), 1);
            Inbox::new(store, "payments").process(&message, |on, _| {
                Ok(on.set_attrs("n", [("paid", sent.into())])?)
            })
        };
        assert!(matches!(pay(&store, 50), Ok(Outcome::Done { .. })));
        let inbox = Inbox::new(&store, "payments");
        let poison = inbox.process(&("bad", 1), |_, _| Err(HandlerError::poison("no")));
        assert!(poison.unwrap().is_settled());
        assert!(inbox.process(&("", 1), |_, _| Ok(())).unwrap().is_settled());
        let old = ("old", SystemTime::UNIX_EPOCH, 1);
        inbox.process(&old, |_, _| Ok(())).unwrap();
        inbox.prune(SystemTime::UNIX_EPOCH + Duration::from_secs(1));
        let manager = TransactionManager::new(store.clone());
        let keyed = || insert_text(0, "x").on("n");
        let first = manager
            .transaction(keyed())
            .idempotent("k")
            .commit()
            .unwrap();
        let lease = store.leases().acquire("n", "ann", HOUR).unwrap();

        let version = store.backup(&path).unwrap();
        add(&store, "after");
        let copy = DataStore::open(&path).unwrap();
        assert_eq!((version, copy.version()), (first.version, first.version));
        assert!(!copy.snapshot().contains("after"));
        assert_eq!(pay(&copy, 50).unwrap(), Outcome::Duplicate);
        let inbox = Inbox::new(&copy, "payments");
        assert_eq!(
            inbox.process(&("bad", 1), |_, _| Ok(())).unwrap(),
            Outcome::AlreadyDead
        );
        assert_eq!(inbox.process(&old, |_, _| Ok(())).unwrap(), Outcome::TooOld);
        assert_eq!(inbox.dead_letters().len(), 2);
        let manager = TransactionManager::new(copy.clone());
        let again = manager
            .transaction(keyed())
            .idempotent("k")
            .commit()
            .unwrap();
        assert!(again.repeated && again.version == first.version);
        assert_eq!(copy.leases().list()[0].fencing_token, lease.fencing_token());
        assert!(copy.leases().acquire("n", "bob", HOUR).is_err());
        // Nothing is overwritten.
        assert_eq!(store.backup(&path).unwrap_err(), OpenError::Exists);
    }
}

/// Each key has its effect in the copy if and only if the copy has its receipt.
#[test]
fn durable_11_a_copy_beside_running_commits_is_of_one_moment() {
    let folder = Folder::new();
    let store = folder.open_with(later());
    add(&store, "n");
    let end = AtomicBool::new(false);
    let key = |thread: u64, nth: u64| format!("{thread}-{nth}");
    thread::scope(|scope| {
        for thread in 0..2 {
            let (store, end) = (store.clone(), &end);
            scope.spawn(move || {
                let manager = TransactionManager::new(store);
                // A larger document takes the longer to copy and to open.
                for nth in (0..4_000).take_while(|_| !end.load(Ordering::Relaxed)) {
                    let key = key(thread, nth);
                    let node = create(text_node("p", "").with_id(key.as_str()));
                    // The disk may be slower than the commits.
                    let options = AcquireOptions::new().no_timeout();
                    manager
                        .transaction(node)
                        .idempotent(key)
                        .options(options)
                        .commit()
                        .unwrap();
                }
            });
        }
        for nth in 0..5 {
            let path = folder.0.path().join(format!("copy-{nth}"));
            let version = store.backup(&path).unwrap();
            let copy = DataStore::open(path).unwrap();
            assert_eq!(copy.version(), version);
            let manager = TransactionManager::new(copy.clone());
            for thread in 0..2 {
                let has = |nth: &u64| copy.snapshot().contains(key(thread, *nth).as_str());
                let next = (0..).find(|nth| !has(nth)).unwrap();
                let run = |nth: u64| {
                    let key = key(thread, nth);
                    let node = create(text_node("p", "").with_id(key.as_str()));
                    manager.transaction(node).idempotent(key).commit().unwrap()
                };
                assert!(!run(next).repeated);
                if let Some(last) = next.checked_sub(1) {
                    assert!(run(last).repeated);
                }
            }
        }
        end.store(true, Ordering::Relaxed);
    });
}
