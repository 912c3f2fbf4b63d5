//! The report of each staged hang names the line of code that causes it.

#[path = "../examples/staged_hangs/hangs.rs"]
mod hangs;

use hangs::{Culprit, HANGS};

#[test]
fn the_diagnostics_of_each_staged_hang_name_the_line_of_its_cause() {
    for hang in &HANGS {
        let mut looks = 0;
        hang.stage(&mut |store, culprits| {
            looks += 1;
            let diagnostics = store.diagnostics();
            let (table, json) = (diagnostics.to_string(), serde_json::to_string(&diagnostics));
            for Culprit(line) in culprits {
                assert!(
                    table.contains(line),
                    "{}: {line} is not in\n{table}",
                    hang.name
                );
                assert!(json.as_ref().unwrap().contains(line), "{}", hang.name);
            }
        })
        .unwrap();
        assert_eq!(looks, 1, "{}", hang.name);
    }
}
