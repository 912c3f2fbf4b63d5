//! `doclock compact`: a durable file without unused pages.

use doclock::durable::DurableFile;

use crate::args::CompactArgs;
use crate::error::{CommandOutcome, ToolError};
use crate::{input, output, progress};

pub(crate) fn run(args: &CompactArgs) -> Result<CommandOutcome, ToolError> {
    input::check_kind(&args.file)?;
    let bar = progress::reading();
    let report = DurableFile::compact(&args.file);
    bar.finish_and_clear();
    let report = report.map_err(ToolError::open(&args.file))?;
    let (before, after) = (report.bytes_before, report.bytes_after);
    match args.json {
        true => output::print_json(&report)?,
        false => output::print(&format!("{before} bytes before, {after} bytes after\n"))?,
    }
    Ok(CommandOutcome::Fine)
}
