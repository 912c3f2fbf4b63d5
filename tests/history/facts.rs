//! Up to four editors edit and undo at random: an undo changes only what its entry changed, and
//! completely reverts what only its editor touched. An entry that cannot be undone blocks no other.

use std::collections::{BTreeMap, BTreeSet};
use std::iter::successors;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use doclock::{
    Draft, Editor, NodeId, Snapshot, View,
    document::{Change, Mark, NodeSpec, Selection, SplitPoint, check},
    dsl::*,
    history::{HistoryOptions, UndoError},
    transaction::OperationError,
};
use proptest::prelude::*;

use crate::common::{Dice, cases, image, store_with_log};

/// A fact about a document. Letters are unique, so a letter identifies itself at any position.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fact {
    Letter(char),
    Marked(char, String),
    Node(NodeId),
    Kind(NodeId),
    Parent(NodeId),
    Attribute(NodeId, String),
}

impl Fact {
    fn node(&self) -> Option<&NodeId> {
        match self {
            Self::Node(id) | Self::Kind(id) | Self::Parent(id) | Self::Attribute(id, _) => Some(id),
            Self::Letter(_) | Self::Marked(..) => None,
        }
    }
}

/// The number of an edit, and the values before and after it.
type Written = (usize, [Option<String>; 2]);

type Facts = BTreeMap<Fact, String>;
/// The value of a fact before and after; `None` if it did not hold.
type Effect = BTreeMap<Fact, [Option<String>; 2]>;

fn facts(view: &Snapshot) -> Facts {
    let mut facts = Facts::new();
    for node in view.nodes().filter(|node| node.kind() != "ruler") {
        let id = node.id().clone();
        let parent = node.parent().map(ToString::to_string).unwrap_or_default();
        facts.insert(Fact::Node(id.clone()), String::new());
        facts.insert(Fact::Kind(id.clone()), node.kind().to_owned());
        facts.insert(Fact::Parent(id.clone()), parent);
        for (key, value) in node.attributes().iter() {
            facts.insert(
                Fact::Attribute(id.clone(), key.to_string()),
                value.to_string(),
            );
        }
        for (at, letter) in node.text().to_string().chars().enumerate() {
            let twice = facts.insert(Fact::Letter(letter), String::new());
            assert_eq!(twice, None, "letter {letter} is there twice");
            for mark in node.marks().iter() {
                if mark.range.clone().is_some_and(|range| range.contains(&at)) {
                    facts.insert(Fact::Marked(letter, mark.kind.to_string()), String::new());
                }
            }
        }
    }
    facts
}

fn effect(before: &Facts, after: &Facts) -> Effect {
    let all: BTreeSet<&Fact> = before.keys().chain(after.keys()).collect();
    let sides = all.into_iter().map(|fact| {
        let sides = [before, after].map(|facts| facts.get(fact).cloned());
        (fact.clone(), sides)
    });
    sides
        .filter(|(_, [before, after])| before != after)
        .collect()
}

/// Every list of children, and every text.
fn orders(view: &Snapshot) -> BTreeMap<String, Vec<String>> {
    let mut orders = BTreeMap::new();
    for node in view.nodes() {
        let children = node.children().iter().map(ToString::to_string);
        orders.insert(format!("{} children", node.id()), children.collect());
        let letters = node.text().to_string();
        let letters = letters.chars().map(String::from);
        orders.insert(format!("{} text", node.id()), letters.collect());
    }
    orders
}

struct Editing {
    editor: Editor,
    done: Vec<Entry>,
    undone: Vec<Entry>,
    /// How many undos and redos were refused, minus the entries that were passed by for that.
    refused: usize,
    /// How many undos, and how many redos, were refused since the last entry changed its stack.
    in_a_row: [usize; 2],
}

#[derive(Clone, Debug)]
struct Entry {
    /// What it changed; reversed if it is undone. An undo may change less, or nothing.
    effect: Effect,
    /// The number of the edit. It is also the offset of the caret in the ruler before and after it,
    /// which an undo restores.
    number: usize,
    /// The children that it moved.
    moved: BTreeSet<NodeId>,
    /// The nodes that stay for it: those that it moved, joined others to, or edited or split while
    /// they were there only for others.
    kept: BTreeSet<NodeId>,
    /// The last type, parent and attributes that it set, also in nodes that it removed then.
    set: BTreeMap<Fact, Option<String>>,
    /// Whether it is of the node that no other editor changes.
    is_private: bool,
    /// Whether an undo passed it by because it was refused before.
    is_stuck: bool,
}

impl Editing {
    fn stack(&mut self, redo: bool) -> &mut Vec<Entry> {
        if redo {
            &mut self.undone
        } else {
            &mut self.done
        }
    }
}

/// A document before and after an undo.
struct Turn {
    who: usize,
    before: Facts,
    after: Facts,
    order: BTreeMap<String, Vec<String>>,
    view: Snapshot,
    did: Effect,
}

/// The blocks of a document that the editors share from the start.
const BLOCKS: usize = 16;

/// Writes unique letters.
struct Pen {
    dice: Dice,
    letters: u32,
    nodes: u32,
}

/// The node that only this editor changes.
fn diary(who: usize) -> NodeId {
    format!("diary{who}").as_str().into()
}

struct World {
    people: Vec<Editing>,
    pen: Arc<Mutex<Pen>>,
    /// The editors that touched a fact: an undo must restore it if there is only one.
    touched: BTreeMap<Fact, BTreeSet<usize>>,
    /// The editors that removed a letter. If they restore it later it is theirs, and the owner of
    /// its mark no longer matters.
    taken: BTreeMap<char, BTreeSet<usize>>,
    acted: BTreeSet<usize>,
    /// The nodes that splits created, and those that joins removed.
    halves: BTreeSet<NodeId>,
    /// The nodes that splits created, each with the node that was split.
    split_from: BTreeMap<NodeId, NodeId>,
    /// The entry that created a node, and those that removed it.
    creations: BTreeMap<NodeId, usize>,
    removals: BTreeMap<NodeId, Vec<usize>>,
    /// The values of a type, a parent or an attribute before and after each entry that set it.
    values: BTreeMap<Fact, Vec<Written>>,
    /// The entries that are undone.
    undone: BTreeSet<usize>,
    entries: usize,
}

impl Pen {
    fn new_text(&mut self) -> String {
        let count = self.dice.below(4) as u32;
        let first = '一' as u32 + self.letters;
        self.letters += count;
        (first..first + count).filter_map(char::from_u32).collect()
    }

    fn new_item(&mut self) -> NodeSpec {
        self.nodes += 1;
        text_node("item", self.new_text()).with_id(format!("n{}", self.nodes).as_str())
    }

    /// One random edit.
    fn edit(&mut self, on: &mut Draft, marked: &mut bool) -> Result<(), OperationError> {
        let mut items: Vec<NodeId> = on
            .nodes()
            .filter(|node| node.kind() == "item" || node.kind() == "other")
            .map(|node| node.id().clone())
            .collect();
        items.sort_by_key(ToString::to_string);
        let what = self.dice.below(12);
        let list: NodeId = ["l1", "l2"][self.dice.below(2)].into();
        let room = on.children(&list).count() + 1;
        if items.is_empty() || what == 0 {
            let at = self.dice.below(room);
            on.insert(self.new_item(), &list, at)?;
            return Ok(());
        }
        let id = items[self.dice.below(items.len())].clone();
        let node = on.node(&id).unwrap().clone();
        let len = node.text().len();
        let (one, other) = (self.dice.below(len + 1), self.dice.below(len + 1));
        let range = one.min(other)..one.max(other);
        let siblings: Vec<NodeId> = node
            .parent()
            .map(|parent| on.children(parent).map(|node| node.id().clone()).collect())
            .unwrap_or_default();
        let next = siblings
            .into_iter()
            .skip_while(|sibling| *sibling != id)
            .nth(1);
        match what {
            1 => on.delete(&id)?,
            2 => {
                let within = node.parent() == Some(&list);
                let at = self.dice.below(room - usize::from(within));
                on.move_node(&id, &list, at)?
            }
            3 => drop(on.split_node(
                &id,
                SplitPoint {
                    text: one,
                    children: 0,
                },
                None,
            )?),
            4 => {
                if let Some(next) = next {
                    on.join_nodes(&id, &next)?
                }
            }
            5 if self.dice.below(2) == 0 => {
                on.set_type(&id, ["item", "other"][self.dice.below(2)])?
            }
            5 => {
                let key = ["a", "b"][self.dice.below(2)];
                let value = self.dice.below(1000);
                on.set_attrs(&id, [(key, value.into())])?;
            }
            // A mark that one entry makes and removes cannot be distinguished from another.
            6 if std::mem::replace(marked, true) => {}
            6 => on.set_marks(&id, [Mark::new(["bold", "em"][self.dice.below(2)], range)])?,
            7 | 8 => on.delete_text(&id, range)?,
            9 => {
                let text = self.new_text();
                on.replace_text(&id, range, text)?
            }
            _ => {
                let text = self.new_text();
                on.insert_text(&id, one, text)?
            }
        }
        Ok(())
    }
}

impl World {
    fn below(&self, bound: usize) -> usize {
        self.pen.lock().unwrap().dice.below(bound)
    }

    fn new(seed: u64, people: usize) -> Self {
        // Sessions read each commit, or stretches of composed ones.
        let log_limit = if seed.is_multiple_of(2) { 1 << 20 } else { 0 };
        let store = store_with_log(log_limit);
        let setup = Editor::new(store.clone(), "setup");
        let mut pen = Pen {
            dice: Dice(seed),
            letters: 0,
            nodes: 0,
        };
        // The editors share blocks from the start, or make all of them.
        let blocks = [0, BLOCKS][pen.dice.below(2)];
        let lists = ["l1", "l2"].map(|list| {
            let items: Vec<_> = (0..blocks / 2).map(|_| pen.new_item()).collect();
            element("list", items).with_id(list)
        });
        let diaries = (0..people).map(|nth| text_node("diary", "").with_id(diary(nth)));
        let ruler = text_node("ruler", "-".repeat(100)).with_id("ruler");
        let root = element("page", lists.into_iter().chain(diaries).chain([ruler]));
        transaction(&setup, create(root.with_id("page")))
            .commit()
            .unwrap();
        let options = HistoryOptions::new().group_interval(Duration::ZERO);
        let person = |nth: usize| Editing {
            editor: Editor::new(store.clone(), nth.to_string()).with_history(options.clone()),
            done: Vec::new(),
            undone: Vec::new(),
            refused: 0,
            in_a_row: [0; 2],
        };
        Self {
            people: (0..people).map(person).collect(),
            pen: Arc::new(Mutex::new(pen)),
            touched: BTreeMap::new(),
            taken: BTreeMap::new(),
            acted: BTreeSet::new(),
            halves: BTreeSet::new(),
            split_from: BTreeMap::new(),
            creations: BTreeMap::new(),
            removals: BTreeMap::new(),
            values: BTreeMap::new(),
            undone: BTreeSet::new(),
            entries: 0,
        }
    }

    fn view(&self) -> Snapshot {
        self.people[0].editor.store().snapshot()
    }

    fn act(&mut self, who: usize) {
        let before = facts(&self.view());
        let pen = Arc::clone(&self.pen);
        let is_private = self.below(4) == 0;
        self.entries += 1;
        let caret = Selection::caret("ruler", self.entries);
        self.people[who].editor.select(caret).unwrap();
        let run = op(move |on: &mut Draft| -> Result<(), OperationError> {
            let mut pen = pen.lock().unwrap();
            if is_private {
                let text = pen.new_text();
                return Ok(on.insert_text(diary(who), 0, text)?);
            }
            let mut marked = false;
            for _ in 0..=pen.dice.below(3) {
                pen.edit(on, &mut marked)?;
            }
            Ok(())
        });
        let result = transaction(&self.people[who].editor, run).commit();
        let (mut moved, mut kept) = (BTreeSet::new(), BTreeSet::new());
        let mut set = BTreeMap::new();
        for change in result.iter().flat_map(|result| result.changes.iter()) {
            match change {
                Change::SplitNode { id, right, .. } => {
                    self.halves.insert(right.id.clone());
                    self.split_from.insert(right.id.clone(), id.clone());
                    kept.extend(Some(id.clone()).filter(|id| self.is_unwanted(id)));
                }
                Change::JoinNodes { id, right, .. } => {
                    self.halves.insert(right.id.clone());
                    kept.extend(self.split_off_from(id).cloned());
                    // Without its split, the half is in the other node, which then stays for what
                    // was joined to it. So for that node, too, it is an edit of another editor.
                    let lefts: Vec<NodeId> = self.split_off_from(id).skip(1).cloned().collect();
                    for place in lefts.into_iter().map(Fact::Parent) {
                        self.touched.entry(place).or_default().insert(usize::MAX);
                    }
                }
                // An entry that creates a node and deletes it has neither among its facts.
                Change::InsertSubtree { nodes, .. } => {
                    let ids = nodes.iter().map(|node| (node.id().clone(), self.entries));
                    self.creations.extend(ids);
                }
                Change::RemoveSubtree { nodes, .. } => {
                    for node in nodes {
                        let removals = self.removals.entry(node.id().clone()).or_default();
                        removals.push(self.entries);
                    }
                }
                Change::MoveNode { id, to, .. } => {
                    moved.insert(id.clone());
                    kept.insert(id.clone());
                    let parent = to.as_ref().map(|to| to.parent.to_string());
                    set.insert(Fact::Parent(id.clone()), parent);
                }
                Change::PatchAttrs { id, patches } => set.extend(patches.iter().map(|patch| {
                    let fact = Fact::Attribute(id.clone(), patch.key.to_string());
                    (fact, patch.after.as_ref().map(|it| it.to_string()))
                })),
                Change::SetType { id, after, .. } => {
                    set.insert(Fact::Kind(id.clone()), Some(after.to_string()));
                }
                // It is there only for others, and stays for this edit, too.
                Change::SpliceText { id, .. } | Change::SetMarks { id, .. }
                    if self.is_unwanted(id) =>
                {
                    kept.insert(id.clone());
                }
                _ => {}
            }
        }
        if result.is_ok_and(|result| result.changed) {
            let after = facts(&self.view());
            // An edit that sets a value and then the one before has not written it.
            set.retain(|fact, then| {
                let node = fact.node().map(|id| Fact::Node(id.clone()));
                let was_there = node.is_some_and(|node| before.contains_key(&node));
                let is_place = matches!(fact, Fact::Parent(_));
                is_place || !was_there || before.get(fact) != then.as_ref()
            });
            let entry = Entry {
                effect: effect(&before, &after),
                number: self.entries,
                moved,
                kept,
                set,
                is_private,
                is_stuck: false,
            };
            self.note(who, &entry.effect);
            self.note_hidden(who, &entry);
            self.note_values(&before, &after, &entry);
            let person = &mut self.people[who];
            person.done.push(entry);
            person.undone.clear();
            person.in_a_row = [0; 2];
        }
    }

    /// Whether only this editor touched it, and removed the letter with the mark.
    fn is_touched_by(&self, fact: &Fact, who: usize) -> bool {
        let alone = |by: &BTreeSet<usize>| by.iter().eq([&who]);
        let stayed = match fact {
            Fact::Marked(letter, _) => self.taken.get(letter).is_none_or(alone),
            _ => true,
        };
        stayed && self.touched.get(fact).is_some_and(alone)
    }

    fn note(&mut self, who: usize, effect: &Effect) {
        self.acted.insert(who);
        for (fact, [_, after]) in effect {
            self.touched.entry(fact.clone()).or_default().insert(who);
            if let (Fact::Letter(letter), None) = (fact, after) {
                self.taken.entry(*letter).or_default().insert(who);
            }
        }
    }

    /// A node, and those from which it was split off.
    fn split_off_from<'a>(&'a self, id: &'a NodeId) -> impl Iterator<Item = &'a NodeId> {
        successors(Some(id), |id| self.split_from.get(*id))
    }

    /// Notes what it did without a change of a fact: nodes stay for it, and a value that it set in
    /// a node that it then removed is in effect when the node is there for others.
    fn note_hidden(&mut self, who: usize, entry: &Entry) {
        let places = entry.kept.iter().map(|id| Fact::Parent(id.clone()));
        for fact in places.chain(entry.set.keys().cloned()) {
            self.touched.entry(fact).or_default().insert(who);
        }
    }

    /// Whether the edits in effect remove a node.
    fn is_removed(&self, id: &NodeId) -> bool {
        let mut removals = self.removals.get(id).into_iter().flatten();
        removals.any(|entry| !self.undone.contains(entry))
    }

    /// Whether a node is there only as long as something of others is in it: an edit removes it, or
    /// its creation is undone.
    fn is_unwanted(&self, id: &NodeId) -> bool {
        let creation = self.creations.get(id);
        creation.is_some_and(|entry| self.undone.contains(entry)) || self.is_removed(id)
    }

    /// Notes the nodes that an edit creates and removes, and the values that it sets. Those of a
    /// created node are a part of the creation.
    fn note_values(&mut self, before: &Facts, after: &Facts, entry: &Entry) {
        let mut set = entry.set.clone();
        for (fact, sides) in &entry.effect {
            match (fact, sides) {
                (Fact::Node(id), [None, _]) => {
                    self.creations.insert(id.clone(), entry.number);
                }
                (Fact::Node(id), _) => {
                    let removals = self.removals.entry(id.clone()).or_default();
                    removals.push(entry.number);
                }
                (Fact::Kind(_) | Fact::Parent(_) | Fact::Attribute(..), [None, Some(then)]) => {
                    set.entry(fact.clone())
                        .or_insert_with(|| Some(then.clone()));
                }
                _ => {}
            }
        }
        for (fact, then) in set {
            let node = fact.node().map(|id| Fact::Node(id.clone())).unwrap();
            let first = match (before.contains_key(&node), after.contains_key(&node)) {
                (false, false) => continue,
                (false, true) => then.clone(),
                (true, _) => before.get(&fact).cloned(),
            };
            let values = self.values.entry(fact).or_default();
            values.push((entry.number, [first, then]));
        }
    }

    /// The value that the entries in effect give to a type, a parent or an attribute. `None` if it
    /// is not known.
    fn value(&self, fact: &Fact) -> Option<Option<&String>> {
        fact.node().filter(|id| !self.halves.contains(*id))?;
        let values = self.values.get(fact)?;
        let last = values
            .iter()
            .rfind(|(entry, _)| !self.undone.contains(entry));
        let value = match last {
            Some((_, [_, after])) => after,
            None => &values[0].1[0],
        };
        Some(value.as_ref())
    }

    fn turn(&mut self, who: usize, redo: bool) -> Result<(), TestCaseError> {
        let view = self.view();
        let (before, order) = (facts(&view), orders(&view));
        let was = image(&view);
        drop(view);
        let person = &mut self.people[who];
        let result = if redo {
            person.editor.redo().commit()
        } else {
            person.editor.undo().commit()
        };
        let view = self.people[0].editor.store().snapshot();
        let selected = match result {
            Err(UndoError::NothingToUndo | UndoError::NothingToRedo) => {
                prop_assert!(self.people[who].stack(redo).is_empty());
                return Ok(());
            }
            Err(UndoError::Conflict { .. }) => {
                prop_assert_eq!(image(&view), was);
                return self.refused(who, redo);
            }
            Err(other) => return Err(TestCaseError::fail(other.to_string())),
            Ok(result) => result.selection_after.unwrap(),
        };
        let after = facts(&view);
        let did = effect(&before, &after);
        let turn = Turn {
            who,
            before,
            after,
            order,
            view,
            did,
        };
        let at = self.reverted(&turn, redo, &selected)?;
        let person = &mut self.people[who];
        person.in_a_row = [0; 2];
        let entry = person.stack(redo).remove(at);
        let mut effect = entry.effect;
        effect.values_mut().for_each(|sides| sides.reverse());
        let opposite = Entry {
            effect,
            is_stuck: false,
            ..entry
        };
        person.stack(!redo).push(opposite);
        self.note(who, &turn.did);
        prop_assert_eq!(check(&turn.view), Ok(()));
        Ok(())
    }

    /// An entry that was refused does not block others. Some are discarded.
    fn refused(&mut self, who: usize, redo: bool) -> Result<(), TestCaseError> {
        // A single editor has no conflicts.
        prop_assert!(self.acted.iter().any(|other| *other != who));
        let is_discarded = self.below(4) == 0;
        let person = &mut self.people[who];
        person.refused += 1;
        person.in_a_row[usize::from(redo)] += 1;
        let in_a_row = person.in_a_row[usize::from(redo)];
        let stack = person.stack(redo);
        if let Some(above) = stack.iter().rev().position(|entry| entry.is_private) {
            prop_assert!(in_a_row <= above, "an entry of another node is blocked");
        }
        if is_discarded {
            stack.pop();
            person.in_a_row = [0; 2];
            let gone = if redo {
                person.editor.discard_redo()
            } else {
                person.editor.discard_undo()
            };
            prop_assert!(gone);
            // From now on it counts as an edit of another editor.
            self.acted.insert(usize::MAX);
            for touched in self.touched.values_mut() {
                touched.insert(usize::MAX);
            }
        }
        Ok(())
    }

    /// Where the entry was that was undone. Newer ones were refused before.
    fn reverted(
        &mut self,
        turn: &Turn,
        redo: bool,
        selected: &Selection,
    ) -> Result<usize, TestCaseError> {
        let mut stack = std::mem::take(self.people[turn.who].stack(redo));
        let is_it = |entry: &Entry| *selected == Selection::caret("ruler", entry.number);
        let at = stack.iter().position(is_it);
        let at = at.expect("no entry of this stack was undone");
        for newer in &mut stack[at + 1..] {
            if !std::mem::replace(&mut newer.is_stuck, true) {
                let person = &mut self.people[turn.who];
                prop_assert!(person.refused > 0, "{newer:?} was passed by");
                person.refused -= 1;
            }
            // For older ones it counts as an edit of another editor.
            self.note(usize::MAX, &newer.effect);
            self.note_hidden(usize::MAX, newer);
        }
        match redo {
            true => drop(self.undone.remove(&stack[at].number)),
            false => drop(self.undone.insert(stack[at].number)),
        }
        self.explain(turn, &stack[at])?;
        *self.people[turn.who].stack(redo) = stack;
        Ok(at)
    }

    fn explain(&self, turn: &Turn, entry: &Entry) -> Result<(), TestCaseError> {
        let Turn {
            who,
            before,
            after,
            order,
            view,
            did,
        } = turn;
        let Entry {
            effect: entry,
            moved,
            ..
        } = entry;
        let who = *who;
        // Without the node that was split, a split cannot be repeated. A half is where the other
        // half is now, and stays for what others have put in it.
        let others_acted = self.acted.iter().any(|other| *other != who);
        let is_of_a_half =
            |fact: &Fact| others_acted && fact.node().is_some_and(|id| self.halves.contains(id));
        // A node that the entry created stays for what others have put in it.
        let stays_for_others = |fact: &Fact| {
            let Some(id) = fact.node() else {
                return false;
            };
            let created = entry.get(&Fact::Node(id.clone()));
            let is_created = created.is_some_and(|[then, _]| then.is_none());
            view.node(id).filter(|_| is_created).is_some_and(|node| {
                let mut known = self.touched.keys().filter(|fact| fact.node() == Some(id));
                !node.text().is_empty()
                    || !node.children().is_empty()
                    || known.any(|fact| !self.is_touched_by(fact, who))
            })
        };
        for (fact, [from, to]) in did {
            if let Fact::Marked(letter, _) = fact
                && did.contains_key(&Fact::Letter(*letter))
            {
                continue;
            }
            let is_there = fact.node().is_some_and(|id| view.contains(id));
            if let Some(value) = self.value(fact).filter(|_| is_there) {
                prop_assert_eq!(to.as_ref(), value, "{:?}", fact);
                continue;
            }
            // A node that the entry had created and deleted comes back with what others put in it.
            let comes_back = fact
                .node()
                .and_then(|id| view.node(id))
                .is_some_and(|node| {
                    others_acted && (!node.text().is_empty() || !node.children().is_empty())
                });
            // A node that is not wanted comes and goes with what others have done to it.
            let is_for_others = fact.node().is_some_and(|id| {
                let is_there = |facts: &Facts| facts.contains_key(&Fact::Node(id.clone()));
                self.is_unwanted(id) && is_there(before) != is_there(after)
            });
            let is_excused = is_of_a_half(fact) || stays_for_others(fact) || is_for_others;
            if comes_back && from.is_none() || is_excused {
                continue;
            }
            let is_removed = |id: &NodeId| entry.contains_key(&Fact::Node(id.clone()));
            let is_of_a_removed_node = others_acted && fact.node().is_some_and(is_removed);
            let Some([then, came]) = entry.get(fact) else {
                if is_of_a_removed_node {
                    continue;
                }
                return Err(TestCaseError::fail(format!(
                    "{fact:?} went from {from:?} to {to:?}, which the entry did not touch"
                )));
            };
            prop_assert_eq!((from, to), (came, then), "{:?}", fact);
        }
        for (fact, [then, _]) in entry {
            if let Fact::Marked(letter, _) = fact
                && !(before.contains_key(&Fact::Letter(*letter))
                    && after.contains_key(&Fact::Letter(*letter)))
            {
                continue;
            }
            let is_gone = |id: &NodeId| !after.contains_key(&Fact::Node(id.clone()));
            let is_there = fact.node().is_some_and(|id| !is_gone(id));
            if let Some(value) = self.value(fact).filter(|_| is_there) {
                prop_assert_eq!(after.get(fact), value, "{:?}", fact);
            }
            let is_of_a_deleted_node = others_acted
                && fact.node().is_some_and(|id| {
                    is_gone(id) && (!matches!(fact, Fact::Node(_)) || self.is_unwanted(id))
                });
            let is_excused = is_of_a_half(fact) || stays_for_others(fact) || is_of_a_deleted_node;
            if self.is_touched_by(fact, who) && !is_excused {
                prop_assert_eq!(after.get(fact), then.as_ref(), "{:?} is left of it", fact);
            }
        }
        for (list, now) in orders(view) {
            let Some(then) = order.get(&list) else {
                continue;
            };
            // A half goes along with the node from which it was split off.
            let is_moved = |item: &str| {
                let item = NodeId::from(item);
                self.split_off_from(&item).any(|id| moved.contains(id))
            };
            let stays = |item: &&String| {
                then.contains(item) && now.contains(item) && !is_moved(item.as_str())
            };
            let (then, now): (Vec<&String>, Vec<&String>) = (
                then.iter().filter(stays).collect(),
                now.iter().filter(stays).collect(),
            );
            prop_assert_eq!(then, now, "{} is in another order", list);
        }
        Ok(())
    }
}

/// Runs one random history.
fn history(seed: u64, steps: usize, people: usize) -> Result<(), TestCaseError> {
    let mut world = World::new(seed, people);
    for _ in 0..steps {
        let who = world.below(people);
        match world.below(5) {
            0 | 1 => world.turn(who, false)?,
            2 => world.turn(who, true)?,
            _ => world.act(who),
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn undo_03_an_undo_reverts_only_the_changes_of_its_entry(
        seed in any::<u64>(),
        steps in 1..80usize,
        people in 2..=4usize,
    ) {
        history(seed, steps, people)?;
    }
}
