//! `doclock salvage`: what can still be read of a damaged file.

use std::ffi::OsStr;
use std::fmt::Write;
use std::path::Path;

use doclock::NodeId;
use doclock::durable::{SalvageReport, SalvagedFile};
use serde::Serialize;

use crate::args::SalvageArgs;
use crate::error::{CommandOutcome, ToolError};
use crate::format::{count, printable};
use crate::{format, input, output, progress};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SalvageOutput<'a> {
    #[serde(flatten)]
    report: &'a SalvageReport,
    written: Vec<String>,
}

pub(crate) fn run(args: &SalvageArgs) -> Result<CommandOutcome, ToolError> {
    args.to.iter().try_for_each(|path| check_target(path))?;
    input::check_kind(&args.file)?;
    let bar = progress::reading();
    let salvaged = SalvagedFile::read(&args.file);
    bar.finish_and_clear();
    let salvaged = salvaged.map_err(ToolError::open(&args.file))?;
    for path in &args.to {
        match is_durable(path) {
            true => salvaged.save_to(path).map_err(ToolError::open(path))?,
            false => format::write_file(path, salvaged.document())?,
        }
    }
    let report = salvaged.report();
    match args.json {
        true => output::print_json(&SalvageOutput {
            report,
            written: args
                .to
                .iter()
                .map(|path| path.display().to_string())
                .collect(),
        })?,
        false => output::print(&described(report, &args.to))?,
    }
    Ok(CommandOutcome::of(report.is_whole))
}

fn is_durable(path: &Path) -> bool {
    path.extension().and_then(OsStr::to_str) == Some("doclock")
}

/// Nothing is replaced: it could be the damaged file.
fn check_target(path: &Path) -> Result<(), ToolError> {
    if path.symlink_metadata().is_ok() {
        return Err(ToolError::input(
            path,
            "exists already, and a salvage replaces nothing",
        ));
    }
    if !is_durable(path) && format::of_file(path).is_err() {
        let reason = "the name must end in .doclock, .json, .md or .html";
        return Err(ToolError::input(path, reason));
    }
    Ok(())
}

fn described(report: &SalvageReport, written: &[impl AsRef<Path>]) -> String {
    let (version, last) = (report.version, report.last_version);
    let nodes = count(report.nodes, "node");
    let is_part = report.missing_entries > 0 || report.doubtful_notes > 0;
    let mut text = match is_part || !report.doubtful_nodes.is_empty() {
        true => format!("salvaged: a part of version {version} of {last}, {nodes}\n"),
        false => format!("salvaged: version {version} of {last}, {nodes}\n"),
    };
    if report.missing_entries > 0 || report.missing_blocks > 0 {
        let parts = count(report.missing_entries, "part");
        let blocks = count(report.missing_blocks, "block");
        let _ = writeln!(
            text,
            "missing: {parts} of the checkpoint, {blocks} of the log"
        );
    }
    list(&mut text, "missing nodes", &report.missing_nodes);
    list(
        &mut text,
        "detached nodes, whose parents are missing",
        &report.detached_nodes,
    );
    list(
        &mut text,
        "doubtful nodes, perhaps of an earlier version",
        &report.doubtful_nodes,
    );
    if report.doubtful_notes > 0 {
        let notes = report.doubtful_notes;
        let _ = writeln!(text, "doubtful receipts, marks and leases: {notes}");
    }
    if report.unreadable_bytes > 0 {
        let _ = writeln!(
            text,
            "the disk did not return {} bytes",
            report.unreadable_bytes
        );
    }
    let (receipts, marks) = (
        count(report.receipts, "receipt"),
        count(report.inbox_marks, "mark"),
    );
    let leases = count(report.leases, "lease");
    let _ = writeln!(text, "kept: {receipts}, {marks} of inboxes, {leases}");
    for path in written {
        let _ = writeln!(text, "written: {}", printable(path.as_ref().display()));
    }
    text
}

fn list(text: &mut String, what: &str, ids: &[NodeId]) {
    /// `--json` prints all of them.
    const LISTED: usize = 20;
    if ids.is_empty() {
        return;
    }
    let listed: Vec<String> = ids.iter().take(LISTED).map(printable).collect();
    let _ = write!(text, "{what}: {}", listed.join(", "));
    if ids.len() > LISTED {
        let _ = write!(text, " and {} more", ids.len() - LISTED);
    }
    text.push('\n');
}
