//! Where the document is: in this process, or in another server of its cluster.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::ws::WebSocket;
use doclock::DataStore;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::connection;
use crate::hub::{Close, Commits, Hub};
use crate::protocol::Machine;
use crate::relay::{self, Upstream};

/// How long a tab waits for a server that has the document.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often a server without the document looks who has it.
const LOOK: Duration = Duration::from_millis(50);

/// The hub while this process has the document.
type Current = watch::Sender<Option<Arc<Hub>>>;

/// Returns the address of the server that has the document, if it is not this one.
type Elsewhere = dyn Fn() -> Option<String> + Send + Sync;

/// Where the document is. Clones are handles of the same value.
#[derive(Clone)]
pub struct Location {
    here: watch::Receiver<Option<Arc<Hub>>>,
    elsewhere: Arc<Elsewhere>,
}

/// Where the hub of a [`Location`] is put while this process has the document.
#[derive(Debug)]
pub struct HubSlot(Current);

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Location")
            .field("is_here", &self.hub().is_some())
            .finish_non_exhaustive()
    }
}

impl HubSlot {
    /// Passes the commits of a store to the tabs, until the store is closed. Then all its tabs are
    /// disconnected.
    pub fn serve(&self, store: &DataStore, machine: Option<Machine>) {
        self.pass_on(self.begin(store, machine));
    }

    fn begin(&self, store: &DataStore, machine: Option<Machine>) -> Commits {
        let (hub, commits) = Hub::new(store, machine);
        self.0.send_replace(Some(hub));
        commits
    }

    fn pass_on(&self, commits: Commits) {
        commits.pass_on();
        self.0.send_replace(None);
    }
}

impl Location {
    /// A location without the document, and the slot that gives it one. The location ends when the
    /// slot is dropped.
    pub fn new(elsewhere: impl Fn() -> Option<String> + Send + Sync + 'static) -> (Self, HubSlot) {
        let (current, here) = watch::channel(None);
        let elsewhere = Arc::new(elsewhere);
        (Self { here, elsewhere }, HubSlot(current))
    }

    /// A location that has the document until its store is closed.
    pub fn of_store(store: &DataStore) -> Self {
        let (location, slot) = Self::new(|| None);
        let commits = slot.begin(store, None);
        std::thread::spawn(move || slot.pass_on(commits));
        location
    }

    /// The hub, if this process has the document.
    pub(crate) fn hub(&self) -> Option<Arc<Hub>> {
        self.here.borrow().clone()
    }

    /// Waits until this process will never have the document again.
    pub async fn ended(mut self) {
        while self.here.changed().await.is_ok() {}
    }

    /// Serves a tab here, or passes it on to the server that has the document. A tab that another
    /// server has passed on is served here or not at all, so no tab is passed in a circle.
    pub async fn serve(mut self, socket: WebSocket, is_relayed: bool) {
        match self.find(is_relayed).await {
            Some(Way::Here(hub)) => connection::serve(hub, socket).await,
            Some(Way::There(address, upstream)) => {
                let moved = self.moved(address);
                relay::pass(socket, *upstream, moved).await;
            }
            None => connection::refuse(socket, Close::NOWHERE).await,
        }
    }

    async fn find(&mut self, is_relayed: bool) -> Option<Way> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let hub = self.here.borrow_and_update().clone();
            if let Some(hub) = hub {
                return Some(Way::Here(hub));
            }
            if is_relayed || Instant::now() >= deadline {
                return None;
            }
            if let Some(address) = (self.elsewhere)()
                && let Some(upstream) = relay::connect(&address).await
            {
                return Some(Way::There(address, Box::new(upstream)));
            }
            if let Ok(Err(_)) = timeout(LOOK, self.here.changed()).await {
                return None;
            }
        }
    }

    /// Waits until a server other than `from` has the document.
    async fn moved(mut self, from: String) {
        loop {
            if self.here.borrow_and_update().is_some() {
                return;
            }
            // No server may have it for a while, and then the same one again.
            if (self.elsewhere)().is_some_and(|address| address != from) {
                return;
            }
            if let Ok(Err(_)) = timeout(LOOK, self.here.changed()).await {
                return;
            }
        }
    }
}

enum Way {
    Here(Arc<Hub>),
    There(String, Box<Upstream>),
}
