//! Documents in a database that was restored from a backup, or copied.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use doclock::TransactionManager;
use doclock::durable::DurableOptions;
use doclock::{DataStore, FencingToken};
use doclock_postgres::{Member, MemberError, MemberEvent, MemberOptions, PostgresError};

use crate::request_support::node;
use crate::support::{connect, name, parameters, short, sql};

const LIMIT: Duration = Duration::from_secs(20);

/// A database of its own, and the parameters of a connection to it.
fn database(parameters: &str) -> (String, String) {
    let database = name("restored").replace('-', "_");
    create(parameters, &database, "template0");
    let of_database = in_database(parameters, &database);
    (database, of_database)
}

fn create(parameters: &str, database: &str, template: &str) {
    let create = format!("CREATE DATABASE {database} TEMPLATE {template}");
    sql(parameters).batch_execute(&create).unwrap();
}

fn in_database(parameters: &str, database: &str) -> String {
    let (rest, _) = parameters.rsplit_once(" dbname=").unwrap();
    format!("{rest} dbname={database}")
}

/// Owns the document once, and returns the token of a commit.
fn own(parameters: &str) -> Result<FencingToken, PostgresError> {
    let server = connect(parameters);
    let (term, journal) = server.try_acquire("notes", short("ann"))?;
    let store = DataStore::open_journal(journal, DurableOptions::new()).unwrap();
    let manager = TransactionManager::new(store.clone());
    let version = store.version();
    let committed = manager.execute(node(&format!("n{version}"))).unwrap();
    store.close().unwrap();
    term.hand_over().unwrap();
    Ok(committed.fencing_token)
}

/// The statement in the error, with this epoch.
#[track_caller]
fn statement(refused: &PostgresError, epoch: u64) -> String {
    assert!(
        matches!(refused, PostgresError::Restored { .. }),
        "{refused}"
    );
    let text = refused.to_string();
    let (_, statement) = text.split_once("run ").unwrap();
    let (statement, _) = statement.split_once(", with").unwrap();
    statement.replace("(N)", &format!("({epoch})"))
}

/// A program of the server.
fn program(name: &str, parameters: &str) -> Option<Command> {
    let folder = std::env::var("DOCLOCK_POSTGRES_BIN").ok()?;
    let mut command = Command::new(PathBuf::from(folder).join(name));
    command.args(["--dbname", parameters]);
    Some(command)
}

#[test]
fn cluster_01_a_document_that_was_restored_has_no_token_twice() {
    let Some(all) = parameters() else { return };
    let (_, parameters) = database(&all);
    let mut tokens = vec![own(&parameters).unwrap(), own(&parameters).unwrap()];
    let Some(mut dump) = program("pg_dump", &parameters) else {
        return println!("skipped: DOCLOCK_POSTGRES_BIN is not set");
    };
    let folder = tempfile::tempdir().unwrap();
    let backup = folder.path().join("backup.sql");
    assert!(dump.arg("--file").arg(&backup).status().unwrap().success());
    for round in 0..3 {
        tokens.push(own(&parameters).unwrap());
        sql(&parameters)
            .batch_execute("DROP SCHEMA doclock CASCADE")
            .unwrap();
        let mut restore = program("psql", &parameters).unwrap();
        restore.args(["--quiet", "--output", "/dev/null", "--file"]);
        assert!(restore.arg(&backup).status().unwrap().success());
        let refused = own(&parameters).unwrap_err();
        // It is refused until the statement has run, and then no more.
        assert_eq!(own(&parameters), Err(refused.clone()), "round {round}");
        let greatest = tokens.iter().max().unwrap().epoch();
        let statement = statement(&refused, greatest);
        sql(&parameters).batch_execute(&statement).unwrap();
        let next = own(&parameters).unwrap();
        assert!(
            tokens.iter().all(|before| *before < next),
            "{tokens:?}, {next}"
        );
        // Also a number that is a little too small leads to no token twice.
        assert_eq!(next.epoch(), ((greatest >> 16) + 1) << 16);
        tokens.push(next);
        assert!(tokens.is_sorted(), "{tokens:?}");
    }
}

#[test]
fn cluster_05_a_copied_document_is_followed_and_has_no_owner_before_a_statement_is_run() {
    let Some(all) = parameters() else { return };
    let (original, parameters) = database(&all);
    let token = own(&parameters).unwrap();
    let copy = format!("{original}_copy");
    create(&all, &copy, &original);
    let of_copy = in_database(&all, &copy);
    let server = connect(&of_copy);
    let member = Member::join(&server, "notes", MemberOptions::new(short("bob"))).unwrap();
    assert_eq!(member.snapshot().version(), 1);
    let refused = loop {
        match member.events().recv_timeout(LIMIT) {
            Ok(MemberEvent::TakeoverFailed { cause, .. }) => break cause,
            Ok(_) if member.store().is_none() => {}
            ended => panic!("it owns the copy: {ended:?}"),
        }
    };
    let MemberError::Server(refused) = refused else {
        panic!("{refused:?}");
    };
    assert!(member.store().is_none());
    let statement = statement(&refused, token.epoch());
    sql(&of_copy).batch_execute(&statement).unwrap();
    member.wait_store(LIMIT).expect("it does not own the copy");
    let result = member.execute(node("copied")).unwrap();
    assert!(result.fencing_token.epoch() > token.epoch());
    // The original goes on.
    assert!(own(&parameters).unwrap() > token);
    for wrong in ["NULL", "-1", "1 << 28"] {
        let call = format!("SELECT doclock.doclock_restored({wrong})");
        assert!(sql(&parameters).batch_execute(&call).is_err(), "{wrong}");
    }
    member.leave().unwrap();
}
