//! The requests to a pool: for a document, to close a document, and to close idle ones.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use smol_str::SmolStr;

use super::table::Unused;
use super::waits::{NameTurn, Waits, run_as};
use super::{Document, Documents, Opening, PoolError};
use crate::lock::{LockRequest, RequestContext};
use crate::sync::thread_number;

/// A request for a document: [`Documents::get`].
pub struct DocumentRequest<T> {
    document: NamedDocument<T>,
    only_existing: bool,
}

/// A request to close a document: [`Documents::close`].
pub struct CloseRequest<T>(NamedDocument<T>);

/// A request to close idle documents: [`Documents::close_idle`].
pub struct CloseIdleRequest<T> {
    documents: Documents<T>,
    unused: Duration,
}

/// A document of a pool by its name.
struct NamedDocument<T> {
    documents: Documents<T>,
    name: SmolStr,
    /// Why the name is none, until the request fails for that.
    refused: Option<PoolError>,
}

impl<T> NamedDocument<T> {
    fn new(documents: &Documents<T>, name: &str) -> Self {
        let documents = documents.clone();
        let reason = documents.shared().options.refuse_name(name);
        let refused = reason.map(|reason| PoolError::Name {
            name: name.to_owned(),
            reason,
        });
        let name = match refused {
            None => name.into(),
            Some(_) => SmolStr::default(),
        };
        Self {
            documents,
            name,
            refused,
        }
    }

    fn check(&mut self) -> Result<(), PoolError> {
        self.refused.take().map_or(Ok(()), Err)
    }
}

impl<T> DocumentRequest<T> {
    pub(super) fn new(documents: &Documents<T>, name: &str, only_existing: bool) -> Self {
        let document = NamedDocument::new(documents, name);
        Self {
            document,
            only_existing,
        }
    }
}

impl<T: Send + Sync + 'static> LockRequest for DocumentRequest<T> {
    type Granted = Document<T>;
    type Error = PoolError;

    fn try_grant(&mut self, context: &RequestContext) -> Result<Option<Document<T>>, PoolError> {
        self.document.check()?;
        let NamedDocument {
            documents, name, ..
        } = &self.document;
        if context.options.is_cancelled() {
            return Ok(None);
        }
        let found = documents.shared().begin_use(name);
        Ok(found.map(|in_use| Document::new(in_use, documents)))
    }

    async fn grant_as(self, context: RequestContext) -> Result<Document<T>, PoolError> {
        let NamedDocument {
            documents, name, ..
        } = self.document;
        let shared = documents.shared();
        let waits = Waits::new(shared, &name, context);
        let turn = waits.for_name().await?;
        let (slot, before) = loop {
            if let Some(in_use) = shared.begin_use(&name) {
                return Ok(Document::new(in_use, &documents));
            }
            let read_only = shared.table.lock().remove_read_only(&name);
            if let Some(removed) = read_only {
                break (shared.claimed(removed.permit, None), Some(removed.opened));
            }
            // Whatever was closed meanwhile, the document is not in the table now, and only the
            // holder of its name can add it.
            if !waits.for_close().await? {
                if self.only_existing {
                    waits.for_existing().await?;
                }
                break (waits.for_slot().await?, None);
            }
        };
        let (opener, only_existing) = (Arc::clone(shared), self.only_existing);
        let opens = name.clone();
        let opened = waits.run(move || {
            let opening = Opening {
                name: &opens,
                only_existing,
            };
            let mut opened = None;
            let executed = turn.execute(|| opened = Some(opener.open(&opening, before, slot)));
            debug_assert!(executed.is_ok(), "the turn has waited already");
            opened.expect("the turn has waited already")
        });
        let in_use = opened.await??;
        shared.watch_idle();
        Ok(Document::new(in_use, &documents))
    }
}

impl<T> CloseRequest<T> {
    pub(super) fn new(documents: &Documents<T>, name: &str) -> Self {
        Self(NamedDocument::new(documents, name))
    }
}

impl<T: Send + Sync + 'static> LockRequest for CloseRequest<T> {
    type Granted = ClosedDocument<T>;
    type Error = PoolError;

    fn try_grant(&mut self, _: &RequestContext) -> Result<Option<ClosedDocument<T>>, PoolError> {
        self.0.check().map(|()| None)
    }

    async fn grant_as(self, context: RequestContext) -> Result<ClosedDocument<T>, PoolError> {
        let NamedDocument {
            documents, name, ..
        } = self.0;
        let shared = documents.shared();
        let waits = Waits::new(shared, &name, context);
        let mut turn = waits.for_name().await?;
        loop {
            let unused = shared.table.lock().remove_unused(&name);
            match unused {
                Unused::Missing if waits.for_close().await? => {}
                Unused::Missing => break,
                Unused::InUse(uses) => {
                    let name = name.to_string();
                    return Err(PoolError::InUse { name, uses });
                }
                Unused::Removed(removed) => {
                    let closer = Arc::clone(shared);
                    // If the future is dropped, the name stays taken until the close.
                    let closed = waits.run(move || {
                        turn.bind(thread_number());
                        (closer.close(removed), turn)
                    });
                    let (closed, taken) = closed.await?;
                    turn = taken;
                    let name = || name.to_string();
                    closed.map_err(|cause| PoolError::Close {
                        name: name(),
                        cause,
                    })?;
                    break;
                }
            }
        }
        Ok(ClosedDocument {
            _turn: turn,
            name,
            _documents: documents,
        })
    }
}

impl<T> CloseIdleRequest<T> {
    pub(super) fn new(documents: &Documents<T>, unused: Duration) -> Self {
        let documents = documents.clone();
        Self { documents, unused }
    }
}

impl<T: Send + Sync + 'static> LockRequest for CloseIdleRequest<T> {
    type Granted = usize;
    type Error = PoolError;

    async fn grant_as(self, context: RequestContext) -> Result<usize, PoolError> {
        let (shared, unused) = (Arc::clone(self.documents.shared()), self.unused);
        let closed = run_as(context.waits_as, move || shared.close_idle(unused)).await;
        closed.map_err(|error| PoolError::no_thread("", &error))?
    }
}

/// A document that is closed, and stays closed while this exists: [`Documents::close`].
///
/// Requests for the document wait until it is dropped.
#[must_use = "the document may be opened again as soon as this is dropped"]
pub struct ClosedDocument<T> {
    // Dropped first: the last handle of the pool waits for all names.
    _turn: NameTurn,
    name: SmolStr,
    _documents: Documents<T>,
}

impl<T> ClosedDocument<T> {
    /// Returns the name of the document.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl<T> fmt::Debug for ClosedDocument<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClosedDocument")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for DocumentRequest<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DocumentRequest")
            .field("name", &self.document.name)
            .field("only_existing", &self.only_existing)
            .finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for CloseRequest<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CloseRequest")
            .field("name", &self.0.name)
            .finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for CloseIdleRequest<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CloseIdleRequest")
            .field("unused", &self.unused)
            .finish_non_exhaustive()
    }
}
