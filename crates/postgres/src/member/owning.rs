//! Owning: the store of a term, until the term ends.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Sender, select};
use doclock::DataStore;
use doclock::durable::{Journal, JournalError, JournalWrite, StoredPart, TakeoverError};

use super::doorbell::Bell;
use super::following::Follower;
use super::shared::MemberRole;
use super::worker::{MemberCommand, Reply, Worker};
use super::{MemberError, MemberEvent};
use crate::{DocumentOwner, OwnerEvent, PostgresJournal, RequestRunner, RunnerEnded, Term};

/// How long the last event of a lost term is waited for.
const LAST_EVENT: Duration = Duration::from_millis(100);

/// The journal of an owner, which rings for each write.
struct RingingJournal {
    journal: PostgresJournal,
    bell: Option<Bell>,
    /// Has the error after a failure. Without a sender, the store is closed.
    failed: Sender<JournalError>,
}

impl Journal for RingingJournal {
    fn load(
        &mut self,
        part: &mut dyn FnMut(StoredPart<'_>) -> Result<(), JournalError>,
    ) -> Result<(), JournalError> {
        self.journal.load(part)
    }

    fn load_after(
        &mut self,
        block: u64,
        key: &str,
        part: &mut dyn FnMut(StoredPart<'_>) -> Result<(), JournalError>,
    ) -> Result<(), JournalError> {
        self.journal.load_after(block, key, part)
    }

    fn write(&mut self, write: &JournalWrite) -> Result<(), JournalError> {
        match self.journal.write(write) {
            Ok(()) => {
                if let Some(bell) = &self.bell {
                    bell.ring(write.version);
                }
                Ok(())
            }
            Err(error) => {
                let _ = self.failed.try_send(error.clone());
                Err(error)
            }
        }
    }

    fn epoch(&self) -> Option<u64> {
        self.journal.epoch()
    }
}

impl Worker {
    /// Opens the store in a term and keeps it until the term ends. Returns where a call waits that
    /// ended the membership.
    pub(super) fn own(
        &mut self,
        follower: &mut Follower,
        term: Term,
        journal: PostgresJournal,
    ) -> Option<Reply> {
        let replica = follower.take_replica()?;
        let (failed, has_failed) = crossbeam_channel::bounded(1);
        let bell = self.registered.is_some().then(|| self.bell.clone());
        let journal = RingingJournal {
            journal,
            bell,
            failed,
        };
        let store = match replica.into_store(journal, self.options.durable.clone()) {
            Ok(store) => store,
            Err(TakeoverError { cause, replica, .. }) => {
                if let Some(replica) = replica {
                    follower.put_back(*replica);
                }
                self.takeover_failed(cause.into());
                // If that fails too, the lease ends by itself.
                let _ = term.hand_over();
                return None;
            }
        };
        let term = Arc::new(term);
        let owner = DocumentOwner {
            owner: self.options.term.owner.clone(),
            address: self.options.term.address.clone(),
            epoch: term.epoch(),
        };
        self.owner_epoch = Some(owner.epoch);
        let role = MemberRole::Owns(store.clone(), Arc::clone(&term));
        self.shared.set(role, Instant::now(), Some(owner));
        let mut runner = self.run_requests(&store, &term);
        let mut refuses_requests = false;
        let leaves = loop {
            select! {
                recv(self.inbox) -> command => match command {
                    Ok(MemberCommand::HandOver(reply)) => {
                        stop(runner);
                        let ended = self.give_up(&store, &term);
                        let _ = reply.send(ended);
                        break None;
                    }
                    Ok(MemberCommand::Leave(reply)) => {
                        stop(runner);
                        self.ended = self.give_up(&store, &term);
                        break Some(reply);
                    }
                    Err(_) => {
                        stop(runner);
                        let _ = self.give_up(&store, &term);
                        break Some(crossbeam_channel::bounded(1).0);
                    }
                },
                // A ring of its own, or of a request.
                recv(self.woken) -> _ => {
                    self.requests.wake();
                    if let Some(runner) = &runner {
                        runner.wake();
                    }
                },
                recv(term.events()) -> event => match event {
                    Ok(OwnerEvent::Renewed { took, .. }) => {
                        let now = Instant::now();
                        self.shared.current(now.checked_sub(took).unwrap_or(now));
                        match runner.as_ref().map(RequestRunner::ended) {
                            // It runs, or the end of the term has an event of its own.
                            Some(None | Some(RunnerEnded::Term)) => {}
                            // A store that keeps no results would run a request again with each
                            // runner.
                            Some(Some(RunnerEnded::Store { .. })) if refuses_requests => {}
                            Some(Some(cause @ RunnerEnded::Store { .. })) => {
                                refuses_requests = true;
                                self.requests_failed(Some(cause));
                            }
                            ended => {
                                self.requests_failed(ended.flatten());
                                runner = self.run_requests(&store, &term);
                            }
                        }
                    }
                    Ok(event) => {
                        let is_lost = matches!(event, OwnerEvent::Lost { .. });
                        self.tell(MemberEvent::Owner(event));
                        if is_lost {
                            // The event says why.
                            let _ = self.step_down(&store);
                            break None;
                        }
                    }
                    Err(_) => break None,
                },
                recv(has_failed) -> failure => {
                    // A lost term is no failure of the store, and has an event of its own.
                    if term.is_owner() {
                        self.tell(MemberEvent::StoreEnded {
                            document: self.document.clone(),
                            cause: failure.ok(),
                        });
                    }
                    let _ = self.give_up(&store, &term);
                    break None;
                }
            }
        };
        self.is_following = false;
        leaves
    }

    /// Runs the requests of other machines.
    fn run_requests(&self, store: &DataStore, term: &Term) -> Option<RequestRunner> {
        let (managers, of_store) = (self.options.managers.clone(), store.clone());
        let shared = Arc::clone(&self.shared);
        let make = move |owner: &str| {
            // Before code of the program runs in this thread.
            shared.state.lock().of_requests = Some(std::thread::current().id());
            managers.make(of_store.clone(), owner)
        };
        let bell = self.registered.is_some().then(|| self.bell.clone());
        let heard = bell.clone();
        let (requests, version) = (self.requests.clone(), store.version());
        let settled = move || {
            requests.wake();
            if let Some(bell) = &bell {
                bell.ring(version);
            }
        };
        let is_heard = move || heard.as_ref().is_some_and(Bell::is_heard);
        let options = self.options.requests.clone();
        match RequestRunner::start_with(term, options, make, settled, is_heard) {
            Ok(runner) => Some(runner),
            Err(cause) => {
                self.requests_failed(Some(RunnerEnded::Server { cause }));
                None
            }
        }
    }

    fn requests_failed(&self, cause: Option<RunnerEnded>) {
        if let Some(cause) = cause {
            let document = self.document.clone();
            self.tell(MemberEvent::RequestsFailed { document, cause });
        }
    }

    /// Ends the store for the program, and shows followers' versions from now on.
    fn step_down(&mut self, store: &DataStore) -> Result<(), MemberError> {
        let show = |worker: &Self| {
            if let Some(durable) = store.durable_snapshot() {
                worker.shared.follow(durable);
            }
        };
        show(self);
        // Commits that wait are stored, or have the error of the journal.
        let closed = store.close();
        show(self);
        closed.map(drop).map_err(MemberError::from)
    }

    /// Stores what waits, closes the store and gives the lease back.
    fn give_up(&mut self, store: &DataStore, term: &Term) -> Result<(), MemberError> {
        let closed = self.step_down(store);
        let handed_over = term.hand_over();
        let lost = term.lost();
        if lost.is_none() {
            // Another candidate takes it, if there is one.
            self.wait_for_others();
            if self.registered.is_some() {
                self.bell
                    .ring_now(store.durable_snapshot().map(|it| it.version()).unwrap_or(0));
            }
        }
        // Another thread may be about to report the loss.
        let moment = lost.as_ref().map_or(Duration::ZERO, |_| LAST_EVENT);
        while let Ok(event) = term.events().recv_timeout(moment) {
            let is_last = matches!(event, OwnerEvent::Lost { .. });
            if !matches!(event, OwnerEvent::Renewed { .. }) {
                self.tell(MemberEvent::Owner(event));
            }
            if is_last {
                break;
            }
        }
        closed?;
        handed_over?;
        match lost {
            None => Ok(()),
            Some(reason) => Err(MemberError::TermLost {
                document: self.document.clone(),
                epoch: term.epoch(),
                reason,
            }),
        }
    }
}

/// Waits for the batch that runs. Its commit is then stored with the last ones.
fn stop(runner: Option<RequestRunner>) {
    if let Some(runner) = runner {
        let _ = runner.stop();
    }
}
