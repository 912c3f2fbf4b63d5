//! Checks the pages against the code.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use doclock::{
    document::{Limit, Limits},
    transaction::Operation,
};

#[test]
fn the_table_of_operations_has_every_operation_and_no_other() {
    let page = include_str!("../docs/operations.md");
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    let named: BTreeSet<&str> = rows
        .filter_map(|row| {
            row.split('|')
                .nth(2)?
                .trim()
                .strip_prefix('`')?
                .split('`')
                .next()
        })
        .filter(|name| *name != "alias")
        .collect();
    assert_eq!(named, Operation::names().collect());
}

#[test]
fn the_table_of_limits_has_every_limit_and_its_default() {
    let page = include_str!("../docs/guide/untrusted-scripts.md");
    let rows = page.lines().filter_map(|row| {
        let mut cells = row.split('|').map(str::trim).skip(1);
        let name = cells.next()?.strip_prefix('`')?.strip_suffix('`')?;
        let default: usize = cells.next()?.replace(',', "").parse().ok()?;
        Some((name.to_owned(), default))
    });
    let limits = Limits::new();
    let known = Limit::ALL.map(|limit| (limit.name().to_owned(), limits.most(limit)));
    assert_eq!(rows.collect::<BTreeSet<_>>(), BTreeSet::from(known));
}

/// The pages of a folder, each with its text.
fn pages(folder: &str) -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files = fs::read_dir(root.join(folder)).unwrap();
    let files = files.map(|entry| entry.unwrap().path());
    let markdown = files.filter(|file| file.extension().is_some_and(|ending| ending == "md"));
    let pages = markdown.map(|file| {
        let text = fs::read_to_string(&file).unwrap();
        (file.strip_prefix(root).unwrap().display().to_string(), text)
    });
    pages.collect()
}

/// A page whose code is not run promises what may not be there.
#[test]
fn every_page_with_code_is_run_as_a_test() {
    let run = [
        include_str!("../src/lib.rs"),
        include_str!("../src/guide.rs"),
    ]
    .concat();
    let mut seen = 0;
    for (page, text) in ["", "docs", "docs/guide"].into_iter().flat_map(pages) {
        if text.contains("```rust") {
            seen += 1;
            assert!(run.contains(&format!("\"../{page}\"")), "{page}");
        }
    }
    assert!(seen > 15, "{seen}");
}

/// The text of a page without code.
fn prose(page: &str) -> String {
    let fences = page.split("```").step_by(2).collect::<String>();
    fences.split('`').step_by(2).collect()
}

/// The definitions of labels in a text: `[label]: target`.
fn definitions(text: &str) -> BTreeMap<&str, &str> {
    let lines = text.lines();
    let definitions = lines.filter_map(|line| line.strip_prefix('[')?.split_once("]: "));
    definitions.collect()
}

/// The labels of the links in a text. Panics if it links to a file without a label.
fn labels(page: &str, text: &str) -> BTreeSet<String> {
    let prose = prose(text);
    let mut labels = BTreeSet::new();
    let mut rest = prose.as_str();
    while let Some((_, found)) = rest.split_once('[') {
        let (name, after) = found.split_once(']').unwrap();
        rest = after;
        if let Some(target) = after.strip_prefix('(') {
            let in_rustdoc = ["http", "#"].iter().any(|start| target.starts_with(start));
            assert!(in_rustdoc, "{page}: [{name}] has no label");
        } else if !after.starts_with(": ") && !after.starts_with('[') {
            let words: Vec<&str> = name.split_whitespace().collect();
            labels.insert(words.join(" "));
        }
    }
    labels
}

/// Where rustdoc shows a file of the repository that a page links to.
fn in_rustdoc(page: &str, target: &str) -> String {
    let (path, anchor) = target.split_at(target.find('#').unwrap_or(target.len()));
    let target = Path::new(page).parent().unwrap().join(path);
    let module = match target.file_stem().unwrap().to_str().unwrap() {
        "README" => String::new(),
        page => format!("::{}", page.replace('-', "_")),
    };
    format!("crate::guide{module}{anchor}")
}

/// A label is defined twice: in the page for the repository, and before it for rustdoc.
#[test]
fn every_link_of_the_guide_leads_to_the_same_page_on_both_sides() {
    let rustdoc = definitions(include_str!("../src/guide/links.txt"));
    let guide = include_str!("../src/guide.rs");
    let mut used = BTreeSet::new();
    for (page, text) in ["docs", "docs/guide"].into_iter().flat_map(pages) {
        if !guide.contains(&format!("\"../{page}\"")) {
            continue;
        }
        let repository = definitions(&text);
        let labels = labels(&page, &text);
        let defined = repository.keys().map(|label| (*label).to_owned());
        assert_eq!(labels, defined.collect(), "{page}: links and definitions");
        for (label, target) in repository {
            let there = rustdoc.get(label).copied();
            assert_eq!(
                there,
                Some(&*in_rustdoc(&page, target)),
                "{page}: [{label}]"
            );
        }
        used.extend(labels);
    }
    assert_eq!(
        used,
        rustdoc.keys().map(|label| (*label).to_owned()).collect()
    );
}

// --- Commands ---

/// The files whose commands are run: by `.ci/run`, or for an hour by `scripts/soak`.
const RUNNERS: &[&str] = &[
    ".ci/run",
    "scripts/soak",
    "crates/tool/tests/report/check",
    "examples/apps/desktop/check",
    "examples/apps/live/check",
];

/// Commands of pages that are run in another form.
const ELSEWHERE: &[(&str, &str)] = &[
    // By `web/test/cluster.test.mjs`, which starts and kills the servers.
    (
        "examples/apps/live/README.md",
        "scripts/with-postgres bash -c",
    ),
];

/// The words of a command, without what does not determine what it runs: the directory, variables
/// of the environment, the profile, and the arguments of a program.
fn words(command: &str) -> Vec<String> {
    let words = command.trim_start_matches('(').split_whitespace();
    let words = words.map(|word| word.trim_matches(['"', '\'', '(', ')', ';']));
    let words = words.skip_while(|word| word.contains('='));
    let words =
        words.take_while(|word| !matches!(*word, "--" | ">" | ">>" | "|" | "||" | "\\" | "&"));
    let kept = words.filter(|word| {
        let is_option = ["--release", "--locked", "--quiet", "--debug", "-q", "!"].contains(word);
        // What a reader puts in: `NAME`, `FILE.png`, `[ROUNDS]`.
        let name = word.trim_start_matches('[');
        let is_open = name.len() > 1 && name.chars().take(2).all(|char| char.is_ascii_uppercase());
        !is_option && !is_open && !word.is_empty()
    });
    kept.map(|word| word.trim_start_matches("../").to_owned())
        .collect()
}

/// The commands of a text in which each line is one, or several.
fn commands(text: &str) -> Vec<Vec<String>> {
    let text = text.replace("\\\n", " ").replace("$(", "\n");
    let lines = text.lines().flat_map(|line| line.split("&&"));
    let commands = lines.map(words).filter(|words| !words.is_empty());
    commands.collect()
}

/// The commands that a page in a folder shows: the lines of its consoles, and code in its text.
fn shown(folder: &str, text: &str) -> Vec<Vec<String>> {
    let mut shown = Vec::new();
    for (nth, part) in text.split("```").enumerate() {
        match nth % 2 {
            1 => shown.extend(
                part.strip_prefix("console\n")
                    .map(commands)
                    .into_iter()
                    .flatten(),
            ),
            _ => {
                shown.extend(part.split('`').skip(1).step_by(2).flat_map(|code| {
                    commands(&code.split_whitespace().collect::<Vec<_>>().join(" "))
                }))
            }
        }
    }
    for word in shown.iter_mut().flatten().filter(|word| *word == "./check") {
        *word = format!("{folder}/check");
    }
    for words in &mut shown {
        // What a fault is called, and how many rounds.
        if words[0].starts_with("scripts/") && words[0] != "scripts/with-postgres" {
            words.truncate(1);
        }
    }
    // The commands of the tool are run by `crates/tool/tests`.
    shown.retain(|words| match words[0].as_str() {
        "cargo" => words.len() > 1,
        "npm" => true,
        "node" => words.get(1).is_some_and(|file| file.ends_with(".mjs")),
        script => {
            let is_script = script.starts_with("scripts/") && script != "scripts/…";
            is_script || RUNNERS.contains(&script)
        }
    });
    shown
}

/// Whether a command that is run has all words of one that is shown, in their order.
fn runs(run: &[String], shown: &[String]) -> bool {
    let mut run = run.iter();
    shown.iter().all(|word| run.any(|other| other == word))
}

/// Whether it is a part of `cargo test`, which runs every test of the crate, of what it shares with
/// the locks, of these, the formats and the watch server.
fn is_of_tests(shown: &[String]) -> bool {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut target = shown.iter().skip_while(|word| *word != "--test").skip(1);
    let exists = target.next().is_none_or(|name| {
        let folders = [
            "",
            "crates/common",
            "crates/formats",
            "crates/locks",
            "crates/watch",
        ];
        folders.iter().any(|folder| {
            let folder = root.join(folder).join("tests");
            folder.join(format!("{name}.rs")).exists() || folder.join(name).join("main.rs").exists()
        })
    });
    shown.starts_with(&["cargo".into(), "test".into()]) && !shown.contains(&"-p".into()) && exists
}

/// All pages of the repository.
fn all_pages() -> Vec<(String, String)> {
    let folders = [
        "",
        "docs",
        "docs/guide",
        "docs/invariants",
        "docs/decisions",
        "examples",
        "examples/apps/live",
        "crates/bench",
        "crates/common",
        "crates/document",
        "crates/formats",
        "crates/locks",
        "crates/tool",
        "crates/watch",
    ];
    let mut all: Vec<_> = folders.into_iter().flat_map(pages).collect();
    all.retain(|(page, _)| page != "CHANGELOG.md");
    all
}

/// What is run nowhere stops to work one day.
#[test]
fn every_command_of_a_page_is_run_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let runners = RUNNERS
        .iter()
        .map(|file| fs::read_to_string(root.join(file)).unwrap());
    let run: Vec<_> = runners.flat_map(|text| commands(&text)).collect();
    let mut seen = 0;
    let mut missing = Vec::new();
    for (page, text) in all_pages() {
        let folder = Path::new(&page).parent().unwrap().display().to_string();
        for shown in shown(&folder, &text) {
            seen += 1;
            let is_runner = RUNNERS.contains(&&*shown[0]);
            let is_elsewhere = ELSEWHERE.contains(&(&*page, &*shown.join(" ")));
            if is_runner || is_elsewhere {
                continue;
            }
            if !is_of_tests(&shown) && !run.iter().any(|run| runs(run, &shown)) {
                missing.push(format!("{page}: {}", shown.join(" ")));
            }
        }
    }
    assert!(seen > 80, "{seen}");
    assert!(missing.is_empty(), "run nowhere:\n{}", missing.join("\n"));
}

/// A lock file of its own is older than the crate one day. `.ci/run` looks at each.
#[test]
fn every_package_outside_of_the_workspace_has_a_lock_file() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut outside = 0;
    let mut ahead = vec![root.to_owned()];
    while let Some(folder) = ahead.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap_or_default();
            if path.is_dir() && !["target", "node_modules", ".git"].contains(&name) {
                ahead.push(path);
            } else if name == "Cargo.toml" {
                let manifest = fs::read_to_string(&path).unwrap();
                let is_own = manifest.lines().any(|line| line == "[workspace]");
                outside += usize::from(is_own && folder != root);
                assert!(
                    !is_own || folder.join("Cargo.lock").exists(),
                    "{}",
                    path.display()
                );
            }
        }
    }
    assert_eq!(outside, 1);
}
