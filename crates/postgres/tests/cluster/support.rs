//! What the tests of the cluster share.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use doclock::durable::{Journal, JournalError, JournalWrite, StoredPart};
use doclock_postgres::{Postgres, PostgresJournal, PostgresOptions, Term, TermOptions};

/// The connection parameters of the server beside which the tests run. `None` if there is none.
pub(crate) fn parameters() -> Option<String> {
    let variable = |name: &str| std::env::var(name).ok();
    let Some(host) = variable("PGHOST") else {
        let required = variable("DOCLOCK_CLUSTER_REQUIRED").is_some();
        assert!(!required, "PGHOST is not set: run scripts/with-postgres");
        println!("skipped: PGHOST is not set: run scripts/with-postgres");
        return None;
    };
    let port = variable("PGPORT").unwrap_or_else(|| "5432".into());
    let user = variable("PGUSER").unwrap_or_else(|| "postgres".into());
    let database = variable("PGDATABASE").unwrap_or_else(|| user.clone());
    Some(format!(
        "host={host} port={port} user={user} dbname={database}"
    ))
}

/// What the statement of an append has, and no other one.
pub(crate) const APPEND: &str = "doclock_append_1(";

/// What the statement with which an owner takes requests has, and no other one.
pub(crate) const TAKE: &str = "doclock_take_requests_1(";

/// A name that no other test has.
pub(crate) fn name(prefix: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{prefix}-{}-{number}", std::process::id())
}

pub(crate) fn connect(parameters: &str) -> Postgres {
    Postgres::connect(options(parameters)).unwrap()
}

/// Options that also allow a server without syncs, with which most tests are faster.
pub(crate) fn options(parameters: &str) -> PostgresOptions {
    PostgresOptions::new(parameters)
        .unwrap()
        .allow_lossy_server()
}

pub(crate) fn sql(parameters: &str) -> postgres::Client {
    postgres::Client::connect(parameters, postgres::NoTls).unwrap()
}

/// Creates a role that uses the tables of a schema and owns none.
pub(crate) fn role(parameters: &str, schema: &str) -> String {
    let role = name("role");
    let statements = format!(
        "CREATE ROLE \"{role}\" LOGIN;
        GRANT USAGE ON SCHEMA \"{schema}\" TO \"{role}\";
        GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA \"{schema}\" TO \"{role}\";"
    );
    sql(parameters).batch_execute(&statements).unwrap();
    role
}

/// Options with a short term.
pub(crate) fn short(owner: &str) -> TermOptions {
    let poll = Duration::from_millis(5);
    TermOptions::new(owner)
        .term(Duration::from_millis(600))
        .margin(Duration::from_millis(60))
        .poll(poll)
        .timeout(Duration::from_secs(20))
}

pub(crate) fn acquire(server: &Postgres, document: &str, owner: &str) -> (Term, PostgresJournal) {
    server.acquire(document, short(owner)).unwrap()
}

/// Waits for a condition, for at most 20 seconds.
#[track_caller]
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < deadline, "20 seconds without: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

pub(crate) fn block(number: u64, version: u64, text: &str) -> JournalWrite {
    let mut write = JournalWrite::default();
    write.block = Some((number, text.as_bytes().to_vec()));
    write.version = version;
    write
}

pub(crate) fn entries(
    entries: &[(&str, Option<&str>)],
    removed_through: Option<u64>,
) -> JournalWrite {
    let mut write = JournalWrite::default();
    let bytes = |text: &str| text.as_bytes().to_vec();
    let entry = |(key, text): &(&str, Option<&str>)| ((*key).to_owned(), text.map(bytes));
    write.entries = entries.iter().map(entry).collect();
    write.removed_through = removed_through;
    write
}

/// The entries and blocks of a journal, as text.
pub(crate) type Stored = (Vec<(String, String)>, Vec<(u64, String)>);

pub(crate) fn load(journal: &mut PostgresJournal) -> Result<Stored, JournalError> {
    let (mut entries, mut blocks) = (Vec::new(), Vec::new());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    journal.load(&mut |part| {
        match part {
            StoredPart::Entry { key, bytes } => entries.push((key.to_owned(), text(bytes))),
            StoredPart::Block { number, bytes } => blocks.push((number, text(bytes))),
        }
        Ok(())
    })?;
    Ok((entries, blocks))
}

/// The blocks in the log, read beside doclock: number, epoch, versions and bytes.
pub(crate) fn log(parameters: &str, document: &str) -> Vec<(i64, i64, i64, i64, String)> {
    let statement = "SELECT number, epoch, first_version, last_version,
        convert_from(block, 'UTF8') FROM doclock.doclock_log WHERE document = $1 ORDER BY number";
    let rows = sql(parameters).query(statement, &[&document]).unwrap();
    let row = |row: &postgres::Row| (row.get(0), row.get(1), row.get(2), row.get(3), row.get(4));
    rows.iter().map(row).collect()
}

/// Lets another owner begin although the term lasts, as if the clock of the server had been set.
pub(crate) fn steal(parameters: &str, document: &str) {
    let statement = "UPDATE doclock.doclock_lease
        SET expires_at = clock_timestamp() - interval '1 hour' WHERE document = $1";
    assert_eq!(sql(parameters).execute(statement, &[&document]).unwrap(), 1);
}

/// The versions in the log, which are dense if they count from one.
pub(crate) fn log_versions(parameters: &str, document: &str) -> Vec<i64> {
    let statement = "SELECT generate_series(first_version, last_version) AS version
        FROM doclock.doclock_log WHERE document = $1 ORDER BY version";
    let rows = sql(parameters).query(statement, &[&document]).unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}
