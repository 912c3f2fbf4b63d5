//! The tables, and the settings that are refused.

use std::collections::BTreeSet;
use std::sync::Barrier;
use std::thread;

use doclock::durable::Journal;
use doclock_postgres::{Postgres, PostgresError, PostgresOptions};

use crate::support::{acquire, block, load, name, options, parameters, role, sql};

#[test]
fn cluster_tables_are_created_by_several_processes_at_once() {
    let Some(parameters) = parameters() else {
        return;
    };
    for _ in 0..5 {
        let schema = name("a \"quoted\" 'schema' \\ $$");
        let (together, parameters, schema) = (&Barrier::new(8), &parameters, &schema);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(move || {
                    let options = options(parameters).schema(schema).unwrap();
                    together.wait();
                    let server = Postgres::connect(options).unwrap();
                    let (_term, mut journal) = acquire(&server, &name("notes"), "ann");
                    journal.write(&block(1, 1, "one")).unwrap();
                });
            }
        });
    }
}

#[test]
fn cluster_functions_are_added_to_the_tables_of_an_earlier_version() {
    let Some(parameters) = parameters() else {
        return;
    };
    let schema = name("earlier");
    let connect = || Postgres::connect(options(&parameters).schema(&schema).unwrap());
    let write = |number: u64, text| {
        let (term, mut journal) = acquire(&connect().unwrap(), "notes", "ann");
        load(&mut journal).unwrap();
        journal.write(&block(number, number, text)).unwrap();
        let (_, blocks) = load(&mut journal).unwrap();
        term.hand_over().unwrap();
        blocks
    };
    write(1, "one");
    let functions = "SELECT p.oid::regprocedure::text FROM pg_proc p
        JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = $1";
    let functions = || -> Vec<String> {
        let rows = sql(&parameters).query(functions, &[&schema]).unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    };
    let found = functions();
    assert_eq!(found.len(), 5, "{found:?}");
    // A later version has another one beside it, which stays.
    let append = found
        .iter()
        .find(|found| found.contains("append_1("))
        .unwrap();
    let later = append.replace("_append_1(", "_append_2(");
    let drop = found.iter().map(|found| format!("DROP FUNCTION {found};"));
    let statements = format!(
        "{} CREATE FUNCTION {later} RETURNS boolean LANGUAGE sql AS 'SELECT true'",
        drop.collect::<String>()
    );
    sql(&parameters).batch_execute(&statements).unwrap();
    assert_eq!(functions(), std::slice::from_ref(&later));
    assert_eq!(write(2, "two"), [(1, "one".into()), (2, "two".into())]);
    let expected: BTreeSet<_> = found.into_iter().chain([later]).collect();
    assert_eq!(BTreeSet::from_iter(functions()), expected);
}

#[test]
fn cluster_a_role_that_owns_no_table_uses_them() {
    let Some(parameters_of_all) = parameters() else {
        return;
    };
    let schema = name("granted");
    drop(Postgres::connect(options(&parameters_of_all).schema(&schema).unwrap()).unwrap());
    let role = role(&parameters_of_all, &schema);
    let parameters = format!("{parameters_of_all} user={role}");
    let server = Postgres::connect(options(&parameters).schema(&schema).unwrap()).unwrap();
    let (term, mut journal) = acquire(&server, "notes", "ann");
    journal.write(&block(1, 1, "one")).unwrap();
    drop(journal);
    term.hand_over().unwrap();
    // It is not the one to add what is missing.
    let missing = format!("DROP TABLE \"{schema}\".doclock_follower");
    sql(&parameters_of_all).batch_execute(&missing).unwrap();
    let refused = Postgres::connect(options(&parameters).schema(&schema).unwrap()).map(drop);
    let denied = |error: PostgresError| error.to_string().contains("42501");
    assert!(refused.is_err_and(denied));
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
