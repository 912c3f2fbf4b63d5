//! Reading the state of node locks.

use std::ops::Bound;

use super::*;

impl LockState {
    pub(in crate::state) fn info(
        &self,
        number: u64,
        member: &Member,
        now: MonotonicTime,
    ) -> LockInfo {
        let grant = member
            .grant
            .unwrap_or_else(|| Grant::new(self.id(number), FencingToken(0), false));
        LockInfo::of(grant, &member.source, now - member.since, member.exact)
    }

    pub(in crate::state) fn entry(
        &self,
        number: u64,
        asking: &Asking,
        position: usize,
        now: MonotonicTime,
    ) -> QueueEntry {
        QueueEntry::of(
            self.id(number),
            &asking.request.requester(),
            now - asking.since,
            position,
        )
    }

    /// Returns the first of the members, with members that hold something before the others.
    pub(in crate::state) fn first_member(&self, now: MonotonicTime) -> Option<LockInfo> {
        let nodes = self.nodes.as_ref()?;
        let (number, member) = nodes
            .list
            .iter()
            .min_by_key(|(_, member)| member.grant.is_none())?;
        Some(self.info(*number, member, now))
    }

    pub(in crate::state) fn info_of_member(
        &self,
        number: MemberNumber,
        now: MonotonicTime,
    ) -> Option<LockInfo> {
        let member = self.member_of_number(number)?;
        Some(self.info(number, member, now))
    }

    pub(in crate::state) fn info_of_thread(
        &self,
        thread: u64,
        now: MonotonicTime,
    ) -> Option<LockInfo> {
        let nodes = self.nodes.as_ref()?;
        let mut members = nodes.list.iter();
        let (number, member) = members.find(|(_, member)| member.source.thread == thread)?;
        Some(self.info(*number, member, now))
    }

    /// Describes the next few members, and returns the last of these if there may be more.
    pub(in crate::state) fn page_of_members<T>(
        &self,
        after: Option<MemberNumber>,
        describe: impl Fn(&Members, MemberNumber, &Member) -> Option<T>,
    ) -> (Vec<T>, Option<MemberNumber>) {
        let Some(nodes) = &self.nodes else {
            return (Vec::new(), None);
        };
        let rest = nodes.list.range((
            after.map_or(Bound::Unbounded, Bound::Excluded),
            Bound::Unbounded,
        ));
        let page: Vec<_> = rest.take(PAGE).collect();
        let last = page
            .last()
            .map(|(number, _)| **number)
            .filter(|_| page.len() == PAGE);
        let described = page
            .into_iter()
            .filter_map(|(&number, member)| describe(nodes, number, member));
        (described.collect(), last)
    }

    pub(crate) fn node_stats(&mut self, now: MonotonicTime) -> NodeLockStats {
        let alone = self.held && self.holder.scope.is_some();
        let last_deadlocks = self.last_deadlocks(now);
        let nodes = &**self.nodes.get_or_insert_default();
        let metrics = &nodes.metrics;
        let granted = nodes.list.values().filter(|member| member.grant.is_some());
        NodeLockStats {
            total_acquisitions: metrics.counts.acquisitions,
            total_releases: metrics.counts.releases,
            total_timeouts: metrics.counts.timeouts,
            total_cancellations: metrics.counts.cancellations,
            total_rejections: metrics.counts.rejections,
            total_refusals: metrics.counts.refusals,
            total_revocations: metrics.counts.revocations,
            last_revocations: nodes.last_revocations.list(now),
            total_deadlocks: nodes.deadlocks,
            total_upgrade_conflicts: nodes.upgrade_conflicts,
            last_deadlocks,
            wait: metrics.wait_summary(),
            hold: metrics.hold_summary(),
            holders: granted.count() + usize::from(alone),
            waiting: nodes.waiting,
            entries: nodes.table.len(),
        }
    }

    pub(in crate::state) fn deadlock(
        &mut self,
        cycle: Vec<Link<Granule>>,
        now: MonotonicTime,
    ) -> LockError {
        let nodes = self.nodes.get_or_insert_default();
        let links = cycle.into_iter().filter_map(|link| {
            let member = nodes.list.get(&link.member)?;
            let waited = |asking: &Asking| now - asking.since;
            let mode = |rights: Rights| (rights != Rights::NONE).then(|| rights.mode());
            Some(DeadlockLink {
                lock_id: LockId {
                    number: link.member,
                    lock: self.lock,
                },
                owner_id: member.source.owner.clone(),
                label: member.source.label.clone(),
                call_site: member.source.call_site.into(),
                waits_for: NodeWait {
                    node: link.key.node().cloned(),
                    mode: link.wants.mode(),
                },
                has: mode(link.has),
                held_by_next: mode(link.next_has),
                waiting_for: member.asking.as_ref().map_or(Duration::ZERO, waited),
                held_for: now - member.since,
            })
        });
        let deadlock = Deadlock {
            links: links.collect(),
        };
        nodes.deadlocks += 1;
        if nodes.last_deadlocks.len() == RefusedDeadlock::LISTED {
            nodes.last_deadlocks.pop_front();
        }
        nodes.last_deadlocks.push_back((deadlock.clone(), now));
        if deadlock.is_of_upgrades() {
            nodes.upgrade_conflicts += 1;
            return LockError::UpgradeConflict(Box::new(deadlock));
        }
        LockError::Deadlock(Box::new(deadlock))
    }

    #[cfg(loom)]
    pub(in crate::state) fn waiting_member(
        &self,
        is_meant: impl Fn(&OwnerId) -> bool,
    ) -> Option<RequestPosition> {
        let members = self.nodes.as_ref()?.list.iter();
        let mut asking = members.filter_map(|(&number, member)| {
            let asking = member.asking.as_ref()?;
            is_meant(&member.source.owner).then_some(RequestPosition {
                number,
                wait: asking.wait,
                ticket: None,
            })
        });
        asking.next()
    }
}
