//! Which of several holders delays how many requests: a person looks for the one that others wait
//! for, and that waits for nothing itself.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use crate::id::LockId;
use crate::lock::{HeldLock, LockReport, WaitingRequest};

/// How many requests are counted at most, over all holders. The table shows only some holders, and
/// must not take long.
const COUNTED: usize = 1 << 17;

/// A holder, with the number of requests that wait for it, directly or through others. `None` for a
/// holder that waits itself, and beyond the bound.
pub(super) type Holder<'a> = (&'a HeldLock, Option<usize>);

/// Returns the holders: first those that wait for nothing themselves, of these first the one that
/// delays most requests, and otherwise in their order.
pub(super) fn holders(lock: &LockReport) -> Vec<Holder<'_>> {
    let LockReport {
        holders, waiters, ..
    } = lock;
    let mut counted: Vec<Holder<'_>> = holders.iter().map(|held| (held, None)).collect();
    if counted.len() < 2 {
        return counted;
    }
    let waiting: HashSet<LockId> = waiters.iter().map(id_of).collect();
    let behind = Behind::new(waiters);
    let mut left = COUNTED;
    for (held, delayed) in &mut counted {
        let id = held.holder.lock_id;
        if !waiting.contains(&id) {
            *delayed = behind.count(id, &mut left);
        }
    }
    counted.sort_by_key(|(_, delayed)| Reverse(*delayed));
    counted
}

fn id_of(waiter: &WaitingRequest) -> LockId {
    waiter.request.lock_id
}

/// The requests that wait directly for a grant or a request.
struct Behind {
    directly: HashMap<LockId, Vec<LockId>>,
    /// Requests for the whole lock, which wait for every holder.
    for_all: Vec<LockId>,
}

impl Behind {
    fn new(waiters: &[WaitingRequest]) -> Self {
        let mut directly: HashMap<LockId, Vec<LockId>> = HashMap::new();
        for waiter in waiters {
            for blocker in &waiter.blocked_by {
                directly.entry(*blocker).or_default().push(id_of(waiter));
            }
        }
        let whole = waiters.iter().filter(|waiter| waiter.node_count == 0);
        Self {
            directly,
            for_all: whole.map(id_of).collect(),
        }
    }

    fn count(&self, holder: LockId, left: &mut usize) -> Option<usize> {
        *left = left.checked_sub(self.for_all.len())?;
        let mut found: HashSet<LockId> = self.for_all.iter().copied().collect();
        let mut next: Vec<LockId> = self.for_all.clone();
        next.push(holder);
        while let Some(id) = next.pop() {
            for waiter in self.directly.get(&id).into_iter().flatten() {
                *left = left.checked_sub(1)?;
                if found.insert(*waiter) {
                    next.push(*waiter);
                }
            }
        }
        Some(found.len())
    }
}
