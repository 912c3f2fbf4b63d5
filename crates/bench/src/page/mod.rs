//! The page of all results: `docs/performance.md` and its charts, from the JSON lines of a run.
//!
//! The prose is in `performance.template`. A line `{{NAME}}` in it stands for a table, and
//! `{SUITE: CASE: SUBJECT}` in a line for the value of a row.

mod bars;
mod compare;
mod contention;
mod rows;
mod style;
mod table;

use std::fs;
use std::path::{Path, PathBuf};

use crate::Result;
use bars::Bars;
use rows::Results;

const TEMPLATE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/performance.template");

/// The name of the page, and of the folder of its charts.
const PAGE: &str = "performance";

const COMMITS: Bars = Bars {
    suite: "transaction",
    title: "One edit among 100,000 nodes, committed in memory: shorter is better",
    cases: &[
        ("100000/none", "no snapshot"),
        ("100000/held", "one snapshot is held"),
        ("100000/fresh", "a new snapshot before each commit"),
    ],
    subjects: &[
        "doclock (begin)",
        "doclock (dsl)",
        "concread bptree",
        "redb",
        "sqlite begin+commit",
    ],
    axis: "time of a transaction",
    unit: "ns",
};

const HISTORIES: Bars = Bars {
    suite: "replay",
    title: "Keystrokes of a recorded history, one commit each: longer is better",
    cases: &[
        ("sveltecomponent", "sveltecomponent"),
        ("friendsforever_flat", "friendsforever_flat"),
        ("seph-blog1", "seph-blog1"),
    ],
    subjects: &[
        "doclock (dsl)",
        "doclock with history",
        "loro",
        "yrs",
        "automerge",
    ],
    axis: "transactions a second",
    unit: "/s",
};

pub const USAGE: &str = "usage: doclock-bench report FILE... --out FOLDER";

/// Writes the page and its charts from files of JSON lines.
pub fn run(words: &[String]) -> Result {
    let (mut files, mut folder) = (Vec::new(), None);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--out" => folder = words.next().map(PathBuf::from),
            file => files.push(file),
        }
    }
    let folder = folder.ok_or(USAGE)?;
    let mut results = Results::default();
    for file in files {
        let text = fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
        results.read(&text)?;
    }
    let charts = folder.join(PAGE);
    fs::create_dir_all(&charts)?;
    contention::draw(&charts.join("contention.svg"), &results)?;
    COMMITS.draw(&charts.join("commits.svg"), &results)?;
    HISTORIES.draw(&charts.join("histories.svg"), &results)?;
    write(&folder.join(format!("{PAGE}.md")), &filled(&results)?)
}

fn write(file: &Path, text: &str) -> Result {
    fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()).into())
}

/// The template with its tables and values.
fn filled(results: &Results) -> Result<String> {
    let mut page = String::new();
    let template = fs::read_to_string(TEMPLATE)?;
    for line in template.lines() {
        page += &match line {
            "{{machines}}" => table::machines(results),
            "{{wins}}" => compare::wins(results),
            "{{losses}}" => compare::losses(results),
            "{{growth}}" => table::growth(&results.growth),
            _ => with_values(line, results)? + "\n",
        };
    }
    Ok(page)
}

/// A line of the template with its values.
fn with_values(line: &str, results: &Results) -> Result<String> {
    let mut filled = String::new();
    let mut rest = line;
    while let Some((before, begun)) = rest.split_once('{') {
        let (name, after) = begun.split_once('}').ok_or("a value without an end")?;
        let value = value(name, results).ok_or_else(|| format!("no value of {name}"))?;
        filled += before;
        filled += &value;
        rest = after;
    }
    Ok(filled + rest)
}

/// The value of `SUITE: CASE: SUBJECT`, or with `: p99` its 99th percentile.
fn value(name: &str, results: &Results) -> Option<String> {
    let (name, is_p99) = match name.strip_suffix(": p99") {
        Some(name) => (name, true),
        None => (name, false),
    };
    let (suite, name) = name.split_once(": ")?;
    let (case, subject) = name.split_once(": ")?;
    let mut rows = results.rows(suite);
    let row = rows.find(|row| row.case == case && row.subject == subject)?;
    let (value, unit) = match is_p99 {
        true => (row.contended.as_ref()?.p99, "ns"),
        false => (row.value?, row.unit.as_str()),
    };
    // The line says what is measured.
    let unit = match unit.ends_with("/s") {
        true => "/s",
        false => unit.split('/').next()?,
    };
    Some(table::measure(value, unit))
}
