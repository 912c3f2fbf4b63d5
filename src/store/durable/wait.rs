//! A wait for the disk before it begins, and the two ways to make it.

use std::pin::Pin;
use std::time::Duration;

use super::DurabilityError;
use crate::lock::{CancelToken, WaiterKind, blocking};
use crate::store::DataStore;

/// A wait until a version is durable, with its timeout and its cancel token.
/// [`DataStore::wait_durable`] creates it.
///
/// Both endings return the durable version, which may be a later one:
///
/// - [`wait`](Self::wait) blocks the calling thread.
/// - `.await` waits in a task. Nothing happens before the first poll.
///
/// # Cancel safety
///
/// The future can be dropped at any time, and then nothing waits any more.
///
/// ```
/// use doclock::{DataStore, dsl::*, durable::Durability};
///
/// # pollster::block_on(async {
/// # let folder = tempfile::tempdir()?;
/// let store = DataStore::open(folder.path().join("notes.doclock"))?;
/// let mut transaction = store.request_transaction("ann").await?;
/// transaction.create(element("paragraph", []))?;
/// let version = transaction.commit_with(Durability::Later)?.version;
/// assert_eq!(store.wait_durable(version).await?, version);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
#[must_use = "nothing waits before `wait` or `.await`"]
pub struct DurableWait {
    store: DataStore,
    version: u64,
    timeout: Option<Duration>,
    cancel: Option<CancelToken>,
}

impl DurableWait {
    pub(super) fn new(store: DataStore, version: u64) -> Self {
        Self {
            store,
            version,
            timeout: None,
            cancel: None,
        }
    }

    /// Sets the timeout, which begins with [`wait`](Self::wait) or the first poll. `None`, the
    /// default, sets no limit.
    pub fn timeout(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.timeout = limit.into();
        self
    }

    /// Lets `token` end the wait.
    pub fn cancel_token(mut self, token: &CancelToken) -> Self {
        self.cancel = Some(token.clone());
        self
    }

    /// Blocks the calling thread until the version is durable.
    ///
    /// # Errors
    ///
    /// [`DurabilityError`]: the timeout has passed, the token was cancelled, the store is not
    /// durable, was closed, or its journal failed. In a task it can also be
    /// [`DurabilityError::NoKeeper`].
    pub fn wait(self) -> Result<u64, DurabilityError> {
        blocking(self.wait_as(WaiterKind::Thread))
    }

    async fn wait_as(self, waits_as: WaiterKind) -> Result<u64, DurabilityError> {
        match &self.store.0.writer {
            Some(writer) => {
                let cancel = self.cancel.as_ref();
                let wait = writer.wait_as(waits_as, self.version, self.timeout, cancel);
                wait.await
            }
            None => Err(DurabilityError::NotDurable),
        }
    }
}

impl IntoFuture for DurableWait {
    type Output = Result<u64, DurabilityError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.wait_as(WaiterKind::Task))
    }
}
