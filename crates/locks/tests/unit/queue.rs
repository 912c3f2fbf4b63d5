//! Positions and pages of the queue, and its cost, counted.

use proptest::prelude::*;
use proptest::sample::Index;

use super::wait_list::WaitList;
use super::{Priority, Queue, Slots, Ticket};
use crate::steps::counter::counted;

#[derive(Clone, Debug)]
enum Call {
    Ask(Priority, usize),
    /// Withdraws one of all tickets ever issued, including granted and withdrawn ones.
    Withdraw(Index),
    Release(Index),
    /// Reads on, or begins again from the head.
    Read(usize),
}

fn priorities() -> impl Strategy<Value = Priority> {
    prop::sample::select(Priority::ALL.as_slice())
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let call = prop_oneof![
        6 => (priorities(), 1..4usize).prop_map(|(priority, demand)| Call::Ask(priority, demand)),
        4 => any::<Index>().prop_map(Call::Withdraw),
        2 => any::<Index>().prop_map(Call::Release),
        2 => (1..9usize).prop_map(Call::Read),
    ];
    prop::collection::vec(call, 0..300)
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Request {
    number: usize,
    priority: Priority,
    demand: usize,
}

/// Reads the queue page by page while other requests come and go.
#[derive(Default)]
struct Reader {
    at: Option<Ticket>,
    /// The requests that have waited since the first page.
    throughout: Vec<Request>,
    listed: Vec<Request>,
}

impl Reader {
    fn read(&mut self, queue: &Queue<Request>, count: usize) {
        if self.at.is_none() {
            self.listed.clear();
            self.throughout = queue.waiting().map(|(_, &request)| request).collect();
        }
        let (page, next) = queue.page(self.at, count);
        assert!(page.len() == count || next.is_none(), "a page too short");
        for (ticket, request) in page {
            assert!(queue.ahead_of(ticket).is_some());
            self.listed.push(*request);
        }
        self.at = next;
        if next.is_none() {
            self.throughout
                .retain(|request| queue.waiting().any(|(_, waiting)| waiting == request));
            let mut listed = self.listed.clone();
            listed.retain(|request| self.throughout.contains(request));
            assert_eq!(listed, self.throughout);
        }
    }
}

proptest! {
    /// The order itself is compared with a vector in `tests/order`.
    #[test]
    fn positions_and_pages_agree_with_the_order(
        calls in calls(),
        overtaking in prop_oneof![0..6u32, Just(u32::MAX)],
        free in 3..6usize,
    ) {
        let mut queue = Queue::new(Slots::new(free), overtaking);
        let mut holders = Vec::new();
        let mut tickets: Vec<(Request, Ticket)> = Vec::new();
        let mut reader = Reader::default();
        for (number, call) in calls.into_iter().enumerate() {
            match call {
                Call::Ask(priority, demand) => {
                    let request = Request { number, priority, demand };
                    let taken: usize = holders.iter().map(|it: &Request| it.demand).sum();
                    let fits = queue.is_empty() && taken + demand <= free;
                    let is_taken = queue.try_take(demand);
                    prop_assert_eq!(is_taken, fits);
                    if is_taken {
                        holders.push(request);
                    } else {
                        tickets.push((request, queue.join(demand, priority, request)));
                    }
                }
                Call::Withdraw(which) if !tickets.is_empty() => {
                    let &(request, ticket) = which.get(&tickets);
                    let waits = queue.waiting().any(|(_, other)| *other == request);
                    prop_assert_eq!(queue.withdraw(ticket), waits.then_some(request));
                }
                Call::Release(which) if !holders.is_empty() => {
                    let ended = holders.swap_remove(which.index(holders.len()));
                    queue.give_back(ended.demand);
                }
                Call::Read(count) => reader.read(&queue, count),
                Call::Withdraw(_) | Call::Release(_) => {}
            }
            while let Some(next) = queue.next() {
                holders.push(next);
            }
            let waiting: Vec<_> = queue.waiting().map(|(_, &request)| request).collect();
            prop_assert_eq!(queue.len(), waiting.len());
            let taken: usize = holders.iter().map(|it| it.demand).sum();
            prop_assert!(waiting.first().is_none_or(|head| taken + head.demand > free));
            for &(request, ticket) in &tickets {
                let position = waiting.iter().position(|&other| other == request);
                prop_assert_eq!(queue.ahead_of(ticket), position);
                let ahead = queue.list.ahead(Some(ticket)).next().map(|(_, it)| it.request);
                let expected = position.and_then(|position| waiting.get(position.checked_sub(1)?));
                prop_assert_eq!(ahead, expected.copied());
            }
        }
    }
}

/// Creates a queue behind a holder, so that all requests wait.
fn held_up(overtaking: u32) -> Queue<u64> {
    let mut queue = Queue::new(Slots::new(1), overtaking);
    assert!(queue.try_take(1));
    queue
}

#[test]
fn a_page_size_of_zero_still_advances() {
    let mut queue = held_up(64);
    queue.join(1, Priority::Normal, 0);
    queue.join(1, Priority::Normal, 1);
    let (page, next) = queue.page(None, 0);
    assert_eq!(page.len(), 1);
    let (page, end) = queue.page(next, 0);
    assert_eq!((page.len(), end), (1, None));
}

/// Returns ten thousand requests of mixed priorities, of which the second quarter has left.
fn long_line() -> (Queue<u64>, Vec<Ticket>) {
    let mut queue = held_up(64);
    let mut tickets: Vec<_> = (0..10_000)
        .map(|number| queue.join(1, Priority::ALL[(number % 3) as usize], number))
        .collect();
    for gone in tickets.drain(2_500..5_000) {
        queue.withdraw(gone);
    }
    (queue, tickets)
}

/// A search in ten thousand takes fourteen steps.
const LOGARITHMIC: usize = 15;

#[test]
fn a_queue_position_is_found_in_logarithmic_steps() {
    let (queue, tickets) = long_line();
    for &ticket in &tickets {
        let (position, steps) = counted(|| queue.ahead_of(ticket));
        assert!(position.is_some());
        assert!(steps <= LOGARITHMIC, "{steps} steps");
    }
}

#[test]
fn a_queue_without_withdrawals_joins_and_serves_without_searching() {
    let mut queue = held_up(64);
    for number in 0..64 {
        queue.join(1, Priority::Normal, number);
    }
    let ((), steps) = counted(|| {
        for number in 64..1_000 {
            queue.join(1, Priority::Normal, number);
            queue.give_back(1);
            assert!(queue.next().is_some());
        }
    });
    assert_eq!(steps, 0);
}

#[test]
fn a_long_queue_releases_its_memory() {
    let served = |queue: &mut Queue<u64>, _: Ticket| {
        queue.give_back(1);
        queue.next()
    };
    let left = |queue: &mut Queue<u64>, ticket| queue.withdraw(ticket);
    for leave in [served, left] {
        let mut queue = held_up(64);
        let tickets: Vec<_> = (0..100_000)
            .map(|number| queue.join(1, Priority::Normal, number))
            .collect();
        assert!(queue.list.capacity() >= 100_000);
        for &odd in tickets.iter().skip(1).step_by(2) {
            queue.withdraw(odd);
        }
        for &even in tickets.iter().step_by(2) {
            assert!(leave(&mut queue, even).is_some());
            let kept = queue.list.capacity();
            assert!(
                kept <= WaitList::<u64>::KEPT.max(8 * queue.len() + 8),
                "{kept} kept"
            );
        }
        assert!(queue.is_empty() && queue.list.capacity() <= WaitList::<u64>::KEPT);
    }
}
