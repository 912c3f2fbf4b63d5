//! `doclock replay`: a recorded editing history, in several editors at once.

use std::fmt;
use std::path::Path;
use std::sync::{Barrier, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use doclock::dsl::{element, text_node};
use doclock::lock::AcquireOptions;
use doclock::{DataStore, Editor, StoreOptions, View};
use indicatif::ProgressBar;
use serde::Serialize;

use crate::args::ReplayArgs;
use crate::error::{CommandOutcome, ToolError};
use crate::recorded_history::RecordedHistory;
use crate::{document, format, output, progress};

/// The most bytes that the texts of all editors may have.
const TEXTS: usize = 1 << 30;

/// The result of a replay.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ReplayOutput {
    trace: String,
    editors: u32,
    transactions: u64,
    seconds: f64,
    transactions_per_second: f64,
    /// The number of versions that were made.
    versions: u64,
    /// The number of characters of the first text at the end.
    characters: usize,
    /// How many texts equal the recorded one.
    as_recorded: u32,
    /// The first error of an editor, which ended its replay.
    error: Option<String>,
}

pub(crate) fn run(args: &ReplayArgs) -> Result<CommandOutcome, ToolError> {
    let history = RecordedHistory::load(&args.trace)?;
    check_size(args, &history)?;
    let texts = 1..=args.editors;
    let nodes = texts
        .clone()
        .map(|nth| text_node("paragraph", history.start.clone()).with_id(id(nth)));
    let store = document::imported(&args.trace, StoreOptions::new(), element("document", nodes))?;
    let before = store.version();
    let (seconds, error) = replay(args.editors, &history, &store);
    let document = store.snapshot();
    let text = |nth| document.node(id(nth)).map(|node| node.text());
    let is_as_recorded = |nth: &u32| text(*nth).is_some_and(|text| *text == *history.end);
    let transactions = u64::from(args.editors) * history.len() as u64;
    let report = ReplayOutput {
        trace: args.trace.display().to_string(),
        editors: args.editors,
        transactions,
        seconds,
        transactions_per_second: transactions as f64 / seconds.max(1e-9),
        versions: document.version() - before,
        characters: text(1).map_or(0, |text| text.len()),
        as_recorded: texts.filter(is_as_recorded).count() as u32,
        error,
    };
    match args.json {
        true => output::print_json(&report)?,
        false => output::print(&report.to_string())?,
    }
    Ok(CommandOutcome::of(report.as_recorded == report.editors))
}

fn check_size(args: &ReplayArgs, history: &RecordedHistory) -> Result<(), ToolError> {
    let size = history.start.len().max(history.end.len());
    match size.saturating_mul(args.editors as usize) > TEXTS {
        true => {
            let reason = format!(
                "{} editors have texts of {size} bytes each, more than {} MiB in all",
                args.editors,
                TEXTS >> 20
            );
            Err(ToolError::input(Path::new(&args.trace), reason))
        }
        false => Ok(()),
    }
}

/// Replays the history in each editor. Returns the seconds and the first error.
fn replay(editors: u32, history: &RecordedHistory, store: &DataStore) -> (f64, Option<String>) {
    let bar = progress::transactions(u64::from(editors) * history.len() as u64);
    let error = Mutex::new(None);
    let begin = Barrier::new(editors as usize + 1);
    let began = thread::scope(|scope| {
        for nth in 1..=editors {
            let (bar, error, begin) = (&bar, &error, &begin);
            scope.spawn(move || {
                let editor = Editor::new(store.clone(), format!("editor-{nth}"));
                begin.wait();
                if let Err(reason) = replay_in(&editor, &id(nth), history, bar) {
                    let mut error = error.lock().unwrap_or_else(PoisonError::into_inner);
                    error.get_or_insert(reason);
                }
            });
        }
        let began = Instant::now();
        begin.wait();
        began
    });
    let seconds = began.elapsed().as_secs_f64();
    bar.finish_and_clear();
    let error = error.into_inner().unwrap_or_else(PoisonError::into_inner);
    (seconds, error)
}

fn replay_in(
    editor: &Editor,
    text: &str,
    history: &RecordedHistory,
    bar: &ProgressBar,
) -> Result<(), String> {
    for batch in history.batches(text) {
        let options = AcquireOptions::new().no_timeout();
        let result = editor.transaction(batch).options(options).commit();
        // The later patches were recorded for another text.
        result.map_err(|error| error.to_string())?;
        bar.inc(1);
    }
    Ok(())
}

fn id(nth: u32) -> String {
    format!("text-{nth}")
}

impl fmt::Display for ReplayOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            editors,
            transactions,
            seconds,
            ..
        } = self;
        writeln!(f, "{}", format::printable(&self.trace))?;
        writeln!(
            f,
            "{} of {} in {seconds:.3} s: {:.0} a second",
            format::count(*transactions, "transaction"),
            format::count(*editors, "editor"),
            self.transactions_per_second
        )?;
        writeln!(
            f,
            "{}, {} at the end",
            format::count(self.versions, "version"),
            format::count(self.characters, "character")
        )?;
        if let Some(error) = &self.error {
            writeln!(f, "an editor failed: {}", format::printable(error))?;
        }
        writeln!(
            f,
            "{} of {editors} texts equal the recorded one",
            self.as_recorded
        )
    }
}
