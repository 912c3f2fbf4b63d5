//! What the results of a run depend on besides the code. No names of hosts, no paths.

use std::fs;
use std::process::Command;
use std::thread;

use serde::{Deserialize, Serialize};

/// The machine and the version of a run.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The model of the processor.
    pub processor: Option<String>,
    pub cores: Option<usize>,
    pub memory_gib: Option<u64>,
    pub system: String,
    pub rustc: String,
    /// The commit, with `+` if files were changed since.
    pub commit: Option<String>,
    /// The day, in UTC.
    pub date: Option<String>,
    /// The rounds that were asked for; `None` for the defaults of the suites.
    pub rounds: Option<usize>,
}

impl Machine {
    pub fn found(rounds: Option<usize>) -> Self {
        Self {
            processor: entry("/proc/cpuinfo", "model name"),
            cores: thread::available_parallelism().ok().map(usize::from),
            memory_gib: entry("/proc/meminfo", "MemTotal").and_then(|size| {
                let kibibytes: u64 = size.split(' ').next()?.parse().ok()?;
                Some((kibibytes + (1 << 19)) >> 20)
            }),
            system: std::env::consts::OS.into(),
            rustc: env!("BENCH_RUSTC").into(),
            commit: commit(),
            date: output("date", &["-u", "+%F"]),
            rounds,
        }
    }
}

/// The first value of a key in a file of the system.
fn entry(file: &str, key: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let mut values = text.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = values.find(|(name, _)| name.trim() == key)?;
    Some(value.trim().to_owned())
}

fn commit() -> Option<String> {
    const FOLDER: &str = env!("CARGO_MANIFEST_DIR");
    let commit = output("git", &["-C", FOLDER, "rev-parse", "--short=10", "HEAD"])?;
    let changed = output("git", &["-C", FOLDER, "status", "--porcelain", "-uno"]);
    Some(commit + if changed.is_some() { "+" } else { "" })
}

/// What a program prints, if it is anything.
fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let text = text.trim();
    (output.status.success() && !text.is_empty()).then(|| text.to_owned())
}
