//! The page of all results: `docs/performance.md` and its charts, from the JSON lines of a run.
//!
//! The prose is in `performance.template`. A line `{{NAME}}` in it stands for a table.

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

/// The template with its tables. Every suite with results has to be in it.
fn filled(results: &Results) -> Result<String> {
    let mut page = String::new();
    let mut shown = Vec::new();
    let template = fs::read_to_string(TEMPLATE)?;
    for line in template.lines() {
        let name = line
            .strip_prefix("{{")
            .and_then(|rest| rest.strip_suffix("}}"));
        let text = match name {
            None => format!("{line}\n"),
            Some("machines") => table::machines(results),
            Some("wins") => compare::wins(results),
            Some("losses") => compare::losses(results),
            Some("growth") => table::growth(&results.growth),
            Some(name) => {
                let suite = results.suites.iter().find(|suite| suite.name == name);
                shown.push(name);
                table::suite(suite.ok_or_else(|| format!("no results of the suite {name}"))?)
            }
        };
        page += &text;
    }
    let missing = results
        .suites
        .iter()
        .find(|suite| !shown.contains(&suite.name.as_str()));
    match missing {
        Some(suite) => Err(format!("the template has no table of {}", suite.name).into()),
        None => Ok(page),
    }
}
