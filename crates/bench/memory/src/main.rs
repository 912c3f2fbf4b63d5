//! The memory of a node beyond its text, of a waiting request, of a keyed lock, of idle editors,
//! and of open stores.
//!
//! ```text
//! cargo run --release -p doclock-memory -- [--json] [--nodes N] [--waiting N] [--keys N] [--editors N]
//! cargo run --release -p doclock-memory -- growth [--json] [--most SIZE]
//! cargo run --release -p doclock-memory -- stores [--json] [--count N]
//! ```
//!
//! The results are the bytes that are allocated and not freed. The overhead of the system's
//! allocator does not count; therefore the table also shows the number of allocations and the
//! growth of the process. Each case runs in a separate process.

mod editors;
mod growth;
mod held;
mod keys;
mod stores;
mod tasks;
mod waiting;

use std::alloc::System;
use std::process::{Command, ExitCode};

use doclock::{
    DataStore, NodeId, View,
    document::{Attributes, Children, Marks, Node, NodeSpec, Text},
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

const USAGE: &str = "\
usage: doclock-memory [--json] [--nodes N] [--waiting N] [--keys N] [--editors N]
       doclock-memory growth [--json] [--most SIZE]
       doclock-memory stores [--json] [--count N]";

const WORDS: &str = "The quick brown fox jumps over the lazy dogs, who do not mind and sleep on in the shade of an old tree.";

/// Blocks of one transaction: small, so its temporary memory is small compared with the store.
const BATCH: usize = 1_000;

/// A child of the root: paragraph or text, by number, with or without a custom id.
type Block = fn(usize) -> NodeSpec;

struct Case {
    name: &'static str,
    note: &'static str,
    /// Nodes of one block.
    nodes: usize,
    block: Block,
}

/// The first is the result; the others show where its bytes are.
const CASES: [Case; 6] = [
    Case {
        name: "document",
        note: "paragraphs, each with a text of 20 to 100 characters",
        nodes: 2,
        block: |number| paragraph(text(number)),
    },
    Case {
        name: "without text",
        note: "the same with empty texts",
        nodes: 2,
        block: |_| paragraph(NodeSpec::new("text")),
    },
    Case {
        name: "texts",
        note: "texts without paragraphs",
        nodes: 1,
        block: text,
    },
    Case {
        name: "bare",
        note: "nodes with nothing in them",
        nodes: 1,
        block: |_| NodeSpec::new("paragraph"),
    },
    Case {
        name: "attributes",
        note: "the document, each paragraph with a level",
        nodes: 2,
        block: |number| paragraph(text(number)).with_attributes([("level", 1.into())]),
    },
    Case {
        name: "named ids",
        note: "the document, each node with a name of some eight bytes instead of a generated id",
        nodes: 2,
        block: |number| {
            let text = text(number).with_id(format!("t{number}"));
            paragraph(text).with_id(format!("p{number}"))
        },
    },
];

fn paragraph(text: NodeSpec) -> NodeSpec {
    NodeSpec::new("paragraph").with_children([text])
}

fn text(number: usize) -> NodeSpec {
    NodeSpec::new("text").with_text(words(number))
}

/// All lengths from 20 to 100 are equally frequent.
fn words(number: usize) -> &'static str {
    &WORDS[..20 + number % 81]
}

/// The memory of one node.
#[derive(Serialize, Deserialize)]
struct Row {
    suite: String,
    case: String,
    subject: String,
    /// Bytes without those of the text.
    value: f64,
    unit: String,
    /// The number of allocations.
    pieces: f64,
    /// Bytes of text.
    text: f64,
    /// The growth of the process without the bytes of the text, if the system reports it.
    resident: Option<f64>,
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("measuring failed: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result {
    let mut sizes = Sizes {
        nodes: 1_000_000,
        waiting: 10_000,
        keys: 1_000_000,
        editors: 1_000,
        stores: 10_000,
    };
    let (mut json, mut only) = (false, None);
    let (mut growth, mut stores, mut most) = (false, false, None);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--json" => json = true,
            "--nodes" => sizes.nodes = words.next().ok_or(USAGE)?.parse()?,
            "--waiting" => sizes.waiting = words.next().ok_or(USAGE)?.parse()?,
            "--keys" => sizes.keys = words.next().ok_or(USAGE)?.parse()?,
            "--editors" => sizes.editors = words.next().ok_or(USAGE)?.parse()?,
            "growth" => growth = true,
            "stores" => stores = true,
            "--count" => sizes.stores = words.next().ok_or(USAGE)?.parse()?,
            "--most" => most = Some(words.next().ok_or(USAGE)?.parse()?),
            "--only" => only = words.next(),
            _ => return Err(USAGE.into()),
        }
    }
    match only {
        _ if growth => growth::run(most, json),
        Some(name) => alone(&name, &sizes),
        None if stores => all_stores(sizes.stores, json),
        None => all(&sizes, json),
    }
}

/// How much the cases measure.
struct Sizes {
    nodes: usize,
    waiting: usize,
    keys: usize,
    editors: usize,
    stores: usize,
}

/// Runs one case, for which this process was started.
fn alone(name: &str, sizes: &Sizes) -> Result {
    let row = if let Some(case) = CASES.iter().find(|case| case.name == name) {
        serde_json::to_string(&measured(case, sizes.nodes)?)?
    } else if let Some(case) = keys::CASES.iter().find(|case| case.name == name) {
        serde_json::to_string(&keys::measured(case, sizes.keys)?)?
    } else if let Some(case) = held::CASES.iter().find(|case| case.name == name) {
        serde_json::to_string(&held::measured(case, sizes.waiting)?)?
    } else if let Some(case) = editors::CASES.iter().find(|case| case.name == name) {
        serde_json::to_string(&editors::measured(case, sizes.editors)?)?
    } else if let Some(case) = stores::CASES.iter().find(|case| case.name == name) {
        serde_json::to_string(&stores::measured(case, sizes.stores)?)?
    } else if let Some(case) = tasks::CASES.iter().find(|case| case.name == name) {
        serde_json::to_string(&tasks::measured(case, sizes.waiting)?)?
    } else {
        let case = waiting::CASES.iter().find(|case| case.name == name);
        serde_json::to_string(&waiting::measured(case.ok_or(USAGE)?, sizes.waiting)?)?
    };
    println!("{row}");
    Ok(())
}

fn all(sizes: &Sizes, json: bool) -> Result {
    let Sizes {
        nodes,
        waiting,
        keys,
        editors,
        stores: _,
    } = *sizes;
    let begin = |heading: fn(usize), count| {
        if !json {
            heading(count);
        }
    };
    begin(heading, nodes);
    for case in &CASES {
        print_apart(case.name, "--nodes", nodes, json, Row::line)?;
    }
    begin(waiting::heading, waiting);
    for case in &waiting::CASES {
        print_apart(case.name, "--waiting", waiting, json, waiting::Row::line)?;
    }
    begin(tasks::heading, waiting);
    for case in &tasks::CASES {
        print_apart(case.name, "--waiting", waiting, json, tasks::Row::line)?;
    }
    begin(held::heading, waiting);
    for case in &held::CASES {
        print_apart(case.name, "--waiting", waiting, json, held::Row::line)?;
    }
    begin(keys::heading, keys);
    for case in &keys::CASES {
        print_apart(case.name, "--keys", keys, json, keys::Row::line)?;
    }
    begin(editors::heading, editors);
    for case in &editors::CASES {
        print_apart(case.name, "--editors", editors, json, editors::Row::line)?;
    }
    Ok(())
}

fn all_stores(count: usize, json: bool) -> Result {
    if !json {
        stores::heading(count);
    }
    for case in &stores::CASES {
        print_apart(case.name, "--count", count, json, stores::Row::line)?;
    }
    Ok(())
}

impl Row {
    fn line(&self) -> String {
        let resident = self
            .resident
            .map_or_else(|| "-".into(), |bytes| format!("{bytes:.1}"));
        format!(
            "{:14} {:>9.1} {:>9.2} {:>9.1} {resident:>9}",
            self.case, self.value, self.pieces, self.text
        )
    }
}

fn heading(nodes: usize) {
    println!("== memory ==");
    println!(
        "A store of {nodes} nodes under one root. Of each node: the bytes that it has allocated beyond those of"
    );
    println!(
        "its text, in how many pieces; the bytes of its text; what the process grew by beyond that text."
    );
    println!(
        "Where a node itself stands: {} bytes, of which its id and its parent's {}, attributes {}, text {}, marks {},",
        size_of::<Node>(),
        size_of::<NodeId>() + size_of::<Option<NodeId>>(),
        size_of::<Attributes>(),
        size_of::<Text>(),
        size_of::<Marks>(),
    );
    println!(
        "children {}; the rest is its type.\n",
        size_of::<Children>()
    );
    for case in &CASES {
        println!("  {:14}  {}", case.name, case.note);
    }
    println!(
        "\n{:14} {:>9} {:>9} {:>9} {:>9}",
        "case", "bytes", "pieces", "text", "resident"
    );
}

/// Prints the result of another process, whose memory no other case has used before.
fn print_apart<T: DeserializeOwned + Serialize>(
    case: &str,
    size: &str,
    count: usize,
    json: bool,
    line: fn(&T) -> String,
) -> Result {
    let mut command = Command::new(std::env::current_exe()?);
    let output = command
        .args(["--only", case, size, &count.to_string()])
        .output()?;
    if !output.status.success() {
        return Err(format!("{case}: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    let row: T = serde_json::from_slice(&output.stdout)?;
    match json {
        true => println!("{}", serde_json::to_string(&row)?),
        false => println!("{}", line(&row)),
    }
    Ok(())
}

fn measured(case: &Case, nodes: usize) -> Result<Row> {
    let (before, resident_before) = (ALLOCATOR.stats(), resident());
    let store = filled(case, nodes)?;
    let grown = ALLOCATOR.stats() - before;
    let resident = resident()
        .zip(resident_before)
        .map(|(after, before)| after - before);
    let snapshot = store.snapshot();
    let text: usize = snapshot.nodes().map(|node| node.text().len()).sum();
    let per_node = |count: f64| (count / snapshot.len() as f64 * 100.0).round() / 100.0;
    let without_text = |bytes: f64| per_node(bytes - text as f64);
    Ok(Row {
        suite: "memory".into(),
        case: case.name.into(),
        subject: "doclock".into(),
        value: without_text(grown.bytes_allocated as f64 - grown.bytes_deallocated as f64),
        unit: "bytes/node".into(),
        pieces: per_node(grown.allocations as f64 - grown.deallocations as f64),
        text: per_node(text as f64),
        resident: resident.map(without_text),
    })
}

fn filled(case: &Case, nodes: usize) -> Result<DataStore> {
    let store = DataStore::new();
    let mut transaction = store.begin("memory")?;
    let root = transaction.create(NodeSpec::new("doc"))?;
    transaction.set_root(&root)?;
    transaction.commit()?;
    let blocks: Vec<usize> = (0..nodes / case.nodes).collect();
    for batch in blocks.chunks(BATCH) {
        let mut transaction = store.begin("memory")?;
        for &number in batch {
            transaction.insert((case.block)(number), &root, None)?;
        }
        transaction.commit()?;
    }
    Ok(store)
}

/// The resident bytes of the process, if the system reports them as Linux does.
fn resident() -> Option<f64> {
    Some(status("VmRSS:")? * 1024.0)
}

/// The number in a line of the status that Linux reports of the process.
fn status(name: &str) -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with(name))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// The currently allocated bytes.
fn bytes() -> f64 {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated as f64 - stats.bytes_deallocated as f64
}
