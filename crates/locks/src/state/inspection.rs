//! Reading holders and waiters, and which of them wait for which, page by page.

use std::iter;

use super::*;
use crate::diagnostics::{HeldLock, LockCounters, RequestKind, WaiterKind, WaitingRequest};
use crate::node::{Asking, Member, RefusedDeadlock};
use crate::queue::{LockMode, MemberNumber};

/// Some of the members, and the last of them if there may be more.
pub(crate) struct MembersPage {
    pub(crate) holders: Vec<HeldLock>,
    pub(crate) waiters: Vec<WaitingRequest>,
    pub(crate) next: Option<MemberNumber>,
}

impl MembersPage {
    pub(crate) fn extend(&mut self, later: Self) {
        self.holders.extend(later.holders);
        self.waiters.extend(later.waiters);
        self.next = later.next;
    }
}

/// Where the next page of the queue begins.
#[derive(Clone, Copy)]
pub(crate) struct QueuePosition {
    cursor: Ticket,
    listed: usize,
    last: LockId,
}

/// Whether a person wants to see the node: intentions on ancestors say only that a descendant is
/// locked.
fn is_shown(mode: LockMode) -> bool {
    !matches!(
        mode,
        LockMode::IntentionShared | LockMode::IntentionExclusive
    )
}

fn node_wait((granule, rights): (&Granule, Rights)) -> NodeWait {
    NodeWait {
        node: granule.node().cloned(),
        mode: rights.mode(),
    }
}

impl LockState {
    /// Returns the counters of requests for the whole lock, and of requests for nodes.
    pub(crate) fn counters(&self) -> [LockCounters; 2] {
        let nodes = self.nodes.as_ref().map(|nodes| nodes.metrics.counts);
        [self.metrics.counts, nodes.unwrap_or_default()]
    }

    /// Returns the last refused cycles.
    pub(crate) fn last_deadlocks(&self, now: MonotonicTime) -> Vec<RefusedDeadlock> {
        let refused = self.nodes.iter().flat_map(|nodes| &nodes.last_deadlocks);
        let refused = refused.map(|(deadlock, at)| RefusedDeadlock {
            deadlock: deadlock.clone(),
            refused_for: now - *at,
        });
        refused.collect()
    }

    /// Returns the holder of the whole lock, or some of the members that share it.
    pub(crate) fn members_page(&self, after: Option<MemberNumber>, now: Moment) -> MembersPage {
        if let Some(holder) = self.holder() {
            return MembersPage {
                holders: vec![self.held_by(holder, now)],
                waiters: Vec::new(),
                next: None,
            };
        }
        let (members, next) = self.page_of_members(after, |nodes, number, member| {
            let holds = member.grant.is_some();
            let holds = holds.then(|| self.held_by_member(nodes, number, member, now));
            let waits = member.asking.as_ref();
            let waits = waits.map(|asking| self.waits_for_nodes_now(nodes, number, asking, now));
            Some((holds, waits))
        });
        let (holders, waiters): (Vec<_>, Vec<_>) = members.into_iter().unzip();
        MembersPage {
            holders: holders.into_iter().flatten().collect(),
            waiters: waiters.into_iter().flatten().collect(),
            next,
        }
    }

    /// Returns some of the members, without a holder of the whole lock.
    pub(crate) fn page_of_node_locks(
        &self,
        after: Option<MemberNumber>,
        now: Moment,
    ) -> MembersPage {
        let mut page = self.members_page(after, now);
        if self.holder().is_some_and(|holder| holder.scope.is_none()) {
            page.holders.clear();
        }
        page
    }

    fn held_by(&self, holder: &LockHolder, now: Moment) -> HeldLock {
        let scope = holder.scope.as_ref();
        let nodes = scope.into_iter().flat_map(Scope::nodes);
        let listed = nodes.take(HeldLock::LISTED);
        HeldLock {
            holder: holder.info(now.at),
            in_transaction: holder.has_transaction(),
            hold_limit: holder.overdue.map(Overdue::limit),
            nodes: listed.map(|(id, mode)| (id.clone(), mode)).collect(),
            node_count: scope.map_or(0, |scope| scope.parts().len()),
        }
    }

    fn held_by_member(
        &self,
        nodes: &Members,
        number: MemberNumber,
        member: &Member,
        now: Moment,
    ) -> HeldLock {
        // A deep tree has many intentions: the search for others is bounded too.
        let held = nodes.table.held(number).take(4 * HeldLock::LISTED);
        let held = held.filter_map(|(granule, rights)| {
            let mode = rights.mode();
            is_shown(mode).then_some((granule.node()?.clone(), mode))
        });
        HeldLock {
            holder: self.info(number, member, now.at),
            in_transaction: member.source.transaction,
            hold_limit: member.overdue.map(Overdue::limit),
            nodes: held.take(HeldLock::LISTED).collect(),
            node_count: nodes.table.held_count(number),
        }
    }

    fn waits_for_nodes_now(
        &self,
        nodes: &Members,
        number: MemberNumber,
        asking: &Asking,
        now: Moment,
    ) -> WaitingRequest {
        let waits_for = nodes.table.waits_for(number).take(HeldLock::LISTED);
        let waits_for: Vec<_> = waits_for.collect();
        let ahead = waits_for.iter().map(|(_, _, ahead)| *ahead).max();
        let position = 1 + ahead.unwrap_or(0);
        let blockers = nodes
            .table
            .nearest_blockers(number, WaitingRequest::BLOCKERS);
        let request = self.entry(number, asking, position, now.at);
        WaitingRequest {
            waits_for: waits_for
                .into_iter()
                .map(|(granule, wants, _)| node_wait((granule, wants)))
                .collect(),
            node_count: nodes.table.missing_count(number),
            blocked_by: blockers.into_iter().map(|number| self.id(number)).collect(),
            ..waiting_request(request, &*asking.request, Priority::Normal, now)
        }
    }

    /// Returns some of the requests in the queue, and where the next page begins.
    pub(crate) fn queue_page(
        &self,
        from: Option<QueuePosition>,
        now: Moment,
    ) -> (Vec<WaitingRequest>, Option<QueuePosition>) {
        let (page, next) = self.queue.page(from.map(|position| position.cursor), PAGE);
        let listed = from.map_or(0, |position| position.listed);
        let mut ahead = from.map(|position| position.last);
        let mut waiting = Vec::with_capacity(page.len());
        for ((_, waiter), position) in page.into_iter().zip(listed + 1..) {
            let request = waiter.entry(self.lock, position, now.at);
            let holders = self.holders_ahead_of(waiter);
            let holders = holders.take(WaitingRequest::BLOCKERS - usize::from(ahead.is_some()));
            let blocked_by = holders.chain(ahead.replace(request.lock_id)).collect();
            let set = waiter.nodes.as_deref().map_or(&[][..], Vec::as_slice);
            let shown = set.iter().filter(|(_, rights)| is_shown(rights.mode()));
            let shown = shown.take(HeldLock::LISTED);
            waiting.push(WaitingRequest {
                waits_for: shown
                    .map(|(granule, rights)| node_wait((granule, *rights)))
                    .collect(),
                node_count: set.len(),
                blocked_by,
                ..waiting_request(request, &*waiter.request, waiter.priority, now)
            });
        }
        let next = next.zip(ahead).map(|(cursor, last)| QueuePosition {
            cursor,
            listed: listed + waiting.len(),
            last,
        });
        (waiting, next)
    }

    /// Returns the grants for which a request in the queue waits. A request for nodes waits for no
    /// member: it would have been admitted, but for a request ahead of it.
    fn holders_ahead_of(&self, waiter: &LockWaiter) -> impl Iterator<Item = LockId> {
        let whole = self.holder().map(|holder| holder.grant.id());
        let members = self.nodes.iter().filter(|_| waiter.nodes.is_none());
        let members = members.flat_map(|nodes| nodes.list.keys());
        iter::empty()
            .chain(whole)
            .chain(members.map(|number| self.id(*number)))
    }
}

/// Describes a request without what it waits for.
fn waiting_request(
    request: QueueEntry,
    waiter: &dyn Waiting,
    priority: Priority,
    now: Moment,
) -> WaitingRequest {
    WaitingRequest {
        request,
        kind: match (waiter.has_work(), waiter.requester().transaction) {
            (true, _) => RequestKind::Batch,
            (false, true) => RequestKind::Transaction,
            (false, false) => RequestKind::Lock,
        },
        waits_as: match waiter.task() {
            Some(_) => WaiterKind::Task,
            None => WaiterKind::Thread,
        },
        priority,
        time_left: now.clock.left(waiter.deadline()),
        waits_for: Vec::new(),
        node_count: 0,
        blocked_by: Vec::new(),
    }
}
