//! A member: the part of one process in a document that several machines share.

mod doorbell;
mod event;
mod execute;
mod following;
mod options;
mod owning;

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, select};
use doclock::{DataStore, Snapshot};
use parking_lot::{Condvar, Mutex};

use crate::{Postgres, PostgresError, PostgresJournal, Requests, Term};
pub(crate) use doorbell::Doorbell;
use doorbell::{Bell, Registered};
use event::Events;
pub use event::{DocumentOwner, MemberError, MemberEvent};
use following::{Follower, Looked, is_of_server};
pub use options::MemberOptions;

/// The part of this process in a document that several machines share.
///
/// A member follows the owner of the document, and serves [snapshots](Self::snapshot). When the
/// document has no owner, because it died or handed the document over, one of the members becomes
/// the owner without loading the document. It then has the [store](Self::store), until it loses the
/// term or gives it back, and follows again. On each member, [`execute`](Self::execute) runs an
/// operation batch.
///
/// ```no_run
/// use doclock::dsl::*;
/// use doclock_postgres::{Member, MemberOptions, Postgres, PostgresOptions, TermOptions};
///
/// let server = Postgres::connect(PostgresOptions::new("host=/run/postgresql dbname=app")?)?;
/// let term = TermOptions::new("machine-1").address("10.0.0.7:8080");
/// let member = Member::join(&server, "notes", MemberOptions::new(term))?;
/// // On the owner, or on another member.
/// member.execute(create(text_node("paragraph", "Hello")))?;
/// let seen = member.snapshot();
/// println!("version {}, {:?} old, of {:?}", seen.version(), seen.lag, seen.owner);
/// member.leave()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Each member has a thread. All members of a process share the connections of their
/// [`Postgres`], so more documents need no more of them. All methods can be called in a thread of
/// an async runtime; [`join`](Self::join), [`hand_over`](Self::hand_over),
/// [`leave`](Self::leave) and [`wait_store`](Self::wait_store) block it.
///
/// Clones are handles of the same member. When the last one is dropped, the member leaves. The drop
/// waits for that for at most a second, and then the member goes on to leave in the background.
#[derive(Clone)]
pub struct Member(Arc<Handle>);

struct Handle {
    document: String,
    shared: Arc<Shared>,
    commands: Sender<Command>,
    events: Receiver<MemberEvent>,
    doorbell: Option<Arc<Doorbell>>,
    bell: Bell,
    requests: Requests,
    options: MemberOptions,
}

/// How long the drop of the last handle waits.
const DROP: Duration = Duration::from_secs(1);

/// A document as a member knows it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MemberSnapshot {
    /// The document after a commit that is in the log. An owner shows the last commit that is
    /// durable, which its followers can see too, and not what its store has published before that.
    pub snapshot: Snapshot,
    /// How long ago this was the newest version in the log, for certain. It is measured by the
    /// monotonic clock of this process. It is zero for an owner as long as its term lasts.
    pub lag: Duration,
    /// The owner, if the document had one then.
    pub owner: Option<DocumentOwner>,
}

impl MemberSnapshot {
    /// Returns the version of the snapshot.
    pub fn version(&self) -> u64 {
        self.snapshot.version()
    }
}

/// What the handles and the thread of a member share.
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    part: Part,
    /// When the snapshot was the newest one.
    current_at: Instant,
    owner: Option<DocumentOwner>,
    has_left: bool,
}

/// Which part a member has in the document.
#[derive(Clone)]
enum Part {
    Follows(Snapshot),
    Owns(DataStore, Arc<Term>),
}

impl Shared {
    fn set(&self, part: Part, at: Instant, owner: Option<DocumentOwner>) {
        let before = {
            let mut state = self.state.lock();
            (state.current_at, state.owner) = (at, owner);
            std::mem::replace(&mut state.part, part)
        };
        // A store that ends runs code of others, so not under the lock.
        drop(before);
        self.changed.notify_all();
    }

    /// Shows a version that the log has, and no store.
    fn follow(&self, snapshot: Snapshot) {
        let part = Part::Follows(snapshot);
        let before = std::mem::replace(&mut self.state.lock().part, part);
        drop(before);
    }

    fn current(&self, at: Instant) {
        self.state.lock().current_at = at;
    }

    fn end(&self) {
        let part = self.state.lock().part.clone();
        if let Part::Owns(store, _) = part
            && let Some(durable) = store.durable_snapshot()
        {
            self.follow(durable);
        }
        let mut state = self.state.lock();
        (state.has_left, state.owner) = (true, None);
        drop(state);
        self.changed.notify_all();
    }
}

/// Where a call waits for the end of its command.
type Reply = Sender<Result<(), MemberError>>;

enum Command {
    HandOver(Reply),
    Leave(Reply),
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member")
            .field("document", &self.0.document)
            .field("is_owner", &self.store().is_some())
            .finish_non_exhaustive()
    }
}

impl Member {
    /// Joins a document, which need not exist yet. Blocks until it is loaded.
    ///
    /// If the document has no owner, this member tries to become it at once, in the background.
    ///
    /// # Errors
    ///
    /// [`MemberError`]: the server cannot be reached, the options cannot be used, or the document
    /// cannot be loaded.
    pub fn join(
        server: &Postgres,
        document: &str,
        options: MemberOptions,
    ) -> Result<Self, MemberError> {
        options.term.window()?;
        let requests = server.requests(document, &options.term.owner)?;
        let random = RandomState::new().build_hasher().finish();
        let owner: String = options.term.owner.chars().take(50).collect();
        let name = format!("{owner}-{random:016x}");
        let mut follower = Follower::new(server, document, name, &options)?;
        let looked = follower.look()?;
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                part: Part::Follows(looked.snapshot.clone()),
                current_at: looked.at,
                owner: None,
                has_left: false,
            }),
            changed: Condvar::new(),
        });
        let (registered, woken) = match options.doorbell {
            true => {
                let (registered, woken) = Registered::new(server, document);
                (Some(registered), woken)
            }
            false => (None, crossbeam_channel::never()),
        };
        let doorbell = &server.connections().doorbell;
        let doorbell = options.doorbell.then(|| Arc::clone(doorbell));
        let (commands, inbox) = crossbeam_channel::unbounded();
        let (events, receiver) = Events::new();
        let mut worker = Worker {
            server: server.clone(),
            document: document.to_owned(),
            bell: Bell::new(server, document),
            requests: requests.clone(),
            options: options.clone(),
            shared: Arc::clone(&shared),
            inbox,
            woken,
            registered,
            events,
            owner_epoch: None,
            is_following: false,
            trouble: None,
            not_before: Instant::now(),
            ended: Ok(()),
        };
        let thread = std::thread::Builder::new().name("doclock-member".into());
        let spawned = thread.spawn(move || {
            worker.seen(looked);
            worker.run(follower);
        });
        spawned.map_err(PostgresError::thread)?;
        Ok(Self(Arc::new(Handle {
            document: document.to_owned(),
            shared,
            commands,
            events: receiver,
            doorbell,
            bell: Bell::new(server, document),
            requests,
            options,
        })))
    }

    /// Returns the name of the document.
    pub fn document(&self) -> &str {
        &self.0.document
    }

    /// Returns the newest version that this member knows. Never waits for the server.
    ///
    /// A follower has a prefix of the commits in the log, never a part of a commit. After a
    /// failover to a standby that had not received the last commits, the version can go back.
    pub fn snapshot(&self) -> MemberSnapshot {
        let (part, lag, owner) = {
            let state = self.0.shared.state.lock();
            (
                state.part.clone(),
                state.current_at.elapsed(),
                state.owner.clone(),
            )
        };
        match part {
            Part::Follows(snapshot) => MemberSnapshot {
                snapshot,
                lag,
                owner,
            },
            Part::Owns(store, term) => MemberSnapshot {
                // A store in a journal is durable.
                snapshot: store.durable_snapshot().unwrap_or_else(|| store.snapshot()),
                lag: if term.is_owner() { Duration::ZERO } else { lag },
                owner,
            },
        }
    }

    /// Returns the store, if this process owns the document. Its commits are refused after the
    /// term.
    pub fn store(&self) -> Option<DataStore> {
        self.0.shared.state.lock().store()
    }

    /// Waits until this process owns the document, for at most `timeout`; `None` sets no limit.
    /// Returns `None` after that, or when the member has left.
    pub fn wait_store(&self, timeout: impl Into<Option<Duration>>) -> Option<DataStore> {
        // A time that no clock will show is no limit.
        let deadline = timeout
            .into()
            .and_then(|limit| Instant::now().checked_add(limit));
        let mut state = self.0.shared.state.lock();
        loop {
            if let Some(store) = state.store() {
                return Some(store);
            }
            let changed = &self.0.shared.changed;
            match deadline {
                _ if state.has_left => return None,
                None => changed.wait(&mut state),
                Some(deadline) if Instant::now() >= deadline => return None,
                Some(deadline) => drop(changed.wait_until(&mut state, deadline)),
            }
        }
    }

    /// Returns the events of this member. An event reaches one of the receivers. Of unread events,
    /// the last 256 are kept.
    pub fn events(&self) -> &Receiver<MemberEvent> {
        &self.0.events
    }

    /// Returns whether the server wakes this member when something changes. Otherwise the member
    /// polls. It takes a moment after the first member of a process has joined.
    pub fn has_doorbell(&self) -> bool {
        let doorbell = self.0.doorbell.as_ref();
        doorbell.is_some_and(|doorbell| doorbell.is_listening())
    }

    /// Gives the document to another member: waits until all commits are durable, closes the store
    /// and gives the lease back. This member follows from then on. If no other one has become the
    /// owner after the length of a term, this one does again.
    ///
    /// Blocks until the server has confirmed it, for at most about a term after the last commit. A
    /// request of another machine that waits in the queue of the store runs before that.
    ///
    /// # Errors
    ///
    /// [`MemberError`]: this process is not the owner, has left, has lost the term meanwhile, or
    /// the server has not confirmed it. In each case it is not the owner any more.
    pub fn hand_over(&self) -> Result<(), MemberError> {
        self.command(Command::HandOver, None)
    }

    /// Leaves the document: hands it over if this process is the owner, and ends the thread. The
    /// last snapshot can still be read. Does nothing if the member has left.
    ///
    /// Blocks until the server has confirmed it, and while it does not answer for at most ten
    /// seconds or twice a term.
    ///
    /// # Errors
    ///
    /// As [`hand_over`](Self::hand_over), apart from [`MemberError::NotOwner`]. The member has left
    /// in each case.
    pub fn leave(&self) -> Result<(), MemberError> {
        match self.command(Command::Leave, None) {
            Err(MemberError::Left { .. }) => Ok(()),
            left => left,
        }
    }

    fn command(
        &self,
        command: fn(Reply) -> Command,
        limit: Option<Duration>,
    ) -> Result<(), MemberError> {
        self.0.command(command, limit)
    }
}

impl Handle {
    fn command(
        &self,
        command: fn(Reply) -> Command,
        limit: Option<Duration>,
    ) -> Result<(), MemberError> {
        let left = || MemberError::Left {
            document: self.document.clone(),
        };
        let (reply, answer) = crossbeam_channel::bounded(1);
        self.commands.send(command(reply)).map_err(|_| left())?;
        let answer = match limit {
            None => answer.recv().ok(),
            Some(limit) => answer.recv_timeout(limit).ok(),
        };
        answer.ok_or_else(left)?
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // Nothing is left to report a failure to.
        let _ = self.command(Command::Leave, Some(DROP));
    }
}

impl State {
    fn store(&self) -> Option<DataStore> {
        match &self.part {
            Part::Owns(store, _) => Some(store.clone()),
            Part::Follows(_) => None,
        }
    }
}

/// What troubles a follower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    /// The server does not answer.
    Server,
    /// The log cannot be read.
    Log,
}

/// The thread of a member.
struct Worker {
    server: Postgres,
    document: String,
    options: MemberOptions,
    shared: Arc<Shared>,
    inbox: Receiver<Command>,
    /// Rings.
    woken: Receiver<()>,
    registered: Option<Registered>,
    bell: Bell,
    requests: Requests,
    events: Events,
    /// The epoch of the last owner that was seen.
    owner_epoch: Option<u64>,
    /// Whether it has told that it follows.
    is_following: bool,
    trouble: Option<Trouble>,
    /// It does not try to become the owner before that.
    not_before: Instant,
    /// How the last term ended.
    ended: Result<(), MemberError>,
}

impl Drop for Worker {
    /// Also after a panic, for example in the progress callback of the options.
    fn drop(&mut self) {
        self.shared.end();
    }
}

/// Why a member stops to follow.
enum Next {
    Own(Box<(Term, PostgresJournal)>),
    Leave(Option<Reply>),
}

impl Worker {
    fn run(mut self, mut follower: Follower) {
        let reply = loop {
            match self.follow(&mut follower) {
                Next::Leave(reply) => break reply,
                Next::Own(owned) => {
                    let (term, journal) = *owned;
                    if let Some(reply) = self.own(&mut follower, term, journal) {
                        break Some(reply);
                    }
                }
            }
        };
        drop(self.registered.take());
        // It is forgotten after a minute anyway.
        let _ = follower.forget();
        let document = self.document.clone();
        self.tell(MemberEvent::Left { document });
        let ended = std::mem::replace(&mut self.ended, Ok(()));
        drop(self);
        if let Some(reply) = reply {
            let _ = reply.send(ended);
        }
    }

    fn tell(&self, event: MemberEvent) {
        self.events.tell(event);
    }

    /// Follows until this member acquires the document or leaves it.
    fn follow(&mut self, follower: &mut Follower) -> Next {
        let (least, most) = self.options.poll;
        let mut interval = least;
        loop {
            let pause = match follower.look() {
                Ok(looked) => {
                    interval = match looked.is_changed {
                        true => least,
                        false => interval.saturating_mul(2).min(most),
                    };
                    let remaining = looked.holder.as_ref().map(|holder| holder.remaining());
                    self.seen(looked);
                    let until_free = self.until_free(follower, remaining);
                    if until_free == Some(Duration::ZERO) {
                        if let Some(owned) = self.try_acquire(follower) {
                            return Next::Own(Box::new(owned));
                        }
                        interval = least;
                    }
                    let until_free = until_free.filter(|until| !until.is_zero());
                    let until_free = until_free.map(|until| until + self.jitter());
                    until_free.map_or(interval, |until| until.min(interval))
                }
                Err(error) => {
                    // The blocks before the error are applied.
                    self.failed(error);
                    interval = interval.saturating_mul(2).min(most);
                    interval
                }
            };
            if let Err(error) = follower.keep() {
                self.failed(error.into());
            }
            select! {
                recv(self.inbox) -> command => match command {
                    Ok(Command::HandOver(reply)) => {
                        let document = self.document.clone();
                        let _ = reply.send(Err(MemberError::NotOwner { document }));
                    }
                    Ok(Command::Leave(reply)) => return Next::Leave(Some(reply)),
                    Err(_) => return Next::Leave(None),
                },
                recv(self.woken) -> _ => self.requests.wake(),
                default(pause) => {}
            }
        }
    }

    /// How long this member waits before it tries to become the owner: zero for now, and `None` if
    /// it never does.
    fn until_free(&self, follower: &Follower, remaining: Option<Duration>) -> Option<Duration> {
        if self.options.follows_only {
            return None;
        }
        let now = Instant::now();
        let until = |at: Instant| at.saturating_duration_since(now);
        // The server compares the end of the lease with its clock, a moment later.
        let past = Duration::from_millis(1);
        let expires = match remaining {
            None | Some(Duration::ZERO) => Duration::ZERO,
            Some(remaining) => remaining.saturating_add(past),
        };
        let old = follower.seen.old_at(self.options.term.term).map(until);
        let free = old.map_or(expires, |old| old.min(expires));
        Some(free.max(until(self.not_before)))
    }

    /// A little time, so that not all candidates ask at once.
    fn jitter(&self) -> Duration {
        let most = Duration::from_millis(20).min(self.options.term.term / 50);
        let random = RandomState::new().build_hasher().finish();
        most.mul_f64((random % 1000) as f64 / 1e3)
    }

    fn try_acquire(&mut self, follower: &Follower) -> Option<(Term, PostgresJournal)> {
        let (options, seen) = (self.options.term.clone(), follower.seen.clone());
        match self.server.try_acquire_after(&self.document, options, seen) {
            Ok(owned) => Some(owned),
            // Another candidate was faster.
            Err(PostgresError::Held { .. }) => None,
            Err(error) if error.is_passing() => {
                self.failed(error.into());
                None
            }
            Err(error) => {
                self.takeover_failed(error.into());
                None
            }
        }
    }

    /// Shows what a look has found.
    fn seen(&mut self, looked: Looked) {
        let document = || self.document.clone();
        let version = looked.snapshot.version();
        if self.trouble == Some(Trouble::Server) {
            let document = document();
            self.tell(MemberEvent::ServerReachable { document });
        }
        if let Some((from, cause)) = looked.reloaded {
            self.tell(MemberEvent::Reloaded {
                document: document(),
                from,
                version,
                cause,
            });
        }
        if !self.is_following {
            let document = document();
            self.tell(MemberEvent::Following { document, version });
        }
        let holder = looked.holder.filter(|holder| holder.remaining > 0.0);
        let owner = holder.map(|holder| DocumentOwner {
            owner: holder.owner,
            address: holder.address,
            epoch: holder.epoch.unsigned_abs(),
        });
        if let Some(owner) = owner.clone()
            && self.owner_epoch != Some(owner.epoch)
        {
            let document = document();
            self.owner_epoch = Some(owner.epoch);
            self.tell(MemberEvent::NewOwner { document, owner });
        }
        (self.trouble, self.is_following) = (None, true);
        self.shared
            .set(Part::Follows(looked.snapshot), looked.at, owner);
    }

    fn failed(&mut self, cause: MemberError) {
        let document = self.document.clone();
        let (trouble, event) = match is_of_server(&cause) {
            true => {
                let event = MemberEvent::ServerUnreachable { document, cause };
                (Trouble::Server, event)
            }
            false => (Trouble::Log, MemberEvent::FollowFailed { document, cause }),
        };
        if self.trouble != Some(trouble) {
            self.trouble = Some(trouble);
            self.tell(event);
        }
    }

    fn takeover_failed(&mut self, cause: MemberError) {
        self.wait_for_others();
        self.tell(MemberEvent::TakeoverFailed {
            document: self.document.clone(),
            cause,
            pause: self.options.term.term,
        });
    }

    /// Leaves the document to other candidates for a term.
    fn wait_for_others(&mut self) {
        self.not_before = Instant::now() + self.options.term.term;
    }
}
