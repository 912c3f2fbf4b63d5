//! The bound on how often other keys are served before the next key in turn.

use super::*;

/// How often each key was served while another kept its position in the queue of keys.
#[derive(Default)]
struct Overtakings {
    positions: [Option<Ticket>; KEYS],
    counts: [[usize; KEYS]; KEYS],
}

impl Overtakings {
    /// Records a step that served these calls, in that order.
    fn note(&mut self, state: &LimiterState<usize, Caller>, served: &[Caller]) {
        for key in 0..KEYS {
            let turn = state
                .keys
                .find(name(&key))
                .and_then(|(_, it)| it.turn.as_ref());
            let position = turn.map(|turn| turn.ticket);
            if position != std::mem::replace(&mut self.positions[key], position) {
                self.counts[key] = [0; KEYS];
            }
            // A served key has joined again after that, and any other new one before all of them.
            let own = served.iter().rposition(|caller| caller.key == key);
            for other in &served[own.map_or(0, |own| own + 1)..] {
                self.counts[key][other.key] += usize::from(position.is_some());
            }
        }
    }

    fn most(&self) -> usize {
        self.counts.iter().flatten().copied().max().unwrap_or(0)
    }
}

proptest! {
    #[test]
    fn limiter_07_a_waiting_key_is_overtaken_at_most_once_by_each_other_key(
        steps in steps(),
        global_limit in 1..9usize,
        adaptive in any::<bool>(),
    ) {
        let rule = match adaptive {
            true => KeyLimit::Adaptive(Aimd::new(10 * MS).between(4, 9).start(6).backoff(50)),
            false => KeyLimit::Fixed(5),
        };
        let mut subject = Subject::new(&[rule; KEYS - 1], Some(global_limit));
        let mut overtakings = Overtakings::default();
        for (number, step) in steps.into_iter().enumerate() {
            let served = subject.served.len();
            match step {
                Step::Ask(key, weight) | Step::Try(key, weight) => {
                    let wait = matches!(step, Step::Ask(..));
                    subject.ask(Caller { number, key, weight }, wait);
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
            overtakings.note(&subject.state, &subject.served[served..]);
            prop_assert!(overtakings.most() <= 1, "{:?}", overtakings.counts);
        }
    }
}

/// Creates a subject whose slots are all taken by one call to the last key.
fn held_up(limits: [usize; KEYS - 1], global_limit: usize) -> Subject {
    let mut subject = Subject::new(&limits.map(KeyLimit::Fixed), Some(global_limit));
    for number in 0..global_limit.min(3) {
        subject.ask(
            Caller {
                number,
                key: KEYS - 1,
                weight: 1,
            },
            false,
        );
    }
    subject
}

/// Ends one call after the other, the earliest first, and returns the served calls in order.
fn served(subject: &mut Subject) -> Vec<(usize, usize)> {
    while !subject.holders.is_empty() {
        subject.holders.sort_by_key(|(asked, _)| asked.number);
        subject.give_back(0);
    }
    let served = subject.served.iter();
    served.map(|asked| (asked.key, asked.number)).collect()
}

#[test]
fn limiter_07_the_bound_between_keys_is_reached_and_not_exceeded() {
    for others in 1..KEYS - 1 {
        let mut subject = held_up([4, 4, 4], 1);
        let mut number = 10;
        let mut ask = |subject: &mut Subject, key| {
            number += 1;
            let asked = Caller {
                number,
                key,
                weight: 1,
            };
            assert_eq!(subject.ask(asked, true), Some(false));
            number
        };
        for _ in 0..10 {
            for other in 1..=others {
                ask(&mut subject, other);
            }
        }
        // At position 3 of its own queue, and behind all requests of the others.
        let last = [0; 3].map(|key| ask(&mut subject, key))[2];
        let order = served(&mut subject);
        let before = order.iter().take_while(|&&(_, number)| number != last);
        for other in 1..=others {
            let overtakers = before.clone().filter(|(key, _)| *key == other);
            assert_eq!(
                overtakers.count(),
                3,
                "one of each other key for each position"
            );
        }
    }
}
