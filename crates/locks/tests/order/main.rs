//! The order of grants: against the simplest model, a vector; the bound on overtaking, reached and
//! not exceeded (LOCK 4, 7, 8, 13, 15). Tasks wait, so that a test needs no threads.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use doclock_locks::{
    AcquireOptions, CancelToken, FifoLock, LockError, LockGuard, LockOptions, Priority,
};
use proptest::prelude::*;
use proptest::sample::Index;

#[derive(Clone, Debug)]
enum Call {
    Ask(Priority),
    Try,
    /// Cancels one of all requests ever made, or drops its future if it still waits.
    Leave(Index, bool),
    Release,
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let priorities = prop::sample::select(Priority::ALL.as_slice());
    let call = prop_oneof![
        6 => priorities.prop_map(Call::Ask),
        1 => Just(Call::Try),
        4 => (any::<Index>(), any::<bool>()).prop_map(|(which, drops)| Call::Leave(which, drops)),
        2 => Just(Call::Release),
    ];
    prop::collection::vec(call, 0..200)
}

type Waiting = Pin<Box<dyn Future<Output = Result<LockGuard, LockError>>>>;

/// A lock, the holder, and the futures that wait for it. The owner of a request is its number.
struct Subject {
    lock: FifoLock,
    holder: Option<(usize, LockGuard)>,
    waiting: Vec<(usize, Waiting)>,
    tokens: Vec<(usize, CancelToken)>,
}

impl Subject {
    fn new(overtaking: u32) -> Self {
        let options = LockOptions::new().timeout(None);
        Self {
            lock: FifoLock::with_options(options.overtaking_bound(overtaking)),
            holder: None,
            waiting: Vec::new(),
            tokens: Vec::new(),
        }
    }

    /// A lock that a request holds, so that all others wait.
    fn held(overtaking: u32) -> Self {
        let mut subject = Self::new(overtaking);
        assert!(subject.ask(usize::MAX, Priority::Normal));
        subject
    }

    /// Returns whether the request is granted at once.
    fn ask(&mut self, number: usize, priority: Priority) -> bool {
        let token = CancelToken::new();
        let options = AcquireOptions::new()
            .priority(priority)
            .cancel_token(&token)
            .unbound();
        let mut future: Waiting = Box::pin(
            self.lock
                .request(number.to_string())
                .options(options)
                .into_future(),
        );
        match poll(&mut future) {
            Poll::Ready(guard) => self.holder = Some((number, guard.unwrap())),
            Poll::Pending => {
                self.waiting.push((number, future));
                self.tokens.push((number, token));
                return false;
            }
        }
        true
    }

    /// Returns the number of the request if it waited.
    fn leave(&mut self, which: usize, drops: bool) -> Option<usize> {
        let (number, token) = &self.tokens[which];
        let at = self.waiting.iter().position(|(other, _)| other == number);
        let mut waited = at.map(|at| self.waiting.remove(at));
        if !drops {
            token.cancel();
            if let Some((_, future)) = &mut waited {
                let left = poll(future);
                assert!(matches!(left, Poll::Ready(Err(LockError::Cancelled(_)))));
            }
        }
        waited.map(|(number, _)| number)
    }

    /// Ends the hold, and returns the number of the next holder.
    fn release(&mut self) -> Option<usize> {
        self.holder = None;
        for at in 0..self.waiting.len() {
            if let Poll::Ready(guard) = poll(&mut self.waiting[at].1) {
                assert!(self.holder.is_none(), "two holders");
                self.holder = Some((self.waiting[at].0, guard.unwrap()));
            }
        }
        let next = self.holder.as_ref().map(|(number, _)| *number);
        self.waiting.retain(|(number, _)| Some(*number) != next);
        next
    }

    /// Returns the numbers of the waiting requests, in the order of the queue.
    fn order(&self) -> Vec<usize> {
        let queue = self.lock.queue_info();
        assert!(queue.iter().map(|entry| entry.position).eq(1..=queue.len()));
        assert_eq!(self.lock.queue_length(), queue.len());
        let numbers = queue.iter().map(|entry| entry.owner_id.as_str());
        numbers.map(|number| number.parse().unwrap()).collect()
    }

    /// Returns how many requests are ahead of one.
    fn ahead_of(&self, number: usize) -> Option<usize> {
        self.order().iter().position(|other| *other == number)
    }
}

fn poll(future: &mut Waiting) -> Poll<Result<LockGuard, LockError>> {
    let mut context = Context::from_waker(Waker::noop());
    future.as_mut().poll(&mut context)
}

/// The order of requests, by counting one by one.
#[derive(Default)]
struct Reference {
    overtaking: usize,
    joined: usize,
    is_held: bool,
    /// The position in the order of joining, the number and the priority.
    waiting: Vec<(usize, usize, Priority)>,
}

impl Reference {
    fn ask(&mut self, number: usize, priority: Priority) -> bool {
        if !std::mem::replace(&mut self.is_held, true) {
            return true;
        }
        let joined = self.joined;
        self.joined += 1;
        let overtakes = |&(earlier, _, other): &(usize, usize, Priority)| {
            let levels = (priority as usize).saturating_sub(other as usize);
            joined - earlier <= self.overtaking * levels
        };
        let position = self.waiting.iter().position(overtakes);
        let position = position.unwrap_or(self.waiting.len());
        self.waiting.insert(position, (joined, number, priority));
        false
    }

    fn release(&mut self) -> Option<usize> {
        self.is_held = !self.waiting.is_empty();
        self.is_held.then(|| self.waiting.remove(0).1)
    }

    fn order(&self) -> Vec<usize> {
        self.waiting.iter().map(|&(_, number, _)| number).collect()
    }
}

proptest! {
    #[test]
    fn lock_15_the_queue_behaves_as_a_vector_would(
        calls in calls(),
        overtaking in prop_oneof![0..6u32, Just(u32::MAX)],
    ) {
        let mut subject = Subject::new(overtaking);
        let mut reference = Reference { overtaking: overtaking as usize, ..Reference::default() };
        for (number, call) in calls.into_iter().enumerate() {
            match call {
                Call::Ask(priority) => {
                    prop_assert_eq!(subject.ask(number, priority), reference.ask(number, priority));
                }
                Call::Try => {
                    let options = AcquireOptions::new().no_wait().unbound();
                    let guard = subject.lock.request(number.to_string()).options(options).wait().ok();
                    prop_assert_eq!(guard.is_some(), !reference.is_held);
                }
                Call::Leave(which, drops) if !subject.tokens.is_empty() => {
                    let left = subject.leave(which.index(subject.tokens.len()), drops);
                    reference.waiting.retain(|&(_, number, _)| Some(number) != left);
                }
                Call::Release => prop_assert_eq!(subject.release(), reference.release()),
                Call::Leave(..) => {}
            }
            prop_assert_eq!(subject.order(), reference.order());
        }
    }
}

#[test]
fn lock_15_a_request_is_overtaken_by_exactly_as_many_as_the_bound_allows() {
    for (own, other) in [
        (Priority::Low, Priority::Normal),
        (Priority::Normal, Priority::High),
        (Priority::Low, Priority::High),
    ] {
        for overtaking in [0, 1, 2, 64] {
            let bound = overtaking as usize * (other as usize - own as usize);
            let mut subject = Subject::held(overtaking);
            subject.ask(0, own);
            for later in 1..=bound + 3 {
                subject.ask(later, other);
                let overtaken = Some(bound.min(later));
                assert_eq!(subject.ahead_of(0), overtaken, "{own:?} by {other:?}");
            }
        }
    }
}

#[test]
fn lock_15_a_stream_of_urgent_requests_starves_no_other_request() {
    let mut subject = Subject::held(4);
    subject.ask(0, Priority::Low);
    let granted = (1..).take_while(|&urgent| {
        subject.ask(urgent, Priority::High);
        subject.release() != Some(0)
    });
    assert_eq!(granted.count(), 8, "four for each of two levels");
}

#[test]
fn lock_15_withdrawn_requests_count_towards_the_overtaking_bound() {
    let mut subject = Subject::held(2);
    subject.ask(0, Priority::Low);
    for number in 1..=4 {
        subject.ask(number, Priority::Normal);
        if number < 4 {
            subject.leave(number, true);
        }
    }
    let order = subject.order();
    assert_eq!(order, [0, 4], "4 is more than 2 numbers away");
    subject.ask(5, Priority::High);
    let order = subject.order();
    assert_eq!(order, [0, 5, 4], "5 is more than 2 * 2 away from 0");
}

#[test]
fn lock_15_one_priority_or_no_overtaking_makes_the_queue_fifo() {
    let expected: Vec<_> = (0..30).collect();
    for priority in Priority::ALL {
        let mut subject = Subject::held(64);
        for &number in &expected {
            subject.ask(number, priority);
        }
        assert_eq!(subject.order(), expected);
    }
    let mut subject = Subject::held(0);
    for (&number, priority) in expected.iter().zip(Priority::ALL.into_iter().cycle()) {
        subject.ask(number, priority);
    }
    assert_eq!(subject.order(), expected);
}
