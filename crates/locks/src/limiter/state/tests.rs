//! The pure state under random calls: against a reference that keeps vectors, and against its
//! invariants one by one.

mod fairness;

use proptest::prelude::*;
use proptest::sample::Index;

use super::*;
use crate::limiter::Aimd;
use crate::time::ManualClock;

const MS: Duration = Duration::from_millis(1);
const KEYS: usize = 4;

#[derive(Clone, Debug)]
enum Step {
    Ask(usize, usize),
    Try(usize, usize),
    /// Withdraws one of all calls that ever waited.
    Leave(Index, bool),
    Return(Index),
    Pass(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (0..KEYS, 1..5usize).prop_map(|(key, weight)| Step::Ask(key, weight)),
        1 => (0..KEYS, 1..5usize).prop_map(|(key, weight)| Step::Try(key, weight)),
        3 => (any::<Index>(), any::<bool>()).prop_map(|(which, expired)| Step::Leave(which, expired)),
        5 => any::<Index>().prop_map(Step::Return),
        1 => (1..40u64).prop_map(Step::Pass),
    ];
    prop::collection::vec(step, 0..300)
}

/// Identifies a call, in FIFO order.
type Number = usize;

#[derive(Clone, Copy, Debug, PartialEq)]
struct Caller {
    number: Number,
    key: usize,
    weight: usize,
}

/// Two of the keys have the same hash.
fn hash(key: &usize) -> u64 {
    *key as u64 % 3
}

fn name(key: &usize) -> HashedKey<'_, usize> {
    HashedKey {
        key,
        hash: hash(key),
    }
}

/// A limiter and the outcome of every call to it.
struct Subject {
    state: LimiterState<usize, Caller>,
    clock: ManualClock,
    holders: Vec<(Caller, Granted)>,
    positions: Vec<(Caller, CallTicket)>,
    /// In the order of the grants, without the immediate ones.
    served: Vec<Caller>,
    left: Vec<Caller>,
}

impl Subject {
    fn new(rules: &[KeyLimit], global_limit: Option<usize>) -> Self {
        let clock = ManualClock::new();
        let mut state = LimiterState::new(3, global_limit, &clock.clock());
        // The last key is not configured by name.
        for (key, &rule) in rules.iter().enumerate() {
            state.configure(key, hash(&key), rule, &clock.clock());
        }
        Self {
            state,
            clock,
            holders: Vec::new(),
            positions: Vec::new(),
            served: Vec::new(),
            left: Vec::new(),
        }
    }

    fn now(&self) -> MonotonicTime {
        self.clock.clock().now()
    }

    /// Whether the call got slots at once; `None` where it never can.
    fn ask(&mut self, asked: Caller, wait: bool) -> Option<bool> {
        let now = self.now();
        let name = name(&asked.key);
        let Caller { weight, .. } = asked;
        if weight > self.state.most(name) {
            return None;
        }
        let mut key = Some(asked.key);
        let clock = self.clock.clock();
        let granted = self
            .state
            .try_take(&mut key, hash(&asked.key), weight, &clock);
        match granted {
            Some(granted) => self.holders.push((asked, granted)),
            None if wait => {
                let position = self.state.join(&mut key, name.hash, weight, now, asked);
                self.positions.push((asked, position));
            }
            None => {}
        }
        Some(granted.is_some())
    }

    fn leave(&mut self, position: CallTicket, expired: bool) {
        let reason = match expired {
            true => Reason::Expired(Duration::ZERO),
            false => Reason::Cancelled,
        };
        let mut next = AfterLimiterUnlock::default();
        self.state.withdraw(position, reason, self.now(), &mut next);
        self.hear(next);
    }

    fn give_back(&mut self, which: usize) -> Caller {
        let (asked, granted) = self.holders.remove(which);
        let mut next = AfterLimiterUnlock::default();
        let clock = self.clock.clock();
        self.state
            .give_back(granted, &clock, true, false, &mut next);
        self.hear(next);
        asked
    }

    fn hear(&mut self, next: AfterLimiterUnlock<usize, Caller>) {
        for (asked, verdict) in next.answers {
            match verdict {
                Ok(granted) => {
                    self.served.push(asked);
                    self.holders.push((asked, granted));
                }
                Err(_) => self.left.push(asked),
            }
        }
    }

    fn waiting(&self, key: usize) -> Vec<Caller> {
        let known = self.state.keys.find(name(&key)).into_iter();
        let waiters = known.flat_map(|(_, state)| state.queue.waiting());
        waiters.map(|(_, waiter)| waiter.request).collect()
    }

    fn taken(&self, key: Option<usize>) -> usize {
        let of_key = |asked: &Caller| key.is_none_or(|key| asked.key == key);
        let holders = self.holders.iter().filter(|(asked, _)| of_key(asked));
        holders.map(|(asked, _)| asked.weight).sum()
    }

    /// Checks the invariants of the module that are observable from outside.
    fn check(&self, global_limit: usize, served_before: usize) {
        let total = self.taken(None);
        assert!(
            total <= global_limit,
            "{total} of {global_limit} taken in all"
        );
        assert_eq!(self.state.turns.capacity().taken(), total);
        let mut ready = 0;
        for key in 0..KEYS {
            let load = self.state.load(name(&key));
            let taken = self.taken(Some(key));
            let waiting = self.waiting(key);
            assert_eq!((load.in_flight, load.queued), (taken, waiting.len()));
            if self.served[served_before..]
                .iter()
                .any(|asked| asked.key == key)
            {
                assert!(taken <= load.limit, "{taken} of {} taken", load.limit);
            }
            let used = taken > 0 || !waiting.is_empty();
            let kept = self.state.keys.find(name(&key)).is_some();
            assert!(kept == used || key + 1 < KEYS, "an idle key is not kept");
            assert!(waiting.is_sorted_by_key(|asked| asked.number));
            ready += usize::from(
                waiting
                    .first()
                    .is_some_and(|head| taken + head.weight <= load.limit),
            );
        }
        assert_eq!(
            self.state.turns.len(),
            ready,
            "who fits its own limit is in turn"
        );
        if let Some(first) = self.state.turns.head() {
            assert!(
                total + first > global_limit,
                "who fits both limits does not wait"
            );
        }
    }
}

/// The same behaviour with vectors.
#[derive(Default)]
struct Reference {
    limits: Vec<usize>,
    global_limit: usize,
    taken: Vec<usize>,
    waiting: Vec<Vec<Caller>>,
    /// The keys in turn, with the weights of their heads.
    ring: Vec<(usize, usize)>,
    served: Vec<Caller>,
}

impl Reference {
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

    /// Restores the invariants after a change of a key.
    fn settle(&mut self, mut key: usize) {
        loop {
            let head = self.waiting[key].first().map(|head| head.weight);
            let wish = head.filter(|&weight| self.fits(key, weight));
            let has = self.ring.iter().find(|(in_turn, _)| *in_turn == key);
            if has.map(|(_, weight)| *weight) != wish {
                self.ring.retain(|(in_turn, _)| *in_turn != key);
                self.ring.extend(wish.map(|weight| (key, weight)));
            }
            match self.ring.first() {
                Some(&(first, weight)) if self.fits_all(weight) => {
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

fn limits() -> impl Strategy<Value = [usize; KEYS - 1]> {
    [1..6usize, 1..6usize, 1..6usize]
}

fn globals() -> impl Strategy<Value = Option<usize>> {
    prop_oneof![1 => Just(None), 4 => (1..9usize).prop_map(Some)]
}

proptest! {
    #[test]
    fn the_state_behaves_as_vectors_would(
        steps in steps(),
        limits in limits(),
        global_limit in globals(),
    ) {
        let mut subject = Subject::new(&limits.map(KeyLimit::Fixed), global_limit);
        let global_limit = global_limit.unwrap_or(usize::MAX);
        let mut reference = Reference {
            limits: limits.into_iter().chain([3]).collect(),
            global_limit,
            taken: vec![0; KEYS],
            waiting: vec![Vec::new(); KEYS],
            ..Reference::default()
        };
        for (number, step) in steps.into_iter().enumerate() {
            let served = subject.served.len();
            match step {
                Step::Ask(key, weight) | Step::Try(key, weight) => {
                    let wait = matches!(step, Step::Ask(..));
                    let asked = Caller { number, key, weight };
                    prop_assert_eq!(subject.ask(asked, wait), reference.ask(asked, wait));
                }
                Step::Leave(which, expired) if !subject.positions.is_empty() => {
                    let &(asked, position) = which.get(&subject.positions);
                    subject.leave(position, expired);
                    let line = &mut reference.waiting[asked.key];
                    if let Some(at) = line.iter().position(|other| *other == asked) {
                        line.remove(at);
                        prop_assert_eq!(subject.left.last(), Some(&asked));
                        reference.settle(asked.key);
                    }
                }
                Step::Return(which) if !subject.holders.is_empty() => {
                    let Caller { key, weight, .. } = subject.give_back(which.index(subject.holders.len()));
                    reference.taken[key] -= weight;
                    reference.settle(key);
                }
                Step::Pass(millis) => subject.clock.advance(MS * millis as u32),
                Step::Leave(..) | Step::Return(_) => {}
            }
            prop_assert_eq!(&subject.served, &reference.served);
            for key in 0..KEYS {
                prop_assert_eq!(subject.waiting(key), &reference.waiting[key][..]);
            }
            subject.check(global_limit, served);
        }
    }

    #[test]
    fn the_invariants_hold_while_limits_move(
        steps in steps(),
        start in 4..8usize,
        global_limit in globals(),
    ) {
        let rules = Aimd::new(10 * MS).between(4, 9).start(start).backoff(50);
        let mut subject = Subject::new(&[KeyLimit::Adaptive(rules); KEYS - 1], global_limit);
        for (number, step) in steps.into_iter().enumerate() {
            let served = subject.served.len();
            match step {
                Step::Ask(key, weight) => {
                    subject.ask(Caller { number, key, weight }, true);
                }
                Step::Try(key, weight) => {
                    subject.ask(Caller { number, key, weight }, false);
                }
                Step::Leave(which, expired) if !subject.positions.is_empty() => {
                    subject.leave(which.get(&subject.positions).1, expired);
                }
                Step::Return(which) if !subject.holders.is_empty() => {
                    subject.give_back(which.index(subject.holders.len()));
                }
                Step::Pass(millis) => subject.clock.advance(MS * millis as u32),
                Step::Leave(..) | Step::Return(_) => {}
            }
            subject.check(global_limit.unwrap_or(usize::MAX), served);
        }
        // Every waiting call is served in the end.
        while !subject.holders.is_empty() {
            let served = subject.served.len();
            subject.give_back(0);
            subject.check(global_limit.unwrap_or(usize::MAX), served);
        }
        prop_assert!((0..KEYS).all(|key| subject.waiting(key).is_empty()));
    }
}

#[test]
fn a_burst_of_keys_gives_its_memory_back() {
    let clock = ManualClock::new().clock();
    let mut state: LimiterState<usize, ()> = LimiterState::new(1, None, &clock);
    state.configure(0, 0, KeyLimit::Fixed(1), &clock);
    let granted: Vec<_> = (1..=10_000)
        .map(|key| {
            let hash = (key as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let mut key = Some(key);
            state.try_take(&mut key, hash, 1, &clock).unwrap()
        })
        .collect();
    let [kept, room] = state.keys.sizes();
    assert_eq!(kept, 10_001);
    assert!(room >= kept);
    for granted in granted {
        let mut next = AfterLimiterUnlock::default();
        state.give_back(granted, &clock, true, false, &mut next);
        assert!(next.gone.is_some() && next.answers.is_empty());
    }
    let [kept, room] = state.keys.sizes();
    assert_eq!(kept, 1);
    assert!(
        room <= 2 * LimiterKeys::<usize, ()>::KEPT,
        "room for {room}"
    );
}
