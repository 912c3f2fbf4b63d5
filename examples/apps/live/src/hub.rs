//! The hub: sends each durable commit to all tabs, in the order of versions.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use axum::extract::ws::{CloseFrame, Utf8Bytes};
use doclock::events::{CommitEvent, Subscription};
use doclock::transaction::{Operation, TransactionResult};
use doclock::{DataStore, Editor, dsl::transaction};
use tokio::sync::{mpsc, oneshot};

use crate::document;
use crate::protocol::{Commit, Machine, Panel, RequestState, Since, TabCaret, ToTab};

/// The most bytes that wait for a tab.
const QUEUE: usize = 8 << 20;
/// The most bytes of the commits in a `welcome`. Beyond, the text is shorter.
const CATCH_UP: usize = 2 << 20;
/// How many commits a caret may be behind.
const CARETS_BEHIND: usize = 256;
/// The histories that are in memory. Those beyond are restored from the log.
const EDITORS: usize = 256;
/// Bytes of commits that the hub may be behind, before edits wait for it.
const UNSENT: usize = 8 << 20;

/// Why the server closes a connection: the code and the reason of the close frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Close(pub u16, pub &'static str);

impl Close {
    pub const SHUT_DOWN: Self = Self(1001, "the server ends");
    pub const TOO_BIG: Self = Self(1009, "the message is too big");
    pub const UNKNOWN: Self = Self(1011, "the result is unknown: connect again");
    pub const NOWHERE: Self = Self(1013, "no server has the document now");
    pub const BAD_MESSAGE: Self = Self(4400, "bad message");
    pub const NO_HELLO: Self = Self(4408, "no hello in time");
    pub const REPLACED: Self = Self(4409, "another connection has this session");
    pub const TOO_MANY: Self = Self(4429, "too many messages");
    pub const SLOW: Self = Self(4430, "the tab reads too slowly");

    pub fn frame(self) -> CloseFrame {
        let Self(code, reason) = self;
        CloseFrame {
            code,
            reason: reason.into(),
        }
    }
}

/// The tabs, and a copy of the document at the version that they have.
pub struct Hub {
    store: DataStore,
    machine: Option<Machine>,
    editors: Mutex<HashMap<String, Arc<Editor>>>,
    state: Mutex<State>,
}

/// The version of the text that a tab has, and its timeline: another one can have another text
/// under the same version.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    pub version: u64,
    pub timeline: u64,
}

/// The durable commits of a store, for the tabs of its hub.
pub struct Commits {
    events: Subscription,
    /// They must not keep the store open.
    hub: Weak<Hub>,
}

struct State {
    /// The store is closed.
    has_ended: bool,
    replica: DataStore,
    /// The latest commits, for carets that are behind.
    recent: VecDeque<Commit>,
    tabs: HashMap<String, Tab>,
    connections: u64,
}

struct Tab {
    connection: u64,
    queue: Sender,
    close: oneshot::Sender<Close>,
    caret: Option<TabCaret>,
}

/// The end of the hub that a connection has.
pub struct Seat {
    pub editor: Arc<Editor>,
    pub queue: Receiver,
    /// Receives why the hub gives the connection up.
    pub close: oneshot::Receiver<Close>,
    connection: u64,
}

/// A queue of messages that is bounded in bytes.
struct Sender {
    messages: mpsc::UnboundedSender<Utf8Bytes>,
    bytes: Arc<AtomicUsize>,
}

/// The end of the queue that the connection reads.
pub struct Receiver {
    messages: mpsc::UnboundedReceiver<Utf8Bytes>,
    bytes: Arc<AtomicUsize>,
}

impl Sender {
    /// Returns whether there was room.
    fn send(&self, message: Utf8Bytes) -> bool {
        let len = message.len();
        let before = self.bytes.fetch_add(len, Ordering::Relaxed);
        before + len <= QUEUE && self.messages.send(message).is_ok()
    }
}

impl Receiver {
    pub async fn next(&mut self) -> Option<Utf8Bytes> {
        let message = self.messages.recv().await?;
        self.bytes.fetch_sub(message.len(), Ordering::Relaxed);
        Some(message)
    }
}

fn queue() -> (Sender, Receiver) {
    let (send, receive) = mpsc::unbounded_channel();
    let bytes = Arc::<AtomicUsize>::default();
    let sender = Sender {
        messages: send,
        bytes: Arc::clone(&bytes),
    };
    (
        sender,
        Receiver {
            messages: receive,
            bytes,
        },
    )
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub")
            .field("machine", &self.machine)
            .finish_non_exhaustive()
    }
}

impl Hub {
    /// Makes the hub of a store, and what passes the commits to it. The machine is shown in the
    /// panel.
    pub fn new(store: &DataStore, machine: Option<Machine>) -> (Arc<Self>, Commits) {
        let (snapshot, events) = loop {
            let snapshot = store.durable_snapshot().unwrap_or_else(|| store.snapshot());
            // The store keeps commits; if they are removed meanwhile, a newer version is followed.
            let subscription = store.subscription().durable().lossless(UNSENT);
            if let Ok(events) = subscription.after(snapshot.version()) {
                break (snapshot, events);
            }
        };
        let hub = Arc::new(Self {
            store: store.clone(),
            machine,
            editors: Mutex::default(),
            state: Mutex::new(State {
                has_ended: false,
                replica: document::replica(snapshot),
                recent: VecDeque::new(),
                tabs: HashMap::new(),
                connections: 0,
            }),
        });
        let commits = Commits {
            events,
            hub: Arc::downgrade(&hub),
        };
        (hub, commits)
    }

    /// Gives a tab its editor, the welcome, and every commit from then on. An earlier connection
    /// of the tab is closed.
    ///
    /// Blocks while it reads the log.
    pub fn join(&self, tab: &str, known: Option<Known>, key: Option<&str>) -> Seat {
        let editor = self.editor(tab);
        let (send, queue) = queue();
        let (close, closed) = oneshot::channel();
        let mut state = lock(&self.state);
        let timeline = self.timeline();
        let known = known.filter(|known| known.timeline == timeline);
        let commits = known.and_then(|known| self.commits_since(&state.replica, known.version));
        let size = |commits: &[Commit]| commits.iter().map(Commit::bytes).sum::<usize>();
        let since = match commits {
            Some(commits) if size(&commits) <= CATCH_UP => Since::Commits { commits },
            commits => Since::Text {
                text: document::text_of(&state.replica.snapshot()),
                request: key.map(|key| match commits {
                    Some(commits) => committed(commits.iter().any(|commit| commit.is(tab, key))),
                    None => request_state(&editor, key, state.replica.version()),
                }),
            },
        };
        let others = state.tabs.iter().filter(|(name, _)| *name != tab);
        let welcome = text(&ToTab::Welcome {
            tab,
            version: state.replica.version(),
            timeline,
            since,
            carets: others.filter_map(|(_, tab)| tab.caret.clone()).collect(),
        });
        send.send(welcome);
        state.connections += 1;
        let connection = state.connections;
        let joined = Tab {
            connection,
            queue: send,
            close,
            caret: None,
        };
        if state.has_ended {
            drop(joined);
        } else if let Some(earlier) = state.tabs.insert(tab.to_owned(), joined) {
            let _ = earlier.close.send(Close::REPLACED);
        }
        Seat {
            editor,
            queue,
            close: closed,
            connection,
        }
    }

    fn timeline(&self) -> u64 {
        self.machine.as_ref().map_or(0, |machine| machine.timeline)
    }

    /// The editor of a tab, which lives on while the tab reloads or is offline.
    fn editor(&self, tab: &str) -> Arc<Editor> {
        let mut editors = lock(&self.editors);
        if let Some(editor) = editors.get(tab) {
            return Arc::clone(editor);
        }
        if editors.len() >= EDITORS {
            let state = lock(&self.state);
            editors.retain(|tab, _| state.tabs.contains_key(tab));
        }
        let editor = Editor::new(self.store.clone(), tab).with_restored_history();
        let editor = Arc::new(editor);
        editors.insert(tab.to_owned(), Arc::clone(&editor));
        editor
    }

    /// The commits between a version and that of the replica, if the store has them.
    fn commits_since(&self, replica: &DataStore, version: u64) -> Option<Vec<Commit>> {
        let mut commits = self.store.commits_since(version).ok()?;
        commits.retain(|commit| commit.version <= replica.version());
        let mut transaction = replica.begin("catch-up").ok()?;
        document::walk_back(&mut transaction, &commits).ok()
    }

    /// Ends a connection, unless another one has replaced it.
    pub fn leave(&self, tab: &str, seat: &Seat) {
        let mut state = lock(&self.state);
        if state
            .tabs
            .get(tab)
            .is_some_and(|tab| tab.connection == seat.connection)
        {
            state.remove(tab, None);
        }
    }

    /// Shows the caret of a tab to the others. A caret that is too far behind is skipped: the tab
    /// moves it again.
    pub fn move_caret(&self, tab: &str, version: u64, anchor: usize, head: usize) {
        let mut state = lock(&self.state);
        let now = state.replica.version();
        let behind = now.checked_sub(version);
        if behind.is_none_or(|behind| behind > state.recent.len() as u64) {
            return;
        }
        let missed = state
            .recent
            .iter()
            .filter(|commit| commit.version > version);
        let missed = missed.flat_map(|commit| &commit.changes);
        let mut caret = TabCaret {
            tab: tab.to_owned(),
            anchor,
            head,
        };
        missed.for_each(|splice| caret.follow(splice));
        let len = document::utf16_len(&state.replica.snapshot());
        (caret.anchor, caret.head) = (caret.anchor.min(len), caret.head.min(len));
        state.broadcast(
            &ToTab::Caret {
                version: now,
                caret: &caret,
            },
            Some(tab),
        );
        if let Some(tab) = state.tabs.get_mut(tab) {
            tab.caret = Some(caret);
        }
    }

    /// Sends the state of the lock to all tabs.
    pub fn show_panel(&self) {
        let mut state = lock(&self.state);
        if state.tabs.is_empty() {
            return;
        }
        let stats = self.store.lock_stats();
        let panel = Panel {
            version: state.replica.version(),
            machine: self.machine.clone(),
            tabs: state.tabs.len(),
            acquisitions: stats.total_acquisitions,
            timeouts: stats.total_timeouts,
            holder: stats.current_lock,
            queue: stats.queue,
            wait: stats.wait,
            hold: stats.hold,
        };
        state.broadcast(&ToTab::Panel(&panel), None);
    }
}

impl Commits {
    /// Sends each commit to all tabs until the store is closed, and disconnects them then.
    pub fn pass_on(self) {
        for CommitEvent { commit, .. } in &self.events {
            let Some(hub) = self.hub.upgrade() else {
                return;
            };
            if let Err(error) = lock(&hub.state).publish(&commit) {
                eprintln!("version {} cannot be followed: {error}", commit.version);
                break;
            }
        }
        if let Some(hub) = self.hub.upgrade() {
            let mut state = lock(&hub.state);
            state.has_ended = true;
            state.tabs.clear();
        }
    }
}

impl State {
    fn publish(&mut self, commit: &Arc<TransactionResult>) -> Result<(), document::Failure> {
        if commit.version <= self.replica.version() {
            return Ok(());
        }
        document::apply(&self.replica, commit)?;
        let mut transaction = self.replica.begin("publish")?;
        let walked = document::walk_back(&mut transaction, std::slice::from_ref(commit))?;
        drop(transaction);
        for commit in walked {
            let carets = self.tabs.values_mut().filter_map(|tab| tab.caret.as_mut());
            carets.for_each(|caret| {
                commit
                    .changes
                    .iter()
                    .for_each(|splice| caret.follow(splice))
            });
            if let Some(tab) = self.tabs.get_mut(&commit.tab) {
                tab.caret = commit.caret();
            }
            self.broadcast(&ToTab::Commit(&commit), None);
            self.recent.push_back(commit);
            if self.recent.len() > CARETS_BEHIND {
                self.recent.pop_front();
            }
        }
        Ok(())
    }

    /// Queues a message for all tabs but one. A tab whose queue is full is given up: it gets no
    /// message out of order, and connects again.
    fn broadcast(&mut self, message: &ToTab, but: Option<&str>) {
        let message = text(message);
        let full = self
            .tabs
            .iter()
            .filter(|(name, tab)| but != Some(name) && !tab.queue.send(message.clone()));
        let full: Vec<String> = full.map(|(name, _)| name.clone()).collect();
        for name in full {
            self.remove(&name, Some(Close::SLOW));
        }
    }

    fn remove(&mut self, name: &str, why: Option<Close>) {
        if let (Some(tab), Some(why)) = (self.tabs.remove(name), why) {
            // The connection may have ended.
            let _ = tab.close.send(why);
        }
        self.broadcast(&ToTab::Left { tab: name }, None);
    }
}

/// Looks up whether a request was committed, and whether the text of a version contains it.
fn request_state(editor: &Editor, key: &str, version: u64) -> RequestState {
    // A batch without operations uses no key, and returns the result of the first transaction.
    let nothing: [Operation; 0] = [];
    let looked_up = transaction(editor, nothing)
        .idempotent(key_of(editor, key))
        .commit();
    match looked_up {
        Ok(first) if first.repeated => committed(first.version <= version),
        _ => RequestState::Unknown,
    }
}

fn committed(committed: bool) -> RequestState {
    match committed {
        true => RequestState::Committed,
        false => RequestState::Open,
    }
}

/// The idempotency key of a request: its own, under the name of the tab.
pub fn key_of(editor: &Editor, key: &str) -> String {
    format!("{}/{key}", editor.owner())
}

pub fn text(message: &ToTab) -> Utf8Bytes {
    let json = serde_json::to_string(message);
    // A message has only strings as keys.
    json.expect("a message is JSON").into()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot::error::TryRecvError;

    #[test]
    fn a_tab_that_joins_after_the_end_of_the_store_is_disconnected() {
        let folder = tempfile::tempdir().unwrap();
        let store = document::open(&folder.path().join("live.doclock")).unwrap();
        let (hub, commits) = Hub::new(&store, None);
        let mut before = hub.join("ann", None, None);
        assert_eq!(before.close.try_recv(), Err(TryRecvError::Empty));
        store.close().unwrap();
        commits.pass_on();
        let mut after = hub.join("bob", None, None);
        for seat in [&mut before, &mut after] {
            assert_eq!(seat.close.try_recv(), Err(TryRecvError::Closed));
        }
    }
}
