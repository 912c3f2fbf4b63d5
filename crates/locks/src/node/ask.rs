//! Requests for nodes, and waits for them.

use std::cell::Cell;
use std::convert::Infallible;
use std::io;
use std::sync::Arc;

use super::{NodeSet, Refused, Scope, Tree};
use crate::fifo::Answer;
use crate::id::FencingToken;
use crate::queue::CapacityPart;
use crate::request::{Request, RequestSource, Waiting};
use crate::state::{LockState, MakeRequest, RequestPosition, Requested};
use crate::time::{Deadline, MonotonicTime};
use crate::wait::{HowToWait, Wait, WaiterKind};
use crate::{AcquireOptions, FifoLock, Grant, LockError, Requester, blocking};

#[doc(hidden)]
impl FifoLock {
    /// Locks nodes, all or none, and waits if needed. The request joins the queues of all its nodes
    /// in one step.
    #[inline(always)]
    pub fn grant_nodes(
        &self,
        requester: &Requester<'_>,
        options: &AcquireOptions,
        scope: Scope,
        tree: &dyn Tree,
    ) -> Result<Grant, LockError> {
        match self.try_grant_nodes(requester, options, scope)? {
            Ok(grant) => Ok(grant),
            Err(scope) => self.grant_nodes_beside(requester, options, &scope, tree),
        }
    }

    #[inline(never)]
    fn grant_nodes_beside(
        &self,
        requester: &Requester<'_>,
        options: &AcquireOptions,
        scope: &Scope,
        tree: &dyn Tree,
    ) -> Result<Grant, LockError> {
        let mut request = NodeRequest::new(self, WaiterKind::Thread, options);
        match request.for_nodes(requester, scope, tree)? {
            Ok(grant) => Ok(grant),
            Err(wait) => blocking(request.settle(wait, requester, scope, tree)),
        }
    }

    /// Locks nodes if the lock is free; otherwise returns them.
    #[inline(always)]
    fn try_grant_nodes(
        &self,
        requester: &Requester<'_>,
        options: &AcquireOptions,
        scope: Scope,
    ) -> Result<Result<Grant, Scope>, LockError> {
        if options.is_cancelled() {
            return Err(self.cancelled(requester, CapacityPart::Share));
        }
        let Some(mut state) = self.0.lock_if_free() else {
            return Ok(Err(scope));
        };
        state.source().assign(requester);
        Ok(Ok(self
            .0
            .take(&mut state, requester.hold_limit, || Some(scope))))
    }

    /// Locks nodes as [`grant_nodes`](Self::grant_nodes) does, for a thread or a task.
    pub async fn grant_nodes_as(
        &self,
        waits_as: WaiterKind,
        requester: &Requester<'_>,
        options: &AcquireOptions,
        scope: Scope,
        tree: &dyn Tree,
    ) -> Result<Grant, LockError> {
        match self.try_grant_nodes(requester, options, scope)? {
            Ok(grant) => Ok(grant),
            Err(scope) => {
                let mut request = NodeRequest::new(self, waits_as, options);
                match request.for_nodes(requester, &scope, tree)? {
                    Ok(grant) => Ok(grant),
                    Err(wait) => request.settle(wait, requester, &scope, tree).await,
                }
            }
        }
    }

    /// Returns the description of the request of this grant on nodes.
    #[cold]
    fn source_of(&self, grant: Grant) -> Result<RequestSource, LockError> {
        let id = grant.id();
        self.0.step(|state| {
            let source = state.hold_of(id).map(|hold| hold.source.clone());
            source.ok_or_else(|| LockError::Revoked {
                id,
                waiter: state.revoked_for(id),
            })
        })
    }

    /// Returns the last fencing token of a grant on nodes. It is later than that of `grant` if the
    /// future of an extension was dropped or forgotten after its nodes were granted.
    pub fn token_of(&self, grant: Grant) -> FencingToken {
        self.0.step(|state| {
            let hold = state.hold_of(grant.id());
            hold.map_or(grant, |hold| hold.grant).token
        })
    }

    /// Locks more nodes for a holder of nodes, all or none, and returns the grant with its new
    /// number. The holder keeps its earlier nodes in any case.
    pub async fn extend_nodes(
        &self,
        waits_as: WaiterKind,
        grant: Grant,
        options: &AcquireOptions,
        scope: &Scope,
        tree: &dyn Tree,
        refused: Refused,
    ) -> Result<Grant, LockError> {
        if options.is_cancelled() {
            let source = self.source_of(grant)?;
            return Err(self.cancelled(&source.requester(), CapacityPart::Share));
        }
        let mut request = NodeRequest::new(self, waits_as, options);
        loop {
            if let Err(error) = request.attend() {
                return Err(LockError::no_keeper(&self.source_of(grant)?.owner, &error));
            }
            let clock = &self.0.clock;
            let asked = request.ask(None, scope, tree, |state, locks, how, request| {
                state.request_more_nodes(grant, (scope, locks), how, request, clock, refused)
            });
            // Ancestors that the nodes got during the wait are locked too. Then no other owner can
            // move the nodes: a move needs the locks that are held by now.
            match asked? {
                Ok(extended) => return Ok(extended),
                Err(wait) => {
                    let (extended, has_moved) = request.wait(wait, tree).await?;
                    if !has_moved {
                        return Ok(extended);
                    }
                }
            };
        }
    }
}

/// A request for nodes, with its options. The time of its wait begins with the first wait.
struct NodeRequest<'a> {
    lock: &'a FifoLock,
    waits_as: WaiterKind,
    options: &'a AcquireOptions,
    /// How it waits, if it must. `None` before its first wait.
    how: Option<HowToWait>,
}

/// A wait for nodes that has begun.
struct NodesWait {
    request: Arc<Request<Infallible>>,
    wait: Wait<RequestPosition>,
    /// The version in which the ancestors of the nodes were looked up; `None` for several.
    version: Option<u64>,
}

impl<'a> NodeRequest<'a> {
    fn new(lock: &'a FifoLock, waits_as: WaiterKind, options: &'a AcquireOptions) -> Self {
        Self {
            lock,
            waits_as,
            options,
            how: None,
        }
    }

    /// Returns how it waits, if it must, from a time on.
    fn how(&mut self, now: impl FnOnce() -> MonotonicTime) -> HowToWait {
        let (lock, options) = (&self.lock.0, self.options);
        *self.how.get_or_insert_with(|| {
            lock.how_to_wait_until(options, |limit| Deadline::after(limit, now()))
        })
    }

    /// Lets the keeper serve the queue, if a task may wait.
    #[inline]
    fn attend(&mut self) -> io::Result<()> {
        match self.waits_as {
            WaiterKind::Thread => Ok(()),
            WaiterKind::Task => {
                let clock = &self.lock.0.clock;
                let how = self.how(|| clock.now());
                self.waits_as.attend(&self.lock.0, !how.is_at_once())
            }
        }
    }

    /// Takes a step that makes a request. Returns the grant, or the wait.
    ///
    /// The timeout begins before the request is in a queue: threads that see it there rely on that.
    fn ask(
        &mut self,
        requester: Option<&Requester<'_>>,
        scope: &Scope,
        tree: &dyn Tree,
        ask: impl FnOnce(
            &mut LockState,
            &dyn Fn(&mut NodeSet),
            HowToWait,
            MakeRequest<'_>,
        ) -> Result<Requested, LockError>,
    ) -> Result<Result<Grant, NodesWait>, LockError> {
        let (shared, waits_as) = (&self.lock.0, self.waits_as);
        // The first request of a thread lists the thread: not under the mutex.
        waits_as.thread();
        // Without its deadline, which it needs when it waits.
        let (begun, how) = (|_| Some(Deadline::PASSED), self.how);
        let how = how.unwrap_or_else(|| shared.how_to_wait_until(self.options, begun));
        let is_timed = |state: &LockState| state.is_timed_for(requester, how);
        shared.step_if_timed(is_timed, |state| {
            let mut made = None;
            let mut make = |requester: &Requester<'_>, now| {
                let waits = Some((waits_as, self.how(|| now).deadline));
                let request = Arc::new(Request::new(requester, None, waits));
                made = Some(Arc::clone(&request));
                request as Arc<dyn Waiting>
            };
            let version = Cell::new(None);
            let locks = |set: &mut NodeSet| version.set(scope.add_with_intentions(tree, set));
            Ok(match ask(state, &locks, how, &mut make)? {
                Requested::Granted(grant) => Ok(grant),
                Requested::Waits(waiting_at) => {
                    let request = made.expect("a request that waits is made");
                    let how = self.how(|| state.now);
                    let wait = shared.wait_as(state, waiting_at, waits_as, how);
                    Err(NodesWait {
                        request,
                        wait,
                        version: version.get(),
                    })
                }
            })
        })
    }

    /// Waits for the answer to a request. Also returns whether nodes may have moved meanwhile: no
    /// other owner can move these now.
    async fn wait(&self, begun: NodesWait, tree: &dyn Tree) -> Result<(Grant, bool), LockError> {
        let NodesWait {
            request,
            wait,
            version,
        } = begun;
        let mut work = None;
        let answer = self
            .lock
            .answer_to(self.waits_as, self.options, &request, &mut work, wait);
        let Answer::Granted(grant) = answer.await?;
        Ok((grant, version != Some(tree.version())))
    }

    /// Requests the nodes of a request that holds none. The step that locks them also looks up
    /// their ancestors.
    fn for_nodes(
        &mut self,
        requester: &Requester<'_>,
        scope: &Scope,
        tree: &dyn Tree,
    ) -> Result<Result<Grant, NodesWait>, LockError> {
        let attended = self.attend();
        attended.map_err(|error| LockError::no_keeper(requester.owner, &error))?;
        let clock = &self.lock.0.clock;
        self.ask(
            Some(requester),
            scope,
            tree,
            |state, locks, how, request| {
                state.downgrade(tree);
                state.request_nodes(requester, locks, how, request, clock)
            },
        )
    }

    /// Waits until the nodes are locked, and their ancestors, wherever they are by then.
    async fn settle(
        &mut self,
        mut wait: NodesWait,
        requester: &Requester<'_>,
        scope: &Scope,
        tree: &dyn Tree,
    ) -> Result<Grant, LockError> {
        let lock = self.lock;
        loop {
            let (grant, has_moved) = self.wait(wait, tree).await?;
            if !has_moved {
                return Ok(grant);
            }
            if let Some(grant) = lock.0.step(|state| state.follow(grant, scope, tree)) {
                return Ok(grant);
            }
            // Nodes were moved, and their new ancestors are locked. A request that holds nothing
            // closes no cycle.
            lock.leave_grant(grant.id());
            match self.for_nodes(requester, scope, tree)? {
                Ok(grant) => return Ok(grant),
                Err(next) => wait = next,
            }
        }
    }
}
