//! Which holder handed the lock to which request.

use super::spans::{hold, wait};
use crate::lock::Timeline;

/// Returns for each entry the position of the entry that handed it the lock, if one did.
///
/// A request that waited is handed the lock by a holder that ended in the moment of its grant. A
/// release of the whole lock makes one request the holder of the whole lock, or several the holders
/// of nodes.
pub(super) fn handoffs(timeline: &Timeline) -> Vec<Option<usize>> {
    let entries = timeline.entries.iter().enumerate();
    let mut ends = Vec::new();
    let mut grants = Vec::new();
    for (position, entry) in entries {
        if let (Some(hold), Some(_)) = (hold(timeline, entry), entry.ended_at) {
            ends.push((hold.end, position));
        }
        let wait = wait(timeline, entry);
        if entry.granted_at.is_some() && !wait.is_empty() {
            grants.push((wait.end, position));
        }
    }
    // Of one moment, in the order in which the requests ended: a holder ends before the next one.
    ends.sort_unstable();
    grants.sort_unstable();

    let mut givers = vec![None; timeline.entries.len()];
    let mut ends = ends.into_iter().peekable();
    for (at, position) in grants {
        while ends.next_if(|&(ended, _)| ended < at).is_some() {}
        let giver = match ends.peek() {
            Some(&(ended, giver)) if ended == at && giver < position => giver,
            _ => continue,
        };
        givers[position] = Some(giver);
        if !timeline.entries[position].nodes {
            ends.next();
        }
    }
    givers
}
