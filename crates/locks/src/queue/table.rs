//! A table of locks on things of which some contain others, with a queue in front of each.
//!
//! Members hold rights on things. A request is for a set of rights, all or nothing. In one step it
//! joins the queues of all things that it does not get at once. All requests join their queues in
//! one order, so members that hold nothing yet cannot form a cycle of waits. A member that holds
//! something and requests more can close a cycle: its lock looks for one, and withdraws it then.
//!
//! Invariants:
//!
//! 1. No two members have rights on one thing that exclude each other.
//! 2. On one thing, rights that exclude each other are granted in FIFO order, with one exception: a
//!    member that already has rights there and requests more goes first, because the waiting
//!    requests may wait for it. No member without rights overtakes another one without rights,
//!    whether they exclude each other or not, unless that one [asks again](LockTable::ask_again).
//! 3. A request waits only while some right that it requests is excluded by rights that others
//!    have, or requested earlier.
//! 4. There is no cycle of waiting members, once such a request is withdrawn.
//! 5. A thing without rights and without waiting requests has no entry.
//!
//! `docs/invariants/node-locks.md` has the reasons (N1 to N5).

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, Hash};

use smallvec::SmallVec;

use super::wait_list::{Ticket, WaitList};
use super::{Priority, Rights};
use crate::hashing::Secret;
use crate::key_table::{KeyEntry, KeyId, KeyTable};
use crate::shrink::excess;
use crate::steps::step;

/// A member holds rights and makes requests. Numbered by its lock type, in the order of first
/// requests.
pub(crate) type MemberNumber = u64;

/// `M` is what its lock type keeps of each member.
pub(crate) struct LockTable<K, M = ()> {
    things: Things<K>,
    /// In FIFO order.
    members: Accounts<M>,
    /// The account of the member that was dismissed last, for reuse.
    spare: Option<Box<Account<M>>>,
}

/// The things on which members have rights, or for which some wait.
struct Things<K> {
    /// A paragraph that is locked in a section, and the section, are kept for reuse.
    entries: KeyTable<K, TableEntry, KEPT, 2>,
    /// How many entries there ever were.
    numbered: u64,
    /// Those for which some member waits.
    contended: HashSet<KeyId, Secret>,
}

/// The members whose whole request is granted.
pub(crate) type Served = SmallVec<[MemberNumber; 2]>;

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
    holders: Holders,
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

/// The accounts of the members, in the order of their numbers. Most members are newer than all
/// others when they come.
struct Accounts<M>(VecDeque<(MemberNumber, Box<Account<M>>)>);

impl<M> Accounts<M> {
    fn position(&self, member: MemberNumber) -> Result<usize, usize> {
        match self.0.back() {
            Some(last) if last.0 == member => Ok(self.0.len() - 1),
            Some(last) if last.0 > member => self.0.binary_search_by_key(&member, |other| other.0),
            _ => Err(self.0.len()),
        }
    }

    fn get(&self, member: MemberNumber) -> Option<&Account<M>> {
        Some(&self.0.get(self.position(member).ok()?)?.1)
    }

    fn get_mut(&mut self, member: MemberNumber) -> Option<&mut Account<M>> {
        let at = self.position(member).ok()?;
        Some(&mut self.0.get_mut(at)?.1)
    }

    fn insert(&mut self, member: MemberNumber, account: Box<Account<M>>) -> &mut Account<M> {
        let at = self.position(member).unwrap_or_else(|at| at);
        match at == self.0.len() {
            true => self.0.push_back((member, account)),
            false => self.0.insert(at, (member, account)),
        }
        &mut self.0[at].1
    }

    fn remove(&mut self, member: MemberNumber) -> Option<Box<Account<M>>> {
        let at = self.position(member).ok()?;
        let (_, account) = match at + 1 == self.0.len() {
            true => self.0.pop_back()?,
            false => self.0.remove(at)?,
        };
        if let Some(room) = excess(self.0.capacity(), self.0.len(), KEPT) {
            self.0.shrink_to(room);
        }
        Some(account)
    }
}

/// What a member has, and what it waits for.
#[derive(Debug, Default)]
struct Account<M> {
    held: Held,
    asks: Option<Box<Asks>>,
    more: M,
}

/// The things on which a member has rights.
type Held = Vec<KeyId>;

#[derive(Debug)]
struct Asks {
    parts: SmallVec<[Part; 4]>,
    /// How many of them wait.
    missing: usize,
    /// On how many things the member already had rights before the request. They come first among
    /// the things on which it has rights.
    held_before: usize,
}

#[derive(Debug)]
struct Part {
    id: KeyId,
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
        for (bit, count) in self.counts.iter_mut().enumerate() {
            *count = *count + now.has(bit) - before.has(bit);
        }
        self.present = self.present.and(now);
        for bit in before.without(now).bits() {
            self.present.set(bit, self.counts[bit] > 0);
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

/// The members with rights on one thing, in the order of their numbers.
#[derive(Debug, Default)]
struct Holders {
    /// Most things have one holder, which takes no further memory. Without rights if there is none.
    first: (MemberNumber, Rights),
    others: Vec<(MemberNumber, Rights)>,
    /// The rights of the others.
    sum: RightsSum,
}

impl Holders {
    fn is_empty(&self) -> bool {
        self.first.1 == Rights::NONE
    }

    fn iter(&self) -> impl Iterator<Item = (MemberNumber, Rights)> {
        let first = Some(self.first).filter(|_| !self.is_empty());
        first.into_iter().chain(self.others.iter().copied())
    }

    /// Returns the position of a member among the others.
    fn position(&self, member: MemberNumber) -> Result<usize, usize> {
        // Most requests are newer than all holders.
        match &self.others[..] {
            [] => Err(0),
            [.., last] if last.0 < member => Err(self.others.len()),
            others => others.binary_search_by_key(&member, |holder| {
                step();
                holder.0
            }),
        }
    }

    fn rights(&self, member: MemberNumber) -> Rights {
        match member.cmp(&self.first.0) {
            Ordering::Less => Rights::NONE,
            Ordering::Equal => self.first.1,
            Ordering::Greater => {
                let at = self.position(member);
                at.map_or(Rights::NONE, |at| self.others[at].1)
            }
        }
    }

    /// Returns the rights that any member has.
    fn present(&self) -> Rights {
        self.first.1.and(self.sum.present)
    }

    /// Returns the rights that members other than this one have.
    fn without(&self, member: MemberNumber) -> Rights {
        match self.first.0 == member {
            true => self.sum.present,
            false => self.first.1.and(self.sum.without(self.rights(member))),
        }
    }

    #[inline]
    fn set(&mut self, member: MemberNumber, rights: Rights) {
        let is_first = self.first.0 == member || self.is_empty();
        match is_first && self.others.is_empty() {
            true => self.first = (member, rights),
            false => self.set_beside(member, rights, is_first),
        }
    }

    fn set_beside(&mut self, member: MemberNumber, rights: Rights, is_first: bool) {
        let mut other = (member, rights);
        if is_first {
            self.first = other;
            if rights == Rights::NONE {
                self.first = self.others.remove(0);
                self.sum.replace(self.first.1, Rights::NONE);
            }
            return;
        }
        if member < self.first.0 && rights != Rights::NONE {
            std::mem::swap(&mut self.first, &mut other);
        }
        let (member, rights) = other;
        let at = self.position(member);
        if rights == Rights::NONE && self.others.len() == 1 && at == Ok(0) {
            self.others.clear();
            self.sum = RightsSum::default();
            return;
        }
        let before = at.map_or(Rights::NONE, |at| self.others[at].1);
        self.sum.replace(before, rights);
        match at {
            Ok(at) if rights != Rights::NONE => self.others[at].1 = rights,
            Ok(at) if at + 1 == self.others.len() => drop(self.others.pop()),
            Ok(at) => drop(self.others.remove(at)),
            Err(_) if rights == Rights::NONE => {}
            Err(at) if at == self.others.len() => self.others.push((member, rights)),
            Err(at) => self.others.insert(at, (member, rights)),
        }
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
const KEPT: usize = 56;

impl<K, M> Default for LockTable<K, M> {
    fn default() -> Self {
        let things = Things {
            entries: KeyTable::default(),
            numbered: 0,
            contended: HashSet::default(),
        };
        Self {
            things,
            members: Accounts(VecDeque::new()),
            spare: None,
        }
    }
}

impl TableEntry {
    fn rights(&self, member: MemberNumber) -> Rights {
        self.holders.rights(member)
    }

    /// Returns the rights that waiting upgrades request.
    fn upgrading(&self) -> Rights {
        let waits = self.waits.as_ref();
        waits.map_or(Rights::NONE, |waits| waits.upgrading.present)
    }

    /// Whether a member with rights here may have `wanted`, behind upgrades to the rights `ahead`.
    fn extends(&self, member: MemberNumber, wanted: Rights, ahead: Rights) -> bool {
        !wanted.exclude(self.holders.without(member).and(ahead))
    }

    /// Whether a member without rights here may have `wanted`, ahead of the queue.
    fn admits(&self, wanted: Rights) -> bool {
        !wanted.exclude(self.holders.present().and(self.upgrading()))
    }

    /// Whether a member that has these rights here gets `wanted` at once.
    fn fits(&self, member: MemberNumber, has: Rights, wanted: Rights) -> bool {
        if has != Rights::NONE {
            return has == wanted || self.extends(member, wanted, self.upgrading());
        }
        let waits = self.waits.as_ref();
        waits.is_none_or(|waits| waits.list.is_empty()) && self.admits(wanted)
    }

    /// Whether no member has rights here or waits. Then its memory is that of a new one.
    fn is_idle(&mut self) -> bool {
        let is_idle = self.holders.is_empty() && self.waits.is_none();
        if is_idle && self.holders.others.capacity() > 0 {
            self.holders.others = Vec::new();
        }
        is_idle
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
        self.holders.set(granted.member, granted.rights);
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
        let others = self.holders.without(member);
        let is_excluded = wanted.exclude(others.and(self.upgrading()));
        let searched = if is_excluded { usize::MAX } else { 0 };
        let before = self.holders.iter().chain(upgrades);
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
        if !before.exclude(self.holders.present()) || !Walked::note(&mut walked.holders, before) {
            return;
        }
        for (other, rights) in self.holders.iter() {
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
        let is_excluded = wanted.exclude(self.holders.present());
        let searched = if is_excluded { SEARCHED } else { 0 };
        let holders = self.holders.iter().take(searched);
        let excluding = move |(other, rights): (_, Rights)| {
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

impl<K: Default + Eq + Hash> Things<K> {
    fn get(&self, id: KeyId) -> Option<&TableEntry> {
        Some(&self.entries.get(id)?.state)
    }

    /// Takes what can be granted at once, and joins the queues of the rest. Returns whether there
    /// is no rest.
    fn add<M>(
        &mut self,
        member: MemberNumber,
        account: &mut Account<M>,
        set: &mut [(K, Rights)],
    ) -> bool {
        debug_assert!(account.asks.is_none(), "it waits already");
        let held_before = account.held.len();
        let mut parts = SmallVec::new();
        let mut missing = 0;
        for (key, wanted) in set {
            let (hash, wanted) = (Secret.hash_one(&*key), *wanted);
            let number = || {
                self.numbered += 1;
                Some(self.numbered)
            };
            let (entries, is) = (&mut self.entries, |own: &K, _: &Option<K>| *own == *key);
            let found = entries.find_or_add(hash, &mut None, is, number, TableEntry::default);
            let Some((found, added)) = found else {
                debug_assert!(false, "there is a number for each");
                continue;
            };
            if added {
                // Of an id, a copy would stall the processor.
                found.set_key(std::mem::take(key));
            }
            let (id, entry) = (found.id, &mut found.state);
            let before = entry.rights(member);
            if before.contain(wanted) {
                continue;
            }
            let wanted = before.and(wanted);
            let is_upgrade = before != Rights::NONE;
            let state = if entry.fits(member, before, wanted) {
                entry.holders.set(member, wanted);
                if !is_upgrade {
                    account.held.push(id);
                    continue;
                }
                PartState::Granted
            } else {
                self.contended.insert(id);
                missing += 1;
                let queued = PartRequest {
                    member,
                    rights: wanted,
                    part: parts.len(),
                };
                entry.join(queued, is_upgrade)
            };
            parts.push(Part {
                id,
                before,
                wanted,
                state,
            });
        }
        if missing > 0 {
            account.asks = Some(Box::new(Asks {
                parts,
                missing,
                held_before,
            }));
        }
        missing == 0
    }
}

impl<K: Clone + Default + Eq + Hash, M: Default> LockTable<K, M> {
    pub(crate) fn len(&self) -> usize {
        self.things.entries.sizes()[0]
    }

    /// Returns the members, in FIFO order.
    pub(crate) fn members(&self) -> impl Iterator<Item = (MemberNumber, &M)> {
        self.members_after(None)
    }

    /// Returns the members after one of them, in FIFO order.
    pub(crate) fn members_after(
        &self,
        after: Option<MemberNumber>,
    ) -> impl Iterator<Item = (MemberNumber, &M)> {
        let first = after.map_or(0, |after| match self.members.position(after) {
            Ok(at) => at + 1,
            Err(at) => at,
        });
        let members = self.members.0.range(first..);
        members.map(|(number, account)| (*number, &account.more))
    }

    pub(crate) fn has_members(&self) -> bool {
        !self.members.0.is_empty()
    }

    pub(crate) fn member(&self, member: MemberNumber) -> Option<&M> {
        Some(&self.members.get(member)?.more)
    }

    pub(crate) fn member_mut(&mut self, member: MemberNumber) -> Option<&mut M> {
        Some(&mut self.members.get_mut(member)?.more)
    }

    fn entry(&self, key: &K) -> Option<&TableEntry> {
        let entry = self
            .things
            .entries
            .find(Secret.hash_one(key), |own| own == key)?;
        Some(&entry.state)
    }

    pub(crate) fn held(&self, member: MemberNumber) -> impl Iterator<Item = (&K, Rights)> {
        let account = self.members.get(member).into_iter();
        let held = account.flat_map(|account| &account.held);
        let entries = held.filter_map(|id| self.things.entries.get(*id));
        entries.map(move |entry| (entry.key(), entry.state.rights(member)))
    }

    /// Returns a member for which `member` would have to wait if it requested these rights.
    pub(crate) fn in_the_way(
        &self,
        member: MemberNumber,
        set: &[(K, Rights)],
    ) -> Option<MemberNumber> {
        set.iter().find_map(|(key, wanted)| {
            let entry = self.entry(key)?;
            let has = entry.rights(member);
            let wanted = has.and(*wanted);
            match entry.fits(member, has, wanted) {
                true => None,
                false => entry.in_the_way(member, wanted),
            }
        })
    }

    /// Makes a member with its first request, for rights on things of which each is named once.
    /// Returns whether all of it is granted, and the member, to describe it. It may be one that was
    /// dismissed. No request of a member without rights closes a cycle. Takes keys out of the set.
    pub(crate) fn admit(
        &mut self,
        member: MemberNumber,
        set: &mut [(K, Rights)],
    ) -> (bool, &mut M) {
        let mut account = self.spare.take().unwrap_or_default();
        let granted = self.things.add(member, &mut account, set);
        (granted, &mut self.members.insert(member, account).more)
    }

    /// Requests rights on things, each of which is named once, and returns whether all are granted.
    /// Called while the member waits for nothing. If it waits, its request may close a
    /// [`cycle`](Self::cycle). Takes keys out of the set.
    pub(crate) fn ask(&mut self, member: MemberNumber, set: &mut [(K, Rights)]) -> bool {
        let Some(account) = self.members.get_mut(member) else {
            debug_assert!(false, "only members request more");
            return true;
        };
        self.things.add(member, account, set)
    }

    /// Withdraws a waiting request. The member keeps the rights that it had before.
    pub(crate) fn withdraw(&mut self, member: MemberNumber) -> Served {
        let mut served = Served::new();
        let account = self.members.get_mut(member);
        let Some((account, asks)) = account.and_then(|it| it.asks.take().map(|asks| (it, asks)))
        else {
            return served;
        };
        let granted: Held = account.held.drain(asks.held_before..).collect();
        self.leave_queues(member, *asks, &mut served);
        self.release(member, granted, &mut served);
        served
    }

    /// Returns the members whose requests are before that of a member in its queues, in the order
    /// of their numbers.
    pub(crate) fn queued_before(&self, member: MemberNumber) -> BTreeSet<MemberNumber> {
        let parts = self.waiting_parts(member);
        let before = parts.flat_map(|(part, _, entry)| {
            let queued = entry.queued().take(entry.ahead_of(part.state));
            queued.map(|queued| queued.member)
        });
        before.collect()
    }

    /// Moves the waiting first request of a member to the end of its queues: withdraws it and makes
    /// it again. Returns whether it is granted then, and the members that are served.
    pub(crate) fn ask_again(&mut self, member: MemberNumber) -> (bool, Served) {
        let account = self.members.get(member);
        let asks = account.and_then(|account| account.asks.as_deref());
        debug_assert!(asks.is_some_and(|asks| asks.held_before == 0));
        let parts = asks.into_iter().flat_map(|asks| &asks.parts);
        let waiting = parts.filter(|part| part.state != PartState::Granted);
        let waiting = waiting.map(|part| (part.id, part.wanted));
        let granted = account.into_iter().flat_map(|account| &account.held);
        let granted = granted.filter_map(|id| Some((*id, self.things.get(*id)?.rights(member))));
        let set = waiting.chain(granted).filter_map(|(id, rights)| {
            let entry = self.things.entries.get(id)?;
            Some((entry.key().clone(), rights))
        });
        let mut set: Vec<_> = set.collect();
        let served = self.withdraw(member);
        (self.ask(member, &mut set), served)
    }

    /// Ends a member. Returns what its lock type keeps of it, to read the end from, and the members
    /// that are served then. Its memory may be that of the next member.
    pub(crate) fn dismiss(&mut self, member: MemberNumber) -> Option<(&mut M, Served)> {
        let mut account = self.members.remove(member)?;
        let mut served = Served::new();
        if let Some(asks) = account.asks.take() {
            self.leave_queues(member, *asks, &mut served);
        }
        self.release(member, account.held.drain(..), &mut served);
        if account.held.capacity() > KEPT {
            account.held = Held::new();
        }
        let account = self.spare.insert(account);
        Some((&mut account.more, served))
    }

    /// Withdraws the parts of a request that wait. Of those that are granted, it takes back what
    /// the member did not have before, unless that is all that it has there.
    fn leave_queues(&mut self, member: MemberNumber, asks: Asks, served: &mut Served) {
        for part in asks.parts {
            let Some(entry) = self.things.entries.get_mut(part.id) else {
                debug_assert!(false, "an entry lives while a request waits for it");
                continue;
            };
            let entry = &mut entry.state;
            match part.state {
                PartState::Granted if part.before == Rights::NONE => continue,
                PartState::Granted => entry.holders.set(member, part.before),
                waiting => entry.withdraw(waiting),
            }
            entry.tidy();
            self.serve(part.id, served);
        }
    }

    /// Takes all rights that a member has on things.
    fn release(
        &mut self,
        member: MemberNumber,
        held: impl IntoIterator<Item = KeyId>,
        served: &mut Served,
    ) {
        for id in held {
            let mut is_waited_for = false;
            self.things
                .entries
                .remove_if(id, |KeyEntry { state: entry, .. }| {
                    entry.holders.set(member, Rights::NONE);
                    is_waited_for = entry.waits.is_some();
                    entry.is_idle()
                });
            if is_waited_for {
                self.serve(id, served);
            }
        }
    }

    /// Grants what can be granted of one thing, and drops its entry when it is no longer used.
    fn serve(&mut self, id: KeyId, served: &mut Served) {
        let Some(entry) = self.things.entries.get_mut(id) else {
            return;
        };
        let entry = &mut entry.state;
        while let Some(PartRequest { member, part, .. }) = entry.next() {
            let Some(account) = self.members.get_mut(member) else {
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
                    account.held.push(id);
                }
            }
            if asks.missing == 0 {
                account.asks = None;
                served.push(member);
            }
        }
        if entry.waits.is_none() {
            if self.things.contended.remove(&id) && self.things.contended.is_empty() {
                self.things.contended.shrink_to(KEPT);
            }
            self.things
                .entries
                .remove_if(id, |entry| entry.state.is_idle());
        }
    }

    /// Returns what a member waits for: each thing, the requested rights, and how many requests are
    /// ahead.
    pub(crate) fn waits_for(
        &self,
        member: MemberNumber,
    ) -> impl Iterator<Item = (&K, Rights, usize)> {
        let parts = self.waiting_parts(member);
        parts.map(|(part, key, entry)| (key, part.wanted, entry.ahead_of(part.state)))
    }

    /// Returns where a member waits; of several things, the one with the most requests ahead. Lists
    /// at most `most` of these.
    pub(crate) fn longest_wait(
        &self,
        member: MemberNumber,
        most: usize,
    ) -> Option<LongestWait<'_, K>> {
        let parts = self.waiting_parts(member);
        let parts = parts.map(|found| (found.2.ahead_of(found.0.state), found));
        let (ahead, (part, key, entry)) = parts.max_by_key(|(ahead, _)| *ahead)?;
        let queued = entry.queued().take(ahead.min(most));
        Some(LongestWait {
            key,
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
        self.waiting_parts(member).filter_map(|(part, _, entry)| {
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
        let delaying = self
            .waiting_parts(member)
            .flat_map(move |(part, _, entry)| {
                let ahead = entry.directly_ahead(part.state);
                let is_known = ahead.is_some_and(|ahead| ahead.rights.contain(part.wanted));
                let holders = entry.holders.iter().filter(move |&(other, rights)| {
                    step();
                    !is_known && other != member && rights.exclude(part.wanted)
                });
                let holders = holders.map(|(other, _)| other);
                let ahead = entry.upgrades_ahead(member, part.wanted).chain(ahead);
                holders.chain(ahead.map(|queued| queued.member))
            });
        // A holder may have got more rights already, or waits for them ahead of others.
        let account = self.members.get(member);
        let asks = account.and_then(|account| account.asks.as_ref());
        let own = asks.filter(|asks| asks.held_before > 0).map(|_| member);
        delaying.chain(own)
    }

    /// Whether the rights of a member exclude those that another one waits for.
    pub(crate) fn excludes(&self, member: MemberNumber, waiting: MemberNumber) -> bool {
        let mut parts = self.waiting_parts(waiting);
        member != waiting && parts.any(|(part, _, entry)| entry.rights(member).exclude(part.wanted))
    }

    /// Returns at most `most` of the members that a member waits for, without duplicates. Holders
    /// of rights come first. Of the waiting requests it is only the one directly ahead, which waits
    /// for the others. The time does not depend on the lengths of the queues.
    pub(crate) fn nearest_blockers(&self, member: MemberNumber, most: usize) -> Vec<MemberNumber> {
        let parts = || self.waiting_parts(member).take(most);
        let ahead = parts().flat_map(|(part, _, entry)| {
            let upgrades = entry.upgrades_ahead(member, part.wanted);
            let ahead = upgrades.chain(entry.directly_ahead(part.state));
            ahead.map(|queued| queued.member)
        });
        let holders = parts().flat_map(|(part, _, entry)| entry.excluding(member, part.wanted));
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
        let account = self.members.get(member);
        let asks = account.and_then(|account| account.asks.as_ref());
        let held = account.map_or(0, |account| account.held.len());
        [held, asks.map_or(0, |asks| asks.missing)]
    }

    /// Returns all members that some other member waits for, in no order and with duplicates. It
    /// visits the waiting requests and the things that they wait for.
    pub(crate) fn delaying(&self) -> impl Iterator<Item = MemberNumber> {
        let contended = self.things.contended.iter();
        let entries = contended.filter_map(|id| self.things.get(*id));
        entries.flat_map(TableEntry::delaying)
    }

    /// Returns the parts of a request that wait, each with its thing.
    fn waiting_parts(
        &self,
        member: MemberNumber,
    ) -> impl Iterator<Item = (&Part, &K, &TableEntry)> {
        let account = self.members.get(member);
        let asks = account.and_then(|account| account.asks.as_ref());
        let parts = asks.into_iter().flat_map(|asks| &asks.parts);
        let waiting = parts.filter(|part| part.state != PartState::Granted);
        waiting.filter_map(|part| {
            let entry = self.things.entries.get(part.id)?;
            Some((part, entry.key(), &entry.state))
        })
    }

    /// Whether a request of another member may wait for what this one has, directly.
    fn may_delay_another(&self, member: MemberNumber) -> bool {
        // No member waits for a member that has had nothing until now.
        let had_rights = |asks: &Asks| asks.held_before > 0;
        let account = self.members.get(member);
        let Some(account) = account.filter(|it| it.asks.as_deref().is_some_and(had_rights)) else {
            return false;
        };
        let is_waited_for = |id: &KeyId| {
            step();
            let entry = self.things.get(*id);
            let entry = entry.filter(|entry| entry.rights(member) != Rights::NONE);
            let waits = entry.and_then(|entry| entry.waits.as_ref());
            waits.is_some_and(|waits| {
                // One of the upgrades may be its own.
                let mut upgrades = waits.upgrades.iter(None).take(2);
                !waits.list.is_empty() || upgrades.any(|(_, queued)| queued.member != member)
            })
        };
        match self.things.contended.len() < account.held.len() {
            true => self.things.contended.iter().any(is_waited_for),
            false => account.held.iter().any(is_waited_for),
        }
    }

    /// Returns a cycle that a member's request has closed, beginning with the member. One of its
    /// members has to [withdraw](Self::withdraw).
    ///
    /// Breadth first. Each member is visited once, and each request and each holder of a thing at
    /// most twice for each right that waits for it.
    pub(crate) fn cycle(&self, member: MemberNumber) -> Option<Vec<Link<K>>> {
        if !self.may_delay_another(member) {
            return None;
        }
        // Each link with the index of the one before it, and the member to which it leads.
        let mut way: Vec<(Option<usize>, Link<K>, MemberNumber)> = Vec::new();
        let mut reached = HashSet::<_, Secret>::from_iter([member]);
        let mut walked = HashMap::<KeyId, Walked, Secret>::default();
        let (mut waiting, mut before) = (member, None);
        loop {
            for (part, key, entry) in self.waiting_parts(waiting) {
                let known = way.len();
                let request = (waiting, part.wanted, part.state);
                entry.walk(
                    request,
                    walked.entry(part.id).or_default(),
                    |next, next_has| {
                        if next == member || reached.insert(next) {
                            let link = Link {
                                member: waiting,
                                key: key.clone(),
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
