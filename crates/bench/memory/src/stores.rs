//! The cost of stores that are open and idle.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use doclock::{
    DataStore, Snapshot, StoreOptions, TransactionManager,
    document::NodeSpec,
    dsl::{create, insert_text},
    durable::DurableOptions,
};
use serde::{Deserialize, Serialize};

use crate::{Result, bytes, resident, status};

const PARAGRAPHS: usize = 10;
const TEXT: &str = "The quick brown fox jumps over the lazy dogs in the shade of an old tree.";

type Open = fn(&Path) -> Result<DataStore>;

pub struct Case {
    pub name: &'static str,
    pub note: &'static str,
    /// Writes the file that each store opens.
    prepare: fn(&Path) -> Result,
    open: Open,
}

pub const CASES: [Case; 4] = [
    Case {
        name: "new",
        note: "DataStore::new: in memory, with an empty document",
        prepare: |_| Ok(()),
        open: |_| Ok(DataStore::new()),
    },
    Case {
        name: "in memory",
        note: "with the document, read from its JSON",
        prepare: |path| {
            Ok(fs::write(
                path,
                serde_json::to_vec(&document()?.snapshot())?,
            )?)
        },
        open: |path| {
            let document: Snapshot = serde_json::from_slice(&fs::read(path)?)?;
            Ok(StoreOptions::new().document(document)?)
        },
    },
    Case {
        name: "in a file",
        note: "DataStore::open of the document, without a commit",
        prepare: stored,
        open: |path| Ok(DataStore::open(path)?),
    },
    Case {
        name: "edited",
        note: "the same with one commit, which is on the disk",
        prepare: stored,
        open: |path| {
            let store = DataStore::open(path)?;
            TransactionManager::new(store.clone()).execute(insert_text(0, "x").on("0"))?;
            Ok(store)
        },
    },
];

/// What one open store costs.
#[derive(Serialize, Deserialize)]
pub struct Row {
    suite: String,
    pub case: String,
    subject: String,
    /// Bytes allocated.
    value: f64,
    unit: String,
    /// The growth of the process, if the system reports it.
    resident: Option<f64>,
    threads: Option<f64>,
    descriptors: Option<f64>,
    /// The mean time to open one, in microseconds.
    open: f64,
    /// The mean time to close one.
    close: f64,
    /// How many were open.
    opened: usize,
    /// Why there were no more.
    refused: Option<String>,
}

pub fn heading(count: usize) {
    println!("== stores ==");
    println!(
        "{count} open stores, each with a document of {PARAGRAPHS} paragraphs. Of each store: the"
    );
    println!(
        "bytes that are allocated, what the process grew by, threads, file descriptors, and the"
    );
    println!("microseconds to open and to close it.\n");
    for case in &CASES {
        println!("  {:10}  {}", case.name, case.note);
    }
    println!(
        "\n{:10} {:>9} {:>9} {:>8} {:>11} {:>9} {:>9} {:>7}",
        "case", "bytes", "resident", "threads", "descriptors", "open", "close", "stores"
    );
}

impl Row {
    pub fn line(&self) -> String {
        let or_dash =
            |number: Option<f64>| number.map_or_else(|| "-".into(), |number| number.to_string());
        let refused = self.refused.as_ref();
        let refused = refused.map_or_else(String::new, |reason| format!("  then: {reason}"));
        format!(
            "{:10} {:>9} {:>9} {:>8} {:>11} {:>9} {:>9} {:>7}{refused}",
            self.case,
            self.value,
            or_dash(self.resident),
            or_dash(self.threads),
            or_dash(self.descriptors),
            self.open,
            self.close,
            self.opened
        )
    }
}

pub fn measured(case: &Case, count: usize) -> Result<Row> {
    let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR"))?;
    let prepared = folder.path().join("prepared");
    (case.prepare)(&prepared)?;
    // Allocations of the first use do not count.
    drop((case.open)(&copy(
        &prepared,
        &folder.path().join("first"),
    )?)?);
    let path = |number: usize| folder.path().join(number.to_string());
    for number in 0..count {
        copy(&prepared, &path(number))?;
    }
    let mut stores = Vec::with_capacity(count);
    let before = Used::now();
    let begun = Instant::now();
    let refused = (0..count).find_map(|number| match (case.open)(&path(number)) {
        Ok(store) => {
            stores.push(store);
            None
        }
        Err(error) => Some(error.to_string()),
    });
    let (opening, after, opened) = (begun.elapsed(), Used::now(), stores.len());
    let begun = Instant::now();
    for store in stores {
        if store.durable_snapshot().is_some() {
            store.close()?;
        }
    }
    let each = |of: fn(&Used) -> Option<f64>| {
        let grown = of(&after)
            .zip(of(&before))
            .map(|(after, before)| after - before);
        grown.map(|grown| rounded(grown / opened as f64))
    };
    Ok(Row {
        suite: "stores".into(),
        case: case.name.into(),
        subject: "doclock".into(),
        value: each(|used| Some(used.bytes)).unwrap_or_default(),
        unit: "bytes/store".into(),
        resident: each(|used| used.resident),
        threads: each(|used| used.threads),
        descriptors: each(|used| used.descriptors),
        open: micros(opening, opened),
        close: micros(begun.elapsed(), opened),
        opened,
        refused,
    })
}

/// What the process uses.
struct Used {
    bytes: f64,
    resident: Option<f64>,
    threads: Option<f64>,
    descriptors: Option<f64>,
}

impl Used {
    fn now() -> Self {
        let descriptors = fs::read_dir("/proc/self/fd").ok();
        Self {
            descriptors: descriptors.map(|open| open.count() as f64),
            bytes: bytes(),
            resident: resident(),
            threads: status("Threads:"),
        }
    }
}

fn document() -> Result<DataStore> {
    let store = DataStore::new();
    fill(&store)?;
    Ok(store)
}

fn stored(path: &Path) -> Result {
    let store = DataStore::open_with(path, DurableOptions::new().only_new())?;
    fill(&store)?;
    store.close()?;
    Ok(())
}

fn fill(store: &DataStore) -> Result {
    let paragraph = |number: usize| {
        let spec = NodeSpec::new("paragraph").with_text(TEXT);
        spec.with_id(number.to_string())
    };
    let page = NodeSpec::new("page").with_children((0..PARAGRAPHS).map(paragraph));
    TransactionManager::new(store.clone()).execute(create(page))?;
    Ok(())
}

/// Copies the file, if the case has one.
fn copy(prepared: &Path, path: &Path) -> Result<PathBuf> {
    if prepared.exists() {
        fs::copy(prepared, path)?;
    }
    Ok(path.to_owned())
}

fn micros(time: Duration, count: usize) -> f64 {
    rounded(time.as_secs_f64() * 1e6 / count as f64)
}

fn rounded(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}
