//! The tables, and the settings that are refused.

use std::sync::Barrier;
use std::thread;

use doclock_postgres::{Postgres, PostgresError, PostgresOptions};

use crate::support::{name, options, parameters, sql};

#[test]
fn cluster_tables_are_created_by_several_processes_at_once() {
    let Some(parameters) = parameters() else {
        return;
    };
    for _ in 0..5 {
        let schema = name("a \"quoted\" schema");
        let (together, parameters, schema) = (&Barrier::new(8), &parameters, &schema);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(move || {
                    let options = options(parameters).schema(schema).unwrap();
                    together.wait();
                    Postgres::connect(options).unwrap();
                });
            }
        });
    }
}

#[test]
fn cluster_a_role_that_owns_no_table_uses_them() {
    let Some(parameters) = parameters() else {
        return;
    };
    let schema = name("granted");
    drop(Postgres::connect(options(&parameters).schema(&schema).unwrap()).unwrap());
    let role = name("plain");
    let statements = format!(
        "CREATE ROLE \"{role}\" LOGIN;
        GRANT USAGE ON SCHEMA \"{schema}\" TO \"{role}\";
        GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA \"{schema}\" TO \"{role}\";"
    );
    sql(&parameters).batch_execute(&statements).unwrap();
    let parameters = format!("{parameters} user={role}");
    let server = Postgres::connect(options(&parameters).schema(&schema).unwrap()).unwrap();
    let (term, journal) = crate::support::acquire(&server, "notes", "ann");
    let store = doclock::DataStore::open_journal(journal, Default::default()).unwrap();
    store.close().unwrap();
    term.hand_over().unwrap();
}

#[test]
fn cluster_05_a_role_whose_confirmed_commits_a_crash_would_lose_is_refused() {
    let Some(parameters) = parameters() else {
        return;
    };
    let mut sql = sql(&parameters);
    for (setting, is_refused) in [
        ("off", true),
        ("local", false),
        ("remote_write", false),
        ("on", false),
    ] {
        let role = name("role");
        let statements = format!(
            "CREATE ROLE \"{role}\" LOGIN SUPERUSER;
            ALTER ROLE \"{role}\" SET synchronous_commit = {setting}"
        );
        sql.batch_execute(&statements).unwrap();
        let connected = Postgres::connect(options(&format!("{parameters} user={role}")));
        match connected {
            Err(PostgresError::SynchronousCommit { role: found }) => {
                assert!(is_refused, "{setting}");
                assert_eq!(found, role);
            }
            connected => assert!(connected.is_ok() && !is_refused, "{setting}: {connected:?}"),
        }
    }
}

#[test]
fn cluster_01_a_table_that_a_crash_would_empty_is_refused() {
    let Some(parameters) = parameters() else {
        return;
    };
    let schema = name("unlogged");
    let options = options(&parameters).schema(&schema).unwrap();
    drop(Postgres::connect(options.clone()).unwrap());
    let statement = format!("ALTER TABLE \"{schema}\".doclock_lease SET UNLOGGED");
    sql(&parameters).batch_execute(&statement).unwrap();
    let refused = Postgres::connect(options).map(drop);
    let table = "doclock_lease".to_owned();
    assert_eq!(refused, Err(PostgresError::Unlogged { table }));
}

#[test]
fn cluster_names_and_parameters_that_cannot_be_used_are_refused() {
    assert!(matches!(
        PostgresOptions::new("host"),
        Err(PostgresError::Parameters { .. })
    ));
    let options = PostgresOptions::new("host=/nowhere user=ann").unwrap();
    for schema in ["", "a\0b", &"long".repeat(16)] {
        let refused = options.clone().schema(schema);
        assert!(matches!(refused, Err(PostgresError::Name { most: 63, .. })));
    }
    let refused = Postgres::connect(options).map(drop);
    assert!(
        matches!(refused, Err(PostgresError::Connection { .. })),
        "{refused:?}"
    );
}
