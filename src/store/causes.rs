//! What is held in a picture, for the sentences that name the causes of a hang.

use std::cmp::Reverse;
use std::collections::HashSet;

use doclock_common::behind::Behind;
use doclock_common::causes::{Held, Holder, quoted, sentences, shown};
use doclock_common::threads::ALL_TASKS;

use super::log::DISK;
use super::registry::RegisteredPrimitive;
use crate::id::LockId;
use crate::lock::keyed::HeldKey;
use crate::lock::limiter::KeySnapshot;
use crate::lock::{HeldLock, LockReport, PrimitiveState, WaitingRequest};

/// A holder, with the requests that wait for it, directly or through others. `None` for a holder
/// that waits itself, and beyond a bound.
pub(crate) type Delaying<'a> = (&'a HeldLock, Option<HashSet<LockId>>);

/// Returns the holders: first those that wait for nothing themselves, of these first the one that
/// delays most requests, and otherwise in their order.
pub(crate) fn holders(lock: &LockReport) -> Vec<Delaying<'_>> {
    let ids = || lock.waiters.iter().map(id_of);
    if let [held] = &lock.holders[..] {
        let waits = ids().any(|id| id == held.holder.lock_id);
        return vec![(held, (!waits).then(|| ids().collect()))];
    }
    let waiters = lock.waiters.iter();
    let waiters = waiters.map(|it| (id_of(it), it.node_count == 0, &it.blocked_by[..]));
    let mut behind = Behind::new(waiters);
    let delayed = |held: &HeldLock| behind.holder(held.holder.lock_id);
    let all = lock.holders.iter();
    let mut all: Vec<_> = all.clone().zip(all.map(delayed)).collect();
    all.sort_by_key(|(_, delayed)| Reverse(delayed.as_ref().map(HashSet::len)));
    all
}

fn id_of(waiter: &WaitingRequest) -> LockId {
    waiter.request.lock_id
}

/// Names the causes: in the lock of the store and in that of publications, each with its address,
/// and in what is registered.
pub(super) fn of(
    own: [Option<(&LockReport, usize)>; 2],
    registered: &[RegisteredPrimitive],
) -> Vec<String> {
    let mut held = Vec::new();
    for (own, name) in own.into_iter().zip(["the lock", "the turn to publish"]) {
        if let Some((lock, place)) = own {
            add_lock(&mut held, lock, place, [name, ""]);
        }
    }
    // A store can be registered with itself.
    let is_own = |place| own.iter().flatten().any(|(_, own)| *own == place);
    let others = registered.iter().filter(|it| !is_own(it.place));
    for RegisteredPrimitive { name, state, place } in others {
        let (name, place) = (quoted(name), *place);
        match state {
            PrimitiveState::Lock(lock) => {
                let names = [format!("the lock {name}"), format!(" in {name}")];
                add_lock(&mut held, lock, place, names.each_ref().map(String::as_str));
            }
            PrimitiveState::Keyed {
                stats, held: keys, ..
            } => {
                held.extend(keys.iter().map(|key| in_key(key, place, &name)));
                // Of several keys, it is not known which ones have tasks that it waits for.
                let only = keys.first().filter(|_| stats.active_keys == 1);
                held.extend((stats.draining > 0).then(|| Held {
                    name: format!("the end of all tasks of {name}"),
                    waiting: stats.draining,
                    spots: vec![(place, ALL_TASKS)],
                    ..only.map_or_else(Held::default, |key| in_key(key, place, &name))
                }));
            }
            PrimitiveState::Limiter(limiter) => {
                let keys = limiter.keys.iter();
                held.extend(keys.map(|key| in_slots(key, place, &name, limiter.global_limit)));
            }
            _ => {}
        }
    }
    sentences(&held)
}

fn add_lock<'a>(
    all: &mut Vec<Held<'a>>,
    lock: &'a LockReport,
    place: usize,
    [name, in_lock]: [&str; 2],
) {
    let spots = lock.waiters.iter().map(|it| (place, id_of(it).number()));
    let closer = lock.closed_by.iter().filter(|_| lock.holders.is_empty());
    all.extend(closer.map(|closer| Held {
        name: name.to_owned(),
        waiting: lock.waiters.len(),
        spots: spots.clone().collect(),
        holder: Holder::Closes,
        owner: Some(&closer.owner_id),
        // No line of the program is the cause of a slow disk.
        call_site: (closer.owner_id.as_str() != DISK).then_some(&closer.call_site),
        ..Held::default()
    }));
    for (held, delayed) in holders(lock) {
        let Some(delayed) = delayed else { continue };
        all.push(Held {
            name: match &held.nodes[..] {
                [] if held.is_of_nodes => format!("nodes{in_lock}"),
                [] => name.to_owned(),
                [(node, _), ..] => format!("the node {}{in_lock}", quoted(node)),
            },
            waiting: delayed.len(),
            spots: delayed.iter().map(|id| (place, id.number())).collect(),
            holder: Holder::of(held.thread.as_ref(), held.thread_ended, held.holder.untaken),
            owner: Some(&held.holder.owner_id),
            call_site: Some(&held.holder.call_site),
            has_others: false,
        });
    }
}

fn in_key<'a>(key: &'a HeldKey, place: usize, name: &str) -> Held<'a> {
    let thread = key.thread.as_ref();
    Held {
        name: format!("the key {} of {name}", shown(&key.key)),
        waiting: key.waiting,
        spots: vec![(place, key.number)],
        holder: match key.holder.untaken {
            true => Holder::Untaken,
            false => thread.map_or(Holder::TaskOrEnded, Holder::Thread),
        },
        owner: Some(&key.holder.owner_id),
        call_site: Some(&key.holder.call_site),
        has_others: false,
    }
}

/// A permit of a key that has free slots is not the cause: its calls wait for the global limit.
fn in_slots<'a>(
    key: &'a KeySnapshot<String>,
    place: usize,
    name: &str,
    global_limit: Option<usize>,
) -> Held<'a> {
    let is_full = global_limit.is_none() || key.in_flight >= key.limit;
    let permit = key.permit.as_ref().filter(|_| is_full);
    let thread = permit.map(|it| {
        it.thread
            .as_ref()
            .map_or(Holder::TaskOrEnded, Holder::Thread)
    });
    Held {
        name: format!("a slot of {} in {name}", shown(&key.key)),
        waiting: key.queued,
        spots: vec![(place, key.number)],
        holder: thread.unwrap_or_default(),
        call_site: permit.map(|permit| &permit.call_site),
        has_others: key.in_flight > 1,
        ..Held::default()
    }
}
