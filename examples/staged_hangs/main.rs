//! Programs that hang, and what the store reports of each one.
//!
//! ```text
//! cargo run --example staged_hangs -- [NAME]
//! ```
//!
//! The guide page "My editor hangs" leads from each symptom to its cause.

#[path = "../common/mod.rs"]
mod common;
mod hangs;

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use common::{complain, print_line};
use hangs::{Culprit, HANGS, Hang};

fn main() -> ExitCode {
    let name = std::env::args().nth(1);
    let chosen = HANGS
        .iter()
        .filter(|hang| name.as_ref().is_none_or(|name| name == hang.name));
    let chosen: Vec<_> = chosen.collect();
    if chosen.is_empty() {
        let names: Vec<_> = HANGS.iter().map(|hang| hang.name).collect();
        complain(format!("usage: staged_hangs [{}]", names.join("|")));
        return ExitCode::from(2);
    }
    match chosen.into_iter().try_for_each(show) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(error);
            ExitCode::FAILURE
        }
    }
}

/// Prints what the store reports while the program hangs.
fn show(hang: &Hang) -> Result<(), Box<dyn Error>> {
    print_line!("== {}: {}\n", hang.name, hang.symptom);
    hang.stage(&mut |store, culprits| {
        // Reports come when a hold or a wait has lasted for 50 ms.
        let reports = store.lock_reports().expect("the store has thresholds");
        while let Ok(report) = reports.recv_timeout(Duration::from_millis(200)) {
            print_line!("{report}\n");
        }
        print_line!("{}", store.diagnostics());
        for Culprit(line) in culprits {
            print_line!("\nThe cause is at {}\n", line.trim_end_matches(':'));
        }
    })
}
