//! Commits of one writer and of 64, beside INSERTs of single rows.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use doclock::dsl::{create, insert_text, text_node};
use doclock::durable::DurableOptions;
use doclock::{DataStore, TransactionManager};
use doclock_postgres::{Postgres, Term};

use super::figures::{Figures, Goal};
use super::inserts::Inserts;
use super::server::{SCHEMA, Server, long_term};
use super::{SUITE, connections};
use crate::Result;
use crate::measure::{Commit, Spread, interleaved, repeat, timed};
use crate::report::{Report, Unit};

/// How many writers there are, and into how many parts the commits of one writer are divided for
/// each of them.
const CASES: [(&str, usize, usize); 2] = [("1 writer", 1, 1), ("64 writers", 64, 10)];

#[derive(Clone, Copy)]
enum Subject<'a> {
    Doclock(&'a Postgres),
    Insert { is_prepared: bool },
}

const NAMES: [&str; 3] = ["doclock", "INSERT", "INSERT (prepared)"];

pub fn run(
    rounds: usize,
    commits: usize,
    server: &Server,
    report: &Report,
    figures: &Figures<'_>,
) -> Result {
    let process = server.process("bench-commits")?;
    // Not a part of the result, and it warms the server up.
    let one = costs(server, &process, 1, commits)?;
    let rows = Inserts::create(server)?;
    let mut medians = Vec::new();
    for (case, writers, parts) in CASES {
        let each = (commits / parts).max(1);
        let mut subjects = [
            Subject::Doclock(&process),
            Subject::Insert { is_prepared: false },
            Subject::Insert { is_prepared: true },
        ];
        let spreads = interleaved(rounds, &mut subjects, |_, subject| {
            let time = match subject {
                Subject::Doclock(process) => doclock(process, writers, each)?,
                Subject::Insert { is_prepared } => {
                    inserts(&rows, (writers, each), one.block, *is_prepared)?
                }
            };
            Ok(Some((writers * each) as f64 / time.as_secs_f64()))
        })?;
        let results = NAMES.into_iter().zip(spreads.iter().copied());
        report.case(SUITE, case, Unit::TransactionsPerSecond, results)?;
        let rate = |spread: &Option<Spread>| spread.map_or(f64::NAN, |spread| spread.median);
        medians.push(spreads.iter().map(rate).collect::<Vec<f64>>());
    }
    let [alone, many] = &medians[..] else {
        return Err("not two cases".into());
    };
    let [doclock, insert, ..] = NAMES;
    let figure = (alone[0] / alone[1], &*format!("× {insert}"));
    figures.print("1 writer", doclock, figure, Goal::AtLeast(0.8))?;
    let figure = (many[0] / alone[0], "× 1 writer");
    figures.print("64 writers", doclock, figure, Goal::AtLeast(10.0))?;
    let many = costs(server, &process, 64, (commits / 10).max(1))?;
    for (case, costs) in [("1 writer", one), ("64 writers", many)] {
        figures.print(case, "a commit in the log", (costs.block, "bytes"), None)?;
        figures.print(
            case,
            "of the table and index",
            (costs.table, "bytes/commit"),
            None,
        )?;
        figures.print(case, "of the WAL", (costs.wal, "bytes/commit"), None)?;
        figures.print(case, "commits in a statement", (costs.commits, ""), None)?;
    }
    Ok(())
}

/// What commits cost on the server.
#[derive(Clone, Copy)]
struct Costs {
    /// The bytes of a commit in the log.
    block: f64,
    /// The bytes of a commit in the table of the log and its index.
    table: f64,
    wal: f64,
    /// The commits of a statement.
    commits: f64,
}

fn costs(server: &Server, process: &Postgres, writers: usize, each: usize) -> Result<Costs> {
    let mut client = server.client()?;
    let size = |client: &mut postgres::Client| -> Result<f64> {
        let statement = format!("SELECT pg_total_relation_size('{SCHEMA}.doclock_log')::float8");
        Ok(client.query_one(&statement, &[])?.get(0))
    };
    client.batch_execute(&format!("TRUNCATE {SCHEMA}.doclock_log"))?;
    let mut document = Document::open(process, writers)?;
    let first = document.store.version() as i64;
    let (table, wal) = (size(&mut client)?, connections::wal(&mut client)?);
    document.commit(each)?;
    let wal = connections::wal(&mut client)? - wal;
    let table = size(&mut client)? - table;
    // A close writes a checkpoint, and cuts the log.
    let statement = format!(
        "SELECT sum(octet_length(block))::float8, count(*)::float8
        FROM {SCHEMA}.doclock_log WHERE document = $1 AND first_version > $2"
    );
    let row = client.query_one(&statement, &[&document.name, &first])?;
    document.close()?;
    let commits = (writers * each) as f64;
    Ok(Costs {
        block: row.get::<_, Option<f64>>(0).ok_or("the log is empty")? / commits,
        table: table / commits,
        wal: wal / commits,
        commits: commits / row.get::<_, f64>(1),
    })
}

/// A document that this process owns, with a text for each writer.
struct Document {
    name: String,
    term: Term,
    store: DataStore,
    writers: usize,
}

impl Document {
    fn open(process: &Postgres, writers: usize) -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("commits {}", NEXT.fetch_add(1, Ordering::Relaxed));
        let (term, journal) = process.acquire(&name, long_term("bench"))?;
        let store = DataStore::open_journal(journal, DurableOptions::new())?;
        let texts = (0..writers).map(|nth| create(text_node("text", "some text").with_id(id(nth))));
        TransactionManager::new(store.clone()).execute(texts.collect::<Vec<_>>())?;
        Ok(Self {
            name,
            term,
            store,
            writers,
        })
    }

    /// Commits as often by each writer, and returns how long all take.
    fn commit(&mut self, each: usize) -> Result<Duration> {
        let before = self.store.version();
        let commit = |writer: usize| -> Commit {
            let manager = TransactionManager::new(self.store.clone());
            let id = id(writer);
            Box::new(move || {
                manager.execute(insert_text(0, "x").on(&*id))?;
                Ok(())
            })
        };
        let all = (0..self.writers).map(commit).collect();
        let time = timed(|| repeat(all, each))?;
        match self.store.version() - before == (self.writers * each) as u64 {
            true => Ok(time),
            false => Err(format!("version {} after {before}", self.store.version()).into()),
        }
    }

    fn close(self) -> Result {
        self.store.close()?;
        Ok(self.term.hand_over()?)
    }
}

fn id(writer: usize) -> String {
    format!("text {writer}")
}

/// How long the commits take.
fn doclock(process: &Postgres, writers: usize, each: usize) -> Result<Duration> {
    let mut document = Document::open(process, writers)?;
    let time = document.commit(each)?;
    document.close()?;
    Ok(time)
}

/// How long as many INSERTs take, each of a row with so many bytes.
fn inserts(
    inserts: &Inserts<'_>,
    (writers, each): (usize, usize),
    bytes: f64,
    is_prepared: bool,
) -> Result<Duration> {
    inserts.clear()?;
    let commit = |writer| inserts.writer((writer * each) as i64, bytes, is_prepared);
    let all = (0..writers).map(commit).collect::<Result<Vec<_>>>()?;
    timed(|| repeat(all, each))
}
