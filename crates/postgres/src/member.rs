//! A member: the part of one process in a document that several machines share.

mod doorbell;
mod event;
mod execute;
mod following;
mod options;
mod owning;
mod shared;
mod worker;

use std::fmt;
use std::sync::Arc;
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender};
use doclock::{DataStore, Snapshot};

use crate::random::random;
use crate::{Postgres, PostgresError, Requests};
pub(crate) use doorbell::Doorbell;
use doorbell::{Bell, DoorbellRegistration};
use event::Events;
pub use event::{DocumentOwner, MemberError, MemberEvent};
use following::Follower;
pub use options::MemberOptions;
use shared::{MemberRole, SharedMember};
use worker::{MemberCommand, Reply, Worker};

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
pub struct Member(Arc<MemberInner>);

struct MemberInner {
    server: Postgres,
    document: String,
    shared: Arc<SharedMember>,
    /// The thread of the member.
    thread: ThreadId,
    commands: Sender<MemberCommand>,
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
    /// monotonic clock of this process, which does not count the time that the machine sleeps.
    ///
    /// It is zero for an owner as long as its term lasts. The snapshot then has all commits that
    /// its store has acknowledged. The log can be ahead of it by the commits of one write: the
    /// one whose answer has not come yet. If they are those of requests, other machines can have
    /// their outcomes already. After the term the time counts from the last renewal, as of which
    /// the same holds, until this member follows.
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
        let owner: String = options.term.owner.chars().take(50).collect();
        let name = format!("{owner}-{:016x}", random());
        let mut follower = Follower::new(server, document, name, &options)?;
        let update = follower.look()?;
        let shared = Arc::new(SharedMember::new(update.snapshot.clone(), update.at));
        let (registered, woken) = match options.doorbell {
            true => {
                let (registered, woken) = DoorbellRegistration::new(server, document);
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
            failure: None,
            not_before: Instant::now(),
            yields_until: Instant::now(),
            ended: Ok(()),
        };
        let thread = std::thread::Builder::new().name("doclock-member".into());
        let spawned = thread.spawn(move || {
            worker.seen(update);
            worker.run(follower);
        });
        let spawned = spawned.map_err(PostgresError::thread)?;
        Ok(Self(Arc::new(MemberInner {
            server: server.clone(),
            document: document.to_owned(),
            shared,
            thread: spawned.thread().id(),
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
        let (role, lag, owner) = {
            let state = self.0.shared.state.lock();
            (
                state.role.clone(),
                state.current_at.elapsed(),
                state.owner.clone(),
            )
        };
        match role {
            MemberRole::Follows(snapshot) => MemberSnapshot {
                snapshot,
                lag,
                owner,
            },
            MemberRole::Owns(store, term) => MemberSnapshot {
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
    /// request of another machine that waits in the queue of the store is left to the next owner.
    ///
    /// # Errors
    ///
    /// [`MemberError`]: this process is not the owner, has left, has lost the term meanwhile, or
    /// the server has not confirmed it. In each case it is not the owner any more.
    ///
    /// [`MemberError::OwnThread`] if a hook of a request calls this, or the progress callback of
    /// the options. Then nothing has changed. A hook of a local batch may call it. That batch is
    /// not stored, and [`execute`](Self::execute) requests it of the next owner.
    pub fn hand_over(&self) -> Result<(), MemberError> {
        self.command(MemberCommand::HandOver, None)
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
    /// in each case, apart from [`MemberError::OwnThread`].
    pub fn leave(&self) -> Result<(), MemberError> {
        match self.command(MemberCommand::Leave, None) {
            Err(MemberError::Left { .. }) => Ok(()),
            left => left,
        }
    }

    fn command(
        &self,
        command: fn(Reply) -> MemberCommand,
        limit: Option<Duration>,
    ) -> Result<(), MemberError> {
        self.0.command(command, limit)
    }
}

impl MemberInner {
    fn command(
        &self,
        command: fn(Reply) -> MemberCommand,
        limit: Option<Duration>,
    ) -> Result<(), MemberError> {
        let document = || self.document.clone();
        let caller = std::thread::current().id();
        // The command ends when the batch of a request has ended.
        let waits_for = [Some(self.thread), self.shared.state.lock().of_requests];
        if waits_for.contains(&Some(caller)) {
            let document = document();
            return Err(MemberError::OwnThread { document });
        }
        let left = || MemberError::Left {
            document: document(),
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

impl Drop for MemberInner {
    fn drop(&mut self) {
        // Nothing is left to report a failure to. The member also leaves when its commands end.
        let _ = self.command(MemberCommand::Leave, Some(DROP));
    }
}
