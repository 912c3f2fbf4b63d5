//! The events of an inbox, as a journal stores them.
//!
//! Done and dead events are stored, the watermark, and the other events that were sent before the
//! moment of a prune: they could be too old without a record. Claims, waits and counts are not
//! stored: after an open each of the other events has all its attempts again.

use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use super::{DeadEvent, DeadLetterCause, DoneEvent, EventProgress, EventRecord, EventTable};
use crate::steps::step;
use crate::store::calendar::{Calendar, Date};
use crate::store::notes::{Note, NoteChange, NoteKey, WatermarkNote};
use crate::time::MonotonicTime;

/// A stored event.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EventNote {
    pub(in crate::store) inbox: SmolStr,
    pub(in crate::store) id: SmolStr,
    sent_at: Option<Date>,
    attempts: u32,
    state: StoredState,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum StoredState {
    Done {
        at: Date,
    },
    Dead {
        number: u64,
        at: Date,
        cause: DeadLetterCause,
        error: String,
    },
    /// It was revived, or was sent no later than the watermark.
    Due,
}

impl EventNote {
    /// About how many bytes its strings take.
    pub(in crate::store) fn bytes(&self) -> usize {
        let error = match &self.state {
            StoredState::Dead { error, .. } => error.len(),
            StoredState::Done { .. } | StoredState::Due => 0,
        };
        self.inbox.len() + self.id.len() + error
    }
}

/// The changes of an inbox that a journal has to store.
pub(super) struct InboxChanges {
    inbox: SmolStr,
    notes: Vec<NoteChange>,
}

/// When the message of an event was sent, and how often the event was attempted.
type Attempted = (Option<SystemTime>, u32);

impl InboxChanges {
    pub(super) fn new(inbox: SmolStr) -> Self {
        Self {
            inbox,
            notes: Vec::new(),
        }
    }

    fn set(&mut self, id: &SmolStr, (sent_at, attempts): Attempted, state: StoredState) {
        let note = Note::Event(EventNote {
            inbox: self.inbox.clone(),
            id: id.clone(),
            sent_at: sent_at.map(Date),
            attempts,
            state,
        });
        self.notes.push(NoteChange::Kept(note));
    }

    fn watermark(&mut self, sent_at: SystemTime) {
        let watermark = WatermarkNote {
            inbox: self.inbox.clone(),
            sent_at: Date(sent_at),
        };
        self.notes
            .push(NoteChange::Kept(Note::Watermark(watermark)));
    }

    fn forgotten_letter(&self, number: u64) -> NoteChange {
        NoteChange::Forgotten(NoteKey::Letter(self.inbox.clone(), number))
    }

    fn forgotten(&self, id: &str) -> NoteChange {
        NoteChange::Forgotten(NoteKey::Event(self.inbox.clone(), SmolStr::new(id)))
    }

    pub(super) fn done(&mut self, id: &SmolStr, attempted: Attempted, now: MonotonicTime) {
        let at = Calendar::at(now).date_of(now);
        self.set(id, attempted, StoredState::Done { at });
    }

    pub(super) fn died(
        &mut self,
        id: &SmolStr,
        attempted: Attempted,
        death: &DeadEvent,
        now: MonotonicTime,
    ) {
        let state = StoredState::Dead {
            number: death.number,
            at: Calendar::at(now).date_of(death.at),
            cause: death.cause,
            error: death.error.clone(),
        };
        self.set(id, attempted, state);
    }

    pub(super) fn due(&mut self, id: &str, sent_at: Option<SystemTime>) {
        self.set(&SmolStr::new(id), (sent_at, 0), StoredState::Due);
    }
}

impl EventTable {
    pub(super) fn note_forgotten(&mut self, id: &str) {
        if let Some(changed) = &mut self.changed {
            let forgotten = changed.forgotten(id);
            changed.notes.push(forgotten);
        }
    }

    /// Notes that dead letters without an event id are forgotten.
    pub(super) fn note_forgotten_letters(&mut self, numbers: &[u64]) {
        if let Some(changed) = &mut self.changed {
            let forgotten = numbers
                .iter()
                .map(|number| changed.forgotten_letter(*number));
            let forgotten: Vec<_> = forgotten.collect();
            changed.notes.extend(forgotten);
        }
    }

    /// Notes the newest time of sending of all forgotten events, which has risen. The first of the
    /// pieces of a prune looks at all events for the later ones.
    pub(super) fn note_watermark(&mut self, sent_before: SystemTime) {
        if let (Some(changed), Some(sent_at)) = (&mut self.changed, self.watermark) {
            changed.watermark(sent_at);
            let before = self.stored_until;
            if before >= Some(sent_before) {
                return;
            }
            self.stored_until = Some(sent_before);
            for (id, event) in &self.not_done {
                step();
                let is_old = event.is_old(self.stored_until) && !event.is_old(before);
                if is_old && event.death().is_none() {
                    changed.due(id, event.sent_at);
                }
            }
        }
    }

    /// What has changed since the last call.
    pub(super) fn take_changes(&mut self) -> Vec<NoteChange> {
        let changed = self.changed.as_mut();
        changed.map_or(Vec::new(), |changed| std::mem::take(&mut changed.notes))
    }

    /// The changes that forget all that is stored.
    pub(super) fn forgets_all(&self) -> Vec<NoteChange> {
        let Some(changed) = &self.changed else {
            return Vec::new();
        };
        let events = self.done.ids().chain(self.not_done.keys());
        let events = events.map(|id| changed.forgotten(id));
        let letters = self.without_id.numbers();
        let letters = letters.map(|number| changed.forgotten_letter(number));
        let watermark = NoteKey::Watermark(changed.inbox.clone());
        let rest = letters.chain([NoteChange::Forgotten(watermark)]);
        events.chain(rest).collect()
    }

    /// All that a journal stores of an inbox.
    #[cfg(feature = "redb")]
    pub(super) fn notes(&self, inbox: &SmolStr, now: MonotonicTime) -> Vec<NoteChange> {
        let mut all = InboxChanges::new(inbox.clone());
        let calendar = Calendar::at(now);
        for (sent_at, id) in self.settled.all_done() {
            if let Some(done) = self.done.get(id) {
                let at = calendar.date_of(done.at);
                all.set(id, (sent_at, done.attempts), StoredState::Done { at });
            }
        }
        for (id, event) in &self.not_done {
            match event.death() {
                Some(death) => all.died(id, (event.sent_at, event.attempts), death, now),
                None if event.is_old(self.watermark) => all.due(id, event.sent_at),
                None => {}
            }
        }
        for (sent_at, death) in self.without_id.all() {
            all.died(&SmolStr::default(), (*sent_at, 0), death, now);
        }
        if let Some(sent_at) = self.watermark {
            all.watermark(sent_at);
        }
        all.notes
    }

    pub(super) fn restore_watermark(&mut self, sent_at: Date) {
        self.watermark = Some(sent_at.0);
    }

    /// Restores a stored event. Those that are done are restored in the order in which they were.
    pub(super) fn restore(&mut self, note: EventNote, calendar: &Calendar) {
        let EventNote {
            id,
            sent_at,
            attempts,
            state,
            ..
        } = note;
        let sent_at = sent_at.map(|sent_at| sent_at.0);
        let state = match state {
            StoredState::Done { at } => {
                let at = calendar.moment_of(at);
                self.settled.add_done(sent_at, id.clone());
                self.done.insert(id, DoneEvent { attempts, at });
                return;
            }
            StoredState::Dead {
                number,
                at,
                cause,
                error,
            } => {
                self.deaths = self.deaths.max(number);
                let death = DeadEvent {
                    number,
                    at: calendar.moment_of(at),
                    cause,
                    error,
                };
                if id.is_empty() {
                    return self.without_id.restore(death, sent_at);
                }
                self.settled.add_dead(sent_at, number, id.clone());
                EventProgress::Dead(Box::new(death))
            }
            StoredState::Due => EventProgress::due(calendar.now()),
        };
        let event = EventRecord {
            sent_at,
            attempts,
            state,
        };
        self.not_done.insert(id, event);
    }
}

impl EventNote {
    pub(in crate::store) fn key(&self) -> NoteKey {
        match self.state {
            StoredState::Dead { number, .. } if self.id.is_empty() => {
                NoteKey::Letter(self.inbox.clone(), number)
            }
            _ => NoteKey::Event(self.inbox.clone(), self.id.clone()),
        }
    }

    /// When it was done, if it is.
    pub(in crate::store) fn done_at(&self) -> Option<Date> {
        match self.state {
            StoredState::Done { at } => Some(at),
            StoredState::Dead { .. } | StoredState::Due => None,
        }
    }
}

#[cfg(test)]
#[path = "../../../../tests/unit/inbox_event_table_stored.rs"]
mod tests;
