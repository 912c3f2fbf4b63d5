//! Receipts, the events of inboxes, and leases: they survive with the commits that they belong to.

use std::time::{Duration, SystemTime};

use doclock::durable::DurableOptions;
use doclock::inbox::{EventState, HandlerError, Inbox, Outcome};
use doclock::lease::LeaseTarget;
use doclock::time::ManualClock;
use doclock::transaction::{IdempotencyKey, TransactionResult};
use doclock::{
    DataStore, Editor, StoreOptions, TransactionManager, View, codes::CodedError, dsl::*,
};

use crate::memory::{Failure, Memory};
use crate::{add, later};

const MINUTE: Duration = Duration::from_secs(60);

/// What each test checks after a process that ended at once, and after one that closed the store.
fn after_each_end(edit: impl Fn(&DataStore), check: impl Fn(&DataStore)) {
    for options in [
        DurableOptions::new(),
        DurableOptions::new().checkpoint_after(0),
    ] {
        let memory = Memory::default();
        let store = memory.open(options);
        edit(&store);
        store.wait_durable(store.version()).wait().unwrap();
        let ended = memory.copy();
        store.close().unwrap();
        check(&ended.open(DurableOptions::new()));
        // Again, from the checkpoint of the open before.
        check(&ended.open(DurableOptions::new()));
        check(&memory.open(DurableOptions::new()));
    }
}

fn once(store: &DataStore, key: &str) -> TransactionResult {
    let manager = TransactionManager::new(store.clone());
    let node = create(text_node("paragraph", "Hello"));
    manager.transaction(node).idempotent(key).commit().unwrap()
}

#[test]
fn durable_04_a_key_returns_its_first_result_after_a_restart() {
    let first = std::cell::RefCell::new(Vec::new());
    after_each_end(
        |store| {
            *first.borrow_mut() = ["a", "b", "a"].map(|key| once(store, key)).to_vec();
        },
        |store| {
            let again = ["a", "b"].map(|key| once(store, key));
            assert_eq!(store.version(), 2);
            for (first, again) in first.borrow().iter().zip(&again) {
                assert!(again.repeated);
                assert_eq!(again.transaction_id, first.transaction_id);
                assert_eq!(again.version, first.version);
                assert_eq!(again.operations, first.operations);
            }
            // The key still stands for its batch.
            let manager = TransactionManager::new(store.clone());
            let other = create(text_node("paragraph", "other"));
            let error = manager.transaction(other).idempotent("a").commit();
            assert_eq!(error.unwrap_err().code(), "idempotencyMismatch");
        },
    );
}

#[test]
fn durable_04_an_undo_with_a_key_is_not_undone_again_after_a_restart() {
    after_each_end(
        |store| {
            let editor = Editor::new(store.clone(), "ann");
            editor
                .execute(create(text_node("paragraph", "one").with_id("a")))
                .unwrap();
            editor.execute(set_text("two").on("a")).unwrap();
            editor.undo().idempotent("key").commit().unwrap();
        },
        |store| {
            let editor = Editor::new(store.clone(), "ann");
            let again = editor.undo().idempotent("key").commit().unwrap();
            assert!(again.repeated);
            assert_eq!((store.version(), again.version), (3, 3));
        },
    );
}

/// A transaction that changes nothing makes no version, but its key is used up.
#[test]
fn durable_04_the_receipt_of_a_transaction_without_changes_survives() {
    let memory = Memory::default();
    let store = memory.open(DurableOptions::new());
    add(&store, "a");
    let nothing = || set_text("a").on("a");
    let manager = TransactionManager::new(store);
    let first = manager
        .transaction(nothing())
        .idempotent("key")
        .commit()
        .unwrap();
    assert!(!first.changed);
    // It was durable when the call returned.
    let ended = memory.copy();
    let manager = TransactionManager::new(ended.open(DurableOptions::new()));
    let again = manager
        .transaction(nothing())
        .idempotent("key")
        .commit()
        .unwrap();
    assert!(again.repeated);
    assert_eq!(again.transaction_id, first.transaction_id);
}

#[test]
fn the_latest_receipts_are_remembered_across_restarts() {
    let options = || DurableOptions::new().store(StoreOptions::new().remembered_keys(2));
    let memory = Memory::default();
    let store = memory.open(options());
    for key in ["a", "b", "c"] {
        assert!(!once(&store, key).repeated);
    }
    let store = memory.copy().open(options());
    assert!(once(&store, "b").repeated && once(&store, "c").repeated);
    assert!(!once(&store, "a").repeated, "forgotten");
    assert!(!once(&store, "b").repeated, "forgotten by the one before");
    drop(store);
    // Fewer than are stored.
    let fewer = DurableOptions::new().store(StoreOptions::new().remembered_keys(1));
    drop(memory.open(fewer.clone()));
    let store = memory.open(options());
    assert!(once(&store, "c").repeated);
    assert!(!once(&store, "b").repeated);
}

fn deliver(inbox: &Inbox, message: (&str, u64)) -> Outcome {
    let (id, day) = message;
    let sent_at = SystemTime::UNIX_EPOCH + Duration::from_secs(24 * 3600 * day);
    let effect = |transaction: &mut doclock::Draft, message: &(&str, SystemTime, ())| {
        if message.0.starts_with("bad") {
            return Err(HandlerError::poison("unknown currency"));
        }
        if message.0 != "nothing" {
            transaction
                .create(text_node("paragraph", message.0))
                .unwrap();
        }
        Ok(())
    };
    inbox.process(&(id, sent_at, ()), effect).unwrap()
}

#[test]
fn durable_04_a_redelivered_message_has_no_second_effect_after_a_restart() {
    after_each_end(
        |store| {
            let inbox = Inbox::new(store, "payments");
            for message in [("one", 1), ("nothing", 2), ("two", 3)] {
                assert!(matches!(deliver(&inbox, message), Outcome::Done { .. }));
            }
        },
        |store| {
            let inbox = Inbox::new(store, "payments");
            for message in [("one", 1), ("nothing", 2), ("two", 3)] {
                assert!(
                    matches!(deliver(&inbox, message), Outcome::Duplicate),
                    "{message:?}"
                );
            }
            assert_eq!((store.version(), store.snapshot().len()), (2, 2));
            let state = inbox.event("one");
            assert!(
                matches!(state, Some(EventState::Done { attempts: 1, .. })),
                "{state:?}"
            );
            // The same event of another inbox is another event.
            let other = Inbox::new(store, "other");
            assert_eq!(other.event("one"), None);
        },
    );
}

/// A claim is not stored: without its commit the message has had no effect.
#[test]
fn durable_04_a_message_that_was_only_claimed_is_handled_after_a_restart() {
    let memory = Memory::default();
    let store = memory.open(DurableOptions::new());
    let claim = Inbox::new(&store, "payments").claim(&("one", ())).unwrap();
    add(&store, "a");
    let store = memory.copy().open(DurableOptions::new());
    let next = Inbox::new(&store, "payments").claim(&("one", ())).unwrap();
    assert!(next.token() > claim.token());
    assert_eq!(next.attempt(), 1);
}

#[test]
fn dead_revived_pruned_and_removed_events_stay_so_after_a_restart() {
    after_each_end(
        |store| {
            let inbox = Inbox::new(store, "payments");
            for message in [
                ("old", 1),
                ("one", 2),
                ("bad 1", 2),
                ("bad 2", 3),
                ("bad 3", 3),
            ] {
                deliver(&inbox, message);
            }
            assert!(inbox.revive("bad 2") && inbox.forget("bad 3"));
            let day = Duration::from_secs(24 * 3600);
            assert_eq!(inbox.prune(SystemTime::UNIX_EPOCH + 2 * day), 1);
            let removed = Inbox::new(store, "removed");
            deliver(&removed, ("one", 1));
            removed.remove().unwrap();
            add(store, "a");
        },
        |store| {
            let inbox = Inbox::new(store, "payments");
            let dead = inbox.dead_letters();
            assert_eq!(dead.len(), 1, "{dead:?}");
            assert_eq!(
                (&*dead[0].event_id, &*dead[0].error),
                ("bad 1", "unknown currency")
            );
            assert!(matches!(
                deliver(&inbox, ("bad 1", 2)),
                Outcome::AlreadyDead
            ));
            assert!(matches!(deliver(&inbox, ("old", 1)), Outcome::TooOld));
            assert!(matches!(deliver(&inbox, ("one", 2)), Outcome::Duplicate));
            let due = inbox.event("bad 2");
            assert!(
                matches!(due, Some(EventState::Waiting { attempts: 0, .. })),
                "{due:?}"
            );
            assert_eq!(inbox.event("bad 3"), None);
            assert_eq!(Inbox::new(store, "removed").event("one"), None);
        },
    );
}

/// It was too old after a restart: the watermark of a prune was stored, and the event was not.
#[test]
fn inbox_05_an_event_that_is_not_done_outlives_a_prune_and_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy.doclock");
    let day = |day: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(24 * 3600 * day);
    after_each_end(
        |store| {
            let inbox = Inbox::new(store, "payments");
            let message = |id| (id, day(10), ());
            let transient = |_: &mut doclock::Draft, _: &_| Err(HandlerError::transient("later"));
            let retried = inbox.process(&message("waiting"), transient);
            assert!(matches!(retried, Ok(Outcome::Retry { .. })));
            let claims = ["given up", "claimed"].map(|id| inbox.claim(&message(id)).unwrap());
            let [given_up, claimed] = claims;
            deliver(&inbox, ("bad revived", 10));
            assert!(inbox.revive("bad revived"));
            for old in ["finished", "gone"] {
                drop(inbox.claim(&message(old)).unwrap());
            }
            deliver(&inbox, ("new", 15));
            assert_eq!(inbox.prune(day(20)), 1);
            drop(given_up);
            deliver(&inbox, ("finished", 10));
            let _ = std::fs::remove_file(&copy);
            store.backup(&copy).unwrap();
            store.wait_durable(add(store, "last")).wait().unwrap();
            std::mem::forget(claimed);
        },
        |store| {
            for store in [store, &DataStore::open(&copy).unwrap()] {
                let inbox = Inbox::new(store, "payments");
                assert_eq!(deliver(&inbox, ("finished", 10)), Outcome::Duplicate);
                assert_eq!(deliver(&inbox, ("unknown", 10)), Outcome::TooOld);
                for event in ["waiting", "given up", "claimed", "bad revived", "gone"] {
                    let claim = inbox.claim(&(event, day(10), ()));
                    assert!(claim.is_ok(), "{event}: {claim:?}");
                }
            }
        },
    );
}

#[test]
fn durable_04_a_lease_lasts_until_its_end_across_a_restart() {
    let tokens = std::cell::Cell::new([doclock::FencingToken::from(0); 4]);
    after_each_end(
        |store| {
            let kept = store.leases().acquire("kept", "ann", MINUTE).unwrap();
            let mut renewed = store
                .leases()
                .acquire(["x", "y"], "bob", Duration::from_nanos(1))
                .unwrap();
            // It may have ended already.
            if renewed.renew(60 * MINUTE).is_err() {
                renewed = store
                    .leases()
                    .acquire(["x", "y"], "bob", 60 * MINUTE)
                    .unwrap();
            }
            let released = store
                .leases()
                .acquire(LeaseTarget::from("released"), "ann", MINUTE)
                .unwrap();
            let ended = store
                .leases()
                .acquire("ended", "ann", Duration::from_nanos(1))
                .unwrap();
            tokens.set([&kept, &renewed, &released, &ended].map(Into::into));
            released.release().unwrap();
            add(store, "a");
        },
        |store| {
            let [kept, renewed, released, ended] = tokens.get();
            let leases = store.leases().list();
            let found: Vec<_> = leases.iter().map(|lease| lease.fencing_token).collect();
            assert_eq!(found, [kept, renewed]);
            let kept = store.leases().by_token(kept).unwrap();
            assert!(kept.remaining() <= MINUTE && kept.owner().as_str() == "ann");
            assert!(store.leases().by_token(released).is_none());
            assert!(store.leases().by_token(ended).is_none());
            assert_eq!(
                store.leases().holder("y").unwrap().lease.owner_id.as_str(),
                "bob"
            );
            let refused = store.leases().acquire("x", "eve", MINUTE).unwrap_err();
            assert_eq!(refused.code(), "leaseConflict");
            let next = store.leases().acquire("released", "eve", MINUTE).unwrap();
            assert!(next.fencing_token() > ended);
            // A transaction under the lease of the process before.
            let mut transaction = store.begin("ann").unwrap();
            transaction.require(&kept).unwrap();
            transaction.rollback();
            next.release().unwrap();
        },
    );
}

/// A lease is stored before each commit that requires it, so it is known whenever the commit is.
#[test]
fn durable_04_no_commit_is_stored_without_the_lease_that_it_required() {
    for at in 2..8 {
        let memory = Memory::default();
        let store = memory.open(later());
        memory.fail_at(at, Failure::Before);
        for nth in 0..6 {
            let id = format!("{nth}");
            let Ok(lease) = store.leases().acquire(&*id, "ann", MINUTE) else {
                break;
            };
            let mut transaction = store.begin("ann").unwrap();
            transaction.require(&lease).unwrap();
            transaction
                .create(text_node("x", "").with_id(&*id))
                .unwrap();
            let committed = transaction.commit();
            if committed.is_err() || store.wait_durable(nth + 1).wait().is_err() {
                break;
            }
        }
        drop(store);
        memory.mend();
        let store = memory.open(DurableOptions::new());
        for node in store.snapshot().nodes() {
            assert!(
                store.leases().holder(node.id()).is_some(),
                "write {at}: {}",
                node.id()
            );
        }
    }
}

/// Once each write in turn fails: an effect is stored if and only if its receipt or mark is.
#[test]
fn durable_04_an_effect_is_stored_with_its_receipt_or_mark_or_not_at_all() {
    for failure in [Failure::Before, Failure::After, Failure::Panic] {
        for at in 2..14 {
            let memory = Memory::default();
            let store = memory.open(DurableOptions::new().checkpoint_after(60));
            memory.fail_at(at, failure);
            let work = |store: &DataStore, nth: u64| -> bool {
                let id = format!("{nth}");
                let node = text_node("x", "").with_id(&*id);
                if nth.is_multiple_of(2) {
                    let manager = TransactionManager::new(store.clone());
                    let result = manager.transaction(create(node)).idempotent(&id).commit();
                    return result.is_ok_and(|result| result.repeated);
                }
                let effect = |transaction: &mut doclock::Draft, _: &_| {
                    transaction.create(node).map_err(HandlerError::poison)?;
                    Ok(())
                };
                let outcome = Inbox::new(store, "inbox").process(&(id, ()), effect);
                matches!(outcome, Ok(Outcome::Duplicate))
            };
            for nth in 0..12 {
                work(&store, nth);
            }
            drop(store);
            memory.mend();
            let store = memory.open(DurableOptions::new());
            let stored = store.snapshot();
            for nth in 0..12 {
                let has_effect = stored.contains(format!("{nth}"));
                assert_eq!(work(&store, nth), has_effect, "write {at}, {nth}");
            }
            assert_eq!(store.snapshot().len(), 12, "write {at}");
        }
    }
}

/// A revived event is stored. If its next attempt is withdrawn, it is no event of the inbox.
#[test]
fn a_removed_inbox_stays_empty_after_a_revived_event_was_withdrawn() {
    after_each_end(
        |store| {
            let inbox = Inbox::new(store, "payments");
            let poison = |_: &mut doclock::Draft, _: &_| Err(HandlerError::poison("bad"));
            let outcome = inbox.process(&("one", ()), poison);
            assert!(matches!(outcome, Ok(Outcome::Dead(_))));
            assert!(inbox.revive("one"));
            let held = store.lock("ann").unwrap();
            assert!(inbox.process(&("one", ()), poison).is_err());
            drop(held);
            assert_eq!(inbox.event("one"), None);
            inbox.remove().unwrap();
            add(store, "a");
        },
        |store| assert_eq!(Inbox::new(store, "payments").event("one"), None),
    );
}

/// A sender does not deliver a message again whose outcome is settled.
#[test]
fn durable_04_no_outcome_is_settled_before_it_is_durable() {
    let effect = |transaction: &mut doclock::Draft, _: &_| {
        transaction.create(text_node("x", ""))?;
        Ok(())
    };
    let poison = |_: &mut doclock::Draft, _: &_| Err(HandlerError::poison("bad"));
    // The first write after the open fails, with the effect or with the dead letter.
    let failures = [Failure::Before, Failure::Fenced];
    for (first_is_done, failure) in [true, false]
        .into_iter()
        .flat_map(|it| failures.map(|f| (it, f)))
    {
        let memory = Memory::default();
        let store = memory.open(DurableOptions::new());
        memory.fail_at(2, failure);
        let inbox = Inbox::new(&store, "inbox");
        let first = match first_is_done {
            true => inbox.process(&("one", ()), effect),
            false => inbox.process(&("one", ()), poison),
        };
        let again = inbox.process(&("one", ()), effect);
        // The store is read-only now.
        let others = [
            inbox.process(&("two", ()), effect),
            inbox.process(&("three", ()), poison),
        ];
        for outcome in [first, again].into_iter().chain(others) {
            let outcome = outcome.unwrap();
            assert!(!outcome.is_settled(), "{outcome:?}");
        }
        assert!(!inbox.claim(&("one", ())).unwrap_err().is_settled());
        drop((store, inbox));
        memory.mend();
        let store = memory.open(DurableOptions::new());
        for event in ["one", "two", "three"] {
            let outcome = Inbox::new(&store, "inbox").process(&(event, ()), effect);
            assert!(matches!(outcome, Ok(Outcome::Done { .. })), "{outcome:?}");
        }
    }
}

#[test]
fn a_worker_of_a_store_that_became_read_only_returns_its_messages() {
    let memory = Memory::default();
    let store = memory.open(DurableOptions::new());
    store.close().unwrap();
    let (deliver, messages) = crossbeam_channel::unbounded();
    deliver.send(("one", ())).unwrap();
    drop(deliver);
    let inbox = Inbox::new(&store, "inbox");
    let interrupted = inbox.run(&messages, |transaction, _| {
        transaction.create(text_node("x", ""))?;
        Ok(())
    });
    let interrupted = interrupted.unwrap_err();
    assert_eq!(interrupted.messages, [("one", ())]);
    assert_eq!(interrupted.cause.code(), "commitReadOnly");
}

/// Each succeeded and was not stored, so two owners had the same target after the next open.
#[test]
fn durable_04_a_store_that_became_read_only_changes_no_lease_and_no_event() {
    for failure in [None, Some(Failure::Before)] {
        let memory = Memory::default();
        let store = memory.open(DurableOptions::new());
        let inbox = Inbox::new(&store, "payments");
        deliver(&inbox, ("bad", 1));
        deliver(&inbox, ("old", 1));
        let mut lease = store.leases().acquire("held", "ann", MINUTE).unwrap();
        store.wait_durable(add(&store, "a")).wait().unwrap();
        let ends = lease.expires_at();
        match failure {
            None => drop(store.close().unwrap()),
            Some(failure) => {
                memory.fail_at(1, failure);
                let node = create(text_node("paragraph", "b"));
                TransactionManager::new(store.clone())
                    .execute(node)
                    .unwrap_err();
            }
        }
        let other = store.leases().acquire("free", "ann", MINUTE).map(drop);
        for outcome in [other, lease.renew(60 * MINUTE), lease.release()] {
            let error = outcome.unwrap_err();
            assert_eq!(error.code(), "commitReadOnly", "{error}");
        }
        let found = store.leases().list();
        assert_eq!((found.len(), found[0].expires_at), (1, ends));
        let late = SystemTime::now();
        assert!(!inbox.revive("bad") && !inbox.forget("bad"));
        assert_eq!(
            (inbox.prune(late), inbox.prune_untimed(Duration::ZERO)),
            (0, 0)
        );
        assert_eq!(inbox.dead_letters().len(), 1);
        drop((store, inbox));
        memory.mend();
        let store = memory.open(DurableOptions::new());
        assert_eq!(store.leases().list(), found);
        assert_eq!(Inbox::new(&store, "payments").dead_letters().len(), 1);
    }
}

#[test]
fn durable_04_each_lease_that_was_acquired_before_a_close_is_stored() {
    for _ in 0..20 {
        let memory = Memory::default();
        let store = memory.open(later());
        let acquired = std::thread::scope(|threads| {
            let acquire = |nth: usize| {
                let leases = store.leases();
                let targets = (0..9_000).map(move |target| format!("{nth} {target}"));
                let acquired = targets.map_while(move |it| leases.acquire(it, "ann", MINUTE).ok());
                acquired.map(|it| it.fencing_token()).collect::<Vec<_>>()
            };
            let running = [0, 1].map(|nth| threads.spawn(move || acquire(nth)));
            while store.leases().list().is_empty() {
                std::thread::yield_now();
            }
            store.close().unwrap();
            running.map(|thread| thread.join().unwrap()).concat()
        });
        drop(store);
        let leases = memory.open(DurableOptions::new()).leases();
        for token in acquired {
            assert!(leases.by_token(token).is_some(), "{token}");
        }
    }
}

/// Once its note stayed when another lease took its place, so it returned after a restart.
#[test]
fn durable_04_a_lease_that_ended_does_not_return_by_another_clock() {
    for others in [0, 40] {
        let clock = ManualClock::new();
        let options = StoreOptions::new().clock(clock.clock());
        let memory = Memory::default();
        let store = memory.open(DurableOptions::new().store(options));
        let hour = 60 * MINUTE;
        let _ended = store.leases().acquire("x", "ann", hour).unwrap();
        for nth in 0..others {
            let _ = store
                .leases()
                .acquire(format!("other {nth}"), "ann", 2 * hour)
                .unwrap();
        }
        clock.advance(hour);
        store
            .leases()
            .acquire("x", "bob", hour)
            .unwrap()
            .release()
            .unwrap();
        store.close().unwrap();
        assert!(
            memory
                .open(DurableOptions::new())
                .leases()
                .holder("x")
                .is_none()
        );
    }
}

#[test]
fn a_journal_that_does_not_read_receipts_gets_none() {
    let memory = Memory::default();
    memory.stored().leaves_receipts = true;
    let store = memory.open(DurableOptions::new());
    add(&store, "a");
    assert!(!once(&store, "key").repeated);
    assert_eq!(memory.stored().receipts, []);
    drop(store);
    // The blocks have them.
    assert!(once(&memory.open(DurableOptions::new()), "key").repeated);
}

/// So that a journal can store the outcome of a request in the write of its commit.
#[test]
fn cluster_02_a_write_has_the_receipts_of_its_block() {
    let memory = Memory::default();
    let store = memory.open(DurableOptions::new());
    add(&store, "a");
    assert_eq!(memory.stored().receipts, []);
    let first = once(&store, "key");
    let manager = TransactionManager::new(store.clone());
    let nothing = set_text("a").on("a");
    let second = manager
        .transaction(nothing)
        .idempotent("unchanged")
        .commit()
        .unwrap();
    // A repetition makes no other receipt.
    once(&store, "key");
    let receipts = memory.stored().receipts.clone();
    assert_eq!(receipts.len(), 2);
    for (receipt, result) in receipts.iter().zip([first, second]) {
        assert_eq!(Some(&receipt.key), result.idempotency_key.as_ref());
        assert_eq!(receipt.result.transaction_id, result.transaction_id);
        assert_eq!(receipt.result.version, result.version);
        assert_eq!(receipt.result.operations, result.operations);
        assert!(receipt.result.repeated && receipt.result.changes.is_empty());
    }
    assert_eq!(receipts[0].result.version, 2);
    assert_ne!(receipts[0].digest, receipts[1].digest);
    let unchanged = [set_text("a").on("a")];
    assert_eq!(receipts[1].digest, IdempotencyKey::digest(&unchanged));
    drop((store, manager));
    // Receipts that a checkpoint or an open stores again are not new.
    assert!(once(&memory.open(DurableOptions::new()), "key").repeated);
    assert_eq!(memory.stored().receipts, receipts);
}
