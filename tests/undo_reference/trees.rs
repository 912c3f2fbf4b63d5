//! Several editors of one page of two lists.

use std::sync::{Arc, Mutex};

use doclock::{
    DataStore, Editor, NodeId, Snapshot,
    document::{Change, Selection},
    dsl::*,
    history::UndoError,
    transaction::Operation,
};

use crate::common::{Dice, forget, record};
use crate::page::{Page, State};
use crate::search::{History, Outcome, Trace, fail, search};
use crate::setting::{NAMES, Setting, Stacks};
use crate::tree_steps::{Action, Edit, New, TreeStep, caret, history, operations};

#[derive(Clone, Copy, Debug)]
struct Entry {
    edit: usize,
    /// The caret that an undo restores.
    caret: usize,
    /// Whether it moved, split or joined nodes.
    reorders: bool,
    /// Whether an undo passed it by because it was refused before.
    is_stuck: bool,
}

struct Person {
    editor: Editor,
    stacks: Stacks<Entry>,
    /// How many undos and redos were refused, minus the entries that were passed by for that.
    refused: usize,
}

struct World<'a> {
    store: DataStore,
    people: Vec<Person>,
    page: Page,
    now: State,
    trace: &'a mut Trace,
    setting: Setting,
    /// How many lines of the trace there are.
    lines: usize,
    carets: usize,
    names: usize,
    /// Whether an entry in effect can no longer be undone.
    has_lost: bool,
    /// The editors that committed something.
    acted: Vec<usize>,
}

impl<'a> World<'a> {
    fn new(history: &History<Action>, setting: Setting, trace: &'a mut Trace) -> Outcome<Self> {
        let store = setting.store();
        let mut page = Page::default();
        let mut dice = Dice(history.end ^ 1);
        let mut names = 0;
        let first = 2 + dice.below(2);
        let counts = [first, 2 + dice.below(2)];
        let lists = [0, 1].map(|nth| {
            let items: Vec<_> = (0..counts[nth])
                .map(|_| {
                    names += 1;
                    let text = page.letters.draw([0, 1, 2, 2, 3, 4][dice.below(6)]);
                    text_node("item", text).with_id(format!("n{names}").as_str())
                })
                .collect();
            element("list", items).with_id(["l1", "l2"][nth])
        });
        let ruler = text_node("ruler", "-".repeat(100)).with_id("ruler");
        let root = element("page", lists.into_iter().chain([ruler])).with_id("page");
        let mut setup = store.begin("setup").unwrap();
        setup.create(root).unwrap();
        setup.set_root(&NodeId::from("page")).unwrap();
        setup.commit().unwrap();
        let person = |who| Person {
            editor: setting.editor(&store, who),
            stacks: Stacks::default(),
            refused: 0,
        };
        let now = page.read(&store.snapshot())?;
        page.commit(&State::default(), &now, std::iter::empty())?;
        let mut world = Self {
            people: (0..history.people).map(person).collect(),
            page,
            now: State::default(),
            trace,
            setting,
            lines: 0,
            carets: 0,
            names,
            has_lost: false,
            acted: Vec::new(),
            store,
        };
        world.check(now, false, || "the page".to_owned())?;
        Ok(world)
    }

    fn read(&self) -> Outcome<(Snapshot, State)> {
        let view = self.store.snapshot();
        let state = self.page.read(&view)?;
        Ok((view, state))
    }

    fn say(&mut self, line: impl FnOnce() -> String) {
        self.lines += 1;
        let nth = self.lines;
        self.trace.say(|| format!("{nth:>3}. {}", line()));
    }

    /// Compares the document and the histories with what they have to be. `reorders` is whether the
    /// step moved, split or joined nodes.
    fn check(&mut self, now: State, reorders: bool, what: impl FnOnce() -> String) -> Outcome {
        let shown = self.trace.0.is_some().then(|| now.shown.clone());
        self.say(|| format!("{}\n          {}", what(), shown.unwrap_or_default()));
        if self.setting.records {
            record(&self.store);
        }
        if self.setting.reads {
            let people = self.people.iter();
            people.for_each(|person| drop(person.editor.selection()));
        }
        let lines = self.lines;
        self.page.compare(&self.now, &now, reorders, lines)?;
        self.now = now;
        self.depths()
    }

    fn depths(&self) -> Outcome {
        for (person, name) in self.people.iter().zip(NAMES) {
            let found = (person.editor.undo_depth(), person.editor.redo_depth());
            let expected = (person.stacks.done.len(), person.stacks.undone.len());
            if found != expected {
                let text = format!("the depths of {name} are {found:?}, not {expected:?}");
                return fail("depths", text);
            }
        }
        Ok(())
    }

    fn step(&mut self, step: &TreeStep) -> Outcome {
        let who = step.who % self.people.len();
        match &step.action {
            Action::Edit(edits) => self.edit(who, edits),
            Action::Undo => self.turn(who, false).map(drop),
            Action::Redo => self.turn(who, true).map(drop),
            Action::Restore => self.restore(who),
            Action::Forget => {
                forget(&self.store);
                let (_view, now) = self.read()?;
                self.check(now, false, || "    the store forgets".to_owned())
            }
        }
    }

    fn edit(&mut self, who: usize, edits: &[Edit]) -> Outcome {
        let view = self.store.snapshot();
        let said = Arc::new(Mutex::new(Vec::new()));
        let mut all: Vec<Operation> = Vec::new();
        for edit in edits {
            self.names += 1;
            let text = self.page.letters.draw(edit.new);
            let name = self.names;
            all.extend(operations(*edit, New { text, name }, &view, &said));
        }
        drop(view);
        self.carets += 1;
        let at = caret(self.carets);
        let editor = &self.people[who].editor;
        editor.select(at.clone()).unwrap();
        // Some operations select something else.
        all.push(set_selection(at));
        let result = transaction(editor, all).commit();
        let said = std::mem::take(&mut *said.lock().unwrap()).join(", ");
        let (_view, after) = self.read()?;
        let result = match result {
            Ok(result) => result,
            Err(error) => {
                if after.image != self.now.image {
                    return fail("edit", format!("it failed and changed something: {error}"));
                }
                self.say(|| format!("  - {} {said}: {error}", NAMES[who]));
                return Ok(());
            }
        };
        if !result.changed {
            self.say(|| format!("  - {} {said}: no change", NAMES[who]));
            return Ok(());
        }
        let changes = || result.changes.iter();
        let edit = self.page.commit(&self.now, &after, changes())?;
        let reorders = changes().any(|change| {
            matches!(
                change,
                Change::MoveNode { .. } | Change::SplitNode { .. } | Change::JoinNodes { .. }
            )
        });
        self.acted.push(who);
        let entry = Entry {
            edit,
            caret: self.carets,
            reorders,
            is_stuck: false,
        };
        let person = &mut self.people[who];
        let lost = person.stacks.push(entry, self.setting.limit);
        self.has_lost |= lost.is_some();
        person.stacks.undone.clear();
        self.check(after, reorders, || {
            format!("{edit:>3} {} {said}", NAMES[who])
        })
    }

    /// Undoes or redoes. Returns whether an entry changed its stack.
    fn turn(&mut self, who: usize, redo: bool) -> Outcome<bool> {
        let person = &mut self.people[who];
        let (name, verb) = (NAMES[who], if redo { "redoes" } else { "undoes" });
        let result = if redo {
            person.editor.redo().commit()
        } else {
            person.editor.undo().commit()
        };
        let is_empty = person.stacks.of(redo).is_empty();
        let (_view, after) = self.read()?;
        let result = match result {
            Ok(_) if is_empty => return fail("depths", format!("{name} {verb} nothing")),
            Ok(result) => result,
            Err(UndoError::NothingToUndo | UndoError::NothingToRedo) if is_empty => {
                self.say(|| format!("  - {name} {verb} nothing"));
                return Ok(false);
            }
            Err(UndoError::Conflict { conflict, .. }) => {
                self.say(|| format!("  - {name} {verb}: refused, {conflict}"));
                if after.image != self.now.image {
                    return fail("refused", "a refused undo changed the document");
                }
                self.people[who].refused += 1;
                // A single editor has no conflicts.
                if self.acted.iter().all(|other| *other == who) {
                    return fail("alone", format!("{name} is alone: {conflict}"));
                }
                self.depths()?;
                return Ok(false);
            }
            Err(error) => return fail("error", format!("{name} {verb}: {error}")),
        };
        let selected = result.selection_after.as_ref();
        let entry = self.take(who, redo, selected)?;
        self.page.letters.set(entry.edit, redo);
        self.people[who].stacks.of(!redo).push(entry);
        self.check(after, entry.reorders, || {
            format!("    {name} {verb} {}", entry.edit)
        })?;
        Ok(true)
    }

    /// The entry that was undone. Newer ones were refused before.
    fn take(&mut self, who: usize, redo: bool, selected: Option<&Selection>) -> Outcome<Entry> {
        let person = &mut self.people[who];
        let stack = person.stacks.of(redo);
        let is_it = |entry: &Entry| selected == Some(&caret(entry.caret));
        let Some(at) = stack.iter().position(is_it) else {
            return fail(
                "entry",
                format!("the selection {selected:?} is of no entry"),
            );
        };
        let mut passed = Vec::new();
        for newer in &mut stack[at + 1..] {
            if !std::mem::replace(&mut newer.is_stuck, true) {
                passed.push(newer.edit);
            }
        }
        let mut entry = stack.remove(at);
        entry.is_stuck = false;
        match person.refused.checked_sub(passed.len()) {
            Some(left) => person.refused = left,
            None => {
                let text = format!("{passed:?} were passed by, but not refused before");
                return fail("passed", text);
            }
        }
        Ok(entry)
    }

    /// The editor ends, and the next one of its owner restores its history.
    fn restore(&mut self, who: usize) -> Outcome {
        let person = &mut self.people[who];
        // The old one must end first: an edit is in one history only.
        person.editor = Editor::new(DataStore::new(), "no person");
        person.editor = self
            .setting
            .editor(&self.store, who)
            .with_restored_history();
        // Stuck entries report their conflict once more.
        for entry in person
            .stacks
            .done
            .iter_mut()
            .chain(&mut person.stacks.undone)
        {
            entry.is_stuck = false;
        }
        self.say(|| format!("    {} restores the history", NAMES[who]));
        self.depths()
    }

    /// Undoes or redoes everything, in any order of the editors, until nothing more is possible.
    fn all(&mut self, redo: bool, dice: &mut Dice) -> Outcome {
        let mut refused = vec![0; self.people.len()];
        loop {
            let people = self.people.iter_mut().enumerate();
            // Each undo reports one stuck entry, or passes it by.
            let left = people.filter_map(|(who, person)| {
                let depth = person.stacks.of(redo).len();
                (depth > 0 && refused[who] <= depth + 1).then_some(who)
            });
            let left: Vec<usize> = left.collect();
            if left.is_empty() {
                return Ok(());
            }
            let who = left[dice.below(left.len())];
            if self.turn(who, redo)? {
                refused.fill(0);
            } else {
                refused[who] += 1;
            }
        }
    }

    fn is_done(&mut self, redo: bool) -> Outcome {
        for (person, name) in self.people.iter_mut().zip(NAMES) {
            if let Some(entry) = person.stacks.of(redo).last() {
                let text = format!("edit {} of {name} is refused for good", entry.edit);
                return fail(if redo { "redo stuck" } else { "undo stuck" }, text);
            }
        }
        Ok(())
    }
}

pub(crate) fn run(history: &History<Action>, setting: Setting, trace: &mut Trace) -> Outcome {
    let mut world = World::new(history, setting, trace)?;
    let initial = world.now.image.clone();
    for step in &history.steps {
        world.step(step)?;
    }
    let mut dice = Dice(history.end);
    world.say(|| "all redo:".to_owned());
    world.all(true, &mut dice)?;
    // What cannot be redone any more is given up.
    let mut is_whole = true;
    for person in &mut world.people {
        is_whole &= person.stacks.undone.is_empty();
        person.stacks.undone.clear();
        while person.editor.discard_redo() {}
    }
    world.depths()?;
    let last = world.now.image.clone();
    for (redo, expected) in [(false, &initial), (true, &last)] {
        // Entries that were discarded would return.
        if setting.kept > 0 && is_whole && dice.one_in(2) {
            for who in 0..history.people {
                world.restore(who)?;
            }
        }
        world.say(|| if redo { "all redo:" } else { "all undo:" }.to_owned());
        world.all(redo, &mut dice)?;
        // An edit that can no longer be undone may be in the way for good.
        if !redo && world.has_lost {
            continue;
        }
        world.is_done(redo)?;
        let found = &world.now.image;
        if found != expected {
            let text = format!("the document is\n   {found}, not\n   {expected}");
            return fail(if redo { "last" } else { "first" }, text);
        }
    }
    Ok(())
}

fn test(name: &str, people: usize, longest: usize) {
    let draw = |dice: &mut Dice| history(dice, people, longest, false);
    let run = |history: &_, trace: &mut Trace| {
        for setting in [Setting::RECORDED, Setting::PLAIN] {
            run(history, setting, trace)?;
            trace.clear();
        }
        run(history, Setting::ON_NODES, trace)
    };
    search(name, draw, run);
}

#[test]
fn trees_long_one() {
    test("trees_long_one", 1, 30);
}

#[test]
fn trees_short_two() {
    test("trees_short_two", 2, 8);
}

#[test]
fn trees_short_three() {
    test("trees_short_three", 3, 8);
}

#[test]
fn trees_short_four() {
    test("trees_short_four", 4, 8);
}

#[test]
fn trees_long_two() {
    test("trees_long_two", 2, 30);
}

#[test]
fn trees_long_three() {
    test("trees_long_three", 3, 30);
}

#[test]
fn trees_long_four() {
    test("trees_long_four", 4, 30);
}
