//! The journal of a document: its contract, and its fences.

use doclock::durable::{Journal, JournalErrorKind, check_journal};
use doclock_postgres::LostReason;

use crate::support::{
    acquire, block, connect, entries, load, log, name, parameters, sql, steal, until,
};

#[test]
fn cluster_02_the_journal_keeps_its_contract() {
    let Some(parameters) = parameters() else {
        return;
    };
    let server = connect(&parameters);
    let document = name("contract");
    // Each open is another owner: the journal before has ended its term when it was dropped.
    let checked = check_journal(|| acquire(&server, &document, "ann").1);
    assert_eq!(checked, Ok(()));
}

#[test]
fn cluster_02_keys_may_be_long_and_contain_any_character() {
    let Some(parameters) = parameters() else {
        return;
    };
    let server = connect(&parameters);
    let document = name("keys");
    let long = "long".repeat(1 << 16);
    let keys = [
        "node/a\0b".to_owned(),
        "node/ä".to_owned(),
        format!("{long}a"),
        format!("{long}b"),
        "x".repeat(512),
        "x".repeat(513),
    ];
    let (_term, mut journal) = acquire(&server, &document, "ann");
    let all: Vec<_> = keys.iter().map(|key| (key.as_str(), Some("1"))).collect();
    journal.write(&entries(&all, None)).unwrap();
    journal
        .write(&entries(&[(&keys[2], Some("2"))], None))
        .unwrap();
    journal.write(&entries(&[(&keys[3], None)], None)).unwrap();
    let (mut found, _) = load(&mut journal).unwrap();
    let entry = |nth: usize, text: &str| (keys[nth].clone(), text.to_owned());
    let mut expected = [
        entry(0, "1"),
        entry(1, "1"),
        entry(2, "2"),
        entry(4, "1"),
        entry(5, "1"),
    ];
    found.sort();
    expected.sort();
    assert!(found == expected, "{} entries", found.len());
}

#[test]
fn cluster_01_a_write_of_an_earlier_owner_changes_nothing() {
    let Some(parameters) = parameters() else {
        return;
    };
    let server = connect(&parameters);
    let document = name("fenced");
    let long = |owner| {
        let options = crate::support::short(owner);
        options.term(std::time::Duration::from_secs(30))
    };
    let writes = [
        block(2, 2, "late"),
        entries(&[("head", Some("late"))], None),
        entries(&[("head", None)], Some(1)),
    ];
    for (nth, write) in writes.into_iter().enumerate() {
        let document = format!("{document} {nth}");
        let (earlier, mut journal) = server.acquire(&document, long("ann")).unwrap();
        let mut first = block(1, 1, "one");
        first.entries = entries(&[("head", Some("first"))], None).entries;
        journal.write(&first).unwrap();
        steal(&parameters, &document);
        let (later, mut next) = server.acquire(&document, long("bob")).unwrap();
        assert!(later.epoch() > earlier.epoch());
        let before = load(&mut next).unwrap();

        // By its own clock the first owner has its term still.
        assert!(earlier.is_owner());
        let refused = journal.write(&write).unwrap_err();
        assert_eq!(refused.kind, JournalErrorKind::Fenced, "{refused}");
        assert!(refused.message.contains("bob has it"), "{refused}");
        assert!(!earlier.is_owner());
        let taken = LostReason::TakenOver {
            epoch: later.epoch(),
            owner: "bob".into(),
            address: None,
        };
        assert_eq!(earlier.lost(), Some(taken));
        assert_eq!(load(&mut next).unwrap(), before);
        next.write(&block(2, 2, "two")).unwrap();
        let epochs: Vec<_> = log(&parameters, &document)
            .iter()
            .map(|row| row.1)
            .collect();
        assert_eq!(
            epochs,
            [earlier.epoch().cast_signed(), later.epoch().cast_signed()]
        );
        drop((journal, next));
    }
}

#[test]
fn cluster_01_a_term_that_has_ended_by_the_clock_of_the_server_writes_nothing() {
    let Some(parameters) = parameters() else {
        return;
    };
    let server = connect(&parameters);
    let document = name("ended");
    let options = crate::support::short("ann").term(std::time::Duration::from_secs(30));
    let (term, mut journal) = server.acquire(&document, options).unwrap();
    journal.write(&block(1, 1, "one")).unwrap();
    steal(&parameters, &document);
    assert!(term.is_owner());
    let refused = journal.write(&block(2, 2, "two")).unwrap_err();
    assert_eq!(refused.kind, JournalErrorKind::Fenced, "{refused}");
    assert_eq!(term.lost(), Some(LostReason::Expired));
    assert_eq!(log(&parameters, &document).len(), 1);
    let event = term.events().try_iter().last().unwrap();
    assert!(matches!(event, doclock_postgres::OwnerEvent::Lost { .. }));
}

#[test]
fn cluster_02_blocks_have_their_versions_and_parts_that_an_entry_lost_are_gone() {
    let Some(parameters) = parameters() else {
        return;
    };
    let server = connect(&parameters);
    let document = name("rows");
    let (_term, mut journal) = acquire(&server, &document, "ann");
    journal.write(&block(1, 3, "three commits")).unwrap();
    journal.write(&block(2, 3, "notes")).unwrap();
    journal.write(&block(3, 4, "a commit")).unwrap();
    let rows = log(&parameters, &document);
    let versions: Vec<_> = rows.iter().map(|row| (row.0, row.2, row.3)).collect();
    assert_eq!(versions, [(1, 1, 3), (2, 4, 3), (3, 4, 4)]);

    let parts = "SELECT count(*) FROM doclock.doclock_checkpoint WHERE document = $1";
    let mut sql = sql(&parameters);
    let mut count = move || sql.query_one(parts, &[&document]).unwrap().get::<_, i64>(0);
    let long = "x".repeat(1 << 20);
    for (text, expected) in [
        (Some(&*long), 4),
        (Some("short"), 1),
        (Some(""), 1),
        (None, 0),
    ] {
        journal.write(&entries(&[("head", text)], None)).unwrap();
        assert_eq!(count(), expected);
    }
}

#[test]
fn cluster_01_a_block_never_takes_the_number_of_another() {
    let Some(parameters) = parameters() else {
        return;
    };
    let server = connect(&parameters);
    let document = name("numbers");
    let (_term, mut journal) = acquire(&server, &document, "ann");
    journal.write(&block(1, 1, "one")).unwrap();
    let mut with_entries = block(1, 1, "other");
    with_entries.entries = entries(&[("head", Some("other"))], None).entries;
    for write in [block(1, 1, "other"), with_entries] {
        let refused = journal.write(&write).unwrap_err();
        assert_eq!(refused.kind, JournalErrorKind::Corrupt, "{refused}");
    }
    let expected = (vec![], vec![(1, "one".to_owned())]);
    assert_eq!(load(&mut journal).unwrap(), expected);
}

#[test]
fn cluster_01_an_append_and_a_takeover_wait_for_each_other() {
    let Some(parameters) = parameters() else {
        return;
    };
    let server = connect(&parameters);
    let document = name("lock");
    let options = crate::support::short("ann").term(std::time::Duration::from_secs(30));
    let (_term, mut journal) = server.acquire(&document, options).unwrap();
    // The append stops in the middle: the key of its block is not free, and may become so.
    let mut other = sql(&parameters);
    let mut transaction = other.transaction().unwrap();
    let insert = "INSERT INTO doclock.doclock_log VALUES ($1, 1, 1, 1, 0, '')";
    transaction.execute(insert, &[&document]).unwrap();
    std::thread::scope(|scope| {
        let append = scope.spawn(|| journal.write(&block(1, 1, "one")));
        let mut taker = sql(&parameters);
        let locked = "SELECT 1 FROM doclock.doclock_lease WHERE document = $1
            FOR NO KEY UPDATE NOWAIT";
        until("the lease is locked", || {
            let refused = taker.query(locked, &[&document]);
            let locked = postgres::error::SqlState::LOCK_NOT_AVAILABLE;
            refused.is_err_and(|error| error.code() == Some(&locked))
        });
        transaction.rollback().unwrap();
        append.join().unwrap().unwrap();
    });
    assert_eq!(log(&parameters, &document).len(), 1);
}

/// How many statements wait for the locks of a transaction, other than those for tables.
fn waiting_for(
    parameters: &str,
    holder: &mut postgres::Transaction<'_>,
) -> impl FnMut() -> i64 + use<> {
    let own = "SELECT pg_backend_pid()";
    let pid: i32 = holder.query_one(own, &[]).unwrap().get(0);
    let mut looks = sql(parameters);
    move || {
        let waiting = "SELECT count(*) FROM pg_locks w JOIN pg_locks h
            ON h.transactionid = w.transactionid AND h.granted
            WHERE NOT w.granted AND h.pid = $1";
        looks.query_one(waiting, &[&pid]).unwrap().get(0)
    }
}

#[test]
fn cluster_05_a_write_that_is_given_up_does_not_wait_for_its_lock_any_more() {
    let Some(parameters) = parameters() else {
        return;
    };
    let (document, program) = (name("locked"), name("gives-up"));
    let server = connect(&format!("{parameters} application_name={program}"));
    let (term, mut journal) = acquire(&server, &document, "ann");
    let mut other = sql(&parameters);
    let mut holder = other.transaction().unwrap();
    let lock = "SELECT 1 FROM doclock.doclock_lease WHERE document = $1 FOR UPDATE";
    holder.execute(lock, &[&document]).unwrap();
    let refused = journal.write(&block(1, 1, "one")).unwrap_err();
    assert_eq!(refused.kind, JournalErrorKind::Io, "{refused}");
    assert!(!term.is_owner());
    // Nor do its renewals. Of two statements that wait, one waits for the other.
    let mut database = sql(&parameters);
    until("the server does nothing for it", || {
        let active = "SELECT count(*) FROM pg_stat_activity
            WHERE application_name = $1 AND state <> 'idle'";
        let active = database.query_one(active, &[&program]).unwrap();
        active.get::<_, i64>(0) == 0
    });
    holder.rollback().unwrap();
    assert_eq!(log(&parameters, &document), []);
}

#[test]
fn cluster_01_a_write_that_waits_for_a_renewal_is_carried_out() {
    let Some(parameters) = parameters() else {
        return;
    };
    let server = connect(&parameters);
    let document = name("renewed");
    let options = crate::support::short("ann").term(std::time::Duration::from_secs(30));
    let (_term, mut journal) = server.acquire(&document, options).unwrap();
    let mut both = block(2, 2, "two");
    both.entries = entries(&[("head", Some("head"))], None).entries;
    for write in [block(1, 1, "one"), both] {
        let mut other = sql(&parameters);
        let mut renewal = other.transaction().unwrap();
        let renew = "UPDATE doclock.doclock_lease
            SET expires_at = expires_at + interval '1 second' WHERE document = $1";
        renewal.execute(renew, &[&document]).unwrap();
        std::thread::scope(|scope| {
            let write = scope.spawn(|| journal.write(&write));
            let mut waiting = waiting_for(&parameters, &mut renewal);
            until("the write waits", || waiting() == 1);
            renewal.commit().unwrap();
            write.join().unwrap().unwrap();
        });
    }
    let expected = vec![(1, "one".to_owned()), (2, "two".to_owned())];
    let head = vec![("head".to_owned(), "head".to_owned())];
    assert_eq!(load(&mut journal).unwrap(), (head, expected));
}
