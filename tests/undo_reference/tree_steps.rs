//! What the editors of a page do, as data, and its meaning in a document.

use std::sync::{Arc, Mutex};

use doclock::{
    Draft, NodeId, Snapshot, View,
    document::{EditError, Mark, Selection, SplitPoint},
    dsl::*,
    transaction::{Operation, TextSpan},
};

use crate::common::Dice;
use crate::letters::MARKS;
use crate::search::{self, History, Step, name_of, named_kinds, with_one_simpler};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Insert,
    Delete,
    Replace,
    Mark,
    Unmark,
    SetMarks,
    Split,
    Join,
    DeleteNode,
    Create,
    Move,
    Attribute,
    Type,
    DeleteRange,
    Wrap,
    WrapList,
    Lift,
    Paragraph,
}

const ALL: [What; 18] = [
    What::Insert,
    What::Delete,
    What::Replace,
    What::Mark,
    What::Unmark,
    What::SetMarks,
    What::Split,
    What::Join,
    What::DeleteNode,
    What::Create,
    What::Move,
    What::Attribute,
    What::Type,
    What::DeleteRange,
    What::Wrap,
    What::WrapList,
    What::Lift,
    What::Paragraph,
];

/// One operation. All numbers count modulo what exists by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Edit {
    pub(crate) what: What,
    /// Which node, and where in its text.
    node: usize,
    at: usize,
    /// How much text, or which other node or value, and where in it.
    length: usize,
    to: usize,
    /// How many letters it inserts.
    pub(crate) new: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Edit(Vec<Edit>),
    Undo,
    Redo,
    /// Another editor of the same owner restores the history.
    Restore,
    /// The store forgets what no history can undo or redo.
    Forget,
}

pub(crate) type TreeStep = Step<Action>;

impl search::Action for Action {
    fn simpler(&self) -> Vec<Self> {
        let Self::Edit(edits) = self else {
            return Vec::new();
        };
        let without = (0..edits.len()).filter(|_| edits.len() > 1).map(|nth| {
            let mut fewer = edits.clone();
            fewer.remove(nth);
            fewer
        });
        let simpler = with_one_simpler(edits, Edit::simpler);
        without.chain(simpler).map(Self::Edit).collect()
    }

    fn name(&self) -> String {
        match self {
            Self::Edit(edits) => name_of(edits.iter().map(|edit| edit.what)),
            action => format!("{action:?}"),
        }
    }
}

impl Edit {
    fn simpler(self) -> Vec<Self> {
        let what = match self.what {
            What::Replace if self.new > 0 => Some(What::Insert),
            What::Replace => Some(What::Delete),
            What::DeleteRange => Some(What::Join),
            What::WrapList => Some(What::Wrap),
            What::Paragraph => Some(What::Split),
            What::SetMarks => Some(What::Mark),
            _ => None,
        };
        let what = what.map(|what| Self { what, ..self });
        let nodes = (0..self.node.min(6)).map(|node| Self { node, ..self });
        let lengths = (0..self.length.min(4)).map(|length| Self { length, ..self });
        what.into_iter()
            .chain((0..self.new).map(|new| Self { new, ..self }))
            .chain(lengths)
            .chain((0..self.at.min(4)).map(|at| Self { at, ..self }))
            .chain((0..self.to.min(4)).map(|to| Self { to, ..self }))
            .chain(nodes)
            .collect()
    }
}

fn edit(dice: &mut Dice, kinds: &[What]) -> Edit {
    Edit {
        what: kinds[dice.below(kinds.len())],
        node: dice.below(24),
        at: if dice.one_in(6) { 0 } else { dice.below(12) },
        length: dice.below(6),
        to: dice.below(12),
        new: [0, 1, 1, 2, 2, 3][dice.below(6)],
    }
}

pub(crate) fn history(
    dice: &mut Dice,
    people: usize,
    longest: usize,
    restores: bool,
) -> History<Action> {
    // Few kinds of edits meet each other more often.
    let mut kinds = vec![What::Insert, What::Delete];
    match dice.below(4) {
        0 => kinds = ALL.to_vec(),
        _ => kinds.extend((0..1 + dice.below(4)).map(|_| ALL[dice.below(ALL.len())])),
    }
    let kinds = named_kinds(&ALL).unwrap_or(kinds);
    let count = 2 + dice.below(longest - 1);
    let step = |_| {
        let who = dice.below(people);
        let action = match dice.below(20) {
            0..5 => Action::Undo,
            5..8 => Action::Redo,
            8..10 if restores => Action::Restore,
            _ => {
                let more = if dice.one_in(5) { dice.below(3) } else { 0 };
                Action::Edit((0..=more).map(|_| edit(dice, &kinds)).collect())
            }
        };
        TreeStep { who, action }
    };
    let steps = (0..count).map(step).collect();
    let end = dice.next();
    History { people, steps, end }
}

/// The nodes that the editors write in, in their order.
fn texts(view: &impl View) -> Vec<NodeId> {
    let page = view.descendants("page");
    page.filter(|node| matches!(node.kind(), "item" | "other"))
        .map(|node| node.id().clone())
        .collect()
}

fn lists(view: &impl View) -> Vec<NodeId> {
    let page = view.descendants("page");
    let lists = page.filter(|node| node.kind() == "list");
    lists.map(|node| node.id().clone()).collect()
}

/// The text that an edit inserts, and a name that is new.
#[derive(Clone, Debug)]
pub(crate) struct New {
    pub(crate) text: String,
    pub(crate) name: usize,
}

/// The operations of one edit; its readable form is known when they ran.
pub(crate) fn operations(
    edit: Edit,
    new: New,
    view: &Snapshot,
    said: &Arc<Mutex<Vec<String>>>,
) -> Option<Operation> {
    let say = |line: String| said.lock().unwrap().push(line);
    let texts = texts(view);
    let nth = edit.node % texts.len().max(1);
    let id = texts.get(nth).cloned();
    let len = |id: &NodeId| view.node(id).map_or(0, |node| node.text().len());
    let name = new.name;
    match edit.what {
        What::DeleteRange => {
            let id = id?;
            let last = (nth + edit.length % 3).min(texts.len() - 1);
            let other = texts[last].clone();
            let at = edit.at % (len(&id) + 1);
            let start = if last == nth { at } else { 0 };
            let end = start + edit.to % (len(&other) - start + 1);
            say(format!("deletes from {at} of {id} to {end} of {other}"));
            Some(delete_range(TextSpan::to(at, other, end)).on(id))
        }
        What::Mark | What::Unmark => {
            let (id, kind) = (id?, MARKS[edit.to % 2]);
            let (at, end) = range(edit, len(&id));
            if edit.what == What::Mark {
                say(format!("makes {at}..{end} of {id} {kind}"));
                return Some(apply_mark(kind, at..end).on(id));
            }
            say(format!("makes {at}..{end} of {id} not {kind}"));
            Some(remove_mark(kind, at..end).on(id))
        }
        What::Wrap => {
            let id = id?;
            say(format!("wraps {id} in q{name}"));
            let quote = element("quote", []).with_id(format!("q{name}").as_str());
            Some(wrap_node(quote).on(id))
        }
        What::WrapList => {
            let id = id?;
            say(format!(
                "wraps {id} in a list u{name} with an entry v{name}"
            ));
            let list = element("list", []).with_id(format!("u{name}").as_str());
            let item = element("entry", []).with_id(format!("v{name}").as_str());
            Some(wrap_in_list(list, item).on(id))
        }
        What::Lift => {
            let id = id?;
            say(format!("lifts {id}"));
            Some(lift_node().on(id))
        }
        What::Paragraph => {
            let id = id?;
            let at = edit.at % (len(&id) + 1);
            say(format!("begins a paragraph at {at} of {id}"));
            Some(insert_paragraph(at).on(id))
        }
        _ => {
            let said = Arc::clone(said);
            Some(op(move |on: &mut Draft| {
                let line = run(edit, &new, on)?;
                said.lock().unwrap().push(line);
                Ok::<(), EditError>(())
            }))
        }
    }
}

fn run(edit: Edit, new: &New, on: &mut Draft) -> Result<String, EditError> {
    let texts = texts(on);
    let New { text, name } = new;
    let lists = lists(on);
    let list = lists.get(edit.length % lists.len().max(1)).cloned();
    let list = list.unwrap_or_else(|| "page".into());
    let room = on.children(&list).count() + 1;
    if edit.what == What::Create || texts.is_empty() {
        let at = edit.to % room;
        let id = format!("n{name}");
        let node = text_node("item", text.as_str()).with_id(id.as_str());
        on.insert(node, &list, at)?;
        return Ok(format!("creates {id} {text:?} at {at} of {list}"));
    }
    let id = texts[edit.node % texts.len()].clone();
    let (node_kind, parent, len) = {
        let node = on.node(&id).unwrap();
        (
            node.kind().to_owned(),
            node.parent().cloned(),
            node.text().len(),
        )
    };
    let (at, end) = range(edit, len);
    let kind = MARKS[edit.to % 2];
    Ok(match edit.what {
        What::Insert => {
            on.insert_text(&id, at, text.as_str())?;
            format!("inserts {text:?} at {at} of {id}")
        }
        What::Delete => {
            on.delete_text(&id, at..end)?;
            format!("deletes {at}..{end} of {id}")
        }
        What::Replace => {
            on.replace_text(&id, at..end, text.as_str())?;
            format!("replaces {at}..{end} of {id} by {text:?}")
        }
        What::SetMarks => {
            on.set_marks(&id, [Mark::new(kind, at..end)])?;
            format!("sets the marks of {id} to {kind} {at}..{end}")
        }
        What::Split => {
            let point = SplitPoint {
                text: at,
                children: 0,
            };
            let right = on.split_node(&id, point, None)?;
            format!("splits {id} at {at}, which makes {right}")
        }
        What::Join => {
            let next = on.next_sibling(&id).filter(|next| is_text(next.kind()));
            match next.map(|next| next.id().clone()) {
                Some(next) => {
                    on.join_nodes(&id, &next)?;
                    format!("joins {id} and {next}")
                }
                None => "joins nothing".to_owned(),
            }
        }
        What::DeleteNode => {
            // Sometimes the quote around it.
            let quote = parent.filter(|parent| edit.length == 0 && is_quote(on, parent));
            let id = quote.unwrap_or(id);
            on.delete(&id)?;
            format!("deletes {id}")
        }
        What::Move => {
            let quote = parent
                .clone()
                .filter(|parent| edit.at == 0 && is_quote(on, parent));
            let id = quote.unwrap_or(id);
            let within = on.parent(&id) == Some(&list);
            let at = edit.to % (room - usize::from(within));
            on.move_node(&id, &list, at)?;
            format!("moves {id} to {at} of {list}")
        }
        What::Attribute => {
            let (key, value) = (["x", "y"][edit.at % 2], edit.to % 4);
            // One value removes the attribute.
            let json = if value == 0 { None } else { Some(value) };
            on.set_attrs(&id, [(key, json.into())])?;
            format!("sets {key} of {id} to {json:?}")
        }
        _ => {
            let kind = if node_kind == "item" { "other" } else { "item" };
            on.set_type(&id, kind)?;
            format!("sets the type of {id} to {kind}")
        }
    })
}

/// Some characters of a text, or all from a position on.
fn range(edit: Edit, len: usize) -> (usize, usize) {
    let at = edit.at % (len + 1);
    let end = (at + edit.length).min(len);
    (at, if edit.length == 5 { len } else { end })
}

fn is_text(kind: &str) -> bool {
    matches!(kind, "item" | "other")
}

fn is_quote(on: &Draft, id: &NodeId) -> bool {
    on.node(id).is_some_and(|node| node.kind() == "quote")
}

/// The caret that stands for an entry.
pub(crate) fn caret(entry: usize) -> Selection {
    Selection::caret("ruler", entry)
}
