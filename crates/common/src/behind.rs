//! Which requests wait for which holder of a lock, directly or through others.

use std::collections::{HashMap, HashSet};

use crate::id::LockId;

/// How many requests are counted at most, over all holders: a report must not take long.
const COUNTED: usize = 1 << 17;

/// The requests that wait directly for a grant or a request.
pub struct Behind {
    directly: HashMap<LockId, Vec<LockId>>,
    waiting: HashSet<LockId>,
    /// Requests for the whole lock, which wait for every holder.
    for_all: Vec<LockId>,
    left: usize,
}

impl Behind {
    /// Takes each request, whether it is for the whole lock, and the first for which it waits.
    pub fn new<'a>(waiters: impl Iterator<Item = (LockId, bool, &'a [LockId])>) -> Self {
        let mut this = Self {
            directly: HashMap::new(),
            waiting: HashSet::new(),
            for_all: Vec::new(),
            left: COUNTED,
        };
        for (id, is_whole, blocked_by) in waiters {
            this.waiting.insert(id);
            this.for_all.extend(is_whole.then_some(id));
            for blocker in blocked_by {
                this.directly.entry(*blocker).or_default().push(id);
            }
        }
        this
    }

    /// Returns the requests behind a holder. `None` for a holder that waits itself, and beyond the
    /// bound.
    pub fn holder(&mut self, holder: LockId) -> Option<HashSet<LockId>> {
        if self.waiting.contains(&holder) {
            return None;
        }
        self.left = self.left.checked_sub(self.for_all.len())?;
        let mut found: HashSet<LockId> = self.for_all.iter().copied().collect();
        let mut next = self.for_all.clone();
        next.push(holder);
        while let Some(id) = next.pop() {
            for waiter in self.directly.get(&id).into_iter().flatten() {
                self.left = self.left.checked_sub(1)?;
                if found.insert(*waiter) {
                    next.push(*waiter);
                }
            }
        }
        Some(found)
    }
}
