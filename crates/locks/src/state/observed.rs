//! The timeline of a lock, and the reports of long holds and long waits.
//!
//! L32. While requests wait and reports are on, whenever the mutex is free: the keeper looks when
//! the first hold or wait exceeds its threshold, or a little later, so that its looks are not too
//! many. Otherwise a thread is about to make it do so.

use super::*;
use crate::recording::{RecordedRequest, Recording};
use crate::report::{LockReport, ReportThresholds, SlowRequest};

/// What a lock records and reports beyond its metrics.
#[derive(Debug)]
pub(crate) struct Observed {
    recording: Option<Recording>,
    thresholds: ReportThresholds,
    /// When the holder requested the lock, if it had to wait.
    requested: Option<MonotonicTime>,
    /// Whether the hold was reported.
    is_reported: bool,
    /// When the keeper looks next.
    next_look: Option<MonotonicTime>,
}

/// The part of a look at long holds and waits that was not taken yet.
#[derive(Debug, Default)]
pub(crate) struct SlowLook {
    after: Option<Ticket>,
    listed: usize,
    /// The time until the next hold or wait exceeds its threshold.
    left: Option<Duration>,
}

/// A wait that has ended, or goes on.
pub(super) struct Waited<'a> {
    pub(super) number: u64,
    pub(super) requester: Requester<'a>,
    pub(super) part: CapacityPart,
    pub(super) since: MonotonicTime,
    pub(super) position: usize,
    pub(super) is_reported: bool,
}

impl Observed {
    /// `None` if the options ask for neither a timeline nor reports.
    pub(crate) fn of(
        timeline: Option<usize>,
        thresholds: ReportThresholds,
        clock: &Clock,
    ) -> Option<Box<Self>> {
        let recording = timeline.map(|capacity| Recording::new(capacity, clock));
        (recording.is_some() || thresholds.shortest().is_some()).then(|| {
            Box::new(Self {
                recording,
                thresholds,
                requested: None,
                is_reported: false,
                next_look: None,
            })
        })
    }
}

/// The shorter of two times until a look.
fn sooner(left: &mut Option<Duration>, other: Duration) {
    *left = Some(left.map_or(other, |left| left.min(other)));
}

impl LockState {
    // --- The end of holds and waits ---

    /// Records and reports the end of the hold of the whole lock.
    #[inline]
    pub(super) fn observe_hold(&mut self, outcome: TimelineOutcome, now: Moment) {
        if self.observed.is_some() {
            self.observe_end_of_hold(outcome, now);
        }
    }

    #[inline(never)]
    fn observe_end_of_hold(&mut self, outcome: TimelineOutcome, now: Moment) {
        let Some(mut observed) = self.observed.take() else {
            return;
        };
        let granted = self.holder.since.known().map_or(now.at, |(at, _)| at);
        let requested = observed.requested.take().unwrap_or(granted);
        let was_reported = std::mem::take(&mut observed.is_reported);
        if let Some(recording) = &mut observed.recording {
            let LockHolder {
                grant,
                source,
                scope,
                ..
            } = &self.holder;
            let ended = RecordedRequest::of(
                grant.id().number,
                &source.requester(),
                scope.is_some(),
                requested,
                Some(now.at),
                outcome,
            );
            recording.push(ended.granted(granted));
        }
        let threshold = observed.thresholds.holds;
        self.observed = Some(observed);
        if let Some(threshold) = threshold.filter(|&over| now.at - granted >= over)
            && !was_reported
        {
            let holder = self.holder.info(now.at);
            self.report(
                SlowRequest::Hold { ended: true },
                threshold,
                Some(holder),
                now,
            );
        }
    }

    /// Records and reports the end of the hold of a member.
    pub(super) fn observe_member(&mut self, number: u64, outcome: TimelineOutcome, now: Moment) {
        let Some(mut observed) = self.observed.take() else {
            return;
        };
        let threshold = observed.thresholds.holds;
        let mut slow = None;
        let members = self.nodes.as_ref().map(|nodes| &nodes.list);
        if let Some(member) = members.and_then(|list| list.get(&number))
            && member.grant.is_some()
        {
            if let Some(recording) = &mut observed.recording {
                let requester = member.source.requester();
                let (requested, ended) = (member.requested, Some(now.at));
                let ended =
                    RecordedRequest::of(number, &requester, true, requested, ended, outcome);
                recording.push(ended.granted(member.since));
            }
            slow = threshold
                .filter(|&over| now.at - member.since >= over && !member.is_reported.get())
                .map(|threshold| (threshold, self.info(number, member, now.at)));
        }
        self.observed = Some(observed);
        if let Some((threshold, holder)) = slow {
            self.report(
                SlowRequest::Hold { ended: true },
                threshold,
                Some(holder),
                now,
            );
        }
    }

    /// Records that a request which waited holds the whole lock, and reports a long wait.
    #[inline]
    pub(super) fn observe_grant(&mut self, waited: &Waited<'_>, now: Moment) {
        if let Some(observed) = &mut self.observed {
            observed.requested = Some(waited.since);
            self.report_wait(waited, now);
        }
    }

    /// Records and reports a request that ended without a grant.
    #[inline]
    pub(super) fn observe_failure(
        &mut self,
        waited: &Waited<'_>,
        outcome: TimelineOutcome,
        now: Moment,
    ) {
        if self.observed.is_some() {
            self.record_wait(waited, outcome, now.at);
            self.report_wait(waited, now);
        }
    }

    /// Reports a wait that ends now, if it was long.
    #[inline(never)]
    pub(super) fn report_wait(&mut self, waited: &Waited<'_>, now: Moment) {
        let thresholds = self.observed.as_ref().map(|observed| observed.thresholds);
        if let Some(threshold) = thresholds.and_then(|thresholds| thresholds.waits)
            && now.at - waited.since >= threshold
            && !waited.is_reported
        {
            let request = waited.entry(self.lock, now.at);
            let slow = SlowRequest::Wait {
                request,
                ended: true,
            };
            self.report(slow, threshold, None, now);
        }
    }

    /// Records a request that ended without a grant, or that a member made under its grant.
    pub(super) fn record_wait(
        &mut self,
        waited: &Waited<'_>,
        outcome: TimelineOutcome,
        now: MonotonicTime,
    ) {
        let observed = self.observed.as_mut();
        let Some(recording) = observed.and_then(|observed| observed.recording.as_mut()) else {
            return;
        };
        let Waited {
            number,
            requester,
            part,
            since,
            ..
        } = waited;
        let nodes = *part == CapacityPart::Share;
        let ended = RecordedRequest::of(*number, requester, nodes, *since, Some(now), outcome);
        recording.push(match outcome {
            TimelineOutcome::Extended => ended.granted(now),
            _ => ended,
        });
    }

    // --- Reports ---

    fn report(
        &mut self,
        slow: SlowRequest,
        threshold: Duration,
        holder: Option<LockInfo>,
        now: Moment,
    ) {
        let waiting = self.queue.len() + self.waiting_for_nodes();
        let first = self.entries(now.at).take(LockReport::FIRST).collect();
        let report = LockReport {
            slow,
            threshold,
            holder,
            waiting,
            first,
            number: 0,
        };
        self.outbox.push(AfterUnlock::Report(Box::new(report)));
    }

    /// Reports the holds and waits that exceed their threshold, one page of the queue at a time.
    /// Returns whether there is another page.
    pub(crate) fn look_at_slow(&mut self, look: &mut SlowLook, now: Moment) -> bool {
        let Some(observed) = &mut self.observed else {
            return false;
        };
        let thresholds = observed.thresholds;
        if look.after.is_none() {
            observed.next_look = None;
            if self.queue.is_empty() && self.waiting_for_nodes() == 0 {
                return false;
            }
            if let Some(over) = thresholds.holds {
                self.look_at_holds(look, over, now);
            }
            if let Some(over) = thresholds.waits {
                self.look_at_waits_for_nodes(look, over, now);
            }
        }
        match thresholds.waits {
            Some(over) => self.look_at_queue(look, over, now),
            None => false,
        }
    }

    fn look_at_holds(&mut self, look: &mut SlowLook, over: Duration, now: Moment) {
        let mut slow = Vec::new();
        if self.held {
            let is_reported = self.observed.as_ref().is_none_or(|seen| seen.is_reported);
            let held_for = self.holder.since.lasted(now.at);
            match over.checked_sub(held_for).filter(|left| !left.is_zero()) {
                _ if is_reported => {}
                Some(left) => sooner(&mut look.left, left),
                None => slow.push(self.holder.info(now.at)),
            }
            if let Some(observed) = &mut self.observed {
                observed.is_reported |= !slow.is_empty();
            }
        }
        let members = self.nodes.iter().flat_map(|nodes| &nodes.list);
        for (&number, member) in members.filter(|(_, member)| member.grant.is_some()) {
            let held_for = now.at - member.since;
            match over.checked_sub(held_for).filter(|left| !left.is_zero()) {
                _ if member.is_reported.get() => {}
                Some(left) => sooner(&mut look.left, left),
                None => {
                    member.is_reported.set(true);
                    slow.push(self.info(number, member, now.at));
                }
            }
        }
        for holder in slow {
            self.report(SlowRequest::Hold { ended: false }, over, Some(holder), now);
        }
    }

    fn look_at_waits_for_nodes(&mut self, look: &mut SlowLook, over: Duration, now: Moment) {
        let Some(nodes) = &self.nodes else {
            return;
        };
        let mut slow = Vec::new();
        for (&number, member) in &nodes.list {
            let Some(asking) = member.asking.as_ref().filter(|ask| !ask.is_reported.get()) else {
                continue;
            };
            match over
                .checked_sub(now.at - asking.since)
                .filter(|left| !left.is_zero())
            {
                Some(left) => sooner(&mut look.left, left),
                None => {
                    asking.is_reported.set(true);
                    let ahead = nodes.table.waits_for(number).map(|(_, _, ahead)| ahead);
                    let position = 1 + ahead.max().unwrap_or(0);
                    let blocker = nodes.table.blockers(number).into_iter().next();
                    let holder = blocker.and_then(|blocker| self.info_of_member(blocker, now.at));
                    slow.push((self.entry(number, asking, position, now.at), holder));
                }
            }
        }
        for (request, holder) in slow {
            self.report(
                SlowRequest::Wait {
                    request,
                    ended: false,
                },
                over,
                holder,
                now,
            );
        }
    }

    fn look_at_queue(&mut self, look: &mut SlowLook, over: Duration, now: Moment) -> bool {
        let (page, next) = self.queue.page(look.after, PAGE);
        let mut slow = Vec::new();
        for ((_, waiter), position) in page.into_iter().zip(look.listed + 1..) {
            look.listed = position;
            if waiter.is_reported.get() {
                continue;
            }
            match over
                .checked_sub(now.at - waiter.since)
                .filter(|left| !left.is_zero())
            {
                Some(left) => sooner(&mut look.left, left),
                None => {
                    waiter.is_reported.set(true);
                    slow.push(waiter.entry(self.lock, position, now.at));
                }
            }
        }
        let holder = self.current(now.at).filter(|_| !slow.is_empty());
        for request in slow {
            let slow = SlowRequest::Wait {
                request,
                ended: false,
            };
            self.report(slow, over, holder.clone(), now);
        }
        look.after = next;
        next.is_some()
    }

    /// Ends a look. Returns when to look next.
    pub(crate) fn end_look(&mut self, look: &SlowLook, now: Moment) -> Option<Deadline> {
        self.look_within(look.left?, now)
    }

    /// Lets the keeper look within this time, unless it does so anyway. Looks have a distance, so
    /// that many requests cause few looks.
    fn look_within(&mut self, left: Duration, now: Moment) -> Option<Deadline> {
        let observed = self.observed.as_mut()?;
        let distance = observed.thresholds.shortest()? / 32;
        let left = left.max(distance);
        let at = now.at.saturating_add(left);
        if observed.next_look.is_some_and(|next| next <= at) {
            return None;
        }
        observed.next_look = Some(at);
        now.clock.deadline(left)
    }

    /// Lets the keeper look when the present holder or a new waiter exceeds its threshold. Called
    /// with each request that begins to wait, and with each grant that other requests wait for.
    #[inline]
    pub(crate) fn watch_slow(&mut self, now: Moment) -> Option<Deadline> {
        match &self.observed {
            None => None,
            Some(_) => self.watch_slow_requests(now),
        }
    }

    #[inline(never)]
    fn watch_slow_requests(&mut self, now: Moment) -> Option<Deadline> {
        let observed = self.observed.as_ref()?;
        if self.queue.is_empty() && self.waiting_for_nodes() == 0 {
            return None;
        }
        let ReportThresholds { holds, waits } = observed.thresholds;
        let mut left = waits;
        if let Some(over) = holds {
            let held_for = match self.held && !observed.is_reported {
                true => self.holder.since.lasted(now.at),
                false => Duration::ZERO,
            };
            sooner(&mut left, over.saturating_sub(held_for));
        }
        self.look_within(left?, now)
    }

    // --- The timeline ---

    /// Returns the timeline without the requests that have ended, and the requests that hold or
    /// wait for nodes. `None` if the lock has no timeline.
    pub(crate) fn recorded(&self, now: MonotonicTime) -> Option<(Timeline, Vec<TimelineEntry>)> {
        let observed = self.observed.as_ref()?;
        let recording = observed.recording.as_ref()?;
        let mut unfinished = Vec::new();
        let holding = TimelineOutcome::Holding;
        if let Some(holder) = self.holder() {
            let granted = holder.since.known().map(|(at, _)| at).unwrap_or_default();
            let requested = observed.requested.unwrap_or(granted);
            let (number, nodes) = (holder.grant.id().number, holder.scope.is_some());
            let requester = holder.source.requester();
            let held = RecordedRequest::of(number, &requester, nodes, requested, None, holding);
            unfinished.push(held.granted(granted));
        }
        let members = || self.nodes.iter().flat_map(|nodes| &nodes.list);
        for (&number, member) in members().filter(|(_, member)| member.grant.is_some()) {
            let (requester, requested) = (member.source.requester(), member.requested);
            let held = RecordedRequest::of(number, &requester, true, requested, None, holding);
            unfinished.push(held.granted(member.since));
        }
        let waiting = TimelineOutcome::Waiting;
        for (&number, member) in members() {
            if let Some(Asking { request, since, .. }) = &member.asking {
                let requester = request.requester();
                let waits = RecordedRequest::of(number, &requester, true, *since, None, waiting);
                unfinished.push(waits);
            }
        }
        let unfinished = unfinished.iter();
        let unfinished = unfinished.map(|request| recording.entry(request, self.lock));
        Some((recording.timeline(now), unfinished.collect()))
    }

    fn recording(&self) -> Option<&Recording> {
        self.observed.as_ref()?.recording.as_ref()
    }

    /// Lists the last of the first `end` requests that have ended, for the timeline.
    pub(crate) fn recorded_page(&self, end: u64) -> Vec<TimelineEntry> {
        let recording = self.recording();
        recording.map_or_else(Vec::new, |recording| recording.page(end, self.lock))
    }

    /// Lists a page of the queue for the timeline, and returns the position of the next page.
    pub(crate) fn recorded_queue(
        &self,
        after: Option<Ticket>,
    ) -> (Vec<TimelineEntry>, Option<Ticket>) {
        let Some(recording) = self.recording() else {
            return (Vec::new(), None);
        };
        let (page, next) = self.queue.page(after, PAGE);
        let page = page.into_iter().map(|(_, waiter)| {
            let requester = waiter.request.requester();
            let (nodes, waiting) = (waiter.nodes.is_some(), TimelineOutcome::Waiting);
            let (number, since) = (waiter.number, waiter.since);
            let waits = RecordedRequest::of(number, &requester, nodes, since, None, waiting);
            recording.entry(&waits, self.lock)
        });
        (page.collect(), next)
    }
}

impl Asking {
    /// Describes the wait.
    pub(super) fn waited(&self, number: u64, position: usize) -> Waited<'_> {
        Waited {
            number,
            requester: self.request.requester(),
            part: CapacityPart::Share,
            since: self.since,
            position,
            is_reported: self.is_reported.get(),
        }
    }
}

impl<'a> Waited<'a> {
    /// Describes a request for nodes that is refused without a wait.
    pub(crate) fn at_once(number: u64, requester: Requester<'a>, now: MonotonicTime) -> Self {
        Self {
            number,
            requester,
            part: CapacityPart::Share,
            since: now,
            position: 1,
            is_reported: false,
        }
    }

    fn entry(&self, lock: u32, now: MonotonicTime) -> QueueEntry {
        let id = LockId {
            number: self.number,
            lock,
        };
        QueueEntry::of(id, &self.requester, now - self.since, self.position)
    }
}
