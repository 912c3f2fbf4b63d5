//! The keeper: a thread that watches the clock for a lock, or for a store with all its locks.
//!
//! It revokes holders that exceed their hold limit, and reports long holds and waits. A task waits
//! without a thread, so the keeper also ends its wait at the deadline, and runs the batch that the
//! task has left in the queue. It starts when it is first needed, and ends with the lock.
//!
//! L29. Whenever the mutexes are free: the keeper is about to look, or it looks no later than at
//! the first deadline of a task that waits.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::{Arc, OnceLock, Weak};

use crate::caught::catch;
use crate::sync::{Condvar, Mutex, rank};
use crate::time::{Clock, Deadline, Pause, TimeListener};

/// A queue in which tasks wait.
pub trait Kept: Send + Sync {
    /// Revokes overdue holders, reports long holds and waits, and ends the waits of tasks whose
    /// deadline has passed. Returns when to do so again.
    fn check_deadlines(&self) -> Option<Deadline>;
}

/// Work that a task has left, for a thread of the keeper.
type LeftWork = Box<dyn FnOnce(&mut KeeperThread) + Send>;

/// The thread that watches the clock for a lock, or for a store with all its locks.
pub struct Keeper {
    clock: Clock,
    state: Mutex<{ rank::KEEPER }, KeeperState>,
    called: Condvar,
}

#[derive(Default)]
struct KeeperState {
    kept: Vec<Weak<dyn Kept>>,
    next: Option<Deadline>,
    looks: bool,
    work: VecDeque<LeftWork>,
    /// Whether the last duty was work. Work and looks take turns, so that neither delays the other.
    worked: bool,
    runs: bool,
}

/// A thread of the keeper, as the work that it does sees it.
pub struct KeeperThread {
    keeper: Arc<Keeper>,
    /// Whether another thread has taken its place.
    is_replaced: bool,
}

/// The keeper of a lock, made when it is first needed. It may end when the lock is dropped.
#[derive(Default)]
pub(super) struct KeeperSlot(OnceLock<Arc<Keeper>>);

impl KeeperSlot {
    /// Creates a slot for a keeper of its own, or with that of another lock.
    pub(super) fn of(keeper: Option<Arc<Keeper>>) -> Self {
        Self(keeper.map_or_else(OnceLock::new, OnceLock::from))
    }

    pub(super) fn get(&self, clock: &Clock) -> &Arc<Keeper> {
        self.0.get_or_init(|| Keeper::new(clock))
    }
}

impl Drop for KeeperSlot {
    fn drop(&mut self) {
        if let Some(keeper) = self.0.get() {
            keeper.look();
        }
    }
}

enum Duty {
    Work(LeftWork),
    Look(Vec<Weak<dyn Kept>>),
    End,
}

impl Keeper {
    pub fn new(clock: &Clock) -> Arc<Self> {
        let keeper = Arc::new(Self {
            clock: clock.clone(),
            state: Mutex::default(),
            called: Condvar::default(),
        });
        clock.listen(&keeper);
        keeper
    }

    /// Begins to serve a queue, if it does not do so already. Called by each task before it joins
    /// the queue.
    pub fn attend<Q: Kept + 'static>(self: &Arc<Self>, queue: &Arc<Q>) -> io::Result<()> {
        let mut state = self.state.lock();
        let address = Arc::as_ptr(queue).cast::<()>();
        let is_kept = |kept: &Weak<dyn Kept>| std::ptr::eq(kept.as_ptr().cast::<()>(), address);
        if !state.kept.iter().any(is_kept) {
            let queue: Arc<dyn Kept> = Arc::clone(queue) as Arc<dyn Kept>;
            state.kept.push(Arc::downgrade(&queue));
        }
        if !state.runs {
            self.start()?;
            state.runs = true;
        }
        Ok(())
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

    /// Looks no later than then.
    pub fn expect(&self, deadline: Deadline) {
        let mut state = self.state.lock();
        if state.next.is_none_or(|next| deadline < next) {
            state.next = Some(deadline);
            self.called.notify_one();
        }
    }

    /// Looks at once.
    pub fn look(&self) {
        self.state.lock().looks = true;
        self.called.notify_one();
    }

    /// Takes over work that a task has left.
    pub fn take_over(&self, work: LeftWork) {
        self.state.lock().work.push_back(work);
        self.called.notify_one();
    }

    /// Serves the tasks until the last queue is gone.
    pub fn run(self: Arc<Self>) {
        let mut thread = KeeperThread {
            keeper: self,
            is_replaced: false,
        };
        while !thread.is_replaced {
            match thread.keeper.next_duty() {
                Duty::End => return,
                // Neither the work of one task nor its waker may end the waits of others.
                Duty::Work(work) => drop(catch(|| work(&mut thread))),
                Duty::Look(kept) => {
                    for kept in kept.iter().filter_map(Weak::upgrade) {
                        let next = catch(|| kept.check_deadlines());
                        next.ok()
                            .flatten()
                            .into_iter()
                            .for_each(|next| thread.keeper.expect(next));
                    }
                }
            }
        }
    }

    fn next_duty(&self) -> Duty {
        let mut state = self.state.lock();
        loop {
            let pause = state.next.map(|next| self.clock.until(next));
            let is_due = pause == Some(None) || state.looks;
            if !(is_due && state.worked)
                && let Some(work) = state.work.pop_front()
            {
                state.worked = true;
                return Duty::Work(work);
            }
            state.worked = false;
            state.kept.retain(|kept| kept.strong_count() > 0);
            if state.kept.is_empty() && state.work.is_empty() {
                state.runs = false;
                return Duty::End;
            }
            if is_due {
                (state.next, state.looks) = (None, false);
                return Duty::Look(state.kept.clone());
            }
            state = match pause {
                Some(Some(Pause::For(left))) => self.called.wait_for(state, left),
                _ => self.called.wait(state),
            };
        }
    }
}

impl KeeperThread {
    /// Lets another thread continue, because this one is about to run code that may take long. If
    /// none can be started, the tasks wait for this one.
    pub fn hand_over(&mut self) {
        if !self.is_replaced {
            self.is_replaced = self.keeper.start().is_ok();
        }
    }
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keeper").finish_non_exhaustive()
    }
}

impl TimeListener for Keeper {
    fn time_advanced(&self) {
        drop(self.state.lock());
        self.called.notify_one();
    }
}
