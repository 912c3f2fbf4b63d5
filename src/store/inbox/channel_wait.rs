//! How a worker waits for the next message on its channel, with a deadline and a cancel token.

use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, after, never, select, unbounded};

use crate::lock::CancelToken;
use crate::time::{Clock, Deadline, Pause, TimeListener};

/// The event that ended the wait.
#[derive(Debug)]
pub(super) enum Received<M> {
    Message(M),
    /// All senders are gone.
    Disconnected,
    /// The deadline has passed.
    Due,
    Cancelled,
}

/// Waits for a message, a deadline or a token, whichever comes first. Of simultaneous events, any
/// may be returned.
pub(super) fn receive<M>(
    messages: &Receiver<M>,
    clock: &Clock,
    deadline: Option<Deadline>,
    cancel: Option<&CancelToken>,
) -> Received<M> {
    let (send, events) = unbounded();
    let listener = Arc::new(ClockListener(send.clone()));
    if deadline.is_some() {
        clock.listen(&listener);
    }
    let _attached = cancel.map(|token| {
        token.attach(move || {
            let _ = send.send(());
        })
    });
    loop {
        if cancel.is_some_and(CancelToken::is_cancelled) {
            return Received::Cancelled;
        }
        let passed = match deadline.map(|deadline| clock.until(deadline)) {
            Some(None) => return Received::Due,
            Some(Some(Pause::For(left))) => after(left),
            None | Some(Some(Pause::UntilAdvanced)) => never(),
        };
        select! {
            recv(messages) -> message => return match message {
                Ok(message) => Received::Message(message),
                Err(_) => Received::Disconnected,
            },
            recv(events) -> _ => {}
            recv(passed) -> _ => {}
        }
    }
}

/// Notes that the time was moved.
struct ClockListener(Sender<()>);

impl TimeListener for ClockListener {
    fn time_advanced(&self) {
        // The send fails if the receiver has returned, and then no thread waits.
        let _ = self.0.send(());
    }
}
