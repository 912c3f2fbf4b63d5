//! `doclock completions` and `doclock man`.

use std::fs;
use std::io::Write;
use std::path::Path;

use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::args::Args;
use crate::error::{CommandOutcome, EXIT_CODES, ToolError};
use crate::output;

pub(crate) fn completions(shell: Shell) -> Result<CommandOutcome, ToolError> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "doclock", &mut script);
    output::print(&String::from_utf8_lossy(&script))?;
    Ok(CommandOutcome::Fine)
}

pub(crate) fn man(out: Option<&Path>) -> Result<CommandOutcome, ToolError> {
    let mut doclock = Args::command().disable_help_subcommand(true);
    doclock.build();
    let Some(folder) = out else {
        output::print(&String::from_utf8_lossy(&page(doclock)?))?;
        return Ok(CommandOutcome::Fine);
    };
    fs::create_dir_all(folder).map_err(ToolError::io(folder))?;
    let commands: Vec<Command> = doclock.get_subcommands().cloned().collect();
    for command in [doclock].into_iter().chain(commands) {
        let man = Man::new(command.clone());
        let path = folder.join(man.get_filename());
        output::write_file(&path, &page(command)?)?;
    }
    Ok(CommandOutcome::Fine)
}

/// The page of a command, with the exit codes where man pages have them.
fn page(command: Command) -> Result<Vec<u8>, ToolError> {
    let has_commands = command.has_subcommands();
    // The help of a command ends with the exit codes.
    let man = Man::new(command.after_help(None::<&str>));
    let mut page = Vec::new();
    let rendered = man
        .render_title(&mut page)
        .and_then(|()| man.render_name_section(&mut page))
        .and_then(|()| man.render_synopsis_section(&mut page))
        .and_then(|()| man.render_description_section(&mut page))
        .and_then(|()| man.render_options_section(&mut page))
        .and_then(|()| match has_commands {
            true => man.render_subcommands_section(&mut page),
            false => Ok(()),
        })
        .and_then(|()| writeln!(page, ".SH \"EXIT STATUS\""))
        .and_then(|()| {
            let mut codes = EXIT_CODES.iter();
            codes.try_for_each(|(code, meaning)| writeln!(page, ".TP\n\\fB{code}\\fR\n{meaning}"))
        });
    rendered.map_err(ToolError::Output)?;
    Ok(page)
}
