//! The caret that an undo or a redo restores, and where an interface scrolls to.

use std::time::Duration;

use doclock::document::{Position, Selection, Side};
use doclock::events::Receiver;
use doclock::history::{HistoryEvent, HistoryMode, HistoryOptions};
use doclock::{
    DataStore, Editor, NodeId, Snapshot, StoreOptions, View, dsl::*, transaction::Operation,
};

use super::run;
use crate::common::{Dice, SESSION, seed};

/// Editors of a store that keeps its commits and has three texts in a paragraph. Each commit of
/// them is an entry.
pub(super) fn editors<const N: usize>() -> [Editor; N] {
    let options = StoreOptions::new().session(SESSION).kept_commits(1 << 24);
    let store = DataStore::with_options(options);
    let texts = ["t1", "t2", "t3"].map(|id| text_node("inline-text", "Io and Europa").with_id(id));
    let paragraph = element("paragraph", texts).with_id("p");
    run(&Editor::new(store.clone(), "setup"), create(paragraph));
    std::array::from_fn(|nth| {
        let options = HistoryOptions::new().group_interval(Duration::ZERO);
        Editor::new(store.clone(), format!("editor {nth}")).with_history(options)
    })
}

/// A caret of an entry, in the version in which it was there.
#[derive(Debug)]
struct Known {
    version: u64,
    caret: Position,
    /// A session with a caret at the same place since then.
    watcher: Editor,
}

/// The carets before and after an entry.
type Entry = [Option<Known>; 2];

fn focus(selection: Option<Selection>) -> Option<Position> {
    match selection {
        Some(Selection::Text(text)) => Some(text.focus),
        _ => None,
    }
}

fn known(store: &DataStore, caret: Option<Position>) -> Option<Known> {
    let watcher = Editor::new(store.clone(), "watcher");
    let caret = caret?;
    let at = Selection::caret(caret.node_id.clone(), caret.offset);
    watcher.select(at).ok()?;
    Some(Known {
        version: store.version(),
        caret,
        watcher,
    })
}

/// A random edit at the caret of an editor.
fn edit_at(at: &Position, len: usize, next: Option<NodeId>, dice: &mut Dice) -> Operation {
    let (id, offset) = (&at.node_id, at.offset);
    let end = len.min(offset + dice.below(5));
    match (dice.below(8), next) {
        (0..=2, _) => insert_text(
            offset,
            char::from(b'a' + dice.below(26) as u8)
                .to_string()
                .repeat(2),
        )
        .on(id),
        (3 | 4, _) => delete_text_range(offset, end).on(id),
        (5, _) => replace_text(offset, end, "z").on(id),
        (6, Some(next)) => merge_text_nodes(&next).on(id),
        _ => split_text_node(offset).on(id),
    }
}

/// Where a position beside the same letters is, on both of its sides. `None` if these are deleted.
fn mapped(store: &DataStore, known: &Known) -> Option<[Position; 2]> {
    let now = store.snapshot();
    let [before, after] = [Side::Before, Side::After].map(|side| {
        let mapped = now
            .map_position(store, known.version, &known.caret, side)
            .unwrap();
        mapped.position.filter(|_| !mapped.is_deleted)
    });
    Some([before?, after?])
}

/// A history of edits, undos and redos, each with a caret.
struct World {
    people: [Editor; 3],
    events: [Receiver<HistoryEvent>; 3],
    entries: Vec<Entry>,
    dice: Dice,
    compared: usize,
}

impl World {
    fn new(seed: u64) -> Self {
        let people: [Editor; 3] = editors();
        Self {
            events: people.each_ref().map(Editor::history_events),
            people,
            entries: Vec::new(),
            dice: Dice(seed),
            compared: 0,
        }
    }

    fn edit(&mut self, who: usize) {
        let (person, dice) = (&self.people[who], &mut self.dice);
        let store = person.store();
        let view = store.snapshot();
        let texts: Vec<_> = view.children("p").collect();
        let Some(text) = texts.get(dice.below(texts.len().max(1))) else {
            return;
        };
        let len = text.text().len();
        let at = Position::new(text.id().clone(), dice.below(len + 1));
        let next = view.next_sibling(text.id()).map(|next| next.id().clone());
        let caret = Selection::caret(at.node_id.clone(), at.offset);
        person.select(caret).unwrap();
        let before = known(store, Some(at.clone()));
        let name = self.entries.len().to_string();
        let edit = transaction(person, edit_at(&at, len, next, dice));
        let edit = edit.in_history(HistoryMode::Named(name.as_str().into()));
        if edit.commit().is_ok_and(|result| result.changed) {
            let after = known(store, focus(person.selection()));
            self.entries.push([before, after]);
        }
    }

    /// Undoes or redoes an entry, and compares the restored caret with the living ones.
    fn turn(&mut self, who: usize, redo: bool) -> Result<(), String> {
        let person = &self.people[who];
        let outcome = match redo {
            true => person.redo().commit(),
            false => person.undo().commit(),
        };
        let Ok(result) = outcome else {
            return Ok(());
        };
        let event = self.events[who].try_iter().last().unwrap();
        let entry: usize = event.name.unwrap().parse().unwrap();
        let known = self.entries[entry][usize::from(redo)].as_ref();
        let (Some(known), Some(found)) = (known, focus(result.selection_after)) else {
            return Ok(());
        };
        let Some(mapped) = mapped(person.store(), known) else {
            return Ok(());
        };
        self.compared += 1;
        let live = focus(known.watcher.selection());
        let view = person.store().snapshot();
        let all = mapped
            .iter()
            .chain(&live)
            .map(|at| letters_before(&view, at));
        let (first, last) = (all.clone().min(), all.max());
        let at = letters_before(&view, &found);
        match first <= Some(at) && Some(at) <= last {
            true => Ok(()),
            false => Err(format!("{found:?} instead of {live:?} or {mapped:?}")),
        }
    }
}

/// How many letters of the document are before a position: it is the same on both sides of a seam.
fn letters_before(view: &Snapshot, at: &Position) -> usize {
    let before = view.children("p").take_while(|it| *it.id() != at.node_id);
    before.map(|text| text.text().len()).sum::<usize>() + at.offset
}

/// A caret that lived through the same commits is where a session with a selection has it, or
/// beside the letters beside which it was. Where these differ, the restored one is between them.
#[test]
fn undo_04_a_restored_caret_is_one_that_lived_through_the_same_commits() {
    let (first, mut compared) = (seed(), 0);
    let mut wrong = Vec::new();
    let count = std::env::var("DOCLOCK_HISTORIES").ok();
    for seed in first..first + count.map_or(40, |count| count.parse().unwrap()) {
        let mut world = World::new(seed);
        for step in 0..60 {
            let who = world.dice.below(3);
            let outcome = match world.dice.below(9) {
                0 | 1 => world.turn(who, false),
                2 => world.turn(who, true),
                _ => {
                    world.edit(who);
                    Ok(())
                }
            };
            let note = |error| format!("SEED={seed}, step {step}: {error}");
            wrong.extend(outcome.err().map(note));
        }
        compared += world.compared;
    }
    println!("{} of {compared} are elsewhere", wrong.len());
    assert!(compared > 100);
    assert_eq!(wrong, [""; 0]);
}

/// The caret after an entry was put into the text only with the next commit. It was at its offset
/// in the text without the entry then, if the entry had been undone meanwhile.
#[test]
fn undo_04_the_caret_of_an_entry_that_was_undone_at_once_returns_to_its_place() {
    let [ann, bob] = editors();
    ann.select(Selection::caret("t1", 2)).unwrap();
    run(&ann, insert_text(2, ", xy").on("t1"));
    ann.undo().commit().unwrap();
    run(&bob, insert_text(0, "z").on("t2"));
    ann.redo().commit().unwrap();
    assert_eq!(ann.selection(), Some(Selection::caret("t1", 6)));
}
