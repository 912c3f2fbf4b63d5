//! The report of each hang of the example `staged_hangs` names the line of code that causes it.

#[path = "../examples/staged_hangs/hangs.rs"]
mod hangs;

use std::thread;
use std::time::{Duration, Instant};

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

/// The words of a line, without what differs from run to run or with the code of doclock: times,
/// ids of locks and of threads, sizes, and lines of doclock.
fn steady(line: &str) -> String {
    let line = line.split(" (#1 is ").next().unwrap_or_default();
    let mut words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    for at in 0..words.len() {
        let bare = words[at].trim_matches(&['>', '`', ','][..]).to_owned();
        let is_time = |unit| {
            let number = bare.strip_suffix(unit);
            number.is_some_and(|number| number.parse::<f64>().is_ok())
        };
        let is_number = bare.parse::<f64>().is_ok();
        if ["µs", "ms", "s"].into_iter().any(is_time) {
            words[at] = "TIME".to_owned();
        } else if bare.contains("/log/closing.rs:") {
            words[at] = "SITE".to_owned();
        } else if is_number && at > 0 && words[at - 1] == "thread" {
            words[at] = words[at].replace(&bare, "ID");
        } else if bare == "B" {
            words[at - 1] = "SIZE".to_owned();
        }
    }
    words.join(" ")
}

/// The steady lines of a table. Where a line of a cause ends depends on the lengths of ids.
fn steady_lines(table: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for line in table.lines() {
        let goes_on = line.starts_with(&" ".repeat(16)) && !line.starts_with(&" ".repeat(17));
        match lines
            .last_mut()
            .filter(|it| goes_on && it.starts_with("CAUSE "))
        {
            Some(cause) => *cause += &format!(" {}", steady(line)),
            None => lines.push(steady(line)),
        }
    }
    lines
}

/// Whether the table of a page is in the printed one, line by line and in order. A line with
/// nothing but an ellipsis is for those that are left out.
fn is_in(page: &str, printed: &str) -> bool {
    let printed = steady_lines(printed);
    let mut printed = printed.iter();
    let mut shown = steady_lines(page).into_iter().filter(|line| line != "…");
    shown.all(|line| printed.any(|it| *it == line))
}

#[test]
fn the_page_my_editor_hangs_shows_what_each_staged_hang_prints() {
    let page = include_str!("../docs/guide/my-editor-hangs.md");
    for hang in &HANGS {
        let Hang { name, symptom, .. } = hang;
        let title = format!("\n## {name}: {symptom}\n");
        let (_, section) = page.split_once(&title).expect(&title);
        let (_, block) = section.split_once("\n```text\n").unwrap();
        let (block, _) = block.split_once("```").unwrap();
        // The table names the thread that stages some of them.
        let stage = || {
            let begun = Instant::now();
            let mut printed = String::new();
            let mut look = |store: &doclock::DataStore, _: &[Culprit]| loop {
                printed = store.diagnostics().to_string();
                // A thread is in its queue a moment before it notes where it waits.
                if is_in(block, &printed) || begun.elapsed() > PATIENCE {
                    break;
                }
                thread::yield_now();
            };
            hang.stage(&mut look).unwrap();
            printed
        };
        let printed = thread::scope(|threads| {
            let main = thread::Builder::new().name("main".to_owned());
            main.spawn_scoped(threads, stage).unwrap().join().unwrap()
        });
        assert!(
            is_in(block, &printed),
            "{name}: the page has\n{block}\nand not\n{printed}"
        );
    }
}
