//! The line against the plainest model there is: a vector.

use proptest::prelude::*;

use super::{Exclusive, Queue, Ticket};

#[derive(Clone, Debug)]
enum Call {
    Ask,
    Try,
    /// Withdraw the n-th of all tickets ever issued, granted and withdrawn ones included.
    Withdraw(usize),
    Release,
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let call = prop_oneof![
        3 => Just(Call::Ask),
        1 => Just(Call::Try),
        2 => (0..40usize).prop_map(Call::Withdraw),
        2 => Just(Call::Release),
    ];
    prop::collection::vec(call, 0..120)
}

#[derive(Default)]
struct Reference {
    holder: Option<usize>,
    waiting: Vec<usize>,
}

impl Reference {
    fn settle(&mut self) {
        if self.holder.is_none() && !self.waiting.is_empty() {
            self.holder = Some(self.waiting.remove(0));
        }
    }
}

proptest! {
    #[test]
    fn the_queue_behaves_as_a_vector_would(calls in calls()) {
        let mut queue = Queue::new(Exclusive::default());
        let mut reference = Reference::default();
        let mut holder = None;
        let mut tickets: Vec<(usize, Ticket)> = Vec::new();
        for (request, call) in calls.into_iter().enumerate() {
            match call {
                Call::Ask => {
                    if queue.try_take(&()) {
                        holder = Some(request);
                    } else {
                        tickets.push((request, queue.join((), request)));
                    }
                    reference.waiting.push(request);
                }
                Call::Try => {
                    let free = reference.holder.is_none() && reference.waiting.is_empty();
                    prop_assert_eq!(queue.try_take(&()), free);
                    if free {
                        holder = Some(request);
                        reference.holder = Some(request);
                    }
                }
                Call::Withdraw(nth) => {
                    if let Some(&(request, ticket)) = tickets.get(nth) {
                        let waits = reference.waiting.contains(&request);
                        prop_assert_eq!(queue.withdraw(ticket).is_some(), waits);
                        reference.waiting.retain(|&other| other != request);
                    }
                }
                Call::Release => {
                    if holder.take().is_some() {
                        queue.give_back(&());
                        reference.holder = None;
                    }
                }
            }
            if let Some(next) = queue.next() {
                prop_assert!(holder.replace(next).is_none(), "granted beside a holder");
            }
            reference.settle();

            prop_assert_eq!(holder, reference.holder);
            prop_assert_eq!(queue.len(), reference.waiting.len());
            let waiting: Vec<_> = queue.waiting().map(|(_, &request)| request).collect();
            prop_assert_eq!(&waiting, &reference.waiting);
            for (place, (ticket, _)) in queue.waiting().enumerate() {
                prop_assert_eq!(queue.place(ticket), Some(place));
            }
        }
    }
}
