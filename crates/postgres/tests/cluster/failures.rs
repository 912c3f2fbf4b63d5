//! Lost statements and answers, late statements, and owners that die or stop.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use doclock::durable::{DurableOptions, Journal, JournalErrorKind};
use doclock::{DataStore, TransactionManager, dsl::*};
use doclock_postgres::{LostReason, OwnerEvent, Postgres};

use crate::proxy::{Fault, Proxy};
use crate::support::{
    APPEND, acquire, block, connect, entries, load, log, name, options, parameters, short, sql,
    until,
};

const CHECKPOINT: &str = "SET checkpoint = $12";

#[test]
fn cluster_02_a_write_whose_statement_or_answer_is_lost_is_stored_once() {
    let Some(parameters) = parameters() else {
        return;
    };
    let (proxy, proxied) = Proxy::start(&parameters);
    let server = connect(&proxied);
    let document = name("lost");
    let long = short("ann").term(Duration::from_secs(30));
    let (_term, mut journal) = server.acquire(&document, long).unwrap();
    let mut faults = 0;
    let all = [
        Fault::LosesAnswer,
        Fault::LosesStatement,
        Fault::CutsStatement,
    ];
    for fault in all {
        let number = u64::from(faults) + 1;
        proxy.next(fault, APPEND);
        journal.write(&block(number, number, "block")).unwrap();
        faults += 1;
        assert_eq!(proxy.met(), faults);
        proxy.next(fault, CHECKPOINT);
        let text = faults.to_string();
        journal
            .write(&entries(&[("head", Some(&text))], None))
            .unwrap();
        faults += 1;
        assert_eq!(proxy.met(), faults);
        let (found, _) = load(&mut journal).unwrap();
        assert_eq!(found, [("head".to_owned(), text)]);
    }
    let numbers: Vec<_> = log(&parameters, &document)
        .iter()
        .map(|row| row.0)
        .collect();
    assert_eq!(numbers, [1, 3, 5]);
}

#[test]
fn cluster_02_a_late_statement_changes_nothing_after_a_later_write() {
    let Some(parameters) = parameters() else {
        return;
    };
    for held in [APPEND, CHECKPOINT] {
        let (proxy, proxied) = Proxy::start(&parameters);
        let server = connect(&proxied);
        let document = name("late");
        // The first attempt is given up after a third of the term.
        let options = short("ann").term(Duration::from_secs(3));
        let (_term, mut journal) = server.acquire(&document, options).unwrap();
        proxy.next(Fault::HoldsStatement, held);
        journal.write(&block(1, 1, "one")).unwrap();
        journal
            .write(&entries(&[("head", Some("first"))], Some(1)))
            .unwrap();
        journal.write(&block(2, 2, "two")).unwrap();
        journal
            .write(&entries(&[("head", Some("second"))], None))
            .unwrap();
        assert_eq!(proxy.met(), 1);
        let before = load(&mut journal).unwrap();
        assert_eq!(before.0, [("head".to_owned(), "second".to_owned())]);
        assert_eq!(before.1, [(2, "two".to_owned())]);
        proxy.release();
        assert_eq!(load(&mut journal).unwrap(), before, "{held}");
        // And the owner goes on.
        journal.write(&block(3, 3, "three")).unwrap();
    }
}

#[test]
fn cluster_05_a_server_that_cannot_be_reached_ends_the_term_within_it() {
    let Some(parameters) = parameters() else {
        return;
    };
    let (proxy, proxied) = Proxy::start(&parameters);
    let server = connect(&proxied);
    let document = name("down");
    let (term, mut journal) = acquire(&server, &document, "ann");
    journal.write(&block(1, 1, "one")).unwrap();
    proxy.set_down(true);
    let began = Instant::now();
    let failed = journal.write(&block(2, 2, "two")).unwrap_err();
    let took = began.elapsed();
    // Unknown, if it was sent before the connection was found to be lost.
    let kinds = [JournalErrorKind::Fenced, JournalErrorKind::Io];
    assert!(kinds.contains(&failed.kind), "{failed}");
    assert_eq!(term.lost(), Some(LostReason::NotRenewed));
    assert!(took < Duration::from_secs(2), "{took:?}");
    proxy.set_down(false);
    let (next, mut journal) = acquire(&server, &document, "ann");
    assert!(next.epoch() > term.epoch());
    assert_eq!(load(&mut journal).unwrap().1, [(1, "one".to_owned())]);
}

#[test]
fn cluster_02_a_write_without_an_answer_until_the_end_of_the_term_is_unknown() {
    let Some(parameters) = parameters() else {
        return;
    };
    let (proxy, proxied) = Proxy::start(&parameters);
    let server = connect(&proxied);
    let document = name("unknown");
    let (term, mut journal) = acquire(&server, &document, "ann");
    proxy.next(Fault::HoldsStatement, APPEND);
    let failed = thread::scope(|scope| {
        let write = scope.spawn(|| journal.write(&block(1, 1, "one")));
        until("the statement is held", || proxy.met() == 1);
        proxy.set_down(true);
        write.join().unwrap()
    });
    let failed = failed.unwrap_err();
    assert_eq!(failed.kind, JournalErrorKind::Io, "{failed}");
    assert!(!term.is_owner());
}

#[test]
fn cluster_02_a_write_may_take_longer_than_a_term_that_is_renewed() {
    let Some(parameters) = parameters() else {
        return;
    };
    let schema = name("locked");
    let options = options(&parameters).schema(&schema).unwrap();
    let server = Postgres::connect(options).unwrap();
    let (term, mut journal) = acquire(&server, "notes", "ann");
    let mut other = sql(&parameters);
    let mut transaction = other.transaction().unwrap();
    let lock = format!("LOCK TABLE \"{schema}\".doclock_log IN EXCLUSIVE MODE");
    transaction.batch_execute(&lock).unwrap();
    thread::scope(|scope| {
        let write = scope.spawn(|| journal.write(&block(1, 1, "one")));
        let mut renewals = 0;
        until("two terms have passed", || {
            let is_renewal = |event: &OwnerEvent| matches!(event, OwnerEvent::Renewed { .. });
            renewals += term.events().try_iter().filter(is_renewal).count();
            renewals >= 8
        });
        assert!(!write.is_finished());
        // Now all attempts go on, and one of them is the first.
        transaction.rollback().unwrap();
        write.join().unwrap().unwrap();
    });
    journal.write(&block(2, 2, "two")).unwrap();
    assert!(term.is_owner());
    let blocks = [(1, "one".to_owned()), (2, "two".to_owned())];
    assert_eq!(load(&mut journal).unwrap().1, blocks);
}

#[test]
fn cluster_02_one_attempt_may_take_longer_than_a_term_that_is_renewed() {
    let Some(parameters) = parameters() else {
        return;
    };
    let (proxy, proxied) = Proxy::start(&parameters);
    let server = connect(&proxied);
    let (term, mut journal) = acquire(&server, &name("large"), "ann");
    let long = "x".repeat(3 << 20);
    proxy.slow_down();
    let began = Instant::now();
    journal
        .write(&entries(&[("head", Some(&long))], None))
        .unwrap();
    assert!(
        began.elapsed() > Duration::from_millis(600),
        "{:?}",
        began.elapsed()
    );
    assert!(term.is_owner());
}

#[test]
fn cluster_05_a_document_is_handed_over_also_if_a_statement_or_an_answer_is_lost() {
    let Some(parameters) = parameters() else {
        return;
    };
    let (proxy, proxied) = Proxy::start(&parameters);
    let server = connect(&proxied);
    let document = name("handed over");
    for (fault, text) in [
        (
            Fault::LosesStatement,
            "SET expires_at = clock_timestamp()\n",
        ),
        (Fault::LosesAnswer, "SET expires_at = clock_timestamp()\n"),
        (Fault::LosesStatement, "SET epoch = greatest"),
        (Fault::LosesAnswer, "SET epoch = greatest"),
    ] {
        let met = proxy.met();
        let long = || short("ann").term(Duration::from_secs(30));
        proxy.next(fault, text);
        let (term, _journal) = server.acquire(&document, long()).unwrap();
        term.hand_over().unwrap();
        assert_eq!(proxy.met(), met + 1);
        let (next, _journal) = server.try_acquire(&document, long()).unwrap();
        assert!(next.epoch() > term.epoch());
        next.hand_over().unwrap();
    }
}

/// The code of the process that `owner_process` starts. As a test of its own it does nothing.
#[test]
fn cluster_process_of_an_owner() {
    let Ok(document) = std::env::var("DOCLOCK_OWNED_DOCUMENT") else {
        return;
    };
    let server = connect(&parameters().unwrap());
    let (_term, journal) = acquire(&server, &document, "child");
    let store = DataStore::open_journal(journal, DurableOptions::new()).unwrap();
    let manager = TransactionManager::new(store);
    loop {
        match manager.execute(create(element("paragraph", []))) {
            Ok(result) => {
                let clock = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
                println!("clock {}", clock.unwrap().as_secs());
                println!("acknowledged {}", result.version);
            }
            Err(error) => {
                println!("ended {error}");
                return;
            }
        }
    }
}

/// Starts a process that owns a document and commits to it, and returns what it prints.
fn owner_process(document: &str) -> (Child, impl Iterator<Item = String> + use<>) {
    start_owner(
        &mut Command::new(std::env::current_exe().unwrap()),
        document,
    )
}

/// Starts the process with a command that runs this program.
pub(crate) fn start_owner(
    command: &mut Command,
    document: &str,
) -> (Child, impl Iterator<Item = String> + use<>) {
    let mut child = command
        .args([
            "--exact",
            "failures::cluster_process_of_an_owner",
            "--nocapture",
        ])
        .env("DOCLOCK_OWNED_DOCUMENT", document)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    (child, lines.map_while(Result::ok))
}

pub(crate) fn acknowledged(line: &str) -> Option<u64> {
    line.strip_prefix("acknowledged ")?.parse().ok()
}

pub(crate) fn signal(child: &Child, signal: &str) {
    let kill = Command::new("kill")
        .args([signal, &child.id().to_string()])
        .status();
    assert!(kill.unwrap().success());
}

/// Opens the document as the next owner, and returns its version.
pub(crate) fn take_over(server: &Postgres, document: &str) -> u64 {
    let (term, journal) = acquire(server, document, "next");
    let store = DataStore::open_journal(journal, DurableOptions::new()).unwrap();
    let manager = TransactionManager::new(store.clone());
    let version = store.version();
    let result = manager.execute(create(element("paragraph", []))).unwrap();
    assert_eq!(result.version, version + 1);
    assert_eq!(result.fencing_token.epoch(), term.epoch());
    // The next owner repeats the blocks.
    store.close().unwrap();
    term.hand_over().unwrap();
    version
}

#[test]
fn cluster_02_a_killed_owner_loses_no_acknowledged_commit() {
    let Some(parameters) = parameters() else {
        return;
    };
    let server = connect(&parameters);
    let document = name("killed");
    let mut last = 0;
    for round in 1..=5 {
        let (mut child, lines) = owner_process(&document);
        let mut lines = lines.filter_map(|line| acknowledged(&line));
        let first = lines.next().unwrap();
        assert_eq!(first, last + 1);
        lines.nth(10 * round).unwrap();
        child.kill().unwrap();
        let acknowledged = lines.last().unwrap_or(0);
        child.wait().unwrap();
        let version = take_over(&server, &document);
        assert!(version >= acknowledged, "{version} < {acknowledged}");
        last = version + 1;
    }
}

#[test]
fn cluster_05_an_owner_that_was_stopped_beyond_its_term_is_refused() {
    let Some(parameters) = parameters() else {
        return;
    };
    let server = connect(&parameters);
    let document = name("stopped");
    let (mut child, lines) = owner_process(&document);
    let mut lines = lines.filter(|line| line.contains("acknowledged") || line.contains("ended"));
    lines.nth(20).unwrap();
    signal(&child, "-STOP");
    let version = take_over(&server, &document);
    signal(&child, "-CONT");
    let rest: Vec<_> = lines.collect();
    child.wait().unwrap();
    let (ended, before) = rest.split_last().unwrap();
    assert!(ended.starts_with("ended"), "{ended}");
    let acknowledged = before.iter().filter_map(|line| acknowledged(line)).max();
    assert!(acknowledged.unwrap_or(0) <= version, "{acknowledged:?}");
}

#[test]
fn cluster_a_pooler_in_transaction_mode_serves_as_well() {
    let Some(parameters) = parameters() else {
        return;
    };
    let Some((_pooler, pooled)) = crate::server::pooler(&parameters) else {
        return;
    };
    let (one, two) = (
        Postgres::connect(options(&pooled)).unwrap(),
        Postgres::connect(options(&pooled)).unwrap(),
    );
    let document = name("pooled");
    for round in 0..4 {
        let server = if round % 2 == 0 { &one } else { &two };
        let checked = {
            let (term, journal) = acquire(server, &document, "ann");
            let store = DataStore::open_journal(journal, DurableOptions::new()).unwrap();
            let manager = TransactionManager::new(store.clone());
            for _ in 0..20 {
                manager.execute(create(element("paragraph", []))).unwrap();
            }
            store.close().unwrap();
            term.hand_over().unwrap();
            store.version()
        };
        assert_eq!(checked, (round + 1) * 20);
    }
}
