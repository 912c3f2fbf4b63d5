//! `doclock completions` and `doclock man`.

use std::fs;
use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;
use clap_mangen::Man;

use crate::args::Args;
use crate::error::{Outcome, ToolError};
use crate::output;

pub(crate) fn completions(shell: Shell) -> Result<Outcome, ToolError> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "doclock", &mut script);
    output::print(&String::from_utf8_lossy(&script))?;
    Ok(Outcome::Fine)
}

pub(crate) fn man(out: Option<&Path>) -> Result<Outcome, ToolError> {
    let command = Args::command().disable_help_subcommand(true);
    match out {
        Some(folder) => {
            fs::create_dir_all(folder).map_err(ToolError::io(folder))?;
            clap_mangen::generate_to(command, folder).map_err(ToolError::io(folder))?;
        }
        None => {
            let mut page = Vec::new();
            let written = Man::new(command).render(&mut page);
            written.map_err(ToolError::Output)?;
            output::print(&String::from_utf8_lossy(&page))?;
        }
    }
    Ok(Outcome::Fine)
}
