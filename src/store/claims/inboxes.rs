//! The inboxes of a store, and the mark that is published together with an effect.

use std::sync::Arc;

use smol_str::SmolStr;

use super::Claims;
use crate::id::FencingToken;
use crate::store::{CommitError, DataStore, Published, Term, Transaction};
use crate::time::{Clock, MonotonicTime};

/// Which inbox of its store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InboxNumber(usize);

/// All inboxes of one store. They stay as long as it does.
#[derive(Default)]
pub(crate) struct Inboxes(Vec<(SmolStr, Claims)>);

impl Inboxes {
    /// That of this name; a new one if there is none.
    fn named(&mut self, name: &str) -> InboxNumber {
        let known = self.0.iter().position(|(known, _)| known == name);
        InboxNumber(known.unwrap_or_else(|| {
            self.0.push((name.into(), Claims::default()));
            self.0.len() - 1
        }))
    }

    fn get(&self, InboxNumber(number): InboxNumber) -> Option<&Claims> {
        self.0.get(number).map(|(_, claims)| claims)
    }

    fn get_mut(&mut self, InboxNumber(number): InboxNumber) -> Option<&mut Claims> {
        self.0.get_mut(number).map(|(_, claims)| claims)
    }
}

/// An event that is done when the transaction is published, if the claim on it still holds then.
struct Mark {
    inbox: InboxNumber,
    event: SmolStr,
    token: FencingToken,
    at: MonotonicTime,
}

impl Term for Mark {
    fn check(&self, published: &Published) -> Result<(), CommitError> {
        let claims = published.inboxes.get(self.inbox);
        match claims.is_some_and(|claims| claims.holds(&self.event, self.token)) {
            true => Ok(()),
            false => Err(CommitError::Superseded {
                event: self.event.clone(),
                token: self.token,
            }),
        }
    }

    fn fulfil(&mut self, published: &mut Published) {
        if let Some(claims) = published.inboxes.get_mut(self.inbox) {
            claims.finish(&self.event, self.at);
        }
    }
}

impl Transaction {
    /// Has it published only if the claim still holds, and the event marked as done in that moment. Both are of this store.
    pub(crate) fn marks(
        &mut self,
        of: &DataStore,
        inbox: InboxNumber,
        event: SmolStr,
        token: FencingToken,
    ) -> Result<(), CommitError> {
        if !Arc::ptr_eq(&self.store().0, &of.0) {
            return Err(CommitError::OtherStore { event });
        }
        let at = self.now();
        self.on_terms(Box::new(Mark {
            inbox,
            event,
            token,
            at,
        }));
        Ok(())
    }
}

impl DataStore {
    /// The inbox of this name.
    pub(crate) fn inbox(&self, name: &str) -> InboxNumber {
        self.0.published.lock().inboxes.named(name)
    }

    /// Looks at what an inbox knows, or changes it, at one moment of the store. To be short: readers wait.
    pub(crate) fn with_claims<R>(
        &self,
        inbox: InboxNumber,
        code: impl FnOnce(&mut Claims, MonotonicTime) -> R,
    ) -> R {
        let now = self.monotonic();
        let mut published = self.0.published.lock();
        // Numbers are given by `inbox` alone, and inboxes stay.
        let (_, claims) = &mut published.inboxes.0[inbox.0];
        code(claims, now)
    }

    /// The moment for everything that decides an outcome, by the clock of the store.
    pub(crate) fn monotonic(&self) -> MonotonicTime {
        self.clock().monotonic()
    }

    /// What the store takes its time from.
    pub(crate) fn clock(&self) -> &Clock {
        self.0.lock.clock()
    }
}
