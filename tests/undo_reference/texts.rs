//! Several editors of one short text.

use doclock::{
    DataStore, Editor, View,
    codes::CodedError,
    document::Mark,
    dsl::*,
    history::{EditGroup, HistoryMode},
    transaction::Operation,
};

use crate::common::{Dice, forget, image, record};
use crate::letters::{self, Letters, MARKS, Shown};
use crate::order::Order;
use crate::search::{History, Outcome, Trace, fail, search};
use crate::setting::{NAMES, Setting, Stacks};
use crate::text_steps::{Action, Edit, TextStep, What, history};

/// The edits that are undone together.
#[derive(Clone, Debug)]
struct Entry {
    edits: Vec<usize>,
    name: Option<usize>,
    /// Whether it was undone before: a merged edit may no longer find it then.
    was_undone: bool,
}

struct Person {
    editor: Editor,
    group: Option<EditGroup>,
    /// Whether the next edit joins the newest entry, if that is known.
    joins: Option<bool>,
    stacks: Stacks<Entry>,
    /// How many names it has used.
    names: usize,
}

struct World<'a> {
    store: DataStore,
    people: Vec<Person>,
    letters: Letters,
    order: Order,
    trace: &'a mut Trace,
    setting: Setting,
    /// Whether an entry in effect can no longer be undone.
    has_lost: bool,
}

impl<'a> World<'a> {
    fn new(people: usize, setting: Setting, trace: &'a mut Trace) -> Outcome<Self> {
        let store = setting.store();
        let mut letters = Letters::default();
        let text = letters.draw(10);
        let mut setup = store.begin("setup").unwrap();
        let node = text_node("paragraph", text).with_id("t");
        setup.create(node).unwrap();
        setup.commit().unwrap();
        let person = |who| Person {
            editor: setting.editor(&store, who),
            group: None,
            joins: Some(false),
            stacks: Stacks::default(),
            names: 0,
        };
        let mut world = Self {
            people: (0..people).map(person).collect(),
            letters,
            order: Order::default(),
            trace,
            setting,
            has_lost: false,
            store,
        };
        let text = world.text()?;
        world.letters.commit(&[], &text)?;
        Ok(world)
    }

    fn text(&self) -> Outcome<Vec<Shown>> {
        let (view, mut text) = (self.store.snapshot(), Vec::new());
        self.letters.read(view.node("t").unwrap(), &mut text)?;
        Ok(text)
    }

    /// Compares the document and the histories with what they have to be.
    fn check(&mut self, what: impl FnOnce() -> String) -> Outcome {
        let text = self.text()?;
        if self.trace.0.is_some() {
            let what = what();
            let shown = letters::shown(&text);
            self.trace.say(|| format!("{what:<42} {shown}"));
        }
        if self.setting.records {
            record(&self.store);
        }
        if self.setting.reads {
            self.people
                .iter()
                .for_each(|person| drop(person.editor.selection()));
        }
        if let Some(missing) = self.letters.compare(&text)?.first() {
            let (letter, why) = (letters::letter(*missing), self.letters.why(*missing));
            return fail("missing", format!("{letter} is missing: {why}"));
        }
        let order: Vec<usize> = text.iter().map(|(letter, _)| *letter).collect();
        if let Err(pair) = self.order.compare(&order, |_, _| false) {
            let [one, other] = pair.map(letters::letter);
            let text = format!("{one} is before {other}, and was after it");
            return fail("order", text);
        }
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

    fn step(&mut self, step: &TextStep) -> Outcome {
        let who = step.who % self.people.len();
        match &step.action {
            Action::Edit(edits) => self.edit(who, edits, HistoryMode::Recorded, None),
            Action::Named(edits) if self.people[who].group.is_none() => {
                let name = self.people[who].names;
                self.people[who].names += 1;
                self.edit(
                    who,
                    edits,
                    HistoryMode::Named(format!("{name}").into()),
                    Some(name),
                )
            }
            Action::Merged(edits, back) if self.people[who].group.is_none() => {
                let Some(name) = self.people[who].names.checked_sub(1 + back) else {
                    return Ok(());
                };
                self.edit(
                    who,
                    edits,
                    HistoryMode::MergedInto(format!("{name}").into()),
                    Some(name),
                )
            }
            Action::Named(edits) | Action::Merged(edits, _) => {
                self.edit(who, edits, HistoryMode::Recorded, None)
            }
            Action::Undo => self.turn(who, false).map(drop),
            Action::Redo => self.turn(who, true).map(drop),
            Action::Group => {
                let person = &mut self.people[who];
                let opens = person.group.is_none();
                // The old one must end first.
                person.group = None;
                person.group = opens.then(|| person.editor.group());
                person.joins = Some(false);
                let what = if opens { "opens" } else { "closes" };
                self.check(|| format!("{} {what} a group", NAMES[who]))
            }
            Action::Restore => self.restore(who),
            Action::Forget => {
                forget(&self.store);
                self.check(|| "    the store forgets".to_owned())
            }
        }
    }

    /// The operations of an edit, and their readable form.
    fn operations(&mut self, edits: &[Edit], length: usize) -> (Vec<Operation>, String) {
        let (mut length, mut all, mut shown) = (length, Vec::new(), Vec::new());
        for edit in edits {
            let at = edit.at.min(edit.at % (length + 1));
            let at = if edit.at == usize::MAX { length } else { at };
            let end = (at + edit.length).min(length);
            let (start, kind) = if edit.length == 99 {
                (0, edit.new % 2)
            } else {
                (at, edit.new % 2)
            };
            let end = if edit.length == 99 { length } else { end };
            let kind = MARKS[kind];
            let operation = match edit.what {
                What::Insert => {
                    let new = self.letters.draw(edit.new);
                    shown.push(format!("inserts {new:?} at {at}"));
                    length += edit.new;
                    insert_text(at, new)
                }
                What::Delete => {
                    shown.push(format!("deletes {start}..{end}"));
                    length -= end - start;
                    delete_text_range(start, end)
                }
                What::Replace => {
                    let new = self.letters.draw(edit.new);
                    shown.push(format!("replaces {start}..{end} by {new:?}"));
                    length = length - (end - start) + edit.new;
                    replace_text(start, end, new)
                }
                What::SetText => {
                    let new = self.letters.draw(edit.new);
                    shown.push(format!("sets the text to {new:?}"));
                    length = edit.new;
                    set_text(new)
                }
                What::Mark => {
                    shown.push(format!("makes {start}..{end} {kind}"));
                    apply_mark(kind, start..end)
                }
                What::Unmark => {
                    shown.push(format!("makes {start}..{end} not {kind}"));
                    remove_mark(kind, start..end)
                }
                What::SetMarks => {
                    shown.push(format!("sets the marks to {kind} {start}..{end}"));
                    set_marks([Mark::new(kind, start..end)])
                }
            };
            all.push(operation.on("t"));
        }
        (all, shown.join(", "))
    }

    fn edit(
        &mut self,
        who: usize,
        edits: &[Edit],
        how: HistoryMode,
        name: Option<usize>,
    ) -> Outcome {
        let before = self.text()?;
        let (operations, shown) = self.operations(edits, before.len());
        let person = &mut self.people[who];
        let merges = matches!(how, HistoryMode::MergedInto(_));
        let pending = transaction(&person.editor, operations).in_history(how.clone());
        let result = pending.commit().unwrap();
        let after = self.text()?;
        let shown = |number: Option<usize>| {
            let how = match &how {
                HistoryMode::Recorded => String::new(),
                how => format!(" {how:?}"),
            };
            let number = number.map_or("-".to_owned(), |number| number.to_string());
            format!("{number:>3} {} {shown}{how}", NAMES[who])
        };
        if !result.changed {
            return self.check(|| shown(None));
        }
        let edit = self.letters.commit(&before, &after)?;
        let person = &mut self.people[who];
        let depth = person.editor.undo_depth();
        let named = person
            .stacks
            .done
            .iter()
            .rposition(|entry| entry.name == name);
        let named = named.filter(|_| merges);
        match named {
            // A name may be forgotten by an undo.
            Some(at) if !person.stacks.done[at].was_undone || depth == person.stacks.done.len() => {
                person.stacks.done[at].edits.push(edit);
            }
            _ if person.joins.unwrap_or(depth == person.stacks.done.len()) && !merges => {
                let entry = person.stacks.done.last_mut().unwrap();
                entry.edits.push(edit);
            }
            _ => {
                let entry = Entry {
                    edits: vec![edit],
                    name,
                    was_undone: false,
                };
                let lost = person.stacks.push(entry, self.setting.limit);
                self.has_lost |= lost.is_some();
            }
        }
        person.joins = Some(person.group.is_some());
        // Whether a late edit ends what can be redone is not the matter of this test.
        if named.is_none() || person.editor.redo_depth() == 0 {
            person.stacks.undone.clear();
        }
        self.check(|| shown(Some(edit)))
    }

    /// Undoes or redoes. Returns whether there was something.
    fn turn(&mut self, who: usize, redo: bool) -> Outcome<bool> {
        let person = &mut self.people[who];
        let verb = if redo { "redoes" } else { "undoes" };
        let result = if redo {
            person.editor.redo().commit()
        } else {
            person.editor.undo().commit()
        };
        let joined = person.joins.replace(false);
        let Some(mut entry) = person.stacks.of(redo).pop() else {
            // A redo of nothing in an open group.
            person.joins = if joined == Some(true) { None } else { joined };
            let error = result.expect_err("an empty history was undone");
            let code = if redo {
                "nothingToRedo"
            } else {
                "nothingToUndo"
            };
            if error.code() != code {
                return fail("depths", format!("{error} instead of {code}"));
            }
            self.trace
                .say(|| format!("    {} {verb} nothing", NAMES[who]));
            return Ok(false);
        };
        if let Err(error) = result {
            let text = format!("{} {verb} {:?}: {error}", NAMES[who], entry.edits);
            return fail("refused", text);
        }
        entry.was_undone = true;
        for edit in &entry.edits {
            self.letters.set(*edit, redo);
        }
        let edits = entry.edits.clone();
        person.stacks.of(!redo).push(entry);
        self.check(|| format!("    {} {verb} {edits:?}", NAMES[who]))?;
        Ok(true)
    }

    /// The editor ends, and the next one of its owner restores its history.
    fn restore(&mut self, who: usize) -> Outcome {
        let person = &mut self.people[who];
        person.group = None;
        person.joins = Some(false);
        // The old one must end first: an edit is in one history only.
        let elsewhere = DataStore::new();
        person.editor = Editor::new(elsewhere, "no person");
        person.editor = self
            .setting
            .editor(&self.store, who)
            .with_restored_history();
        // Groups are not stored, except those that were undone once.
        let done = std::mem::take(&mut person.stacks.done);
        for entry in done {
            if entry.was_undone {
                person.stacks.done.push(entry);
                continue;
            }
            person
                .stacks
                .done
                .extend(entry.edits.iter().map(|edit| Entry {
                    edits: vec![*edit],
                    name: None,
                    was_undone: false,
                }));
        }
        self.check(|| format!("    {} restores the history", NAMES[who]))
    }

    /// Undoes or redoes everything, in any order of the editors.
    fn all(&mut self, redo: bool, dice: &mut Dice) -> Outcome {
        loop {
            let left = self.people.iter_mut().enumerate();
            let left: Vec<usize> = left
                .filter_map(|(who, person)| (!person.stacks.of(redo).is_empty()).then_some(who))
                .collect();
            if left.is_empty() {
                return Ok(());
            }
            self.turn(left[dice.below(left.len())], redo)?;
        }
    }
}

pub(crate) fn run(history: &History<Action>, setting: Setting, trace: &mut Trace) -> Outcome {
    let mut world = World::new(history.people, setting, trace)?;
    let initial = image(&world.store.snapshot());
    world.check(|| "the text".to_owned())?;
    for step in &history.steps {
        world.step(step)?;
    }
    for person in &mut world.people {
        person.group = None;
        person.joins = Some(false);
    }
    let mut dice = Dice(history.end);
    world.trace.say(|| "all redo:".to_owned());
    world.all(true, &mut dice)?;
    let last = image(&world.store.snapshot());
    for (redo, expected) in [(false, &initial), (true, &last)] {
        if setting.kept > 0 && dice.one_in(2) {
            for who in 0..history.people {
                world.restore(who)?;
            }
        }
        let what = if redo { "all redo:" } else { "all undo:" };
        world.trace.say(|| what.to_owned());
        world.all(redo, &mut dice)?;
        let found = image(&world.store.snapshot());
        if found != *expected && (redo || !world.has_lost) {
            let text = format!("the document is\n   {found}, not\n   {expected}");
            return fail(if redo { "last" } else { "first" }, text);
        }
    }
    Ok(())
}

fn test(name: &str, people: usize, longest: usize) {
    let draw = |dice: &mut Dice| history(dice, people, longest, false);
    search(name, draw, |history, trace| {
        for setting in [Setting::RECORDED, Setting::PLAIN] {
            run(history, setting, trace)?;
            trace.clear();
        }
        run(history, Setting::ON_NODES, trace)
    });
}

#[test]
fn texts_long_one() {
    test("texts_long_one", 1, 40);
}

#[test]
fn texts_short_two() {
    test("texts_short_two", 2, 8);
}

#[test]
fn texts_short_three() {
    test("texts_short_three", 3, 8);
}

#[test]
fn texts_short_four() {
    test("texts_short_four", 4, 8);
}

#[test]
fn texts_long_two() {
    test("texts_long_two", 2, 40);
}

#[test]
fn texts_long_three() {
    test("texts_long_three", 3, 40);
}

#[test]
fn texts_long_four() {
    test("texts_long_four", 4, 40);
}
