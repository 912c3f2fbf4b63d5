//! Asking for nodes, and waiting for them.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use super::{NodeHolder, NodeLockStats, NodeWaiter, Scope, Tree};
use crate::lock::request::{Claim, Outcome, Request};
use crate::lock::state::{AskedNodes, HowToWait, Moment, State};
use crate::lock::{AcquireOptions, Asker, FifoLock, Grant, LockError, wait};
use crate::queue::{Part, Party};
use crate::time::Deadline;

/// A limit on waiting with when it will have passed: the same for all that one request has to wait
/// for.
type Limit = Option<(Duration, Deadline)>;

impl FifoLock {
    /// Locks nodes, all or none, after a wait if need be. All of them stand in their lines from one
    /// moment on.
    #[inline(always)]
    pub(crate) fn grant_nodes(
        &self,
        asker: &Asker<'_>,
        options: &AcquireOptions,
        scope: Scope,
        tree: &dyn Tree,
    ) -> Result<Grant, LockError> {
        if let Some(token) = &options.cancel
            && token.is_cancelled()
        {
            return Err(self.refuse_cancelled(asker.owner, Part::Share));
        }
        if let Some(mut state) = self.0.lock_if_free() {
            state.claim().assign(asker);
            return Ok(self.0.take(&mut state, || Some(scope)));
        }
        self.grant_nodes_in_line(asker, options, &scope, tree)
    }

    #[inline(never)]
    fn grant_nodes_in_line(
        &self,
        asker: &Asker<'_>,
        options: &AcquireOptions,
        scope: &Scope,
        tree: &dyn Tree,
    ) -> Result<Grant, LockError> {
        let mut limit = None;
        loop {
            let (grant, waited) =
                self.ask_in_step(asker, options, limit, |state, now, how, request| {
                    state.narrow(tree);
                    state.ask_for_nodes(request, scope.with_intentions(tree), how, now)
                })?;
            // Without a wait the place of each was looked up in the step that locked it.
            if waited.is_none() {
                return Ok(grant);
            }
            let settled = self
                .0
                .step(|state, now| state.follow(grant, scope, tree, now));
            match settled {
                Some(grant) => return Ok(grant),
                // Nodes were moved to where something has to be waited for. Who holds nothing
                // closes no circle.
                None => self.part_from_grant(grant.id()),
            }
            limit = waited;
        }
    }

    /// Who has this grant on nodes.
    pub(crate) fn claim_of(&self, grant: Grant) -> Result<Claim, LockError> {
        self.0.step(|state, _| state.claim_of(grant.id()))
    }

    /// Locks more nodes for somebody who has some, all or none, and returns the grant with its new
    /// number. What it had it keeps in any case.
    pub(crate) fn extend_nodes(
        &self,
        grant: Grant,
        asker: &Asker<'_>,
        options: &AcquireOptions,
        scope: &Scope,
        tree: &dyn Tree,
    ) -> Result<Grant, LockError> {
        if let Some(token) = &options.cancel
            && token.is_cancelled()
        {
            return Err(self.refuse_cancelled(asker.owner, Part::Share));
        }
        let mut limit = None;
        loop {
            let (extended, waited) =
                self.ask_in_step(asker, options, limit, |state, now, how, request| {
                    state.ask_for_more(grant, scope, tree, request, how, now)
                })?;
            if waited.is_none() {
                return Ok(extended);
            }
            // What has come to stand above the nodes while they were waited for is locked too. What
            // stands there afterwards cannot be moved by others: for that they need what is locked
            // then.
            limit = waited;
        }
    }

    /// Takes a step that asks for nodes, and waits if need be. Returns with the grant the limit of
    /// the wait, if there was one.
    fn ask_in_step(
        &self,
        asker: &Asker<'_>,
        options: &AcquireOptions,
        limit: Option<Limit>,
        ask: impl FnOnce(
            &mut State,
            Moment,
            HowToWait,
            Arc<Request<Infallible>>,
        ) -> Result<AskedNodes, LockError>,
    ) -> Result<(Grant, Option<Limit>), LockError> {
        let shared = &self.0;
        let request = Arc::new(Request::new(asker, None));
        let waits = options.limit(shared.timeout.get());
        let how = HowToWait {
            at_once: waits.is_some_and(|limit| limit.is_zero()),
            bound: options.queue_bound,
            priority: options.priority,
        };
        let asked = shared.step(|state, now| {
            Ok(match ask(state, now, how, Arc::clone(&request))? {
                AskedNodes::Granted(grant) => Ok(grant),
                AskedNodes::Waits(stand) => {
                    let limit = limit.unwrap_or_else(|| shared.deadline(waits));
                    Err(shared.wait_as(state, stand, limit, now))
                }
            })
        });
        let wait = match asked? {
            Ok(grant) => return Ok((grant, None)),
            Err(wait) => wait,
        };
        let limit = wait.deadline;
        match wait::wait(shared, &request, options.cancel.as_ref(), wait) {
            Outcome::Granted(grant) => Ok((grant, Some(limit))),
            Outcome::Failed(error) => Err(*error),
            Outcome::Panicked(panic) => panic.resume(),
            Outcome::Done(never) => match never {},
        }
    }

    /// Who has which nodes locked. Others go on meanwhile, however many they are.
    pub(crate) fn node_holders(&self) -> Vec<NodeHolder> {
        self.by_pages(|state, after, now| state.node_holders(after, now.at))
    }

    /// Who waits for which nodes, likewise.
    pub(crate) fn node_waiters(&self) -> Vec<NodeWaiter> {
        self.by_pages(|state, after, now| state.node_waiters(after, now.at))
    }

    fn by_pages<T>(
        &self,
        page: impl Fn(&State, Option<Party>, Moment) -> (Vec<T>, Option<Party>),
    ) -> Vec<T> {
        let mut all = Vec::new();
        let mut after = None;
        loop {
            let (listed, last) = self.0.step(|state, now| page(state, after, now));
            all.extend(listed);
            if last.is_none() {
                return all;
            }
            after = last;
        }
    }

    /// Figures of the locks on nodes.
    pub(crate) fn node_stats(&self) -> NodeLockStats {
        self.0.step(|state, _| state.node_stats())
    }
}
