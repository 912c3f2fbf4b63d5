//! What can still be read of a damaged file.

use std::collections::hash_map::Entry::Vacant;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use doclock_common::pages::{Commit, Image, PageEntry};
use serde::Serialize;

use super::backup::content;
use super::format::{
    EntryKind, LARGEST_EPOCH, LogBlock, StoredHead, decode, entry, node_key, note_key,
};
use super::open::guarded;
use super::redb::{RedbReader, TABLES, create_with, find};
use super::replay::{LoadedParts, TOKENS_OF_AN_OPEN, check_receipt};
use super::{OpenError, StoredPart};
use crate::document::{MissingNodes, Node, Snapshot, Tokens, View};
use crate::id::NodeId;
use crate::store::notes::{Note, NoteKey};

/// What can still be read of a damaged file: the document of one version, or a marked part of it,
/// with receipts, marks of inboxes and leases.
///
/// A file that is not damaged is read as [`DurableFile`](super::DurableFile) reads it. Otherwise
/// each page is read by itself, through the checksums of redb: those of its last commit, of the one
/// before, and of earlier ones that are still in the file. The one with the fewest losses is taken.
/// The later commits of the log are repeated, up to the first that is missing. If the log begins
/// with version 1, the document can be made of the log alone.
///
/// The file is only read. Bytes that the disk does not return count as damaged.
///
/// The page [when the file is damaged](crate::guide::damaged) says what to expect.
///
/// ```
/// use doclock::{DataStore, TransactionManager, View, dsl::*, durable::SalvagedFile};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("notes.doclock");
/// let store = DataStore::open(&path)?;
/// let manager = TransactionManager::new(store.clone());
/// manager.execute(create(text_node("paragraph", "Hello").with_id("p")))?;
/// store.close()?;
/// // The disk loses the beginning of the file.
/// let mut bytes = std::fs::read(&path)?;
/// bytes[..4096].fill(0);
/// std::fs::write(&path, bytes)?;
/// assert!(DataStore::open(&path).is_err());
///
/// let salvaged = SalvagedFile::read(&path)?;
/// assert!(salvaged.report().is_whole);
/// let path = folder.path().join("salvaged.doclock");
/// salvaged.save_to(&path)?;
/// let store = DataStore::open(&path)?;
/// assert_eq!(store.snapshot().node("p").unwrap().text(), &"Hello");
/// # drop(manager);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[cfg_attr(docsrs, doc(cfg(feature = "redb")))]
#[derive(Clone)]
pub struct SalvagedFile {
    head: StoredHead,
    document: Snapshot,
    notes: HashMap<NoteKey, Note>,
    report: SalvageReport,
}

/// What a [`SalvagedFile`] has, and what is missing.
#[cfg_attr(docsrs, doc(cfg(feature = "redb")))]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SalvageReport {
    /// Whether the document of this version is whole, with everything beside it, and there is no
    /// trace of a later version.
    pub is_whole: bool,
    /// The version of the document.
    pub version: u64,
    /// The last version of which the file has a trace.
    pub last_version: u64,
    /// The number of nodes of the document.
    pub nodes: usize,
    /// Nodes that others name as child or parent, and that are missing.
    pub missing_nodes: Vec<NodeId>,
    /// Nodes whose parents are missing. They have no parent now.
    pub detached_nodes: Vec<NodeId>,
    /// Nodes that are as some version had them, which may be an earlier one: their own checksums
    /// are right, and the checksum of a page is wrong that would show of which version they are.
    pub doubtful_nodes: Vec<NodeId>,
    /// The number of receipts, marks and leases that are as some version had them, in the same way.
    pub doubtful_notes: usize,
    /// The number of entries of the checkpoint that cannot be read: nodes, receipts, marks and
    /// leases.
    pub missing_entries: u64,
    /// The number of blocks of the log that cannot be read or not be repeated. Each has the commits
    /// of one write.
    pub missing_blocks: u64,
    /// The number of receipts of idempotency keys.
    pub receipts: usize,
    /// The number of marks and dead letters of inboxes.
    pub inbox_marks: usize,
    /// The number of leases, also of those that have ended.
    pub leases: usize,
    /// The number of bytes that the disk did not return.
    pub unreadable_bytes: u64,
}

impl SalvagedFile {
    /// Reads what can be read of a file.
    ///
    /// Blocks until the file is read. It takes as much memory as the file has bytes, beside that of
    /// the document.
    ///
    /// # Errors
    ///
    /// [`OpenError`]: [`Locked`](OpenError::Locked) if a program has the file open, and
    /// [`Corrupt`](OpenError::Corrupt) or [`Foreign`](OpenError::Foreign) if nothing of a document
    /// is found.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        let path = path.as_ref();
        find(path)?;
        let refused = match guarded(Arc::new(|_| {}), |_| Self::undamaged(path)) {
            Err(error @ (OpenError::Corrupt(_) | OpenError::Foreign | OpenError::Journal(_))) => {
                error
            }
            done => return done,
        };
        let image = Image::read(path)?;
        let salvaged = guarded(Arc::new(|_| {}), |_| Ok(Self::damaged(&image)));
        salvaged?.ok_or(refused)
    }

    fn undamaged(path: &Path) -> Result<Self, OpenError> {
        let reader = RedbReader::open(path, |_| {})?;
        if matches!(reader, RedbReader::Beside(_)) {
            return Err(OpenError::Locked);
        }
        let mut loaded = LoadedParts::read(0, &|_| {}, |part| reader.load(part))?;
        let (head, checkpoint) = loaded.assemble(Snapshot::default())?;
        let stored = loaded.replay(head, checkpoint, &|_| {})?;
        let version = stored.document.version();
        let report = SalvageReport {
            is_whole: true,
            version,
            last_version: version,
            ..SalvageReport::default()
        };
        Ok(Self::new(
            stored.head,
            stored.tokens,
            stored.document,
            stored.notes,
            report,
        ))
    }

    /// The best of what the commits of redb have.
    fn damaged(image: &Image) -> Option<Self> {
        /// So many commits are read whole.
        const TRIED: usize = 8;
        let mut found: Vec<SalvagedCommit<'_>> = image
            .commits(TABLES)
            .into_iter()
            .filter_map(|commit| SalvagedCommit::read(image, commit))
            .collect();
        // Those of the header stay before others of the same version.
        found.sort_by_key(|remains| std::cmp::Reverse(remains.last_version));
        let heads = found.iter().filter_map(|remains| remains.head.as_ref());
        let newest = heads.clone().max_by_key(|head| head.document.version);
        let opens = heads.clone().map(|head| head.opens).max();
        let newest = match newest {
            Some(head) => head.clone(),
            // As for a new document.
            None => LoadedParts::default().assemble(Snapshot::default()).ok()?.0,
        };
        found.truncate(TRIED);
        let last_version = found.iter().map(|remains| remains.last_version).max()?;
        let rebuilt = found.iter().flat_map(|remains| {
            let of_checkpoint = remains.rebuild(&newest);
            let is_whole = matches!(&of_checkpoint, Some(it) if it.lost(last_version) == 0);
            let of_log = if is_whole {
                None
            } else {
                remains.rebuild_from_log(&newest)
            };
            of_checkpoint.into_iter().chain(of_log)
        });
        let best = rebuilt.min_by_key(|it| (it.lost(last_version), it.missing_entries))?;
        let mut salvaged = best.finish(last_version)?;
        salvaged.report.unreadable_bytes = image.unreadable;
        let of_tokens = salvaged.head.document.tokens.largest() >> TOKENS_OF_AN_OPEN;
        let opens = opens.max(Some(of_tokens))?.saturating_add(LOST_OPENS);
        salvaged.head.opens = opens.min(LARGEST_EPOCH - 1);
        Some(salvaged)
    }

    fn new(
        mut head: StoredHead,
        tokens: Tokens,
        document: Snapshot,
        notes: HashMap<NoteKey, Note>,
        mut report: SalvageReport,
    ) -> Self {
        let session = head.document.session;
        head.document = document.head();
        (head.document.tokens, head.document.session) = (tokens, session);
        // The new file has no blocks.
        (head.next_block, head.last_block) = (1, None);
        report.nodes = document.len();
        for note in notes.values() {
            *match note {
                Note::Receipt(_) => &mut report.receipts,
                Note::Event(_) | Note::Watermark(_) => &mut report.inbox_marks,
                Note::Lease(_) => &mut report.leases,
            } += 1;
        }
        Self {
            head,
            document,
            notes,
            report,
        }
    }

    /// Returns the document.
    pub fn document(&self) -> &Snapshot {
        &self.document
    }

    /// Returns what there is and what is missing.
    pub fn report(&self) -> &SalvageReport {
        &self.report
    }

    /// Writes everything to a new file, which [`DataStore::open`](crate::DataStore::open)
    /// continues.
    ///
    /// Numbers of opens are left out, so that the sessions, lock ids and fencing tokens of the last
    /// opens do not return, even if the file has no trace of them.
    ///
    /// Blocks until the file is durable.
    ///
    /// # Errors
    ///
    /// [`OpenError`]: [`Exists`](OpenError::Exists), if there is anything at the path, and errors
    /// of the disk. Nothing is at the path then.
    pub fn save_to(&self, path: impl AsRef<Path>) -> Result<(), OpenError> {
        let notes = self.notes.iter();
        let notes = notes.map(|(key, note)| entry(note_key(key)?, Some(note)));
        let content = content(&self.head, &self.document, notes)?;
        // As the open will do.
        let mut loaded = LoadedParts::read(0, &|_| {}, |part| {
            content.entries.iter().try_for_each(|(key, bytes)| {
                let bytes = bytes.as_deref().unwrap_or_default();
                part(StoredPart::Entry { key, bytes })
            })
        })?;
        let (head, checkpoint) = loaded.assemble(Snapshot::default())?;
        loaded.replay(head, checkpoint, &|_| {})?;
        create_with(path.as_ref(), &content)
    }
}

impl fmt::Debug for SalvagedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SalvagedFile")
            .field("report", &self.report)
            .finish_non_exhaustive()
    }
}

/// So many opens may be lost with their heads. Their tokens must not return.
const LOST_OPENS: u64 = 256;

/// What can be read of a commit of redb.
struct SalvagedCommit<'a> {
    head: Option<StoredHead>,
    /// Whether the head is that of this commit, so its version is that of the nodes.
    head_is_proven: bool,
    /// Nodes and notes; those that are proven first.
    entries: Vec<PageEntry<'a>>,
    missing_entries: u64,
    /// The blocks by their numbers.
    blocks: Vec<(u64, &'a [u8])>,
    missing_blocks: u64,
    /// The last version of which there is a trace.
    last_version: u64,
}

impl<'a> SalvagedCommit<'a> {
    /// Reads the tables of a commit. `None` if nothing of them can be read.
    fn read(image: &'a Image, commit: Commit) -> Option<Self> {
        let (mut head, mut head_is_proven) = (None::<StoredHead>, false);
        let mut entries = Vec::new();
        let is_whole = image.entries(&commit.entries, |entry| {
            match std::str::from_utf8(entry.key).ok().and_then(EntryKind::of) {
                Some(EntryKind::Head) if !head_is_proven => {
                    if let Ok(found) = decode(entry.value) {
                        (head, head_is_proven) = (Some(found), entry.is_proven);
                    }
                }
                Some(EntryKind::Node | EntryKind::Note) => entries.push(entry),
                _ => {}
            }
        });
        entries.sort_by_key(|entry| !entry.is_proven);
        // A page of another commit may have entries that are elsewhere now.
        let mut keys = HashSet::new();
        entries.retain(|entry: &PageEntry<'_>| keys.insert(entry.key));
        let mut blocks = Vec::new();
        let blocks_are_whole = image.entries(&commit.blocks, |entry| {
            let number = entry.key.try_into().map(u64::from_le_bytes);
            if let (true, Ok(number)) = (entry.is_proven, number) {
                blocks.push((number, entry.value));
            }
        });
        blocks.sort_unstable();
        if head.is_none() && entries.is_empty() && blocks.is_empty() {
            return None;
        }
        let in_log = blocks.iter().rev().find_map(|(_, block)| {
            let block: LogBlock = decode(block).ok()?;
            block.commits.last().map(|commit| commit.version)
        });
        let in_head = head.as_ref().map(|head| head.document.version);
        // A wrong length is one in a list of tables whose own checksum is not known.
        let missing = |len: u64, found: usize, is_whole: bool| match is_whole {
            true => 0,
            false if len > image.len() as u64 => 1,
            false => len.saturating_sub(found as u64),
        };
        let found = entries.len() + usize::from(head.is_some());
        Some(Self {
            head,
            head_is_proven,
            missing_entries: missing(commit.entries.len, found, is_whole),
            missing_blocks: missing(commit.blocks.len, blocks.len(), blocks_are_whole),
            entries,
            blocks,
            last_version: in_log.max(in_head).unwrap_or_default(),
        })
    }

    /// The checkpoint, with the commits after it. If it has no head, this one takes its place.
    fn rebuild(&self, other: &StoredHead) -> Option<Rebuilt> {
        let head = self.head.as_ref().unwrap_or(other);
        let (mut nodes, mut notes) = (Vec::new(), HashMap::new());
        let (mut ids, mut doubtful, mut doubtful_notes) = (HashSet::new(), Vec::new(), 0);
        let mut missing_entries = self.missing_entries;
        for entry in &self.entries {
            let is_proven = entry.is_proven && self.head_is_proven;
            let is_read = match entry.key.starts_with(b"node/") {
                true => decode::<Node>(entry.value).is_ok_and(|node| {
                    let is_own = node_key(node.id()).as_bytes() == entry.key || !entry.is_proven;
                    if is_own && ids.insert(node.id().clone()) {
                        if !is_proven {
                            doubtful.push(node.id().clone());
                        }
                        nodes.push(node);
                    }
                    is_own
                }),
                false => decode::<Note>(entry.value).is_ok_and(|note| {
                    if let Vacant(place) = notes.entry(note.key()) {
                        doubtful_notes += usize::from(!is_proven);
                        place.insert(note);
                    }
                    true
                }),
            };
            missing_entries += u64::from(!is_read);
        }
        let (document, missing) = Snapshot::assemble_rest(head.document.clone(), nodes).ok()?;
        let rebuilt = Rebuilt {
            head: head.clone(),
            tokens: head.document.tokens,
            document,
            missing,
            doubtful,
            doubtful_notes,
            notes,
            missing_entries,
            missing_blocks: self.missing_blocks,
        };
        Some(rebuilt.repeat(&self.blocks, head.next_block))
    }

    /// The document of the log alone, if it is there from the first commit on.
    fn rebuild_from_log(&self, other: &StoredHead) -> Option<Rebuilt> {
        let head = self.head.as_ref().unwrap_or(other);
        let (number, first) = self.blocks.first()?;
        let first: LogBlock = decode(first).ok()?;
        // Before it there may be blocks without commits, which had notes.
        if *number != 1 && first.commits.first()?.version != 1 {
            return None;
        }
        let rebuilt = Rebuilt {
            head: head.clone(),
            tokens: head.document.tokens,
            document: Snapshot::default(),
            missing: MissingNodes::default(),
            doubtful: Vec::new(),
            doubtful_notes: 0,
            notes: HashMap::new(),
            missing_entries: 0,
            missing_blocks: self.missing_blocks,
        };
        Some(rebuilt.repeat(&self.blocks, *number))
    }
}

/// A document that was made of what is left.
struct Rebuilt {
    head: StoredHead,
    tokens: Tokens,
    document: Snapshot,
    missing: MissingNodes,
    doubtful: Vec<NodeId>,
    doubtful_notes: usize,
    notes: HashMap<NoteKey, Note>,
    missing_entries: u64,
    missing_blocks: u64,
}

impl Rebuilt {
    /// Repeats the blocks from this number on, up to the first that is missing, or that depends on
    /// something that is.
    fn repeat(mut self, blocks: &[(u64, &[u8])], first: u64) -> Self {
        let mut blocks = blocks.iter().filter(|(number, _)| *number >= first);
        let mut next = Some(first);
        while let Some((number, block)) = blocks.next() {
            let block = decode(block).ok().filter(|_| Some(*number) == next);
            if !block.is_some_and(|block| self.replay_block(&block)) {
                self.missing_blocks += 1 + blocks.count() as u64;
                return self;
            }
            next = number.checked_add(1);
        }
        self
    }

    /// Repeats a whole block, or nothing of it.
    fn replay_block(&mut self, block: &LogBlock) -> bool {
        let mut document = self.document.clone();
        for commit in &block.commits {
            let is_next = document.version().checked_add(1) == Some(commit.version);
            let repeated = is_next && {
                let repeated = document.repeat_rest(&commit.changes, &self.missing);
                repeated.is_ok_and(|repeated| repeated)
            };
            if !repeated {
                return false;
            }
        }
        self.document = document;
        block.note_in(&mut self.tokens, &mut self.notes);
        true
    }

    /// How many entries and commits are missing.
    fn lost(&self, last_version: u64) -> u64 {
        let commits = last_version.saturating_sub(self.document.version());
        let is_doubtful = self.doubtful_notes > 0 || !self.doubtful.is_empty();
        commits.saturating_add(self.missing_entries) + u64::from(is_doubtful)
    }

    fn finish(self, last_version: u64) -> Option<SalvagedFile> {
        let is_whole = self.lost(last_version) == 0 && self.missing_blocks == 0;
        let Self {
            head,
            mut tokens,
            document,
            missing,
            mut doubtful,
            doubtful_notes,
            mut notes,
            missing_entries,
            missing_blocks,
        } = self;
        let (document, detached_nodes) = document.without(&missing).ok()?;
        doubtful.retain(|id| document.contains(id));
        doubtful.sort_unstable();
        notes.retain(|_, note| check_receipt(note, document.version()).is_ok());
        tokens.raise(head.opens.min(LARGEST_EPOCH) << TOKENS_OF_AN_OPEN);
        let version = document.version();
        let report = SalvageReport {
            is_whole,
            version,
            last_version,
            missing_nodes: missing.ids(),
            detached_nodes,
            doubtful_nodes: doubtful,
            doubtful_notes,
            missing_entries,
            missing_blocks,
            ..SalvageReport::default()
        };
        Some(SalvagedFile::new(head, tokens, document, notes, report))
    }
}
