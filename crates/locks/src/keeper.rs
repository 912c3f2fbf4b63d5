//! The keeper: one thread of the process, which watches the clock for all locks that need it.
//!
//! It revokes holders that exceed their hold limit, reports long holds and waits, ends the waits of
//! tasks, and runs batches that tasks have left in a queue. The thread starts when it is first
//! needed, ends when it serves no lock any more, and keeps no lock alive.
//!
//! L29. Whenever the mutexes are free: the keeper looks at a queue no later than at the first
//! deadline of a task that waits there, or it is about to look, or a thread is about to call it.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::sync::{Arc, OnceLock, Weak};

use crate::caught::{catch, dispose};
use crate::sync::{Condvar, Mutex, global, rank};
use crate::time::{Clock, Deadline, Pause, TimeListener};

/// A queue that the keeper serves.
pub trait Kept: Send + Sync {
    /// Does what is due. Says when to do so again: [`KeeperSlot::expect`].
    fn check_deadlines(&self);
}

/// Work that a task has left, for a thread of the keeper.
pub type LeftWork = Box<dyn FnOnce(&mut KeeperThread) + Send>;

/// The address of a queue, which no other queue has while the keeper serves this one.
type QueueId = usize;

/// When to look at a queue. Among equal deadlines, the queue that was expected first is the first.
type Turn = (Deadline, u64);

global! {
    /// The keeper of the process. In a model, that of one execution.
    static KEEPER: Arc<Keeper> = Arc::new(Keeper::default());
}

/// The thread that watches the clock, and what it has to do.
#[derive(Default)]
pub struct Keeper {
    clock: Clock,
    state: Mutex<{ rank::KEEPER }, KeeperState>,
    called: Condvar,
}

#[derive(Default)]
struct KeeperState {
    /// The queues, each with its turn among `due`.
    served: HashMap<QueueId, (Weak<dyn Kept>, Option<Turn>)>,
    due: BTreeMap<Turn, QueueId>,
    /// How many turns there were.
    turns: u64,
    work: VecDeque<LeftWork>,
    /// Whether the last duty was work. Work and looks take turns, so that neither delays the other.
    worked: bool,
    runs: bool,
}

/// A thread of the keeper, as its work sees it.
pub struct KeeperThread {
    keeper: Arc<Keeper>,
    /// Whether another thread has taken its place.
    is_replaced: bool,
}

/// The keeper, as a queue sees it. Its drop, with the queue, ends the service.
#[derive(Default)]
pub struct KeeperSlot(OnceLock<Arc<Served>>);

/// A queue that is served, also with the advances of a manual clock.
struct Served {
    id: QueueId,
    clock: Clock,
}

impl KeeperSlot {
    /// Lets the keeper serve the queue from now on, and starts its thread if it does not run.
    /// Called by each task before it joins the queue.
    pub fn attend<Q: Kept + 'static>(&self, queue: &Arc<Q>, clock: &Clock) -> io::Result<()> {
        if self.0.get().is_none() {
            let id = KEEPER.serve(queue)?;
            // Another thread may do the same meanwhile.
            self.0.get_or_init(|| {
                let clock = clock.clone();
                let served = Arc::new(Served { id, clock });
                // Before a request can rely on it.
                served.clock.listen(&served);
                served
            });
        }
        Ok(())
    }

    pub(super) fn is_served(&self) -> bool {
        self.0.get().is_some()
    }

    /// Lets the keeper look at the queue no later than then, by the clock of the queue.
    pub fn expect(&self, deadline: Deadline) {
        let served = self.0.get().map(|served| &**served);
        if let Some(Served { id, clock }) = served {
            match clock.is_manual() {
                false => KEEPER.expect(*id, deadline),
                true if clock.until(deadline).is_none() => KEEPER.expect(*id, Deadline::PASSED),
                // An advance of the clock calls the keeper.
                true => {}
            }
        }
    }
}

impl TimeListener for Served {
    fn time_advanced(&self) {
        KEEPER.expect(self.id, Deadline::PASSED);
    }
}

impl Drop for KeeperSlot {
    fn drop(&mut self) {
        if let Some(served) = self.0.get() {
            KEEPER.forget(served.id);
        }
    }
}

impl Keeper {
    pub fn of_process() -> Arc<Self> {
        Arc::clone(&KEEPER)
    }

    fn serve<Q: Kept + 'static>(self: &Arc<Self>, queue: &Arc<Q>) -> io::Result<QueueId> {
        let id = Arc::as_ptr(queue).addr();
        let queue = Arc::downgrade(queue) as Weak<dyn Kept>;
        let mut state = self.state.lock();
        if !state.runs {
            self.start()?;
            state.runs = true;
        }
        state.served.entry(id).or_insert((queue, None));
        Ok(id)
    }

    /// Starts a thread. In a model, a thread of the model runs [`Keeper::run`].
    fn start(self: &Arc<Self>) -> io::Result<()> {
        if cfg!(loom) {
            return Ok(());
        }
        let keeper = Arc::clone(self);
        let thread = std::thread::Builder::new().name("doclock-keeper".into());
        thread.spawn(move || keeper.run()).map(drop)
    }

    fn expect(&self, id: QueueId, deadline: Deadline) {
        let state = &mut *self.state.lock();
        if let Some((_, next)) = state.served.get_mut(&id)
            && next.is_none_or(|(next, _)| deadline < next)
        {
            state.turns += 1;
            let turn = (deadline, state.turns);
            let later = next.replace(turn);
            later.map(|later| state.due.remove(&later));
            state.due.insert(turn, id);
            let first = state.due.first_key_value();
            if first.is_some_and(|(first, _)| *first == turn) {
                self.called.notify_one();
            }
        }
    }

    fn forget(&self, id: QueueId) {
        let mut state = self.state.lock();
        if let Some((_, Some(next))) = state.served.remove(&id) {
            state.due.remove(&next);
        }
        if state.served.is_empty() {
            self.called.notify_one();
        }
    }

    pub fn take_over(&self, work: LeftWork) {
        self.state.lock().work.push_back(work);
        self.called.notify_one();
    }

    /// Serves the queues until the last one is gone.
    pub fn run(self: Arc<Self>) {
        let mut thread = KeeperThread {
            keeper: self,
            is_replaced: false,
        };
        while !thread.is_replaced
            && let Some(duty) = thread.keeper.next_duty()
        {
            // Neither the work of one task nor its waker may end the waits of others.
            drop(catch(|| duty(&mut thread)));
        }
    }

    /// Returns the next work or look. `None` at the end of the service.
    fn next_duty(&self) -> Option<LeftWork> {
        let mut guard = self.state.lock();
        loop {
            let state = &mut *guard;
            let first = state.due.first_key_value();
            let pause = first.map(|((next, _), _)| self.clock.until(*next));
            let is_due = pause == Some(None);
            if !(is_due && state.worked)
                && let Some(work) = state.work.pop_front()
            {
                state.worked = true;
                return Some(work);
            }
            state.worked = false;
            if is_due
                && let Some((_, id)) = state.due.pop_first()
                && let Some((queue, next)) = state.served.get_mut(&id)
            {
                *next = None;
                let queue = Weak::clone(queue);
                return Some(Box::new(move |thread| thread.look_at(&queue)));
            }
            if state.served.is_empty() && state.work.is_empty() {
                *state = KeeperState::default();
                return None;
            }
            guard = match pause {
                Some(Some(Pause::For(left))) => self.called.wait_for(guard, left),
                _ => self.called.wait(guard),
            };
        }
    }
}

impl KeeperThread {
    fn look_at(&mut self, queue: &Weak<dyn Kept>) {
        if let Some(queue) = queue.upgrade() {
            drop(catch(|| queue.check_deadlines()));
            if Arc::strong_count(&queue) == 1 {
                // Its drop can take long: the end of a store waits for its journal.
                self.hand_over();
            }
            dispose(queue);
        }
    }

    /// Lets another thread continue before code that may take long. If none starts, queues wait.
    pub fn hand_over(&mut self) {
        if !self.is_replaced {
            self.is_replaced = self.keeper.start().is_ok();
        }
    }
}
