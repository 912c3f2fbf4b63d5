//! Waiting for a message on a channel, with the deadlines and tokens of all other waits.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, after, never, select, unbounded};

use super::CancelToken;
use super::parker::Waiter;
use super::wait::{self, Reason, Wait, WaitQueue};
use crate::time::{Clock, Deadline, Pause, TimeListener};

/// The event that ended the wait.
#[derive(Debug)]
pub enum Received<M> {
    Message(M),
    /// All senders are gone.
    Disconnected,
    /// The deadline has passed.
    Due,
    Cancelled,
}

/// Waits for a message, a deadline or a token, whichever comes first. Of simultaneous events, any
/// may be returned.
pub fn receive<M: Send + 'static>(
    messages: &Receiver<M>,
    clock: &Clock,
    deadline: Option<Deadline>,
    cancel: Option<&CancelToken>,
) -> Received<M> {
    let (send, events) = unbounded();
    let door = Arc::new(Door {
        clock: clock.clone(),
        send,
    });
    let listener = Arc::new(Listener {
        messages: messages.clone(),
        events,
        send: door.send.clone(),
    });
    let wait = Wait {
        ticket: (),
        // Only the deadline counts here, so the length of the limit is arbitrary.
        deadline: deadline.map(|deadline| (Duration::ZERO, deadline)),
        spins: 0,
        keeper_looks: None,
    };
    wait::wait(&door, &listener, cancel, wait)
}

/// An event other than a message.
enum Event {
    Gone(Reason),
    /// The time was moved.
    LookAgain,
}

/// A queue of one waiter, whose head is the first event.
struct Door {
    clock: Clock,
    send: Sender<Event>,
}

impl WaitQueue for Door {
    type Ticket = ();

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn withdraw(&self, (): (), reason: Reason) {
        // The send fails if the waiter has left, and then it needs none.
        let _ = self.send.send(Event::Gone(reason));
    }
}

struct Listener<M> {
    messages: Receiver<M>,
    events: Receiver<Event>,
    send: Sender<Event>,
}

impl<M: Send + 'static> Waiter for Listener<M> {
    type Outcome = Received<M>;

    fn wait_until(
        &self,
        _spins: u32,
        clock: &Clock,
        deadline: Option<Deadline>,
    ) -> Option<Received<M>> {
        loop {
            let passed = match deadline.map(|deadline| clock.until(deadline)) {
                Some(None) => return None,
                Some(Some(Pause::For(left))) => after(left),
                None | Some(Some(Pause::UntilAdvanced)) => never(),
            };
            return select! {
                recv(self.messages) -> message => Some(match message {
                    Ok(message) => Received::Message(message),
                    Err(_) => Received::Disconnected,
                }),
                recv(self.events) -> event => match event {
                    Ok(Event::Gone(Reason::Cancelled)) => Some(Received::Cancelled),
                    Ok(Event::Gone(Reason::Expired(_))) => Some(Received::Due),
                    Ok(Event::LookAgain) | Err(_) => continue,
                },
                recv(passed) -> _ => continue,
            };
        }
    }
}

impl<M: Send> TimeListener for Listener<M> {
    fn time_advanced(&self) {
        let _ = self.send.send(Event::LookAgain);
    }
}
