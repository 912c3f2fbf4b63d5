//! That the pages say what there is.

use std::collections::BTreeSet;

use doclock::Operation;

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
