//! `doclock log`: the commits of a durable file.

use std::fmt::Write;
use std::sync::Arc;

use doclock::document::Change;
use doclock::durable::DurableFile;
use doclock::transaction::TransactionResult;
use serde::Serialize;

use crate::args::LogArgs;
use crate::error::{CommandOutcome, ToolError};
use crate::format::printable;
use crate::{output, progress};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LogOutput<'a> {
    first_version: u64,
    checkpoint_version: u64,
    version: u64,
    commits: &'a [Arc<TransactionResult>],
}

pub(crate) fn run(args: &LogArgs) -> Result<CommandOutcome, ToolError> {
    let file = progress::read(&args.file)?;
    let (from, to) = (args.from.unwrap_or(0), args.to.unwrap_or(u64::MAX));
    if from > to {
        let reason = format!("--from {from} is after --to {to}");
        return Err(ToolError::Usage(reason));
    }
    let commits = file.commits(from..=to);
    match args.json {
        true => output::print_json(&LogOutput {
            first_version: *file.versions().start(),
            checkpoint_version: file.checkpoint().version(),
            version: file.document().version(),
            commits,
        })?,
        false => output::print(&listed(&file, commits))?,
    }
    Ok(CommandOutcome::Fine)
}

fn listed(file: &DurableFile, commits: &[Arc<TransactionResult>]) -> String {
    let mut text = String::new();
    let (first, last) = file.versions().into_inner();
    let checkpoint = file.checkpoint().version();
    let _ = writeln!(text, "versions {first} to {last}, checkpoint {checkpoint}");
    for commit in commits {
        let _ = write!(text, "{:>8}  {}", commit.version, printable(&commit.owner));
        for operation in &commit.operations {
            let _ = write!(text, "  {}", printable(&operation.name));
            if let Some(id) = &operation.node_id {
                let _ = write!(text, " {}", printable(id));
            }
        }
        let _ = writeln!(text, "  ({})", counts(&commit.changes));
    }
    text
}

/// How many changes of each kind there are.
fn counts(changes: &[Change]) -> String {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for change in changes {
        let kind = kind(change);
        match counts.iter_mut().find(|(it, _)| *it == kind) {
            Some((_, count)) => *count += 1,
            None => counts.push((kind, 1)),
        }
    }
    let counts = counts.iter().map(|(kind, count)| format!("{count} {kind}"));
    match counts.len() {
        0 => "no changes".to_owned(),
        _ => counts.collect::<Vec<_>>().join(", "),
    }
}

fn kind(change: &Change) -> &'static str {
    match change {
        Change::InsertSubtree { .. } => "inserted",
        Change::RemoveSubtree { .. } => "removed",
        Change::MoveNode { .. } => "moved",
        Change::SpliceText { .. } => "text",
        Change::SetMarks { .. } => "marks",
        Change::PatchAttrs { .. } => "attributes",
        Change::SetType { .. } => "type",
        Change::SplitNode { .. } => "split",
        Change::JoinNodes { .. } => "joined",
        Change::SetRoot { .. } => "root",
        Change::SetSelection { .. } => "selection",
        _ => "other",
    }
}
