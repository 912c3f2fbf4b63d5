//! The table against a model that does the same with lists, over and over.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::super::LockMode::{self, *};
use super::*;

const KEYS: u8 = 4;
const MEMBERS: u64 = 8;

#[derive(Clone, Debug)]
enum Call {
    Ask(MemberNumber, Vec<(u8, LockMode)>),
    Withdraw(MemberNumber),
    /// Only of a first request.
    AskAgain(MemberNumber),
    Dismiss(MemberNumber),
}

fn mode() -> impl Strategy<Value = LockMode> {
    prop::sample::select(vec![
        IntentionShared,
        IntentionExclusive,
        NodeShared,
        NodeExclusive,
        Shared,
        SharedIntentionExclusive,
        Exclusive,
    ])
}

/// Few members on many things, and many on one: then several holders of it request more at once.
fn calls() -> impl Strategy<Value = Vec<Call>> {
    let sizes = (2..=MEMBERS, 1..=KEYS, 0..4_u32);
    sizes.prop_flat_map(|(members, keys, ends)| {
        let member = 0..members;
        let set = prop::collection::btree_map(0..keys, mode(), 1..4);
        let set = set.prop_map(|set| set.into_iter().collect());
        prop::collection::vec(
            prop_oneof![
                6 => (member.clone(), set).prop_map(|(member, set)| Call::Ask(member, set)),
                1 => member.clone().prop_map(Call::Withdraw),
                1 => member.clone().prop_map(Call::AskAgain),
                ends => member.prop_map(Call::Dismiss),
            ],
            1..60,
        )
    })
}

/// Holders and requests as lists. A part of a request is granted by reading all that came before
/// it.
#[derive(Clone, Default)]
struct Model {
    holders: Vec<(MemberNumber, u8, Rights)>,
    /// In FIFO order.
    asks: Vec<(MemberNumber, Vec<ModelPart>)>,
}

#[derive(Clone)]
struct ModelPart {
    key: u8,
    before: Rights,
    wanted: Rights,
    granted: bool,
}

impl Model {
    fn rights(&self, member: MemberNumber, key: u8) -> Rights {
        let mut holders = self.holders.iter();
        let holder = holders.find(|holder| (holder.0, holder.1) == (member, key));
        holder.map_or(Rights::NONE, |holder| holder.2)
    }

    fn set(&mut self, member: MemberNumber, key: u8, rights: Rights) {
        self.holders
            .retain(|holder| (holder.0, holder.1) != (member, key));
        if rights != Rights::NONE {
            self.holders.push((member, key, rights));
        }
    }

    fn waits(&self, member: MemberNumber) -> bool {
        self.asks.iter().any(|ask| ask.0 == member)
    }

    /// The requests in the queue of a thing, without upgrades.
    fn queue(&self, key: u8) -> Vec<(MemberNumber, Rights)> {
        let asks = self.asks.iter();
        let parts = asks.flat_map(|(member, parts)| parts.iter().map(|part| (*member, part)));
        let queued = |part: &ModelPart| !part.granted && part.before == Rights::NONE;
        let queued = parts.filter(|(_, part)| part.key == key && queued(part));
        queued.map(|(member, part)| (member, part.wanted)).collect()
    }

    fn ask(&mut self, member: MemberNumber, set: &[(u8, LockMode)]) {
        let parts = set.iter().filter_map(|&(key, mode)| {
            let before = self.rights(member, key);
            let wanted = before.and(mode.into());
            (before != wanted).then_some(ModelPart {
                key,
                before,
                wanted,
                granted: false,
            })
        });
        let parts = parts.collect();
        self.asks.push((member, parts));
        self.settle();
    }

    fn withdraw(&mut self, member: MemberNumber) {
        let Some(at) = self.asks.iter().position(|ask| ask.0 == member) else {
            return;
        };
        for part in self.asks.remove(at).1 {
            if part.granted {
                self.set(member, part.key, part.before);
            }
        }
        self.settle();
    }

    /// Whether a member waits that had nothing before.
    fn waits_first(&self, member: MemberNumber) -> bool {
        let mut asks = self.asks.iter();
        let parts = asks.find(|ask| ask.0 == member).map(|ask| &ask.1);
        parts.is_some_and(|parts| {
            let granted = parts.iter().filter(|part| part.granted).count();
            let held = self.holders.iter().filter(|holder| holder.0 == member);
            parts.iter().all(|part| part.before == Rights::NONE) && held.count() == granted
        })
    }

    fn ask_again(&mut self, member: MemberNumber) {
        let asks = self.asks.iter();
        let mut again: Vec<_> = asks.filter(|ask| ask.0 == member).cloned().collect();
        self.withdraw(member);
        let parts = again.iter_mut().flat_map(|ask| &mut ask.1);
        parts.for_each(|part| part.granted = false);
        self.asks.append(&mut again);
        self.settle();
    }

    fn dismiss(&mut self, member: MemberNumber) {
        self.asks.retain(|ask| ask.0 != member);
        self.holders.retain(|holder| holder.0 != member);
        self.settle();
    }

    fn settle(&mut self) {
        while let Some((ask, part)) = self.grantable() {
            self.asks[ask].1[part].granted = true;
            let (member, ModelPart { key, wanted, .. }) =
                (self.asks[ask].0, self.asks[ask].1[part].clone());
            self.set(member, key, wanted);
        }
        self.asks
            .retain(|(_, parts)| parts.iter().any(|part| !part.granted));
    }

    /// Returns some part that no holder excludes, nor, if its member has nothing there yet, an
    /// upgrade or an earlier request.
    fn grantable(&self) -> Option<(usize, usize)> {
        let all = |key: u8| {
            let parts = self.asks.iter().flat_map(|(_, parts)| parts);
            parts.filter(move |part| part.key == key && !part.granted)
        };
        for (ask, (member, parts)) in self.asks.iter().enumerate() {
            for (at, part) in parts.iter().enumerate().filter(|(_, part)| !part.granted) {
                let mut holders = self.holders.iter();
                let excluded = holders.any(|&(other, key, rights)| {
                    other != *member && key == part.key && rights.exclude(part.wanted)
                });
                let is_first = all(part.key).find(|other| other.before == Rights::NONE);
                let is_first = is_first.is_some_and(|first| std::ptr::eq(first, part));
                let upgrades = all(part.key).filter(|other| other.before != Rights::NONE);
                let mut ahead = upgrades.take_while(|other| !std::ptr::eq(*other, part));
                let is_held_up = ahead.any(|upgrade| upgrade.wanted.exclude(part.wanted));
                let admitted = (part.before != Rights::NONE || is_first) && !is_held_up;
                if !excluded && admitted {
                    return Some((ask, at));
                }
            }
        }
        None
    }

    /// Whether all requests are served if members that wait for nothing end, one after the other.
    fn comes_to_an_end(mut self) -> bool {
        loop {
            let mut members = (0..MEMBERS).filter(|&member| !self.waits(member));
            let Some(member) =
                members.find(|&member| self.holders.iter().any(|holder| holder.0 == member))
            else {
                return self.asks.is_empty();
            };
            self.dismiss(member);
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Asked<K> {
    Granted,
    Waits,
    /// It closed a cycle, and is withdrawn.
    Refused(Vec<Link<K>>),
}

/// Requests rights, for a new member or one that is there.
fn ask<K: Clone + Default + Eq + Hash>(
    table: &mut LockTable<K>,
    member: MemberNumber,
    set: &[(K, Rights)],
) -> Asked<K> {
    let granted = match table.member(member) {
        Some(()) => table.ask(member, &mut set.to_vec()),
        None => table.admit(member, &mut set.to_vec()).0,
    };
    if granted {
        return Asked::Granted;
    }
    let Some(cycle) = table.cycle(member) else {
        return Asked::Waits;
    };
    let served = table.withdraw(member);
    assert!(
        served.is_empty(),
        "it has just asked, and delayed no member"
    );
    Asked::Refused(cycle)
}

fn dismiss<K: Clone + Default + Eq + Hash>(
    table: &mut LockTable<K>,
    member: MemberNumber,
) -> Served {
    table
        .dismiss(member)
        .map(|(_, served)| served)
        .unwrap_or_default()
}

/// The members that a member waits for, without duplicates.
fn blockers(table: &LockTable<u8>, member: MemberNumber) -> Vec<MemberNumber> {
    let mut members = BTreeSet::new();
    for (part, _, entry) in table.waiting_parts(member) {
        let request = (member, part.wanted, part.state);
        entry.walk(request, &mut Walked::default(), |other, _| {
            members.insert(other);
        });
    }
    members.into_iter().collect()
}

/// The members that a member waits for, directly or over others.
fn reached(
    member: MemberNumber,
    blockers: impl Fn(MemberNumber) -> Vec<MemberNumber>,
) -> BTreeSet<MemberNumber> {
    let mut found = BTreeSet::new();
    let mut next = blockers(member);
    while let Some(member) = next.pop() {
        if found.insert(member) {
            next.extend(blockers(member));
        }
    }
    found
}

/// What a timeout says of a wait is what the model has of one thing.
fn same_wait(
    table: &LockTable<u8>,
    model: &Model,
    member: MemberNumber,
) -> Result<(), TestCaseError> {
    let Some(wait) = table.longest_wait(member, 2) else {
        prop_assert!(!model.waits(member));
        return Ok(());
    };
    let longest = table.waits_for(member).map(|(_, _, ahead)| ahead).max();
    prop_assert_eq!(Some(wait.ahead), longest);
    let queue = model.queue(*wait.key);
    let at = queue.iter().position(|(queued, _)| *queued == member);
    // An upgrade is not in the queue.
    prop_assert_eq!(wait.ahead, at.unwrap_or(0));
    let first: Vec<_> = queue[..wait.ahead.min(2)].iter().map(|it| it.0).collect();
    prop_assert_eq!(&wait.queued, &first);
    let behind = at.and_then(|at| queue.get(at + 1)).map(|it| it.0);
    let found: Vec<_> = table.directly_behind(member).collect();
    prop_assert!(behind.is_none_or(|behind| found.contains(&behind)));
    match wait.holder {
        Some(holder) => {
            prop_assert_ne!(holder, member);
            prop_assert!(model.rights(holder, *wait.key) != Rights::NONE);
        }
        // All that is in the way is ahead.
        None => prop_assert!(wait.ahead > 0),
    }
    Ok(())
}

fn same(table: &LockTable<u8>, model: &Model) -> Result<(), TestCaseError> {
    for member in 0..MEMBERS {
        for key in 0..KEYS {
            let found = table
                .entry(&key)
                .map_or(Rights::NONE, |entry| entry.rights(member));
            let expected = model.rights(member, key);
            prop_assert_eq!(found, expected, "rights of {} on {}", member, key);
        }
        let waits = table.waits_for(member).next().is_some();
        prop_assert_eq!(waits, model.waits(member), "{} waits", member);
        prop_assert_eq!(
            !blockers(table, member).is_empty(),
            waits,
            "{} waits for another",
            member
        );
    }
    for member in 0..MEMBERS {
        let nearest = table.nearest_blockers(member, 16);
        prop_assert_eq!(nearest.is_empty(), !model.waits(member));
        prop_assert!(!nearest.contains(&member), "{} waits for itself", member);
        let indirectly = reached(member, |member| table.nearest_blockers(member, 16));
        let all = reached(member, |member| blockers(table, member));
        prop_assert!(all.is_subset(&indirectly), "{:?} of {:?}", indirectly, all);
        same_wait(table, model, member)?;
    }
    let delaying: BTreeSet<_> = table.delaying().collect();
    let blockers: BTreeSet<_> = (0..MEMBERS)
        .flat_map(|member| blockers(table, member))
        .collect();
    prop_assert_eq!(delaying, blockers, "whom the others wait for");
    for one in &model.holders {
        for other in &model.holders {
            let apart = one.0 == other.0 || one.1 != other.1 || !one.2.exclude(other.2);
            prop_assert!(apart, "{:?} beside {:?}", one, other);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn the_lock_table_agrees_with_a_plain_model(calls in calls()) {
        let (mut table, mut model) = (LockTable::default(), Model::default());
        // Those that delayed a request when it began to wait, or were granted something beside one.
        let mut watched = BTreeSet::new();
        for call in calls {
            match call {
                Call::Ask(member, set) if !model.waits(member) => {
                    let mut after = model.clone();
                    after.ask(member, &set);
                    let rights: Vec<_> = set.iter().map(|&(key, mode)| (key, mode.into())).collect();
                    let would_wait = table.in_the_way(member, &rights).is_some();
                    let asked = ask(&mut table, member, &rights);
                    prop_assert_eq!(would_wait, asked != Asked::Granted);
                    match asked {
                        Asked::Granted => {
                            prop_assert!(!after.waits(member));
                            watched.extend((!after.asks.is_empty()).then_some(member));
                        }
                        Asked::Waits => prop_assert!(after.clone().comes_to_an_end(), "a cycle was not seen"),
                        Asked::Refused(cycle) => {
                            prop_assert!(!after.clone().comes_to_an_end(), "there is no cycle {:?}", cycle);
                            prop_assert_eq!(cycle[0].member, member);
                            let nexts = cycle.iter().cycle().skip(1);
                            for (link, next) in cycle.iter().zip(nexts) {
                                let waits = after.waits(link.member);
                                prop_assert!(waits, "{:?} in {:?}", link, cycle);
                                let rights = |member| model.rights(member, link.key);
                                prop_assert_eq!(link.has, rights(link.member));
                                let now = after.rights(next.member, link.key);
                                prop_assert_eq!(link.next_has, now);
                            }
                            after = model;
                        }
                    }
                    watched.extend(table.newly_delaying(member));
                    model = after;
                }
                Call::Ask(..) => {}
                Call::Withdraw(member) => {
                    let waited: Vec<_> = (0..MEMBERS).filter(|&member| model.waits(member)).collect();
                    let served = table.withdraw(member);
                    model.withdraw(member);
                    watched.extend(served.iter().filter(|_| !model.asks.is_empty()));
                    for other in waited {
                        let expected = other != member && !model.waits(other);
                        prop_assert_eq!(served.contains(&other), expected);
                    }
                }
                Call::AskAgain(member) if model.waits_first(member) => {
                    let waited: Vec<_> = (0..MEMBERS).filter(|&member| model.waits(member)).collect();
                    let (granted, served) = table.ask_again(member);
                    let mut withdrawn = model.clone();
                    withdrawn.withdraw(member);
                    model.ask_again(member);
                    prop_assert_eq!(granted, !model.waits(member));
                    prop_assert!(model.clone().comes_to_an_end(), "it closes a cycle");
                    for other in waited {
                        let expected = other != member && !withdrawn.waits(other);
                        prop_assert_eq!(served.contains(&other), expected);
                    }
                    watched.extend(served);
                    watched.extend(table.newly_delaying(member));
                }
                Call::AskAgain(_) => {}
                Call::Dismiss(member) => {
                    let waited: Vec<_> = (0..MEMBERS).filter(|&member| model.waits(member)).collect();
                    let served = dismiss(&mut table, member);
                    model.dismiss(member);
                    watched.extend(served.iter().filter(|_| !model.asks.is_empty()));
                    for other in waited {
                        let expected = other != member && !model.waits(other);
                        prop_assert_eq!(served.contains(&other), expected);
                    }
                }
            }
            same(&table, &model)?;
            let delaying = table.delaying().collect::<BTreeSet<_>>();
            prop_assert!(delaying.is_subset(&watched), "{:?} of {:?}", delaying, watched);
        }
        for member in 0..MEMBERS {
            table.dismiss(member);
        }
        prop_assert_eq!((table.len(), table.has_members()), (0, false));
        prop_assert!(table.things.contended.is_empty());
    }

    /// A request for all rights at once, of a member without any, is never refused, and all
    /// requests are served in the end.
    #[test]
    fn sets_that_are_requested_at_once_never_close_a_cycle(
        sets in prop::collection::vec(prop::collection::btree_map(0..KEYS, mode(), 1..4), 1..12),
    ) {
        let mut table = LockTable::default();
        let mut running = Vec::new();
        let count = sets.len() as MemberNumber;
        for (member, set) in (0..).zip(sets) {
            let set: Vec<_> = set.into_iter().map(|(key, mode)| (key, mode.into())).collect();
            match ask(&mut table, member, &set) {
                Asked::Granted => running.push(member),
                Asked::Waits => {}
                Asked::Refused(cycle) => prop_assert!(false, "{cycle:?}"),
            }
        }
        let mut served = 0;
        while let Some(member) = running.pop() {
            served += 1;
            running.extend(dismiss(&mut table, member));
        }
        prop_assert_eq!(served, count);
        prop_assert_eq!(table.len(), 0);
    }
}

/// The second and the third wait for each other. A walk of the requests ahead of the second one has
/// visited all holders but the third.
#[test]
fn the_third_of_three_holders_that_request_more_of_one_thing_closes_a_cycle() {
    let mut table = LockTable::default();
    let ask = |table: &mut LockTable<u8>, member, mode: LockMode| {
        ask(table, member, &[(0, Rights::from(mode))])
    };
    for member in 1..4 {
        assert_eq!(ask(&mut table, member, IntentionExclusive), Asked::Granted);
    }
    assert_eq!(ask(&mut table, 4, NodeExclusive), Asked::Granted);
    assert_eq!(ask(&mut table, 1, NodeShared), Asked::Waits);
    assert_eq!(ask(&mut table, 2, Shared), Asked::Waits);
    let asked = ask(&mut table, 3, Shared);
    let Asked::Refused(cycle) = asked else {
        panic!("{asked:?}");
    };
    assert_eq!(cycle[0].member, 3);
    assert_eq!(cycle.len(), 2, "{cycle:?}");
}

#[test]
fn a_million_released_keys_leave_no_entry_and_little_memory() {
    let mut table = LockTable::default();
    for key in 0..1_000_000u32 {
        let asked = ask(&mut table, 1, &[(key, Exclusive.into())]);
        assert_eq!(asked, Asked::Granted);
    }
    table.dismiss(1);
    assert_eq!((table.len(), table.has_members()), (0, false));
    let [_, room] = table.things.entries.sizes();
    assert!(room <= 8 * KEPT, "{room}");
    let spare = table.spare.as_ref().unwrap();
    assert!(spare.held.capacity() <= KEPT);
}

#[test]
fn many_dismissed_members_leave_little_memory() {
    let mut table = LockTable::default();
    let members = 1..=100_000u64;
    for member in members.clone() {
        let asked = ask(&mut table, member, &[(member, Exclusive.into())]);
        assert_eq!(asked, Asked::Granted);
    }
    for member in members {
        assert!(dismiss(&mut table, member).is_empty());
    }
    let room = (table.members.0.capacity(), table.things.entries.sizes()[1]);
    assert!(room.0 <= 4 * KEPT && room.1 <= 8 * KEPT, "{room:?}");
}

/// It has a right there, gets another one at once, and waits for a second thing.
#[test]
fn a_holder_that_waits_delays_those_that_its_new_rights_exclude() {
    let mut table = LockTable::default();
    let mut ask = |member, set: &[(u8, LockMode)]| {
        let set: Vec<_> = set.iter().map(|&(key, mode)| (key, mode.into())).collect();
        ask(&mut table, member, &set)
    };
    assert_eq!(ask(2, &[(1, NodeShared)]), Asked::Granted);
    let both = [(0, IntentionExclusive), (1, IntentionExclusive)];
    assert_eq!(ask(1, &both), Asked::Granted);
    assert_eq!(ask(0, &[(0, Shared), (1, Shared)]), Asked::Waits);
    let more = [(0, NodeShared), (1, IntentionExclusive)];
    assert_eq!(ask(2, &more), Asked::Waits);
    assert!(table.newly_delaying(2).any(|member| member == 2));
}
