//! The table against a model that does the same with lists, over and over.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::super::LockMode::{self, *};
use super::*;

const KEYS: u8 = 4;
const PARTIES: u64 = 5;

#[derive(Clone, Debug)]
enum Call {
    Ask(Party, Vec<(u8, LockMode)>),
    Withdraw(Party),
    Dismiss(Party),
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

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let party = 0..PARTIES;
    let set = prop::collection::btree_map(0..KEYS, mode(), 1..4);
    let set = set.prop_map(|set| set.into_iter().collect());
    prop::collection::vec(
        prop_oneof![
            6 => (party.clone(), set).prop_map(|(party, set)| Call::Ask(party, set)),
            1 => party.clone().prop_map(Call::Withdraw),
            3 => party.prop_map(Call::Dismiss),
        ],
        1..60,
    )
}

/// Holders and requests as lists. A part of a request is granted by reading all that came before
/// it.
#[derive(Clone, Default)]
struct Model {
    holders: Vec<(Party, u8, Rights)>,
    /// In FIFO order.
    asks: Vec<(Party, Vec<ModelPart>)>,
}

#[derive(Clone)]
struct ModelPart {
    key: u8,
    before: Rights,
    wanted: Rights,
    granted: bool,
}

impl Model {
    fn rights(&self, party: Party, key: u8) -> Rights {
        let mut holders = self.holders.iter();
        let holder = holders.find(|holder| (holder.0, holder.1) == (party, key));
        holder.map_or(Rights::NONE, |holder| holder.2)
    }

    fn set(&mut self, party: Party, key: u8, rights: Rights) {
        self.holders
            .retain(|holder| (holder.0, holder.1) != (party, key));
        if rights != Rights::NONE {
            self.holders.push((party, key, rights));
        }
    }

    fn waits(&self, party: Party) -> bool {
        self.asks.iter().any(|ask| ask.0 == party)
    }

    fn ask(&mut self, party: Party, set: &[(u8, LockMode)]) {
        let parts = set.iter().filter_map(|&(key, mode)| {
            let before = self.rights(party, key);
            let wanted = before.and(mode.into());
            (before != wanted).then_some(ModelPart {
                key,
                before,
                wanted,
                granted: false,
            })
        });
        let parts = parts.collect();
        self.asks.push((party, parts));
        self.settle();
    }

    fn withdraw(&mut self, party: Party) {
        let Some(at) = self.asks.iter().position(|ask| ask.0 == party) else {
            return;
        };
        for part in self.asks.remove(at).1 {
            if part.granted {
                self.set(party, part.key, part.before);
            }
        }
        self.settle();
    }

    fn dismiss(&mut self, party: Party) {
        self.asks.retain(|ask| ask.0 != party);
        self.holders.retain(|holder| holder.0 != party);
        self.settle();
    }

    fn settle(&mut self) {
        while let Some((ask, part)) = self.grantable() {
            self.asks[ask].1[part].granted = true;
            let (party, ModelPart { key, wanted, .. }) =
                (self.asks[ask].0, self.asks[ask].1[part].clone());
            self.set(party, key, wanted);
        }
        self.asks
            .retain(|(_, parts)| parts.iter().any(|part| !part.granted));
    }

    /// Returns some part that no holder excludes, nor, if its party has nothing there yet, an
    /// upgrade or an earlier request.
    fn grantable(&self) -> Option<(usize, usize)> {
        let all = |key: u8| {
            let parts = self.asks.iter().flat_map(|(_, parts)| parts);
            parts.filter(move |part| part.key == key && !part.granted)
        };
        for (ask, (party, parts)) in self.asks.iter().enumerate() {
            for (at, part) in parts.iter().enumerate().filter(|(_, part)| !part.granted) {
                let mut holders = self.holders.iter();
                let excluded = holders.any(|&(other, key, rights)| {
                    other != *party && key == part.key && rights.exclude(part.wanted)
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

    /// Whether all requests are served if parties that wait for nothing end, one after the other.
    fn comes_to_an_end(mut self) -> bool {
        loop {
            let mut parties = (0..PARTIES).filter(|&party| !self.waits(party));
            let Some(party) =
                parties.find(|&party| self.holders.iter().any(|holder| holder.0 == party))
            else {
                return self.asks.is_empty();
            };
            self.dismiss(party);
        }
    }
}

/// The parties that a party waits for, directly or over others.
fn reached(party: Party, blockers: impl Fn(Party) -> Vec<Party>) -> BTreeSet<Party> {
    let mut found = BTreeSet::new();
    let mut next = blockers(party);
    while let Some(party) = next.pop() {
        if found.insert(party) {
            next.extend(blockers(party));
        }
    }
    found
}

fn same(table: &LockTable<u8>, model: &Model) -> Result<(), TestCaseError> {
    for party in 0..PARTIES {
        for key in 0..KEYS {
            let (found, expected) = (table.rights(party, &key), model.rights(party, key));
            prop_assert_eq!(found, expected, "rights of {} on {}", party, key);
        }
        let waits = table.waits_for(party).next().is_some();
        prop_assert_eq!(waits, model.waits(party), "{} waits", party);
        prop_assert_eq!(
            !table.blockers(party).is_empty(),
            waits,
            "{} waits for another",
            party
        );
    }
    for party in 0..PARTIES {
        let nearest = table.nearest_blockers(party, 16);
        prop_assert_eq!(nearest.is_empty(), !model.waits(party));
        prop_assert!(!nearest.contains(&party), "{} waits for itself", party);
        let indirectly = reached(party, |party| table.nearest_blockers(party, 16));
        let all = reached(party, |party| table.blockers(party));
        prop_assert!(all.is_subset(&indirectly), "{:?} of {:?}", indirectly, all);
    }
    let delaying: BTreeSet<_> = table.delaying().collect();
    let blockers: BTreeSet<_> = (0..PARTIES)
        .flat_map(|party| table.blockers(party))
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
        for call in calls {
            match call {
                Call::Ask(party, set) if !model.waits(party) => {
                    let mut after = model.clone();
                    after.ask(party, &set);
                    let rights: Vec<_> = set.iter().map(|&(key, mode)| (key, mode.into())).collect();
                    let would_wait = table.in_the_way(party, &rights).is_some();
                    let asked = table.ask(party, rights);
                    prop_assert_eq!(would_wait, asked != Asked::Granted);
                    match asked {
                        Asked::Granted => prop_assert!(!after.waits(party)),
                        Asked::Waits => prop_assert!(after.clone().comes_to_an_end(), "a cycle was not seen"),
                        Asked::Refused(cycle) => {
                            prop_assert!(!after.comes_to_an_end(), "there is no cycle {:?}", cycle);
                            prop_assert_eq!(cycle[0].party, party);
                            after = model;
                        }
                    }
                    model = after;
                }
                Call::Ask(..) => {}
                Call::Withdraw(party) => {
                    let waited: Vec<_> = (0..PARTIES).filter(|&party| model.waits(party)).collect();
                    let served = table.withdraw(party);
                    model.withdraw(party);
                    for other in waited {
                        let expected = other != party && !model.waits(other);
                        prop_assert_eq!(served.contains(&other), expected);
                    }
                }
                Call::Dismiss(party) => {
                    let waited: Vec<_> = (0..PARTIES).filter(|&party| model.waits(party)).collect();
                    let served = table.dismiss(party);
                    model.dismiss(party);
                    for other in waited {
                        let expected = other != party && !model.waits(other);
                        prop_assert_eq!(served.contains(&other), expected);
                    }
                }
            }
            same(&table, &model)?;
        }
        for party in 0..PARTIES {
            table.dismiss(party);
        }
        prop_assert_eq!((table.len(), table.parties.len()), (0, 0));
        prop_assert!(table.contended.is_empty());
    }

    /// A request for all rights at once, of a party without any, is never refused, and all requests
    /// are served in the end.
    #[test]
    fn sets_that_are_requested_at_once_never_close_a_cycle(
        sets in prop::collection::vec(prop::collection::btree_map(0..KEYS, mode(), 1..4), 1..12),
    ) {
        let mut table = LockTable::default();
        let mut running = Vec::new();
        let count = sets.len() as Party;
        for (party, set) in (0..).zip(sets) {
            match table.ask(party, set.into_iter().map(|(key, mode)| (key, mode.into()))) {
                Asked::Granted => running.push(party),
                Asked::Waits => {}
                Asked::Refused(cycle) => prop_assert!(false, "{cycle:?}"),
            }
        }
        let mut served = 0;
        while let Some(party) = running.pop() {
            served += 1;
            running.extend(table.dismiss(party));
        }
        prop_assert_eq!(served, count);
        prop_assert_eq!(table.len(), 0);
    }
}

fn granted(table: &mut LockTable<u8>, party: Party, key: u8, mode: LockMode) -> bool {
    table.ask(party, [(key, mode.into())]) == Asked::Granted
}

/// A later request does not overtake, even if it would fit beside the holder.
#[test]
fn a_compatible_request_waits_behind_an_incompatible_one() {
    let mut table = LockTable::default();
    assert!(granted(&mut table, 1, 0, Shared));
    assert!(!granted(&mut table, 2, 0, Exclusive));
    assert!(!granted(&mut table, 3, 0, Shared));
    assert_eq!(
        table.blockers(3),
        [1, 2],
        "the holder, because the other waits for it"
    );
    assert_eq!(*table.withdraw(2), [3]);
}

#[test]
fn a_second_upgrade_of_one_key_is_a_cycle_of_two() {
    let mut table = LockTable::default();
    assert!(granted(&mut table, 1, 7, Shared));
    assert!(granted(&mut table, 2, 7, Shared));
    assert!(!granted(&mut table, 1, 7, Exclusive));
    let shared = Rights::from(Shared);
    let link = |party| Link {
        party,
        key: 7,
        wants: Exclusive.into(),
        has: shared,
        next_has: shared,
    };
    let refused = table.ask(2, [(7, Exclusive.into())]);
    assert_eq!(refused, Asked::Refused(vec![link(2), link(1)]));
    assert_eq!(table.rights(2, &7), shared, "what it had it has");
    assert_eq!(*table.dismiss(2), [1]);
}

/// An upgrade goes ahead of the queue, because the queue may wait for it.
#[test]
fn an_upgrade_goes_ahead_of_the_queue() {
    let mut table = LockTable::default();
    assert!(granted(&mut table, 1, 0, Shared));
    assert!(granted(&mut table, 2, 0, Shared));
    assert!(!granted(&mut table, 3, 0, Exclusive));
    assert!(!granted(&mut table, 1, 0, Exclusive));
    assert_eq!(*table.dismiss(2), [1]);
    assert_eq!(*table.dismiss(1), [3]);
}

#[test]
fn a_million_released_keys_leave_no_entry_and_little_memory() {
    let mut table = LockTable::default();
    for key in 0..1_000_000u32 {
        assert_eq!(table.ask(1, [(key, Exclusive.into())]), Asked::Granted);
    }
    table.dismiss(1);
    assert_eq!((table.len(), table.parties.len()), (0, 0));
    assert!(
        table.entries.capacity() <= 4 * KEPT,
        "{}",
        table.entries.capacity()
    );
}

#[test]
fn many_dismissed_parties_leave_little_memory() {
    let mut table = LockTable::default();
    let parties = 1..=100_000u64;
    for party in parties.clone() {
        assert_eq!(
            table.ask(party, [(party, Exclusive.into())]),
            Asked::Granted
        );
    }
    for party in parties {
        assert!(table.dismiss(party).is_empty());
    }
    let room = (table.parties.capacity(), table.entries.capacity());
    assert!(room.0 <= 4 * KEPT && room.1 <= 4 * KEPT, "{room:?}");
}
