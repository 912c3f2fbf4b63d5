//! `doclock verify`: whether the log of a durable file leads to its checkpoint.

use doclock::durable::{VerifyReport, VersionError};
use serde::Serialize;

use crate::args::VerifyArgs;
use crate::error::{CommandOutcome, ToolError};
use crate::{format, output, progress};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct VerifyOutput<'a> {
    verified: bool,
    #[serde(flatten)]
    report: Option<VerifyReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a VersionError>,
}

pub(crate) fn run(args: &VerifyArgs) -> Result<CommandOutcome, ToolError> {
    let file = progress::read(&args.file)?;
    let verified = file.verify();
    match args.json {
        true => output::print_json(&VerifyOutput {
            verified: verified.is_ok(),
            report: verified.as_ref().ok().copied(),
            error: verified.as_ref().err(),
        })?,
        false => output::print(&described(&verified))?,
    }
    Ok(CommandOutcome::of(verified.is_ok()))
}

fn described(verified: &Result<VerifyReport, VersionError>) -> String {
    let report = match verified {
        Ok(report) => report,
        Err(error) => return format!("not verified: {}\n", format::printable(error)),
    };
    let pages = match report.pages_checked {
        true => "the checksums of all pages and of all parts of the document",
        false => {
            "the checksums of all parts of the document; not those of the pages, because another \
             program has the file open"
        }
    };
    let VerifyReport {
        first_version,
        checkpoint_version,
        version,
        commits,
        nodes,
        ..
    } = report;
    let (commits, nodes) = (
        format::count(*commits, "commit"),
        format::count(*nodes, "node"),
    );
    format!(
        "verified up to version {version}\n\
         checked: {pages}\n\
         checked: {commits}, repeated from version {first_version}\n\
         checked: the checkpoint, version {checkpoint_version}, is what the commits make\n\
         checked: the integrity of {nodes}\n"
    )
}
