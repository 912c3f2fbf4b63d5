//! Reading a document that another process owns, and how far its log is cut.

use std::sync::Once;
use std::thread;
use std::time::Duration;

use doclock::durable::{DurableOptions, Journal, JournalErrorKind, Replica, StoredPart};
use doclock::{DataStore, TransactionManager, dsl::*};
use doclock_postgres::{Member, MemberError, MemberEvent};

use crate::members::brief;
use crate::proxy::{Fault, Proxy};
use crate::support::{acquire, block, connect, entries, log, name, parameters, sql, until};

#[test]
fn cluster_04_a_follower_reads_while_the_owner_writes_and_takes_over_without_loading() {
    let Some(parameters) = parameters() else {
        return;
    };
    let document = name("followed");
    let (server, other) = (connect(&parameters), connect(&parameters));
    let (term, journal) = acquire(&server, &document, "ann");
    let options = DurableOptions::new().checkpoint_after(2000);
    let store = DataStore::open_journal(journal, options.clone()).unwrap();
    let manager = TransactionManager::new(store.clone());
    let mut reader = other.reader(&document).unwrap();
    let mut replica = Replica::load(&mut reader, &options).unwrap();
    // Without it, a checkpoint may cut the log before the follower has read it.
    let keep = |replica: &Replica| {
        let last = replica.last_block().unwrap_or_default();
        other
            .reader(&document)
            .unwrap()
            .keep_after("follower", last)
            .unwrap();
    };
    keep(&replica);
    for _ in 0..40 {
        let written = manager
            .execute(create(text_node("paragraph", "text")))
            .unwrap();
        replica.catch_up(&mut reader, |_| {}).unwrap();
        assert_eq!(replica.version(), written.version);
        keep(&replica);
    }
    assert_eq!(replica.snapshot(), store.snapshot());
    store.close().unwrap();
    term.hand_over().unwrap();
    let (next, journal) = acquire(&other, &document, "bob");
    let store = replica
        .into_store(journal, options)
        .map_err(|error| error.to_string());
    let store = store.unwrap();
    let manager = TransactionManager::new(store.clone());
    let written = manager.execute(create(element("paragraph", []))).unwrap();
    assert_eq!(
        (written.version, written.fencing_token.epoch()),
        (41, next.epoch())
    );
    store.close().unwrap();
}

#[test]
fn cluster_04_the_log_is_cut_behind_the_slowest_follower_that_moves() {
    let Some(parameters) = parameters() else {
        return;
    };
    let document = name("cut");
    let server = connect(&parameters);
    let (_term, mut journal) = acquire(&server, &document, "ann");
    let reader = server.reader(&document).unwrap();
    let numbers = || -> Vec<i64> {
        log(&parameters, &document)
            .iter()
            .map(|row| row.0)
            .collect()
    };
    for number in 1..=6 {
        journal.write(&block(number, number, "block")).unwrap();
    }
    reader.keep_after("slow", 2).unwrap();
    reader.keep_after("fast", 5).unwrap();
    let mut cut = |through| journal.write(&entries(&[("head", Some("head"))], Some(through)));
    cut(4).unwrap();
    assert_eq!(numbers(), [3, 4, 5, 6]);
    reader.keep_after("slow", 3).unwrap();
    cut(4).unwrap();
    assert_eq!(numbers(), [4, 5, 6]);
    // One that has stopped keeps nothing any more.
    let stopped = "UPDATE doclock.doclock_follower SET seen_at = seen_at - interval '1 minute'
        WHERE document = $1 AND name = 'slow'";
    sql(&parameters).execute(stopped, &[&document]).unwrap();
    cut(u64::MAX).unwrap();
    assert_eq!(numbers(), [6]);
    reader.forget("fast").unwrap();
    cut(u64::MAX).unwrap();
    assert_eq!(numbers(), [0; 0]);
    // Later blocks are not cut in advance.
    journal.write(&block(7, 7, "block")).unwrap();
    assert_eq!(numbers(), [7]);
}

#[test]
fn cluster_04_a_load_is_of_one_moment_while_the_owner_writes() {
    let Some(parameters) = parameters() else {
        return;
    };
    let document = name("moment");
    let (server, other) = (connect(&parameters), connect(&parameters));
    let (_term, mut journal) = acquire(&server, &document, "ann");
    // More than the connection reads ahead, so the blocks are read after the write.
    let long = "x".repeat(1 << 18);
    let keys: Vec<_> = (10..74).map(|nth| format!("node/{nth}")).collect();
    let all: Vec<_> = keys
        .iter()
        .map(|key| (key.as_str(), Some(long.as_str())))
        .collect();
    journal.write(&entries(&all, None)).unwrap();
    journal.write(&block(1, 1, "one")).unwrap();
    let (mut found, mut blocks) = (0, Vec::new());
    let mut reader = other.reader(&document).unwrap();
    reader
        .load(&mut |part| {
            match part {
                StoredPart::Entry { .. } if found == 0 => {
                    let mut cut = entries(&[(&keys[63], None)], Some(1));
                    cut.version = 1;
                    journal.write(&cut).unwrap();
                    found = 1;
                }
                StoredPart::Entry { .. } => found += 1,
                StoredPart::Block { number, .. } => blocks.push(number),
            }
            Ok(())
        })
        .unwrap();
    assert_eq!((found, blocks), (64, vec![1]));
    assert_eq!(log(&parameters, &document), []);
}

#[test]
fn cluster_01_a_reader_writes_nothing() {
    let Some(parameters) = parameters() else {
        return;
    };
    let server = connect(&parameters);
    let document = name("read");
    let mut reader = server.reader(&document).unwrap();
    let refused = reader.write(&block(1, 1, "one")).unwrap_err();
    assert_eq!(refused.kind, JournalErrorKind::Fenced);
    assert_eq!(log(&parameters, &document), []);
}

#[test]
fn cluster_05_a_server_that_stops_in_the_middle_of_a_load_ends_the_load() {
    let Some(parameters) = parameters() else {
        return;
    };
    let document = name("stops-in-load");
    let (_term, mut journal) = acquire(&connect(&parameters), &document, "ann");
    journal
        .write(&entries(&[("head", Some("head"))], None))
        .unwrap();
    let (proxy, proxied) = Proxy::start(&parameters);
    let server = connect(&proxied);
    // It has answered the statement before.
    proxy.next(Fault::HoldsAnswer, "SELECT number, last_version, block");
    let member = brief("bob").follow_only();
    let join = thread::spawn(move || Member::join(&server, &document, member).map(drop));
    until("the load ends", || join.is_finished());
    let error = join.join().unwrap().unwrap_err();
    assert!(error.to_string().contains("has not answered"), "{error}");
    assert_eq!(proxy.met(), 1);
    proxy.release();
}

#[test]
fn cluster_04_a_follower_that_cannot_read_the_log_does_not_keep_it() {
    let Some(parameters) = parameters() else {
        return;
    };
    let (server, document) = (connect(&parameters), name("unreadable"));
    let (term, journal) = acquire(&server, &document, "ann");
    let store = DataStore::open_journal(journal, DurableOptions::new()).unwrap();
    let manager = TransactionManager::new(store.clone());
    manager.execute(create(element("paragraph", []))).unwrap();
    // It loads the document, and from then on it cannot read what follows.
    let (database, of, once) = (parameters.clone(), document.clone(), Once::new());
    let durable = DurableOptions::new().progress(move |_| {
        once.call_once(|| {
            let broken = "INSERT INTO doclock.doclock_log
                (document, number, first_version, last_version, epoch, block)
                SELECT document, number + 1, 2, 2, epoch, 'broken' FROM doclock.doclock_log
                WHERE document = $1 ORDER BY number DESC LIMIT 1";
            assert_eq!(sql(&database).execute(broken, &[&of]).unwrap(), 1);
        });
    });
    let minute = Duration::from_secs(60);
    let options = brief("bob").durable(durable).poll(minute..=minute);
    let member = Member::join(&server, &document, options.doorbell(false).follow_only()).unwrap();
    let is_told = |event: &MemberEvent| matches!(event, MemberEvent::FollowFailed { .. });
    until("it cannot read", || {
        member.events().try_iter().any(|event| is_told(&event))
    });
    // It answers this when it has told how far it has read, if it does.
    assert!(matches!(
        member.hand_over(),
        Err(MemberError::NotOwner { .. })
    ));
    let kept = "SELECT number FROM doclock.doclock_follower WHERE document = $1";
    let kept = sql(&parameters).query(kept, &[&document]).unwrap();
    assert_eq!((kept.len(), member.snapshot().version()), (0, 1));
    drop((store, term));
}
