//! A page as the edits in effect make it: its letters, and what is known about its nodes.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use doclock::{
    NodeId, Snapshot, View,
    document::{Change, Node, check},
};

use crate::common::image;
use crate::letters::{self, Letters, Shown};
use crate::order::{Order, Pairs};
use crate::search::{self, Outcome, fail};

/// The type of a node counts as an attribute of this name.
const TYPE: &str = "type";

/// What one document has.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) image: String,
    /// All letters, in the order of the document.
    pub(crate) letters: Vec<Shown>,
    /// The node of each of these letters.
    homes: Vec<NodeId>,
    /// The nodes that are in a node, directly or not, by their parents.
    parents: BTreeMap<NodeId, NodeId>,
    children: Vec<Vec<NodeId>>,
    /// All nodes that have no children, in the order of the document.
    leaves: Vec<NodeId>,
    /// The attributes and types of the nodes.
    attributes: BTreeMap<NodeId, BTreeMap<String, String>>,
    /// The document in readable form.
    pub(crate) shown: String,
}

impl State {
    /// The letters of a node.
    fn letters_in<'a>(&'a self, id: &'a NodeId) -> impl Iterator<Item = usize> + 'a {
        let all = letters_of(self).zip(&self.homes);
        all.filter_map(move |(letter, home)| (home == id).then_some(letter))
    }

    /// A node and those around it.
    fn around<'a>(&'a self, id: &'a NodeId) -> impl Iterator<Item = &'a NodeId> {
        std::iter::successors(Some(id), |id| self.parents.get(*id))
    }
}

#[derive(Debug, Default)]
pub(crate) struct Page {
    pub(crate) letters: Letters,
    letter_order: Order,
    node_order: Order,
    /// The order of nodes without children, in whichever lists.
    leaf_order: Pairs,
    /// The order of letters that were in one text.
    text_order: Pairs,
    /// The order of letters since nodes were last moved, split or joined. Nothing changes it.
    recent: Order,
    numbers: HashMap<NodeId, usize>,
    names: Vec<NodeId>,
    /// The nodes that an edit moved, with the parts of them that splits made.
    moved: BTreeSet<NodeId>,
    /// Nodes that one edit made of another, or took into it.
    related: Vec<[NodeId; 2]>,
    /// The two nodes of each join, with the edit.
    joins: Vec<([NodeId; 2], usize)>,
    /// Nodes that a split made, each with the left half and the edit.
    halves: HashMap<NodeId, (NodeId, usize)>,
    /// Halves to which the node of which they are halves was joined: each with those between the
    /// two, and the letters of all.
    turned: Vec<(Vec<NodeId>, Vec<BTreeSet<usize>>)>,
    /// Letters that were in a moved node.
    moved_letters: BTreeSet<usize>,
    /// The node that has a letter, or had it last.
    homes: HashMap<usize, NodeId>,
    /// All nodes that ever had a letter.
    all_homes: HashMap<usize, BTreeSet<NodeId>>,
    /// The edit that created a node, and those that deleted it.
    created: HashMap<NodeId, usize>,
    deleted: HashMap<NodeId, Vec<usize>>,
    /// The first value of an attribute, and the edits that changed it.
    values: BTreeMap<NodeId, BTreeMap<String, Value>>,
    /// The document for each set of edits in effect.
    seen: HashMap<Vec<bool>, (usize, String)>,
}

#[derive(Debug, Default)]
struct Value {
    first: Option<String>,
    later: Vec<(usize, Option<String>)>,
}

impl Page {
    pub(crate) fn read(&self, view: &Snapshot) -> Outcome<State> {
        if let Err(error) = check(view) {
            return fail("check", error.to_string());
        }
        let mut state = State {
            image: image(view),
            ..State::default()
        };
        let Some(root) = view.node("page") else {
            return fail("page", "the page is gone");
        };
        self.read_node(view, root, &mut state)?;
        let count = view.nodes().count();
        if state.attributes.len() != count {
            let text = format!(
                "{count} nodes, {} of them in the page",
                state.attributes.len()
            );
            return fail("outside", text);
        }
        Ok(state)
    }

    fn read_node(&self, view: &Snapshot, node: &Node, into: &mut State) -> Outcome {
        let id = node.id();
        let mut attributes: BTreeMap<String, String> = node
            .attributes()
            .iter()
            .map(|(key, value)| (key.to_string(), value.to_string()))
            .collect();
        into.shown.push_str(&id.to_string());
        if !matches!(node.kind(), "item" | "list" | "page") {
            into.shown.push_str(&format!(":{}", node.kind()));
        }
        if !attributes.is_empty() {
            into.shown.push_str(&format!("{attributes:?}"));
        }
        attributes.insert(TYPE.to_owned(), node.kind().to_owned());
        into.attributes.insert(id.clone(), attributes);
        if node.kind() == "ruler" {
            return Ok(());
        }
        let start = into.letters.len();
        self.letters.read(node, &mut into.letters)?;
        into.homes.resize(into.letters.len(), id.clone());
        if matches!(node.kind(), "item" | "other") {
            let text = letters::shown(&into.letters[start..]);
            into.shown.push_str(&format!("={text}"));
        }
        if node.children().is_empty() {
            into.leaves.push(id.clone());
            return Ok(());
        }
        into.shown.push('[');
        let children: Vec<&Node> = view.children(id).collect();
        for (nth, child) in children.iter().enumerate() {
            if nth > 0 {
                into.shown.push(' ');
            }
            into.parents.insert(child.id().clone(), id.clone());
            self.read_node(view, child, into)?;
        }
        into.shown.push(']');
        let ids = children.into_iter().map(|child| child.id().clone());
        into.children.push(ids.collect());
        Ok(())
    }

    /// Adds the edit that led from one document to another.
    pub(crate) fn commit<'a>(
        &mut self,
        before: &State,
        after: &State,
        changes: impl Iterator<Item = &'a Change>,
    ) -> Outcome<usize> {
        let edit = self.letters.commit(&before.letters, &after.letters)?;
        for change in changes {
            match change {
                Change::MoveNode { id, .. } => drop(self.moved.insert(id.clone())),
                Change::SplitNode { id, right, .. } => {
                    self.related.push([id.clone(), right.id.clone()]);
                    // What was split off before is behind the new half.
                    for (half, (left, _)) in &mut self.halves {
                        if left == id && before.attributes.contains_key(half) {
                            *left = right.id.clone();
                        }
                    }
                    self.halves.insert(right.id.clone(), (id.clone(), edit));
                }
                Change::JoinNodes { id, right, .. } => {
                    let pair = [id.clone(), right.id.clone()];
                    let left = |half: &NodeId| Some(self.halves.get(half)?.0.clone());
                    let mut parts: Vec<_> = std::iter::successors(Some(id.clone()), left).collect();
                    // It may be in the joined node by another join.
                    let joined = self.joined_into(&right.id);
                    let is_of_it = |it: &NodeId| *it == right.id || joined.contains(it);
                    if let Some(at) = parts.iter().position(is_of_it) {
                        parts.truncate(at + 1);
                        let letters = |id: &NodeId| before.letters_in(id).collect();
                        let letters = parts.iter().map(letters).collect();
                        parts.truncate(at);
                        self.turned.push((parts, letters));
                    }
                    self.related.push(pair.clone());
                    self.joins.push((pair, edit));
                }
                Change::InsertSubtree { nodes, .. } => {
                    let ids = nodes.iter().map(|node| (node.id().clone(), edit));
                    self.created.extend(ids);
                }
                Change::RemoveSubtree { nodes, .. } => {
                    for node in nodes {
                        let id = node.id().clone();
                        self.deleted.entry(id).or_default().push(edit);
                    }
                }
                _ => {}
            }
        }
        self.spread();
        for (id, now) in &after.attributes {
            let is_new = !self.values.contains_key(id);
            let values = self.values.entry(id.clone()).or_default();
            let then = before.attributes.get(id);
            let keys = now.keys().chain(then.into_iter().flat_map(BTreeMap::keys));
            for key in keys.collect::<BTreeSet<_>>() {
                let now = now.get(key).cloned();
                let value = values.entry(key.clone()).or_default();
                if is_new {
                    value.first = now;
                } else if then.and_then(|then| then.get(key)) != now.as_ref() {
                    value.later.push((edit, now));
                }
            }
        }
        // What is typed beside a moved letter moves back with it.
        let is_moved = |at: &usize| self.moved_letters.contains(&after.letters[*at].0);
        let mixed: BTreeSet<&NodeId> = (0..after.letters.len())
            .filter(is_moved)
            .map(|at| &after.homes[at])
            .collect();
        let new = after.letters.iter().zip(&after.homes);
        let new = new
            .filter(|((letter, _), home)| !self.homes.contains_key(letter) && mixed.contains(home));
        let new: Vec<usize> = new.map(|((letter, _), _)| *letter).collect();
        self.moved_letters.extend(new);
        self.add_homes_of_neighbours(after);
        Ok(edit)
    }

    /// What is typed among the letters of a joined node goes with them.
    fn add_homes_of_neighbours(&mut self, after: &State) {
        let count = after.letters.len();
        let known = |at: usize, beside: usize| {
            let letter = after.letters[beside].0;
            let homes = self.all_homes.get(&letter)?;
            (after.homes[at] == after.homes[beside]).then_some(homes)
        };
        let is_new = |at: &usize| !self.homes.contains_key(&after.letters[*at].0);
        let new = (0..count).filter(is_new).map(|at| {
            let before = (0..at).rev().find_map(|left| known(at, left));
            let behind = (at + 1..count).find_map(|right| known(at, right));
            let homes = match (before, behind) {
                (Some(before), Some(behind)) => before & behind,
                (one, other) => one.or(other).cloned().unwrap_or_default(),
            };
            (after.letters[at].0, homes)
        });
        let new: Vec<_> = new.collect();
        for (letter, homes) in new {
            self.all_homes.entry(letter).or_default().extend(homes);
        }
    }

    /// A part of a moved node counts as moved.
    fn spread(&mut self) {
        loop {
            let before = self.moved.len();
            for pair in &self.related {
                if pair.iter().any(|id| self.moved.contains(id)) {
                    self.moved.extend(pair.clone());
                }
            }
            if self.moved.len() == before {
                return;
            }
        }
    }

    /// Compares a document with what it has to be, and with the one before.
    pub(crate) fn compare(
        &mut self,
        before: &State,
        after: &State,
        reorders: bool,
        step: usize,
    ) -> Outcome {
        for (nth, (letter, _)) in after.letters.iter().enumerate() {
            let home = &after.homes[nth];
            self.homes.insert(*letter, home.clone());
            let all = self.all_homes.entry(*letter).or_default();
            all.insert(home.clone());
            if after.around(home).any(|id| self.moved.contains(id)) {
                self.moved_letters.insert(*letter);
            }
        }
        let missing = self.letters.compare(&after.letters)?;
        for letter in missing {
            let was_there = before.letters.iter().any(|(other, _)| *other == letter);
            if was_there || !self.is_excused(letter, after) {
                let (shown, why) = (letters::letter(letter), self.letters.why(letter));
                return fail("missing", format!("{shown} is missing: {why}"));
            }
        }
        self.compare_attributes(after)?;
        self.compare_orders(before, after, reorders)?;
        // A node that stays for what others did, although its creation is undone or its deletion is
        // in effect, is gone once it is empty, but only with the next undo.
        let effects = self.letters.in_effect();
        let stays = |id: &NodeId| {
            let is_undone = self.created.get(id).is_some_and(|edit| !effects[*edit]);
            let mut deleted = self.deleted.get(id).into_iter().flatten();
            is_undone || deleted.any(|edit| effects[*edit])
        };
        if after.attributes.keys().any(stays) {
            return Ok(());
        }
        let key = effects.to_vec();
        let seen = self.seen.entry(key);
        let (then, image) = seen.or_insert_with(|| (step, after.image.clone()));
        if *image != after.image {
            let text = format!(
                "the same edits are in effect as after line {then}, but the document is\n   {}, \
                 not\n   {image}",
                after.image
            );
            return fail("same", text);
        }
        Ok(())
    }

    /// The parts of one node.
    fn family<'a>(&'a self, id: &'a NodeId) -> BTreeSet<&'a NodeId> {
        let mut family = BTreeSet::from([id]);
        loop {
            let before = family.len();
            for pair in &self.related {
                if pair.iter().any(|id| family.contains(id)) {
                    family.extend(pair);
                }
            }
            if family.len() == before {
                return family;
            }
        }
    }

    /// Whether a node was between the parts of another. If that one is whole again, the node has
    /// to be before or after all of it.
    fn is_between(&self, node: &NodeId, parts: &NodeId, now: &State) -> bool {
        let number = |id: &NodeId| self.known_number(id);
        let nodes: Vec<usize> = now.around(node).filter_map(number).collect();
        let orders = [self.node_order.first(), &self.leaf_order];
        now.around(parts).any(|parts| {
            let family = self.family(parts);
            let parts: Vec<usize> = family.into_iter().filter_map(number).collect();
            nodes.iter().any(|node| {
                orders.into_iter().any(|order| {
                    let is_behind = parts.iter().any(|part| order.has(*part, *node));
                    is_behind && parts.iter().any(|part| order.has(*node, *part))
                })
            })
        })
    }

    /// Whether two letters may change places without a move: one is in a node that was between the
    /// parts of the node of the other. If they were ever in one text, or are now, a split that made
    /// these parts has to be undone, or a join of the nodes on both sides is in effect: a node has
    /// no place within a text.
    fn may_change(&self, one: usize, other: usize, now: &State) -> bool {
        let were_one_text = self.text_order.has(one, other) || self.text_order.has(other, one);
        let may_be_between = |node: &NodeId, parts: &NodeId| {
            (!were_one_text || self.has_undone_split(parts)) && self.is_between(node, parts, now)
        };
        if self.is_joined_over(one, other, now) || self.is_joined_over(other, one, now) {
            return true;
        }
        match [one, other].map(|letter| self.homes.get(&letter)) {
            [Some(one), Some(other)] => may_be_between(one, other) || may_be_between(other, one),
            _ => false,
        }
    }

    /// Whether a join is in effect that goes over a node of a letter, or one around it, and the
    /// other letter was in the node that was joined: it was behind the first one.
    fn is_joined_over(&self, letter: usize, other: usize, now: &State) -> bool {
        let effects = self.letters.in_effect();
        let (Some(nodes), Some(others)) = (self.all_homes.get(&letter), self.all_homes.get(&other))
        else {
            return false;
        };
        let mut joins = self.joins.iter().filter(|(_, edit)| effects[*edit]);
        joins.any(|([left, right], _)| {
            let (Some(before), Some(behind)) = (self.known_number(left), self.known_number(right))
            else {
                return false;
            };
            let mut around = nodes.iter().flat_map(|id| now.around(id));
            others.contains(right)
                && around.any(|id| {
                    let order = self.node_order.first();
                    let number = self.known_number(id);
                    number.is_some_and(|it| order.has(before, it) && order.has(it, behind))
                })
        })
    }

    /// Whether two letters are of a node that was joined to its own right half, or to a half of
    /// that, one of each. When a split is undone, the half is behind the node again.
    fn were_turned(&self, one: usize, other: usize) -> bool {
        self.turned.iter().any(|(halves, parts)| {
            let is_both =
                |letters: &BTreeSet<usize>| letters.contains(&one) && letters.contains(&other);
            halves.iter().any(|half| self.is_undone_half(half)) && !parts.iter().any(is_both)
        })
    }

    /// Whether the nodes of two letters were joined to each other in both directions, also through
    /// others: of such joins the earliest is without effect, until another one is undone.
    fn are_joined_both_ways(&self, one: usize, other: usize) -> bool {
        let homes = [one, other].map(|letter| self.all_homes.get(&letter));
        let [Some(ones), Some(others)] = homes else {
            return false;
        };
        ones.iter().any(|one| {
            let joined = self.joined_into(one);
            let mut others = others.iter().filter(|other| joined.contains(*other));
            others.any(|other| self.joined_into(other).contains(one))
        })
    }

    /// The nodes that were joined to a node, or to one of these.
    fn joined_into<'a>(&'a self, node: &'a NodeId) -> BTreeSet<&'a NodeId> {
        let (mut joined, mut ahead) = (BTreeSet::new(), vec![node]);
        while let Some(to) = ahead.pop() {
            let joins = self.joins.iter().filter(|([left, _], _)| left == to);
            ahead.extend(
                joins
                    .map(|([_, right], _)| right)
                    .filter(|it| joined.insert(*it)),
            );
        }
        joined
    }

    fn is_undone_half(&self, id: &NodeId) -> bool {
        let split = self.halves.get(id);
        split.is_some_and(|(_, edit)| !self.letters.in_effect()[*edit])
    }

    fn has_undone_split(&self, node: &NodeId) -> bool {
        let mut parts = self.family(node).into_iter();
        parts.any(|part| self.is_undone_half(part))
    }

    fn known_number(&self, id: &NodeId) -> Option<usize> {
        self.numbers.get(id).copied()
    }

    /// Whether the node of an invisible letter may be deleted, or a part of that node.
    fn is_excused(&self, letter: usize, now: &State) -> bool {
        let Some(home) = self.homes.get(&letter) else {
            return false;
        };
        let family = self.family(home);
        let effects = self.letters.in_effect();
        family.into_iter().any(|id| {
            let deleted = self.deleted.get(id).into_iter().flatten();
            let is_deleted = deleted.into_iter().any(|edit| effects[*edit]);
            let is_undone = self.created.get(id).is_some_and(|edit| !effects[*edit]);
            !now.attributes.contains_key(id) && (is_deleted || is_undone)
        })
    }

    /// Each attribute has the value of the last edit in effect that changed it.
    fn compare_attributes(&self, now: &State) -> Outcome {
        let effects = self.letters.in_effect();
        for (id, now) in &now.attributes {
            // A node that stays for others, although its deletion is in effect, has what it had
            // then.
            let mut deleted = self.deleted.get(id).into_iter().flatten();
            if deleted.any(|edit| effects[*edit]) {
                continue;
            }
            let values = self
                .values
                .get(id)
                .filter(|_| !self.halves.contains_key(id));
            for (key, value) in values.into_iter().flatten() {
                let later = value.later.iter().rfind(|(edit, _)| effects[*edit]);
                let expected = later.map_or(&value.first, |(_, value)| value).as_ref();
                let found = now.get(key);
                if found != expected {
                    let text = format!("{key} of {id} is {found:?}, not {expected:?}");
                    return fail("attribute", text);
                }
            }
        }
        Ok(())
    }

    fn number(&mut self, id: &NodeId) -> usize {
        *self.numbers.entry(id.clone()).or_insert_with(|| {
            self.names.push(id.clone());
            self.names.len() - 1
        })
    }

    fn compare_orders(&mut self, before: &State, after: &State, reorders: bool) -> Outcome {
        let leaves = after.leaves.iter().filter(|id| !self.moved.contains(id));
        let leaves: Vec<NodeId> = leaves.cloned().collect();
        let leaves: Vec<usize> = leaves.iter().map(|id| self.number(id)).collect();
        self.leaf_order.note(&leaves);
        for list in &after.children {
            // A node that stays for the content of others, although its creation is undone, goes to
            // where that content keeps its order.
            let effects = self.letters.in_effect();
            let is_created = |id: &&NodeId| {
                let mut deleted = self.deleted.get(*id).into_iter().flatten();
                let is_deleted = deleted.any(|edit| effects[*edit]);
                !is_deleted && self.created.get(*id).is_none_or(|edit| effects[*edit])
            };
            let stay = list.iter().filter(|id| !self.moved.contains(id));
            let stay: Vec<NodeId> = stay.filter(is_created).cloned().collect();
            let stay: Vec<usize> = stay.iter().map(|id| self.number(id)).collect();
            if let Err(pair) = self.node_order.compare(&stay, |_, _| false) {
                let [one, other] = pair.map(|number| &self.names[number]);
                let text = format!("{one} is before {other}, and was after it");
                return fail("node order", text);
            }
        }
        let mut homes: BTreeMap<&NodeId, Vec<usize>> = BTreeMap::new();
        for (letter, home) in letters_of(after).zip(&after.homes) {
            if !self.moved_letters.contains(&letter) {
                homes.entry(home).or_default().push(letter);
            }
        }
        homes.values().for_each(|text| self.text_order.note(text));
        let stays = |letter: &usize| !self.moved_letters.contains(letter);
        let stay: Vec<usize> = letters_of(after).filter(stays).collect();
        let mut order = std::mem::take(&mut self.letter_order);
        let compared = order.compare(&stay, |one, other| {
            search::excuse(self.may_change(one, other, after))
        });
        self.letter_order = order;
        if let Err(pair) = compared {
            let [one, other] = pair.map(letters::letter);
            let text = format!("{one} is before {other}, and was after it");
            return fail("order", text);
        }
        self.compare_recent(before, after, reorders)
    }

    /// Compares the order of the letters with that since nodes were last moved, split or joined. A
    /// step that does so keeps the order within each text.
    fn compare_recent(&mut self, before: &State, after: &State, reorders: bool) -> Outcome {
        let mut order = match reorders {
            true => std::mem::take(&mut self.recent),
            false => Order::default(),
        };
        let homes: HashMap<usize, &NodeId> = letters_of(before).zip(&before.homes).collect();
        let mut texts: BTreeMap<(&NodeId, &NodeId), Vec<usize>> = BTreeMap::new();
        for (letter, home) in letters_of(after).zip(&after.homes) {
            if let Some(then) = homes.get(&letter).filter(|_| reorders) {
                texts.entry((then, home)).or_default().push(letter);
            }
        }
        let is_excused = |one, other| {
            search::excuse(self.were_turned(one, other) || self.are_joined_both_ways(one, other))
        };
        let mut texts = texts.into_values();
        let compared = texts.try_for_each(|text| order.compare(&text, is_excused));
        let all: Vec<usize> = letters_of(after).collect();
        let compared = compared.and_then(|()| self.recent.compare(&all, |_, _| false));
        compared.or_else(|pair| {
            let [one, other] = pair.map(letters::letter);
            let text = format!("{one} is before {other} now, and was after it just before");
            fail("order now", text)
        })
    }
}

fn letters_of(state: &State) -> impl Iterator<Item = usize> + '_ {
    state.letters.iter().map(|(letter, _)| *letter)
}
