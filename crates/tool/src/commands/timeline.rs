//! `doclock timeline`: the page and the trace of what a lock did.

use std::collections::HashSet;
use std::path::Path;

use doclock::diagnostics::chrome_trace;
use doclock::lock::Timeline;

use crate::args::TimelineArgs;
use crate::error::{CommandOutcome, ToolError};
use crate::timeline::write_page;
use crate::{format, input, output};

pub(crate) fn run(args: &TimelineArgs) -> Result<CommandOutcome, ToolError> {
    let timeline = read(&args.file)?;
    if let Some(path) = &args.html {
        let mut page = Vec::new();
        write_page(&timeline, &mut page).map_err(ToolError::io(path))?;
        output::write_file(path, &page)?;
        describe(path, &timeline)?;
    }
    if let Some(path) = &args.chrome {
        output::write_json(path, &chrome_trace(&timeline))?;
        describe(path, &timeline)?;
    }
    Ok(CommandOutcome::Fine)
}

fn read(path: &Path) -> Result<Timeline, ToolError> {
    let (path, json) = match path == Path::new("-") {
        true => (
            Path::new("standard input"),
            input::standard(input::TIMELINE)?,
        ),
        false => (path, input::bytes(path, input::TIMELINE)?),
    };
    serde_json::from_slice(input::without_byte_order_mark(&json))
        .map_err(|error| ToolError::input(path, format_args!("is not a timeline: {error}")))
}

fn describe(path: &Path, timeline: &Timeline) -> Result<(), ToolError> {
    let owners: HashSet<_> = timeline.entries.iter().map(|it| &it.owner_id).collect();
    let requests = format::count(timeline.entries.len(), "request");
    let owners = format::count(owners.len(), "owner");
    let path = format::printable(path.display());
    output::print(&format!("{path}: {requests} of {owners}\n"))
}
