//! A pool of documents: each is opened on demand and closed when it is idle, and a bound limits how
//! many are open.
//!
//! **Use it** in a program that has more documents than it should have open: a server, or a desktop
//! program with many files. **Do not use it** for one document: [`DataStore::open`] is enough.
//!
//! ```
//! use doclock::{TransactionManager, View, dsl::*, pool::{Documents, PoolOptions}};
//!
//! # let folder = tempfile::tempdir()?;
//! // At most 64 documents of the folder are open at a time.
//! let documents = Documents::in_folder(folder.path(), PoolOptions::new(64));
//! let notes = documents.get("notes").wait()?;
//! TransactionManager::new(notes.store().clone()).execute(create(text_node("paragraph", "Hello")))?;
//! // The document is idle now, and is closed when another one needs its slot.
//! drop(notes);
//!
//! # pollster::block_on(async {
//! let notes = documents.get("notes").await?;
//! assert_eq!(notes.snapshot().len(), 1);
//! # Ok::<(), doclock::pool::PoolError>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Values beside a store
//!
//! `T` is a value of the program beside each store, such as its editors. The opener makes it, and
//! it is dropped when the document is closed:
//!
//! ```
//! use doclock::pool::{Documents, PoolOptions};
//! use doclock::{Editor, StoreOptions, dsl::*, durable::DurableOptions};
//! use std::{collections::HashMap, sync::{Arc, Mutex}};
//!
//! # let temporary = tempfile::tempdir()?;
//! # let folder = temporary.path().to_owned();
//! type Editors = Mutex<HashMap<String, Arc<Editor>>>;
//!
//! let documents = Documents::new(PoolOptions::new(64), move |opening| {
//!     // What an undo after the next open needs.
//!     let commits = StoreOptions::new().kept_commits(4 << 20);
//!     let options = DurableOptions::new().keep_log(1 << 20).store(commits);
//!     Ok((opening.open_in(&folder, options)?, Editors::default()))
//! });
//! let notes = documents.get("notes").wait()?;
//! let editor = {
//!     let mut editors = notes.data().lock().unwrap();
//!     let new = || Arc::new(Editor::new(notes.store().clone(), "ann").with_restored_history());
//!     Arc::clone(editors.entry("ann".to_owned()).or_insert_with(new))
//! };
//! editor.execute(create(text_node("paragraph", "Hello")))?;
//! # drop(editor);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Order and waiting
//!
//! A document that is open is granted at once. Otherwise a request waits up to three times, with
//! one timeout for all waits together:
//!
//! 1. for earlier requests that open or close the same document, in FIFO order,
//! 2. for the close of the same document, if the pool closes it,
//! 3. for a slot, in FIFO order with requests for other documents. While requests wait for slots,
//!    the pool closes idle documents, the longest idle ones first.
//!
//! The open itself has no timeout. A thread opens the document itself. A task waits, and the
//! document is opened in a thread of its own. Threads of the pool close idle documents; they run
//! only while they are needed.
//!
//! # Names
//!
//! A name from outside is safe: by default, a name has 1 to 100 of the characters `a` to `z`, `0`
//! to `9`, `-` and `_`, and begins with a letter or a digit. Capital letters are refused, because
//! on some systems `Notes` and `notes` are one file. Any other name is refused before it has an
//! effect. Names of devices of Windows are accepted.
//!
//! # Read-only stores
//!
//! A store accepts no commits after its journal has failed, for example on a full disk, or after
//! [`DataStore::close`]. It is not granted any more: the next request closes it and opens the
//! document again, under the same slot, even while the old [`Document`] exists.

mod closer;
mod error;
mod opening;
mod options;
mod request;
mod shared;
mod slots;
mod snapshot;
mod table;
mod waits;

use std::error::Error;
use std::fmt;
use std::ops::Deref;
#[cfg(feature = "redb")]
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use error::PoolError;
pub use opening::Opening;
pub use options::PoolOptions;
pub use request::{CloseIdleRequest, CloseRequest, ClosedDocument, DocumentRequest};
pub use snapshot::{PoolSnapshot, PooledDocument};

use crate::DataStore;
#[cfg(feature = "redb")]
use crate::durable::{DurableOptions, find_file};
use crate::lock::PendingRequest;
#[cfg(feature = "redb")]
use opening::file_in;
use shared::{Shared, Use};

/// A pool of documents, each with a value of the program beside its store.
///
/// Clones are handles of the same pool. See the module [`pool`](self).
///
/// # Dropping it
///
/// The drop of the last handle closes all documents, and blocks until they are closed. A
/// [`Document`] and a request are handles, too. [`close_idle`](Self::close_idle) before it reports
/// failures, as [`PoolOptions::on_close_error`] does.
pub struct Documents<T = ()>(Arc<Handle<T>>);

/// What all handles of users share. The closer and threads that open have only what is in it.
struct Handle<T>(Arc<Shared<T>>);

impl<T> Drop for Handle<T> {
    fn drop(&mut self) {
        self.0.close_all();
    }
}

#[cfg(feature = "redb")]
#[cfg_attr(docsrs, doc(cfg(feature = "redb")))]
impl Documents {
    /// Creates a pool of the documents in a folder, each in the file `NAME.doclock`, with default
    /// options and no value beside its store. A document without a file is created when it is
    /// requested.
    ///
    /// Nothing is opened yet. [`new`](Documents::new) with [`Opening::open_in`] has other options.
    pub fn in_folder(folder: impl Into<PathBuf>, mut options: PoolOptions) -> Self {
        let folder = folder.into();
        let files = folder.clone();
        let find = move |name: &str| Ok(find_file(&file_in(&files, name)?)?);
        options.find.get_or_insert_with(|| Arc::new(find));
        Self::new(options, move |opening| {
            Ok((opening.open_in(&folder, DurableOptions::new())?, ()))
        })
    }
}

impl<T: Send + Sync + 'static> Documents<T> {
    /// Creates a pool whose documents are opened by `opener`, which returns the store of a document
    /// and the value beside it. [`Opening::open_in`] opens a file; any other way is fine, too.
    ///
    /// The opener runs under no lock, in the thread that requests a document, or in a thread of its
    /// own for a task. It runs once at a time for each name. Its error and its panic reach the
    /// request; the next request for the document calls it again. A request of the opener for
    /// another document waits while it has a slot itself, so it can time out.
    ///
    /// ```
    /// use doclock::{DataStore, pool::{Documents, PoolOptions}};
    ///
    /// // Documents in memory, each with its name beside it.
    /// let documents = Documents::new(PoolOptions::new(2), |opening| {
    ///     Ok((DataStore::new(), opening.name().to_owned()))
    /// });
    /// assert_eq!(documents.get("notes").wait()?.data(), "notes");
    /// # Ok::<(), doclock::pool::PoolError>(())
    /// ```
    pub fn new(
        options: PoolOptions,
        opener: impl Fn(&Opening<'_>) -> Result<(DataStore, T), Box<dyn Error + Send + Sync>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        let shared = Shared::new(options, Box::new(opener));
        Self(Arc::new(Handle(Arc::new(shared))))
    }

    /// Requests a document, to be ended with [`wait`](PendingRequest::wait) or `.await`. It is
    /// opened if it is not open.
    ///
    /// The timeout of the request, and its cancel token, are for its waits
    /// ([order](self#order-and-waiting)), not for the open. With
    /// [`no_wait`](PendingRequest::no_wait), it gets a document that is open, or opens it if a slot
    /// is free or a document is idle. A label and a queue bound are used; a priority, a hold limit
    /// and the other options of a holder have no effect.
    ///
    /// # Errors
    ///
    /// [`PoolError`]. A task that already has all documents that may be open waits until its
    /// timeout.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped while it waits, the request leaves its queue. If the document is
    /// opened at that moment, it stays open as an idle one.
    ///
    /// ```
    /// use doclock::{codes::CodedError, pool::{Documents, PoolOptions}};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// let documents = Documents::in_folder(folder.path(), PoolOptions::new(1));
    /// let notes = documents.get("notes").wait()?;
    /// let error = documents.get("letters").no_wait().wait().unwrap_err();
    /// assert_eq!(error.code(), "poolFull");
    /// drop(notes);
    /// assert_eq!(documents.get("letters").wait()?.name(), "letters");
    ///
    /// let error = documents.get("../letters").wait().unwrap_err();
    /// assert_eq!((error.code(), error.http_status()), ("documentNameInvalid", 400));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn get(&self, name: &str) -> PendingRequest<'static, DocumentRequest<T>> {
        PendingRequest::new(DocumentRequest::new(self, name, false))
    }

    /// Requests a document that exists already, as [`get`](Self::get) does. The opener reads
    /// [`Opening::only_existing`]. With [`PoolOptions::exists`], and in a folder, a missing
    /// document takes no slot.
    ///
    /// # Errors
    ///
    /// [`PoolError`]. Without a file it is [`OpenError::Missing`](crate::durable::OpenError), with
    /// the status 404.
    ///
    /// ```
    /// use doclock::{codes::CodedError, pool::{Documents, PoolOptions}};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// let documents = Documents::in_folder(folder.path(), PoolOptions::new(64));
    /// assert_eq!(documents.get_existing("notes").wait().unwrap_err().http_status(), 404);
    /// documents.get("notes").wait()?;
    /// assert!(documents.get_existing("notes").wait().is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn get_existing(&self, name: &str) -> PendingRequest<'static, DocumentRequest<T>> {
        PendingRequest::new(DocumentRequest::new(self, name, true))
    }

    /// Requests that a document is closed, and stays closed while the result exists: before its
    /// file is moved or deleted.
    ///
    /// It waits for earlier requests that open or close the document, and blocks until the file is
    /// closed; a task waits for a thread that closes it. Later requests for the document wait until
    /// the [`ClosedDocument`] is dropped. A document that is not open is granted, too.
    ///
    /// # Errors
    ///
    /// [`PoolError`]: [`InUse`](PoolError::InUse) if the document is in use;
    /// [`Close`](PoolError::Close) if the close failed. It is closed then.
    ///
    /// ```
    /// use doclock::pool::{Documents, PoolError, PoolOptions};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// let documents = Documents::in_folder(folder.path(), PoolOptions::new(64));
    /// let notes = documents.get("notes").wait()?;
    /// let error = documents.close("notes").wait().unwrap_err();
    /// assert!(matches!(error, PoolError::InUse { uses: 1, .. }));
    /// drop(notes);
    ///
    /// let closed = documents.close("notes").wait()?;
    /// std::fs::remove_file(folder.path().join("notes.doclock"))?;
    /// drop(closed);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn close(&self, name: &str) -> PendingRequest<'static, CloseRequest<T>> {
        PendingRequest::new(CloseRequest::new(self, name))
    }

    /// Requests that all documents are closed that have been unused for so long; with
    /// [`Duration::ZERO`], all that are not in use. Returns how many.
    ///
    /// It blocks until they are closed, also those that the pool is closing already; a task waits
    /// for a thread that closes them. Options of the request have no effect.
    ///
    /// # Errors
    ///
    /// [`PoolError::Close`], for the first document whose close failed, after all others are
    /// closed.
    ///
    /// ```
    /// use doclock::pool::{Documents, PoolOptions};
    /// use std::time::Duration;
    ///
    /// # let folder = tempfile::tempdir()?;
    /// let documents = Documents::in_folder(folder.path(), PoolOptions::new(64));
    /// let notes = documents.get("notes").wait()?;
    /// documents.get("letters").wait()?;
    /// assert_eq!(documents.close_idle(Duration::ZERO).wait()?, 1);
    /// assert_eq!(documents.snapshot().open, 1);
    /// # drop(notes);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn close_idle(&self, unused: Duration) -> PendingRequest<'static, CloseIdleRequest<T>> {
        PendingRequest::new(CloseIdleRequest::new(self, unused))
    }

    /// Returns a picture of the pool: how many documents are open and in use, and how many requests
    /// wait.
    ///
    /// ```
    /// use doclock::{DataStore, pool::{Documents, PoolOptions}};
    ///
    /// let documents = Documents::new(PoolOptions::new(4), |_| Ok((DataStore::new(), ())));
    /// let notes = documents.get("notes").wait()?;
    /// documents.get("letters").wait()?;
    /// let snapshot = documents.snapshot();
    /// assert_eq!((snapshot.open, snapshot.in_use, snapshot.waiting), (2, 1, 0));
    /// println!("{}", serde_json::to_string(&snapshot)?);
    /// # drop(notes);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn snapshot(&self) -> PoolSnapshot {
        self.shared().snapshot()
    }

    /// Returns the code of the thread that closes documents. It ends with the pool.
    #[cfg(loom)]
    #[doc(hidden)]
    pub fn closer_thread(&self) -> impl FnOnce() + use<T> {
        self.shared().closer_thread()
    }
}

impl<T> Documents<T> {
    fn shared(&self) -> &Arc<Shared<T>> {
        &self.0.0
    }
}

impl<T> Clone for Documents<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> fmt::Debug for Documents<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Documents")
            .field(&self.shared().snapshot())
            .finish()
    }
}

/// A document of a pool in use: it is not closed while this or a clone of it exists.
///
/// It dereferences to the [`DataStore`]. A clone of the store, such as that in an
/// [`Editor`](crate::Editor), does not keep the document open, and is read-only when it is closed:
/// keep the `Document` beside it.
///
/// The drop of the last one makes the document idle, and never blocks. The only exception is the
/// last [handle of the pool](Documents#dropping-it).
pub struct Document<T = ()> {
    // Dropped before the handle, so that the drop of the last handle finds no document in use.
    in_use: Use<T>,
    documents: Documents<T>,
}

impl<T> Document<T> {
    fn new(in_use: Use<T>, documents: &Documents<T>) -> Self {
        let documents = documents.clone();
        Self { in_use, documents }
    }

    /// Returns the name of the document.
    pub fn name(&self) -> &str {
        &self.in_use.opened().name
    }

    /// Returns the store, of which a clone is a handle.
    pub fn store(&self) -> &DataStore {
        &self.in_use.opened().store
    }

    /// Returns the value beside the store, which the opener made.
    pub fn data(&self) -> &T {
        &self.in_use.opened().data
    }
}

impl<T> Deref for Document<T> {
    type Target = DataStore;

    fn deref(&self) -> &DataStore {
        self.store()
    }
}

impl<T> Clone for Document<T> {
    fn clone(&self) -> Self {
        Self::new(self.in_use.clone(), &self.documents)
    }
}

impl<T> fmt::Debug for Document<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Document")
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}
