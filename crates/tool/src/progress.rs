//! Progress bars, which are visible only if standard error is a terminal.

use std::path::Path;
use std::time::Duration;

use doclock::durable::{DurableFile, OpenProgress};
use indicatif::{ProgressBar, ProgressStyle};

use crate::error::ToolError;
use crate::input;

/// A bar for so many transactions.
pub(crate) fn transactions(count: u64) -> ProgressBar {
    let bar = ProgressBar::new(count);
    set_template(
        &bar,
        "{bar:40} {pos}/{len} transactions, {per_sec}, {eta} left",
    );
    bar
}

/// Reads the file of a durable document.
pub(crate) fn read(path: &Path) -> Result<DurableFile, ToolError> {
    input::check_kind(path)?;
    let bar = reading();
    let shown = bar.clone();
    let file = DurableFile::read_with(path, move |reached| show(&shown, reached));
    bar.finish_and_clear();
    file.map_err(ToolError::open(path))
}

/// A bar for the progress of an open.
pub(crate) fn reading() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

pub(crate) fn show(bar: &ProgressBar, reached: OpenProgress) {
    match reached {
        OpenProgress::Checking(part) => {
            bar.set_message(format!("{:.0} % of the file is checked", 100.0 * part));
        }
        OpenProgress::Nodes(nodes) => bar.set_message(format!("{nodes} nodes are loaded")),
        OpenProgress::Commits(commits) => {
            bar.set_message(format!("{commits} commits are repeated"))
        }
        _ => {}
    }
}

fn set_template(bar: &ProgressBar, template: &str) {
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
}
