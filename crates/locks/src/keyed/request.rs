//! The requests of a keyed lock: for a turn at a key, and for the end of all present tasks.

use std::borrow::Borrow;
use std::hash::Hash;
use std::panic::Location;

use super::shards::KeyedWait;
use super::{KeyedLock, Reservation};
use crate::id::OwnerId;
use crate::{AcquireOptions, LockError, LockRequest, PendingRequest, Requester, WaitsAs};

/// A request for a turn at a key: [`KeyedLock::request`].
#[derive(Debug)]
pub struct KeyRequest<'a, K, V, Q: ?Sized> {
    pub(super) lock: &'a KeyedLock<K, V>,
    pub(super) key: &'a Q,
    pub(super) owner: OwnerId,
}

impl<K, V, Q> LockRequest for KeyRequest<'_, K, V, Q>
where
    K: Borrow<Q> + Send + 'static,
    V: 'static,
    Q: Eq + Hash + ToOwned<Owned = K> + Sync + ?Sized,
{
    type Granted = Reservation<K, V>;
    type Error = LockError;

    fn try_grant(
        &mut self,
        waits_as: WaitsAs,
        options: &AcquireOptions,
        call_site: &'static Location<'static>,
    ) -> Result<Option<Reservation<K, V>>, LockError> {
        let requester = self.requester(waits_as, options, call_site);
        let shared = &self.lock.0;
        let granted = shared.try_grant(self.key, &requester, options)?;
        Ok(granted.map(|hold| {
            let position = KeyedWait { hold, waits: None };
            Reservation::new(shared, position, None, requester.thread)
        }))
    }

    async fn grant_as(
        self,
        waits_as: WaitsAs,
        options: AcquireOptions,
        call_site: &'static Location<'static>,
    ) -> Result<Reservation<K, V>, LockError> {
        let requester = self.requester(waits_as, &options, call_site);
        let shared = &self.lock.0;
        let position = shared.ask(self.key, &requester, &options, false)?;
        let thread = requester.thread;
        let mut turn = Reservation::new(shared, position, options.cancel, thread);
        turn.wait_for_turn(waits_as).await?;
        Ok(turn)
    }
}

impl<K, V, Q: ?Sized> KeyRequest<'_, K, V, Q> {
    /// Describes the request. It is bound to its thread whatever the options say, because one
    /// thread executes a task, and it cannot wait for itself.
    fn requester<'a>(
        &'a self,
        waits_as: WaitsAs,
        options: &'a AcquireOptions,
        call_site: &'static Location<'static>,
    ) -> Requester<'a> {
        Requester {
            thread: waits_as.thread(),
            bound: true,
            ..options.requester_as(waits_as, &self.owner, call_site, false)
        }
    }
}

impl<K, V, Q> PendingRequest<'_, KeyRequest<'_, K, V, Q>>
where
    K: Borrow<Q> + 'static,
    V: 'static,
    Q: Eq + Hash + ToOwned<Owned = K> + ?Sized,
{
    /// Takes a queue position for the key, or the key if it is idle. Never blocks.
    ///
    /// The timeout begins here; [`Reservation::execute`] checks it and the cancel token.
    /// [`KeyedLock::reserve`] is the short form, and says what a position is for.
    ///
    /// # Errors
    ///
    /// [`LockError`]: the queue is full; the key is not free and the request was not allowed to
    /// wait; its token was already cancelled.
    pub fn reserve(self) -> Result<Reservation<K, V>, LockError> {
        let (KeyRequest { lock, key, owner }, options, call_site) = self.into_parts();
        // The executing thread is not known yet.
        let requester = options.requester_as(WaitsAs::Task, &owner, call_site, false);
        let position = lock.0.ask(key, &requester, &options, true)?;
        Ok(Reservation::new(&lock.0, position, options.cancel, 0))
    }
}

/// A request for the end of all present tasks: [`KeyedLock::request_drain`].
#[derive(Debug)]
pub struct DrainRequest<'a, K, V> {
    pub(super) lock: &'a KeyedLock<K, V>,
    pub(super) owner: OwnerId,
}

impl<K: Send + 'static, V: 'static> LockRequest for DrainRequest<'_, K, V> {
    type Granted = ();
    type Error = LockError;

    async fn grant_as(
        self,
        waits_as: WaitsAs,
        options: AcquireOptions,
        call_site: &'static Location<'static>,
    ) -> Result<(), LockError> {
        let requester = Requester {
            thread: waits_as.thread(),
            ..options.requester_as(waits_as, &self.owner, call_site, false)
        };
        let shared = &self.lock.0;
        let deadline = shared.deadline(&options);
        for queued in shared.join_drains(&requester, deadline)? {
            let cancel = options.cancel.as_ref();
            queued.wait_for_grant(waits_as, cancel).await?;
        }
        Ok(())
    }
}
