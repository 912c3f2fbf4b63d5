//! The report of each hang of the example `staged_hangs` names the line of code that causes it.

#[path = "../examples/staged_hangs/hangs.rs"]
mod hangs;

use std::time::Duration;

use hangs::{Culprit, HANGS, Hang};

/// Longer than any machine takes.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn the_diagnostics_of_each_staged_hang_name_the_line_of_its_cause() {
    for hang in &HANGS {
        let mut looks = 0;
        hang.stage(&mut |store, culprits| {
            looks += 1;
            let diagnostics = store.diagnostics();
            let table = diagnostics.to_string();
            let json = serde_json::to_string(&diagnostics).unwrap();
            if culprits.is_empty() {
                // No line of the program is the cause.
                let names_the_disk = |line: &str| line.starts_with(" closes #4       disk  ");
                assert!(table.lines().any(names_the_disk), "{}:\n{table}", hang.name);
            }
            for Culprit(line) in culprits {
                // The table has the end of a long path.
                let (_, end) = line.rsplit_once('/').unwrap();
                assert!(
                    table.contains(end),
                    "{}: {line} is not in\n{table}",
                    hang.name
                );
                assert!(
                    json.contains(line),
                    "{}: {line} is not in {json}",
                    hang.name
                );
            }
        })
        .unwrap();
        assert_eq!(looks, 1, "{}: {}", hang.name, hang.symptom);
    }
}

/// Their causes are in a lock type beside the store. Its table shows them; its reports are of its
/// own lock.
const BESIDE_THE_STORE: [&str; 2] = ["keyed-lock", "leaked-permit"];

#[test]
fn a_report_of_each_staged_hang_names_the_line_of_its_cause() {
    let reported = |hang: &&Hang| !BESIDE_THE_STORE.contains(&hang.name);
    for hang in HANGS.iter().filter(reported) {
        hang.stage(&mut |store, culprits| {
            let reports = store.lock_reports().unwrap();
            let mut missing = culprits.to_vec();
            while !missing.is_empty() {
                let report = reports.recv_timeout(PATIENCE);
                let report = report.unwrap_or_else(|_| panic!("{}: {missing:?}", hang.name));
                missing.retain(|Culprit(line)| !report.to_string().contains(line));
            }
        })
        .unwrap();
    }
}

#[test]
fn the_page_my_editor_hangs_has_a_section_for_each_staged_hang() {
    let page = include_str!("../docs/guide/my-editor-hangs.md");
    for Hang { name, symptom, .. } in &HANGS {
        let title = format!("\n## {name}: {symptom}\n");
        assert!(page.contains(&title), "there is no section {title}");
    }
}
