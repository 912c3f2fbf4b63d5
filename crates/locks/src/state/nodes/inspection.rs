//! Reading the state of node locks.

use super::*;

impl LockState {
    /// Returns the first of the members, with members that hold something before the others.
    pub(in crate::state) fn first_member(&self, now: MonotonicTime) -> Option<LockInfo> {
        let nodes = self.nodes.as_ref()?;
        let member = nodes
            .list
            .values()
            .min_by_key(|member| !member.hold.is_granted())?;
        Some(member.hold.info(now))
    }

    pub(in crate::state) fn info_of_member(
        &self,
        number: MemberNumber,
        now: MonotonicTime,
    ) -> Option<LockInfo> {
        Some(self.member_of_number(number)?.hold.info(now))
    }

    pub(in crate::state) fn info_of_thread(
        &self,
        thread: u64,
        now: MonotonicTime,
    ) -> Option<LockInfo> {
        let nodes = self.nodes.as_ref()?;
        let mut members = nodes.list.values();
        let member = members.find(|member| member.hold.source.thread == thread)?;
        Some(member.hold.info(now))
    }

    pub(crate) fn node_stats(&mut self, now: MonotonicTime) -> NodeLockStats {
        let alone = self.held && self.holder.scope.is_some();
        let last_deadlocks = self.last_deadlocks(now);
        let nodes = &**self.nodes.get_or_insert_default();
        let metrics = &nodes.metrics;
        let [wait, hold] = metrics.summaries();
        let granted = nodes.holds();
        NodeLockStats {
            counters: metrics.counts,
            last_revocations: nodes.last_revocations.list(now),
            total_deadlocks: nodes.deadlocks,
            total_upgrade_conflicts: nodes.upgrade_conflicts,
            last_deadlocks,
            wait,
            hold,
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
            let waited = |asking: &LockWaiter| now - asking.since;
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
                waits_for: NodeWait {
                    node: link.key.node().cloned(),
                    mode: link.wants.mode(),
                },
                has: mode(link.has),
                held_by_next: mode(link.next_has),
                waiting_for: member.asking.as_ref().map_or(Duration::ZERO, waited),
                held_for: member.hold.since.lasted(now),
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
}
