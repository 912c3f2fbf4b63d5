//! Reading a document that another process owns, and how far its log is cut.

use std::sync::Once;
use std::thread;
use std::time::{Duration, Instant};

use doclock::durable::{DurableOptions, Journal, JournalErrorKind, Replica, StoredPart};
use doclock::{DataStore, TransactionManager, dsl::*};
use doclock_postgres::{Member, MemberError, MemberEvent};

use crate::members::brief;
use crate::proxy::{Fault, Proxy};
use crate::support::{acquire, block, connect, entries, log, name, parameters, short, sql, until};

#[test]
fn cluster_04_a_follower_reads_while_the_owner_writes_and_takes_over_without_loading() {
    let Some(parameters) = parameters() else {
        return;
    };
    let document = name("followed");
    let (server, other) = (connect(&parameters), connect(&parameters));
    let (term, journal) = acquire(&server, &document, "ann");
    let options = DurableOptions::new().checkpoint_after(400);
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
    // A large write may take long on a busy machine.
    let options = short("ann").term(Duration::from_secs(30));
    let (_term, mut journal) = server.acquire(&document, options).unwrap();
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
fn cluster_04_a_follower_that_is_far_behind_catches_up_while_the_log_is_cut() {
    let Some(parameters) = parameters() else {
        return;
    };
    let document = name("far");
    let (server, other) = (connect(&parameters), connect(&parameters));
    // The checkpoint is large, and renewals wait for it.
    let long = short("ann").term(Duration::from_secs(30));
    let (_term, journal) = server.acquire(&document, long).unwrap();
    let options = DurableOptions::new().checkpoint_after(usize::MAX);
    let store = DataStore::open_journal(journal, options.clone()).unwrap();
    let mut reader = other.reader(&document).unwrap();
    let mut replica = Replica::load(&mut reader, &options).unwrap();
    let manager = TransactionManager::new(store.clone());
    // More than a load reads ahead, and more than the server sends without a reader.
    let long = "x".repeat(1 << 18);
    for _ in 0..64 {
        manager
            .execute(create(text_node("paragraph", &*long)))
            .unwrap();
    }
    let mut versions = Vec::new();
    let caught_up = replica.catch_up(&mut reader, |applied| {
        if versions.is_empty() {
            // With the last checkpoint, the log has no blocks any more.
            store.close().unwrap();
            assert_eq!(log(&parameters, &document), []);
        }
        versions.push(applied.version);
    });
    assert_eq!(caught_up, Ok(()));
    assert_eq!(versions, Vec::from_iter(1..=64));
    assert_eq!(replica.snapshot(), store.snapshot());
    // And it knows of the checkpoint when it reads again.
    replica.catch_up(&mut reader, |_| unreachable!()).unwrap();
}

#[test]
fn cluster_04_blocks_that_were_cut_before_a_follower_reads_are_missing() {
    let Some(parameters) = parameters() else {
        return;
    };
    let document = name("cut-before");
    let server = connect(&parameters);
    let (_term, mut journal) = acquire(&server, &document, "ann");
    let long = "x".repeat(1 << 18);
    for number in 1..=8 {
        journal.write(&block(number, number, &long)).unwrap();
    }
    journal
        .write(&entries(&[("head", Some("head"))], Some(3)))
        .unwrap();
    let mut found = Vec::new();
    let read = server
        .reader(&document)
        .unwrap()
        .load_after(1, "head", &mut |part| {
            found.push(match part {
                StoredPart::Entry { bytes, .. } => (0, bytes.len()),
                StoredPart::Block { number, bytes } => (number, bytes.len()),
            });
            Ok(())
        });
    assert_eq!(read, Ok(()));
    let blocks = (4..=8).map(|number| (number, long.len()));
    assert_eq!(found, Vec::from_iter([(0, 4)].into_iter().chain(blocks)));
}

/// Writes 6 MiB in 24 blocks: more than a load reads ahead, so it has its connection while its
/// caller does not go on.
fn write_much(journal: &mut impl Journal) {
    let long = "x".repeat(1 << 18);
    for number in 1..=24 {
        journal.write(&block(number, number, &long)).unwrap();
    }
}

#[test]
fn cluster_05_an_append_does_not_wait_for_a_follower_that_is_far_behind() {
    let Some(parameters) = parameters() else {
        return;
    };
    let (far, own) = (name("far"), name("own"));
    let (_term, mut journal) = acquire(&connect(&parameters), &far, "ann");
    write_much(&mut journal);
    // One process follows this document, and owns the other.
    let (proxy, proxied) = Proxy::start(&parameters);
    let server = connect(&proxied);
    let long = short("bob").term(Duration::from_secs(30));
    let (_term, mut journal) = server.acquire(&own, long).unwrap();
    let mut reader = server.reader(&far).unwrap();
    proxy.next(Fault::HoldsStatement, "AND number > $2 ORDER BY number");
    thread::scope(|scope| {
        let read = scope.spawn(|| reader.load_after(0, "head", &mut |_| Ok(())));
        until("the blocks are to be read", || proxy.met() == 1);
        let began = Instant::now();
        journal.write(&block(1, 1, "one")).unwrap();
        let took = began.elapsed();
        assert!(took < Duration::from_secs(5), "{took:?}");
        assert!(!read.is_finished());
        proxy.release();
        // Its connection was held for too long.
        assert!(read.join().unwrap().is_err());
    });
}

#[test]
fn cluster_05_a_takeover_far_behind_may_take_longer_than_a_term_that_is_renewed() {
    let Some(parameters) = parameters() else {
        return;
    };
    let document = name("behind");
    let (term, mut journal) = acquire(&connect(&parameters), &document, "ann");
    write_much(&mut journal);
    term.hand_over().unwrap();
    let (proxy, proxied) = Proxy::start(&parameters);
    let (term, mut journal) = acquire(&connect(&proxied), &document, "bob");
    proxy.slow_down();
    let began = Instant::now();
    let mut blocks = 0;
    let read = journal.load_after(0, "head", &mut |_| {
        blocks += 1;
        Ok(())
    });
    assert_eq!((read, blocks), (Ok(()), 24));
    let took = began.elapsed();
    assert!(took > Duration::from_millis(600), "{took:?}");
    assert!(term.is_owner());
}

#[test]
fn cluster_04_a_follower_reads_however_many_blocks_there_are() {
    let Some(parameters) = parameters() else {
        return;
    };
    let document = name("many");
    let insert = "INSERT INTO doclock.doclock_log
        SELECT $1, n, n, n, 0, '' FROM generate_series(1, 2000) n";
    let server = connect(&parameters);
    sql(&parameters).execute(insert, &[&document]).unwrap();
    let mut reader = server.reader(&document).unwrap();
    for after in [0, 975, 976, 977, 1999, 2000] {
        let mut found = Vec::new();
        let read = reader.load_after(after, "head", &mut |part| {
            if let StoredPart::Block { number, .. } = part {
                found.push(number);
            }
            Ok(())
        });
        assert_eq!(read, Ok(()));
        assert!(found.iter().copied().eq(after + 1..=2000), "after {after}");
    }
}

#[test]
fn cluster_05_followers_that_are_far_behind_share_four_connections() {
    let Some(parameters) = parameters() else {
        return;
    };
    let (document, program) = (name("shared-loads"), name("loads"));
    let (_term, mut journal) = acquire(&connect(&parameters), &document, "ann");
    write_much(&mut journal);
    let server = connect(&format!("{parameters} application_name={program}"));
    let (reads, reading) = crossbeam_channel::unbounded();
    let (goes_on, go_on) = crossbeam_channel::bounded::<()>(0);
    let mut database = sql(&parameters);
    let mut connections = || -> i64 {
        let count = "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1";
        database.query_one(count, &[&program]).unwrap().get(0)
    };
    thread::scope(|scope| {
        let read = || {
            let mut reader = server.reader(&document).unwrap();
            let mut blocks = 0;
            let read = reader.load_after(0, "head", &mut |_| {
                if blocks == 0 {
                    reads.send(()).unwrap();
                    let _ = go_on.recv();
                }
                blocks += 1;
                Ok(())
            });
            assert_eq!((read, blocks), (Ok(()), 24));
        };
        for _ in 0..6 {
            scope.spawn(read);
        }
        for _ in 0..4 {
            reading.recv().unwrap();
        }
        // Beside them, the connection of the terms made the tables, and that of the journals has
        // found that the blocks are too many.
        assert_eq!(connections(), 6);
        assert!(reading.is_empty());
        drop(goes_on);
    });
    assert_eq!(reading.len(), 2);
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
