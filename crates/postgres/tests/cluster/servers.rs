//! Servers of the tests' own, which they stop, restart and promote.

use std::os::unix::net::UnixListener;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use doclock::durable::{DurableOptions, Journal, JournalErrorKind};
use doclock::{DataStore, TransactionManager, dsl::*};
use doclock_postgres::{
    LostReason, Member, MemberOptions, Postgres, PostgresError, PostgresOptions,
};

use crate::server::{Server, run};
use crate::support::{
    acquire, block, connect, load, name, options, parameters, short, sql, steal, until,
};

#[test]
fn cluster_05_a_server_without_syncs_is_refused() {
    let Some(server) = Server::start("-c fsync=off") else {
        return;
    };
    let refused = Postgres::connect(PostgresOptions::new(&server.parameters()).unwrap());
    let refused = refused.map(drop).unwrap_err();
    assert!(matches!(refused, PostgresError::Fsync { .. }), "{refused}");
}

#[test]
fn cluster_02_restarts_of_the_server_lose_no_acknowledged_commit() {
    let Some(server) = Server::start("") else {
        return;
    };
    let parameters = server.parameters();
    let postgres = connect(&parameters);
    let options = short("ann").term(Duration::from_secs(20));
    let (term, journal) = postgres.acquire("notes", options).unwrap();
    let store = DataStore::open_journal(journal, DurableOptions::new()).unwrap();
    let manager = TransactionManager::new(store.clone());
    let commits = std::sync::atomic::AtomicU64::new(0);
    let ends = std::sync::atomic::AtomicBool::new(false);
    use std::sync::atomic::Ordering::SeqCst;
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !ends.load(SeqCst) {
                    manager.execute(create(element("paragraph", []))).unwrap();
                    commits.fetch_add(1, SeqCst);
                }
            });
        }
        for round in 0..4 {
            let before = commits.load(SeqCst);
            until("more commits", || commits.load(SeqCst) > before + 20);
            if round % 2 == 0 {
                server.crash();
                server.run("");
            } else {
                server.kill();
                server.run_after_kill("");
            }
        }
        ends.store(true, SeqCst);
    });
    assert!(term.is_owner());
    assert_eq!(store.version(), commits.load(SeqCst));
    drop((manager, store));
    term.hand_over().unwrap();
    let (_term, journal) = acquire(&postgres, "notes", "bob");
    let store = DataStore::open_journal(journal, DurableOptions::new()).unwrap();
    assert_eq!(store.version(), commits.load(SeqCst));
}

#[test]
fn cluster_01_the_term_is_lost_when_a_standby_takes_over_and_the_epoch_rises() {
    let Some(primary) = Server::start("") else {
        return;
    };
    connect(&primary.parameters());
    let standby = primary.standby();
    // Both hosts: a new connection finds the server that takes writes.
    let hosts = format!(
        "{},{}",
        primary.folder.path().display(),
        standby.folder.path().display()
    );
    let alone = primary.folder.path().display().to_string();
    let parameters =
        primary.parameters().replace(&alone, &hosts) + " target_session_attrs=read-write";
    let server = connect(&parameters);
    let options = short("ann").term(Duration::from_secs(20));
    let (term, mut journal) = server.acquire("notes", options.clone()).unwrap();
    journal.write(&block(1, 1, "one")).unwrap();
    let received = || {
        let count = "SELECT count(*) FROM doclock.doclock_log";
        sql(&standby.parameters())
            .query_one(count, &[])
            .unwrap()
            .get::<_, i64>(0)
    };
    until("the standby has the block", || received() == 1);
    // What the standby misses: as if it had been asynchronous and late.
    standby.control(&["-m", "immediate", "stop"]);
    let (epoch, timeline) = (term.epoch(), 1);
    primary.crash();
    standby.run("");
    standby.control(&["-w", "promote"]);

    let refused = journal.write(&block(2, 2, "two")).unwrap_err();
    assert_eq!(refused.kind, JournalErrorKind::Fenced, "{refused}");
    let reason = LostReason::NewTimeline {
        timeline: 2,
        before: timeline,
    };
    assert_eq!(term.lost(), Some(reason));
    // Until the lease has ended, an owner that does not know of the failover may act as one.
    let refused = server.try_acquire("notes", options.clone()).unwrap_err();
    assert!(matches!(refused, PostgresError::Held { .. }), "{refused}");
    steal(&standby.parameters(), "notes");
    let (next, mut journal) = server.try_acquire("notes", options).unwrap();
    assert!(
        next.epoch() >= 2 << 16 && epoch < 2 << 16,
        "{}",
        next.epoch()
    );
    assert_eq!(load(&mut journal).unwrap().1, [(1, "one".to_owned())]);
    journal.write(&block(2, 2, "two")).unwrap();
}

#[test]
fn cluster_05_a_server_that_stops_answering_holds_no_call_beyond_the_term() {
    let Some(server) = Server::start("") else {
        return;
    };
    let postgres = connect(&server.parameters());
    let document = name("frozen");
    let (term, mut journal) = acquire(&postgres, &document, "ann");
    journal.write(&block(1, 1, "one")).unwrap();
    let pids = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend'
        AND pid <> pg_backend_pid()";
    let pids = sql(&server.parameters()).query(pids, &[]).unwrap();
    let pids: Vec<String> = pids
        .iter()
        .map(|row| row.get::<_, i32>(0).to_string())
        .collect();
    let signal = |signal: &str| run(Command::new("kill").arg(signal).args(&pids));
    // The postmaster too, so that no new connection is made.
    let postmaster = server.postmaster();
    run(Command::new("kill").args(["-STOP", &postmaster]));
    signal("-STOP");
    let began = std::time::Instant::now();
    let failed = journal.write(&block(2, 2, "two")).unwrap_err();
    let took = began.elapsed();
    run(Command::new("kill").args(["-CONT", &postmaster]));
    signal("-CONT");
    assert_eq!(failed.kind, JournalErrorKind::Io, "{failed}");
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert!(!term.is_owner());
    // The statement was sent, and may be carried out when the server goes on.
    let (_next, mut journal) = acquire(&postgres, &document, "bob");
    let (_, blocks) = load(&mut journal).unwrap();
    assert!(blocks.len() <= 2, "{blocks:?}");
    let next = blocks.len() as u64 + 1;
    journal.write(&block(next, next, "next")).unwrap();
}

#[test]
fn cluster_05_a_host_that_does_not_answer_leaves_time_for_the_next_one() {
    let Some(parameters) = parameters() else {
        return;
    };
    let value = |name: &str| {
        let mut pairs = parameters
            .split(' ')
            .filter_map(|pair| pair.split_once('='));
        pairs.find(|(found, _)| *found == name).unwrap().1
    };
    // Connections are made to it, as to a server that was stopped, and nothing reads from them.
    let folder = tempfile::tempdir().unwrap();
    let socket = format!(".s.PGSQL.{}", value("port"));
    let _silent = UnixListener::bind(folder.path().join(socket)).unwrap();
    let host = value("host");
    let hosts = format!("host={},{host}", folder.path().display());
    let both = parameters.replace(&format!("host={host}"), &hosts);
    // More than there is.
    let both = format!("{both} target_session_attrs=read-write connect_timeout=60");
    let began = Instant::now();
    let limit = Duration::from_secs(3);
    let server = Postgres::connect(options(&both).connect_timeout(limit)).unwrap();
    assert!(began.elapsed() < limit, "{:?}", began.elapsed());
    // Each of its connections.
    let options = MemberOptions::new(short("ann").term(Duration::from_secs(20)));
    let member = Member::join(&server, &name("silent"), options).unwrap();
    assert!(member.wait_store(Duration::from_secs(20)).is_some());
    member.execute(create(element("paragraph", []))).unwrap();
    until("the doorbell is heard", || member.has_doorbell());
}

/// Once an insert did not wait for the disk. After a crash, another request had the number of one
/// that the owner was running, and got its outcome.
#[test]
fn cluster_02_a_crash_takes_back_no_request_that_an_owner_can_see() {
    // Nothing but a statement that waits for the disk brings something there.
    let Some(server) = Server::start("-c wal_writer_delay=10s") else {
        return;
    };
    let postgres = connect(&server.parameters());
    let member = |name: &str| MemberOptions::new(short(name)).doorbell(false);
    let follower = Member::join(&postgres, "notes", member("bob").follow_only()).unwrap();
    let inserted_at = || -> Option<SystemTime> {
        let insert = "SELECT inserted_at FROM doclock.doclock_request";
        let mut sql = sql(&server.parameters());
        let row = sql.query_opt(insert, &[]).unwrap();
        row.map(|row| row.get(0))
    };
    let result = thread::scope(|scope| {
        let call = scope.spawn(|| follower.execute(create(text_node("p", "a"))));
        let mut first = None;
        until("it is visible", || {
            first = inserted_at();
            first.is_some()
        });
        server.crash();
        server.run("");
        assert_eq!(inserted_at(), first);
        let owner = Member::join(&postgres, "notes", member("ann")).unwrap();
        let result = call.join().unwrap().unwrap();
        owner.leave().unwrap();
        result
    });
    assert_eq!((result.version, result.repeated), (1, false));
}
