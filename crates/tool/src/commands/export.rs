//! `doclock export`: the document of a durable file, as a file of another kind.

use crate::args::ExportArgs;
use crate::error::{CommandOutcome, ToolError};
use crate::{format, output, progress};

pub(crate) fn run(args: &ExportArgs) -> Result<CommandOutcome, ToolError> {
    format::of_file(&args.to)?;
    let file = progress::read(&args.file)?;
    let version = args.version.unwrap_or(*file.versions().end());
    let document = file.snapshot(version);
    let document = document.map_err(ToolError::version(&args.file))?;
    format::write_file(&args.to, &document)?;
    let to = format::printable(args.to.display());
    let nodes = format::count(document.len(), "node");
    output::print(&format!("{to}: version {version}, {nodes}\n"))?;
    Ok(CommandOutcome::Fine)
}
