//! Failovers to a standby that has each confirmed commit, and to one that lacks the last ones.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use doclock::durable::DurableOptions;
use doclock::lock::CancelToken;
use doclock::{CommitError, DataStore, View, dsl::*};
use doclock_postgres::{Member, MemberOptions, PostgresError, RequestError, RequestOptions};

use crate::request_support::Cancels;
use crate::server::Server;
use crate::support::{connect, short, sql, until};

/// What a caller was told of its commit.
#[derive(Debug, PartialEq, Eq)]
enum Told {
    Committed,
    Fenced,
    Unknown,
}

/// The parameters of the first server that answers.
fn any(primary: &Server, standby: &Server) -> String {
    let folder = |server: &Server| server.folder.path().display().to_string();
    let hosts = format!("{},{}", folder(primary), folder(standby));
    primary.parameters().replace(&folder(primary), &hosts)
}

/// The parameters of whichever server can be written to.
fn either(primary: &Server, standby: &Server) -> String {
    any(primary, standby) + " target_session_attrs=read-write"
}

#[test]
fn cluster_05_a_failover_to_a_standby_with_remote_apply_loses_no_acknowledged_commit() {
    let Some(primary) = Server::start("") else {
        return;
    };
    connect(&primary.parameters());
    let standby = primary.standby();
    let settings = [
        "ALTER SYSTEM SET synchronous_standby_names = '*'",
        "ALTER SYSTEM SET synchronous_commit = 'remote_apply'",
        "SELECT pg_reload_conf()",
    ];
    for setting in settings {
        sql(&primary.parameters()).batch_execute(setting).unwrap();
    }
    until("the standby is synchronous", || {
        let state = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'";
        let mut sql = sql(&primary.parameters());
        let setting = sql.query_one("SHOW synchronous_commit", &[]).unwrap();
        setting.get::<_, String>(0) == "remote_apply"
            && sql.query_one(state, &[]).unwrap().get::<_, i64>(0) == 1
    });
    let server = connect(&either(&primary, &standby));
    let options = short("ann").term(Duration::from_secs(2));
    let (term, journal) = server.acquire("notes", options.clone()).unwrap();
    let store = DataStore::open_journal(journal, DurableOptions::new()).unwrap();
    let (commits, told) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    thread::scope(|scope| {
        for thread in 0..4 {
            let (store, commits, told) = (&store, &commits, &told);
            scope.spawn(move || {
                for nth in 0.. {
                    let id = format!("{thread}-{nth}");
                    let mut transaction = store.begin("ann").unwrap();
                    let node = element("paragraph", []).with_id(&*id);
                    transaction.create(node).unwrap();
                    let outcome = match transaction.commit() {
                        Ok(_) => Told::Committed,
                        Err(CommitError::Fenced { .. } | CommitError::ReadOnly { .. }) => {
                            Told::Fenced
                        }
                        Err(CommitError::Unknown { .. }) => Told::Unknown,
                        Err(error) => panic!("{error}"),
                    };
                    let ends = outcome != Told::Committed;
                    told.lock().unwrap().insert(id, outcome);
                    if ends {
                        return;
                    }
                    commits.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        until("some commits", || commits.load(Ordering::Relaxed) > 100);
        primary.kill();
        standby.control(&["-w", "promote"]);
    });
    assert!(term.lost().is_some());
    let (next, journal) = server.acquire("notes", options).unwrap();
    assert!(next.epoch() >= 2 << 16, "{}", next.epoch());
    let reopened = DataStore::open_journal(journal, DurableOptions::new()).unwrap();
    let snapshot = reopened.snapshot();
    let told = told.into_inner().unwrap();
    let mut stored = 0;
    for (id, outcome) in &told {
        let is_stored = snapshot.contains(&**id);
        stored += u64::from(is_stored);
        match outcome {
            Told::Committed => assert!(is_stored, "{id} was acknowledged"),
            Told::Fenced => assert!(!is_stored, "{id} was fenced"),
            Told::Unknown => {}
        }
    }
    assert_eq!(snapshot.version(), stored);
}

#[test]
fn cluster_02_a_request_that_a_failover_has_lost_is_lost_and_its_call_runs_once() {
    let Some(primary) = Server::start("") else {
        return;
    };
    connect(&primary.parameters());
    let standby = primary.standby();
    let mut cut_off = sql(&standby.parameters());
    let settings = [
        "ALTER SYSTEM SET primary_conninfo = ''",
        "SELECT pg_reload_conf()",
    ];
    for setting in settings {
        cut_off.batch_execute(setting).unwrap();
    }
    until("the standby receives nothing", || {
        let receivers = "SELECT count(*) FROM pg_stat_wal_receiver";
        cut_off.query_one(receivers, &[]).unwrap().get::<_, i64>(0) == 0
    });
    drop(cut_off);
    let server = connect(&either(&primary, &standby));
    let options = |owner: &str| MemberOptions::new(short(owner));
    let follower = Member::join(&server, "notes", options("bob").follow_only()).unwrap();
    let (result, pending) = thread::scope(|scope| {
        let cancels = Cancels(CancelToken::new());
        let of_bob = RequestOptions::new("bob").cancel_token(&cancels.0);
        let call = || follower.execute_with(create(text_node("p", "a")), of_bob);
        let call = scope.spawn(call);
        until("it waits", || {
            let count = "SELECT count(*) FROM doclock.doclock_request";
            let row = sql(&primary.parameters()).query_one(count, &[]).unwrap();
            row.get::<_, i64>(0) == 1
        });
        let requests = connect(&any(&primary, &standby));
        let requests = requests.requests("notes", "other").unwrap();
        let batch = create(text_node("p", "b"));
        let pending = requests.submit(batch, RequestOptions::new("cem")).unwrap();
        primary.kill();
        // As far as a standby knows, it may receive the request yet.
        until("the standby does not say that it is lost", || {
            match pending.poll() {
                Err(RequestError::Server(PostgresError::Server { sqlstate, .. })) => {
                    sqlstate == "55000"
                }
                // A process of the primary answers until it finds out that it was killed.
                Err(RequestError::Server(_)) | Ok(None) => false,
                ended => panic!("{ended:?}"),
            }
        });
        standby.control(&["-w", "promote"]);
        let owner = Member::join(&server, "notes", options("ann")).unwrap();
        let result = call.join().unwrap().unwrap();
        owner.leave().unwrap();
        (result, pending)
    });
    assert_eq!((result.version, result.repeated), (1, false));
    let lost = RequestError::Lost {
        document: "notes".into(),
        number: 2,
    };
    assert_eq!(pending.poll(), Err(lost));
}
