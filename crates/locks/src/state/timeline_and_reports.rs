//! The timeline of a lock, and the reports of long holds and long waits.
//!
//! L32. While requests wait and reports are on, whenever the mutex is free: the keeper looks when
//! the first hold or wait exceeds its threshold, or a little later, or is about to be called.

use super::nodes::Member;
use super::recording::Recording;
use super::*;
use crate::report::{ReportThresholds, SlowReport, SlowRequest};

/// What a lock records and reports beyond its metrics.
#[derive(Debug)]
pub(crate) struct Observed {
    recording: Option<Recording>,
    thresholds: ReportThresholds,
}

impl Observed {
    /// `None` if the options ask for neither a timeline nor reports.
    pub(crate) fn of(settings: &LockOptions) -> Option<Box<Self>> {
        let timeline = settings.timeline;
        (timeline.is_some() || settings.makes_reports()).then(|| {
            Box::new(Self {
                recording: timeline.map(|capacity| Recording::new(capacity, &settings.clock)),
                thresholds: settings.reports,
            })
        })
    }

    /// Records the end of a hold. Returns it if it was long and was not reported.
    fn record_end(
        &mut self,
        hold: &LockHolder,
        nodes: bool,
        busy_for: Duration,
        outcome: TimelineOutcome,
        now: MonotonicTime,
    ) -> Option<(Duration, LockInfo)> {
        if let Some(recording) = &mut self.recording {
            recording.push(recording.hold(hold, nodes, Some(now), outcome));
        }
        hold.more.waited.set(None);
        let was_reported = hold.more.is_reported.take();
        hold.more.is_named.set(false);
        let over = self.thresholds.holds?;
        (busy_for >= over && !was_reported).then(|| (over, hold.info(now)))
    }
}

/// How many holders, of which each waits for the next, are followed to the cause of a wait.
const FOLLOWED: usize = 64;

/// Whether something has lasted for long. Otherwise the time until then counts in `left`.
fn is_over(lasted: Duration, over: Duration, left: &mut Option<Duration>) -> bool {
    if lasted < over {
        let more = over - lasted;
        *left = Some(left.map_or(more, |left| left.min(more)));
    }
    lasted >= over
}

impl LockState {
    // --- The end of holds and waits ---

    /// Records and reports the end of a hold, of the whole lock or of nodes.
    #[cold]
    pub(super) fn observe_end(&mut self, id: LockId, outcome: TimelineOutcome) {
        let nodes = self.part_held() == CapacityPart::Share;
        let Some(mut observed) = self.observed.take() else {
            return;
        };
        let of_nodes = || Some(&self.member_of_number(id.number())?.hold);
        let hold = self.holder().or_else(of_nodes);
        let slow = hold.filter(|hold| hold.is_granted()).and_then(|hold| {
            let busy_for = self.busy_for(hold);
            observed.record_end(hold, nodes, busy_for, outcome, self.now)
        });
        self.observed = Some(observed);
        self.report_hold(slow);
    }

    /// Records that the lock was closed until now. Reports it if it `opens`.
    pub(super) fn observe_opening(&mut self, closed: &LockHolder, opens: bool) {
        let released = TimelineOutcome::Released;
        let observed = self.observed.as_mut();
        let lasted = closed.since.lasted(self.now);
        let slow = observed.and_then(|it| it.record_end(closed, false, lasted, released, self.now));
        self.report_hold(slow.filter(|_| opens));
    }

    /// Reports a long hold that ends now.
    fn report_hold(&mut self, slow: Option<(Duration, LockInfo)>) {
        if let Some((over, holder)) = slow {
            let report = self.report(SlowRequest::Hold { ended: true }, over, Some(holder));
            self.outbox.push(report);
        }
    }

    /// Records that a request which waited holds the whole lock, and reports a long wait.
    #[cold]
    pub(super) fn observe_grant(&mut self, waiter: &LockWaiter) {
        let waited = PackedDuration::new(self.now - waiter.since);
        self.holder.more.waited.set(waited);
        self.report_wait(waiter, 1);
    }

    /// Records and reports a request that ended without a grant.
    pub(super) fn observe_failure(
        &mut self,
        waiter: &LockWaiter,
        position: usize,
        outcome: TimelineOutcome,
    ) {
        self.record_wait(waiter, outcome);
        self.report_wait(waiter, position);
    }

    /// Reports a wait that ends now, if it was long.
    pub(super) fn report_wait(&mut self, waiter: &LockWaiter, position: usize) {
        if let Some(observed) = &self.observed
            && let Some(threshold) = observed.thresholds.waits
            && self.now - waiter.since >= threshold
            && waiter.more.reported_for.get() == 0
        {
            let (request, ended) = (waiter.entry(self.lock, position, self.now), true);
            let slow = SlowRequest::Wait { request, ended };
            let report = self.report(slow, threshold, None);
            self.outbox.push(report);
        }
    }

    /// Records a request that ended without a grant, or that a member made under its grant.
    pub(super) fn record_wait(&mut self, waiter: &LockWaiter, outcome: TimelineOutcome) {
        if let Some(observed) = &mut self.observed
            && let Some(recording) = &mut observed.recording
        {
            recording.push(recording.waiter(waiter, self.lock, Some(self.now), outcome));
        }
    }

    // --- Reports ---

    fn report(
        &self,
        slow: SlowRequest,
        threshold: Duration,
        holder: Option<LockInfo>,
    ) -> AfterUnlock {
        AfterUnlock::Report(Box::new(SlowReport {
            slow,
            threshold,
            holder,
            waiting: self.waiting(),
            first: self.entries().take(SlowReport::FIRST).collect(),
            number: 0,
        }))
    }

    /// Reports the holds, of those that do not wait, and the waits for nodes that exceed their
    /// threshold; the others count in `left`. Returns the threshold of waits if the queue is read.
    pub(crate) fn look_at_slow(&mut self, left: &mut Option<Duration>) -> Option<Duration> {
        let ReportThresholds { holds, waits } = self.observed.as_ref()?.thresholds;
        if self.waiting() == 0 {
            return None;
        }
        let mut reports = Vec::new();
        if let Some(over) = holds {
            let holds = self.holds_or_closing();
            for hold in holds.filter(|hold| !hold.more.is_reported.get() && !self.waits(hold)) {
                if is_over(self.busy_for(hold), over, left) {
                    hold.more.is_reported.set(true);
                    let (slow, holder) = (SlowRequest::Hold { ended: false }, hold.info(self.now));
                    reports.push(self.report(slow, over, Some(holder)));
                }
            }
        }
        if let (Some(over), Some(nodes)) = (waits, &self.nodes) {
            for waiter in self.waiters_for_nodes() {
                let ahead = nodes.table.waits_for(waiter.number);
                let position = 1 + ahead.map(|(_, _, ahead)| ahead).max().unwrap_or(0);
                reports.extend(self.look_at_wait((waiter, position), over, left));
            }
        }
        self.outbox.extend(reports);
        waits
    }

    /// Reports a wait that exceeds the threshold, if its cause has held for so long and has none.
    pub(crate) fn look_at_wait(
        &self,
        (waiter, position): (&LockWaiter, usize),
        over: Duration,
        left: &mut Option<Duration>,
    ) -> Option<AfterUnlock> {
        if !is_over(self.now - waiter.since, over, left) {
            return None;
        }
        let cause = self.cause_of(waiter);
        let held_for = cause.map_or(over, |cause| self.busy_for(cause));
        let number = cause.map_or(u64::MAX, |cause| cause.grant.id().number);
        if waiter.more.reported_for.get() == number || !is_over(held_for, over, left) {
            return None;
        }
        waiter.more.reported_for.set(number);
        let cause = cause.filter(|cause| !cause.more.is_named.replace(true))?;
        let (request, ended) = (waiter.entry(self.lock, position, self.now), false);
        let slow = SlowRequest::Wait { request, ended };
        Some(self.report(slow, over, Some(cause.info(self.now))))
    }

    /// Notes that a request begins to wait. If it is alone, later reports are of another hang.
    pub(crate) fn begin_episode(&self) {
        if self.waiting() == 1 {
            let holds = self.holds_or_closing();
            holds.for_each(|hold| hold.more.is_named.set(false));
        }
    }

    /// Whether a holder of nodes waits for more of them.
    fn waits(&self, hold: &LockHolder) -> bool {
        let member = self.member_of(hold);
        member.is_some_and(|member| member.asking.is_some())
    }

    fn member_of(&self, hold: &LockHolder) -> Option<&Member> {
        let member = self.member_of_number(hold.grant.id().number);
        member.filter(|_| !self.held)
    }

    /// Returns how long a hold has lasted since it last waited for more nodes.
    fn busy_for(&self, hold: &LockHolder) -> Duration {
        let waited = self.member_of(hold).and_then(|member| member.waited_until);
        let lasted = hold.since.lasted(self.now);
        waited.map_or(lasted, |until| lasted.min(self.now - until))
    }

    /// Returns the hold for which a request waits: one that waits for nothing itself. `None` if so
    /// many others are in between that it waits for those, in effect.
    fn cause_of(&self, waiter: &LockWaiter) -> Option<&LockHolder> {
        let mut number = waiter.number;
        let nodes = self.nodes.as_ref();
        let Some(nodes) = nodes.filter(|_| self.member_of_number(number).is_some()) else {
            let mut holds = self.in_front_of(waiter.more.part);
            return holds.find(|hold| !self.waits(hold));
        };
        for _ in 0..FOLLOWED {
            // A holder comes first.
            let nearest = nodes.table.nearest_blockers(number, 2);
            let member = nodes.table.member(*nearest.first()?)?;
            if member.asking.is_none() {
                return Some(&member.hold);
            }
            number = *nearest.first()?;
        }
        None
    }

    /// Lets the keeper look within this time, or a distance of looks. `None` if it does so anyway.
    pub(crate) fn look_within(&mut self, left: Duration) -> Option<Deadline> {
        let distance = self.observed.as_ref()?.thresholds.shortest()? / 32;
        let distance = distance.max(hold_limits::LOOK_DISTANCE);
        self.look_no_later_than(Deadline::after(left.max(distance), self.now)?)
    }

    /// Lets the keeper look when the present holder or a new waiter exceeds its threshold, after a
    /// step in which a request can begin to wait, or a hold can begin.
    #[cold]
    pub(crate) fn watch_slow(&mut self) -> Option<Deadline> {
        let observed = self.observed.as_ref()?;
        if self.waiting() == 0 {
            return None;
        }
        let ReportThresholds { holds, waits } = observed.thresholds;
        let mut left = waits;
        if let Some(over) = holds {
            let hold = self.holder().or(self.closed());
            let hold = hold.filter(|hold| !hold.more.is_reported.get());
            let held_for = hold.map_or(Duration::ZERO, |hold| hold.since.lasted(self.now));
            if is_over(held_for, over, &mut left) {
                left = Some(Duration::ZERO);
            }
        }
        self.look_within(left?)
    }

    // --- The timeline ---

    /// Returns the timeline without entries, and the requests that hold or wait for nodes.
    pub(crate) fn recorded(&self) -> Option<Timeline> {
        let recording = self.recording()?;
        let nodes = self.part_held() == CapacityPart::Share;
        let holding = TimelineOutcome::Holding;
        let holds = self.holds();
        let holds = holds.map(|hold| recording.hold(hold, nodes, None, holding));
        let closed = self.closed().into_iter();
        let closed = closed.map(|hold| recording.hold(hold, false, None, holding));
        let (waiters, waiting) = (self.waiters_for_nodes(), TimelineOutcome::Waiting);
        let waiters = waiters.map(|waiter| recording.waiter(waiter, self.lock, None, waiting));
        let requests = holds.chain(closed).chain(waiters);
        Some(recording.timeline(self.now, requests.collect()))
    }

    pub(crate) fn recording(&self) -> Option<&Recording> {
        self.observed.as_ref()?.recording.as_ref()
    }
}

#[cfg(test)]
#[path = "../../tests/unit/reports.rs"]
mod tests;
