//! Recorded editing histories, replayed by several editors at once.
//!
//! The format is that of the public collection `editing-traces`:
//! `{"startContent": …, "endContent": …, "txns": […]}`, where a transaction is
//! `{"patches": [[position, deleted, inserted], …]}`.

use std::ffi::OsStr;
use std::path::Path;

use doclock::dsl::{control, element, text_node, transaction};
use doclock::{DataStore, Editor, NodeId, Snapshot, View, document::NodeSpec};
use flate2::read::MultiGzDecoder;
use serde::Deserialize;
use serde::de::IgnoredAny;
use smol_str::SmolStr;

use crate::input::{self, BadInput};
use crate::session::{Ended, Tally, Worker};
use crate::splice::Splice;
use crate::walk::TEXT;

/// A history of one text in which every patch is within its text.
pub struct Trace {
    start: SmolStr,
    end: String,
    transactions: Vec<Vec<Splice>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Recording {
    start_content: Option<SmolStr>,
    end_content: String,
    txns: Vec<Recorded>,
}

#[derive(Deserialize)]
struct Recorded {
    patches: Vec<Splice>,
    /// In concurrent histories: the parents of the transaction, and its author.
    parents: Option<IgnoredAny>,
    agent: Option<IgnoredAny>,
}

impl Trace {
    pub fn load(path: &Path) -> Result<Self, BadInput> {
        let bytes = input::bytes(path, input::TRACE)?;
        let json = match path.extension() == Some(OsStr::new("gz")) {
            true => unpacked(&bytes),
            false => Ok(bytes),
        };
        json.and_then(|json| Self::parse(&json))
            .map_err(|reason| BadInput::of(path, reason))
    }

    fn parse(json: &[u8]) -> Result<Self, String> {
        let recording: Recording =
            serde_json::from_slice(json).map_err(|error| format!("is not a trace: {error}"))?;
        let concurrent = |txn: &Recorded| txn.parents.is_some() || txn.agent.is_some();
        if recording.txns.iter().any(concurrent) {
            return Err(
                "is a concurrent trace, whose transactions have parents and agents to be \
                        merged; only sequential ones can be replayed"
                    .into(),
            );
        }
        let start = recording.start_content;
        let trace = Self {
            start: start.ok_or("is not a trace: missing field `startContent`")?,
            end: recording.end_content,
            transactions: recording.txns.into_iter().map(|txn| txn.patches).collect(),
        };
        trace.check_ranges()?;
        Ok(trace)
    }

    /// Tracks only the length of the text, which is enough to check that every patch is in range.
    fn check_ranges(&self) -> Result<(), String> {
        let mut len = self.start.chars().count();
        for (nth, patches) in self.transactions.iter().enumerate() {
            for Splice(at, removed, inserted) in patches {
                let kept = at
                    .checked_add(*removed)
                    .filter(|&end| end <= len)
                    .map(|_| len - removed);
                len = inserted.chars().count()
                    + kept.ok_or_else(|| {
                        format!(
                            "is not a sound trace: transaction {nth} replaces {removed} characters at {at} \
                             of a text that has {len}"
                        )
                    })?;
            }
        }
        Ok(())
    }

    /// How many transactions were recorded.
    pub fn transactions(&self) -> usize {
        self.transactions.len()
    }

    /// The bytes of the text at its start or its end, whichever is greater.
    pub fn size(&self) -> usize {
        self.start.len().max(self.end.len())
    }

    /// The recorded text at the end.
    pub fn end(&self) -> &str {
        &self.end
    }

    /// A document with a text of its own for every editor.
    pub fn document(&self, editors: usize) -> NodeSpec {
        let paragraph = |nth| {
            let text = text_node(TEXT, self.start.clone()).with_id(text_id(nth));
            element("paragraph", [text])
        };
        element("document", (0..editors).map(paragraph))
    }

    /// Editors that each replay the whole history.
    pub fn workers(&self, editors: usize) -> Vec<Worker<'_>> {
        let worker =
            |nth| -> Worker<'_> { Box::new(move |store, ended| self.replay(store, nth, ended)) };
        (0..editors).map(worker).collect()
    }

    fn replay(&self, store: &DataStore, nth: usize, ended: &Ended<'_>) -> Tally {
        let editor = Editor::new(store.clone(), format!("editor-{}", nth + 1));
        let text = text_id(nth);
        let mut tally = Tally::default();
        for patches in &self.transactions {
            let edits = control(&text, patches.iter().map(Splice::operation));
            match transaction(&editor, edits).commit() {
                Ok(result) => {
                    tally.committed += 1;
                    ended(Some(result.version));
                }
                Err(error) => {
                    // The later patches were recorded for another text.
                    tally.surprise(error);
                    break;
                }
            }
        }
        tally
    }

    /// How many of the first texts equal the recorded one.
    pub fn texts_as_recorded(&self, document: &Snapshot, editors: usize) -> usize {
        let as_recorded = |nth: &usize| {
            let node = document.node(text_id(*nth));
            node.is_some_and(|node| node.text() == self.end())
        };
        (0..editors).filter(as_recorded).count()
    }
}

fn text_id(nth: usize) -> NodeId {
    format!("text-{}", nth + 1).into()
}

fn unpacked(bytes: &[u8]) -> Result<Vec<u8>, String> {
    match input::read(MultiGzDecoder::new(bytes), input::TRACE) {
        Ok(Some(json)) => Ok(json),
        Ok(None) => Err(format!("unpacks to more than {} MiB", input::TRACE >> 20)),
        Err(error) => Err(format!("is not sound gzip data: {error}")),
    }
}
