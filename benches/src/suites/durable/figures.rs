//! Figures of durable documents without a peer: how long a commit waits, how long an open takes,
//! and how large the file becomes.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use doclock::dsl::{create, element, set_text, text_node};
use doclock::durable::{Durability, DurableOptions};
use doclock::{DataStore, Snapshot, TransactionManager};
use redb::{Database, TableDefinition};
use serde::Serialize;

use super::SUITE;
use crate::Result;
use crate::measure::timed;
use crate::random::SplitMix;
use crate::report::Report;

/// One measured figure.
#[derive(Serialize)]
struct Row<'a> {
    suite: &'a str,
    case: &'a str,
    figure: &'a str,
    value: f64,
    unit: &'a str,
}

pub fn run(report: &Report, folder: &Path) -> Result {
    report.text(
        "Waiting, opening and size; t is the time of one commit of redb alone, measured here",
    )?;
    let commit = one_commit(&folder.join("t"))?;
    let print = |case: &str, figure: &str, value: f64, unit: &str| {
        let row = Row {
            suite: SUITE,
            case,
            figure,
            value,
            unit,
        };
        report.row(
            &row,
            &format!("{case:<48} {figure:<12} {value:>10.2} {unit}"),
        )
    };
    print("redb alone", "t", 1e3 * commit.as_secs_f64(), "ms")?;
    for (case, threads, commits) in [
        ("waiting, 1 thread", 1, 2_000),
        ("waiting, 8 threads", 8, 1_000),
        ("waiting, 64 threads", 64, 250),
    ] {
        let (waits, checkpoints) = waits(&folder.join("waiting"), threads, commits)?;
        let at = |part: f64| waits[((waits.len() - 1) as f64 * part) as usize];
        let in_commits = |part| at(part).as_secs_f64() / commit.as_secs_f64();
        print(case, "p50", in_commits(0.5), "t")?;
        print(case, "p99", in_commits(0.99), "t")?;
        print(case, "p99.9", 1e3 * at(0.999).as_secs_f64(), "ms")?;
        print(case, "longest", 1e3 * at(1.0).as_secs_f64(), "ms")?;
        print(case, "checkpoints", checkpoints as f64, "")?;
    }
    let (killed, closed) = opens(folder, 1_000_000, 100_000)?;
    let case = "opening 1,000,000 nodes";
    print(
        case,
        "killed",
        killed.as_secs_f64(),
        "s, and 100,000 later commits",
    )?;
    print(case, "closed", closed.as_secs_f64(), "s")?;
    let commits = std::env::var("DOCLOCK_SIZE_COMMITS").ok();
    let commits = commits.map_or(Ok(1_000_000), |commits| commits.parse())?;
    let (large, fresh) = sizes(folder, commits)?;
    let case = format!("size after {commits} commits");
    print(&case, "file", large / 1e6, "MB")?;
    print(
        &case,
        "beside",
        large / fresh,
        "times a new file of the same document",
    )?;
    report.text("")
}

/// The median time of one commit of redb alone.
fn one_commit(path: &Path) -> Result<Duration> {
    const ROWS: TableDefinition<'_, u64, &str> = TableDefinition::new("rows");
    let database = Database::create(path)?;
    let mut times = Vec::new();
    for _ in 0..500 {
        times.push(timed(|| {
            let transaction = database.begin_write()?;
            transaction.open_table(ROWS)?.insert(1, "some text")?;
            Ok(transaction.commit()?)
        })?);
    }
    times.sort();
    Ok(times[times.len() / 2])
}

/// A document of sections with paragraphs of two hundred letters, and the ids of those.
fn document(nodes: usize) -> Result<Snapshot> {
    const SECTION: usize = 1_000;
    let manager = TransactionManager::new(DataStore::new());
    for first in (0..nodes).step_by(SECTION) {
        let paragraphs = (first + 1..first + SECTION).map(|nth| paragraph(nth, 0));
        manager.execute(create(element("section", paragraphs)))?;
    }
    Ok(manager.store().snapshot())
}

fn paragraph(nth: usize, round: u64) -> doclock::document::NodeSpec {
    text_node("paragraph", text(round)).with_id(format!("p{nth}"))
}

fn text(round: u64) -> String {
    format!("{round:<200}")
}

/// How long each commit waited until it was durable, and how many checkpoints there were meanwhile.
fn waits(path: &Path, threads: usize, commits: usize) -> Result<(Vec<Duration>, u64)> {
    const NODES: usize = 20_000;
    let _ = std::fs::remove_file(path);
    let options = DurableOptions::new().checkpoint_after(256 << 10);
    let store = DataStore::open_with(path, options.document(document(NODES)?))?;
    let mut waits = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads)
            .map(|thread| {
                let manager = TransactionManager::new(store.clone());
                scope.spawn(move || {
                    let mut random = SplitMix(1 + thread as u64);
                    let mut waits = Vec::with_capacity(commits);
                    for round in 0..commits {
                        let nth = 1 + random.below(999) + 1_000 * random.below(NODES / 1_000);
                        let batch = set_text(text(round as u64)).on(format!("p{nth}"));
                        let began = Instant::now();
                        manager.execute(batch).map_err(|error| error.to_string())?;
                        waits.push(began.elapsed());
                    }
                    Ok::<_, String>(waits)
                })
            })
            .collect();
        let mut all = Vec::new();
        for thread in threads {
            all.append(&mut thread.join().map_err(|_| "a thread panicked")??);
        }
        Ok::<_, String>(all)
    })?;
    waits.sort();
    Ok((waits, store.close()?.checkpoints))
}

/// How long opens take: of a file that was not closed, with later commits, and of one that was.
fn opens(folder: &Path, nodes: usize, commits: usize) -> Result<(Duration, Duration)> {
    let (path, killed) = (folder.join("opening"), folder.join("killed"));
    let options = DurableOptions::new()
        .durability(Durability::Later)
        .checkpoint_after(usize::MAX)
        .document(document(nodes)?);
    let store = DataStore::open_with(&path, options)?;
    let manager = TransactionManager::new(store.clone());
    let mut random = SplitMix(1);
    for round in 0..commits {
        let nth = 1 + random.below(999) + 1_000 * random.below(nodes / 1_000);
        manager.execute(set_text(text(round as u64)).on(format!("p{nth}")))?;
    }
    store.wait_durable(store.version(), None)?;
    // Nothing is written now: so it is the file of a process that was killed here.
    std::fs::copy(&path, &killed)?;
    store.close()?;
    let expected = (store.version(), store.snapshot().len());
    drop((manager, store));
    let open = |path: &Path| {
        timed(|| {
            let store = DataStore::open(path)?;
            match (store.version(), store.snapshot().len()) == expected {
                true => Ok(store),
                false => Err("another document was opened".into()),
            }
            .map(drop)
        })
    };
    Ok((open(&killed)?, open(&path)?))
}

/// The size of the file after many commits, and that of a new file of the same document.
fn sizes(folder: &Path, commits: usize) -> Result<(f64, f64)> {
    const NODES: usize = 100_000;
    let (path, fresh) = (folder.join("size"), folder.join("fresh"));
    let options = DurableOptions::new().durability(Durability::Later);
    let store = DataStore::open_with(&path, options.document(document(NODES)?))?;
    let manager = TransactionManager::new(store.clone());
    let mut random = SplitMix(1);
    for round in 0..commits {
        let nth = 1 + random.below(999) + 1_000 * random.below(NODES / 1_000);
        manager.execute(set_text(text(round as u64)).on(format!("p{nth}")))?;
    }
    store.close()?;
    let options = DurableOptions::new().document(store.snapshot());
    DataStore::open_with(&fresh, options)?.close()?;
    let size = |path: &Path| Ok::<_, std::io::Error>(std::fs::metadata(path)?.len() as f64);
    Ok((size(&path)?, size(&fresh)?))
}
