//! Figures of durable documents without a peer: how long a commit waits, how long an open takes,
//! and how large the file becomes.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use doclock::dsl::{create, element, set_text, text_node};
use doclock::durable::{Durability, DurableOptions};
use doclock::{DataStore, NodeId, Snapshot, TransactionManager, View};
use redb::{Database, TableDefinition};
use serde::Serialize;

use super::SUITE;
use crate::Result;
use crate::measure::timed;
use crate::random::SplitMix;
use crate::report::Report;

/// How long the texts are.
const LETTERS: usize = 200;

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
        let (waits, _) = waits(
            &folder.join("waiting"),
            threads,
            commits,
            DurableOptions::new(),
        )?;
        let in_commits = |part| at(&waits, part).as_secs_f64() / commit.as_secs_f64();
        print(case, "p50", in_commits(0.5), "t")?;
        print(case, "p99", in_commits(0.99), "t")?;
    }
    let frequent = DurableOptions::new().checkpoint_after(256 << 10);
    let (waits, checkpoints) = waits(&folder.join("checkpoints"), 8, 4_000, frequent)?;
    let case = "beside checkpoints, 8 threads";
    print(case, "p99.9", 1e3 * at(&waits, 0.999).as_secs_f64(), "ms")?;
    print(case, "longest", 1e3 * at(&waits, 1.0).as_secs_f64(), "ms")?;
    print(case, "checkpoints", checkpoints as f64, "")?;
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

/// The wait that so large a part does not exceed.
fn at(sorted: &[Duration], part: f64) -> Duration {
    sorted[((sorted.len() - 1) as f64 * part) as usize]
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

/// A document of sections with paragraphs of so many letters, and the ids of those.
fn document(nodes: usize, letters: usize) -> Result<(Snapshot, Vec<NodeId>)> {
    const SECTION: usize = 1_000;
    let manager = TransactionManager::new(DataStore::new());
    for _ in 0..nodes / SECTION {
        let paragraphs = (1..SECTION).map(|nth| text_node("paragraph", text(nth, letters)));
        manager.execute(create(element("section", paragraphs)))?;
    }
    let document = manager.store().snapshot();
    let paragraphs = document.nodes().filter(|node| node.kind() == "paragraph");
    let mut ids: Vec<NodeId> = paragraphs.map(|node| node.id().clone()).collect();
    ids.sort();
    Ok((document, ids))
}

fn text(number: usize, letters: usize) -> String {
    format!("{number:<letters$}")
}

/// How long each commit waited until it was durable, and how many checkpoints there were meanwhile.
fn waits(
    path: &Path,
    threads: usize,
    commits: usize,
    options: DurableOptions,
) -> Result<(Vec<Duration>, u64)> {
    let _ = std::fs::remove_file(path);
    let (document, ids) = document(20_000, LETTERS)?;
    let store = DataStore::open_with(path, options.document(document))?;
    let mut waits = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads)
            .map(|thread| {
                let manager = TransactionManager::new(store.clone());
                let ids = &ids;
                scope.spawn(move || {
                    let mut random = SplitMix(1 + thread as u64);
                    let mut waits = Vec::with_capacity(commits);
                    for round in 0..commits {
                        let id = ids[random.below(ids.len())].clone();
                        let batch = set_text(text(round, LETTERS)).on(id);
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

/// Makes so many commits, each of which replaces a paragraph.
fn replace(store: &DataStore, ids: &[NodeId], letters: usize, commits: usize) -> Result {
    let manager = TransactionManager::new(store.clone());
    let mut random = SplitMix(1);
    for round in 0..commits {
        let id = ids[random.below(ids.len())].clone();
        manager.execute(set_text(text(round, letters)).on(id))?;
    }
    Ok(())
}

/// How long opens take: of a file that was not closed, with later commits, and of one that was.
fn opens(folder: &Path, nodes: usize, commits: usize) -> Result<(Duration, Duration)> {
    const SHORT: usize = 40;
    let (path, killed) = (folder.join("opening"), folder.join("killed"));
    let (document, ids) = document(nodes, SHORT)?;
    let options = DurableOptions::new()
        .durability(Durability::Later)
        .checkpoint_after(usize::MAX)
        .document(document);
    let store = DataStore::open_with(&path, options)?;
    replace(&store, &ids, SHORT, commits)?;
    store.wait_durable(store.version()).wait()?;
    // Nothing is written now: so it is the file of a process that was killed here.
    std::fs::copy(&path, &killed)?;
    store.close()?;
    let version = store.version();
    drop(store);
    let open = |path: &Path| {
        let began = Instant::now();
        let store = DataStore::open(path)?;
        let took = began.elapsed();
        match (store.version(), store.snapshot().len()) == (version, nodes) {
            true => Ok::<_, Box<dyn std::error::Error>>(took),
            false => Err("another document was opened".into()),
        }
    };
    Ok((open(&killed)?, open(&path)?))
}

/// The size of the file after many commits, and that of a new file of the same document.
fn sizes(folder: &Path, commits: usize) -> Result<(f64, f64)> {
    let (path, fresh) = (folder.join("size"), folder.join("fresh"));
    let (document, ids) = document(100_000, LETTERS)?;
    let options = DurableOptions::new().durability(Durability::Later);
    let store = DataStore::open_with(&path, options.document(document))?;
    replace(&store, &ids, LETTERS, commits)?;
    store.close()?;
    let options = DurableOptions::new().document(store.snapshot());
    DataStore::open_with(&fresh, options)?.close()?;
    let size = |path: &Path| Ok::<_, std::io::Error>(std::fs::metadata(path)?.len() as f64);
    Ok((size(&path)?, size(&fresh)?))
}
