//! Reading holders and waiters, and which of them wait for which, page by page.

use super::*;
use crate::diagnostics::{HeldLock, LockReport, RequestKind, WaiterKind, WaitingRequest};
use crate::node::{Deadlock, DeadlockLink, RefusedDeadlock};
use crate::queue::{Link, LockMode, MemberNumber};
use crate::stats::RequestStats;
use crate::threads;

/// The holds and the waits of some members, and the last of them if there may be more.
pub(crate) type MembersPage = (Vec<HeldLock>, Vec<WaitingRequest>, Option<MemberNumber>);

/// Whether to show the node: intentions on ancestors say only that a descendant is locked.
fn is_shown(mode: LockMode) -> bool {
    use LockMode::{IntentionExclusive, IntentionShared};
    !matches!(mode, IntentionShared | IntentionExclusive)
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
        let alone = usize::from(self.held && self.holder.more.scope.is_some());
        let whole = RequestStats {
            holders: usize::from(self.held) - alone,
            waiting: self.queue.len(),
            ..self.metrics.stats(self.now)
        };
        let nodes = self.nodes.as_ref();
        let deadlocks = self.deadlocks();
        let [total_deadlocks, total_upgrade_conflicts] =
            deadlocks.map_or([0; 2], |it| [it.total, it.of_upgrades]);
        let mut of_nodes = nodes.map_or_else(RequestStats::default, |nodes| RequestStats {
            total_deadlocks,
            total_upgrade_conflicts,
            holders: nodes.holds().count(),
            waiting: nodes.waiting,
            entries: nodes.table.len() as u64,
            ..nodes.metrics.stats(self.now)
        });
        of_nodes.holders += alone;
        [whole, of_nodes]
    }

    fn deadlocks(&self) -> Option<&Deadlocks> {
        self.nodes.as_ref()?.deadlocks.as_deref()
    }

    /// Returns a report without holders and waiters.
    pub(crate) fn totals(&self) -> LockReport {
        let [document, nodes] = self.request_stats();
        let deadlocks = self.deadlocks().into_iter();
        let refused = deadlocks.flat_map(|deadlocks| deadlocks.last.list(self.now));
        let refused = refused.map(|(deadlock, refused_for)| {
            let deadlock = deadlock.clone();
            RefusedDeadlock {
                deadlock,
                refused_for,
            }
        });
        LockReport {
            holders: Vec::new(),
            closed_by: self.closed().map(|closed| closed.info(self.now)),
            waiters: Vec::new(),
            document,
            nodes,
            deadlocks: refused.collect(),
        }
    }

    /// Returns the holder of the whole lock, or some of the members that share it.
    pub(crate) fn members_page(&self, after: Option<MemberNumber>) -> MembersPage {
        let (mut holders, mut waiters, mut next) = MembersPage::default();
        holders.extend(self.holder().map(|holder| self.held_lock(holder)));
        let members = self.nodes.iter();
        let members = members.flat_map(|nodes| nodes.table.members_after(after));
        for (nth, (number, member)) in (1..=PAGE).zip(members) {
            if member.hold.is_granted() {
                holders.push(self.held_lock(&member.hold));
            }
            let asking = member.asking.as_deref();
            waiters.extend(asking.and_then(|waiter| self.waits_for_nodes_now(waiter)));
            next = (nth == PAGE).then_some(number);
        }
        (holders, waiters, next)
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

    fn waits_for_nodes_now(&self, waiter: &LockWaiter) -> Option<WaitingRequest> {
        let (table, number) = (&self.nodes.as_ref()?.table, waiter.number);
        let (mut waits_for, mut position) = (Vec::new(), 1);
        for (granule, wants, ahead) in table.waits_for(number).take(HeldLock::LISTED) {
            waits_for.push(node_wait(granule, wants));
            position = position.max(1 + ahead);
        }
        let blockers = table.nearest_blockers(number, WaitingRequest::BLOCKERS);
        Some(WaitingRequest {
            waits_for,
            node_count: table.counts(number)[1],
            blocked_by: blockers.into_iter().map(|number| self.id(number)).collect(),
            ..self.waiting_request(waiter, position)
        })
    }

    /// Describes a request in the queue, behind the request `ahead`.
    pub(crate) fn waits_in_queue(
        &self,
        (ticket, waiter, position): QueuedAt<'_>,
        ahead: Option<LockId>,
    ) -> WaitingRequest {
        // A request for nodes in the queue waits for the request ahead, and for no member.
        let members = self.nodes.iter().filter(|_| waiter.more.nodes.is_none());
        let members = members.flat_map(|nodes| nodes.table.members());
        let holders = self.holder().into_iter().chain(self.closed());
        let holders = holders.map(|hold| hold.grant.id());
        let holders = holders.chain(members.map(|(number, _)| self.id(number)));
        let holders = holders.take(WaitingRequest::BLOCKERS - usize::from(ahead.is_some()));
        let set = waiter.more.nodes.as_deref().map_or(&[][..], |set| set);
        let shown = set.iter().filter(|(_, rights)| is_shown(rights.mode()));
        let shown = shown.map(|(granule, rights)| node_wait(granule, *rights));
        WaitingRequest {
            priority: ticket.priority(),
            waits_for: shown.take(HeldLock::LISTED).collect(),
            node_count: set.len(),
            blocked_by: holders.chain(ahead).collect(),
            ..self.waiting_request(waiter, position)
        }
    }

    /// Describes a request without what it waits for.
    fn waiting_request(&self, waiter: &LockWaiter, position: usize) -> WaitingRequest {
        let request = waiter.request.head();
        WaitingRequest {
            request: waiter.entry(self.lock, position, self.now),
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
            time_left: request.deadline.left(self.now),
            waits_for: Vec::new(),
            node_count: 0,
            blocked_by: Vec::new(),
        }
    }

    /// Returns the error of the first member of a cycle, which is refused, and records it.
    pub(super) fn deadlock(&mut self, cycle: Vec<Link<Granule>>) -> LockError {
        let nodes = self.nodes.get_or_insert_default();
        let mode = |rights: Rights| (rights != Rights::NONE).then(|| rights.mode());
        let links = cycle.into_iter().filter_map(|link| {
            let member = nodes.table.member(link.member)?;
            let waited = |asking: &LockWaiter| self.now - asking.since;
            let source = &member.hold.source;
            Some(DeadlockLink {
                lock_id: LockId::new(link.member, self.lock),
                owner_id: source.owner.clone(),
                label: source.label.clone(),
                call_site: source.call_site.into(),
                waits_for: node_wait(&link.key, link.wants),
                has: mode(link.has),
                held_by_next: mode(link.next_has),
                waiting_for: member.asking.as_deref().map_or(Duration::ZERO, waited),
                held_for: member.hold.since.lasted(self.now),
            })
        });
        let links = links.collect();
        let deadlock = Box::new(Deadlock { links });
        let deadlocks = nodes.deadlocks.get_or_insert_default();
        deadlocks.total += 1;
        deadlocks.last.push((*deadlock).clone(), self.now);
        if deadlock.is_of_upgrades() {
            deadlocks.of_upgrades += 1;
            return LockError::UpgradeConflict(deadlock);
        }
        LockError::Deadlock(deadlock)
    }
}
