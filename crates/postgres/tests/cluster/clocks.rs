//! Processes whose wall clocks are wrong by an hour, and jump.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, SystemTime};

use crate::failures::{acknowledged, signal, start_owner, take_over};
use crate::support::{acquire, connect, name, parameters, until};

/// How far the clocks are off, in seconds.
const HOUR: i64 = 60 * 60;

/// A process that owns a document, ends with this value, and has a wall clock of its own.
struct Clocked {
    child: Child,
    folder: tempfile::TempDir,
}

impl Drop for Clocked {
    fn drop(&mut self) {
        let _ = (self.child.kill(), self.child.wait());
    }
}

impl Clocked {
    /// Starts a process whose clock is off by so many seconds. `None` where nothing can do that.
    fn start(document: &str, off: i64) -> Option<(Self, impl Iterator<Item = String> + use<>)> {
        let Some(library) = library() else {
            let required = std::env::var_os("DOCLOCK_CLUSTER_REQUIRED").is_some();
            assert!(!required, "there is no libfaketime");
            println!("skipped: there is no libfaketime");
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("clock");
        set(&file, off);
        // Without the program `faketime`, so that the process is a child of this one.
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .env("LD_PRELOAD", library)
            .env("FAKETIME_TIMESTAMP_FILE", &file)
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            .env("DONT_FAKE_MONOTONIC", "1");
        let (child, lines) = start_owner(&mut command, document);
        Some((Self { child, folder }, lines))
    }

    fn set(&self, off: i64) {
        set(&self.folder.path().join("clock"), off);
    }
}

/// The library of Debian's package libfaketime, in the folder of the machine's architecture.
fn library() -> Option<PathBuf> {
    let folders = fs::read_dir("/usr/lib").ok()?.map_while(Result::ok);
    let mut files = folders.map(|folder| folder.path().join("faketime/libfaketimeMT.so.1"));
    files.find(|file| file.exists())
}

fn set(file: &Path, off: i64) {
    // Never half a line for the process that reads it.
    let new = file.with_extension("new");
    fs::write(&new, format!("{off:+}\n")).unwrap();
    fs::rename(new, file).unwrap();
}

/// How far the clock that a process has printed is off, in seconds.
fn off(line: &str) -> Option<i64> {
    let clock: i64 = line.strip_prefix("clock ")?.parse().ok()?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    Some(clock - now.unwrap().as_secs().cast_signed())
}

#[test]
fn cluster_05_an_owner_whose_clock_jumps_by_an_hour_keeps_its_term() {
    let Some(parameters) = parameters() else {
        return;
    };
    let document = name("jumps");
    let Some((process, mut lines)) = Clocked::start(&document, 0) else {
        return;
    };
    let server = connect(&parameters);
    for jump in [0, HOUR, -HOUR, 0] {
        process.set(jump);
        let is_so = |line: &String| off(line).is_some_and(|off| (off - jump).abs() < 100);
        assert!(lines.any(|line| is_so(&line)), "the clock has not jumped");
        // Three terms, all of one owner.
        let began = std::time::Instant::now();
        while began.elapsed() < Duration::from_millis(1800) {
            let line = lines.next().unwrap();
            assert!(!line.starts_with("ended"), "{jump}: {line}");
        }
    }
    let refused = server.try_acquire(&document, crate::support::short("next"));
    assert!(refused.is_err());
    drop(process);
    take_over(&server, &document);
}

#[test]
fn cluster_05_an_owner_whose_clock_is_set_back_during_a_pause_is_refused() {
    let Some(parameters) = parameters() else {
        return;
    };
    let document = name("set back");
    let Some((mut process, mut lines)) = Clocked::start(&document, 0) else {
        return;
    };
    let server = connect(&parameters);
    assert!(
        lines
            .by_ref()
            .filter_map(|line| acknowledged(&line))
            .nth(20)
            .is_some()
    );
    signal(&process.child, "-STOP");
    process.set(-HOUR);
    let version = take_over(&server, &document);
    signal(&process.child, "-CONT");
    let rest: Vec<_> = lines.collect();
    process.child.wait().unwrap();
    assert!(
        rest.iter().any(|line| line.starts_with("ended")),
        "{rest:?}"
    );
    let acknowledged = rest.iter().filter_map(|line| acknowledged(line)).max();
    assert!(acknowledged.unwrap_or(0) <= version, "{acknowledged:?}");
}

#[test]
fn cluster_05_a_process_whose_clock_is_ahead_takes_no_term_that_lasts() {
    let Some(parameters) = parameters() else {
        return;
    };
    let document = name("ahead");
    let server = connect(&parameters);
    let (term, _journal) = acquire(&server, &document, "ann");
    let Some((_process, mut lines)) = Clocked::start(&document, HOUR) else {
        return;
    };
    let mut renewals = 0;
    until("three terms have passed", || {
        let events = term.events().try_iter();
        renewals += events
            .filter(|event| matches!(event, doclock_postgres::OwnerEvent::Renewed { .. }))
            .count();
        assert!(term.is_owner(), "{:?}", term.lost());
        renewals >= 12
    });
    term.hand_over().unwrap();
    let first = lines.find_map(|line| off(&line)).unwrap();
    assert!((first - HOUR).abs() < 100, "{first}");
}
