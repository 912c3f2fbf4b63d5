//! Checks the pages against the code.

use std::collections::BTreeSet;
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
    let page = include_str!("../docs/untrusted-scripts.md");
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

/// A page whose code is not run promises what may not be there.
#[test]
fn every_page_with_code_is_run_as_a_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let run = fs::read_to_string(root.join("src/lib.rs")).unwrap();
    let pages = fs::read_dir(root.join("docs")).unwrap();
    let pages = pages.map(|entry| format!("docs/{}", entry.unwrap().file_name().display()));
    let mut seen = 0;
    for page in pages.chain(["README.md".to_owned(), "CONTRIBUTING.md".to_owned()]) {
        let Ok(text) = fs::read_to_string(root.join(&page)) else {
            continue;
        };
        if text.contains("```rust") {
            seen += 1;
            assert!(run.contains(&format!("\"../{page}\"")), "{page}");
        }
    }
    assert!(seen > 10, "{seen}");
}
