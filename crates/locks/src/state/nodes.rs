//! The requests that lock nodes: they share the lock, and have their nodes in a table.
//!
//! Invariants N6 to N8, beside those of the table:
//!
//! 1. A member has a share of the lock from its admission to its end, so a request for the whole
//!    lock waits for it.
//! 2. A holder of the whole lock with a scope is alone. No request for nodes waits in the queue
//!    while it holds: the first one downgrades it.
//! 3. A member waits for nodes if and only if the table says so.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::last::Last;
use crate::node::{Deadlock, RefusedDeadlock, Tree};
use crate::queue::{Asked, LockTable, MemberNumber};
use crate::steps::step;

#[derive(Default)]
pub(super) struct Members {
    pub(super) table: LockTable<Granule>,
    /// By the numbers of their requests, hence in FIFO order.
    pub(super) list: BTreeMap<u64, Box<Member>>,
    /// The threads to which members are bound, each with the member.
    threads: BTreeSet<(u64, MemberNumber)>,
    /// How many of them wait for nodes.
    pub(super) waiting: usize,
    pub(super) metrics: Recorder,
    pub(super) deadlocks: u64,
    pub(super) last_deadlocks: Last<Deadlock, MonotonicTime, { RefusedDeadlock::LISTED }>,
    pub(super) upgrade_conflicts: u64,
}

/// A request for nodes that was admitted: it holds nodes, or waits for some, or both.
pub(super) struct Member {
    /// Granted when the whole first request is. Until then it begins at the admission.
    pub(super) hold: LockHolder,
    /// Its request, if it waits.
    pub(super) asking: Option<LockWaiter>,
    /// When its last wait under the grant ended.
    pub(super) waited_until: Option<MonotonicTime>,
}

impl LockState {
    /// Returns the requests that wait for nodes.
    pub(crate) fn waiters_for_nodes(&self) -> impl Iterator<Item = &LockWaiter> {
        let members = self.nodes.iter().flat_map(|nodes| nodes.list.values());
        members.filter_map(|member| member.asking.as_ref())
    }
}

impl Members {
    /// Whether a member is still in this wait.
    pub(super) fn is_in_wait(&self, number: u64, wait: u64) -> bool {
        let asking = self
            .list
            .get(&number)
            .and_then(|member| member.asking.as_ref());
        asking.is_some_and(|asking| asking.more.number == wait)
    }

    /// Returns the members that hold nodes.
    pub(super) fn holds(&self) -> impl Iterator<Item = &LockHolder> {
        let holds = self.list.values().map(|member| &member.hold);
        holds.inspect(|_| step()).filter(|hold| hold.is_granted())
    }

    /// Returns a hold of nodes that is bound to a thread.
    pub(super) fn bound_to(&self, thread: u64) -> Option<&LockHolder> {
        let bound = self
            .threads
            .range((thread, 0)..=(thread, MemberNumber::MAX));
        let mut holds = bound.filter_map(|(_, number)| Some(&self.list.get(number)?.hold));
        holds.find(|hold| hold.is_granted())
    }

    fn insert(&mut self, number: MemberNumber, hold: LockHolder) {
        if hold.source.thread != 0 {
            self.threads.insert((hold.source.thread, number));
        }
        let member = Box::new(Member {
            hold,
            asking: None,
            waited_until: None,
        });
        self.list.insert(number, member);
    }

    fn remove(&mut self, number: MemberNumber) -> Option<Box<Member>> {
        let member = self.list.remove(&number)?;
        self.threads.remove(&(member.hold.source.thread, number));
        Some(member)
    }

    /// Binds a member to a thread; zero for none.
    fn bind(&mut self, number: MemberNumber, thread: u64) {
        let Some(member) = self.list.get_mut(&number) else {
            return;
        };
        let before = std::mem::replace(&mut member.hold.source.thread, thread);
        self.threads.remove(&(before, number));
        if thread != 0 {
            self.threads.insert((thread, number));
        }
    }
}

/// The present outcome of a request.
pub(crate) enum Requested {
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
        let Some(scope) = self.holder.more.scope.take() else {
            return;
        };
        self.held = false;
        // Of the whole, it keeps a share.
        let rest = CapacityPart::Whole as usize - CapacityPart::Share as usize;
        self.queue.give_back(rest);
        let hold = std::mem::take(&mut self.holder);
        let number = hold.grant.id().number;
        let nodes = self.nodes.get_or_insert_default();
        nodes.insert(number, hold);
        let asked = nodes.table.ask(number, scope.with_intentions(tree));
        debug_assert_eq!(asked, Asked::Granted, "it was alone");
    }

    /// Requests nodes for a request that has none yet.
    pub(crate) fn request_nodes(
        &mut self,
        request: Arc<dyn Waiting>,
        set: NodeSet,
        how: HowToWait,
    ) -> Result<Requested, LockError> {
        let head = request.head();
        let RequestSource { owner, thread, .. } = &head.source;
        self.refuse_reentry(owner, *thread, CapacityPart::Share)?;
        let may_wait = how.may_wait(self.waiting());
        let admitted = self.closed().is_none() && self.queue.try_take(CapacityPart::Share as usize);
        if !may_wait {
            let nodes = self.nodes.get_or_insert_default();
            let in_the_way = admitted.then(|| nodes.table.in_the_way(0, &set)).flatten();
            if !admitted || in_the_way.is_some() {
                if admitted {
                    self.queue.give_back(CapacityPart::Share as usize);
                }
                let part = CapacityPart::Share;
                return Err(self.refuse_wait(owner, part, how, in_the_way));
            }
        }
        if !admitted {
            let waiting_at = self.join_queue(request, how.priority, Some(Box::new(set)));
            // It may be ahead of all requests for the whole lock.
            self.serve_queue();
            return Ok(Requested::Waits(waiting_at));
        }
        let number = self.next_id().number;
        Ok(match self.enroll(number, &head.source, set) {
            true => Requested::Granted(self.grant_member(number, self.now, head.hold_limit)),
            false => {
                let waiter = LockWaiter::for_nodes(number, number, request, self.now);
                Requested::Waits(self.wait_for_nodes(waiter))
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
    ) -> Result<Requested, LockError> {
        let id = grant.id();
        if let Some(held) = self
            .holder_of(id)
            .and_then(|holder| holder.more.scope.as_mut())
        {
            held.extend(scope.clone());
            self.last_token += 1;
            self.holder.grant.token = FencingToken(self.last_token);
            return Ok(Requested::Granted(self.holder.grant));
        }
        let number = id.number;
        let member = self
            .nodes
            .as_mut()
            .and_then(|nodes| nodes.list.get_mut(&number));
        let Some(member) = member else {
            return Err(LockError::Revoked {
                id,
                waiter: self.revoked_for(id),
            });
        };
        // Whatever became of earlier requests, its task has the guard.
        member.hold.source.untaken = false;
        if let Some(asking) = &member.asking {
            // Its future was forgotten, otherwise it would still borrow the guard.
            let forgotten = asking.position_at(None);
            self.withdraw_from_nodes(forgotten, Reason::Cancelled);
        }
        let (set, may_wait) = (scope.with_intentions(tree), how.may_wait(self.waiting()));
        let nodes = self.nodes.get_or_insert_default();
        if !may_wait && let Some(member) = nodes.table.in_the_way(number, &set) {
            let part = CapacityPart::Share;
            let owner = &request.head().source.owner;
            return Err(self.refuse_wait(owner, part, how, Some(member)));
        }
        let nodes = self.nodes.get_or_insert_default();
        Ok(match nodes.table.ask(number, set) {
            Asked::Granted => {
                let limit = request.head().hold_limit;
                Requested::Granted(self.grant_member(number, self.now, limit))
            }
            Asked::Waits => {
                let wait = self.next_id().number;
                let waiter = LockWaiter::for_nodes(number, wait, request, self.now);
                Requested::Waits(self.wait_for_nodes(waiter))
            }
            Asked::Refused(cycle) => {
                let refused = LockWaiter::for_nodes(number, number, request, self.now);
                self.record_wait(&refused, TimelineOutcome::Deadlock);
                return Err(self.deadlock(cycle));
            }
        })
    }

    /// Locks the ancestors that the nodes of a new member got while it waited. Then no other owner
    /// can move the nodes: a move needs the locks that are held by now. `None` if that requires
    /// another wait.
    pub(crate) fn follow(&mut self, grant: Grant, scope: &Scope, tree: &dyn Tree) -> Option<Grant> {
        let number = grant.id().number;
        if self.hold_of(grant.id()).is_none() {
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
        Some(self.grant_member(number, self.now, OF_THE_LOCK))
    }

    /// Grants a member all for which this request waited.
    pub(super) fn grant_waiter(&mut self, waiter: LockWaiter) {
        let LockWaiter { number, since, .. } = waiter;
        if self.observed.is_some() {
            self.report_wait(&waiter, 1);
            // The entry of a first grant is recorded at its end.
            let member = self.member_of_number(number);
            if member.is_some_and(|member| member.hold.is_granted()) {
                self.record_wait(&waiter, TimelineOutcome::Extended);
            }
        }
        let head = waiter.request.head();
        let grant = self.grant_member(number, since, head.hold_limit);
        if head.task().is_some()
            && let Some(hold) = self.hold_of(grant.id())
        {
            // The task does not know of it yet.
            hold.source.untaken = true;
        }
        self.outbox
            .push(AfterUnlock::Answer(waiter.request, Ok(grant)));
    }

    /// Makes a request a member. Returns whether its whole request is granted.
    pub(super) fn enroll(&mut self, number: u64, source: &RequestSource, set: NodeSet) -> bool {
        let hold = LockHolder {
            source: source.clone(),
            grant: Grant::new(self.id(number), FencingToken(0), false),
            since: HoldStart::now(self.now),
            ..LockHolder::default()
        };
        let nodes = self.nodes.get_or_insert_default();
        nodes.insert(number, hold);
        match nodes.table.ask(number, set) {
            Asked::Granted => true,
            Asked::Waits => false,
            Asked::Refused(_) => {
                debug_assert!(false, "no member waits for one that has nothing (table)");
                false
            }
        }
    }

    pub(super) fn wait_for_nodes(&mut self, waiter: LockWaiter) -> RequestPosition {
        let position = waiter.position_at(None);
        let nodes = self.nodes.get_or_insert_default();
        if let Some(member) = nodes.list.get_mut(&waiter.number) {
            member.asking = Some(waiter);
            nodes.waiting += 1;
        }
        position
    }

    /// Records that a member was granted all that it had requested at `since`. The limit is that of
    /// its first request.
    fn grant_member(&mut self, number: u64, since: MonotonicTime, limit: RequestLimit) -> Grant {
        let id = self.id(number);
        self.last_token += 1;
        let overdue = self.overdue(limit);
        self.had_limits |= overdue.is_some();
        let granted = Grant::new(id, FencingToken(self.last_token), overdue.is_some());
        let nodes = self.nodes.get_or_insert_default();
        if self.now != since {
            nodes.metrics.durations.record_wait(self.now - since);
        }
        let Some(member) = nodes.list.get_mut(&number) else {
            debug_assert!(false, "only members are granted nodes");
            return granted;
        };
        let hold = &mut member.hold;
        if hold.is_granted() {
            hold.grant.token = granted.token;
        } else {
            nodes.metrics.counts.total_acquisitions += 1;
            hold.grant = granted;
            hold.since = HoldStart::now(self.now);
            hold.more.overdue = overdue;
            hold.more.waited.set(PackedDuration::new(self.now - since));
        }
        let (grant, overdue) = (hold.grant, hold.more.overdue);
        if let Some(overdue) = overdue {
            // It may have gone ahead of the queue, so more requests may wait for it.
            self.watch_holder(overdue);
        }
        grant
    }

    /// Grants the members that the table has served.
    fn grant_served(&mut self, served: impl IntoIterator<Item = MemberNumber>) {
        for number in served {
            let Some(waiter) = self.stop_waiting(number) else {
                debug_assert!(false, "who was served had asked");
                continue;
            };
            self.grant_waiter(waiter);
        }
    }

    fn stop_waiting(&mut self, number: u64) -> Option<LockWaiter> {
        let nodes = self.nodes.as_mut()?;
        let member = nodes.list.get_mut(&number)?;
        let asking = member.asking.take()?;
        member.waited_until = Some(self.now);
        nodes.waiting -= 1;
        Some(asking)
    }

    /// Withdraws a request for nodes from this wait. A member keeps its earlier nodes; a member
    /// without any ends.
    pub(super) fn withdraw_from_nodes(&mut self, waiting_at: RequestPosition, reason: Reason) {
        let RequestPosition { number, wait, .. } = waiting_at;
        let nodes = self.nodes.as_ref();
        let Some(nodes) = nodes.filter(|nodes| nodes.is_in_wait(number, wait)) else {
            return;
        };
        let Some(wait) = nodes.table.longest_wait(number, reason.listed()) else {
            return;
        };
        let node = inspection::node_wait(wait.key, wait.wants);
        let queued = wait
            .queued
            .iter()
            .zip(1..)
            .filter_map(|(queued, position)| {
                let asking = nodes.list.get(queued)?.asking.as_ref()?;
                Some(asking.entry(self.lock, position, self.now))
            });
        let (ahead, position) = (queued.collect(), wait.ahead + 1);
        // The holder of the node may itself wait for another.
        let holder = wait.holder.or(wait.queued.first().copied());
        let holder = holder.and_then(|number| self.member_of_number(number));
        let holder = holder.map(|member| member.hold.info(self.now));
        let Some(asking) = self.stop_waiting(number) else {
            return;
        };
        let holder = holder.unwrap_or_else(|| self.blocker_info(CapacityPart::Share));
        let evidence = TimeoutEvidence {
            node: Some(node),
            ahead,
            ..asking.evidence(self.lock, position, holder, self.now)
        };
        self.fail(asking, evidence, reason);
        self.stop_asking(number);
    }

    /// Withdraws a request for nodes from the table. A member without any nodes ends.
    fn stop_asking(&mut self, number: u64) {
        let nodes = self.nodes.get_or_insert_default();
        let member = nodes.list.get(&number);
        let is_new = member.is_some_and(|member| !member.hold.is_granted());
        let served = nodes.table.withdraw(number);
        self.grant_served(served);
        if is_new {
            // It was never granted, so no end of a hold is recorded.
            self.leave(number, TimelineOutcome::Cancelled);
        }
    }

    // --- Ending ---

    pub(super) fn waiting_for_nodes(&self) -> usize {
        self.nodes.as_ref().map_or(0, |nodes| nodes.waiting)
    }

    /// Returns the member whose first request has this number.
    pub(super) fn member_of_number(&self, number: u64) -> Option<&Member> {
        self.nodes.as_ref()?.list.get(&number).map(AsRef::as_ref)
    }

    /// Returns the hold with this id, of the whole lock or of nodes.
    pub(crate) fn hold_of(&mut self, id: LockId) -> Option<&mut LockHolder> {
        if self.held {
            return self.holder_of(id);
        }
        let nodes = self.nodes.as_mut().filter(|_| id.lock == self.lock)?;
        Some(&mut nodes.list.get_mut(&id.number)?.hold)
    }

    /// Binds a grant to a thread, if it is still held; zero for none.
    pub(crate) fn bind(&mut self, id: LockId, thread: u64) {
        match self.holder_of(id) {
            Some(holder) => holder.source.thread = thread,
            None => {
                let nodes = self.nodes.as_mut().filter(|_| id.lock == self.lock);
                nodes
                    .into_iter()
                    .for_each(|nodes| nodes.bind(id.number, thread));
            }
        }
    }

    /// Ends the locks of a member. Returns the first outcome that follows from that.
    pub(super) fn part_from_nodes(&mut self, id: LockId) -> Option<AfterUnlock> {
        self.hold_of(id)?;
        self.recorder_of(CapacityPart::Share).counts.total_releases += 1;
        self.leave(id.number, TimelineOutcome::Released);
        self.outbox.pop()
    }

    /// Abandons the request of a task for nodes. A member keeps its earlier nodes; a member without
    /// any ends, also if it was granted nodes meanwhile.
    pub(super) fn abandon_nodes(&mut self, number: u64, wait: u64) -> Option<Arc<dyn Waiting>> {
        let nodes = self.nodes.as_mut()?;
        let member = nodes.list.get_mut(&number)?;
        let is_untaken = std::mem::take(&mut member.hold.source.untaken);
        if !nodes.is_in_wait(number, wait) {
            let is_first = wait == number;
            if is_untaken && is_first {
                let next = self.part_from_nodes(self.id(number));
                self.outbox.extend(next);
            }
            return None;
        }
        nodes.metrics.counts.total_cancellations += 1;
        let asking = self.stop_waiting(number)?;
        self.observe_failure(&asking, 1, TimelineOutcome::Cancelled);
        self.stop_asking(number);
        Some(asking.request)
    }

    /// Removes a member with all its locks. If it waits for more, its request fails.
    pub(super) fn leave(&mut self, number: u64, outcome: TimelineOutcome) {
        if self.observed.is_some() {
            self.observe_end(self.id(number), outcome);
        }
        if let Some(asking) = self.stop_waiting(number) {
            let id = self.id(number);
            let waiter = self.revoked_for(id);
            let verdict = Err(Box::new(LockError::Revoked { id, waiter }));
            self.outbox
                .push(AfterUnlock::Answer(asking.request, verdict));
        }
        let nodes = self.nodes.get_or_insert_default();
        if let Some(member) = nodes.remove(number)
            && member.hold.is_granted()
            && let Some((since, weight)) = member.hold.since.known()
        {
            nodes
                .metrics
                .durations
                .record_hold(self.now - since, weight);
            self.pace.take_in(self.now - since);
        }
        let was_last = nodes.list.is_empty();
        let served = nodes.table.dismiss(number);
        self.grant_served(served);
        self.queue.give_back(CapacityPart::Share as usize);
        if was_last && self.closed().is_some() {
            self.blocks_from_now();
        }
        self.serve_queue();
    }

    // --- The limit on holding ---

    /// Returns the request for nodes that a member has delayed for longest: as a holder, or else as
    /// one that waits ahead of it.
    pub(super) fn first_delayed_for_nodes(&self, number: u64) -> Option<&LockWaiter> {
        let nodes = self.nodes.as_ref()?;
        let table = &nodes.table;
        let waiting = nodes.list.iter();
        let excluded = waiting.filter(|(waiter, _)| table.excludes(number, **waiter));
        let excluded = excluded.filter_map(|(_, member)| member.asking.as_ref());
        let behind = || {
            let behind = table.directly_behind(number);
            let behind = behind.filter_map(|waiter| nodes.list.get(&waiter)?.asking.as_ref());
            behind.min_by_key(|asking| asking.since)
        };
        let first = excluded.min_by_key(|asking| asking.since);
        first.or_else(behind)
    }
}

#[cfg(test)]
#[path = "../../tests/unit/nodes.rs"]
mod tests;
