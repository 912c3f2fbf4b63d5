//! The file that keeps the document.

use std::fs;
use std::io::{IsTerminal, stderr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use doclock::durable::{CloseReport, DurabilityError, DurableOptions, OpenError, OpenProgress};
use doclock::{DataStore, Snapshot, View};
use serde::Serialize;

use crate::input::{self, BadInput};
use crate::kill::Killed;
use crate::reader;

/// An open that takes longer shows its progress.
const MOMENT: Duration = Duration::from_millis(200);

/// What happened to the file.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Stored {
    #[serde(skip)]
    pub path: PathBuf,
    pub opens: Vec<Opened>,
    pub killed: Option<Killed>,
    /// What the store has written until it was closed.
    pub closed: Option<CloseReport>,
    /// The version of the file after all, if it has the final document, or the error.
    #[serde(skip)]
    pub kept: Result<u64, String>,
}

/// What an open did.
#[derive(Clone, Copy, Default, Serialize)]
pub struct Opened {
    pub seconds: f64,
    /// The nodes that were loaded.
    pub nodes: usize,
    /// The later commits that were repeated.
    pub commits: usize,
}

impl Stored {
    /// Opens the file. It must not exist if the document for it is given.
    pub fn open(path: &Path, document_is_given: bool) -> Result<(DataStore, Self), BadInput> {
        if let Ok(metadata) = fs::metadata(path) {
            input::check_kind(path, &metadata)?;
        }
        let options = match document_is_given {
            true => DurableOptions::new().only_new(),
            false => DurableOptions::new(),
        };
        let (store, opened) = open(path, options).map_err(|error| match error {
            OpenError::Exists => BadInput::of(
                path,
                "the file exists already; without FILE.md and --trace, its document is edited further",
            ),
            error => BadInput::of(path, error),
        })?;
        if store.version() > 0 {
            check_document(&store.snapshot()).map_err(|reason| BadInput::of(path, reason))?;
        }
        let stored = Self {
            path: path.to_owned(),
            opens: vec![opened],
            killed: None,
            closed: None,
            kept: Err("it was not opened again".into()),
        };
        Ok((store, stored))
    }

    /// Opens the existing file again.
    pub fn reopen(&mut self) -> Result<DataStore, OpenError> {
        let (store, opened) = open(&self.path, DurableOptions::new().only_existing())?;
        self.opens.push(opened);
        Ok(store)
    }

    /// Opens the file after a session, and compares its document with the final one.
    pub fn open_again(
        &mut self,
        closed: Result<CloseReport, DurabilityError>,
        document: &Snapshot,
    ) {
        self.closed = closed.as_ref().ok().copied();
        let found = self.reopen().map(|store| store.snapshot());
        self.kept = match (closed, found) {
            (Err(error), _) => Err(error.to_string()),
            (_, Err(error)) => Err(error.to_string()),
            (Ok(_), Ok(found)) => same(&found, document).map(|()| found.version()),
        };
    }
}

/// Whether both are the same version of the same document.
pub fn same(found: &Snapshot, expected: &Snapshot) -> Result<(), String> {
    let (found_version, version) = (found.version(), expected.version());
    if found_version != version {
        return Err(format!(
            "the file has version {found_version} in place of version {version}"
        ));
    }
    match found == expected {
        true => Ok(()),
        false => Err(format!(
            "the file has another document as version {version}"
        )),
    }
}

/// The editors begin with one tree, whose root holds blocks.
fn check_document(document: &Snapshot) -> Result<(), String> {
    let reason = match reader::check_tree(document) {
        Err(reason) => reason,
        Ok(()) => {
            let root = document.root().and_then(|root| document.node(root));
            match root.map_or("", |root| root.kind()) {
                "document" => return Ok(()),
                kind => format!("the root is of type `{kind}`, not `document`"),
            }
        }
    };
    Err(format!("its document cannot be edited here: {reason}"))
}

/// Opens the file, and shows on a terminal how far that is.
fn open(path: &Path, options: DurableOptions) -> Result<(DataStore, Opened), OpenError> {
    let opened = Arc::new(Mutex::new(Opened::default()));
    let began = Instant::now();
    let options = options.progress({
        let opened = Arc::clone(&opened);
        move |reached| {
            opened
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .note(reached);
            if began.elapsed() > MOMENT {
                show(reached);
            }
        }
    });
    let result = DataStore::open_with(path, options);
    if began.elapsed() > MOMENT {
        replace_line("");
    }
    let mut opened = *opened.lock().unwrap_or_else(PoisonError::into_inner);
    opened.seconds = began.elapsed().as_secs_f64();
    Ok((result?, opened))
}

impl Opened {
    fn note(&mut self, reached: OpenProgress) {
        match reached {
            OpenProgress::Nodes(nodes) => self.nodes = nodes,
            OpenProgress::Commits(commits) => self.commits = commits,
            _ => {}
        }
    }
}

fn show(reached: OpenProgress) {
    let line = match reached {
        OpenProgress::Checking(part) => {
            format!("{} % of the file is checked", (100.0 * part) as u32)
        }
        OpenProgress::Nodes(nodes) => format!("{nodes} nodes are loaded"),
        OpenProgress::Commits(commits) => format!("{commits} commits are repeated"),
        _ => return,
    };
    replace_line(&line);
}

/// Writes a line in the place of the last one, if standard error is a terminal.
fn replace_line(line: &str) {
    if stderr().is_terminal() {
        eprint!("\r\x1b[K{line}");
    }
}
