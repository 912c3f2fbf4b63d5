//! The main job for a user: the program `edit_session` as a process with arguments, output and an
//! exit code.

mod bad_input;
mod stored;

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

/// The program, built as this test was.
const PROGRAM: &str = env!("CARGO_BIN_EXE_edit_session");

fn run<S: AsRef<std::ffi::OsStr>>(arguments: impl IntoIterator<Item = S>) -> Output {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).output().unwrap()
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

/// The report of a run in which all checks passed.
fn report_of(arguments: &[&str]) -> Value {
    let output = run(arguments.iter().chain(&["--json"]));
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    assert_eq!(stderr(&output), "");
    let report: Value = serde_json::from_str(stdout(&output)).unwrap();
    assert_eq!(report["held"], true, "{report:#}");
    let checks = report["checks"].as_array().unwrap();
    let of_store = ["/store", "/store/killed"].map(|path| report.pointer(path));
    let of_store = of_store
        .into_iter()
        .flatten()
        .filter(|value| !value.is_null());
    assert_eq!(checks.len(), 5 + of_store.count());
    assert!(checks.iter().all(|check| check["held"] == true));
    assert_eq!(report["transactions"]["unexpected"], 0);
    assert_eq!(report["lock"]["isLocked"], false);
    report
}

/// A file for one test, in a folder that cargo keeps for tests.
fn file(name: &str, content: impl AsRef<[u8]>) -> String {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, content).unwrap();
    path.into_os_string().into_string().unwrap()
}

const MARKDOWN: &str = "\
# A *small* document

Words, **bold `code`**, a [link](https://example.org \"title\"), ~~gone~~, an ![](image.png)\\
and naïve 文書 🦀[^1].

- [x] one
- two
  1. nested

    > quoted

| a | b |
|:--|--:|
| 1 |   |

```rust
fn main() {}
```

<div>html</div>

---

[^1]: A note.
";

#[test]
fn editors_share_a_document_and_all_checks_hold() {
    let file = file("small.md", MARKDOWN);
    let arguments = [
        file.as_str(),
        "--editors",
        "3",
        "--transactions",
        "600",
        "--seed",
        "1",
    ];
    let report = report_of(&arguments);
    assert_eq!(
        (&report["editors"], &report["seed"]),
        (&json!(3), &json!(1))
    );
    let transactions = &report["transactions"];
    let count = |name: &str| transactions[name].as_u64().unwrap();
    assert_eq!(count("total"), 600);
    assert!(
        count("rolledBack") > 0,
        "one in twenty is to fail: {transactions}"
    );
    let outcomes = [
        "committed",
        "rolledBack",
        "stale",
        "withoutEffect",
        "conflicts",
    ];
    assert_eq!(outcomes.map(count).iter().sum::<u64>(), 600);
    // Each but the import waits for the lock once.
    assert_eq!(report["lock"]["totalAcquisitions"], 600);
}

#[test]
fn markdown_becomes_blocks_and_texts() {
    let file = file("outline.md", MARKDOWN);
    let report = report_of(&[&file, "--transactions", "0"]);
    let before = &report["document"]["before"];
    assert_eq!(*before, report["document"]["after"]);
    // Heading, paragraph; list, item, paragraph, item, paragraph, list, item, quote, paragraph;
    // table, head, two cells, row, two cells; code, html, break, note, paragraph.
    assert_eq!(before["blocks"], 23);
    // The document, the blocks, and a text in all that have words: heading, five paragraphs, the
    // tight item, three cells, code, html.
    assert_eq!(before["nodes"], 1 + 23 + 12);
    // `![](…)` counts as one, a hard break too.
    let texts = [
        "A small document",
        "Words, bold code, a link, gone, an \u{FFFC}\nand naïve 文書 🦀1.",
        "one",
        "two",
        "nested",
        "quoted",
        "a",
        "b",
        "1",
        "fn main() {}\n",
        "<div>html</div>\n",
        "A note.",
    ];
    let characters: usize = texts.iter().map(|text| text.chars().count()).sum();
    assert_eq!(before["characters"], characters);
}

#[test]
fn without_json_the_report_is_tables() {
    let file = file("tables.md", MARKDOWN);
    let output = run([&file, "--editors", "2", "--transactions", "100"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(stderr(&output), "");
    for piece in [
        "characters",
        "rolled back",
        "held ",
        "acquisitions",
        "p99",
        "held by",
    ] {
        assert!(stdout(&output).contains(piece), "{piece}: {output:?}");
    }
    assert!(!stdout(&output).contains("NOT HELD"));
}

#[test]
fn one_editor_with_the_same_seed_does_the_same_again() {
    let file = file("seed.md", MARKDOWN);
    let run = || {
        let mut report = report_of(&[
            &file,
            "--editors",
            "1",
            "--transactions",
            "300",
            "--seed",
            "7",
        ]);
        (report["document"].take(), report["transactions"].take())
    };
    assert_eq!(run(), run());
}

#[test]
fn more_editors_than_words_to_edit() {
    let file = file("word.md", "word");
    let report = report_of(&[&file, "--editors", "16", "--transactions", "320"]);
    assert_eq!(report["document"]["before"]["nodes"], 3);
}

#[test]
fn the_default_is_the_readme() {
    if !Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../README.md")
        .exists()
    {
        println!("skipped: there is no README.md yet");
        return;
    }
    let report = report_of(&["--transactions", "200"]);
    assert_eq!(report["editors"], 4);
    assert!(report["source"].as_str().unwrap().ends_with("README.md"));
}

#[test]
fn help_lists_the_options_and_the_defaults() {
    let output = run(["--help"]);
    assert!(output.status.success());
    for piece in [
        "FILE.md",
        "--trace",
        "--editors N",
        "--transactions N",
        "--store PATH",
        "--kill-after N",
        "--json",
        "20000",
    ] {
        assert!(stdout(&output).contains(piece), "{piece}");
    }
}

// --- Recorded histories ---

/// Types, replaces, deletes, several patches in one transaction, none in another; positions count
/// characters.
fn history() -> Value {
    json!({
        "startContent": "naïve",
        "endContent": "Ein Fädchen 🦀!",
        "txns": [
            {"time": "2020-01-01T00:00:00.000Z", "patches": [[5, 0, " 🦀"]]},
            {"time": "2020-01-01T00:00:01.000Z", "patches": [[0, 5, "Fädchen"], [9, 0, "!"], [0, 0, "E"]]},
            {"time": "2020-01-01T00:00:02.000Z", "patches": []},
            {"time": "2020-01-01T00:00:03.000Z", "patches": [[1, 0, "inn "], [2, 1, ""]]},
            {"time": "2020-01-01T00:00:04.000Z", "patches": [[3, 1, " "], [4, 0, ""]]},
        ],
    })
}

fn gzipped(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn a_trace_is_replayed_by_every_editor() {
    let json = history().to_string();
    let plain = file("history.json", &json);
    let packed = file("history.json.gz", gzipped(json.as_bytes()));
    for trace in [plain, packed] {
        let report = report_of(&["--trace", &trace, "--editors", "3"]);
        assert_eq!(report["transactions"]["committed"], 15);
        assert_eq!(report["document"]["before"]["characters"], 15);
        assert_eq!(report["document"]["after"]["characters"], 3 * 14);
        assert_eq!(report["seed"], Value::Null);
    }
}

#[test]
fn a_trace_that_ends_otherwise_than_recorded_does_not_hold() {
    let mut history = history();
    history["endContent"] = "something else".into();
    let trace = file("otherwise.json", history.to_string());
    let output = run(["--trace", &trace, "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let report: Value = serde_json::from_str(stdout(&output)).unwrap();
    assert_eq!(report["held"], false);
    let checks = report["checks"].as_array().unwrap();
    let failed: Vec<_> = checks
        .iter()
        .filter(|check| check["held"] == false)
        .map(|check| &check["found"])
        .collect();
    assert_eq!(failed, ["0 of 4 texts, 14 characters each"]);

    let output = run(["--trace", &trace]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).contains("NOT HELD"));
}

/// The folder with the recorded histories of real documents, which are not part of the project.
fn recorded(name: &str) -> Option<String> {
    let folder = std::env::var_os("DOCLOCK_TRACES").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../../shared/traces"),
        PathBuf::from,
    );
    let path = folder.join(name);
    if File::open(&path).is_err() {
        println!("skipped: there is no {name}; DOCLOCK_TRACES can name the folder that has it");
        return None;
    }
    path.into_os_string().into_string().ok()
}

#[test]
fn a_real_trace_ends_as_recorded() {
    let Some(trace) = recorded("sveltecomponent.json.gz") else {
        return;
    };
    let report = report_of(&["--trace", &trace, "--editors", "1"]);
    assert_eq!(report["transactions"]["committed"], 18_335);
    assert_eq!(report["document"]["after"]["characters"], 18_451);
}

#[test]
fn a_real_concurrent_trace_is_refused() {
    let Some(trace) = recorded("clownschool_concurrent.json.gz") else {
        return;
    };
    bad_input::assert_refused(&["--trace", &trace], "concurrent");
}
