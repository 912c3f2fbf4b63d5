//! One editor alone gives a tree any shape, such as children in nodes that have text. Each undo and
//! redo restores the document exactly: it is compared with an image that was taken before.

use std::sync::{Arc, Mutex};

use doclock::{
    Draft, NodeId, View,
    document::{EditError, SplitPoint},
    dsl::*,
};

use crate::common::{Dice, commit, image, record, store};
use crate::search::{self, History, Outcome, Step, Trace, fail, named_kinds, search};
use crate::setting::Setting;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Split,
    Join,
    Delete,
    Move,
    Wrap,
    Insert,
    Type,
    Erase,
}

use What::{Delete, Erase, Insert, Join, Move, Split, Type, Wrap};

/// Each kind, as often as it is drawn.
const DRAWN: [What; 12] = [
    Split, Split, Split, Join, Join, Delete, Move, Move, Wrap, Insert, Type, Erase,
];

/// What one transaction does. All numbers count modulo what exists by then.
#[derive(Clone, Copy, Debug)]
struct Edit {
    what: What,
    /// Which node, where in its text, and where among its children or those of its new parent.
    node: usize,
    at: usize,
    child: usize,
    /// The new parent.
    to: usize,
}

impl search::Action for Edit {
    fn simpler(&self) -> Vec<Self> {
        let nodes = (0..self.node).map(|node| Self { node, ..*self });
        nodes
            .chain((0..self.at).map(|at| Self { at, ..*self }))
            .chain((0..self.child).map(|child| Self { child, ..*self }))
            .chain((0..self.to).map(|to| Self { to, ..*self }))
            .collect()
    }

    fn name(&self) -> String {
        format!("{:?}", self.what)
    }
}

fn draw(dice: &mut Dice) -> History<Edit> {
    let kinds = named_kinds(&DRAWN).unwrap_or(DRAWN.to_vec());
    let count = 2 + dice.below(9);
    let step = |_| {
        let action = Edit {
            what: kinds[dice.below(kinds.len())],
            node: dice.below(12),
            at: dice.below(6),
            child: dice.below(6),
            // Often the page itself.
            to: if dice.one_in(3) { 0 } else { dice.below(12) },
        };
        Step { who: 0, action }
    };
    let steps = (0..count).map(step).collect();
    History {
        people: 1,
        steps,
        end: 0,
    }
}

/// Runs one edit, and returns its readable form. A node or text that it inserts has the number
/// `nth`.
fn operate(edit: Edit, nth: usize, on: &mut Draft) -> Result<String, EditError> {
    let page = on.descendants("page");
    let all: Vec<NodeId> = page.map(|node| node.id().clone()).collect();
    let letter = char::from(b'A' + (nth % 26) as u8).to_string();
    let name = format!("n{nth}");
    let new = element("item", []).with_id(name.as_str());
    if edit.what == Insert {
        let parent = &all[edit.node % all.len()];
        let place = edit.child % (on.children(parent).count() + 1);
        on.insert(new.with_text(letter), parent, place)?;
        return Ok(format!("inserts {name} at {place} of {parent}"));
    }
    let Some(id) = all.get(1 + edit.node % (all.len() - 1).max(1)) else {
        return Ok("finds no node".to_owned());
    };
    let node = on.node(id).unwrap();
    let (text, children) = (node.text().len(), node.children().len());
    let parent = node.parent().unwrap().clone();
    let at = edit.at % (text + 1);
    Ok(match edit.what {
        Split => {
            let children = edit.child % (children + 1);
            let right = on.split_node(id, SplitPoint { text: at, children }, None)?;
            format!("splits {id} at {at} and {children}, which makes {right}")
        }
        Join => {
            let Some(next) = on.next_sibling(id).map(|next| next.id().clone()) else {
                return Ok("joins nothing".to_owned());
            };
            on.join_nodes(id, &next)?;
            format!("joins {id} and {next}")
        }
        Delete => {
            on.delete(id)?;
            format!("deletes {id}")
        }
        Move => {
            let to = &all[edit.to % all.len()];
            let room = on.children(to).count() + usize::from(*to != parent);
            let place = edit.child % room;
            on.move_node(id, to, place)?;
            format!("moves {id} to {place} of {to}")
        }
        Wrap => {
            let place = on.index_in_parent(id).unwrap();
            on.insert(new, &parent, place)?;
            on.move_node(id, name.as_str(), 0)?;
            format!("wraps {id} in {name}")
        }
        Type => {
            on.insert_text(id, at, letter.as_str())?;
            format!("inserts {letter:?} at {at} of {id}")
        }
        _ => {
            on.delete_text(id, at..text)?;
            format!("deletes {at}..{text} of {id}")
        }
    })
}

/// A node and its descendants in readable form.
fn shown(view: &impl View, id: &str) -> String {
    let text = view.node(id).unwrap().text().to_string();
    let children = view.children(id).map(|node| node.id().to_string());
    let children: Vec<String> = children.map(|id| shown(view, &id)).collect();
    format!("{id}{text:?}[{}]", children.join(" "))
}

/// Runs a history on a page that another editor made, and records each commit at once. Or else on
/// one of a transaction without an editor, which is not recorded.
fn run(
    history: &History<Edit>,
    is_recorded: bool,
    is_one_entry: bool,
    trace: &mut Trace,
) -> Outcome {
    let store = store();
    let [a, b, c] = [("a", "abc"), ("b", "def"), ("c", "ghi")]
        .map(|(id, text)| text_node("p", text).with_id(id));
    let lists = [("i", vec![a, b]), ("k", vec![c])];
    let lists = lists.map(|(id, children)| element("item", children).with_id(id));
    let page = element("item", lists).with_id("page");
    // The other editor stays: the edits of one that ended are never undone, so not recorded.
    let [ann, other] = [0, 1].map(|who| Setting::PLAIN.editor(&store, who));
    if is_recorded {
        transaction(&other, create(page)).commit().unwrap();
    } else {
        commit(&store, |on| drop(on.create(page).unwrap()));
    }
    let mut images = vec![image(&store.snapshot())];
    trace.say(|| shown(&store.snapshot(), "page"));
    let group = is_one_entry.then(|| ann.group());
    for (nth, step) in history.steps.iter().enumerate() {
        let (edit, said) = (step.action, Arc::new(Mutex::new(String::new())));
        let line = Arc::clone(&said);
        let operation = op(move |on: &mut Draft| {
            *line.lock().unwrap() = operate(edit, nth, on)?;
            Ok::<(), EditError>(())
        });
        let result = transaction(&ann, operation).commit();
        if is_recorded {
            record(&store);
        }
        let view = store.snapshot();
        let now = image(&view);
        let is_changed = result.as_ref().is_ok_and(|result| result.changed);
        trace.say(|| match result {
            Ok(_) => format!("  {}\n      {}", said.lock().unwrap(), shown(&view, "page")),
            Err(error) => format!("  {:?} fails: {error}", edit.what),
        });
        if is_changed {
            images.push(now);
        } else if images.last() != Some(&now) {
            return fail("edit", "an edit without a change changed the document");
        }
    }
    drop(group);
    if is_one_entry {
        let last = images.len() - 1;
        images.drain(1..last.max(1));
    }
    let undos = images.iter().rev().skip(1).map(|image| (false, image));
    let once = undos.chain(images[1..].iter().map(|image| (true, image)));
    for (redo, expected) in once.clone().chain(once) {
        let result = if redo {
            ann.redo().commit()
        } else {
            ann.undo().commit()
        };
        if let Err(error) = result {
            let kind = if redo { "redo refused" } else { "undo refused" };
            return fail(kind, error.to_string());
        }
        let (view, verb) = (store.snapshot(), if redo { "redo" } else { "undo" });
        trace.say(|| format!("  {verb}\n      {}", shown(&view, "page")));
        let found = image(&view);
        if found != *expected {
            let text = format!("the document is\n   {found}, not\n   {expected}");
            return fail(verb, text);
        }
    }
    Ok(())
}

fn test(name: &str, is_recorded: bool, is_one_entry: bool) {
    let run = |history: &_, trace: &mut Trace| run(history, is_recorded, is_one_entry, trace);
    search(name, draw, run);
}

#[test]
fn alone_one_entry() {
    test("alone_one_entry", false, true);
}

#[test]
fn alone_entries_each() {
    test("alone_entries_each", false, false);
}

#[test]
fn alone_recorded_one_entry() {
    test("alone_recorded_one_entry", true, true);
}

#[test]
fn alone_recorded_entries_each() {
    test("alone_recorded_entries_each", true, false);
}
