//! The requests that lock nodes: they share the lock, and have their nodes in a table.
//!
//! Invariants N6 to N8, beside those of the table:
//!
//! 1. A member has a share of the lock from its admission to its end, so a request for the whole
//!    lock waits for it.
//! 2. A holder of the whole lock with a scope is alone. No request for nodes waits in the queue
//!    while it holds: the first one downgrades it.
//! 3. A member waits for nodes if and only if the table says so.

use super::*;
use crate::last::Last;
use crate::node::{Deadlock, Refused, RefusedDeadlock, Tree};
use crate::queue::{Link, LockTable, MemberNumber};
use crate::request::Requester;
use crate::steps::step;

#[derive(Default)]
pub(super) struct Members {
    /// By the numbers of their requests, hence in FIFO order.
    pub(super) table: LockTable<Granule, Member>,
    /// The threads to which members are bound, each with the member. Sorted.
    threads: Vec<(u64, MemberNumber)>,
    /// How many of them wait for nodes.
    pub(super) waiting: usize,
    /// The members whose holds are not measured and were not observed: at most [`UNMEASURED`].
    unmeasured: Vec<MemberNumber>,
    pub(super) metrics: Recorder,
    /// `None` before the first deadlock.
    pub(super) deadlocks: Option<Box<Deadlocks>>,
}

/// The cycles that were refused.
#[derive(Default)]
pub(super) struct Deadlocks {
    pub(super) total: u64,
    pub(super) of_upgrades: u64,
    pub(super) last: Last<Deadlock, MonotonicTime, { RefusedDeadlock::LISTED }>,
}

/// A request for nodes that was admitted: it holds nodes, or waits for some, or both.
#[derive(Default)]
pub(super) struct Member {
    /// Granted when the whole first request is. Until then it begins at the admission.
    pub(super) hold: LockHolder,
    /// Its request, if it waits.
    pub(super) asking: Option<Box<LockWaiter>>,
    /// When its last wait under the grant ended.
    pub(super) waited_until: Option<MonotonicTime>,
}

/// More holds than this are measured: an observation of the lock records its time for all others.
const UNMEASURED: usize = 4;

/// Makes a request in the queue of the lock or of nodes, which waits from now on.
pub(crate) type MakeRequest<'a> =
    &'a mut dyn FnMut(&Requester<'_>, MonotonicTime) -> Arc<dyn Waiting>;

impl LockState {
    /// Returns the requests that wait for nodes.
    pub(crate) fn waiters_for_nodes(&self) -> impl Iterator<Item = &LockWaiter> {
        let members = self.nodes.iter().flat_map(|nodes| nodes.table.members());
        members.filter_map(|(_, member)| member.asking.as_deref())
    }
}

impl Members {
    /// Returns the request of a member that waits.
    fn asking(&self, number: MemberNumber) -> Option<&LockWaiter> {
        self.table.member(number)?.asking.as_deref()
    }

    /// Whether a member is still in this wait.
    pub(super) fn is_in_wait(&self, number: u64, wait: u64) -> bool {
        let asking = self.asking(number);
        asking.is_some_and(|asking| asking.more.number == wait)
    }

    /// Returns the members that hold nodes.
    pub(super) fn holds(&self) -> impl Iterator<Item = &LockHolder> {
        let holds = self.table.members().map(|(_, member)| &member.hold);
        holds.inspect(|_| step()).filter(|hold| hold.is_granted())
    }

    /// Returns a hold of nodes that is bound to a thread.
    pub(super) fn bound_to(&self, thread: u64) -> Option<&LockHolder> {
        let bound = self.threads[self.first_bound(thread, 0)..].iter();
        let bound = bound.take_while(|bound| bound.0 == thread);
        let mut holds = bound.filter_map(|(_, number)| Some(&self.table.member(*number)?.hold));
        holds.find(|hold| hold.is_granted())
    }

    /// Records an observation of the holds that are not measured.
    #[inline(always)]
    pub(super) fn observe(&mut self, now: MonotonicTime) {
        if !self.unmeasured.is_empty() {
            self.observe_unmeasured(now);
        }
    }

    #[cold]
    fn observe_unmeasured(&mut self, now: MonotonicTime) {
        for number in self.unmeasured.drain(..) {
            if let Some(member) = self.table.member_mut(number) {
                member.hold.since.observe(now);
            }
        }
    }

    /// Binds a member to a thread; zero for none.
    fn bind(&mut self, number: MemberNumber, thread: u64) {
        let Some(member) = self.table.member_mut(number) else {
            return;
        };
        let before = std::mem::replace(&mut member.hold.source.thread, thread);
        self.unbind(number, before);
        self.note_bound(number, thread);
    }

    fn note_bound(&mut self, number: MemberNumber, thread: u64) {
        if thread != 0 {
            let at = self.first_bound(thread, number);
            self.threads.insert(at, (thread, number));
        }
    }

    fn unbind(&mut self, number: MemberNumber, thread: u64) {
        let at = self.first_bound(thread, number);
        if self.threads.get(at) == Some(&(thread, number)) {
            self.threads.remove(at);
        }
    }

    /// Returns the position of a member of a thread, or of the first behind.
    fn first_bound(&self, thread: u64, number: MemberNumber) -> usize {
        self.threads
            .partition_point(|bound| *bound < (thread, number))
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
        let (number, thread) = (hold.grant.id().number, hold.source.thread);
        let nodes = self.nodes.get_or_insert_default();
        let (granted, member) = nodes.table.admit(number, &mut scope.with_intentions(tree));
        debug_assert!(granted, "it was alone");
        (member.hold, member.waited_until) = (hold, None);
        nodes.note_bound(number, thread);
    }

    /// Requests nodes for a request that has none yet.
    pub(crate) fn request_nodes(
        &mut self,
        requester: &Requester<'_>,
        locks: &dyn Fn(&mut NodeSet),
        how: HowToWait,
        request: MakeRequest<'_>,
        clock: &Clock,
    ) -> Result<Requested, LockError> {
        if self.is_timed {
            let thread = requester.bound_to();
            self.refuse_reentry(requester.owner, thread, CapacityPart::Share)?;
        }
        let (mut set, may_wait) = (NodeSet::new(), how.may_wait(self.waiting()));
        locks(&mut set);
        let admitted = self.closed().is_none() && self.queue.try_take(CapacityPart::Share as usize);
        if !may_wait {
            let nodes = self.nodes.get_or_insert_default();
            let in_the_way = admitted.then(|| nodes.table.in_the_way(0, &set)).flatten();
            if !admitted || in_the_way.is_some() {
                if admitted {
                    self.queue.give_back(CapacityPart::Share as usize);
                }
                let part = CapacityPart::Share;
                return Err(self.refuse_wait(requester.owner, part, how, in_the_way));
            }
        }
        if !admitted {
            let request = request(requester, self.now);
            let waiting_at = self.join_queue(request, how.priority, Some(Box::new(set)));
            // It may be ahead of all requests for the whole lock.
            self.serve_queue();
            return Ok(Requested::Waits(waiting_at));
        }
        let number = self.next_id().number;
        Ok(match self.enroll(number, requester, &mut set) {
            true => {
                let (began, limit) = (self.measure(number, clock), requester.hold_limit);
                Requested::Granted(self.grant_member(number, self.now, began, limit))
            }
            false => {
                self.be_timed(clock);
                let request = request(requester, self.now);
                let waiter = LockWaiter::for_nodes(number, number, request, self.now);
                Requested::Waits(self.wait_for_nodes(waiter))
            }
        })
    }

    /// Requests more nodes for a member.
    pub(crate) fn request_more_nodes(
        &mut self,
        grant: Grant,
        (scope, locks): (&Scope, &dyn Fn(&mut NodeSet)),
        how: HowToWait,
        request: MakeRequest<'_>,
        clock: &Clock,
        refused: Refused,
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
            .and_then(|nodes| nodes.table.member_mut(number));
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
        let (mut set, may_wait) = (NodeSet::new(), how.may_wait(self.waiting()));
        locks(&mut set);
        let nodes = self.nodes.get_or_insert_default();
        if !may_wait && let Some(member) = nodes.table.in_the_way(number, &set) {
            let part = CapacityPart::Share;
            let owner = nodes
                .table
                .member(number)
                .map(|own| own.hold.source.owner.clone());
            let owner = owner.unwrap_or_default();
            return Err(self.refuse_wait(&owner, part, how, Some(member)));
        }
        let nodes = self.nodes.get_or_insert_default();
        if nodes.table.ask(number, &mut set) {
            // Its limit is that of its first request.
            let granted = self.grant_member(number, self.now, HoldStart::default(), OF_THE_LOCK);
            return Ok(Requested::Granted(granted));
        }
        self.be_timed(clock);
        let nodes = self.nodes.get_or_insert_default();
        let member = nodes.table.member(number);
        let source = member.map_or_else(RequestSource::default, |it| it.hold.source.clone());
        let request = request(&source.requester(), self.now);
        let wait = self.next_id().number;
        let waiter = LockWaiter::for_nodes(number, wait, request, self.now);
        let waits = self.wait_for_nodes(waiter);
        while let Some(mut cycle) = self.cycle_of(number) {
            if refused == Refused::Another {
                cycle.rotate_left(1);
                let next = cycle[0].member;
                if self.is_first(next) {
                    self.pass_first_requests(number, next);
                    continue;
                }
            }
            let refused = cycle[0].member;
            let error = self.deadlock(cycle);
            match self.refuse(refused).filter(|_| refused != number) {
                Some(request) => {
                    let answer = AfterUnlock::Answer(request, Err(Box::new(error)));
                    self.outbox.push(answer);
                }
                None => return Err(error),
            }
        }
        Ok(Requested::Waits(waits))
    }

    fn cycle_of(&self, number: MemberNumber) -> Option<Vec<Link<Granule>>> {
        self.nodes.as_ref()?.table.cycle(number)
    }

    /// Whether a member waits with its first request.
    fn is_first(&self, number: MemberNumber) -> bool {
        let member = self.member_of_number(number);
        member.is_some_and(|member| !member.hold.is_granted() && member.asking.is_some())
    }

    /// Moves the first request for which a member waits, and those before it in its queues, to the
    /// end of their queues, in their order. They have nothing that others need, so they need not be
    /// refused.
    fn pass_first_requests(&mut self, number: MemberNumber, first: MemberNumber) {
        let nodes = self.nodes.get_or_insert_default();
        let mut before = nodes.table.queued_before(number);
        // It may also have a part of what it requested.
        before.insert(first);
        for number in before {
            if !self.is_first(number) {
                continue;
            }
            let nodes = self.nodes.get_or_insert_default();
            let (granted, served) = nodes.table.ask_again(number);
            self.grant_served(served);
            if granted {
                self.grant_served([number]);
            } else if self.had_limits
                && let Some(asking) = self
                    .member_of_number(number)
                    .and_then(|it| it.asking.as_ref())
            {
                // Holders delay it that did not before.
                let due = self.due_for(asking.position_at(None));
                self.let_keeper_look(due);
            }
        }
    }

    /// Withdraws the request of a member that is refused, and returns it.
    fn refuse(&mut self, number: MemberNumber) -> Option<Arc<dyn Waiting>> {
        let refused = self.stop_waiting(number)?;
        self.observe_failure(&refused, 1, TimelineOutcome::Deadlock);
        self.stop_asking(number);
        Some(refused.request)
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
        let mut set = scope.with_intentions(tree);
        let nodes = self.nodes.get_or_insert_default();
        if nodes.table.in_the_way(number, &set).is_some() {
            return None;
        }
        let granted = nodes.table.ask(number, &mut set);
        debug_assert!(granted, "no lock is in the way");
        // Its limit counts from its first grant.
        Some(self.grant_member(number, self.now, HoldStart::default(), OF_THE_LOCK))
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
        let began = HoldStart::now(self.now);
        let grant = self.grant_member(number, since, began, head.hold_limit);
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
    pub(super) fn enroll(
        &mut self,
        number: u64,
        requester: &Requester<'_>,
        set: &mut NodeSet,
    ) -> bool {
        let id = self.id(number);
        let nodes = self.nodes.get_or_insert_default();
        let (granted, member) = nodes.table.admit(number, set);
        let hold = &mut member.hold;
        hold.source.assign(requester);
        hold.grant = Grant::new(id, FencingToken(0), false);
        hold.more = LockHold::default();
        member.waited_until = None;
        nodes.note_bound(number, requester.bound_to());
        granted
    }

    pub(super) fn wait_for_nodes(&mut self, waiter: LockWaiter) -> RequestPosition {
        let position = waiter.position_at(None);
        let nodes = self.nodes.get_or_insert_default();
        if let Some(member) = nodes.table.member_mut(waiter.number) {
            if !member.hold.is_granted() {
                member.hold.since = HoldStart::now(self.now);
            }
            member.asking = Some(Box::new(waiter));
            nodes.waiting += 1;
        }
        position
    }

    /// Whether the step of a request for nodes has to know the time if that is granted at once: it
    /// is refused, or a request waits that may be named, or may have to be revoked.
    pub(crate) fn is_timed_for(&self, requester: Option<&Requester<'_>>, how: HowToWait) -> bool {
        let bound = |thread| {
            self.nodes
                .as_ref()
                .is_some_and(|it| it.bound_to(thread).is_some())
        };
        let matters = |it: &Requester<'_>| {
            self.limit_of(it.hold_limit).is_some() || it.thread != 0 && bound(it.bound_to())
        };
        !self.is_quiet() || !how.may_wait(0) || requester.is_some_and(matters)
    }

    /// Begins the step that ends a hold. Beside holds of nodes only, it observes none of these.
    pub(crate) fn begin_end(&mut self, id: LockId, clock: &Clock) {
        if !self.is_quiet() {
            return self.read_clock(clock);
        }
        let member = self.member_of_number(id.number);
        if member.is_some_and(|member| member.hold.since.is_known()) {
            self.now = clock.now();
        }
    }

    /// Whether only nodes are held, and no request waits.
    pub(crate) fn is_quiet(&self) -> bool {
        let is_shared = !self.held && self.waiting() == 0 && self.closed().is_none();
        is_shared && self.observed.is_none()
    }

    /// Reads the clock, if the step has not done so.
    fn be_timed(&mut self, clock: &Clock) {
        if !self.is_timed {
            self.read_clock(clock);
        }
    }

    /// Decides whether the hold of a member is measured, as for the whole lock.
    fn measure(&mut self, number: MemberNumber, clock: &Clock) -> HoldStart {
        if self.is_timed {
            return HoldStart::now(self.now);
        }
        let nodes = self.nodes.get_or_insert_default();
        if nodes.unmeasured.len() == UNMEASURED {
            return HoldStart::now(clock.now());
        }
        let began = self.sampling.measure(|| clock.now());
        if !began.is_known() {
            nodes.unmeasured.push(number);
        }
        began
    }

    /// Records that a member was granted all that it had requested at `asked_at`. The limit and the
    /// beginning of the hold are those of its first request.
    fn grant_member(
        &mut self,
        number: u64,
        asked_at: MonotonicTime,
        began: HoldStart,
        limit: RequestLimit,
    ) -> Grant {
        let id = self.id(number);
        self.last_token += 1;
        let overdue = self.overdue(limit);
        self.had_limits |= overdue.is_some();
        let granted = Grant::new(id, FencingToken(self.last_token), overdue.is_some());
        let nodes = self.nodes.get_or_insert_default();
        if self.now != asked_at {
            nodes.metrics.durations.record_wait(self.now - asked_at);
        }
        let Some(member) = nodes.table.member_mut(number) else {
            debug_assert!(false, "only members are granted nodes");
            return granted;
        };
        let hold = &mut member.hold;
        let (mut grant, mut overdue) = (granted, overdue);
        if hold.is_granted() {
            hold.grant.token = granted.token;
            (grant, overdue) = (hold.grant, hold.more.overdue);
        } else {
            nodes.metrics.counts.total_acquisitions += 1;
            hold.grant = granted;
            hold.since = began;
            hold.more.overdue = overdue;
            hold.more
                .waited
                .set(PackedDuration::new(self.now - asked_at));
        }
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
        let member = nodes.table.member_mut(number)?;
        let asking = member.asking.take()?;
        if asking.since < self.now {
            member.waited_until = Some(self.now);
        }
        nodes.waiting -= 1;
        Some(*asking)
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
                let asking = nodes.asking(*queued)?;
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
        let member = nodes.table.member(number);
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
        self.nodes.as_ref()?.table.member(number)
    }

    /// Returns the hold with this id, of the whole lock or of nodes.
    pub(crate) fn hold_of(&mut self, id: LockId) -> Option<&mut LockHolder> {
        if self.held {
            return self.holder_of(id);
        }
        let nodes = self.nodes.as_mut().filter(|_| id.lock == self.lock)?;
        Some(&mut nodes.table.member_mut(id.number)?.hold)
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
        if id.lock == self.lock {
            self.leave(id.number, TimelineOutcome::Released);
        }
        self.outbox.pop()
    }

    /// Abandons the request of a task for nodes. A member keeps its earlier nodes; a member without
    /// any ends, also if it was granted nodes meanwhile.
    pub(super) fn abandon_nodes(&mut self, number: u64, wait: u64) -> Option<Arc<dyn Waiting>> {
        let nodes = self.nodes.as_mut()?;
        let member = nodes.table.member_mut(number)?;
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

    /// Removes a member with all its locks, if it is there. Its request fails if it waits for more.
    pub(super) fn leave(&mut self, number: u64, outcome: TimelineOutcome) {
        if self.observed.is_some() {
            self.observe_end(self.id(number), outcome);
        }
        if self.waiting_for_nodes() > 0
            && let Some(asking) = self.stop_waiting(number)
        {
            let id = self.id(number);
            let waiter = self.revoked_for(id);
            let verdict = Err(Box::new(LockError::Revoked { id, waiter }));
            self.outbox
                .push(AfterUnlock::Answer(asking.request, verdict));
        }
        let nodes = self.nodes.get_or_insert_default();
        let Some((member, served)) = nodes.table.dismiss(number) else {
            return;
        };
        let hold = &mut member.hold;
        let (since, thread) = (hold.since, hold.source.thread);
        let held = since.known().filter(|_| hold.is_granted());
        hold.source.forget();
        if !since.is_known() {
            nodes.unmeasured.retain(|unmeasured| *unmeasured != number);
        }
        nodes.unbind(number, thread);
        if let Some((since, weight)) = held {
            let held = self.now - since;
            nodes.metrics.durations.record_hold(held, weight);
            self.pace.take_in(held);
        }
        nodes.metrics.counts.total_releases += u64::from(outcome == TimelineOutcome::Released);
        let was_last = !nodes.table.has_members();
        if !served.is_empty() {
            self.grant_served(served);
        }
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
        let waiting = table.members();
        let excluded = waiting.filter(|(waiter, _)| table.excludes(number, *waiter));
        let excluded = excluded.filter_map(|(_, member)| member.asking.as_deref());
        let behind = || {
            let behind = table.directly_behind(number);
            let behind = behind.filter_map(|waiter| nodes.asking(waiter));
            behind.min_by_key(|asking| asking.since)
        };
        let first = excluded.min_by_key(|asking| asking.since);
        first.or_else(behind)
    }
}

#[cfg(test)]
#[path = "../../tests/unit/nodes.rs"]
mod tests;
