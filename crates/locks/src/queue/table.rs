//! A table of locks on things of which some contain others, with a queue in front of each.
//!
//! Members hold rights on things. A request is for a set of rights, all or nothing. In one step it
//! joins the queues of all things that it does not get at once. All requests join their queues in
//! one order, so members that hold nothing yet cannot form a cycle of waits. A member that holds
//! something and requests more can close a cycle, and is then refused.
//!
//! Invariants:
//!
//! 1. No two members have rights on one thing that exclude each other.
//! 2. On one thing, rights that exclude each other are granted in FIFO order, with one exception: a
//!    member that already has rights there and requests more goes first, because the waiting
//!    requests may wait for it. No member without rights overtakes another one without rights,
//!    whether they exclude each other or not.
//! 3. A request waits only while some right that it requests is excluded by rights that others
//!    have, or requested earlier.
//! 4. There is no cycle of waiting members.
//! 5. A thing without rights and without waiting requests has no entry.
//!
//! `docs/invariants/node-locks.md` has the reasons (N1 to N5).

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use smallvec::SmallVec;

use super::wait_list::{Ticket, WaitList};
use super::{Priority, Rights};
use crate::hashing::Secret;
use crate::shrink::excess;
use crate::steps::step;

/// A member holds rights and makes requests. Numbered by its lock type, in the order of first
/// requests.
pub(crate) type MemberNumber = u64;

#[derive(Debug)]
pub(crate) struct LockTable<K> {
    entries: HashMap<K, TableEntry, Secret>,
    members: HashMap<MemberNumber, Account<K>, Secret>,
    /// The things for which some member waits.
    contended: HashSet<K, Secret>,
}

/// The members whose whole request is granted.
pub(crate) type Served = SmallVec<[MemberNumber; 2]>;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Asked<K> {
    Granted,
    Waits,
    /// It would have closed a cycle. It has no effect.
    Refused(Vec<Link<K>>),
}

/// One member of a cycle: it waits for the member of the next link, and the last for the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Link<K> {
    pub(crate) member: MemberNumber,
    /// The thing for which it waits.
    pub(crate) key: K,
    pub(crate) wants: Rights,
    /// The rights that it has there already.
    pub(crate) has: Rights,
    /// The rights that the member of the next link has there; none if that is only ahead in the
    /// queue.
    pub(crate) next_has: Rights,
}

#[derive(Debug, Default)]
struct TableEntry {
    /// How many members have each right.
    counts: [u32; Rights::COUNT],
    /// In the order of their numbers.
    holders: SmallVec<[(MemberNumber, Rights); 1]>,
    waits: Option<Box<PartQueues>>,
}

#[derive(Debug)]
struct PartQueues {
    list: WaitList<PartRequest>,
    /// Requests of holders for more.
    upgrades: SmallVec<[PartRequest; 1]>,
}

/// The rights that a member will have on one thing, and which part of its request that is.
#[derive(Clone, Copy, Debug)]
struct PartRequest {
    member: MemberNumber,
    rights: Rights,
    part: usize,
}

#[derive(Debug)]
struct Account<K> {
    held: SmallVec<[K; 4]>,
    asks: Option<Box<Asks<K>>>,
}

#[derive(Debug)]
struct Asks<K> {
    parts: SmallVec<[Part<K>; 4]>,
    /// How many of them wait.
    missing: usize,
    /// On how many things the member already had rights before the request. They come first among
    /// the things on which it has rights.
    held_before: usize,
}

#[derive(Debug)]
struct Part<K> {
    key: K,
    /// The rights of the member before the request.
    before: Rights,
    /// The rights that it will have then.
    wanted: Rights,
    state: PartState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PartState {
    Granted,
    Queued(Ticket),
    Upgrades,
}

/// How many holders of one thing are searched for those that a request waits for.
const SEARCHED: usize = 1024;

/// Room for this many is never freed.
const KEPT: usize = 64;

/// Shrinks the map after a burst to what is now in use.
fn fit<K: Eq + Hash, V>(map: &mut HashMap<K, V, Secret>) {
    if let Some(room) = excess(map.capacity(), map.len(), KEPT) {
        map.shrink_to(room);
    }
}

impl<K> Default for LockTable<K> {
    fn default() -> Self {
        Self {
            entries: HashMap::default(),
            members: HashMap::default(),
            contended: HashSet::default(),
        }
    }
}

impl TableEntry {
    fn rights(&self, member: MemberNumber) -> Rights {
        let at = self
            .holders
            .binary_search_by_key(&member, |holder| holder.0);
        at.map_or(Rights::NONE, |at| self.holders[at].1)
    }

    fn set(&mut self, member: MemberNumber, rights: Rights) {
        let at = self
            .holders
            .binary_search_by_key(&member, |holder| holder.0);
        let before = at.map_or(Rights::NONE, |at| self.holders[at].1);
        for bit in before.without(rights).bits() {
            self.counts[bit] -= 1;
        }
        for bit in rights.without(before).bits() {
            self.counts[bit] += 1;
        }
        match at {
            Ok(at) if rights == Rights::NONE => drop(self.holders.remove(at)),
            Ok(at) => self.holders[at].1 = rights,
            Err(_) if rights == Rights::NONE => {}
            Err(at) => self.holders.insert(at, (member, rights)),
        }
    }

    /// Returns the requests of members that already have rights here.
    fn upgrades(&self) -> &[PartRequest] {
        self.waits.as_ref().map_or(&[], |waits| &waits.upgrades)
    }

    /// Whether a member with rights here may have `wanted`, behind the upgrades `ahead`.
    fn extends(&self, member: MemberNumber, wanted: Rights, ahead: &[PartRequest]) -> bool {
        let mut others = self.counts;
        for bit in self.rights(member).bits() {
            others[bit] -= 1;
        }
        !wanted.excludes_any(&others) && !ahead.iter().any(|ahead| ahead.rights.exclude(wanted))
    }

    /// Whether a member without rights here may have `wanted`, ahead of the queue.
    fn admits(&self, wanted: Rights) -> bool {
        let mut upgrades = self.upgrades().iter();
        !wanted.excludes_any(&self.counts)
            && !upgrades.any(|upgrade| upgrade.rights.exclude(wanted))
    }

    /// Whether a member that has these rights here gets `wanted` at once.
    fn fits(&self, member: MemberNumber, has: Rights, wanted: Rights) -> bool {
        if has != Rights::NONE {
            return has == wanted || self.extends(member, wanted, self.upgrades());
        }
        let waits = self.waits.as_ref();
        waits.is_none_or(|waits| waits.list.is_empty()) && self.admits(wanted)
    }

    fn is_idle(&self) -> bool {
        self.holders.is_empty() && self.waits.is_none()
    }

    fn waits(&mut self) -> &mut PartQueues {
        self.waits.get_or_insert_with(|| {
            Box::new(PartQueues {
                list: WaitList::new(0),
                upgrades: SmallVec::new(),
            })
        })
    }

    /// Grants one part of a request that can be granted now.
    fn next(&mut self) -> Option<PartRequest> {
        let upgrades = self.upgrades();
        let fitting = upgrades
            .iter()
            .enumerate()
            .find(|&(at, queued)| self.extends(queued.member, queued.rights, &upgrades[..at]));
        let granted = match fitting {
            Some((at, &queued)) => {
                self.waits().upgrades.remove(at);
                queued
            }
            None => {
                let (_, &queued) = self.waits.as_ref()?.list.iter(None).next()?;
                if !self.admits(queued.rights) {
                    return None;
                }
                self.waits().list.pop_if(|_| true);
                queued
            }
        };
        self.set(granted.member, granted.rights);
        self.tidy();
        Some(granted)
    }

    /// Returns a member that has rights which exclude `wanted`, or is granted them first, or is the
    /// head of the queue.
    fn in_the_way(&self, member: MemberNumber, wanted: Rights) -> Option<MemberNumber> {
        let upgrades = self
            .upgrades()
            .iter()
            .map(|queued| (queued.member, queued.rights));
        let mut before = self.holders.iter().copied().chain(upgrades);
        let found = before.find(|&(other, rights)| other != member && rights.exclude(wanted));
        let first = || self.waits.as_ref()?.list.iter(None).next();
        found
            .map(|(other, _)| other)
            .or_else(|| first().map(|(_, queued)| queued.member))
    }

    fn tidy(&mut self) {
        let waits = self.waits.as_deref();
        if waits.is_some_and(|waits| waits.list.is_empty() && waits.upgrades.is_empty()) {
            self.waits = None;
        }
    }

    /// Returns the members that a part of a request waits for, each with its rights here.
    fn blockers(
        &self,
        member: MemberNumber,
        wanted: Rights,
        state: PartState,
    ) -> Vec<(MemberNumber, Rights)> {
        let mut found = Vec::new();
        // The rights that are granted first, and these themselves.
        let mut before = wanted;
        let mut upgrades = self.upgrades();
        match (state, &self.waits) {
            (PartState::Queued(ticket), Some(waits)) => {
                let ahead = waits
                    .list
                    .iter(None)
                    .take_while(|(other, _)| *other != ticket);
                let ahead: SmallVec<[_; 8]> = ahead.map(|(_, ahead)| *ahead).collect();
                for queued in ahead.into_iter().rev() {
                    if queued.rights.exclude(before) {
                        found.push((queued.member, self.rights(queued.member)));
                    }
                    before = before.and(queued.rights);
                }
            }
            _ => {
                let at = upgrades.iter().position(|queued| queued.member == member);
                upgrades = &upgrades[..at.unwrap_or(0)];
            }
        }
        for queued in upgrades.iter().rev() {
            if queued.rights.exclude(before) {
                found.push((queued.member, self.rights(queued.member)));
                before = before.and(queued.rights);
            }
        }
        let holders = self.holders.iter().copied();
        found.extend(holders.filter(|&(other, rights)| other != member && rights.exclude(before)));
        found
    }

    /// Returns the members with rights that exclude those of a part of a request.
    fn excluding(
        &self,
        member: MemberNumber,
        wanted: Rights,
    ) -> impl Iterator<Item = MemberNumber> {
        let has_excluding = wanted.excludes_any(&self.counts);
        let searched = if has_excluding { SEARCHED } else { 0 };
        let holders = self.holders.iter().take(searched);
        let holders = holders.filter(move |(other, rights)| {
            step();
            *other != member && rights.exclude(wanted)
        });
        holders.map(|(other, _)| *other)
    }

    /// Returns the upgrades that are granted before a part of a request, and the request directly
    /// ahead of it. Unlike [`blockers`](Self::blockers), it does not walk the queue.
    fn nearest_ahead(
        &self,
        member: MemberNumber,
        wanted: Rights,
        state: PartState,
    ) -> impl Iterator<Item = MemberNumber> {
        let upgrades = self.upgrades().iter();
        let upgrades = upgrades
            .take_while(move |queued| queued.member != member)
            .filter(move |queued| queued.rights.exclude(wanted));
        let ahead = match (state, &self.waits) {
            (PartState::Queued(ticket), Some(waits)) => waits.list.directly_ahead(ticket),
            _ => None,
        };
        upgrades.chain(ahead).map(|queued| queued.member)
    }

    /// Returns the members that delay the requests here. The last in the queue waits for all
    /// members that any request ahead of it waits for.
    fn delaying(&self) -> Vec<MemberNumber> {
        let list = self.waits.iter().flat_map(|waits| waits.list.iter(None));
        let last = list
            .inspect(|_| step())
            .last()
            .map(|(ticket, queued)| (*queued, PartState::Queued(ticket)));
        let upgrades = self.upgrades().iter();
        let waiting = upgrades
            .map(|queued| (*queued, PartState::Upgrades))
            .chain(last);
        let blockers =
            waiting.flat_map(|(queued, state)| self.blockers(queued.member, queued.rights, state));
        blockers
            .inspect(|_| step())
            .map(|(member, _)| member)
            .collect()
    }
}

impl<K: Clone + Eq + Hash> LockTable<K> {
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn rights(&self, member: MemberNumber, key: &K) -> Rights {
        self.entries
            .get(key)
            .map_or(Rights::NONE, |entry| entry.rights(member))
    }

    pub(crate) fn held(&self, member: MemberNumber) -> impl Iterator<Item = (&K, Rights)> {
        let held = self
            .members
            .get(&member)
            .into_iter()
            .flat_map(|account| &account.held);
        held.map(move |key| (key, self.rights(member, key)))
    }

    /// Returns a member for which `member` would have to wait if it requested these rights.
    pub(crate) fn in_the_way(
        &self,
        member: MemberNumber,
        set: &[(K, Rights)],
    ) -> Option<MemberNumber> {
        set.iter().find_map(|(key, wanted)| {
            let entry = self.entries.get(key)?;
            let has = entry.rights(member);
            let wanted = has.and(*wanted);
            match entry.fits(member, has, wanted) {
                true => None,
                false => entry.in_the_way(member, wanted),
            }
        })
    }

    /// Requests rights on things, each of which is named once. Called while the member waits for
    /// nothing.
    pub(crate) fn ask(
        &mut self,
        member: MemberNumber,
        set: impl IntoIterator<Item = (K, Rights)>,
    ) -> Asked<K> {
        let account = self.members.entry(member).or_insert_with(|| Account {
            held: SmallVec::new(),
            asks: None,
        });
        debug_assert!(account.asks.is_none(), "it waits already");
        let held_before = account.held.len();
        let mut asks = Asks {
            parts: SmallVec::new(),
            missing: 0,
            held_before,
        };
        for (key, wanted) in set {
            let entry = self.entries.entry(key.clone()).or_default();
            let before = entry.rights(member);
            if before.contain(wanted) {
                continue;
            }
            let wanted = before.and(wanted);
            let queued = PartRequest {
                member,
                rights: wanted,
                part: asks.parts.len(),
            };
            let is_upgrade = before != Rights::NONE;
            let granted = entry.fits(member, before, wanted);
            let state = if granted {
                entry.set(member, wanted);
                PartState::Granted
            } else if is_upgrade {
                entry.waits().upgrades.push(queued);
                PartState::Upgrades
            } else {
                PartState::Queued(entry.waits().list.join(Priority::Normal, queued))
            };
            if granted && !is_upgrade {
                account.held.push(key.clone());
            }
            if !granted && !self.contended.contains(&key) {
                self.contended.insert(key.clone());
            }
            asks.missing += usize::from(!granted);
            asks.parts.push(Part {
                key,
                before,
                wanted,
                state,
            });
        }
        if asks.missing == 0 {
            return Asked::Granted;
        }
        account.asks = Some(Box::new(asks));
        // No member waits for a member that has had nothing until now.
        if held_before > 0
            && let Some(cycle) = self.cycle(member)
        {
            let served = self.withdraw(member);
            debug_assert!(
                served.is_empty(),
                "it has just asked, and delayed no member"
            );
            return Asked::Refused(cycle);
        }
        Asked::Waits
    }

    /// Withdraws a waiting request. The member keeps the rights that it had before.
    pub(crate) fn withdraw(&mut self, member: MemberNumber) -> Served {
        let mut served = Served::new();
        let Some(account) = self.members.get_mut(&member) else {
            return served;
        };
        let Some(asks) = account.asks.take() else {
            return served;
        };
        account.held.truncate(asks.held_before);
        if account.held.is_empty() {
            self.members.remove(&member);
            fit(&mut self.members);
        }
        for part in asks.parts {
            let Some(entry) = self.entries.get_mut(&part.key) else {
                debug_assert!(false, "an entry lives while a request waits for it");
                continue;
            };
            match part.state {
                PartState::Granted => entry.set(member, part.before),
                PartState::Upgrades => entry
                    .waits()
                    .upgrades
                    .retain(|queued| queued.member != member),
                PartState::Queued(ticket) => drop(entry.waits().list.remove(ticket)),
            }
            entry.tidy();
            self.serve(&part.key, &mut served);
        }
        served
    }

    pub(crate) fn dismiss(&mut self, member: MemberNumber) -> Served {
        let mut served = self.withdraw(member);
        let Some(account) = self.members.remove(&member) else {
            return served;
        };
        fit(&mut self.members);
        for key in account.held {
            if let Some(entry) = self.entries.get_mut(&key) {
                entry.set(member, Rights::NONE);
            }
            self.serve(&key, &mut served);
        }
        served
    }

    /// Grants what can be granted of one thing, and drops its entry when it is no longer used.
    fn serve(&mut self, key: &K, served: &mut Served) {
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        while let Some(PartRequest { member, part, .. }) = entry.next() {
            let Some(account) = self.members.get_mut(&member) else {
                debug_assert!(false, "a waiting member has an account");
                continue;
            };
            let Some(asks) = &mut account.asks else {
                debug_assert!(false, "a grant follows a request");
                continue;
            };
            asks.missing -= 1;
            if let Some(part) = asks.parts.get_mut(part) {
                part.state = PartState::Granted;
                if part.before == Rights::NONE {
                    account.held.push(key.clone());
                }
            }
            if asks.missing == 0 {
                account.asks = None;
                served.push(member);
            }
        }
        let (waited_for, idle) = (entry.waits.is_some(), entry.is_idle());
        if !waited_for && self.contended.remove(key) && self.contended.is_empty() {
            self.contended.shrink_to(KEPT);
        }
        if idle {
            self.entries.remove(key);
            fit(&mut self.entries);
        }
    }

    /// Returns what a member waits for: each thing, the requested rights, and how many requests are
    /// ahead.
    pub(crate) fn waits_for(
        &self,
        member: MemberNumber,
    ) -> impl Iterator<Item = (&K, Rights, usize)> {
        self.waiting_parts(member).map(move |(part, entry)| {
            let waits = entry.waits.as_ref();
            let ahead = match part.state {
                PartState::Queued(ticket) => waits.and_then(|waits| waits.list.ahead_of(ticket)),
                _ => None,
            };
            (&part.key, part.wanted, ahead.unwrap_or(0))
        })
    }

    /// Returns the members that a member waits for, without duplicates.
    pub(crate) fn blockers(&self, member: MemberNumber) -> Vec<MemberNumber> {
        let parts = self.waiting_parts(member);
        let blockers =
            parts.flat_map(|(part, entry)| entry.blockers(member, part.wanted, part.state));
        let mut members: Vec<_> = blockers.map(|blocker| blocker.0).collect();
        members.sort_unstable();
        members.dedup();
        members
    }

    /// Whether the rights of a member exclude those that another one waits for.
    pub(crate) fn excludes(&self, member: MemberNumber, waiting: MemberNumber) -> bool {
        let mut parts = self.waiting_parts(waiting);
        member != waiting && parts.any(|(part, entry)| entry.rights(member).exclude(part.wanted))
    }

    /// Returns at most `most` of the members that a member waits for, without duplicates. Holders
    /// of rights come first. Of the waiting requests it is only the one directly ahead, which waits
    /// for the others. The time does not depend on the lengths of the queues.
    pub(crate) fn nearest_blockers(&self, member: MemberNumber, most: usize) -> Vec<MemberNumber> {
        let parts = || self.waiting_parts(member).take(most);
        let ahead =
            parts().flat_map(|(part, entry)| entry.nearest_ahead(member, part.wanted, part.state));
        let holders = parts().flat_map(|(part, entry)| entry.excluding(member, part.wanted));
        let mut listed = HashSet::<_, Secret>::default();
        let ahead = ahead.filter(|other| listed.insert(*other));
        // The other half is for holders.
        let mut found: Vec<_> = ahead.take(most.div_ceil(2)).collect();
        let waiting = found.len();
        let holders = holders.filter(|other| listed.insert(*other));
        found.extend(holders.take(most - waiting));
        found.rotate_left(waiting);
        found
    }

    /// How many things a member holds, and for how many it waits.
    pub(crate) fn counts(&self, member: MemberNumber) -> [usize; 2] {
        let account = self.members.get(&member);
        let asks = account.and_then(|account| account.asks.as_ref());
        let held = account.map_or(0, |account| account.held.len());
        [held, asks.map_or(0, |asks| asks.missing)]
    }

    /// Returns all members that some other member waits for, in no order and with duplicates. It
    /// visits the waiting requests and the things that they wait for.
    pub(crate) fn delaying(&self) -> impl Iterator<Item = MemberNumber> {
        let contended = self.contended.iter();
        let entries = contended.filter_map(|key| self.entries.get(key));
        entries.flat_map(TableEntry::delaying)
    }

    fn waiting_parts(&self, member: MemberNumber) -> impl Iterator<Item = (&Part<K>, &TableEntry)> {
        let asks = self
            .members
            .get(&member)
            .and_then(|account| account.asks.as_ref());
        let parts = asks.into_iter().flat_map(|asks| &asks.parts);
        let waiting = parts.filter(|part| part.state != PartState::Granted);
        waiting.filter_map(|part| Some((part, self.entries.get(&part.key)?)))
    }

    /// Returns the cycle that a member's request closes, beginning with the member.
    fn cycle(&self, member: MemberNumber) -> Option<Vec<Link<K>>> {
        // Depth first, with the path to the present member. A member from which no path led back
        // need not be tried again.
        let mut way = vec![(self.links(member), None)];
        let mut tried = HashSet::<_, Secret>::from_iter([member]);
        while let Some((links, _)) = way.last_mut() {
            let Some((link, next)) = links.pop() else {
                way.pop();
                continue;
            };
            if next == member {
                let before = way.iter().filter_map(|(_, link)| link.clone());
                return Some(before.chain([link]).collect());
            }
            if tried.insert(next) {
                way.push((self.links(next), Some(link)));
            }
        }
        None
    }

    /// Returns each member that `member` waits for, with the link to it.
    fn links(&self, member: MemberNumber) -> Vec<(Link<K>, MemberNumber)> {
        let parts = self.waiting_parts(member);
        let links = parts.flat_map(|(part, entry)| {
            let blockers = entry.blockers(member, part.wanted, part.state).into_iter();
            blockers.map(move |(next, next_has)| {
                let link = Link {
                    member,
                    key: part.key.clone(),
                    wants: part.wanted,
                    has: entry.rights(member),
                    next_has,
                };
                (link, next)
            })
        });
        links.collect()
    }
}

#[cfg(test)]
#[path = "../../tests/unit/table.rs"]
mod tests;
