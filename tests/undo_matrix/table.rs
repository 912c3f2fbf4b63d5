//! The table of the guide: what Ann's undo does beside each edit of Bob.

use std::{fs, path::Path};

use crate::cell::{Cell, Outcome};
use crate::local::LOCALS;
use crate::remote::REMOTES;

const BEGIN: &str = "<!-- matrix: begin -->\n";
const END: &str = "<!-- matrix: end -->\n";

/// Compares the table with the page. Writes it there with `DOCLOCK_WRITE=1`.
pub(crate) fn check(matrix: &[Cell]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/guide/undo.md");
    let page = fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (found, after) = rest.split_once(END).unwrap();
    let table = table(matrix);
    if std::env::var("DOCLOCK_WRITE").is_ok_and(|set| set == "1") {
        fs::write(&path, format!("{before}{BEGIN}{table}{END}{after}")).unwrap();
    } else {
        assert_eq!(found, table, "DOCLOCK_WRITE=1 writes the table");
    }
}

/// The columns, in the order of the edits.
fn groups() -> Vec<&'static str> {
    let mut groups = Vec::new();
    for remote in &REMOTES {
        if !groups.contains(&remote.group) {
            groups.push(remote.group);
        }
    }
    groups
}

fn table(matrix: &[Cell]) -> String {
    let groups = groups();
    let names = groups.iter().map(|group| {
        let names = REMOTES.iter().filter(|remote| remote.group == *group);
        let names: Vec<&str> = names.map(|remote| remote.short).collect();
        format!("- **{group}**: {}\n", names.join("; "))
    });
    let rows = LOCALS.iter().zip(matrix.chunks(REMOTES.len()));
    let rows = rows.map(|(local, cells)| {
        let columns = groups.iter().map(|group| {
            let cells = cells.iter().filter(|cell| cell.remote.group == *group);
            format!(" {} |", column(&cells.collect::<Vec<_>>()))
        });
        format!("| **{}** |{}\n", local.name, columns.collect::<String>())
    });
    let (names, rows) = (names.collect::<String>(), rows.collect::<String>());
    let (head, rule) = (groups.join(" | "), "|---".repeat(groups.len()));
    format!("\n{names}\n| Ann | {head} |\n|---{rule}|\n{rows}\n")
}

/// The edits of a column that leave nothing to undo or make the undo impossible, by the reasons.
fn column(cells: &[&Cell]) -> String {
    let is_applicable = |cell: &&&Cell| cell.outcome != Outcome::NotApplicable;
    let cells: Vec<&&Cell> = cells.iter().filter(is_applicable).collect();
    let mut reasons: Vec<(String, Vec<&str>)> = Vec::new();
    for cell in &cells {
        let reason = match &cell.outcome {
            Outcome::Refused(reason) => format!("**refused**, {reason}"),
            Outcome::NoEffect => "nothing left".to_owned(),
            Outcome::Undone | Outcome::NotApplicable => continue,
        };
        let name = cell.remote.short;
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, names)) => names.push(name),
            None => reasons.push((reason, vec![name])),
        }
    }
    let reasons = reasons
        .iter()
        .map(|(reason, names)| match names.len() == cells.len() {
            true => reason.clone(),
            false => format!("{}: {reason}", names.join("; ")),
        });
    let reasons: Vec<String> = reasons.collect();
    match (cells.is_empty(), reasons.is_empty()) {
        (true, _) => "–".to_owned(),
        (_, true) => "undone".to_owned(),
        _ => reasons.join("<br>"),
    }
}
