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
