//! The thread of a runner.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use doclock::durable::{Durability, DurabilityError};
use doclock::lock::{AcquireOptions, CancelToken, LockError};
use doclock::transaction::{
    IdempotencyKey, Published, TransactionError, TransactionResult, parse_operations,
};
use doclock::{CommitError, DataStore, FencingToken, TransactionManager};

use super::pause::{Pauses, SHORTEST};
use super::{RunnerEnded, SharedRunner, of_store};
use crate::connection::{PostgresSession, backoff};
use crate::request::in_flight::Running;
use crate::request::outcome::{SettledOutcome, error_json, error_json_of};
use crate::request::owner::{OwnerStatement, RemoveOld, Settle, Settled, Take, TakenRequest};

/// So many requests are taken at once.
const PAGE: usize = 64;

/// How often old requests are removed.
const REMOVAL: Duration = Duration::from_secs(10);

/// Makes the manager for the owner of a request.
pub(super) type MakeManager = Box<dyn FnMut(&str) -> TransactionManager + Send>;

/// The state of the thread.
pub(super) struct Runner {
    shared: Arc<SharedRunner>,
    make_manager: MakeManager,
    /// The store of the last manager.
    store: Option<DataStore>,
    /// The last number that was taken.
    last: i64,
    /// The last request that has made a version, and the version.
    committed: Option<(i64, u64)>,
    /// Outcomes without a commit of their own, in the order of their requests.
    settled: VecDeque<Settled>,
    /// Requests whose outcomes the journal writes, and whose after-hooks have not run.
    published: VecDeque<(i64, Published)>,
    pauses: Pauses,
    next_removal: Instant,
}

impl Runner {
    pub(super) fn new(shared: Arc<SharedRunner>, make_manager: MakeManager) -> Self {
        Self {
            pauses: Pauses::new(shared.options.longest_poll),
            shared,
            make_manager,
            store: None,
            last: 0,
            committed: None,
            settled: VecDeque::new(),
            published: VecDeque::new(),
            next_removal: Instant::now(),
        }
    }

    /// Runs requests until the term ends or the runner is stopped.
    pub(super) fn run(&mut self) -> RunnerEnded {
        let ended = match self.run_all().and_then(|()| self.finish()) {
            Err(ended) => ended,
            Ok(()) => RunnerEnded::Stopped,
        };
        if let RunnerEnded::Server { .. } = ended {
            // The term lasts, so their commits are on the way to the log.
            let last = self.published.back();
            let _ = last.map(|(_, published)| published.wait_durable(None));
        }
        self.complete();
        ended
    }

    /// The durable version of the store, if there is one.
    fn durable_version(&self) -> Option<u64> {
        let document = self.store.as_ref()?.durable_snapshot();
        document.map(|document| document.version())
    }

    fn run_all(&mut self) -> Result<(), RunnerEnded> {
        while !self.stops() {
            self.settle()?;
            self.remove_old();
            let page = self.take()?;
            let has_run = !page.is_empty();
            if has_run {
                self.run_page(page)?;
                self.pauses.took(Instant::now());
            } else {
                self.rest()?;
            }
        }
        Ok(())
    }

    fn stops(&self) -> bool {
        self.shared.stops.load(Ordering::Acquire)
    }

    /// Waits for the commits of requests, and writes what has no outcome yet.
    fn finish(&mut self) -> Result<(), RunnerEnded> {
        loop {
            self.settle()?;
            let is_in_flight = self.shared.lease.in_flight.first().is_some();
            if self.settled.is_empty() && self.published.is_empty() && !is_in_flight {
                return Ok(());
            }
            self.rest()?;
        }
    }

    /// Runs the after-hooks of the requests whose commits are in the log.
    fn complete(&mut self) {
        let durable = self.durable_version();
        while let Some((number, published)) = self.published.pop_front() {
            let is_in_log = durable >= Some(published.result().version);
            if !is_in_log || self.shared.lease.in_flight.has(number) {
                self.published.push_front((number, published));
                return;
            }
            // The outcome, without failures of hooks, is written.
            drop(published.finish());
        }
    }

    /// Runs statements again until they have an answer or the term has ended.
    fn statement<S: OwnerStatement>(&self, statement: S) -> Result<S::Answer, RunnerEnded> {
        let lease = Arc::clone(&self.shared.lease);
        let server = lease.server.clone();
        let answer = server.call(None, async move {
            let mut failures = 0;
            loop {
                let until = lease.held_until()?;
                let until = until.min(Instant::now() + lease.window / 3);
                let requests = &lease.server.connections().requests;
                let run = async |session: &PostgresSession| statement.run(session, &lease).await;
                match requests.run(until.into(), run).await {
                    Err(error) if error.is_passing() => failures += 1,
                    answer => return Some(answer),
                }
                tokio::time::sleep(backoff(failures)).await;
            }
        });
        match answer {
            Ok(Some(Ok(answer))) => Ok(answer),
            Ok(None) => Err(RunnerEnded::Term),
            Ok(Some(Err(cause))) | Err(cause) => Err(RunnerEnded::Server { cause }),
        }
    }

    /// Takes a page of requests, as far as the pipeline has room.
    fn take(&mut self) -> Result<Vec<TakenRequest>, RunnerEnded> {
        let pending = self.shared.lease.in_flight.len() + self.settled.len();
        let room = self
            .shared
            .options
            .in_flight
            .saturating_sub(pending)
            .min(PAGE);
        if room == 0 {
            return Ok(Vec::new());
        }
        let most = i64::try_from(room).unwrap_or(i64::MAX);
        let page = self.statement(Take {
            after: self.last,
            most,
        })?;
        self.last = page.last().map_or(self.last, |taken| taken.number);
        Ok(page)
    }

    fn run_page(&mut self, page: Vec<TakenRequest>) -> Result<(), RunnerEnded> {
        let tokens: Vec<_> = page.iter().map(|_| CancelToken::new()).collect();
        {
            let mut waiting = self.shared.waiting.lock();
            let numbers = page.iter().map(|taken| taken.number);
            *waiting = numbers.zip(tokens.iter().cloned()).collect();
        }
        let mut ran = Ok(());
        for (taken, token) in page.into_iter().zip(&tokens) {
            if self.stops() {
                break;
            }
            let number = taken.number;
            ran = self.run_one(taken, token);
            self.shared.waiting.lock().retain(|(of, _)| *of != number);
            if ran.is_err() {
                break;
            }
            // Outcomes do not wait for the rest of the page.
            ran = self.settle();
            if ran.is_err() {
                break;
            }
        }
        self.shared.waiting.lock().clear();
        ran
    }

    /// Runs a request. Its outcome is that of its commit, or is written later.
    fn run_one(&mut self, taken: TakenRequest, token: &CancelToken) -> Result<(), RunnerEnded> {
        let number = taken.number;
        let Some(outcome) = self.outcome(taken, token)? else {
            return Ok(());
        };
        self.shared.lease.in_flight.remove(number);
        // The outcome depends on what the batch has seen, which is at most this.
        let version = self.store.as_ref().map_or(0, DataStore::version);
        self.settled.push_back(Settled {
            number,
            outcome: outcome.to_bytes(),
            version,
        });
        Ok(())
    }

    /// Runs a request, and returns its outcome unless the journal writes it.
    fn outcome(
        &mut self,
        taken: TakenRequest,
        token: &CancelToken,
    ) -> Result<Option<SettledOutcome>, RunnerEnded> {
        // An earlier runner of this term may have run it, and its commit is on the way to the log.
        let may_have_run = self.shared.lease.in_flight.has(taken.number);
        if self.is_left(token) {
            return Ok(None);
        }
        if !may_have_run && (taken.cancelled || token.is_cancelled()) {
            return Ok(Some(SettledOutcome::Cancelled(None)));
        }
        let text = String::from_utf8(taken.batch);
        let Ok(text) = text else {
            let failed = error_json("requestUnreadable", "the batch is not UTF-8");
            return Ok(Some(SettledOutcome::Failed(failed)));
        };
        let operations = match parse_operations(&text) {
            Ok(operations) => operations,
            Err(error) => return Ok(Some(SettledOutcome::Failed(error_json_of(&error)))),
        };
        let make = AssertUnwindSafe(|| (self.make_manager)(&taken.owner));
        let Ok(manager) = catch_unwind(make) else {
            let failed = error_json("managerPanicked", "the manager for the request panicked");
            return Ok(Some(SettledOutcome::Failed(failed)));
        };
        let manager = manager.with_durability(Durability::Later);
        if manager.store().durable_snapshot().is_none() {
            let reason = DurabilityError::NotDurable.to_string();
            return Err(RunnerEnded::Store { reason });
        }
        self.store = Some(manager.store().clone());
        let mut options = match may_have_run {
            true => AcquireOptions::new(),
            false => AcquireOptions::new().cancel_token(token),
        };
        if let Some(label) = taken.label {
            options = options.label(label);
        }
        options = match taken.deadline.filter(|_| !may_have_run) {
            Some(deadline) => {
                let remaining = deadline.saturating_duration_since(Instant::now());
                if remaining.is_zero() {
                    return Ok(Some(SettledOutcome::Expired(None)));
                }
                options.timeout(remaining)
            }
            None => options.no_timeout(),
        };
        let running = Running {
            key: taken.key.clone(),
            digest: IdempotencyKey::digest(&operations),
            owner: manager.owner().as_str().to_owned(),
        };
        // Before it runs: the commit can be appended before its result is here.
        self.shared.lease.in_flight.add(taken.number, running);
        match manager
            .transaction(operations)
            .idempotent(taken.key)
            .options(options)
            .publish()
        {
            Ok(published) if has_receipt(published.result()) => {
                if published.result().changed {
                    self.committed = Some((taken.number, published.result().version));
                }
                self.published.push_back((taken.number, published));
                Ok(None)
            }
            Ok(published) => Ok(Some(SettledOutcome::Done(Box::new(published.finish())))),
            Err(TransactionError::Lock(LockError::Cancelled(_))) if self.is_left(token) => {
                self.shared.lease.in_flight.remove(taken.number);
                Ok(None)
            }
            Err(error) => failed(&error).map(Some),
        }
    }

    /// Whether a request that has not begun is left to the next runner. One that was cancelled by
    /// its machine too has a mark, which that runner finds.
    fn is_left(&self, token: &CancelToken) -> bool {
        token.is_cancelled() && self.stops()
    }

    /// Writes the outcomes of requests before which all are answered, as far as what they have seen
    /// is durable.
    fn settle(&mut self) -> Result<(), RunnerEnded> {
        self.complete();
        let Some(durable) = self.durable_version() else {
            return match self.settled.is_empty() {
                true => Ok(()),
                // Nothing has run.
                false => self.write(self.settled.len()),
            };
        };
        let first = self.shared.lease.in_flight.first().unwrap_or(i64::MAX);
        let is_ready = |settled: &&Settled| settled.version <= durable && settled.number < first;
        match self.settled.iter().take_while(is_ready).count() {
            0 => Ok(()),
            ready => self.write(ready),
        }
    }

    fn write(&mut self, ready: usize) -> Result<(), RunnerEnded> {
        let settled: Vec<_> = self.settled.drain(..ready).collect();
        match self.statement(Settle { settled })? {
            true => {
                (self.shared.settled)();
                Ok(())
            }
            false => Err(RunnerEnded::Term),
        }
    }

    fn remove_old(&mut self) {
        if Instant::now() < self.next_removal {
            return;
        }
        self.next_removal = Instant::now() + REMOVAL;
        let keep = self.shared.options.keep;
        // Another attempt follows.
        if let Ok(500..) = self.statement(RemoveOld { keep }) {
            self.next_removal = Instant::now();
        }
    }

    /// Waits for a ring, an answer, a durable version or the next look.
    fn rest(&mut self) -> Result<(), RunnerEnded> {
        let lease = &self.shared.lease;
        if lease.held_until().is_none() {
            return Err(RunnerEnded::Term);
        }
        let is_heard = !self.stops() && (self.shared.is_heard)();
        let pause = self.pauses.next(Instant::now(), is_heard);
        let durable = self.durable_version();
        if let (Some(store), Some(durable)) = (&self.store, durable) {
            let settled = self.settled.front();
            let wanted = settled
                .map(|settled| settled.version)
                .filter(|wanted| durable < *wanted);
            let waited = match wanted {
                // No ring ends this wait.
                Some(wanted) => {
                    let longest = self.shared.options.longest_poll;
                    store
                        .wait_durable(wanted)
                        .timeout(pause.unwrap_or(SHORTEST).min(longest))
                        .wait()
                }
                // Whether it is at its end.
                None => store
                    .wait_durable(store.version())
                    .timeout(Duration::ZERO)
                    .wait(),
            };
            match waited {
                Ok(_) | Err(DurabilityError::Timeout { .. }) => {}
                Err(error) => return Err(of_store(&error)),
            }
            if wanted.is_some() {
                return Ok(());
            }
            // The journal has answered all requests of the versions that are durable.
            if let Some((number, version)) = self.committed
                && version <= durable
                && self.shared.lease.in_flight.has(number)
            {
                let reason = "it keeps too few results of idempotency keys".into();
                return Err(RunnerEnded::Store { reason });
            }
        }
        let pause = match pause {
            // Its commit is durable in a moment.
            Some(_) if !self.published.is_empty() => SHORTEST,
            Some(pause) => pause,
            // A look would delay the append that is under way.
            None if self.shared.lease.in_flight.first().is_some() => SHORTEST,
            None => return Ok(()),
        };
        let rung = Arc::clone(lease);
        let waited = lease.server.call(None, async move {
            let rung = rung.in_flight.changed.notified();
            tokio::time::timeout(pause, rung).await.is_ok()
        });
        let is_rung = waited.map_err(|cause| RunnerEnded::Server { cause })?;
        self.pauses.ended(is_rung);
        Ok(())
    }
}

/// Whether the journal writes the outcome. A repetition has no receipt of its own, and a batch
/// without operations has none.
fn has_receipt(result: &TransactionResult) -> bool {
    !result.repeated && result.fencing_token != FencingToken::from(0)
}

/// The outcome of a request that has no result, unless the store is at its end: then the next owner
/// runs it.
fn failed(error: &TransactionError) -> Result<SettledOutcome, RunnerEnded> {
    let json = || Some(error_json_of(error));
    Ok(match error {
        TransactionError::Commit(
            CommitError::Unknown { .. }
            | CommitError::NotStored { .. }
            | CommitError::Fenced { .. }
            | CommitError::ReadOnly { .. },
        ) => {
            return Err(RunnerEnded::Store {
                reason: error.to_string(),
            });
        }
        TransactionError::Lock(LockError::Timeout(_)) => SettledOutcome::Expired(json()),
        TransactionError::Lock(LockError::Cancelled(_)) => SettledOutcome::Cancelled(json()),
        error => SettledOutcome::Failed(error_json_of(error)),
    })
}
