//! Maps of random edits, compared with sequences of numbered items.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::sample::Index;

use super::*;
use crate::steps::counted;

/// The items of each sequence; original items are below [`INSERTED`], and all are distinct.
#[derive(Clone, Debug, Default)]
struct World {
    items: BTreeMap<NodeId, Vec<u32>>,
    given: u32,
}

const INSERTED: u32 = 1000;

#[derive(Clone, Debug)]
enum Edit {
    Splice(Index, Index, usize, usize),
    Split(Index, Index),
    Join(Index, Index),
}

/// An edit that was made, with what it replaced.
#[derive(Clone, Debug)]
enum Made {
    Splice(NodeId, usize, Vec<u32>, usize),
    Split(NodeId, usize, NodeId),
    Join(NodeId, usize, NodeId),
}

fn edit() -> impl Strategy<Value = Edit> {
    let index = any::<Index>;
    prop_oneof![
        4 => (index(), index(), 0..4usize, 0..4usize)
            .prop_map(|(id, at, removed, inserted)| Edit::Splice(id, at, removed, inserted)),
        2 => (index(), index()).prop_map(|(id, at)| Edit::Split(id, at)),
        2 => (index(), index()).prop_map(|(id, right)| Edit::Join(id, right)),
    ]
}

fn edits(most: usize) -> impl Strategy<Value = Vec<Edit>> {
    prop::collection::vec(edit(), 0..most)
}

impl World {
    fn new(lens: &[usize]) -> Self {
        let mut items = BTreeMap::new();
        let mut next = 0;
        for (nth, &len) in lens.iter().enumerate() {
            let len = len as u32;
            items.insert(
                NodeId::from(format!("n{nth}")),
                (next..next + len).collect(),
            );
            next += len;
        }
        Self {
            items,
            given: INSERTED,
        }
    }

    fn id(&self, index: &Index) -> NodeId {
        index
            .get(&self.items.keys().cloned().collect::<Vec<_>>())
            .clone()
    }

    fn make(&mut self, edit: &Edit) -> Option<Made> {
        match edit {
            Edit::Splice(id, at, removed, inserted) => {
                let id = self.id(id);
                let list = self.items.get_mut(&id)?;
                let at = at.index(list.len() + 1);
                let end = (at + removed).min(list.len());
                let new = self.given..self.given + *inserted as u32;
                self.given = new.end;
                let removed = list.splice(at..end, new).collect();
                Some(Made::Splice(id, at, removed, *inserted))
            }
            Edit::Split(id, at) => {
                let id = self.id(id);
                let list = self.items.get_mut(&id)?;
                let at = at.index(list.len() + 1);
                let rest = list.split_off(at);
                self.given += 1;
                let right = NodeId::from(format!("s{}", self.given));
                self.items.insert(right.clone(), rest);
                Some(Made::Split(id, at, right))
            }
            Edit::Join(id, right) => {
                let (id, right) = (self.id(id), self.id(right));
                if id == right {
                    return None;
                }
                let rest = self.items.remove(&right)?;
                let list = self.items.get_mut(&id)?;
                let at = list.len();
                list.extend(rest);
                Some(Made::Join(id, at, right))
            }
        }
    }

    /// Makes the edits, and returns the map of all of them.
    fn make_all(&mut self, edits: &[Edit]) -> Sequences {
        let mut map = Sequences::default();
        for edit in edits {
            if let Some(made) = self.make(edit) {
                map.observe(&made);
            }
        }
        map
    }

    /// Checks that the map describes these sequences by those of `before`.
    fn check(&self, before: &Self, map: &Sequences) -> Result<(), TestCaseError> {
        for (id, list) in &self.items {
            let mut found = Vec::new();
            let mut left = list.iter();
            for piece in map.lists.get(id).cloned().unwrap_or_else(|| unchanged(id)) {
                let Some((source, range)) = piece.source() else {
                    let new: Vec<u32> = left.by_ref().take(piece.len).copied().collect();
                    prop_assert!(
                        new.iter().all(|item| !before.has(*item)),
                        "{:?} in {}",
                        map,
                        id
                    );
                    prop_assert_eq!(new.len(), piece.len);
                    found.extend(new);
                    continue;
                };
                let known = before.items.get(source).map_or(0, Vec::len);
                let range = range.start.min(known)..range.end.min(known);
                if piece.width() > 0 {
                    found.extend(
                        before
                            .items
                            .get(source)
                            .map_or(&[][..], |items| &items[range.clone()]),
                    );
                    left.by_ref().take(range.len()).for_each(drop);
                }
            }
            prop_assert_eq!(&found, list, "{} in {:?}", id, map);
        }
        Ok(())
    }

    fn has(&self, item: u32) -> bool {
        self.items.values().any(|list| list.contains(&item))
    }

    fn spot(&self, item: u32) -> Option<MappedPosition> {
        self.items.iter().find_map(|(id, list)| {
            let offset = list.iter().position(|other| *other == item)?;
            Some(MappedPosition {
                node: id.clone(),
                offset,
            })
        })
    }
}

impl Sequences {
    fn observe(&mut self, made: &Made) {
        match made {
            Made::Splice(id, at, removed, inserted) => {
                self.splice(id, *at, removed.len(), *inserted)
            }
            Made::Split(id, at, right) => self.split(id, *at, right),
            Made::Join(id, at, right) => self.join(id, *at, right),
        }
    }
}

proptest! {
    #[test]
    fn a_map_describes_each_sequence_by_those_before(lens in prop::collection::vec(0..8usize, 1..4), edits in edits(14)) {
        let before = World::new(&lens);
        let mut after = before.clone();
        let map = after.make_all(&edits);
        after.check(&before, &map)?;
        for (id, items) in &before.items {
            for (at, item) in items.iter().enumerate() {
                let found = map.item(id, at).filter(|item| item.alive).map(|item| item.spot);
                prop_assert_eq!(found, after.spot(*item), "{} of {} in {:?}", at, id, map);
            }
        }
    }

    #[test]
    fn composed_maps_are_equivalent_to_their_parts(
        lens in prop::collection::vec(0..8usize, 1..4),
        first in edits(10),
        second in edits(10),
        third in edits(10),
    ) {
        let before = World::new(&lens);
        let mut after = before.clone();
        let mut map = after.make_all(&first);
        let mut later = after.make_all(&second);
        later.append(&after.make_all(&third));
        map.append(&later);
        after.check(&before, &map)?;
        // Composition keeps the order of tombstones, whatever comes first.
        let mut again = before.clone();
        let all: Vec<Edit> = [first, second, third].concat();
        let whole = again.make_all(&all);
        for (id, items) in &before.items {
            for at in 0..=items.len() {
                prop_assert_eq!(map.caret(id, at), whole.caret(id, at), "{} of {}: {:?} and {:?}", at, id, map, whole);
                for side in [Side::AfterPrevious, Side::BeforeNext] {
                    prop_assert_eq!(map.gap(id, at, side), whole.gap(id, at, side));
                }
            }
        }
    }

    #[test]
    fn a_caret_follows_a_composed_map_as_it_follows_each_edit(
        lens in prop::collection::vec(0..8usize, 1..4),
        edits in edits(12),
    ) {
        let before = World::new(&lens);
        let mut after = before.clone();
        let mut maps = Vec::new();
        for edit in edits {
            let made = after.make(&edit);
            let mut map = Sequences::default();
            made.iter().for_each(|made| map.observe(made));
            maps.push(map);
        }
        let mut whole = Sequences::default();
        maps.iter().for_each(|map| whole.append(map));
        for (id, items) in &before.items {
            for offset in 0..=items.len() {
                let start = Some(MappedPosition { node: id.clone(), offset });
                let each = maps.iter().fold(start, |at, map| {
                    at.and_then(|MappedPosition { node, offset }| map.caret(&node, offset))
                });
                prop_assert_eq!(whole.caret(id, offset), each, "{} of {} in {:?}", offset, id, whole);
            }
        }
    }
}

/// Once the search for a piece began behind the tombstone at its border, if the piece after it came
/// first.
#[test]
fn tombstones_are_found_when_halves_changed_places() {
    let [id, left, right] = ["n0", "s1", "s2"].map(NodeId::from);
    let first = |map: &mut Sequences| map.splice(&id, 0, 1, 2);
    let second = |map: &mut Sequences| {
        map.split(&id, 2, &left);
        map.split(&left, 1, &right);
        map.join(&right, 0, &left);
    };
    let [mut composed, mut later, mut whole] = [(); 3].map(|()| Sequences::default());
    first(&mut composed);
    second(&mut later);
    composed.append(&later);
    first(&mut whole);
    second(&mut whole);
    let at = |map: &Sequences| map.gap(&id, 0, Side::BeforeNext);
    assert_eq!(at(&composed), at(&whole));
    assert!(at(&whole).is_some());
}

/// Once each piece of the later map searched the earlier one from its beginning.
#[test]
fn maps_of_many_edits_compose_in_linear_steps() {
    let id = NodeId::from("n0");
    let steps = |edits: usize| {
        let map = |factor: usize| {
            let mut map = Sequences::default();
            for nth in 0..edits {
                map.splice(&id, nth * factor % (edits + nth), 0, 1);
            }
            map
        };
        let (mut first, second) = (map(7_919), map(104_729));
        counted(|| first.append(&second)).1
    };
    let (few, many) = (steps(200), steps(2_000));
    println!("{few} steps, {many} for ten times the edits");
    assert!(few >= 200 && many <= 20 * few, "{few} steps, then {many}");
}
