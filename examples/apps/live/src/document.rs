//! The document: one node with the whole text, in a file.

use std::path::Path;
use std::sync::Arc;

use doclock::document::{Change, OffsetError, Snapshot};
use doclock::durable::{DurableOptions, OpenError};
use doclock::events::MissingCommits;
use doclock::transaction::{TransactionError, TransactionResult};
use doclock::{
    DataStore, Draft, StoreOptions, TransactionManager, View, codes::CodedError, dsl::*,
};
use serde::Serialize;

use crate::protocol::Commit;
use crate::splice::{Splice, rebase};

/// The node of the text.
const TEXT: &str = "text";
/// The most characters of the text.
pub const MAX_TEXT: usize = 1_000_000;
/// Bytes of commits over which an edit can be rebased.
const KEPT: usize = 64 << 20;
/// More than there are kept commits, so each of them has its receipt.
const KEYS: usize = 200_000;

/// Why a document was not opened.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Create(#[from] TransactionError),
    #[error("there is a document without the text node {TEXT}: another program made it")]
    Foreign,
    #[error("the log of the document is not complete: {0}")]
    Log(#[from] MissingCommits),
    #[error("the log of the document cannot be replayed: {0}")]
    Replay(Box<dyn std::error::Error + Send + Sync>),
}

/// The options of a document: its log and its receipts.
pub fn options() -> DurableOptions {
    let store = StoreOptions::new().kept_commits(KEPT).remembered_keys(KEYS);
    DurableOptions::new().keep_log(KEPT).store(store)
}

/// Opens the document, or creates it.
pub fn open(path: &Path) -> Result<DataStore, DocumentError> {
    prepare(DataStore::open_with(path, options())?)
}

/// Makes the text node of a new document.
pub fn prepare(store: DataStore) -> Result<DataStore, DocumentError> {
    if store.version() == 0 {
        let node = create(text_node("text", "").with_id(TEXT));
        TransactionManager::for_owner(store.clone(), "live").execute(node)?;
    }
    match store.snapshot().contains(TEXT) {
        true => Ok(store),
        false => Err(DocumentError::Foreign),
    }
}

/// The text of a document that [`open`] has checked.
pub fn text_of(view: &impl View) -> String {
    view.text_of(TEXT)
        .map_or_else(|_| String::new(), Into::into)
}

/// The length of the text in UTF-16 units.
pub fn utf16_len(view: &impl View) -> usize {
    view.node(TEXT).map_or(0, |node| node.text().utf16_len())
}

/// What a file has, and what a replay of its log gives.
#[derive(Debug, Serialize)]
pub struct Report {
    pub version: u64,
    pub text: String,
    pub replayed: String,
    /// The keys of all commits that had one, in order, each after the name of its tab.
    pub keys: Vec<String>,
    /// The [`digest`] of the text of each version, from version 1 on.
    pub digests: Vec<u32>,
}

/// FNV-1a of the UTF-16 units of a text, which a tab computes of what it shows.
fn digest(text: &str) -> u32 {
    text.encode_utf16().fold(0x811c_9dc5, |digest, unit| {
        (digest ^ u32::from(unit)).wrapping_mul(0x0100_0193)
    })
}

/// Reads a document that no server has open, and replays its log from the beginning.
pub fn check(path: &Path) -> Result<Report, DocumentError> {
    report(&DataStore::open_with(path, options().only_existing())?)
}

/// Replays the log of a document from the beginning.
pub fn report(store: &DataStore) -> Result<Report, DocumentError> {
    let commits = store.commits_since(0)?;
    let copy = DataStore::new();
    let mut digests = Vec::new();
    for commit in &commits {
        apply(&copy, commit).map_err(DocumentError::Replay)?;
        digests.push(digest(&text_of(&copy.snapshot())));
    }
    let keys = commits
        .iter()
        .filter_map(|commit| commit.idempotency_key.as_deref());
    Ok(Report {
        version: store.version(),
        text: text_of(&store.snapshot()),
        replayed: text_of(&copy.snapshot()),
        keys: keys.map(str::to_owned).collect(),
        digests,
    })
}

/// A copy of a document, with its version.
pub fn replica(snapshot: Snapshot) -> DataStore {
    // A store without a schema accepts every document.
    StoreOptions::new()
        .document(snapshot)
        .expect("there is no schema")
}

/// Applies a commit to a replica.
pub fn apply(replica: &DataStore, commit: &TransactionResult) -> Result<(), Failure> {
    let mut transaction = replica.begin("replica")?;
    for change in &*commit.changes {
        transaction.apply(change.clone())?;
    }
    transaction.commit()?;
    Ok(())
}

/// A failure that no input of a tab causes, or an [`EditRefused`].
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Takes a transaction back over these commits, and returns them as a tab reads them.
///
/// The transaction must be at the version of the last of them, without changes of its own.
pub fn walk_back(
    transaction: &mut Draft,
    commits: &[Arc<TransactionResult>],
) -> Result<Vec<Commit>, Failure> {
    let mut walked = Vec::with_capacity(commits.len());
    for commit in commits.iter().rev() {
        let mut changes = Vec::with_capacity(commit.changes.len());
        for change in commit.changes.iter().rev() {
            transaction.apply(change.inverse())?;
            // The text before the change, in which its position counts.
            if let Change::SpliceText {
                at,
                removed,
                inserted,
                ..
            } = change
            {
                let at = transaction
                    .node(TEXT)
                    .ok_or("no text")?
                    .text()
                    .utf16_offset(*at)?;
                let removed = removed.encode_utf16().count();
                changes.push(Splice::new(at, removed, inserted.as_str()));
            }
        }
        changes.reverse();
        let key = commit
            .idempotency_key
            .as_deref()
            .and_then(|key| key.split_once('/'));
        walked.push(Commit {
            version: commit.version,
            tab: commit.owner.to_string(),
            key: key.map(|(_, key)| key.to_owned()),
            changes,
        });
    }
    walked.reverse();
    Ok(walked)
}

/// Why an edit was refused. The text is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditRefused {
    #[error("the edit cannot be rebased: {0}")]
    Base(MissingCommits),
    #[error("change {index} of the edit: {cause}")]
    Offset { index: usize, cause: OffsetError },
    #[error("change {index} of the edit begins before the end of the one before it")]
    Overlap { index: usize },
    #[error("the text would have {len} characters: the limit is {MAX_TEXT}")]
    Full { len: usize },
}

impl EditRefused {
    pub fn code(&self) -> &'static str {
        match self {
            Self::Base(cause) => cause.code(),
            Self::Offset { cause, .. } => cause.code(),
            Self::Overlap { .. } => "changesOverlap",
            Self::Full { .. } => "textFull",
        }
    }
}

/// Edits the text in a transaction. The changes count positions in the text of version `base`, and
/// are rebased over the commits since. An edit that `continues` stays with the text before it.
pub fn edit(
    store: &DataStore,
    on: &mut Draft,
    base: u64,
    continues: bool,
    mut changes: Vec<Splice>,
) -> Result<(), Failure> {
    // Under the lock, no further commit can come in between.
    let commits = store.commits_since(base).map_err(EditRefused::Base)?;
    let start = on.savepoint();
    let commits = walk_back(on, &commits)?;
    check_changes(on, &changes)?;
    on.rollback_to(start)?;
    for over in commits.iter().flat_map(|commit| &commit.changes) {
        changes = rebase(changes, over, continues);
    }
    // From the end on, so that each position counts in the text before the edit.
    for change in changes.into_iter().rev() {
        let text = on.node(TEXT).ok_or("no text")?.text();
        let range = text.scalar_range(change.at..change.at + change.removed)?;
        if !range.is_empty() || !change.inserted.is_empty() {
            on.replace_text(TEXT, range, change.inserted)?;
        }
    }
    match on.node(TEXT).map_or(0, |node| node.text().len()) {
        len if len > MAX_TEXT => Err(EditRefused::Full { len }.into()),
        _ => Ok(()),
    }
}

/// Checks that the changes are in order and fit the text that they were made for.
fn check_changes(view: &impl View, changes: &[Splice]) -> Result<(), EditRefused> {
    let mut end = 0;
    for (index, change) in changes.iter().enumerate() {
        if change.at < end {
            return Err(EditRefused::Overlap { index });
        }
        end = change.at.saturating_add(change.removed);
        let range = view
            .node(TEXT)
            .map(|node| node.text().scalar_range(change.at..end));
        if let Some(Err(cause)) = range {
            return Err(EditRefused::Offset { index, cause });
        }
    }
    Ok(())
}
