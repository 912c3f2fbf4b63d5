//! Reading holders and waiters, and which of them wait for which, page by page.

use std::ops::Bound;

use super::*;
use crate::diagnostics::{HeldLock, RequestKind, WaiterKind, WaitingRequest};
use crate::node::{Deadlock, DeadlockLink, RefusedDeadlock};
use crate::queue::{Link, LockMode, MemberNumber};
use crate::stats::RequestStats;
use crate::threads;

/// Some of the members, and the last of them if there may be more.
#[derive(Default)]
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

/// Whether a person wants to see the node: intentions on ancestors say only that a descendant is
/// locked.
fn is_shown(mode: LockMode) -> bool {
    !matches!(
        mode,
        LockMode::IntentionShared | LockMode::IntentionExclusive
    )
}

pub(super) fn node_wait(granule: &Granule, rights: Rights) -> NodeWait {
    NodeWait {
        node: granule.node().cloned(),
        mode: rights.mode(),
    }
}

impl LockState {
    /// Describes the requests for the whole lock, and those for nodes.
    pub(crate) fn request_stats(&self) -> [RequestStats; 2] {
        let alone = self.held && self.holder.more.scope.is_some();
        let whole = RequestStats {
            holders: usize::from(self.held && !alone),
            waiting: self.queue.len(),
            ..self.metrics.stats(self.now)
        };
        let nodes = self.nodes.as_ref();
        let mut of_nodes = nodes.map_or_else(RequestStats::default, |nodes| RequestStats {
            total_deadlocks: nodes.deadlocks,
            total_upgrade_conflicts: nodes.upgrade_conflicts,
            holders: nodes.holds().count(),
            waiting: nodes.waiting,
            entries: nodes.table.len() as u64,
            ..nodes.metrics.stats(self.now)
        });
        of_nodes.holders += usize::from(alone);
        [whole, of_nodes]
    }

    /// Returns the last refused cycles.
    pub(crate) fn last_deadlocks(&self) -> Vec<RefusedDeadlock> {
        let nodes = self.nodes.iter();
        let refused = nodes.flat_map(|nodes| nodes.last_deadlocks.list(self.now));
        let refused = refused.map(|(deadlock, refused_for)| RefusedDeadlock {
            deadlock: deadlock.clone(),
            refused_for,
        });
        refused.collect()
    }

    /// Returns the holder of the whole lock, or some of the members that share it.
    pub(crate) fn members_page(&self, after: Option<MemberNumber>) -> MembersPage {
        let mut page = MembersPage::default();
        if let Some(holder) = self.holder() {
            page.holders.push(self.held_lock(holder));
            return page;
        }
        let Some(nodes) = &self.nodes else {
            return page;
        };
        let after = after.map_or(Bound::Unbounded, Bound::Excluded);
        let members = nodes.list.range((after, Bound::Unbounded)).take(PAGE);
        let members: Vec<_> = members.collect();
        page.next = members.get(PAGE - 1).map(|(number, _)| **number);
        for (_, member) in members {
            if member.hold.is_granted() {
                page.holders.push(self.held_lock(&member.hold));
            }
            let waiter = member.asking.as_ref();
            let waiter = waiter.map(|waiter| self.waits_for_nodes_now(nodes, waiter));
            page.waiters.extend(waiter);
        }
        page
    }

    fn held_lock(&self, hold: &LockHolder) -> HeldLock {
        let (mut nodes, mut node_count) = (Vec::new(), 0);
        if let Some(scope) = &hold.more.scope {
            let listed = scope.nodes().take(HeldLock::LISTED);
            nodes.extend(listed.map(|(id, mode)| (id.clone(), mode)));
            node_count = scope.parts().len();
        } else if let Some(members) = self.nodes.as_ref().filter(|_| !self.held) {
            let number = hold.grant.id().number;
            // A deep tree has many intentions: the search for others is bounded too.
            let held = members.table.held(number).take(4 * HeldLock::LISTED);
            let held = held.filter_map(|(granule, rights)| {
                let mode = rights.mode();
                is_shown(mode).then_some((granule.node()?.clone(), mode))
            });
            nodes.extend(held.take(HeldLock::LISTED));
            [node_count, _] = members.table.counts(number);
        }
        let thread = threads::describe(hold.thread());
        HeldLock {
            holder: hold.info(self.now),
            in_transaction: hold.has_transaction(),
            thread_ended: thread.is_none() && hold.thread() != 0,
            thread,
            hold_limit: hold.more.overdue.map(Overdue::limit),
            nodes,
            node_count,
            is_of_nodes: !self.held || hold.more.scope.is_some(),
        }
    }

    fn waits_for_nodes_now(&self, nodes: &Members, waiter: &LockWaiter) -> WaitingRequest {
        let number = waiter.number;
        let waits_for = nodes.table.waits_for(number).take(HeldLock::LISTED);
        let waits_for: Vec<_> = waits_for.collect();
        let ahead = waits_for.iter().map(|(_, _, ahead)| *ahead).max();
        let position = 1 + ahead.unwrap_or(0);
        let blockers = nodes
            .table
            .nearest_blockers(number, WaitingRequest::BLOCKERS);
        let request = waiter.entry(self.lock, position, self.now);
        WaitingRequest {
            waits_for: waits_for
                .into_iter()
                .map(|(granule, wants, _)| node_wait(granule, wants))
                .collect(),
            node_count: nodes.table.counts(number)[1],
            blocked_by: blockers.into_iter().map(|number| self.id(number)).collect(),
            ..waiting_request(request, waiter, self.now)
        }
    }

    /// Describes a request in the queue, behind the request `ahead`.
    pub(crate) fn waits_in_queue(
        &self,
        (ticket, waiter, position): QueuedAt<'_>,
        ahead: Option<LockId>,
    ) -> WaitingRequest {
        let request = waiter.entry(self.lock, position, self.now);
        let whole = self.holder().map(|holder| holder.grant.id());
        // A request for nodes waits for no member: it would have been admitted, but for a request
        // ahead of it.
        let members = self.nodes.iter().filter(|_| waiter.more.nodes.is_none());
        let members = members.flat_map(|nodes| nodes.list.keys());
        let closed = self.closed().map(|closed| closed.grant.id());
        let holders = whole
            .into_iter()
            .chain(closed)
            .chain(members.map(|number| self.id(*number)));
        let holders = holders.take(WaitingRequest::BLOCKERS - usize::from(ahead.is_some()));
        let set = waiter.more.nodes.as_deref().map_or(&[][..], Vec::as_slice);
        let shown = set.iter().filter(|(_, rights)| is_shown(rights.mode()));
        let shown = shown.take(HeldLock::LISTED);
        WaitingRequest {
            priority: ticket.priority(),
            waits_for: shown
                .map(|(granule, rights)| node_wait(granule, *rights))
                .collect(),
            node_count: set.len(),
            blocked_by: holders.chain(ahead).collect(),
            ..waiting_request(request, waiter, self.now)
        }
    }

    pub(super) fn deadlock(&mut self, cycle: Vec<Link<Granule>>) -> LockError {
        let nodes = self.nodes.get_or_insert_default();
        let links = cycle.into_iter().filter_map(|link| {
            let member = nodes.list.get(&link.member)?;
            let waited = |asking: &LockWaiter| self.now - asking.since;
            let source = &member.hold.source;
            let mode = |rights: Rights| (rights != Rights::NONE).then(|| rights.mode());
            Some(DeadlockLink {
                lock_id: LockId {
                    number: link.member,
                    lock: self.lock,
                },
                owner_id: source.owner.clone(),
                label: source.label.clone(),
                call_site: source.call_site.into(),
                waits_for: node_wait(&link.key, link.wants),
                has: mode(link.has),
                held_by_next: mode(link.next_has),
                waiting_for: member.asking.as_ref().map_or(Duration::ZERO, waited),
                held_for: member.hold.since.lasted(self.now),
            })
        });
        let deadlock = Deadlock {
            links: links.collect(),
        };
        nodes.deadlocks += 1;
        nodes.last_deadlocks.push(deadlock.clone(), self.now);
        if deadlock.is_of_upgrades() {
            nodes.upgrade_conflicts += 1;
            return LockError::UpgradeConflict(Box::new(deadlock));
        }
        LockError::Deadlock(Box::new(deadlock))
    }
}

/// Describes a request without what it waits for.
fn waiting_request(entry: QueueEntry, waiter: &LockWaiter, now: MonotonicTime) -> WaitingRequest {
    let request = waiter.request.head();
    WaitingRequest {
        request: entry,
        kind: match (request.has_work, request.source.transaction) {
            (true, _) => RequestKind::Batch,
            (false, true) => RequestKind::Transaction,
            (false, false) => RequestKind::Lock,
        },
        waits_as: match request.task() {
            Some(_) => WaiterKind::Task,
            None => WaiterKind::Thread,
        },
        thread: threads::describe(request.thread),
        // The queues of nodes know no priorities.
        priority: Priority::Normal,
        time_left: request.deadline.left(now),
        waits_for: Vec::new(),
        node_count: 0,
        blocked_by: Vec::new(),
    }
}
