//! The causes of a hang, each in one sentence: from requests that wait, through what the holders
//! wait for themselves, to a thread that waits for nothing of doclock, or back to the first.

use std::collections::HashMap;
use std::fmt;

use crate::cells::{Count, KeptPart, cut};
use crate::id::OwnerId;
use crate::threads::Spot;
use crate::{CallSite, ThreadInfo};

/// How many causes are named at most.
pub const CAUSES: usize = 16;

/// How many links of a chain are named at its beginning, and at its end.
const LINKS: [usize; 2] = [3, 2];

/// What else a culprit holds is named so often.
const ALSO: usize = 3;

/// Something that is held: a lock, the nodes of a holder, a key, the slots of a limiter.
#[derive(Default)]
pub struct Held<'a> {
    /// What it is called in a sentence: `the lock`.
    pub name: String,
    /// How many requests wait for it.
    pub waiting: usize,
    /// What a thread notes that waits for it.
    pub spots: Vec<Spot>,
    pub holder: Holder<'a>,
    pub owner: Option<&'a OwnerId>,
    pub call_site: Option<&'a CallSite>,
    /// Whether there are other holders, of which each one can end the wait.
    pub has_others: bool,
}

/// What is known of a holder.
#[derive(Clone, Copy, Default)]
pub enum Holder<'a> {
    Thread(&'a ThreadInfo),
    EndedThread,
    /// A task that was not polled since the grant.
    Untaken,
    /// A task, or a grant that is not bound to a thread.
    NoThread,
    /// A holder of a key, or a permit: one without a thread, or whose thread has ended.
    TaskOrEnded,
    /// It is not held, but closed.
    Closes,
    #[default]
    Unknown,
}

impl<'a> Holder<'a> {
    pub fn of(thread: Option<&'a ThreadInfo>, ended: bool, untaken: bool) -> Self {
        match thread {
            _ if untaken => Self::Untaken,
            Some(thread) => Self::Thread(thread),
            None if ended => Self::EndedThread,
            None => Self::NoThread,
        }
    }

    fn thread(self) -> Option<&'a ThreadInfo> {
        match self {
            Self::Thread(thread) => Some(thread),
            _ => None,
        }
    }
}

/// The beginning of a name, without control characters: names come from clients.
pub fn shown(name: impl fmt::Display) -> String {
    cut(name, 24, KeptPart::Beginning)
}

/// A name in a sentence.
pub fn quoted(name: impl fmt::Display) -> String {
    format!("`{}`", shown(name))
}

/// Returns a sentence for each culprit. A chain that leads to an earlier culprit has none of its
/// own.
///
/// Takes a step for each spot and for each thing that is held: a chain ends where another one has
/// been.
pub fn sentences(held: &[Held<'_>]) -> Vec<String> {
    let waits_for = |at: usize| {
        let thread = held[at].holder.thread().filter(|it| it.waits);
        thread.map(|thread| thread.waits_for)
    };
    // Of several holders, a circle can only be behind one that waits.
    let mut at_spot = HashMap::new();
    for (at, one) in held.iter().enumerate() {
        for spot in &one.spots {
            let first = at_spot.entry(*spot).or_insert(at);
            if waits_for(*first).is_none() && waits_for(at).is_some() {
                *first = at;
            }
        }
    }
    let next = |at: usize| at_spot.get(&waits_for(at)?).copied();
    let mut is_next = vec![false; held.len()];
    let waited_for = (0..held.len()).filter(|at| held[*at].waiting > 0);
    waited_for
        .filter_map(next)
        .for_each(|next| is_next[next] = true);
    // A chain begins where no other one arrives. What is left then is on circles.
    let (inner, first): (Vec<usize>, Vec<usize>) = (0..held.len()).partition(|at| is_next[*at]);
    let mut walked = vec![false; held.len()];
    let (mut chains, mut of_culprit) = (Vec::<Chain<'_>>::new(), HashMap::new());
    // The start of the last chain that came through a spot, and the place in its path.
    let mut passed = HashMap::new();
    for start in first.into_iter().chain(inner) {
        if held[start].waiting == 0 || walked[start] {
            continue;
        }
        let mut chain = Chain::new(held, start);
        walked[start] = true;
        loop {
            let at = (start, chain.path.len() - 1);
            passed.extend(held[chain.last()].spots.iter().map(|spot| (*spot, at)));
            let Some(spot) = waits_for(chain.last()) else {
                break;
            };
            // It also waits for the other holders: one of them may be on the path.
            let closes_at = passed.get(&spot).filter(|(of, _)| *of == start);
            chain.closes_at = closes_at.map(|(_, at)| *at);
            let Some(next) = next(chain.last()).filter(|_| chain.closes_at.is_none()) else {
                break;
            };
            if walked[next] {
                chain.is_new = false;
                break;
            }
            walked[next] = true;
            chain.path.push(next);
        }
        let known = chain
            .culprit()
            .map(|it| *of_culprit.entry(it).or_insert(chains.len()));
        match known.and_then(|at| chains.get_mut(at)) {
            Some(known) => known.also.push(chain.last()),
            None if chain.is_new => chains.push(chain),
            None => {}
        }
    }
    // The lock of the store comes first in what is held.
    chains.sort_by_key(|chain| chain.path.iter().min().copied());
    let sentences = chains.iter().take(CAUSES).map(ToString::to_string);
    sentences.collect()
}

/// A chain of waits.
struct Chain<'a> {
    held: &'a [Held<'a>],
    path: Vec<usize>,
    /// Where its end leads back to.
    closes_at: Option<usize>,
    /// Whether it does not lead into an earlier chain.
    is_new: bool,
    /// What the culprit holds beside the end of the chain.
    also: Vec<usize>,
}

impl<'a> Chain<'a> {
    fn new(held: &'a [Held<'a>], start: usize) -> Self {
        Self {
            held,
            path: vec![start],
            closes_at: None,
            is_new: true,
            also: Vec::new(),
        }
    }

    fn last(&self) -> usize {
        self.path.last().copied().unwrap_or_default()
    }

    /// The number of the thread at the end of a new chain.
    fn culprit(&self) -> Option<u64> {
        let thread = self.held[self.last()].holder.thread()?;
        (self.is_new && self.closes_at.is_none()).then_some(thread.number)
    }

    /// Says how the last holder ends the chain.
    fn end(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = &self.held[self.last()];
        if let Some(at) = self.closes_at {
            let circle = &self.path[at..];
            write!(f, "; it waits for {}: ", self.held[circle[0]].name)?;
            match circle.len() {
                1 => f.write_str("it waits for itself")?,
                threads => write!(f, "a deadlock between {threads} threads")?,
            }
            let may_end = circle.iter().any(|at| self.held[*at].has_others);
            return f.write_str(if may_end {
                ", unless another slot becomes free"
            } else {
                ""
            });
        }
        // What closes a lock is named already.
        let owner = last
            .owner
            .filter(|_| !matches!(last.holder, Holder::Closes));
        let owner = owner.map(shown);
        let site = last.call_site.map(|site| cut(site, 30, KeptPart::End));
        let source: Vec<_> = owner.into_iter().chain(site).collect();
        if !source.is_empty() {
            write!(f, " ({})", source.join(", "))?;
        }
        match last.holder {
            Holder::Thread(ThreadInfo {
                waits_in: Some(name),
                ..
            }) => {
                write!(f, "; it waits in {}", quoted(name))?;
            }
            Holder::Thread(thread) if thread.waits => {
                f.write_str("; it waits in a lock without a name")?
            }
            Holder::Thread(_) => f.write_str(": it runs, or waits for something else")?,
            Holder::Untaken => f.write_str(": it was not polled since the grant")?,
            Holder::NoThread => f.write_str(": held by a task, by its id, or unbound")?,
            Holder::TaskOrEnded => {
                f.write_str(": held by a task or a value, or its thread has ended")?
            }
            Holder::EndedThread | Holder::Closes | Holder::Unknown => {}
        }
        for at in self.also.iter().take(ALSO) {
            let Held { name, waiting, .. } = &self.held[*at];
            write!(f, "; it also holds {name}, for which {}", Waiting(*waiting))?;
        }
        Ok(())
    }
}

/// So many requests, with their verb.
struct Waiting(usize);

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = if self.0 == 1 { "waits" } else { "wait" };
        write!(f, "{} {verb}", Count(self.0 as u64, "request"))
    }
}

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let links = self.path.len();
        let [first, last] = LINKS;
        for (nth, at) in self.path.iter().enumerate() {
            let Held {
                name,
                waiting,
                holder,
                owner,
                has_others,
                ..
            } = &self.held[*at];
            let left_out = links.saturating_sub(first + last);
            match waiting.saturating_sub(1) {
                _ if nth == 0 => write!(f, "{} for {name}", Waiting(*waiting))?,
                _ if (first..first + left_out).contains(&nth) && left_out > 1 => continue,
                _ if nth == links - last && left_out > 1 => {
                    write!(f, "; it waits through {left_out} others for {name}")?;
                }
                0 => write!(f, "; it waits for {name}")?,
                1 => write!(f, "; it and another request wait for {name}")?,
                others => write!(f, "; it and {others} other requests wait for {name}")?,
            }
            match holder {
                Holder::Thread(thread) if *has_others => {
                    write!(f, ", of which thread {} has one", quoted(&thread.name))?;
                }
                Holder::Thread(thread) => {
                    write!(f, ", which thread {} holds", quoted(&thread.name))?
                }
                Holder::EndedThread => f.write_str(", which a thread holds that has ended")?,
                Holder::Untaken => f.write_str(", which a task holds")?,
                Holder::NoThread | Holder::TaskOrEnded => f.write_str(", which no thread holds")?,
                Holder::Closes => {
                    let owner = owner.map(shown);
                    write!(f, ", which the {} closes", owner.unwrap_or_default())?;
                }
                Holder::Unknown => f.write_str(", whose holders are not known")?,
            }
        }
        self.end(f)
    }
}

#[cfg(test)]
#[path = "../tests/unit/causes.rs"]
mod tests;
