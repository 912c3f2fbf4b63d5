//! Durable commits: one row or one letter each, by several threads, on a real disk.

mod figures;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use doclock::dsl::{create, insert_text, text_node};
use doclock::durable::{Durability, DurableOptions};
use doclock::{DataStore, TransactionManager};
use nix::sys::statfs::{TMPFS_MAGIC, statfs};
use redb::{Database, TableDefinition};
use rusqlite::{Connection, params};

use crate::Result;
use crate::measure::{Commit, interleaved, repeat, timed};
use crate::report::{Report, Unit};

const SUITE: &str = "durable";

const ABOUT: &str = "\
Each thread commits one small write after the other, and waits for each. The files are in `target`,
which must be on a disk.
  doclock              a letter inserted into a text of the thread; returns when it is durable
  doclock (later)      the same with Durability::Later, and one wait at the end
  doclock (in memory)  the same without a file
  redb                 a row of the thread replaced in a transaction of its own, one sync each
  SQLite WAL FULL      the same, with a connection for each thread
  SQLite WAL NORMAL    the same without a sync: the last commits can be lost with the power";

/// Threads, and the commits of each.
const CASES: [(&str, usize, usize); 3] = [
    ("1 thread", 1, 300),
    ("8 threads", 8, 150),
    ("64 threads", 64, 40),
];

/// Commits that wait for no sync are faster by as much.
const WITHOUT_SYNC: usize = 20;

#[derive(Clone, Copy, PartialEq)]
enum Subject {
    Doclock(Option<Durability>),
    Redb,
    Sqlite(&'static str),
}

const SUBJECTS: [(&str, Subject); 6] = [
    ("doclock", Subject::Doclock(Some(Durability::Durable))),
    ("doclock (later)", Subject::Doclock(Some(Durability::Later))),
    ("doclock (in memory)", Subject::Doclock(None)),
    ("redb", Subject::Redb),
    ("SQLite WAL FULL", Subject::Sqlite("FULL")),
    ("SQLite WAL NORMAL", Subject::Sqlite("NORMAL")),
];

pub fn run(rounds: usize, report: &Report) -> Result {
    report.heading(SUITE, ABOUT, &[])?;
    let folder = PathBuf::from("target/durable-bench");
    std::fs::create_dir_all(&folder)?;
    if statfs(&folder)?.filesystem_type() == TMPFS_MAGIC {
        return Err("target is in memory, where a sync costs nothing: use a disk".into());
    }
    for (case, threads, commits) in CASES {
        let mut subjects = SUBJECTS.map(|(_, subject)| subject);
        let spreads = interleaved(rounds, &mut subjects, |_, subject| {
            let syncs = !matches!(
                subject,
                Subject::Doclock(Some(Durability::Later) | None) | Subject::Sqlite("NORMAL")
            );
            let commits = if syncs {
                commits
            } else {
                commits * WITHOUT_SYNC
            };
            let time = turn(*subject, &folder, threads, commits)?;
            Ok(Some((threads * commits) as f64 / time.as_secs_f64()))
        })?;
        let names = SUBJECTS.map(|(name, _)| name).into_iter();
        report.case(SUITE, case, Unit::TransactionsPerSecond, names.zip(spreads))?;
    }
    figures::run(report, &folder)?;
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}

fn turn(subject: Subject, folder: &Path, threads: usize, commits: usize) -> Result<Duration> {
    std::fs::remove_dir_all(folder)?;
    std::fs::create_dir_all(folder)?;
    let path = folder.join("measured");
    match subject {
        Subject::Doclock(durability) => {
            let store = match durability {
                Some(durability) => {
                    DataStore::open_with(&path, DurableOptions::new().durability(durability))?
                }
                None => DataStore::new(),
            };
            let manager = TransactionManager::new(store.clone());
            let commit = |thread: usize| -> Result<Commit> {
                let id = format!("text {thread}");
                manager.execute(create(text_node("text", "some text").with_id(&*id)))?;
                let manager = manager.clone();
                Ok(Box::new(move || {
                    manager.execute(insert_text(0, "x").on(&*id))?;
                    Ok(())
                }))
            };
            let all = prepared(threads, commit)?;
            timed(|| {
                repeat(all, commits)?;
                if durability.is_some() {
                    store.wait_durable(store.version()).wait()?;
                }
                Ok(())
            })
        }
        Subject::Redb => {
            const ROWS: TableDefinition<'_, u64, &str> = TableDefinition::new("rows");
            let database = Arc::new(Database::create(&path)?);
            let commit = |thread: usize| -> Result<Commit> {
                let database = Arc::clone(&database);
                Ok(Box::new(move || {
                    let transaction = database.begin_write()?;
                    let text = "some text";
                    transaction.open_table(ROWS)?.insert(thread as u64, text)?;
                    transaction.commit()?;
                    Ok(())
                }))
            };
            let all = prepared(threads, commit)?;
            timed(|| repeat(all, commits))
        }
        Subject::Sqlite(synchronous) => {
            let open = || -> Result<Connection> {
                let connection = Connection::open(&path)?;
                // SQLite lets connections starve: with 64, for many commits.
                connection.busy_timeout(Duration::from_secs(600))?;
                connection.pragma_update(None, "journal_mode", "WAL")?;
                connection.pragma_update(None, "synchronous", synchronous)?;
                Ok(connection)
            };
            open()?.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, text TEXT)", [])?;
            let commit = |thread: usize| -> Result<Commit> {
                let connection = open()?;
                Ok(Box::new(move || {
                    let statement = "INSERT OR REPLACE INTO rows VALUES (?1, ?2)";
                    let mut statement = connection.prepare_cached(statement)?;
                    statement.execute(params![thread as i64, "some text"])?;
                    Ok(())
                }))
            };
            let all = prepared(threads, commit)?;
            timed(|| repeat(all, commits))
        }
    }
}

fn prepared(threads: usize, commit: impl FnMut(usize) -> Result<Commit>) -> Result<Vec<Commit>> {
    (0..threads).map(commit).collect()
}
