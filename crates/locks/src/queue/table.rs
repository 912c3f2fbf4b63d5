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

use std::collections::hash_map::Entry as MapEntry;
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

/// Where a member waits, and behind whom.
pub(crate) struct LongestWait<'a, K> {
    pub(crate) key: &'a K,
    pub(crate) wants: Rights,
    /// How many requests are ahead.
    pub(crate) ahead: usize,
    /// The first of these, from the head of the queue.
    pub(crate) queued: Vec<MemberNumber>,
    /// A member with rights there that the request waits for, or the head of the queue does.
    pub(crate) holder: Option<MemberNumber>,
}

#[derive(Debug, Default)]
struct TableEntry {
    /// The rights of all holders.
    held: RightsSum,
    /// In the order of their numbers.
    holders: SmallVec<[(MemberNumber, Rights); 1]>,
    waits: Option<Box<PartQueues>>,
}

#[derive(Debug)]
struct PartQueues {
    list: WaitList<PartRequest>,
    /// Requests of holders for more.
    upgrades: WaitList<PartRequest>,
    /// The rights that they request.
    upgrading: RightsSum,
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
    Upgrades(Ticket),
}

/// How many members have each right.
#[derive(Debug, Default)]
struct RightsSum {
    counts: [u32; Rights::COUNT],
    /// The rights that any of them has.
    present: Rights,
}

impl RightsSum {
    /// Replaces the rights of one member.
    fn replace(&mut self, before: Rights, now: Rights) {
        for bit in before.without(now).bits() {
            self.counts[bit] -= 1;
            self.present.set(bit, self.counts[bit] > 0);
        }
        for bit in now.without(before).bits() {
            self.counts[bit] += 1;
            self.present.set(bit, true);
        }
    }

    /// Returns the rights that members other than one with these rights have.
    fn without(&self, own: Rights) -> Rights {
        let mut others = self.present;
        for bit in own.bits() {
            others.set(bit, self.counts[bit] > 1);
        }
        others
    }
}

/// What a search has walked of one thing: the rights that wait for each of its upgrades, for each
/// request in its queue, and for its holders. Each is walked for two members, because a holder that
/// waits is left out of its own walk.
#[derive(Default)]
struct Walked {
    upgrades: Vec<[Rights; 2]>,
    queue: Vec<[Rights; 2]>,
    holders: [Rights; 2],
}

impl Walked {
    /// Notes rights that wait for an item of a list. Returns whether to walk on from there.
    fn note_at(list: &mut Vec<[Rights; 2]>, at: usize, rights: Rights) -> bool {
        if list.len() <= at {
            list.resize(at + 1, [Rights::NONE; 2]);
        }
        Self::note(&mut list[at], rights)
    }

    fn note(known: &mut [Rights; 2], rights: Rights) -> bool {
        step();
        let new = known.iter_mut().find(|known| !known.contain(rights));
        new.map(|known| *known = known.and(rights)).is_some()
    }
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
    fn position(&self, member: MemberNumber) -> Result<usize, usize> {
        // Most requests are newer than all holders.
        match &self.holders[..] {
            [.., last] if last.0 < member => Err(self.holders.len()),
            [first, ..] if first.0 > member => Err(0),
            _ => self.holders.binary_search_by_key(&member, |holder| {
                step();
                holder.0
            }),
        }
    }

    fn rights(&self, member: MemberNumber) -> Rights {
        let at = self.position(member);
        at.map_or(Rights::NONE, |at| self.holders[at].1)
    }

    fn set(&mut self, member: MemberNumber, rights: Rights) {
        let at = self.position(member);
        let before = at.map_or(Rights::NONE, |at| self.holders[at].1);
        self.held.replace(before, rights);
        match at {
            Ok(at) if rights == Rights::NONE => drop(self.holders.remove(at)),
            Ok(at) => self.holders[at].1 = rights,
            Err(_) if rights == Rights::NONE => {}
            Err(at) => self.holders.insert(at, (member, rights)),
        }
    }

    /// Returns the rights that waiting upgrades request.
    fn upgrading(&self) -> Rights {
        let waits = self.waits.as_ref();
        waits.map_or(Rights::NONE, |waits| waits.upgrading.present)
    }

    /// Whether a member with rights here may have `wanted`, behind upgrades to the rights `ahead`.
    fn extends(&self, member: MemberNumber, wanted: Rights, ahead: Rights) -> bool {
        !wanted.exclude(self.held.without(self.rights(member)).and(ahead))
    }

    /// Whether a member without rights here may have `wanted`, ahead of the queue.
    fn admits(&self, wanted: Rights) -> bool {
        !wanted.exclude(self.held.present.and(self.upgrading()))
    }

    /// Whether a member that has these rights here gets `wanted` at once.
    fn fits(&self, member: MemberNumber, has: Rights, wanted: Rights) -> bool {
        if has != Rights::NONE {
            return has == wanted || self.extends(member, wanted, self.upgrading());
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
                upgrades: WaitList::new(0),
                upgrading: RightsSum::default(),
            })
        })
    }

    /// Grants one part of a request that can be granted now.
    fn next(&mut self) -> Option<PartRequest> {
        let waits = self.waits.as_deref()?;
        let mut ahead = Rights::NONE;
        let fitting = waits.upgrades.iter(None).find(|(_, queued)| {
            step();
            let fits = self.extends(queued.member, queued.rights, ahead);
            ahead = ahead.and(queued.rights);
            fits
        });
        let granted = match fitting {
            Some((ticket, &queued)) => {
                self.withdraw(PartState::Upgrades(ticket));
                queued
            }
            None => {
                let (_, &queued) = waits.list.iter(None).next()?;
                if !self.admits(queued.rights) {
                    return None;
                }
                self.waits().list.pop();
                queued
            }
        };
        self.set(granted.member, granted.rights);
        self.tidy();
        Some(granted)
    }

    fn join(&mut self, queued: PartRequest, is_upgrade: bool) -> PartState {
        let waits = self.waits();
        if !is_upgrade {
            return PartState::Queued(waits.list.join(Priority::Normal, queued));
        }
        waits.upgrading.replace(Rights::NONE, queued.rights);
        PartState::Upgrades(waits.upgrades.join(Priority::Normal, queued))
    }

    /// Withdraws a part of a request from its queue.
    fn withdraw(&mut self, state: PartState) {
        let waits = self.waits();
        match state {
            PartState::Granted => {}
            PartState::Queued(ticket) => drop(waits.list.remove(ticket)),
            PartState::Upgrades(ticket) => {
                if let Some(queued) = waits.upgrades.remove(ticket) {
                    waits.upgrading.replace(queued.rights, Rights::NONE);
                }
            }
        }
    }

    /// Returns a member that has rights which exclude `wanted`, or is granted them first, or is the
    /// head of the queue.
    fn in_the_way(&self, member: MemberNumber, wanted: Rights) -> Option<MemberNumber> {
        let waits = self.waits.iter();
        let upgrades = waits.flat_map(|waits| waits.upgrades.iter(None));
        let upgrades = upgrades.map(|(_, queued)| (queued.member, queued.rights));
        let others = self.held.without(self.rights(member));
        let is_excluded = wanted.exclude(others.and(self.upgrading()));
        let searched = if is_excluded { usize::MAX } else { 0 };
        let before = self.holders.iter().copied().chain(upgrades);
        let found = before.take(searched).find(|&(other, rights)| {
            step();
            other != member && rights.exclude(wanted)
        });
        let found = found.map(|(other, _)| other);
        let first = || {
            let first = self.queued().next()?;
            let holder = self.holder_against(member, wanted);
            Some(holder.unwrap_or(first.member))
        };
        found.or_else(first)
    }

    fn tidy(&mut self) {
        let waits = self.waits.as_deref();
        if waits.is_some_and(|waits| waits.list.is_empty() && waits.upgrades.is_empty()) {
            self.waits = None;
        }
    }

    /// Calls `visit` with the members that a part of a request waits for, and their rights here. It
    /// leaves out those that two others have visited for the same rights.
    fn walk(
        &self,
        (member, wanted, state): (MemberNumber, Rights, PartState),
        walked: &mut Walked,
        mut visit: impl FnMut(MemberNumber, Rights),
    ) {
        let Some(waits) = &self.waits else {
            return;
        };
        // The rights that are granted first, and these themselves.
        let mut before = wanted;
        let own_upgrade = match state {
            PartState::Upgrades(ticket) => Some(ticket),
            PartState::Queued(ticket) => {
                for (at, queued) in waits.list.ahead(Some(ticket)) {
                    if !Walked::note_at(&mut walked.queue, at, before) {
                        return;
                    }
                    if queued.rights.exclude(before) {
                        visit(queued.member, self.rights(queued.member));
                    }
                    before = before.and(queued.rights);
                }
                None
            }
            PartState::Granted => return,
        };
        for (at, queued) in waits.upgrades.ahead(own_upgrade) {
            if !Walked::note_at(&mut walked.upgrades, at, before) {
                return;
            }
            if queued.rights.exclude(before) {
                visit(queued.member, self.rights(queued.member));
                before = before.and(queued.rights);
            }
        }
        if !before.exclude(self.held.present) || !Walked::note(&mut walked.holders, before) {
            return;
        }
        for &(other, rights) in &self.holders {
            step();
            if other != member && rights.exclude(before) {
                visit(other, rights);
            }
        }
    }

    /// Returns the request directly ahead of a part of another one.
    fn directly_ahead(&self, state: PartState) -> Option<&PartRequest> {
        self.last_ahead(state).map(|(_, queued)| queued)
    }

    /// How many requests are ahead of a part of another one.
    fn ahead_of(&self, state: PartState) -> usize {
        self.last_ahead(state).map_or(0, |(at, _)| at + 1)
    }

    fn last_ahead(&self, state: PartState) -> Option<(usize, &PartRequest)> {
        match state {
            PartState::Queued(ticket) => self.waits.as_ref()?.list.ahead(Some(ticket)).next(),
            _ => None,
        }
    }

    /// Returns the members of the queue, from its head.
    fn queued(&self) -> impl Iterator<Item = &PartRequest> {
        let waits = self.waits.iter();
        let queued = waits.flat_map(|waits| waits.list.iter(None));
        queued.map(|(_, queued)| queued)
    }

    /// Returns a member with rights that exclude `wanted`, or those for which the head of the queue
    /// waits, as all behind it do.
    fn holder_against(&self, member: MemberNumber, wanted: Rights) -> Option<MemberNumber> {
        let first = self.queued().next();
        let first = first.map_or(Rights::NONE, |first| first.rights);
        let mut against = [wanted, first, self.upgrading()].into_iter();
        against.find_map(|wanted| self.excluding(member, wanted).next())
    }

    /// Returns the members with rights that exclude those of a part of a request.
    fn excluding(
        &self,
        member: MemberNumber,
        wanted: Rights,
    ) -> impl Iterator<Item = MemberNumber> {
        let is_excluded = wanted.exclude(self.held.present);
        let searched = if is_excluded { SEARCHED } else { 0 };
        let holders = self.holders.iter().take(searched);
        let excluding = move |&(other, rights): &(_, Rights)| {
            step();
            (other != member && rights.exclude(wanted)).then_some(other)
        };
        holders.filter_map(excluding)
    }

    /// Returns the upgrades that are granted before a part of a request.
    fn upgrades_ahead(
        &self,
        member: MemberNumber,
        wanted: Rights,
    ) -> impl Iterator<Item = &PartRequest> {
        let waits = self.waits.iter();
        let upgrades = waits.flat_map(|waits| waits.upgrades.iter(None));
        upgrades
            .map(|(_, queued)| queued)
            .take_while(move |queued| queued.member != member)
            .filter(move |queued| queued.rights.exclude(wanted))
    }

    /// Returns the members that delay the requests here. The last in the queue waits for all
    /// members that any request ahead of it waits for.
    fn delaying(&self) -> Vec<MemberNumber> {
        let Some(waits) = &self.waits else {
            return Vec::new();
        };
        let last = waits.list.last();
        let last = last.map(|(ticket, queued)| (queued, PartState::Queued(ticket)));
        let upgrades = waits.upgrades.iter(None);
        let upgrades = upgrades.map(|(ticket, queued)| (queued, PartState::Upgrades(ticket)));
        let (mut found, mut walked) = (Vec::new(), Walked::default());
        for (queued, state) in upgrades.chain(last) {
            let request = (queued.member, queued.rights, state);
            self.walk(request, &mut walked, |member, _| found.push(member));
        }
        found
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
        let mut parts = SmallVec::new();
        let mut missing = 0;
        for (key, wanted) in set {
            let entry = self.entries.entry(key.clone()).or_default();
            let before = entry.rights(member);
            if before.contain(wanted) {
                continue;
            }
            let wanted = before.and(wanted);
            let is_upgrade = before != Rights::NONE;
            let state = if entry.fits(member, before, wanted) {
                entry.set(member, wanted);
                if !is_upgrade {
                    account.held.push(key);
                    continue;
                }
                PartState::Granted
            } else {
                if !self.contended.contains(&key) {
                    self.contended.insert(key.clone());
                }
                missing += 1;
                let queued = PartRequest {
                    member,
                    rights: wanted,
                    part: parts.len(),
                };
                entry.join(queued, is_upgrade)
            };
            parts.push(Part {
                key,
                before,
                wanted,
                state,
            });
        }
        if missing == 0 {
            return Asked::Granted;
        }
        account.asks = Some(Box::new(Asks {
            parts,
            missing,
            held_before,
        }));
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
        let granted: SmallVec<[K; 4]> = account.held.drain(asks.held_before..).collect();
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
                // It is one of those that are released below.
                PartState::Granted if part.before == Rights::NONE => continue,
                PartState::Granted => entry.set(member, part.before),
                waiting => entry.withdraw(waiting),
            }
            entry.tidy();
            self.serve(&part.key, &mut served);
        }
        self.release(member, granted, &mut served);
        served
    }

    pub(crate) fn dismiss(&mut self, member: MemberNumber) -> Served {
        let mut served = self.withdraw(member);
        if let Some(account) = self.members.remove(&member) {
            fit(&mut self.members);
            self.release(member, account.held, &mut served);
        }
        served
    }

    /// Takes all rights that a member has on things.
    fn release(
        &mut self,
        member: MemberNumber,
        keys: impl IntoIterator<Item = K>,
        served: &mut Served,
    ) {
        for key in keys {
            let MapEntry::Occupied(mut entry) = self.entries.entry(key) else {
                debug_assert!(false, "an entry lives while a member has rights there");
                continue;
            };
            entry.get_mut().set(member, Rights::NONE);
            if entry.get().waits.is_some() {
                let key = entry.key().clone();
                self.serve(&key, served);
            } else if entry.get().holders.is_empty() {
                entry.remove();
            }
        }
        fit(&mut self.entries);
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
        let parts = self.waiting_parts(member);
        parts.map(|(part, entry)| (&part.key, part.wanted, entry.ahead_of(part.state)))
    }

    /// Returns where a member waits; of several things, the one with the most requests ahead. Lists
    /// at most `most` of these.
    pub(crate) fn longest_wait(
        &self,
        member: MemberNumber,
        most: usize,
    ) -> Option<LongestWait<'_, K>> {
        let parts = self.waiting_parts(member);
        let parts = parts.map(|(part, entry)| (entry.ahead_of(part.state), part, entry));
        let (ahead, part, entry) = parts.max_by_key(|(ahead, ..)| *ahead)?;
        let queued = entry.queued().take(ahead.min(most));
        Some(LongestWait {
            key: &part.key,
            wants: part.wanted,
            ahead,
            queued: queued.map(|queued| queued.member).collect(),
            holder: entry.holder_against(member, part.wanted),
        })
    }

    /// Returns the requests directly behind a waiting one, each in a queue where it waits.
    pub(crate) fn directly_behind(
        &self,
        member: MemberNumber,
    ) -> impl Iterator<Item = MemberNumber> {
        self.waiting_parts(member).filter_map(|(part, entry)| {
            let waits = entry.waits.as_ref()?;
            let (_, behind) = match part.state {
                PartState::Granted => None,
                PartState::Queued(ticket) => waits.list.iter(Some(ticket)).next(),
                PartState::Upgrades(ticket) => {
                    let upgrade = waits.upgrades.iter(Some(ticket)).next();
                    upgrade.or_else(|| waits.list.iter(None).next())
                }
            }?;
            Some(behind.member)
        })
    }

    /// Returns the members that delay a request which begins to wait, and delayed none before, or
    /// may not have. Those that the request directly ahead waits for delayed that one.
    pub(crate) fn newly_delaying(
        &self,
        member: MemberNumber,
    ) -> impl Iterator<Item = MemberNumber> {
        let delaying = self.waiting_parts(member).flat_map(move |(part, entry)| {
            let ahead = entry.directly_ahead(part.state);
            let is_known = ahead.is_some_and(|ahead| ahead.rights.contain(part.wanted));
            let holders = entry.holders.iter().filter(move |(other, rights)| {
                step();
                !is_known && *other != member && rights.exclude(part.wanted)
            });
            let holders = holders.map(|(other, _)| *other);
            let ahead = entry.upgrades_ahead(member, part.wanted).chain(ahead);
            holders.chain(ahead.map(|queued| queued.member))
        });
        // A holder may have got more rights already, or waits for them ahead of others.
        let account = self.members.get(&member);
        let asks = account.and_then(|account| account.asks.as_ref());
        let own = asks.filter(|asks| asks.held_before > 0).map(|_| member);
        delaying.chain(own)
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
        let ahead = parts().flat_map(|(part, entry)| {
            let upgrades = entry.upgrades_ahead(member, part.wanted);
            let ahead = upgrades.chain(entry.directly_ahead(part.state));
            ahead.map(|queued| queued.member)
        });
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

    /// Whether a request of another member may wait for what this one has, directly.
    fn may_delay_another(&self, member: MemberNumber) -> bool {
        let Some(account) = self.members.get(&member) else {
            return false;
        };
        let is_waited_for = |key: &K| {
            step();
            let entry = self.entries.get(key);
            let entry = entry.filter(|entry| entry.rights(member) != Rights::NONE);
            let waits = entry.and_then(|entry| entry.waits.as_ref());
            waits.is_some_and(|waits| {
                // One of the upgrades may be its own.
                let mut upgrades = waits.upgrades.iter(None).take(2);
                !waits.list.is_empty() || upgrades.any(|(_, queued)| queued.member != member)
            })
        };
        match self.contended.len() < account.held.len() {
            true => self.contended.iter().any(is_waited_for),
            false => account.held.iter().any(is_waited_for),
        }
    }

    /// Returns the cycle that a member's request closes, beginning with the member.
    ///
    /// Breadth first. Each member is visited once, and each request and each holder of a thing at
    /// most twice for each right that waits for it.
    fn cycle(&self, member: MemberNumber) -> Option<Vec<Link<K>>> {
        if !self.may_delay_another(member) {
            return None;
        }
        // Each link with the index of the one before it, and the member to which it leads.
        let mut way: Vec<(Option<usize>, Link<K>, MemberNumber)> = Vec::new();
        let mut reached = HashSet::<_, Secret>::from_iter([member]);
        let mut walked = HashMap::<&K, Walked, Secret>::default();
        let (mut waiting, mut before) = (member, None);
        loop {
            for (part, entry) in self.waiting_parts(waiting) {
                let known = way.len();
                let request = (waiting, part.wanted, part.state);
                entry.walk(
                    request,
                    walked.entry(&part.key).or_default(),
                    |next, next_has| {
                        if next == member || reached.insert(next) {
                            let link = Link {
                                member: waiting,
                                key: part.key.clone(),
                                wants: part.wanted,
                                has: part.before,
                                next_has,
                            };
                            way.push((before, link, next));
                        }
                    },
                );
                let mut found = way[known..].iter();
                if let Some(last) = found.position(|link| link.2 == member) {
                    return Some(path(&way, known + last));
                }
            }
            let next = before.map_or(0, |at| at + 1);
            (before, waiting) = (Some(next), way.get(next)?.2);
        }
    }
}

/// Returns the links up to one of them.
fn path<K: Clone>(way: &[(Option<usize>, Link<K>, MemberNumber)], last: usize) -> Vec<Link<K>> {
    let links = std::iter::successors(Some(last), |&at| way[at].0);
    let mut path: Vec<_> = links.map(|at| way[at].1.clone()).collect();
    path.reverse();
    path
}

#[cfg(test)]
#[path = "../../tests/unit/table.rs"]
mod tests;
