//! A process of a document, as its parent sees it.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use rustix::process::{Pid, Signal, kill_process};

use crate::child::{self, With};
use crate::report::{End, Report};

/// A process, and what it has reported so far.
pub(crate) struct Process {
    pub(crate) number: u64,
    child: Child,
    reports: Arc<Mutex<Vec<Report>>>,
    reader: Option<JoinHandle<()>>,
}

impl Process {
    pub(crate) fn start(with: With, parameters: &str, document: &str, number: u64) -> Self {
        let with = format!("{with:?}");
        let program = std::env::current_exe().unwrap();
        let mut child = Command::new(program)
            .args([child::ARGUMENT, &with, parameters, document])
            .arg(number.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let reports = Arc::new(Mutex::new(Vec::new()));
        let read = Arc::clone(&reports);
        let reader = thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                // The last line of a killed process may be half a line.
                let Ok(report) = serde_json::from_str(&line) else {
                    break;
                };
                read.lock().unwrap().push(report);
            }
        });
        Self {
            number,
            child,
            reports,
            reader: Some(reader),
        }
    }

    /// The epoch that it owns or owned last, and how many of its transactions were committed in it.
    pub(crate) fn epoch(&self) -> Option<(u64, usize)> {
        let reports = self.reports.lock().unwrap();
        let owns = |report: &Report| match report {
            Report::Owns { epoch, .. } => Some(*epoch),
            _ => None,
        };
        let last = reports.iter().filter_map(owns).next_back()?;
        let is_of_it = |report: &&Report| match report {
            Report::Ended {
                end: End::Committed { token_epoch, .. },
                ..
            } => *token_epoch == last,
            _ => false,
        };
        Some((last, reports.iter().filter(is_of_it).count()))
    }

    /// The highest version that it has acknowledged.
    pub(crate) fn acknowledged(&self) -> u64 {
        let reports = self.reports.lock().unwrap();
        let versions = reports.iter().map(|report| match report {
            Report::Ended {
                end: End::Committed { version, .. },
                ..
            } => *version,
            _ => 0,
        });
        versions.max().unwrap_or(0)
    }

    /// Its last reports, to be shown.
    pub(crate) fn last(&self, count: usize) -> Vec<Report> {
        let reports = self.reports.lock().unwrap();
        reports[reports.len().saturating_sub(count)..].to_vec()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Kills the process, and returns all that it has reported.
    pub(crate) fn kill(mut self) -> Vec<Report> {
        self.child.kill().unwrap();
        self.reports()
    }

    /// Lets the process end, and returns all that it has reported.
    pub(crate) fn end(mut self) -> Vec<Report> {
        drop(self.child.stdin.take());
        self.reports()
    }

    fn reports(&mut self) -> Vec<Report> {
        self.child.wait().unwrap();
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        std::mem::take(&mut self.reports.lock().unwrap())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = (self.child.kill(), self.child.wait());
    }
}
