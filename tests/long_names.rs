//! Error texts with names of megabytes: each shows the beginning of a name, and its fields have the
//! complete name.

use std::error::Error;
use std::fmt::Display;
use std::thread;
use std::time::Duration;

use doclock::dsl::*;
use doclock::{
    DataStore, NodeId, StoreOptions, TransactionManager,
    document::{Mark, NodeSpec},
    inbox::{HandlerError, Inbox, InboxOptions, Outcome},
    lease::LeaseTarget,
    lock::{AcquireOptions, CancelToken, LockError, limiter::InFlightLimiter, node::Scope},
    schema::{NodeType, Schema},
    time::ManualClock,
    transaction::{IdempotencyMismatch, Operation, TransactionError},
};

const LEN: usize = 1 << 20;

fn long(letter: char) -> String {
    letter.to_string().repeat(LEN)
}

/// Asserts that an error text has the beginning of each name, and none completely.
#[track_caller]
fn assert_brief(error: &dyn Display, names: &[char]) {
    let text = error.to_string();
    assert!(text.len() < 4096, "{} bytes: {}", text.len(), &text[..4096]);
    assert!(text.contains("bytes)"), "{text}");
    for name in names {
        let beginning: String = std::iter::repeat_n(*name, 100).collect();
        assert!(text.contains(&beginning), "{text}");
    }
}

fn store() -> (DataStore, ManualClock) {
    let clock = ManualClock::new();
    let options = StoreOptions::new().clock(clock.clock());
    (DataStore::with_options(options), clock)
}

/// Every timeout behind an owner with a name of a megabyte repeated that name.
#[test]
fn errors_of_the_lock_show_owners_and_labels_in_brief() {
    let (store, clock) = store();
    let options = || AcquireOptions::new().label(long('l')).unbound();
    let guard = store.request(long('o')).options(options()).wait().unwrap();
    let no_wait = options().no_wait();
    let error = store
        .request(long('p'))
        .options(no_wait)
        .wait()
        .unwrap_err();
    assert_brief(&error, &['o', 'l', 'p']);
    let LockError::WouldBlock { owner, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(owner.as_str(), long('p'));

    let bounded = options().queue_bound(0);
    assert_brief(
        &store
            .request(long('p'))
            .options(bounded)
            .wait()
            .unwrap_err(),
        &['p'],
    );
    let token = CancelToken::new();
    token.cancel();
    let cancelled = options().cancel_token(&token);
    assert_brief(
        &store
            .request(long('p'))
            .options(cancelled)
            .wait()
            .unwrap_err(),
        &['p'],
    );
    let waiting = |count| {
        while store.queue_length() != count {
            thread::yield_now();
        }
    };
    let limit = Duration::from_secs(1);
    thread::scope(|scope| {
        let first = scope.spawn(|| {
            store
                .request(long('q'))
                .options(options().no_timeout())
                .wait()
        });
        waiting(1);
        let second = scope.spawn(|| {
            store
                .request(long('p'))
                .options(options().timeout(limit))
                .wait()
        });
        waiting(2);
        assert_brief(&store.diagnostics().lock, &['o', 'l', 'p', 'q']);
        clock.advance(limit);
        let error = second.join().unwrap().unwrap_err();
        assert_brief(&error, &['o', 'l', 'p', 'q']);
        drop(guard);
        drop(first.join().unwrap().unwrap());
    });
    let _own = store.lock(long('o').as_str()).unwrap();
    assert_brief(&store.lock("p").unwrap_err(), &['o']);
}

#[test]
fn errors_of_nodes_show_ids_in_brief() {
    let (store, _clock) = store();
    let locks = store.node_locks();
    let id = NodeId::from(long('n'));
    let options = || AcquireOptions::new().no_wait().unbound();
    let scope = || Scope::new().write(id.clone());
    let _guard = locks
        .request(long('o'), scope())
        .options(options())
        .wait()
        .unwrap();
    let error = locks
        .request(long('p'), scope())
        .options(options())
        .wait()
        .unwrap_err();
    assert_brief(&error, &['o', 'p']);
}

#[test]
fn errors_of_transactions_show_names_in_brief() {
    let (store, _clock) = store();
    let manager = TransactionManager::for_owner(store.clone(), long('o'));
    let id = long('n');
    let note = text_node("note", "text").with_id(id.as_str());
    manager.execute([create(note.clone())]).unwrap();
    let node = NodeId::from(id.as_str());
    let cases: [(Operation, &[char]); 11] = [
        (delete_node().on(long('m')), &['m']),
        (create(note), &['n']),
        (insert_text(9, "x").on(&node), &['n']),
        (delete_text_range(3, 9).on(&node), &['n']),
        (delete_node().on(alias(long('a'))), &['a']),
        (utf16([insert_text(9, "x").on(&node)]).remove(0), &['n']),
        (
            utf16([set_marks([Mark::new(long('k'), 0..9)]).on(&node)]).remove(0),
            &['k', 'n'],
        ),
        (insert_text(0, "x").on(&node).named(long('a')), &['a']),
        (move_node(&node, 0).on(&node), &['n']),
        (
            replace_pattern(format!("({}", long('r')), "x").on(&node),
            &['r'],
        ),
        (
            update_mark(long('k'), [("a", 1.into())], 0..4).on(&node),
            &['k', 'n'],
        ),
    ];
    for (operation, names) in cases {
        let name = operation.name();
        let error = manager.execute([operation]).expect_err(name);
        assert_brief(&error, names);
        if let Some(source) = error.source() {
            assert!(source.to_string().len() < 4096, "{name}");
        }
    }
    let key = long('y');
    let once = |text: &'static str| {
        let operation = set_text(text).on(&node);
        manager.transaction([operation]).idempotent(&key).commit()
    };
    once("first").unwrap();
    let error = once("second").unwrap_err();
    assert_brief(&error, &['y']);
    let TransactionError::IdempotencyMismatch(IdempotencyMismatch { key: whole, .. }) = error
    else {
        panic!("{error}");
    };
    assert_eq!(whole, key);
    assert_brief(&long('x').parse::<doclock::LockId>().unwrap_err(), &['x']);
}

#[test]
fn errors_of_leases_show_owners_and_targets_in_brief() {
    let (store, clock) = store();
    let second = Duration::from_secs(1);
    let targets = || (0..100).map(|nth| LeaseTarget::from(format!("{nth:02}{}", long('n'))));
    let targets = || targets().collect::<doclock::lease::LeaseTargets>();
    let mut lease = store
        .leases()
        .acquire(targets(), long('o'), second)
        .unwrap();
    let error = store
        .leases()
        .acquire(targets(), "other", second)
        .unwrap_err();
    assert_brief(&error, &['o', 'n']);
    clock.advance(second);
    let error = lease.renew(second).unwrap_err();
    assert_brief(&error, &['o', 'n']);
    assert!(error.to_string().contains(" and 92 more"), "{error}");
}

#[test]
fn errors_of_inboxes_show_events_in_brief() {
    let (store, _clock) = store();
    let inbox = Inbox::with_options(&store, long('i'), InboxOptions::new());
    let event = long('e');
    let dead = inbox.process(&(event.as_str(), ()), |_, _| {
        Err(HandlerError::poison("no"))
    });
    let Outcome::Dead(letter) = dead.unwrap() else {
        panic!();
    };
    assert_brief(&letter, &['e']);
    assert_eq!(letter.event_id, event);
    let other = (long('f'), ());
    let claim = inbox.claim(&other).unwrap();
    let transaction = DataStore::new().begin("stranger").unwrap();
    assert_brief(&claim.commit(transaction).unwrap_err(), &['f']);
}

#[test]
fn errors_of_keys_and_schemas_show_names_in_brief() {
    let limiter: InFlightLimiter<String> = InFlightLimiter::new(1);
    let _permit = limiter.request(long('k')).no_wait().wait().unwrap();
    assert_brief(
        &limiter.request(long('k')).no_wait().wait().unwrap_err(),
        &['k'],
    );

    let schema = Schema::builder().node("note", NodeType::new()).build();
    let store = DataStore::with_options(StoreOptions::new().schema(schema.unwrap()));
    let mut transaction = store.begin("ann").unwrap();
    let node = NodeSpec::new(long('t')).with_id(long('n'));
    let error = transaction.create(node).unwrap_err();
    assert_brief(&error, &['t', 'n']);
    assert!(format!("{:?}", NodeId::from(long('n'))).len() < 256);
}
