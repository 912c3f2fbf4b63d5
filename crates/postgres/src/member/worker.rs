//! The thread of a member: it follows, and becomes the owner when the document has none.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, select};

use super::doorbell::{Bell, DoorbellRegistration};
use super::event::{DocumentOwner, Events, MemberError, MemberEvent};
use super::following::{Follower, FollowerUpdate, is_of_server};
use super::options::MemberOptions;
use super::shared::{MemberRole, SharedMember};
use crate::random::random;
use crate::{Postgres, PostgresError, PostgresJournal, Requests, Term};

/// Where a call waits for the end of its command.
pub(super) type Reply = Sender<Result<(), MemberError>>;

pub(super) enum MemberCommand {
    HandOver(Reply),
    Leave(Reply),
}

/// Why a member cannot follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FollowFailure {
    /// The server does not answer.
    Server,
    /// The log cannot be read.
    Log,
}

/// The thread of a member.
pub(super) struct Worker {
    pub(super) server: Postgres,
    pub(super) document: String,
    pub(super) options: MemberOptions,
    pub(super) shared: Arc<SharedMember>,
    pub(super) inbox: Receiver<MemberCommand>,
    /// Rings.
    pub(super) woken: Receiver<()>,
    pub(super) registered: Option<DoorbellRegistration>,
    pub(super) bell: Bell,
    pub(super) requests: Requests,
    pub(super) events: Events,
    /// The epoch of the last owner that was seen.
    pub(super) owner_epoch: Option<u64>,
    /// Whether it has told that it follows.
    pub(super) is_following: bool,
    pub(super) failure: Option<FollowFailure>,
    /// It does not try to become the owner before that, after it could not open the document.
    pub(super) not_before: Instant,
    /// As long, after it has handed the document over, or until another one has had it.
    pub(super) yields_until: Instant,
    /// How the last term ended.
    pub(super) ended: Result<(), MemberError>,
}

impl Drop for Worker {
    /// Also after a panic, for example in the progress callback of the options.
    fn drop(&mut self) {
        self.shared.end();
    }
}

/// Why a member stops to follow.
pub(super) enum FollowEnd {
    Own(Box<(Term, PostgresJournal)>),
    Leave(Option<Reply>),
}

impl Worker {
    pub(super) fn run(mut self, mut follower: Follower) {
        let reply = loop {
            match self.follow(&mut follower) {
                FollowEnd::Leave(reply) => break reply,
                FollowEnd::Own(owned) => {
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

    pub(super) fn tell(&self, event: MemberEvent) {
        self.events.tell(event);
    }

    /// Follows until this member acquires the document or leaves it.
    pub(super) fn follow(&mut self, follower: &mut Follower) -> FollowEnd {
        let (least, most) = self.options.poll;
        let mut interval = least;
        loop {
            let began = Instant::now();
            let update = follower.look();
            // One that cannot read the log does not keep it.
            let can_read = update.is_ok();
            let next = match update {
                Ok(update) => {
                    interval = match update.is_changed {
                        true => least,
                        false => interval.saturating_mul(2).min(most),
                    };
                    let remaining = update.holder.as_ref().map(|holder| holder.remaining());
                    self.seen(update);
                    let until_free = self.until_free(follower, remaining);
                    if until_free == Some(Duration::ZERO) {
                        if let Some(owned) = self.try_acquire(follower) {
                            return FollowEnd::Own(Box::new(owned));
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
            if can_read && let Err(error) = follower.keep() {
                self.failed(error.into());
            }
            select! {
                recv(self.inbox) -> command => match command {
                    Ok(MemberCommand::HandOver(reply)) => {
                        let document = self.document.clone();
                        let _ = reply.send(Err(MemberError::NotOwner { document }));
                    }
                    Ok(MemberCommand::Leave(reply)) => return FollowEnd::Leave(Some(reply)),
                    Err(_) => return FollowEnd::Leave(None),
                },
                recv(self.woken) -> _ => self.requests.wake(),
                // Looks begin at these times, however long they take.
                default(next.saturating_sub(began.elapsed())) => {}
            }
        }
    }

    /// How long this member waits before it tries to become the owner: zero for now, and `None` if
    /// it never does.
    pub(super) fn until_free(
        &self,
        follower: &Follower,
        remaining: Option<Duration>,
    ) -> Option<Duration> {
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
        let old = follower.observed.old_at(self.options.term.term).map(until);
        let free = old.map_or(expires, |old| old.min(expires));
        Some(free.max(until(self.not_before.max(self.yields_until))))
    }

    /// A little time, so that not all candidates ask at once.
    pub(super) fn jitter(&self) -> Duration {
        let most = Duration::from_millis(20).min(self.options.term.term / 50);
        most.mul_f64((random() % 1000) as f64 / 1e3)
    }

    pub(super) fn try_acquire(&mut self, follower: &Follower) -> Option<(Term, PostgresJournal)> {
        let (options, observed) = (self.options.term.clone(), follower.observed.clone());
        match self
            .server
            .try_acquire_after(&self.document, options, observed)
        {
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
    pub(super) fn seen(&mut self, update: FollowerUpdate) {
        let document = || self.document.clone();
        let version = update.snapshot.version();
        if self.failure == Some(FollowFailure::Server) {
            let document = document();
            self.tell(MemberEvent::ServerReachable { document });
        }
        if let Some((from, cause)) = update.reloaded {
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
        let mut owner = None;
        if let Some(holder) = update.holder {
            let seen = DocumentOwner {
                owner: holder.owner,
                address: holder.address,
                epoch: holder.epoch.unsigned_abs(),
            };
            let is_new = self.owner_epoch.replace(seen.epoch) != Some(seen.epoch);
            if is_new {
                self.yields_until = Instant::now();
            }
            // The owner of a lease that has ended may be dead.
            owner = (holder.remaining > 0.0).then_some(seen);
            if let Some(owner) = owner.clone().filter(|_| is_new) {
                let document = document();
                self.tell(MemberEvent::NewOwner { document, owner });
            }
        }
        (self.failure, self.is_following) = (None, true);
        self.shared
            .set(MemberRole::Follows(update.snapshot), update.at, owner);
    }

    pub(super) fn failed(&mut self, cause: MemberError) {
        let document = self.document.clone();
        let (failure, event) = match is_of_server(&cause) {
            true => {
                let event = MemberEvent::ServerUnreachable { document, cause };
                (FollowFailure::Server, event)
            }
            false => (
                FollowFailure::Log,
                MemberEvent::FollowFailed { document, cause },
            ),
        };
        if self.failure != Some(failure) {
            self.failure = Some(failure);
            self.tell(event);
        }
    }

    pub(super) fn takeover_failed(&mut self, cause: MemberError) {
        let pause = self.options.term.term;
        self.not_before = Instant::now() + pause;
        self.tell(MemberEvent::TakeoverFailed {
            document: self.document.clone(),
            cause,
            pause,
        });
    }

    /// Leaves the document to other candidates for a term.
    pub(super) fn wait_for_others(&mut self) {
        self.yields_until = Instant::now() + self.options.term.term;
    }
}
