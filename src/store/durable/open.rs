//! Opening a durable document: load the checkpoint, repeat the later commits, number the open in
//! the journal, continue as a store.

use std::sync::{Arc, OnceLock};

use super::format::{HEAD, StoredHead, entry, node_key};
use super::open_options::Progress;
use super::replay::{LoadedParts, StoredDocument, TOKENS_OF_AN_OPEN};
use super::unloaded::BeforeLoad;
use super::writer::WriterStart;
use super::{DurableOptions, Journal, JournalError, JournalWrite, OpenError, OpenProgress, Writer};
use crate::caught::catch;
use crate::document::{Snapshot, Tokens, View};
use crate::store::DataStore;
use crate::sync::{Mutex, rank};

/// Opens a document.
pub(super) fn open(
    options: DurableOptions,
    open: impl FnOnce(DurableOptions, &BeforeLoad) -> Result<DataStore, OpenError>,
) -> Result<DataStore, OpenError> {
    let progress = Arc::clone(&options.progress);
    let before_load = BeforeLoad::new(options.before_load.clone());
    let opened = guarded(progress, |progress| {
        let options = DurableOptions {
            progress,
            ..options
        };
        open(options, &before_load)
    });
    before_load.resume();
    opened
}

/// Opens something. A journal that panics is taken for damaged. A panic of the callback is resumed
/// when nothing is open any more.
pub(super) fn guarded<T>(
    progress: Progress,
    open: impl FnOnce(Progress) -> Result<T, OpenError>,
) -> Result<T, OpenError> {
    let panicked = Arc::new(OnceLock::new());
    let first = Arc::clone(&panicked);
    let progress = Arc::new(move |reached| {
        if first.get().is_none()
            && let Err(panic) = catch(|| progress(reached))
        {
            let _ = first.set(Mutex::<{ rank::DURABLE }, _>::new(Some(panic)));
        }
        // The open ends before it writes. The code of redb is not unwound.
        let is_checking = matches!(reached, OpenProgress::Checking(_));
        let ends = first.get().filter(|_| !is_checking);
        if let Some(panic) = ends.and_then(|panic| panic.lock().take()) {
            panic.resume();
        }
    });
    let opened = catch(|| open(progress));
    match (panicked.get().map(|panic| panic.lock().take()), opened) {
        (None | Some(None), Ok(opened)) => opened,
        (Some(None), Err(panic)) => panic.resume(),
        (Some(Some(panic)), opened) => {
            drop(opened);
            panic.resume()
        }
        (None, Err(panic)) => {
            let message = panic.message().unwrap_or("no message");
            let panicked = format_args!("the journal panicked: {message}");
            Err(OpenError::Corrupt(JournalError::corrupt(panicked)))
        }
    }
}

pub(super) fn open_unguarded(
    mut journal: Box<dyn Journal>,
    options: DurableOptions,
    before_load: &BeforeLoad,
) -> Result<DataStore, OpenError> {
    let (stored, numbered) = begin(&mut *journal, &options, before_load)?;
    Ok(numbered.continue_with(journal, stored, options)?)
}

/// Loads a document, and writes the number of the open.
pub(super) fn begin(
    journal: &mut dyn Journal,
    options: &DurableOptions,
    before_load: &BeforeLoad,
) -> Result<(StoredDocument, NumberedOpen), OpenError> {
    before_load.call(&mut |block, key, part| journal.load_after(block, key, part))?;
    let stored = load(journal, options, options.document.clone())?;
    let numbered = NumberedOpen::new(journal, &stored, options)?;
    Ok((stored, numbered))
}

/// Loads a document. A new one begins with `beginning`, which no other may have.
pub(super) fn load(
    journal: &mut dyn Journal,
    options: &DurableOptions,
    beginning: Option<Snapshot>,
) -> Result<StoredDocument, OpenError> {
    let progress = &*options.progress;
    let kept = options.store.kept_commits;
    let mut loaded = LoadedParts::read(kept, progress, |part| journal.load(part))?;
    if !loaded.is_new() && beginning.is_some() {
        return Err(OpenError::Exists);
    }
    let (head, checkpoint) = loaded.assemble(beginning.unwrap_or_default())?;
    loaded.replay(head, checkpoint, progress)
}

/// An open whose number is written to its journal, before its first grant. So no number of it
/// returns, whatever happens.
pub(super) struct NumberedOpen {
    head: StoredHead,
    tokens: Tokens,
    session: u32,
    /// The document with which the store begins.
    document: Snapshot,
}

impl NumberedOpen {
    /// Gives the next open its number, and writes it.
    pub(super) fn new(
        journal: &mut dyn Journal,
        stored: &StoredDocument,
        options: &DurableOptions,
    ) -> Result<Self, OpenError> {
        let (mut head, mut tokens) = (stored.head.clone(), stored.tokens);
        let mut document = stored.document.clone();
        let has_nodes = |session| document.last_id_of(session) > 0;
        let session = head.count_open(journal.epoch(), has_nodes)?;
        tokens.raise(head.opens << TOKENS_OF_AN_OPEN);
        document.continue_with(&tokens, session);
        if let Some(schema) = &options.store.schema {
            let checked = schema.check_all(&document);
            checked.map_err(|violation| OpenError::Schema(Box::new(violation)))?;
        }
        let mut entries = vec![entry(HEAD.to_owned(), Some(&head))?];
        if stored.is_new {
            for node in document.nodes() {
                entries.push(entry(node_key(node.id()), Some(node))?);
            }
        }
        journal.write(&JournalWrite {
            entries,
            version: document.version(),
            ..JournalWrite::default()
        })?;
        Ok(Self {
            head,
            tokens,
            session,
            document,
        })
    }

    /// Continues the document as a store. Fails only if no thread can be started.
    pub(super) fn continue_with(
        self,
        journal: Box<dyn Journal>,
        mut stored: StoredDocument,
        options: DurableOptions,
    ) -> Result<DataStore, JournalError> {
        let last_block = stored.last_block();
        let mut since = stored.since_checkpoint();
        let StoredDocument { notes, log, .. } = stored;
        let mut store_options = options.store.session(self.session);
        store_options.lock.last_number = self.tokens.lock;
        let clock = store_options.lock.clock.clone();
        let keeps_commits = store_options.kept_commits > 0;
        let writer = Writer::new(
            options.durability,
            options.unwritten,
            self.document.clone(),
            clock,
        );
        let store = DataStore::beginning_with(self.document, store_options, Some(Box::new(writer)));
        if keeps_commits {
            store.begin_log(log.records);
        }
        since.forget(store.restore(notes.into_values().collect()));
        store.start_writer(WriterStart {
            journal,
            head: self.head,
            since,
            last_block,
            unwritten: options.unwritten,
            checkpoint_after: options.checkpoint_after,
            kept_log: options.kept_log,
        })?;
        Ok(store)
    }
}
