//! The steps of requests that lock nodes: they share the lock, and have their nodes in a table.
//!
//! Invariants N6 to N8, beside those of the table:
//!
//! 1. A member has a share of the lock from its admission to its end, so a request for the whole
//!    lock waits for it.
//! 2. A holder of the whole lock with a scope is alone. No request for nodes waits in the queue
//!    while it holds: the first one downgrades it.
//! 3. A member waits for nodes if and only if the table says so.

mod inspection;

use std::cell::Cell;

use super::*;
use crate::node::{
    Deadlock, DeadlockLink, Granule, Member, NodeLockStats, NodeWait, RefusedDeadlock, Tree,
};
use crate::queue::{Asked, Link, MemberNumber};

/// The present outcome of a request for nodes.
pub(crate) enum AskedNodes {
    Granted(Grant),
    Waits(RequestPosition),
}

impl LockState {
    // --- Requests ---

    /// Downgrades a holder that is alone and requested nodes only to its nodes.
    pub(crate) fn downgrade(&mut self, tree: &dyn Tree) {
        if !self.held {
            return;
        }
        let Some(scope) = self.holder.scope.take() else {
            return;
        };
        self.held = false;
        self.queue
            .exchange(&CapacityPart::Whole, &CapacityPart::Share);
        let holder = &mut self.holder;
        // The entering thread has recorded the time.
        let since = holder
            .since
            .known()
            .map(|known| known.0)
            .unwrap_or_default();
        let number = holder.grant.id().number;
        let member = Member {
            source: std::mem::replace(&mut holder.source, RequestSource::vacant()),
            grant: Some(holder.grant),
            since,
            exact: holder.since.exact,
            overdue: holder.overdue,
            sealed: holder.sealed,
            asking: None,
            requested: since,
            is_reported: Cell::new(false),
        };
        let nodes = self.nodes.get_or_insert_default();
        nodes.list.insert(number, member);
        let asked = nodes.table.ask(number, scope.with_intentions(tree));
        debug_assert_eq!(asked, Asked::Granted, "it was alone");
    }

    /// Requests nodes for a request that has none yet.
    pub(crate) fn request_nodes(
        &mut self,
        request: Arc<dyn Waiting>,
        set: NodeSet,
        how: HowToWait,
        now: Moment,
    ) -> Result<AskedNodes, LockError> {
        let requester = request.requester();
        self.refuse_reentry(&requester, CapacityPart::Share, now.at)?;
        let admitted = self.queue.try_take(&CapacityPart::Share);
        let nodes = self.nodes.get_or_insert_default();
        let in_the_way = admitted.then(|| nodes.table.in_the_way(0, &set)).flatten();
        if !admitted || in_the_way.is_some() {
            let refused = match how.at_once {
                true => Err(self.would_block(&requester, in_the_way, now.at)),
                false => self.reject_excess(&requester, CapacityPart::Share, how.bound),
            };
            if let Err(error) = refused {
                if admitted {
                    self.queue.give_back(&CapacityPart::Share);
                }
                return Err(error);
            }
        }
        if !admitted {
            let waiting_at = self.join_queue(request, how.priority, Some(Box::new(set)), now.at);
            // It may be ahead of all requests for the whole lock.
            let next = self.grant_next(now, None);
            self.outbox.extend(next);
            return Ok(AskedNodes::Waits(waiting_at));
        }
        let number = self.next_id().number;
        let mut source = RequestSource::vacant();
        source.assign(&requester);
        Ok(match self.enroll(number, source, set, now.at) {
            true => {
                AskedNodes::Granted(self.grant_member(number, now.at, requester.hold_limit, now))
            }
            false => {
                AskedNodes::Waits(self.wait_for_nodes(number, WaitId(number), request, now.at))
            }
        })
    }

    /// Requests more nodes for a member.
    pub(crate) fn request_more_nodes(
        &mut self,
        grant: Grant,
        scope: &Scope,
        tree: &dyn Tree,
        request: Arc<dyn Waiting>,
        how: HowToWait,
        now: Moment,
    ) -> Result<AskedNodes, LockError> {
        let id = grant.id();
        if let Some(held) = self.holder_of(id).and_then(|holder| holder.scope.as_mut()) {
            held.extend(scope.clone());
            self.last_token += 1;
            self.holder.grant.token = FencingToken(self.last_token);
            return Ok(AskedNodes::Granted(self.holder.grant));
        }
        let number = id.number;
        let requester = request.requester();
        let Some(nodes) = self
            .nodes
            .as_mut()
            .filter(|nodes| nodes.list.contains_key(&number))
        else {
            return Err(LockError::Revoked { id });
        };
        if let Some(asking) = &nodes.list[&number].asking {
            // Its future was forgotten, otherwise it would still borrow the guard.
            let forgotten = RequestPosition {
                number,
                wait: asking.wait,
                ticket: None,
            };
            self.withdraw_from_nodes(forgotten, Reason::Cancelled, now);
        }
        let set = scope.with_intentions(tree);
        let nodes = self.nodes.get_or_insert_default();
        let in_the_way = nodes.table.in_the_way(number, &set);
        if in_the_way.is_some() {
            if how.at_once {
                return Err(self.would_block(&requester, in_the_way, now.at));
            }
            self.reject_excess(&requester, CapacityPart::Share, how.bound)?;
        }
        let nodes = self.nodes.get_or_insert_default();
        Ok(match nodes.table.ask(number, set) {
            Asked::Granted => {
                AskedNodes::Granted(self.grant_member(number, now.at, requester.hold_limit, now))
            }
            Asked::Waits => {
                let wait = self.next_wait();
                AskedNodes::Waits(self.wait_for_nodes(number, wait, request, now.at))
            }
            Asked::Refused(cycle) => {
                let refused = Waited::at_once(number, requester, now.at);
                self.record_wait(&refused, TimelineOutcome::Deadlock, now.at);
                return Err(self.deadlock(cycle, now.at));
            }
        })
    }

    /// Returns the description of the request of this grant on nodes.
    pub(crate) fn source_of(&mut self, id: LockId) -> Result<RequestSource, LockError> {
        if let Some(holder) = self.holder_of(id) {
            return Ok(holder.source.clone());
        }
        match self.member(id) {
            Some(member) => Ok(member.source.clone()),
            None => Err(LockError::Revoked { id }),
        }
    }

    /// Returns the last fencing token of a grant on nodes.
    pub(crate) fn token_of(&mut self, grant: Grant) -> FencingToken {
        let id = grant.id();
        let holder = self.holder_of(id).map(|holder| holder.grant);
        let held = holder.or_else(|| self.member(id)?.grant);
        held.unwrap_or(grant).token
    }

    /// Locks the ancestors that the nodes of a new member got while it waited. Then no other owner
    /// can move the nodes: a move needs the locks that are held by now. `None` if that requires
    /// another wait.
    pub(crate) fn follow(
        &mut self,
        grant: Grant,
        scope: &Scope,
        tree: &dyn Tree,
        now: Moment,
    ) -> Option<Grant> {
        let number = grant.id().number;
        if !self.is_member(grant.id()) {
            // It was already revoked, and learns of that as usual.
            return Some(grant);
        }
        let set = scope.with_intentions(tree);
        let nodes = self.nodes.get_or_insert_default();
        if nodes.table.in_the_way(number, &set).is_some() {
            return None;
        }
        let asked = nodes.table.ask(number, set);
        debug_assert_eq!(asked, Asked::Granted, "no lock is in the way");
        // Its limit counts from its first grant.
        Some(self.grant_member(number, now.at, RequestLimit::OfTheLock, now))
    }

    /// Admits a request that has waited in the queue for a share.
    pub(super) fn admit(&mut self, waiter: LockWaiter, set: NodeSet, now: Moment) {
        let wait = waiter.wait();
        let LockWaiter {
            number,
            since,
            request,
            is_reported,
            ..
        } = waiter;
        let mut source = RequestSource::vacant();
        source.assign(&request.requester());
        if self.enroll(number, source, set, now.at) {
            let asking = Asking {
                wait,
                request,
                since,
                is_reported,
            };
            self.observe_grant_of_nodes(number, &asking, now);
            let request = asking.request;
            let limit = request.requester().hold_limit;
            let grant = self.grant_member(number, since, limit, now);
            self.mark_untaken(number, &*request);
            self.outbox
                .push(AfterUnlock::Answer(request, RequestOutcome::Granted(grant)));
        } else {
            self.wait_for_nodes(number, wait, request, since);
            let member = self.member_of_number(number);
            if let Some(asking) = member.and_then(|member| member.asking.as_ref()) {
                asking.is_reported.set(is_reported.get());
            }
        }
    }

    /// Records that a member is about to be granted what it waits for, and reports a long wait.
    fn observe_grant_of_nodes(&mut self, number: u64, asking: &Asking, now: Moment) {
        if self.observed.is_none() {
            return;
        }
        let waited = asking.waited(number, 1);
        self.report_wait(&waited, now);
        // The entry of a first grant is recorded at its end.
        let member = self.member_of_number(number);
        if member.is_some_and(|member| member.grant.is_some()) {
            self.record_wait(&waited, TimelineOutcome::Extended, now.at);
        }
    }

    /// Makes a request a member. Returns whether its whole request is granted.
    fn enroll(
        &mut self,
        number: u64,
        source: RequestSource,
        set: NodeSet,
        now: MonotonicTime,
    ) -> bool {
        let member = Member {
            source,
            grant: None,
            since: now,
            exact: true,
            overdue: None,
            sealed: false,
            asking: None,
            requested: now,
            is_reported: Cell::new(false),
        };
        let nodes = self.nodes.get_or_insert_default();
        nodes.list.insert(number, member);
        match nodes.table.ask(number, set) {
            Asked::Granted => true,
            Asked::Waits => false,
            Asked::Refused(_) => {
                debug_assert!(false, "no member waits for one that has nothing (table)");
                false
            }
        }
    }

    fn wait_for_nodes(
        &mut self,
        number: u64,
        wait: WaitId,
        request: Arc<dyn Waiting>,
        since: MonotonicTime,
    ) -> RequestPosition {
        let nodes = self.nodes.get_or_insert_default();
        if let Some(member) = nodes.list.get_mut(&number) {
            member.asking = Some(Asking {
                wait,
                request,
                since,
                is_reported: Cell::new(false),
            });
            nodes.waiting += 1;
        }
        RequestPosition {
            number,
            wait,
            ticket: None,
        }
    }

    /// Records that a member was granted all that it had requested at `since`. The limit is that of
    /// its first request.
    fn grant_member(
        &mut self,
        number: u64,
        since: MonotonicTime,
        limit: RequestLimit,
        now: Moment,
    ) -> Grant {
        let id = self.id(number);
        self.last_token += 1;
        let overdue = self.overdue(limit, now);
        let granted = Grant::new(id, FencingToken(self.last_token), overdue.is_some());
        let nodes = self.nodes.get_or_insert_default();
        if now.at != since {
            let metrics = &mut nodes.metrics;
            metrics.wait.record_wait(now.at - since, &mut metrics.hold);
        }
        let Some(member) = nodes.list.get_mut(&number) else {
            debug_assert!(false, "only members are granted nodes");
            return granted;
        };
        if let Some(grant) = &mut member.grant {
            grant.token = granted.token;
            // It went ahead of the queue, so more requests may wait for it.
            let (grant, overdue) = (*grant, member.overdue);
            self.watch_holder(overdue);
            return grant;
        }
        nodes.metrics.counts.acquisitions += 1;
        member.grant = Some(granted);
        (member.requested, member.since) = (since, now.at);
        member.overdue = overdue;
        self.watch_holder(overdue);
        granted
    }

    /// Grants the members that the table has served.
    fn grant_served(&mut self, served: impl IntoIterator<Item = MemberNumber>, now: Moment) {
        for number in served {
            let Some(asking) = self.stop_waiting(number) else {
                debug_assert!(false, "who was served had asked");
                continue;
            };
            self.observe_grant_of_nodes(number, &asking, now);
            let limit = asking.request.requester().hold_limit;
            let grant = self.grant_member(number, asking.since, limit, now);
            self.mark_untaken(number, &*asking.request);
            let verdict = RequestOutcome::Granted(grant);
            self.outbox
                .push(AfterUnlock::Answer(asking.request, verdict));
        }
    }

    /// Records that a task was granted nodes and does not know of it yet.
    fn mark_untaken(&mut self, number: u64, request: &dyn Waiting) {
        if request.task().is_some()
            && let Some(member) = self.member_mut(self.id(number))
        {
            member.source.untaken = true;
        }
    }

    fn stop_waiting(&mut self, number: u64) -> Option<Asking> {
        let nodes = self.nodes.as_mut()?;
        let asking = nodes.list.get_mut(&number)?.asking.take()?;
        nodes.waiting -= 1;
        Some(asking)
    }

    /// Withdraws a request for nodes from this wait. A member keeps its earlier nodes; a member
    /// without any ends.
    pub(super) fn withdraw_from_nodes(
        &mut self,
        waiting_at: RequestPosition,
        reason: Reason,
        now: Moment,
    ) {
        let RequestPosition { number, wait, .. } = waiting_at;
        let nodes = self.nodes.as_ref();
        let Some(nodes) = nodes.filter(|nodes| nodes.is_in_wait(number, wait)) else {
            return;
        };
        let first = nodes
            .table
            .waits_for(number)
            .max_by_key(|(_, _, ahead)| *ahead);
        let Some((granule, wants, ahead)) = first else {
            return;
        };
        let node = NodeWait {
            node: granule.node().cloned(),
            mode: wants.mode(),
        };
        let (mut holder, mut queued) = (None, Vec::new());
        for blocker in nodes.table.blockers(number) {
            let Some(member) = nodes.list.get(&blocker) else {
                continue;
            };
            // The holder of the node may itself wait for another.
            let has = nodes.table.rights(blocker, granule).exclude(wants);
            match &member.asking {
                Some(asking) if !has => {
                    if queued.len() < TimeoutEvidence::AHEAD {
                        queued.push(self.entry(blocker, asking, queued.len() + 1, now.at));
                    }
                }
                _ => {
                    holder.get_or_insert_with(|| self.info(blocker, member, now.at));
                }
            }
        }
        let Some(asking) = self.stop_waiting(number) else {
            return;
        };
        let obstacles = Obstacles {
            holder,
            node: Some(node),
            ahead: queued,
        };
        let failed = self.fail(&asking.waited(number, ahead + 1), obstacles, reason, now);
        self.outbox
            .push(AfterUnlock::Answer(asking.request, failed));
        let nodes = self.nodes.get_or_insert_default();
        let is_new = nodes
            .list
            .get(&number)
            .is_some_and(|member| member.grant.is_none());
        let served = nodes.table.withdraw(number);
        self.grant_served(served, now);
        if is_new {
            self.leave(number, now);
        }
    }

    // --- Ending ---

    pub(super) fn is_shared(&self) -> bool {
        self.nodes
            .as_ref()
            .is_some_and(|nodes| !nodes.list.is_empty())
    }

    /// Returns the id of the earliest member.
    pub(super) fn first_member_id(&self) -> Option<LockId> {
        let (number, _) = self.nodes.as_ref()?.list.first_key_value()?;
        Some(self.id(*number))
    }

    pub(super) fn waiting_for_nodes(&self) -> usize {
        self.nodes.as_ref().map_or(0, |nodes| nodes.waiting)
    }

    fn member(&self, id: LockId) -> Option<&Member> {
        let members = self.nodes.as_ref().filter(|_| id.lock == self.lock)?;
        members.list.get(&id.number)
    }

    /// Returns the member whose first request has this number.
    pub(super) fn member_of_number(&self, number: u64) -> Option<&Member> {
        self.nodes.as_ref()?.list.get(&number)
    }

    pub(crate) fn is_member(&self, id: LockId) -> bool {
        self.member(id).is_some()
    }

    /// Ends the locks of a member if it has this id. `None` if no member has it.
    pub(super) fn release_member(
        &mut self,
        id: LockId,
        now: Moment,
    ) -> Option<Result<Option<AfterUnlock>, ReleaseError>> {
        if self.member(id)?.source.transaction {
            return Some(Err(ReleaseError::TransactionOpen { id }));
        }
        Some(Ok(self.part_from_nodes(id, now)))
    }

    /// Ends the locks of a member. Returns the first outcome that follows from that.
    pub(super) fn part_from_nodes(&mut self, id: LockId, now: Moment) -> Option<AfterUnlock> {
        let member = self.member(id)?;
        let hold = now.at - member.since;
        let nodes = self.nodes.get_or_insert_default();
        nodes.metrics.counts.releases += 1;
        nodes.metrics.hold.record(hold, 1);
        self.pace.take_in(hold);
        self.observe_member(id.number, TimelineOutcome::Released, now);
        self.leave(id.number, now);
        self.outbox.pop()
    }

    /// Abandons the request of a task for nodes. A member keeps its earlier nodes; a member without
    /// any ends, also if it was granted nodes meanwhile.
    pub(super) fn abandon_nodes(
        &mut self,
        number: u64,
        wait: WaitId,
        now: Moment,
    ) -> Option<Arc<dyn Waiting>> {
        let nodes = self.nodes.as_mut()?;
        let member = nodes.list.get_mut(&number)?;
        let is_untaken = std::mem::take(&mut member.source.untaken);
        if !nodes.is_in_wait(number, wait) {
            let is_first = wait == WaitId(number);
            if is_untaken && is_first {
                let next = self.part_from_nodes(self.id(number), now);
                self.outbox.extend(next);
            }
            return None;
        }
        nodes.metrics.counts.cancellations += 1;
        let asking = self.stop_waiting(number)?;
        self.observe_failure(&asking.waited(number, 1), TimelineOutcome::Cancelled, now);
        let nodes = self.nodes.as_mut()?;
        let is_new = nodes.list.get(&number)?.grant.is_none();
        let served = nodes.table.withdraw(number);
        self.grant_served(served, now);
        if is_new {
            self.leave(number, now);
        }
        Some(asking.request)
    }

    pub(super) fn member_mut(&mut self, id: LockId) -> Option<&mut Member> {
        let members = self.nodes.as_mut().filter(|_| id.lock == self.lock)?;
        members.list.get_mut(&id.number)
    }

    /// Removes a member with all its locks. If it waits for more, its request fails.
    fn leave(&mut self, number: u64, now: Moment) {
        if let Some(asking) = self.stop_waiting(number) {
            let id = self.id(number);
            let verdict = RequestOutcome::Failed(Box::new(LockError::Revoked { id }));
            self.outbox
                .push(AfterUnlock::Answer(asking.request, verdict));
        }
        let nodes = self.nodes.get_or_insert_default();
        nodes.list.remove(&number);
        let served = nodes.table.dismiss(number);
        self.grant_served(served, now);
        self.queue.give_back(&CapacityPart::Share);
        let next = self.grant_next(now, None);
        self.outbox.extend(next);
    }

    pub(crate) fn seal_member(&mut self, id: LockId) -> bool {
        if id.lock != self.lock {
            return false;
        }
        let nodes = self.nodes.as_mut();
        let member = nodes.and_then(|nodes| nodes.list.get_mut(&id.number));
        member.map(|member| member.sealed = true).is_some()
    }

    // --- The limit on holding ---

    /// Returns the members with a hold limit that delay any request, each with the end of its limit
    /// and whether it publishes. A request that waits for the whole lock is delayed by all members.
    pub(super) fn delaying(&self) -> Vec<(MemberNumber, Overdue, bool)> {
        let Some(nodes) = &self.nodes else {
            return Vec::new();
        };
        let entry = |(&number, member): (&MemberNumber, &Member)| {
            Some((number, member.overdue?, member.sealed))
        };
        if !self.queue.is_empty() {
            return nodes.list.iter().filter_map(entry).collect();
        }
        let delaying = nodes.table.delaying();
        let members = delaying.filter_map(|number| nodes.list.get_key_value(&number));
        members.filter_map(entry).collect()
    }

    pub(super) fn revoke_member(&mut self, number: u64, overdue: Overdue, now: Moment) {
        let id = self.id(number);
        let Some(member) = self.member(id) else {
            return;
        };
        let is_released_by_id = !member.source.transaction;
        let holder = self.info(number, member, now.at);
        let held_for = holder.held_for;
        self.record_revocation(CapacityPart::Share, holder, overdue, now);
        self.recorder_of(CapacityPart::Share)
            .hold
            .record(held_for, 1);
        if is_released_by_id {
            self.remember_revocation(id);
        }
        self.observe_member(number, TimelineOutcome::Revoked, now);
        self.leave(number, now);
    }
}
