//! `doclock run`: a script, in several editors at once.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Barrier, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use doclock::lock::{AcquireOptions, LockStats};
use doclock::transaction::{Operation, TransactionError, parse_operations};
use doclock::{DataStore, Editor, StoreOptions};
use serde::Serialize;

use crate::args::RunArgs;
use crate::error::{CommandOutcome, ToolError};
use crate::{document, format, input, output, progress};

/// The result of a run.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RunOutput {
    document: String,
    editors: u32,
    transactions: u64,
    committed: u64,
    failed: u64,
    failures: Vec<Failure>,
    version_before: u64,
    version_after: u64,
    seconds: f64,
    lock: LockStats,
}

/// The transactions that failed in one way.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Failure {
    count: u64,
    /// The editor of the first one.
    editor: String,
    error: TransactionError,
}

/// How transactions ended.
#[derive(Default)]
struct Tally {
    committed: u64,
    failures: BTreeMap<String, Failure>,
}

pub(crate) fn run(args: &RunArgs) -> Result<CommandOutcome, ToolError> {
    let script = input::text(&args.script, input::SCRIPT)?;
    let operations =
        parse_operations(&script).map_err(|error| ToolError::input(&args.script, error))?;
    if let Some(out) = &args.out {
        format::of_file(out)?;
    }
    let store = document::open(&args.doc, options(args), args.allow_readers)?;
    let version_before = store.version();
    let (tally, elapsed) = run_editors(args, &store, &operations);
    let document = store.snapshot();
    let lock = store.lock_stats();
    let timeline = store.timeline();
    if store.durable_snapshot().is_some() {
        let closed = store.close();
        closed.map_err(|error| ToolError::Store {
            path: args.doc.clone(),
            reason: error.to_string(),
        })?;
    }
    if let Some(out) = &args.out {
        format::write_file(out, &document)?;
    }
    if let (Some(path), Some(timeline)) = (&args.timeline, timeline) {
        output::write_json(path, &timeline)?;
    }
    let transactions = u64::from(args.editors) * u64::from(args.repeat);
    let report = RunOutput {
        document: args.doc.display().to_string(),
        editors: args.editors,
        transactions,
        committed: tally.committed,
        failed: transactions - tally.committed,
        failures: tally.failures.into_values().collect(),
        version_before,
        version_after: document.version(),
        seconds: elapsed.as_secs_f64(),
        lock,
    };
    match args.json {
        true => output::print_json(&report)?,
        false => output::print(&report.to_string())?,
    }
    Ok(CommandOutcome::of(report.failed == 0))
}

/// How many requests a timeline has: those of the last transactions.
const RECORDED: usize = 1_000_000;

fn options(args: &RunArgs) -> StoreOptions {
    match &args.timeline {
        Some(_) => StoreOptions::new().timeline(RECORDED),
        None => StoreOptions::new(),
    }
}

fn run_editors(args: &RunArgs, store: &DataStore, operations: &[Operation]) -> (Tally, Duration) {
    let transactions = u64::from(args.editors) * u64::from(args.repeat);
    let bar = progress::transactions(transactions);
    let tally = Mutex::<Tally>::default();
    let begin = Barrier::new(args.editors as usize + 1);
    let began = thread::scope(|scope| {
        for nth in 1..=args.editors {
            let (bar, tally, begin) = (&bar, &tally, &begin);
            scope.spawn(move || {
                let name = format!("editor-{nth}");
                let editor = Editor::new(store.clone(), name.as_str());
                begin.wait();
                for _ in 0..args.repeat {
                    // The script is to run, however long the others take.
                    let options = AcquireOptions::new().no_timeout();
                    let result = editor
                        .transaction(operations.to_vec())
                        .options(options)
                        .commit();
                    let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
                    tally.count(&name, result.err());
                    bar.inc(1);
                }
            });
        }
        let began = Instant::now();
        begin.wait();
        began
    });
    let elapsed = began.elapsed();
    bar.finish_and_clear();
    let tally = tally.into_inner().unwrap_or_else(PoisonError::into_inner);
    (tally, elapsed)
}

impl Tally {
    fn count(&mut self, editor: &str, error: Option<TransactionError>) {
        let Some(error) = error else {
            self.committed += 1;
            return;
        };
        let failure = self.failures.entry(error.to_string());
        let failure = failure.or_insert_with(|| Failure {
            count: 0,
            editor: editor.to_owned(),
            error,
        });
        failure.count += 1;
    }
}

impl fmt::Display for RunOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}: version {} became {}",
            format::printable(&self.document),
            self.version_before,
            self.version_after
        )?;
        writeln!(
            f,
            "{} of {} in {:.3} s: {} committed, {} failed",
            format::count(self.transactions, "transaction"),
            format::count(self.editors, "editor"),
            self.seconds,
            self.committed,
            self.failed
        )?;
        for Failure {
            count,
            editor,
            error,
        } in &self.failures
        {
            let error = format::printable(error);
            let count = format::count(*count, "time");
            writeln!(f, "  failed {count}, first for {editor}: {error}")?;
        }
        writeln!(f, "\n{}", self.lock)
    }
}
