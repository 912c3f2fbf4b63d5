//! Undo and redo in scopes, compared with a model that knows which edits are in effect, and selects
//! the entry by what its undo would change.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use doclock::{
    DataStore, Editor, TransactionManager, View,
    dsl::*,
    history::{HistoryMode, HistoryOptions, UndoError},
    transaction::Operation,
};

use crate::common::{Dice, seed, store};

/// The sections, each with the one that it is in.
const SECTIONS: [(&str, &str); 5] = [
    ("page", ""),
    ("one", "page"),
    ("box", "one"),
    ("two", "page"),
    ("pen", "two"),
];
const TEXTS: [&str; 6] = ["t0", "t1", "t2", "t3", "t4", "t5"];
const ORIGINS: [&str; 2] = ["form", "import"];

/// What an edit does to a text.
#[derive(Clone, Copy, Debug)]
enum What {
    Insert(char),
    Delete(char),
    Move(usize),
    Set(usize),
}

/// One change of one text. Its number in the list is its age.
#[derive(Clone, Copy, Debug)]
struct Change {
    /// The entry. Without one, it is always in effect.
    entry: Option<usize>,
    text: usize,
    what: What,
}

/// A limit of an undo, as names.
#[derive(Clone, Copy, Debug, Default)]
struct Scope {
    node: Option<&'static str>,
    name: Option<&'static str>,
}

impl Scope {
    fn is_all(self) -> bool {
        self.node.is_none() && self.name.is_none()
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    number: usize,
    name: Option<&'static str>,
    was_refused: bool,
    undone_in: Option<Scope>,
}

/// A document: the letters, the section and the attribute of each text.
#[derive(Clone, Debug, Default, PartialEq)]
struct Page {
    letters: [BTreeSet<char>; TEXTS.len()],
    parents: [usize; TEXTS.len()],
    values: [Option<usize>; TEXTS.len()],
}

impl Page {
    /// A node with all that it is in.
    fn path(&self, node: &str) -> Vec<&'static str> {
        let text = TEXTS.iter().position(|text| *text == node);
        let mut path: Vec<&str> = text.map(|text| TEXTS[text]).into_iter().collect();
        let mut at = text.map_or(node, |text| SECTIONS[self.parents[text]].0);
        while let Some((section, parent)) = SECTIONS.iter().find(|(section, _)| *section == at) {
            path.push(section);
            at = parent;
        }
        path
    }

    /// The nodes that differ, with the sections that a text came from or went to.
    fn differences(&self, other: &Self) -> BTreeSet<&'static str> {
        let mut all = BTreeSet::new();
        for (nth, text) in TEXTS.into_iter().enumerate() {
            let [from, to] = [self.parents[nth], other.parents[nth]];
            if from != to {
                all.extend([text, SECTIONS[from].0, SECTIONS[to].0]);
            }
            if self.letters[nth] != other.letters[nth] || self.values[nth] != other.values[nth] {
                all.insert(text);
            }
        }
        all
    }
}

#[derive(Debug, Default)]
struct Model {
    changes: Vec<Change>,
    in_effect: Vec<bool>,
    /// What each editor can undo and redo.
    stacks: Vec<[Vec<Entry>; 2]>,
}

/// What an undo or a redo has to do.
#[derive(Debug, PartialEq)]
enum Expected {
    Nothing,
    /// The node of the conflict.
    Conflict(&'static str),
    /// Where the entry is in its stack, and whether the document changes.
    Takes(usize, bool),
}

impl Model {
    fn is_in_effect(&self, change: &Change, but: Option<usize>) -> bool {
        // The entry `but` is on the other side.
        let is = |entry: usize| self.in_effect[entry] != (but == Some(entry));
        change.entry.is_none_or(is)
    }

    fn page(&self, but: Option<usize>) -> Page {
        let mut page = Page::default();
        for (nth, parent) in page.parents.iter_mut().enumerate() {
            *parent = nth % SECTIONS.len();
        }
        let mut deleted = BTreeSet::new();
        for change in self.changes.iter().filter(|it| self.is_in_effect(it, but)) {
            match change.what {
                What::Insert(letter) => drop(page.letters[change.text].insert(letter)),
                What::Delete(letter) => drop(deleted.insert(letter)),
                What::Move(to) => page.parents[change.text] = to,
                What::Set(value) => page.values[change.text] = Some(value),
            }
        }
        for letters in &mut page.letters {
            letters.retain(|letter| !deleted.contains(letter));
        }
        page
    }

    /// The text of which a later edit in effect moved the node or set the attribute.
    fn conflict(&self, entry: usize) -> Option<&'static str> {
        let all = || self.changes.iter().enumerate();
        let own = all().filter(|(_, change)| change.entry == Some(entry));
        let is_alike = |one: What, other: What| {
            matches!(
                (one, other),
                (What::Move(_), What::Move(_)) | (What::Set(_), What::Set(_))
            )
        };
        let mut refused = own.filter(|(age, change)| {
            all().skip(age + 1).any(|(_, later)| {
                let is_others = later.entry != Some(entry) && self.is_in_effect(later, None);
                is_others && later.text == change.text && is_alike(later.what, change.what)
            })
        });
        refused.next().map(|(_, change)| TEXTS[change.text])
    }

    fn expected(&mut self, who: usize, redo: bool, scope: Scope) -> Expected {
        let now = self.page(None);
        let mut passed = None;
        for at in (0..self.stacks[who][usize::from(redo)].len()).rev() {
            let entry = self.stacks[who][usize::from(redo)][at];
            if scope.name.is_some() && scope.name != entry.name {
                continue;
            }
            if let Some(node) = self.conflict(entry.number).filter(|_| !redo) {
                if scope.node.is_some_and(|top| !now.path(node).contains(&top)) {
                    continue;
                }
                let entry = &mut self.stacks[who][usize::from(redo)][at];
                if !std::mem::replace(&mut entry.was_refused, true) {
                    return Expected::Conflict(node);
                }
                passed.get_or_insert(node);
                continue;
            }
            let then = self.page(Some(entry.number));
            let differences = now.differences(&then);
            let is_within = |top: &str| {
                let mut nodes = differences.iter();
                let is_there = |page: &Page, node| page.path(node).contains(&top);
                nodes.all(|node| is_there(&now, node) && is_there(&then, node))
            };
            if scope
                .node
                .is_none_or(|top| !differences.is_empty() && is_within(top))
            {
                return Expected::Takes(at, !differences.is_empty());
            }
        }
        passed.map_or(Expected::Nothing, Expected::Conflict)
    }

    fn take(&mut self, who: usize, redo: bool, scope: Scope, at: usize) {
        let mut entry = self.stacks[who][usize::from(redo)].remove(at);
        self.in_effect[entry.number] = redo;
        entry.was_refused = false;
        entry.undone_in = (!redo && !scope.is_all()).then_some(scope);
        self.stacks[who][usize::from(!redo)].push(entry);
    }

    /// Adds an edit of an editor.
    fn edit(&mut self, who: usize, name: Option<&'static str>, edits: &[(usize, What)]) {
        let before = self.page(None);
        let number = self.in_effect.len();
        self.in_effect.push(true);
        self.changes.extend(edits.iter().map(|(text, what)| Change {
            entry: Some(number),
            text: *text,
            what: *what,
        }));
        let after = self.page(None);
        let differences = before.differences(&after);
        let is_in = |scope: Scope| {
            let touches = |top| {
                differences
                    .iter()
                    .any(|node| after.path(node).contains(&top))
            };
            scope.name.is_none_or(|it| name == Some(it)) && scope.node.is_none_or(touches)
        };
        let [done, undone] = &mut self.stacks[who];
        undone.retain(|entry| entry.undone_in.is_some_and(|scope| !is_in(scope)));
        done.push(Entry {
            number,
            name,
            was_refused: false,
            undone_in: None,
        });
    }

    /// Draws an edit of a text, if there is one.
    fn draw(&self, dice: &mut Dice, text: usize, kinds: usize) -> Option<What> {
        let page = self.page(None);
        let fresh = self.changes.len() * 2 + usize::from(kinds == 1);
        match dice.below(kinds) {
            0 | 1 => char::from_u32('一' as u32 + fresh as u32).map(What::Insert),
            2 => {
                let letters: Vec<char> = page.letters[text].iter().copied().collect();
                let at = dice.below(letters.len().max(1));
                letters.get(at).copied().map(What::Delete)
            }
            3 => {
                // Two moves to one section could differ in the place there, which is not modelled.
                let is_repeated = |to: usize| {
                    let mut all = self.changes.iter().filter(|it| it.text == text);
                    all.any(|it| matches!(it.what, What::Move(other) if other == to))
                };
                let to = dice.below(SECTIONS.len());
                let is_first = to == text % SECTIONS.len();
                let is_new = to != page.parents[text] && !is_first && !is_repeated(to);
                is_new.then_some(What::Move(to))
            }
            _ => Some(What::Set(fresh)),
        }
    }
}

fn operation((text, what): (usize, What), store: &DataStore) -> Operation {
    let view = store.snapshot();
    let of = TEXTS[text];
    match what {
        What::Insert(letter) => insert_text(0, letter.to_string()).on(of),
        What::Delete(letter) => {
            let text = view.node(of).unwrap().text().to_string();
            let at = text.chars().position(|other| other == letter).unwrap();
            delete_text_range(at, at + 1).on(of)
        }
        What::Move(to) => move_node(SECTIONS[to].0, 0).on(of),
        What::Set(value) => set_attrs([("key", value.into())]).on(of),
    }
}

fn read(store: &DataStore) -> Page {
    let view = store.snapshot();
    let mut page = Page::default();
    for (nth, text) in TEXTS.into_iter().enumerate() {
        let node = view.node(text).unwrap();
        page.letters[nth] = node.text().to_string().chars().collect();
        let parent = node.parent().unwrap().to_string();
        let section = SECTIONS.iter().position(|(section, _)| *section == parent);
        page.parents[nth] = section.unwrap();
        let value = node.attributes().get("key");
        page.values[nth] = value.map(|value| value.as_i64().unwrap() as usize);
    }
    page
}

/// The editors of a page with its sections and texts.
fn begin(people: usize) -> (DataStore, Vec<Editor>) {
    let store = store();
    let mut setup = store.begin("setup").unwrap();
    for (section, parent) in SECTIONS {
        let node = element("section", []).with_id(section);
        match parent {
            "" => setup.create(node).unwrap(),
            parent => setup.insert(node, parent, 0).unwrap(),
        };
    }
    for (nth, text) in TEXTS.into_iter().enumerate() {
        let (section, _) = SECTIONS[nth % SECTIONS.len()];
        let node = text_node("text", "").with_id(text);
        setup.insert(node, section, 0).unwrap();
    }
    setup.commit().unwrap();
    let editor = |nth| {
        let options = HistoryOptions::new().group_interval(Duration::ZERO);
        let editor = Editor::new(store.clone(), format!("editor {nth}"));
        let editor = editor.with_history(options.limit(1_000));
        match nth {
            1 => editor.with_node_locks(2),
            _ => editor,
        }
    };
    let editors = (0..people).map(editor).collect();
    (store, editors)
}

/// How often something happened, so that no part of the test is empty.
type Counts = BTreeMap<&'static str, usize>;

fn run_history(seed: u64, counts: &mut Counts) {
    let dice = &mut Dice(seed);
    let people = 1 + dice.below(3);
    let (store, editors) = begin(people);
    let gardener = TransactionManager::new(store.clone());
    let mut model = Model {
        stacks: (0..people).map(|_| Default::default()).collect(),
        ..Model::default()
    };
    for step in 0..80 {
        let who = dice.below(people);
        let context = format!("history {seed}, step {step}, editor {who}");
        match dice.below(16) {
            0 => {
                let text = dice.below(TEXTS.len());
                if let Some(what) = model.draw(dice, text, 5) {
                    gardener.execute(operation((text, what), &store)).unwrap();
                    let entry = None;
                    model.changes.push(Change { entry, text, what });
                }
            }
            1..=7 => {
                // At most one edit of an entry can conflict, so its error has one node.
                let first = dice.below(TEXTS.len());
                let second = (first + 1 + dice.below(TEXTS.len() - 1)) % TEXTS.len();
                let mut edits = vec![(first, model.draw(dice, first, 5))];
                if dice.one_in(3) {
                    edits.push((second, model.draw(dice, second, 1)));
                }
                let Some(edits) = edits
                    .into_iter()
                    .map(|(text, what)| Some((text, what?)))
                    .collect::<Option<Vec<_>>>()
                else {
                    continue;
                };
                let name = [None, Some(ORIGINS[dice.below(2)])][dice.below(2)];
                let how = name.map_or(HistoryMode::Recorded, |it| HistoryMode::Origin(it.into()));
                let all: Vec<Operation> =
                    { edits.iter() }.map(|it| operation(*it, &store)).collect();
                let edit = editors[who].transaction(all).in_history(how);
                edit.commit().unwrap();
                let could_redo = model.stacks[who][1].len();
                model.edit(who, name, &edits);
                let kept = model.stacks[who][1].len();
                *counts.entry("kept to be redone").or_default() += kept;
                *counts.entry("no longer redone").or_default() += could_redo - kept;
            }
            turn => turn_back(
                &editors[who],
                &mut model,
                who,
                turn > 12,
                (dice, counts),
                &context,
            ),
        }
        assert_eq!(read(&store), model.page(None), "{context}");
        let found = editors.iter().map(|it| [it.undo_depth(), it.redo_depth()]);
        let depths = model.stacks.iter().map(|it| [it[0].len(), it[1].len()]);
        assert!(found.eq(depths), "depths, {context}");
    }
}

/// Undoes or redoes in a scope, if that is what the model says.
fn turn_back(
    editor: &Editor,
    model: &mut Model,
    who: usize,
    redo: bool,
    (dice, counts): (&mut Dice, &mut Counts),
    context: &str,
) {
    let nodes: Vec<&'static str> = { SECTIONS.iter() }.map(|it| it.0).chain(TEXTS).collect();
    let scope = Scope {
        node: dice.one_in(2).then(|| nodes[dice.below(nodes.len())]),
        name: dice.one_in(3).then(|| ORIGINS[dice.below(2)]),
    };
    let mut pending = match redo {
        true => editor.redo(),
        false => editor.undo(),
    };
    if let Some(node) = scope.node {
        pending = pending.within(node);
    }
    if let Some(name) = scope.name {
        pending = pending.of(name);
    }
    let expected = model.expected(who, redo, scope);
    let context = format!("{context}, redo {redo}, {scope:?}: {expected:?}");
    let kind = match (pending.commit(), &expected) {
        (Ok(result), Expected::Takes(at, changes)) => {
            assert_eq!(result.changed, *changes, "{context}");
            let newer = model.stacks[who][usize::from(redo)].len() - 1 - at;
            model.take(who, redo, scope, *at);
            match (newer, changes, scope.node) {
                (0, true, _) => "the newest",
                (_, true, None) => "an older one of an origin",
                (_, true, Some(_)) => "an older one of a subtree",
                (_, false, _) => "without an effect",
            }
        }
        (Err(UndoError::Conflict { conflict, .. }), Expected::Conflict(node)) => {
            assert_eq!(conflict.node(), Some(&(*node).into()), "{context}");
            match scope.node {
                Some(_) => "a conflict in a subtree",
                None => "a conflict",
            }
        }
        (Err(UndoError::NothingToUndo | UndoError::NothingToRedo), Expected::Nothing) => "nothing",
        (outcome, _) => panic!("{context}, but {outcome:?}"),
    };
    *counts.entry(kind).or_default() += 1;
}

/// `SEED` repeats a history, with `DOCLOCK_HISTORIES=1`.
#[test]
fn undo_06_random_histories_in_scopes_are_those_of_the_model() {
    let seed = seed();
    let histories = std::env::var("DOCLOCK_HISTORIES").ok();
    let histories = histories.and_then(|it| it.parse().ok()).unwrap_or(300);
    let mut counts = Counts::new();
    for nth in 0..histories {
        run_history(seed + nth, &mut counts);
    }
    println!("{counts:?}");
    let kinds = [
        "kept to be redone",
        "no longer redone",
        "the newest",
        "an older one of an origin",
        "an older one of a subtree",
        "without an effect",
        "a conflict in a subtree",
        "a conflict",
        "nothing",
    ];
    if histories >= 300 {
        for kind in kinds {
            assert!(
                counts.get(kind).is_some_and(|it| *it > 0),
                "{kind}: {counts:?}"
            );
        }
    }
}
