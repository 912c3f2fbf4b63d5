//! Recorded editing histories.
//!
//! The format is that of the public collection `editing-traces`:
//! `{"startContent": …, "endContent": …, "txns": […]}`, where a transaction is
//! `{"patches": [[position, deleted, inserted], …]}`. Positions and lengths count characters.

use std::ffi::OsStr;
use std::path::Path;

use doclock::dsl::{control, delete_text_range, insert_text, replace_text};
use doclock::transaction::{NodeOperation, Operation};
use flate2::read::MultiGzDecoder;
use serde::Deserialize;
use serde::de::IgnoredAny;
use smol_str::SmolStr;

use crate::error::ToolError;
use crate::input;

/// A history of one text in which every patch is within its text.
pub(crate) struct RecordedHistory {
    pub(crate) start: SmolStr,
    pub(crate) end: String,
    transactions: Vec<Vec<Patch>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", expecting = "a recorded history")]
struct HistoryFile {
    start_content: SmolStr,
    end_content: String,
    txns: Vec<HistoryTransaction>,
}

#[derive(Deserialize)]
#[serde(expecting = "a transaction with `patches`")]
struct HistoryTransaction {
    patches: Vec<Patch>,
    /// In concurrent histories: the parents of the transaction, and its author.
    parents: Option<IgnoredAny>,
    agent: Option<IgnoredAny>,
}

/// The position, the number of deleted characters, and the inserted text.
#[derive(Deserialize)]
struct Patch(usize, usize, SmolStr);

impl RecordedHistory {
    pub(crate) fn load(path: &Path) -> Result<Self, ToolError> {
        let bytes = input::bytes(path, input::DATA)?;
        let json = match path.extension() == Some(OsStr::new("gz")) {
            true => unpacked(&bytes),
            false => Ok(bytes),
        };
        let history = json.and_then(|json| Self::parse(&json));
        history.map_err(|reason| ToolError::input(path, reason))
    }

    fn parse(json: &[u8]) -> Result<Self, String> {
        let json = input::without_byte_order_mark(json);
        let stored: HistoryFile = serde_json::from_slice(json)
            .map_err(|error| format!("is no recorded history: {error}"))?;
        let is_concurrent = |it: &HistoryTransaction| it.parents.is_some() || it.agent.is_some();
        if stored.txns.iter().any(is_concurrent) {
            return Err(
                "is a concurrent history, with parents and agents; only sequential ones can be \
                 replayed"
                    .to_owned(),
            );
        }
        let transactions = stored.txns.into_iter().map(|it| it.patches);
        let history = Self {
            start: stored.start_content,
            end: stored.end_content,
            transactions: transactions.collect(),
        };
        history.check_ranges()?;
        Ok(history)
    }

    fn check_ranges(&self) -> Result<(), String> {
        let mut len = self.start.chars().count();
        for (nth, patches) in self.transactions.iter().enumerate() {
            for Patch(at, removed, inserted) in patches {
                let end = at.checked_add(*removed).filter(|end| *end <= len);
                if end.is_none() {
                    return Err(format!(
                        "is no sound history: transaction {nth} replaces {removed} characters at \
                         {at} of a text that has {len}"
                    ));
                }
                len = len - removed + inserted.chars().count();
            }
        }
        Ok(())
    }

    /// The number of transactions.
    pub(crate) fn len(&self) -> usize {
        self.transactions.len()
    }

    /// The transactions, as operations on a node.
    pub(crate) fn batches<'a>(&'a self, id: &'a str) -> impl Iterator<Item = Operation> + 'a {
        let batches = self.transactions.iter();
        batches.map(move |patches| control(id, patches.iter().map(Patch::operation)))
    }
}

impl Patch {
    fn operation(&self) -> NodeOperation {
        let Self(at, removed, inserted) = self;
        let (at, removed, inserted) = (*at, *removed, inserted.clone());
        match (removed, inserted.is_empty()) {
            (0, _) => insert_text(at, inserted),
            (_, true) => delete_text_range(at, at + removed),
            (_, false) => replace_text(at, at + removed, inserted),
        }
    }
}

fn unpacked(bytes: &[u8]) -> Result<Vec<u8>, String> {
    match input::limited(MultiGzDecoder::new(bytes), input::DATA) {
        Ok(Some(json)) => Ok(json),
        Ok(None) => Err(format!("unpacks to more than {} MiB", input::DATA >> 20)),
        Err(error) => Err(format!("is not sound gzip data: {error}")),
    }
}
