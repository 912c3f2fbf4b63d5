//! Random calls: against a reference that keeps vectors, and against the invariants one by one.

use std::hash::{Hash, Hasher};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use doclock_locks::CancelToken;
use doclock_locks::limiter::Aimd;
use proptest::prelude::*;
use proptest::sample::Index;

use super::*;

const KEYS: usize = 4;

/// A key whose hash is that of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key(usize);

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.0 % 3).hash(state);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Ask(usize, usize),
    Try(usize, usize),
    /// Cancels one of all calls that ever waited, or drops its future if it still waits.
    Leave(Index, bool),
    Return(Index),
    Pass(u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (0..KEYS, 1..5usize).prop_map(|(key, weight)| Step::Ask(key, weight)),
        1 => (0..KEYS, 1..5usize).prop_map(|(key, weight)| Step::Try(key, weight)),
        3 => (any::<Index>(), any::<bool>()).prop_map(|(which, drops)| Step::Leave(which, drops)),
        5 => any::<Index>().prop_map(Step::Return),
        1 => (1..40u32).prop_map(Step::Pass),
    ];
    prop::collection::vec(step, 0..300)
}

/// A call; its number is that of its step.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Caller {
    number: usize,
    key: usize,
    weight: usize,
}

type Waiting = Pin<Box<dyn Future<Output = Result<Permit<Key>, LimiterError>>>>;

/// A limiter and the outcome of every call to it.
struct Subject {
    limiter: InFlightLimiter<Key>,
    clock: ManualClock,
    holders: Vec<(Caller, Permit<Key>)>,
    waiting: Vec<(Caller, Waiting)>,
    /// The calls that waited, with their tokens.
    tokens: Vec<(Caller, CancelToken)>,
}

impl Subject {
    /// The last key is not configured by name.
    fn new(options: impl Fn(LimiterOptions<Key>, usize) -> LimiterOptions<Key>) -> Self {
        let clock = ManualClock::new();
        let named = (0..KEYS - 1).fold(LimiterOptions::new(3), options);
        Self {
            limiter: InFlightLimiter::with_options(named.clock(clock.clock())),
            clock,
            holders: Vec::new(),
            waiting: Vec::new(),
            tokens: Vec::new(),
        }
    }

    fn fixed(limits: [usize; KEYS - 1], global_limit: Option<usize>) -> Self {
        Self::new(|options, key| {
            let options = options.limit(Key(key), limits[key]);
            match global_limit {
                Some(limit) => options.global_limit(limit),
                None => options,
            }
        })
    }

    /// Whether the call got slots at once; `None` where it never can.
    fn ask(&mut self, asked: Caller, wait: bool) -> Option<bool> {
        let token = CancelToken::new();
        let call = self
            .limiter
            .request(Key(asked.key))
            .weight(asked.weight)
            .no_timeout()
            .cancel_token(&token);
        let granted = if wait {
            let mut future: Waiting = Box::pin(call.into_future());
            match poll(&mut future) {
                Poll::Ready(granted) => granted,
                Poll::Pending => {
                    self.waiting.push((asked, future));
                    self.tokens.push((asked, token));
                    return Some(false);
                }
            }
        } else {
            call.no_wait().wait()
        };
        match granted {
            Ok(permit) => {
                self.holders.push((asked, permit));
                Some(true)
            }
            Err(LimiterError::Busy { .. }) => Some(false),
            Err(LimiterError::TooHeavy { .. }) => None,
            Err(error) => panic!("{error}"),
        }
    }

    /// Returns the call if it waited.
    fn leave(&mut self, which: &Index, drops: bool) -> Option<Caller> {
        let (asked, token) = which.get(&self.tokens);
        let position = self.waiting.iter().position(|(other, _)| other == asked);
        let mut waited = position.map(|position| self.waiting.remove(position));
        if !drops {
            token.cancel();
            if let Some((_, future)) = &mut waited {
                let left = poll(future);
                assert!(matches!(
                    left,
                    Poll::Ready(Err(LimiterError::Cancelled { .. }))
                ));
            }
        }
        waited.map(|(asked, _)| asked)
    }

    fn give_back(&mut self, which: usize) -> Caller {
        self.holders.remove(which).0
    }

    /// Takes one step. Returns the calls that were granted their slots after a wait.
    fn step(&mut self, number: usize, step: &Step) -> Vec<Caller> {
        match *step {
            Step::Ask(key, weight) | Step::Try(key, weight) => {
                let wait = matches!(step, Step::Ask(..));
                let asked = Caller {
                    number,
                    key,
                    weight,
                };
                self.ask(asked, wait);
            }
            Step::Leave(which, drops) if !self.tokens.is_empty() => {
                self.leave(&which, drops);
            }
            Step::Return(which) if !self.holders.is_empty() => {
                self.give_back(which.index(self.holders.len()));
            }
            Step::Pass(millis) => self.clock.advance(MS * millis),
            Step::Leave(..) | Step::Return(_) => {}
        }
        self.served()
    }

    /// Returns the calls that hold slots now and waited before.
    fn served(&mut self) -> Vec<Caller> {
        let mut served = Vec::new();
        for (asked, mut future) in std::mem::take(&mut self.waiting) {
            match poll(&mut future) {
                Poll::Pending => self.waiting.push((asked, future)),
                Poll::Ready(granted) => {
                    served.push(asked);
                    self.holders.push((asked, granted.unwrap()));
                }
            }
        }
        served
    }

    fn waiting(&self, key: usize) -> Vec<Caller> {
        let calls = self.waiting.iter().map(|(asked, _)| *asked);
        calls.filter(|asked| asked.key == key).collect()
    }

    fn taken(&self, key: Option<usize>) -> usize {
        let holders = self.holders.iter().map(|(asked, _)| asked);
        let holders = holders.filter(|asked| key.is_none_or(|key| asked.key == key));
        holders.map(|asked| asked.weight).sum()
    }

    /// Checks the invariants after a step that has granted slots to `served`.
    fn check(&self, global_limit: usize, served: &[Caller]) {
        let total = self.taken(None);
        assert!(total <= global_limit, "{total} of {global_limit} taken");
        // A snapshot adds up all metrics, which is too much for each step.
        let listed = (total < 2).then(|| self.limiter.snapshot());
        let mut ready = Vec::new();
        for key in 0..KEYS {
            let load = self.limiter.load(&Key(key));
            let (taken, waiting) = (self.taken(Some(key)), self.waiting(key));
            assert_eq!((load.in_flight, load.queued), (taken, waiting.len()));
            assert_eq!(load.total_in_flight, total);
            let mut served = served.iter().filter(|asked| asked.key == key).peekable();
            if served.peek().is_some() {
                assert!(taken <= load.limit, "{taken} of {} taken", load.limit);
            }
            let is_used = taken > 0 || !waiting.is_empty();
            if let Some(snapshot) = &listed {
                let is_kept = snapshot.key(&Key(key)).is_some();
                assert_eq!(is_kept, is_used || key + 1 < KEYS, "an idle key is kept");
            }
            if let Some(head) = waiting.first() {
                assert!(served.all(|asked| asked.number < head.number), "overtaken");
                if taken + head.weight <= load.limit {
                    ready.push(head.weight);
                }
            }
        }
        let fits = |weight: &usize| total + weight <= global_limit;
        assert!(
            ready.is_empty() || !ready.iter().all(fits),
            "a call that fits both limits waits"
        );
    }
}

fn poll(future: &mut Waiting) -> Poll<Result<Permit<Key>, LimiterError>> {
    future
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()))
}

/// The same behaviour with vectors.
#[derive(Default)]
struct Reference {
    limits: Vec<usize>,
    global_limit: usize,
    taken: Vec<usize>,
    waiting: Vec<Vec<Caller>>,
    /// The keys in turn, with the weights of their heads and the numbers of their turns.
    ring: Vec<(usize, usize, usize)>,
    turns: usize,
    served: Vec<Caller>,
}

impl Reference {
    fn new(limits: [usize; KEYS - 1], global_limit: usize) -> Self {
        Self {
            limits: limits.into_iter().chain([3]).collect(),
            global_limit,
            taken: vec![0; KEYS],
            waiting: vec![Vec::new(); KEYS],
            ..Self::default()
        }
    }

    fn fits(&self, key: usize, weight: usize) -> bool {
        self.taken[key] + weight <= self.limits[key]
    }

    fn fits_all(&self, weight: usize) -> bool {
        self.taken.iter().sum::<usize>() + weight <= self.global_limit
    }

    fn ask(&mut self, asked: Caller, wait: bool) -> Option<bool> {
        let Caller { key, weight, .. } = asked;
        if weight > self.limits[key].min(self.global_limit) {
            return None;
        }
        let free = self.waiting[key].is_empty() && self.ring.is_empty();
        let granted = free && self.fits(key, weight) && self.fits_all(weight);
        if granted {
            self.taken[key] += weight;
        } else if wait {
            self.waiting[key].push(asked);
            self.settle(key);
        }
        Some(granted)
    }

    fn leave(&mut self, asked: Caller) {
        self.waiting[asked.key].retain(|other| *other != asked);
        self.settle(asked.key);
    }

    fn give_back(&mut self, asked: Caller) {
        self.taken[asked.key] -= asked.weight;
        self.settle(asked.key);
    }

    /// Restores the invariants after a change of a key.
    fn settle(&mut self, mut key: usize) {
        loop {
            let head = self.waiting[key].first().map(|head| head.weight);
            let demand = head.filter(|&weight| self.fits(key, weight));
            let has = self.ring.iter().find(|(in_turn, ..)| *in_turn == key);
            if has.map(|(_, weight, _)| *weight) != demand {
                self.ring.retain(|(in_turn, ..)| *in_turn != key);
                self.turns += 1;
                self.ring
                    .extend(demand.map(|weight| (key, weight, self.turns)));
            }
            match self.ring.first() {
                Some(&(first, weight, _)) if self.fits_all(weight) => {
                    self.ring.remove(0);
                    self.served.push(self.waiting[first].remove(0));
                    self.taken[first] += weight;
                    key = first;
                }
                _ => return,
            }
        }
    }
}

/// How often each key was served while another kept its position in the ring.
#[derive(Default)]
struct Overtakings {
    turns: [Option<usize>; KEYS],
    counts: [[usize; KEYS]; KEYS],
}

impl Overtakings {
    /// Records a step that served these calls, in that order.
    fn note(&mut self, reference: &Reference, served: &[Caller]) {
        for key in 0..KEYS {
            let turn = reference.ring.iter().find(|(in_turn, ..)| *in_turn == key);
            let turn = turn.map(|(.., number)| *number);
            if turn != std::mem::replace(&mut self.turns[key], turn) {
                self.counts[key] = [0; KEYS];
            }
            // A served key has joined again after that, and any other new one before all of them.
            let own = served.iter().rposition(|caller| caller.key == key);
            for other in &served[own.map_or(0, |own| own + 1)..] {
                self.counts[key][other.key] += usize::from(turn.is_some());
            }
        }
    }

    fn most(&self) -> usize {
        self.counts.iter().flatten().copied().max().unwrap_or(0)
    }
}

fn limits() -> impl Strategy<Value = [usize; KEYS - 1]> {
    [1..6usize, 1..6usize, 1..6usize]
}

fn globals() -> impl Strategy<Value = Option<usize>> {
    prop_oneof![1 => Just(None), 4 => (1..9usize).prop_map(Some)]
}

proptest! {
    /// The reference shows the ring of keys as well, and in it how often a key was overtaken.
    #[test]
    fn limiter_07_the_limiter_behaves_as_vectors_would_and_a_key_is_overtaken_once_by_each_other(
        steps in steps(),
        limits in limits(),
        global_limit in globals(),
    ) {
        let mut subject = Subject::fixed(limits, global_limit);
        let global_limit = global_limit.unwrap_or(usize::MAX);
        let mut reference = Reference::new(limits, global_limit);
        let mut overtakings = Overtakings::default();
        for (number, step) in steps.into_iter().enumerate() {
            let before = reference.served.len();
            match step {
                Step::Ask(key, weight) | Step::Try(key, weight) => {
                    let wait = matches!(step, Step::Ask(..));
                    let asked = Caller { number, key, weight };
                    prop_assert_eq!(subject.ask(asked, wait), reference.ask(asked, wait));
                }
                Step::Leave(which, drops) if !subject.tokens.is_empty() => {
                    if let Some(asked) = subject.leave(&which, drops) {
                        reference.leave(asked);
                    }
                }
                Step::Return(which) if !subject.holders.is_empty() => {
                    reference.give_back(subject.give_back(which.index(subject.holders.len())));
                }
                Step::Pass(millis) => subject.clock.advance(MS * millis),
                Step::Leave(..) | Step::Return(_) => {}
            }
            let served = subject.served();
            let in_order = &reference.served[before..];
            let mut expected = in_order.to_vec();
            expected.sort_by_key(|asked| asked.number);
            prop_assert_eq!(&served, &expected);
            for key in 0..KEYS {
                prop_assert_eq!(subject.waiting(key), &reference.waiting[key][..]);
            }
            subject.check(global_limit, &served);
            overtakings.note(&reference, in_order);
            prop_assert!(overtakings.most() <= 1, "{:?}", overtakings.counts);
        }
    }

    #[test]
    fn limiter_09_the_invariants_hold_while_limits_move(
        steps in steps(),
        start in 4..8usize,
        global_limit in globals(),
    ) {
        let rules = Aimd::new(10 * MS).between(4, 9).start(start).backoff(50);
        let mut subject = Subject::new(|options, key| {
            let options = options.adaptive(Key(key), rules);
            match global_limit {
                Some(limit) => options.global_limit(limit),
                None => options,
            }
        });
        let global_limit = global_limit.unwrap_or(usize::MAX);
        for (number, step) in steps.iter().enumerate() {
            let served = subject.step(number, step);
            subject.check(global_limit, &served);
        }
        // Every waiting call is served in the end.
        while !subject.holders.is_empty() {
            subject.give_back(0);
            let served = subject.served();
            subject.check(global_limit, &served);
        }
        prop_assert!(subject.waiting.is_empty());
    }
}

#[test]
fn limiter_07_the_bound_between_keys_is_reached_and_not_exceeded() {
    for others in 1..KEYS - 1 {
        let mut subject = Subject::fixed([4, 4, 4], Some(1));
        let mut number = 0;
        let mut ask = |subject: &mut Subject, key, is_free| {
            number += 1;
            let asked = Caller {
                number,
                key,
                weight: 1,
            };
            assert_eq!(subject.ask(asked, true), Some(is_free));
            number
        };
        ask(&mut subject, KEYS - 1, true);
        for _ in 0..10 {
            for other in 1..=others {
                ask(&mut subject, other, false);
            }
        }
        // At position 3 of its own queue, and behind all requests of the others.
        let last = [0; 3].map(|key| ask(&mut subject, key, false))[2];
        let mut order = Vec::new();
        while !subject.holders.is_empty() {
            subject.give_back(0);
            order.extend(subject.served());
        }
        let before = order.iter().take_while(|asked| asked.number != last);
        for other in 1..=others {
            let overtakers = before.clone().filter(|asked| asked.key == other).count();
            assert_eq!(overtakers, 3, "one of each other key for each position");
        }
    }
}
