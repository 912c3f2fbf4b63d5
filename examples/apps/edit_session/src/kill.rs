//! Editors in a process of their own, which is killed.
//!
//! The process notes each commit in a pipe before its journal writes it, and each acknowledgement
//! after the call has returned. So the notes have every commit that the file can have.

use std::collections::VecDeque;
use std::env;
use std::error::Error;
use std::io::{BufRead, BufReader};
use std::process::{self, Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;

use doclock::document::Changes;
use doclock::durable::{
    DurableOptions, Journal, JournalError, JournalErrorKind, JournalWrite, RedbJournal, StoredPart,
};
use doclock::{DataStore, Snapshot};
use serde::{Deserialize, Serialize};

use crate::args::{Options, Work};
use crate::common::{complain, print_line};
use crate::replica::Replica;
use crate::session::Ended;
use crate::stored::{self, Stored};
use crate::{editors, reader};

/// The first argument of the process that is killed.
pub const CHILD: &str = "child-that-is-killed";

/// A line of the pipe.
#[derive(Serialize, Deserialize)]
enum Note {
    Published { version: u64, changes: Changes },
    Acknowledged { version: u64 },
}

impl Note {
    fn print(&self) {
        match serde_json::to_string(self) {
            Ok(line) => print_line!("{line}"),
            Err(error) => fail(error),
        }
    }
}

fn fail(reason: impl std::fmt::Display) -> ! {
    complain(format_args!("edit_session: {reason}"));
    process::exit(1)
}

/// What the file had after the kill.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Killed {
    /// The number of acknowledged commits.
    pub acknowledged: u64,
    /// The last version that was acknowledged.
    pub acknowledged_version: u64,
    /// The last version that was published.
    pub published_version: u64,
    /// The version of the file.
    pub version: u64,
}

// --- The process that is killed ---

/// Edits the document until the process is killed or a transaction fails unexpectedly.
pub fn edit(options: &Options) -> Result<(), Box<dyn Error>> {
    let (Some(path), Work::Markdown { seed, .. }) = (&options.store, &options.work) else {
        return Err("the process that is killed needs --store".into());
    };
    let (noted, notes) = mpsc::channel();
    let journal = NotedFirst {
        journal: RedbJournal::open(path, |_| {})?,
        notes,
        noted: 0,
    };
    let store = DataStore::open_journal(journal, DurableOptions::new())?;
    let events = store.subscription().lossless(1 << 20).all();
    thread::spawn(move || {
        for event in &events {
            let version = event.commit.version;
            let changes = event.commit.changes.clone();
            Note::Published { version, changes }.print();
            // The journal receives it, unless it has failed.
            let _ = noted.send(version);
        }
    });
    let nodes = store.snapshot().len();
    let ended: &Ended<'_> = &|version| {
        if let Some(version) = version {
            Note::Acknowledged { version }.print();
        }
    };
    thread::scope(|scope| {
        for worker in editors::workers(options.editors, usize::MAX, *seed, nodes) {
            let store = &store;
            scope.spawn(move || {
                let tally = worker(store, ended);
                fail(tally.surprise.unwrap_or_default())
            });
        }
    });
    Ok(())
}

/// A journal that writes a commit only after its note.
struct NotedFirst {
    journal: RedbJournal,
    notes: Receiver<u64>,
    noted: u64,
}

impl Journal for NotedFirst {
    fn load(
        &mut self,
        part: &mut dyn FnMut(StoredPart<'_>) -> Result<(), JournalError>,
    ) -> Result<(), JournalError> {
        self.journal.load(part)
    }

    fn write(&mut self, write: &JournalWrite) -> Result<(), JournalError> {
        while write.block.is_some() && self.noted < write.version {
            let noted = self.notes.recv();
            self.noted = noted.map_err(|error| JournalError::new(JournalErrorKind::Io, error))?;
        }
        self.journal.write(write)
    }
}

// --- The process that kills ---

/// Lets another process edit the document, kills it after so many acknowledged commits, opens the
/// file again, and checks its document.
pub fn kill(
    stored: &mut Stored,
    store: DataStore,
    options: &Options,
    seed: u64,
    after: u64,
) -> Result<DataStore, Box<dyn Error>> {
    let mut log = Log::of(store.snapshot())?;
    store.close()?;
    drop(store);
    let mut child = Command::new(env::current_exe()?)
        .arg(CHILD)
        .arg("--store")
        .arg(&stored.path)
        .args(["--editors", &options.editors.to_string()])
        .args(["--seed", &seed.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let read = log.read(&mut child, after);
    // Also after an error. It fails if the process has ended.
    let _ = child.kill();
    let status = child.wait()?;
    read?;
    let Killed { acknowledged, .. } = log.killed;
    if acknowledged < after {
        let reason = format!(
            "the editing process ended by itself after {acknowledged} acknowledged commits: {status}"
        );
        return Err(reason.into());
    }
    let path = stored.path.display().to_string();
    let failed =
        |reason| format!("{path}: after {acknowledged} acknowledged commits and a kill, {reason}");
    let reopened = stored.reopen();
    let store = reopened.map_err(|error| failed(format!("the file cannot be opened: {error}")))?;
    stored.killed = Some(log.check(&store.snapshot()).map_err(failed)?);
    Ok(store)
}

/// What the pipe has told.
struct Log {
    /// The document of the last version that was acknowledged.
    replica: Replica,
    /// The commits after it.
    later: VecDeque<(u64, Changes)>,
    killed: Killed,
}

impl Log {
    fn of(document: Snapshot) -> Result<Self, Box<dyn Error>> {
        let version = document.version();
        Ok(Self {
            replica: Replica::of(document)?,
            later: VecDeque::new(),
            killed: Killed {
                acknowledged: 0,
                acknowledged_version: version,
                published_version: version,
                version,
            },
        })
    }

    /// Reads all notes, and kills the process after so many acknowledgements.
    fn read(&mut self, child: &mut Child, kill_after: u64) -> Result<(), Box<dyn Error>> {
        let mut lines = BufReader::new(child.stdout.take().ok_or("there is no pipe")?);
        let mut line = String::new();
        // The kill can cut the last line.
        while lines.read_line(&mut line)? > 0 && line.ends_with('\n') {
            let note = serde_json::from_str(&line)?;
            line.clear();
            if let Note::Acknowledged { .. } = note {
                self.killed.acknowledged += 1;
                if self.killed.acknowledged == kill_after {
                    child.kill()?;
                }
            }
            self.note(note)?;
        }
        Ok(())
    }

    fn note(&mut self, note: Note) -> Result<(), String> {
        match note {
            Note::Published { version, changes } => {
                self.later.push_back((version, changes));
                self.killed.published_version = version;
                Ok(())
            }
            Note::Acknowledged { version } => {
                let last = &mut self.killed.acknowledged_version;
                *last = version.max(*last);
                self.advance(version)
            }
        }
    }

    /// Repeats the commits up to a version.
    fn advance(&mut self, version: u64) -> Result<(), String> {
        while let Some((next, changes)) = self.later.front()
            && *next <= version
        {
            self.replica.repeat(*next, changes)?;
            self.later.pop_front();
        }
        Ok(())
    }

    /// Whether the document has all acknowledged commits, and is what its commits give.
    fn check(mut self, found: &Snapshot) -> Result<Killed, String> {
        let Killed {
            acknowledged_version,
            ..
        } = self.killed;
        let version = found.version();
        if version < acknowledged_version {
            return Err(format!(
                "version {acknowledged_version} was acknowledged, but the file has version {version}"
            ));
        }
        self.advance(version)?;
        stored::same(found, &self.replica.document())?;
        reader::check_tree(found)?;
        Ok(Killed {
            version,
            ..self.killed
        })
    }
}
