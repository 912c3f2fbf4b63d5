//! `doclock show`: the document of a durable file.

use crate::args::ShowArgs;
use crate::error::{CommandOutcome, ToolError};
use crate::{format, output, progress};

pub(crate) fn run(args: &ShowArgs) -> Result<CommandOutcome, ToolError> {
    let file = progress::read(&args.file)?;
    let version = args.version.unwrap_or(*file.versions().end());
    let document = file.snapshot(version);
    let document = document.map_err(ToolError::version(&args.file))?;
    output::print(&format::written(&document, args.format, &args.file)?)?;
    Ok(CommandOutcome::Fine)
}
