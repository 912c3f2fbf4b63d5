//! Owners of a document: one at a time, in rising epochs.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use doclock::durable::{DurableOptions, Journal};
use doclock::{DataStore, TransactionManager, View, dsl::*};
use doclock_postgres::{LostReason, OwnerEvent, PostgresError, TermOptions};

use crate::support::{
    acquire, block, connect, entries, load, log, name, parameters, short, sql, steal, until,
};

#[test]
fn cluster_01_of_many_that_race_one_is_the_owner_and_epochs_rise() {
    let Some(parameters) = parameters() else {
        return;
    };
    let document = name("race");
    let (owners, last) = (AtomicU32::new(0), AtomicU64::new(0));
    let taken = AtomicU32::new(0);
    thread::scope(|scope| {
        for nth in 0..6 {
            let (parameters, document) = (&parameters, &document);
            let (owners, last, taken) = (&owners, &last, &taken);
            scope.spawn(move || {
                let server = connect(parameters);
                while taken.load(Ordering::Relaxed) < 60 {
                    let (term, mut journal) = acquire(&server, document, &format!("owner {nth}"));
                    assert_eq!(owners.fetch_add(1, Ordering::SeqCst), 0);
                    let before = last.swap(term.epoch(), Ordering::SeqCst);
                    assert!(before < term.epoch(), "{before} and then {}", term.epoch());
                    let number = taken.fetch_add(1, Ordering::Relaxed).to_string();
                    journal
                        .write(&entries(&[("head", Some(&number))], None))
                        .unwrap();
                    assert_eq!(owners.fetch_sub(1, Ordering::SeqCst), 1);
                    term.hand_over().unwrap();
                }
            });
        }
    });
}

#[test]
fn cluster_05_each_step_of_a_term_is_an_event() {
    let Some(parameters) = parameters() else {
        return;
    };
    let server = connect(&parameters);
    let document = name("events");
    let (term, _journal) = acquire(&server, &document, "ann");
    let mut events = Vec::new();
    let is_renewal = |event: &OwnerEvent| matches!(event, OwnerEvent::Renewed { .. });
    // On a busy machine an attempt may have failed.
    let is_attempt =
        |event: &OwnerEvent| is_renewal(event) || matches!(event, OwnerEvent::RenewalFailed { .. });
    until("three renewals", || {
        events.extend(term.events().try_iter());
        events.iter().filter(|event| is_renewal(event)).count() >= 3
    });
    assert!(term.is_owner());
    term.hand_over().unwrap();
    assert!(!term.is_owner());
    assert_eq!(term.lost(), None);
    events.extend(term.events().try_iter());
    events.retain(|event| !is_attempt(event));
    let (owner, epoch) = ("ann".to_owned(), term.epoch());
    let acquired = OwnerEvent::Acquired {
        document: document.clone(),
        owner,
        epoch,
        timeline: 1,
    };
    let expected = serde_json::json!({
        "type": "acquired", "document": document, "owner": "ann", "epoch": epoch, "timeline": 1
    });
    assert_eq!(serde_json::to_value(&acquired).unwrap(), expected);
    assert_eq!(
        events,
        [acquired, OwnerEvent::HandedOver { document, epoch }]
    );
}

#[test]
fn cluster_05_an_owned_document_names_its_owner() {
    let Some(parameters) = parameters() else {
        return;
    };
    let server = connect(&parameters);
    let document = name("held");
    let options = short("ann").address("10.0.0.7:80");
    let (term, _journal) = server.acquire(&document, options).unwrap();
    let began = Instant::now();
    let refused = server.try_acquire(&document, short("bob")).unwrap_err();
    let took = began.elapsed();
    let PostgresError::Held {
        owner,
        address,
        epoch,
        remaining,
        ..
    } = &refused
    else {
        panic!("{refused}")
    };
    assert_eq!((owner.as_str(), *epoch), ("ann", term.epoch()));
    assert_eq!(address.as_deref(), Some("10.0.0.7:80"));
    assert!(*remaining <= Duration::from_millis(600), "{remaining:?}");
    assert!(took < Duration::from_secs(2), "{took:?}");
    let code = serde_json::to_value(&refused).unwrap()["code"].clone();
    assert_eq!(code, "held");
}

#[test]
fn cluster_05_a_term_ends_for_its_owner_before_another_one_begins() {
    let Some(parameters) = parameters() else {
        return;
    };
    // Renewals are refused by a trigger, so the owner learns nothing of the end but by its clock.
    let schema = name("unrenewed");
    let options = crate::support::options(&parameters)
        .schema(&schema)
        .unwrap();
    let server = doclock_postgres::Postgres::connect(options).unwrap();
    let statements = format!(
        "CREATE FUNCTION \"{schema}\".refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF NEW.epoch = OLD.epoch THEN RAISE 'no renewal' USING ERRCODE = '57014'; END IF;
            RETURN NEW;
        END $$;
        CREATE TRIGGER refuse BEFORE UPDATE ON \"{schema}\".doclock_lease
            FOR EACH ROW EXECUTE FUNCTION \"{schema}\".refuse();"
    );
    sql(&parameters).batch_execute(&statements).unwrap();
    let (term, mut journal) = acquire(&server, "notes", "ann");
    let (next, _) = server.acquire("notes", short("bob")).unwrap();
    assert!(!term.is_owner());
    assert!(next.epoch() > term.epoch());
    assert_eq!(term.lost(), Some(LostReason::NotRenewed));
    let events: Vec<_> = term.events().try_iter().collect();
    assert!(
        events
            .iter()
            .any(|event| matches!(event, OwnerEvent::RenewalFailed { .. })),
        "{events:?}"
    );
    assert!(load(&mut journal).is_err());
}

#[test]
fn cluster_05_a_clock_set_back_by_an_hour_delays_no_owner_for_an_hour() {
    let Some(parameters) = parameters() else {
        return;
    };
    let server = connect(&parameters);
    let document = name("clock");
    drop(acquire(&server, &document, "ann"));
    // The lease is ended in the background, which must come before the clock is set.
    let statement = "UPDATE doclock.doclock_lease
        SET expires_at = clock_timestamp() + interval '1 hour'
        WHERE document = $1 AND expires_at <= clock_timestamp()";
    until("the clock is set", || {
        sql(&parameters).execute(statement, &[&document]).unwrap() == 1
    });
    // An owner that lives may not know of it yet.
    let began = Instant::now();
    server.acquire(&document, short("bob")).unwrap();
    assert!(
        began.elapsed() >= Duration::from_millis(600),
        "{:?}",
        began.elapsed()
    );
}

#[test]
fn cluster_times_without_end_are_no_limits() {
    let Some(parameters) = parameters() else {
        return;
    };
    let options = crate::support::options(&parameters).connect_timeout(Duration::MAX);
    let server = doclock_postgres::Postgres::connect(options).unwrap();
    let options = short("ann").timeout(Duration::MAX).poll(Duration::MAX);
    server.acquire(&name("endless"), options).unwrap();
}

#[test]
fn cluster_01_epochs_end_with_a_typed_error() {
    let Some(parameters) = parameters() else {
        return;
    };
    let server = connect(&parameters);
    let document = name("epochs");
    drop(acquire(&server, &document, "ann"));
    let statement = "UPDATE doclock.doclock_lease SET epoch = (1 << 28) - 2 WHERE document = $1";
    until("the lease has ended", || {
        let ended = format!("{statement} AND expires_at <= clock_timestamp()");
        sql(&parameters).execute(&ended, &[&document]).unwrap() == 1
    });
    let (last, journal) = acquire(&server, &document, "bob");
    assert_eq!(last.epoch(), (1 << 28) - 1);
    last.hand_over().unwrap();
    drop(journal);
    let refused = server.acquire(&document, short("cid")).unwrap_err();
    assert!(matches!(refused, PostgresError::Epochs { .. }), "{refused}");
}

#[test]
fn cluster_01_the_first_epoch_of_a_timeline_is_far_above_the_last_of_another() {
    let Some(parameters) = parameters() else {
        return;
    };
    let server = connect(&parameters);
    let document = name("timelines");
    drop(acquire(&server, &document, "ann"));
    // As if the row had come from another server, with the last epoch that it had received.
    let statement = "UPDATE doclock.doclock_lease SET epoch = (5 << 16) + 7, timeline = 0
        WHERE document = $1 AND expires_at <= clock_timestamp()";
    until("the lease has ended", || {
        sql(&parameters).execute(statement, &[&document]).unwrap() == 1
    });
    let (next, _journal) = acquire(&server, &document, "bob");
    assert_eq!(next.epoch(), 6 << 16);
}

#[test]
fn cluster_05_terms_and_names_that_cannot_be_are_refused() {
    let Some(parameters) = parameters() else {
        return;
    };
    let server = connect(&parameters);
    let millis = Duration::from_millis;
    for options in [
        short("ann").term(millis(1)),
        short("ann").term(millis(600)).margin(millis(400)),
        short("ann").term(Duration::MAX),
    ] {
        let refused = server.try_acquire("notes", options).unwrap_err();
        assert!(matches!(refused, PostgresError::Term { .. }), "{refused}");
    }
    for (document, options) in [
        ("", short("ann")),
        ("a\0", short("ann")),
        (&*"x".repeat(256), short("ann")),
        ("notes", short("")),
        ("notes", short("ann").address("a\0")),
    ] {
        let refused = server.try_acquire(document, options).unwrap_err();
        assert!(matches!(refused, PostgresError::Name { .. }), "{refused}");
    }
}

#[test]
fn cluster_02_a_document_continues_at_the_next_owner() {
    let Some(parameters) = parameters() else {
        return;
    };
    let document = name("store");
    let mut tokens = BTreeSet::new();
    for round in 1..=3u64 {
        let server = connect(&parameters);
        let (term, journal) = acquire(&server, &document, "ann");
        // Each open checks the blocks and the checkpoint of the one before.
        let options = DurableOptions::new().checkpoint_after(400);
        let store = DataStore::open_journal(journal, options).unwrap();
        let manager = TransactionManager::new(store.clone());
        let before = store.version();
        for nth in 0..20 {
            let node = text_node("paragraph", format!("{round} {nth}"));
            let result = manager.execute(create(node)).unwrap();
            assert_eq!(result.fencing_token.epoch(), term.epoch());
            assert!(tokens.insert(result.fencing_token));
        }
        assert_eq!(store.version(), before + 20);
        assert_eq!(before, (round - 1) * 20);
        // Only one in three closes: the others leave blocks to repeat.
        if round == 2 {
            store.close().unwrap();
            assert_eq!(log(&parameters, &document), []);
        }
        term.hand_over().unwrap();
    }
    let server = connect(&parameters);
    let (_term, journal) = acquire(&server, &document, "bob");
    let store = DataStore::open_journal(journal, DurableOptions::new()).unwrap();
    assert_eq!(store.snapshot().nodes().count(), 60);
}

#[test]
fn cluster_02_two_documents_write_to_one_connection_that_is_lost_in_between() {
    let Some(parameters) = parameters() else {
        return;
    };
    let role = name("shared");
    let statement = format!("CREATE ROLE \"{role}\" LOGIN SUPERUSER");
    sql(&parameters).batch_execute(&statement).unwrap();
    let options = crate::support::options(&format!("{parameters} user={role}"));
    let server = doclock_postgres::Postgres::connect(options).unwrap();
    let documents = [name("one"), name("two")];
    let mut journals = documents.each_ref().map(|document| {
        let long = short("ann").term(Duration::from_secs(30));
        server.acquire(document, long).unwrap()
    });
    for number in 1..=10 {
        for (_, journal) in &mut journals {
            journal.write(&block(number, number, "block")).unwrap();
        }
        if number == 5 {
            let statement = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                WHERE usename = $1";
            assert!(sql(&parameters).execute(statement, &[&role]).unwrap() > 0);
        }
    }
    for document in documents {
        let numbers: Vec<_> = log(&parameters, &document)
            .iter()
            .map(|row| row.0)
            .collect();
        assert_eq!(numbers, (1..=10).collect::<Vec<_>>());
    }
}

#[test]
fn cluster_all_methods_can_be_called_in_an_async_runtime() {
    let Some(parameters) = parameters() else {
        return;
    };
    let document = name("runtime");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(async {
        let server = connect(&parameters);
        let (term, journal) = acquire(&server, &document, "ann");
        let store = DataStore::open_journal(journal, DurableOptions::new()).unwrap();
        let manager = TransactionManager::new(store.clone());
        manager.execute(create(element("paragraph", []))).unwrap();
        store.close().unwrap();
        term.hand_over().unwrap();
    });
}

#[test]
fn cluster_a_hundred_documents_need_as_many_connections_as_one() {
    let Some(parameters) = parameters() else {
        return;
    };
    let role = name("counted");
    let statement = format!("CREATE ROLE \"{role}\" LOGIN SUPERUSER");
    sql(&parameters).batch_execute(&statement).unwrap();
    let server = connect(&format!("{parameters} user={role}"));
    let documents: Vec<_> = (0..100)
        .map(|nth| {
            let options = TermOptions::new("ann");
            let document = name(&format!("many {nth}"));
            let (term, journal) = server.acquire(&document, options).unwrap();
            let store = DataStore::open_journal(journal, DurableOptions::new()).unwrap();
            (term, TransactionManager::new(store))
        })
        .collect();
    for (term, manager) in &documents {
        manager.execute(create(element("paragraph", []))).unwrap();
        assert!(term.is_owner());
    }
    let count = "SELECT count(*) FROM pg_stat_activity WHERE usename = $1";
    let connections: i64 = sql(&parameters).query_one(count, &[&role]).unwrap().get(0);
    assert!(connections <= 3, "{connections}");
}

#[test]
fn cluster_01_a_renewal_never_takes_a_term_back() {
    let Some(parameters) = parameters() else {
        return;
    };
    let server = connect(&parameters);
    let document = name("renewal");
    // The same name: a renewal by name would renew the term of the other owner.
    let (term, _journal) = acquire(&server, &document, "ann");
    steal(&parameters, &document);
    let (next, _other) = server.try_acquire(&document, short("ann")).unwrap();
    until("the first owner has lost its term", || !term.is_owner());
    let taken = |reason: &LostReason| matches!(reason, LostReason::TakenOver { .. });
    assert!(term.lost().as_ref().is_some_and(taken), "{:?}", term.lost());
    let lost = term.events().try_iter().last();
    assert!(matches!(lost, Some(OwnerEvent::Lost { .. })), "{lost:?}");
    assert!(next.is_owner());
}

#[test]
fn cluster_01_a_renewal_never_takes_a_term_that_has_ended() {
    let Some(parameters) = parameters() else {
        return;
    };
    let server = connect(&parameters);
    let document = name("ended");
    let (term, _journal) = acquire(&server, &document, "ann");
    steal(&parameters, &document);
    until("the owner has lost its term", || !term.is_owner());
    assert_eq!(term.lost(), Some(LostReason::Expired));
    server.try_acquire(&document, short("bob")).unwrap();
}

#[test]
fn cluster_01_a_renewal_never_makes_a_row() {
    let Some(parameters) = parameters() else {
        return;
    };
    let server = connect(&parameters);
    let document = name("missing");
    let (term, _journal) = acquire(&server, &document, "ann");
    let statement = "DELETE FROM doclock.doclock_lease WHERE document = $1";
    sql(&parameters).execute(statement, &[&document]).unwrap();
    until("the owner has lost its term", || !term.is_owner());
    assert_eq!(term.lost(), Some(LostReason::Missing));
    let count = "SELECT count(*) FROM doclock.doclock_lease WHERE document = $1";
    let rows: i64 = sql(&parameters)
        .query_one(count, &[&document])
        .unwrap()
        .get(0);
    assert_eq!(rows, 0);
}

#[test]
fn cluster_05_a_term_whose_values_are_dropped_ends_at_once() {
    let Some(parameters) = parameters() else {
        return;
    };
    let server = connect(&parameters);
    let document = name("dropped");
    let (term, journal) = server.acquire(&document, TermOptions::new("ann")).unwrap();
    drop(term);
    // The journal alone keeps the term.
    let refused = server.try_acquire(&document, short("bob")).unwrap_err();
    assert!(matches!(refused, PostgresError::Held { .. }), "{refused}");
    drop(journal);
    let timeout = Duration::from_secs(4);
    server
        .acquire(&document, short("bob").timeout(timeout))
        .unwrap();
}
