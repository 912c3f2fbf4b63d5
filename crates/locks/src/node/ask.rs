//! Requests for nodes, and waits for them.

use std::convert::Infallible;
use std::sync::Arc;

use super::{Scope, Tree};
use crate::fifo::Answer;
use crate::id::FencingToken;
use crate::queue::CapacityPart;
use crate::request::RequestSource;
use crate::wait::WaiterKind;
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
            Err(scope) => self.grant_nodes_in_queue(requester, options, &scope, tree),
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
                let asked = self.queue_for_nodes(waits_as, requester, options, &scope, tree);
                asked.await
            }
        }
    }

    #[inline(never)]
    fn grant_nodes_in_queue(
        &self,
        requester: &Requester<'_>,
        options: &AcquireOptions,
        scope: &Scope,
        tree: &dyn Tree,
    ) -> Result<Grant, LockError> {
        blocking(self.queue_for_nodes(WaiterKind::Thread, requester, options, scope, tree))
    }

    async fn queue_for_nodes(
        &self,
        waits_as: WaiterKind,
        requester: &Requester<'_>,
        options: &AcquireOptions,
        scope: &Scope,
        tree: &dyn Tree,
    ) -> Result<Grant, LockError> {
        let (how, mut work) = (self.0.how_to_wait(options), None::<Infallible>);
        loop {
            let asked = self.ask_in_step(
                waits_as,
                requester,
                (options, how),
                &mut work,
                |state, request| {
                    state.downgrade(tree);
                    let set = scope.with_intentions(tree);
                    state.request_nodes(Arc::clone(request) as _, set, how)
                },
            );
            let (Answer::Granted(grant), waited) = asked.await?;
            // Without a wait, the step that locked the nodes also looked up their ancestors.
            if !waited {
                return Ok(grant);
            }
            let settled = self.0.step(|state| state.follow(grant, scope, tree));
            match settled {
                Some(grant) => return Ok(grant),
                // Nodes were moved, and their new ancestors are locked. A request that holds
                // nothing closes no cycle.
                None => self.leave_grant(grant.id()),
            }
        }
    }

    /// Returns the description of the request of this grant on nodes.
    pub fn source_of(&self, grant: Grant) -> Result<RequestSource, LockError> {
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
        requester: &Requester<'_>,
        options: &AcquireOptions,
        scope: &Scope,
        tree: &dyn Tree,
    ) -> Result<Grant, LockError> {
        if options.is_cancelled() {
            return Err(self.cancelled(requester, CapacityPart::Share));
        }
        let (how, mut work) = (self.0.how_to_wait(options), None::<Infallible>);
        loop {
            let asked = self.ask_in_step(
                waits_as,
                requester,
                (options, how),
                &mut work,
                |state, request| {
                    let request = Arc::clone(request) as _;
                    state.request_more_nodes(grant, scope, tree, request, how)
                },
            );
            let (Answer::Granted(extended), waited) = asked.await?;
            // Ancestors that the nodes got during the wait are locked too. Then no other owner can
            // move the nodes: a move needs the locks that are held by now.
            if !waited {
                return Ok(extended);
            }
        }
    }
}
