//! The picture as a table: what holds and waits first, then what lags and pins memory.

use std::fmt;
use std::time::Duration;

use doclock_common::cells::{Bytes, Count, KeptPart, Line, ShortDuration, cut};
use doclock_common::rows::{KeyRow, ROWS, Row, Rows, at_least, number_of, owner_cell, short};

use super::{
    Diagnostics, DurableDiagnostics, InboxDiagnostics, LeaseDiagnostics, LogDiagnostics,
    RegisteredPrimitive, SubscriberDiagnostics,
};
use crate::events::Filter;
use crate::lock::keyed::HeldKey;
use crate::lock::limiter::LimiterSnapshot;
use crate::lock::{
    HeldLock, LockInfo, LockReport, PrimitiveState, Priority, WaiterKind, WaitingRequest,
};
use crate::store::causes::{Delaying, holders};

/// Where the thread of a holder is that waits in no lock.
const NOT_IN_DOCLOCK: &str = "not waiting in doclock: it runs, or waits for something else";

/// Of how many waiters the thread is printed.
const THREADS: usize = 3;

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table(Rows::default());
        for cause in self.causes.iter().take(ROWS / 4) {
            table.0.paragraph("CAUSE", cause);
        }
        table.0.more(self.causes.len(), ROWS / 4);
        table.lock("LOCK", &self.lock, &self.log.subscribers);
        table.deadlocks(&self.lock);
        if let Some(publishing) = &self.publishing {
            table.lock("PUBLISHING", publishing, &[]);
        }
        table.versions(self);
        table.followers(&self.log);
        table.leases(&self.leases, self.lease_count);
        table.inboxes(&self.inboxes, self.inbox_count);
        table.registered(&self.registered);
        table.counters(&self.lock);
        f.write_str(&table.0.0.join("\n"))
    }
}

/// The lines so far.
struct Table(Rows);

impl Table {
    /// Lists holders and waiters, and which of the subscribers close the lock.
    fn lock(&mut self, name: &str, lock: &LockReport, subscribers: &[SubscriberDiagnostics]) {
        let LockReport {
            holders,
            closed_by,
            waiters,
            ..
        } = lock;
        let held = match holders.len() {
            0 if closed_by.is_some() => "closed".to_owned(),
            0 => "free".to_owned(),
            1 if holders[0].node_count == 0 => "held".to_owned(),
            count => format!("nodes held by {}", Count(count as u64, "owner")),
        };
        let longest = waiters.iter().map(|waiter| waiter.request.wait_time).max();
        let waiting = match longest {
            None => "no request waits".to_owned(),
            Some(longest) => {
                let verb = if waiters.len() == 1 { "waits" } else { "wait" };
                let count = Count(waiters.len() as u64, "request");
                format!("{count} {verb}, the longest for {}", ShortDuration(longest))
            }
        };
        let held_by = holders.iter().map(|held| &held.holder);
        let held_ids = held_by.chain(closed_by).map(|holder| holder.lock_id);
        let mut ids = held_ids.chain(waiters.iter().map(|waiter| waiter.request.lock_id));
        let ids = ids.next().map_or(String::new(), |id| {
            let first = id.number() - number_of(id) + 1;
            let id = id.to_string();
            let lock = id.rsplit('-').next().unwrap_or_default();
            format!(" (#1 is lock-{first}-{lock})")
        });
        self.0.title(name, format_args!("{held}, {waiting}{ids}"));
        if !holders.is_empty() || closed_by.is_some() {
            self.0.columns();
        }
        for held in self::holders(lock).iter().take(ROWS) {
            let id = held.0.holder.lock_id;
            let waits_here = waiters.iter().any(|waiter| waiter.request.lock_id == id);
            self.held(held, waits_here, holders.len() > 1);
        }
        self.0.more(holders.len(), ROWS);
        if let Some(closer) = closed_by {
            self.0.row(&Row {
                mark: "closes".to_owned(),
                ..row_of(closer)
            });
            for subscriber in subscribers.iter().filter(|it| it.closes_lock) {
                let site = subscriber.call_site.as_ref();
                match site.is_some_and(|site| *site == closer.call_site) {
                    true => self
                        .0
                        .text(format_args!(" which has {}", Unread(subscriber))),
                    false => self
                        .0
                        .text(format_args!(" closed by the {}", SubscriberLag(subscriber))),
                }
            }
        }
        for (nth, waiter) in waiters.iter().take(ROWS).enumerate() {
            self.waiter(waiter, holders);
            if let overtaking @ 1.. = overtaking(&waiters[..=nth]) {
                let requests = Count(overtaking as u64, "later request");
                self.0.text(format_args!(
                    " overtaken by {requests} of a higher priority"
                ));
            }
            if let Some(thread) = waiter.thread.as_ref().filter(|_| nth < THREADS) {
                self.0.text(format_args!(" thread {}", thread.name));
            }
        }
        self.0.more(waiters.len(), ROWS);
    }

    fn held(&mut self, (held, delayed): &Delaying<'_>, waits_here: bool, is_one_of_many: bool) {
        let HeldLock {
            holder,
            in_transaction,
            thread,
            thread_ended,
            hold_limit,
            nodes,
            node_count,
            ..
        } = held;
        let mut notes = Vec::new();
        if let Some(delayed) = delayed
            .as_ref()
            .filter(|it| is_one_of_many && !it.is_empty())
        {
            notes.push(format!("blocks {}", delayed.len()));
        }
        if holder.untaken {
            notes.push("task not polled".to_owned());
        }
        if *in_transaction {
            notes.push("in a transaction".to_owned());
        }
        let left = |limit: Duration| limit.saturating_sub(holder.held_for);
        let all_nodes = (nodes.len() >= HeldLock::LISTED).then_some(*node_count);
        let nodes = nodes.iter().map(|(id, mode)| format!("{id} ({mode})"));
        self.0.row(&Row {
            left: hold_limit.map(left),
            notes,
            nodes: nodes.collect(),
            all_nodes,
            ..row_of(holder)
        });
        // The rows of the waiters say where it waits here.
        match thread {
            _ if waits_here || holder.untaken => {}
            Some(thread) if thread.waits => self.0.text(format_args!(" {thread}")),
            Some(thread) => self.0.text(format_args!(" {thread}, {NOT_IN_DOCLOCK}")),
            None if *thread_ended => self.0.text(" its thread has ended"),
            None => self
                .0
                .text(" no thread: held by a task, by its id, or unbound"),
        }
    }

    fn waiter(&mut self, waiter: &WaitingRequest, holders: &[HeldLock]) {
        let WaitingRequest {
            request,
            waits_for,
            blocked_by,
            ..
        } = waiter;
        // All wait for the only holder: of more interest is the request ahead.
        let blockers = match (holders, &blocked_by[..]) {
            ([held], [first, ahead @ ..]) if held.holder.lock_id == *first && !ahead.is_empty() => {
                ahead
            }
            (_, all) => all,
        };
        let blockers = blockers.iter().map(|id| short(*id));
        let behind = format!("behind {}", blockers.collect::<Vec<_>>().join(" "));
        let notes = traits_of(waiter).into_iter();
        let nodes = waits_for.iter().map(|wait| match &wait.node {
            Some(id) => format!("{id} ({})", wait.mode),
            None => format!("the document ({})", wait.mode),
        });
        self.0.row(&Row {
            mark: format!("{}.", request.position),
            id: Some(request.lock_id),
            label: request.label.as_deref(),
            since: ShortDuration(request.wait_time).to_string(),
            left: waiter.time_left,
            notes: notes.chain([behind]).collect(),
            all_nodes: (waits_for.len() >= HeldLock::LISTED).then_some(waiter.node_count),
            nodes: nodes.collect(),
            ..Row::of(&request.owner_id, &request.call_site)
        });
    }

    /// Lists the last refused cycle.
    fn deadlocks(&mut self, lock: &LockReport) {
        let Some(last) = lock.deadlocks.last() else {
            return;
        };
        let ago = ShortDuration(last.refused_for);
        let text = "each waited for the next, the last for the first";
        self.0.title("DEADLOCK", format_args!("{ago} ago, {text}"));
        let links = &last.deadlock.links;
        let nexts = links.iter().cycle().skip(1);
        for (nth, (link, next)) in links.iter().zip(nexts).take(ROWS).enumerate() {
            let wait = &link.waits_for;
            let node = wait.node.as_ref().map(|id| format!("{id} ({})", wait.mode));
            self.0.row(&Row {
                mark: if nth == 0 { "refused" } else { "waited" }.to_owned(),
                id: Some(link.lock_id),
                label: link.label.as_deref(),
                since: ShortDuration(link.held_for).to_string(),
                notes: vec![format!("for {}", short(next.lock_id))],
                nodes: node.iter().map(|node| format!("wanted {node}")).collect(),
                ..Row::of(&link.owner_id, &link.call_site)
            });
        }
        self.0.more(last.deadlock.links.len(), ROWS);
    }

    fn versions(&mut self, diagnostics: &Diagnostics) {
        let Diagnostics {
            version,
            durable,
            kept_versions,
            ..
        } = diagnostics;
        match durable {
            None => self
                .0
                .title("VERSION", format_args!("{version}, in memory")),
            Some(journal) => {
                self.0.title(
                    "VERSION",
                    format_args!("{version}, durable {}", journal.version),
                );
                self.journal(journal);
            }
        }
        let kept = &kept_versions.listed;
        if let Some(oldest) = kept.first() {
            let count = Count(kept.len() as u64, "old version");
            let age = ShortDuration(oldest.age);
            self.0
                .text(format_args!("{count} kept in memory, the oldest for {age}"));
        }
        for kept in kept.iter().filter(|kept| !kept.journal).take(ROWS / 2) {
            let handles = Count(kept.handles as u64, "handle");
            let age = ShortDuration(kept.age);
            self.0.text(format_args!(
                "  version {} is kept by {handles}, replaced {age} ago",
                kept.version
            ));
        }
    }

    fn journal(&mut self, journal: &DurableDiagnostics) {
        if let Some(failure) = &journal.failure {
            return self.0.text(format_args!("read-only: {failure}"));
        }
        if journal.closed {
            return self.0.text("closed");
        }
        let writing = match journal.writing {
            true => "a write is under way, ",
            false => "",
        };
        let commits = Count(journal.unwritten_commits, "commit");
        let notes = Count(journal.pending_notes, "note");
        let calls = Count(journal.waiting_calls as u64, "call");
        self.0.text(format_args!(
            "journal: {writing}{commits} and {notes} to write, for which {calls} wait"
        ));
    }

    fn followers(&mut self, log: &LogDiagnostics) {
        if log.subscriber_count + log.session_count == 0 {
            return;
        }
        let subscribers = Count(log.subscriber_count as u64, "subscriber");
        let sessions = Count(log.session_count as u64, "editor session");
        let (commits, bytes) = (Count(log.commits as u64, "commit"), Bytes(log.bytes));
        self.0.title(
            "FOLLOWERS",
            format_args!("{subscribers}, {sessions}; log of {commits}, {bytes}"),
        );
        let behind = log.subscribers.iter().filter(|it| it.unread_commits > 0);
        for subscriber in behind.take(ROWS / 2) {
            self.0.text(SubscriberLag(subscriber));
        }
        let behind = log.sessions.iter().filter(|it| it.unread_commits > 0);
        for session in behind.take(ROWS / 4) {
            let unread = Count(session.unread_commits, "commit");
            self.0.text(format_args!(
                "session of {}: {unread} unread",
                session.owner_id
            ));
        }
    }

    fn leases(&mut self, leases: &[LeaseDiagnostics], count: usize) {
        if leases.is_empty() {
            return;
        }
        self.0.title("LEASES", count);
        for lease in leases.iter().take(ROWS / 2) {
            let owner = &lease.lease.owner_id;
            let line = Line::default().gap(16).cell(owner, 24);
            let line = line
                .number(ShortDuration(lease.remaining), 8)
                .cell(" left", 12);
            let more = lease.target_count - lease.lease.targets.len();
            let more = match more {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            self.0
                .0
                .push(line.rest(format_args!("{}{more}", lease.lease.targets)));
        }
        self.0.more(count, ROWS / 2);
    }

    fn inboxes(&mut self, inboxes: &[InboxDiagnostics], count: usize) {
        if inboxes.is_empty() {
            return;
        }
        self.0.title("INBOXES", count);
        for InboxDiagnostics { name, stats } in inboxes.iter().take(ROWS / 2) {
            let line = Line::default().gap(16).cell(name, 24).gap(2);
            self.0.0.push(line.rest(format_args!(
                "{} in flight, {} waiting, {} dead, {} done",
                stats.in_flight, stats.waiting, stats.dead, stats.done
            )));
        }
        self.0.more(count, ROWS / 2);
    }

    fn registered(&mut self, registered: &[RegisteredPrimitive]) {
        if registered.is_empty() {
            return;
        }
        self.0.title("REGISTERED", registered.len());
        for RegisteredPrimitive { name, state, .. } in registered.iter().take(ROWS) {
            let line = Line::default().gap(16).cell(name, 20).gap(2);
            self.0.0.push(line.rest(StateLine(state)));
            match state {
                PrimitiveState::Keyed { stats, held, .. } => {
                    self.held_keys(held, stats.active_keys)
                }
                PrimitiveState::Limiter(limiter) => self.full_keys(limiter),
                _ => {}
            }
        }
        self.0.more(registered.len(), ROWS);
    }

    fn held_keys(&mut self, held: &[HeldKey], all: usize) {
        let rows = held.iter().map(|held| {
            let holder = &held.holder;
            KeyRow {
                key: &held.key,
                text: owner_cell(&holder.owner_id, holder.label.as_deref()),
                since: at_least(holder.held_for, holder.at_least),
                call_site: Some(&holder.call_site),
                waiting: held.waiting,
                first_waiter: held.first_waiter.as_ref().map(|first| {
                    let owner = owner_cell(&first.owner_id, first.label.as_deref());
                    let waited = ShortDuration(first.wait_time).to_string();
                    [owner, waited, first.call_site.to_string()]
                }),
                thread: held.thread.as_ref(),
                note: holder.untaken.then_some("task not polled"),
            }
        });
        self.0
            .keys(["key", "owner (label)", "for", "from"], rows, all);
    }

    /// Lists the keys that have calls.
    fn full_keys(&mut self, limiter: &LimiterSnapshot<String>) {
        let used = limiter.keys.iter();
        let used = used.filter(|key| key.in_flight + key.queued > 0);
        let all = used.clone().count();
        let rows = used.map(|key| {
            let permit = key.permit.as_ref();
            KeyRow {
                key: &key.key,
                text: format!("{} of {} in flight", key.in_flight, key.limit),
                since: permit.map_or(String::new(), |permit| {
                    at_least(permit.held_for, permit.at_least)
                }),
                call_site: permit.map(|permit| &permit.call_site),
                waiting: key.queued,
                first_waiter: None,
                thread: permit.and_then(|permit| permit.thread.as_ref()),
                note: None,
            }
        });
        self.0.keys(["key", "slots", "held for", "from"], rows, all);
    }

    fn counters(&mut self, lock: &LockReport) {
        let [document, nodes] = [&lock.document, &lock.nodes];
        for (name, counters) in [("COUNTERS", document), ("  of nodes", nodes)] {
            if std::ptr::eq(counters, nodes) && *counters == Default::default() {
                continue;
            }
            self.0.title(
                name,
                format_args!(
                    "granted {}, timed out {}, cancelled {}, rejected {}, refused {}, revoked {}{}",
                    counters.total_acquisitions,
                    counters.total_timeouts,
                    counters.total_cancellations,
                    counters.total_rejections,
                    counters.total_refusals,
                    counters.total_revocations,
                    match counters.total_deadlocks {
                        0 => String::new(),
                        count => format!(", deadlocks {count}"),
                    }
                ),
            );
        }
    }
}

fn row_of(holder: &LockInfo) -> Row<'_> {
    Row {
        mark: "holds".to_owned(),
        id: Some(holder.lock_id),
        label: holder.label.as_deref(),
        since: at_least(holder.held_for, holder.at_least),
        ..Row::of(&holder.owner_id, &holder.call_site)
    }
}

/// What is not usual about a request: a task waits, or its priority is not the normal one.
fn traits_of(waiter: &WaitingRequest) -> Vec<String> {
    let task = (waiter.waits_as == WaiterKind::Task).then_some("task");
    let priority = match waiter.priority {
        Priority::Low => Some("low"),
        Priority::Normal => None,
        Priority::High => Some("high"),
    };
    let traits = priority.into_iter().chain(task);
    traits.map(str::to_owned).collect()
}

/// How many requests for the whole lock have overtaken the last of these.
fn overtaking(waiters: &[WaitingRequest]) -> usize {
    let number = |waiter: &WaitingRequest| waiter.request.lock_id.number();
    let whole = waiters.iter().filter(|waiter| waiter.node_count == 0);
    match waiters.last().filter(|last| last.node_count == 0) {
        Some(last) => whole.filter(|it| number(it) > number(last)).count(),
        None => 0,
    }
}

/// A subscriber with its lag.
struct SubscriberLag<'a>(&'a SubscriberDiagnostics);

impl fmt::Display for SubscriberLag<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let subscriber = self.0;
        match &subscriber.call_site {
            Some(call_site) => {
                let call_site = cut(call_site, 30, KeptPart::End);
                write!(f, "subscriber from {call_site}")?;
            }
            None => f.write_str("journal")?,
        }
        match &subscriber.filter {
            Filter::All => {}
            Filter::Node(id) => write!(f, " on node {id}")?,
            Filter::Subtree(id) => write!(f, " on subtree {id}")?,
        }
        write!(f, ": {}", Unread(subscriber))
    }
}

/// What a subscriber has not read.
struct Unread<'a>(&'a SubscriberDiagnostics);

impl fmt::Display for Unread<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let subscriber = self.0;
        let (unread, bytes) = (subscriber.unread_commits, Bytes(subscriber.unread_bytes));
        write!(f, "{} unread, {bytes}", Count(unread, "commit"))?;
        if let Some(limit) = subscriber.lossless_limit {
            write!(f, ", limit {}", Bytes(limit))?;
        }
        match subscriber.missed {
            0 => Ok(()),
            missed => write!(f, ", {missed} missed"),
        }
    }
}

/// The state of a registered lock type in one line.
struct StateLine<'a>(&'a PrimitiveState);

impl fmt::Display for StateLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            PrimitiveState::Lock(lock) => {
                match lock.holders.first().map(|held| &held.holder) {
                    Some(holder) => {
                        let held_for = ShortDuration(holder.held_for);
                        write!(f, "lock: held by {} for {held_for}", holder.owner_id)?;
                    }
                    None => f.write_str("lock: free")?,
                }
                write!(f, ", {} waiting", lock.waiters.len())
            }
            PrimitiveState::Keyed { stats, .. } => {
                let keys = Count(stats.active_keys as u64, "active key");
                let (waiting, timed_out) = (stats.queue_length, stats.total_timeouts);
                write!(f, "keyed lock: {keys}, {waiting} waiting, ")?;
                match stats.draining {
                    0 => {}
                    1 => f.write_str("1 waits for all, ")?,
                    calls => write!(f, "{calls} wait for all, ")?,
                }
                write!(f, "{timed_out} timed out")
            }
            PrimitiveState::Limiter(limiter) => {
                // Without a global limit, that of the only key with calls.
                let mut used = limiter.keys.iter().filter(|key| key.in_flight > 0);
                let only = used.next().filter(|_| used.next().is_none());
                let limit = limiter.global_limit.or(only.map(|key| key.limit));
                write!(f, "limiter: {} ", limiter.in_flight)?;
                if let Some(limit) = limit {
                    write!(f, "of {limit} ")?;
                }
                let total = &limiter.total;
                let refused = total.rejected + total.declined + total.too_heavy;
                write!(
                    f,
                    "in flight, {} waiting, {refused} refused, {} timed out",
                    limiter.queued, total.timed_out
                )
            }
            PrimitiveState::Busy => f.write_str("busy: a key is compared or cloned"),
            // A kind that this version does not know.
            state => write!(f, "{state:?}"),
        }
    }
}
