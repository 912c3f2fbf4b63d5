//! Random edits, possible or impossible, for a document.

use std::ops::Range;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{Action, Dice, RefDoc, RefMark, RefNode, Refused, Spec, is_unknown};

/// The kinds of [`Action`] to draw from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Create,
    AddNew,
    AddExisting,
    Delete,
    RemoveChild,
    Move,
    SetText,
    InsertText,
    DeleteText,
    ReplaceText,
    SetAttrs,
    SetMarks,
    SetRoot,
    Control,
    Call,
}

impl Kind {
    /// All kinds; creation is more frequent than deletion.
    const DRAWN: [Self; 18] = [
        Self::Create,
        Self::AddNew,
        Self::AddNew,
        Self::AddNew,
        Self::AddExisting,
        Self::Delete,
        Self::RemoveChild,
        Self::Move,
        Self::SetText,
        Self::InsertText,
        Self::InsertText,
        Self::DeleteText,
        Self::ReplaceText,
        Self::SetAttrs,
        Self::SetMarks,
        Self::SetRoot,
        Self::Control,
        Self::Call,
    ];
}

/// An edit before its document is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) kind: Kind,
    pub(crate) seed: u64,
}

pub(crate) fn step() -> impl Strategy<Value = Step> {
    let kind = prop::sample::select(Kind::DRAWN.to_vec());
    (kind, any::<u64>()).prop_map(|(kind, seed)| Step { kind, seed })
}

pub(crate) fn steps(
    count: impl Into<prop::collection::SizeRange>,
) -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), count)
}

/// The edits of these steps, in sequence, on a document like `on`. All of them are possible.
pub(crate) fn possible(steps: &[Step], on: &RefDoc) -> Vec<Action> {
    aimed(steps, on, Aim::Named)
}

/// The edits of these steps. Impossible edits are omitted, unless the aim is wild.
pub(crate) fn aimed(steps: &[Step], on: &RefDoc, aim: Aim) -> Vec<Action> {
    let mut on = on.clone();
    let choose = |step: &Step| {
        let action = Chooser::new(&on, step.seed, aim).action(step.kind);
        let mut after = on.clone();
        match after.apply(&action) {
            Ok(()) => on = after,
            Err(Refused) if aim == Aim::Wild => {}
            Err(Refused) => return None,
        }
        Some(action)
    };
    steps.iter().filter_map(choose).collect()
}

/// The targets of an edit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aim {
    /// Existing nodes; every new node gets a custom id.
    Named,
    /// Existing nodes; the store generates some ids.
    Unnamed,
    /// Sometimes missing nodes.
    Wild,
}

/// Draws the fields of an edit.
pub(crate) struct Chooser<'a> {
    on: &'a RefDoc,
    dice: Dice,
    aim: Aim,
}

const NAMES: [&str; 16] = [
    "a", "b", "c", "d", "e", "f", "g", "h", "ä", "漢", "🦀", "0", "8:1", "7:x", "7:100000",
    "7:200000",
];

impl<'a> Chooser<'a> {
    pub(crate) fn new(on: &'a RefDoc, seed: u64, aim: Aim) -> Self {
        Self {
            on,
            dice: Dice(seed),
            aim,
        }
    }

    pub(crate) fn action(&mut self, kind: Kind) -> Action {
        let id = self.target();
        match kind {
            Kind::Create => Action::Create(self.spec()),
            Kind::AddNew => {
                let index = self.index(&id);
                Action::AddNew(self.spec(), id, index)
            }
            Kind::AddExisting => {
                let index = self.index(&id);
                Action::AddExisting(self.target(), id, index)
            }
            Kind::Move => {
                let index = self.index(&id);
                Action::Move(self.target(), id, index)
            }
            Kind::Delete => Action::Delete(id),
            Kind::RemoveChild => {
                let node = self.on.nodes.get(&id);
                let parent = node.and_then(|node| node.parent.clone());
                let parent = parent.filter(|parent| !is_unknown(parent) && !self.strays());
                Action::RemoveChild(id, parent.unwrap_or_else(|| self.target()))
            }
            Kind::SetText => Action::SetText(id, self.text()),
            Kind::InsertText => {
                let at = self.range(&id).start;
                Action::InsertText(id, at, self.text())
            }
            Kind::DeleteText => {
                let range = self.range(&id);
                Action::DeleteText(id, range)
            }
            Kind::ReplaceText => {
                let range = self.range(&id);
                Action::ReplaceText(id, range, self.text())
            }
            Kind::SetAttrs => Action::SetAttrs(id, self.attrs()),
            Kind::SetMarks => {
                let len = self.on.nodes.get(&id).map_or(0, RefNode::len);
                Action::SetMarks(id, self.marks(len))
            }
            Kind::SetRoot => Action::SetRoot((!self.dice.one_in(4)).then_some(id)),
            Kind::Control => {
                let actions = (0..self.dice.below(4)).map(|_| self.on(&id)).collect();
                Action::Control(id, actions)
            }
            Kind::Call => {
                let kinds = [
                    Kind::InsertText,
                    Kind::AddNew,
                    Kind::SetMarks,
                    Kind::SetRoot,
                ];
                let actions = (0..self.dice.below(3)).map(|_| {
                    let kind = kinds[self.dice.below(kinds.len())];
                    self.action(kind)
                });
                Action::Call(actions.collect())
            }
        }
    }

    /// An operation for a `control` of this node.
    fn on(&mut self, id: &str) -> Action {
        let id = id.to_owned();
        match self.dice.below(4) {
            0 => Action::SetText(id, self.text()),
            1 => Action::InsertText(id, 0, self.text()),
            2 => Action::SetAttrs(id, self.attrs()),
            _ => Action::AddNew(self.spec(), id, Some(0)),
        }
    }

    fn strays(&mut self) -> bool {
        self.aim == Aim::Wild && self.dice.one_in(12)
    }

    fn target(&mut self) -> String {
        let known: Vec<&String> = self.on.nodes.keys().filter(|id| !is_unknown(id)).collect();
        let strays = self.strays();
        if strays || known.is_empty() {
            // After the last name comes the empty one.
            let name = self.dice.below(NAMES.len() + usize::from(strays));
            return (*NAMES.get(name).unwrap_or(&"")).to_owned();
        }
        known[self.dice.below(known.len())].clone()
    }

    fn index(&mut self, parent: &str) -> Option<usize> {
        if self.strays() {
            return Some(usize::MAX - self.dice.below(2));
        }
        let len = self
            .on
            .nodes
            .get(parent)
            .map_or(0, |node| node.children.len());
        (!self.dice.one_in(3)).then(|| self.dice.below(len + 1))
    }

    fn range(&mut self, id: &str) -> Range<usize> {
        let len = self.on.nodes.get(id).map_or(0, RefNode::len);
        let (one, other) = (self.dice.below(len + 1), self.dice.below(len + 1));
        if self.strays() {
            let far = if self.dice.one_in(2) {
                len + 1
            } else {
                usize::MAX
            };
            return if self.dice.one_in(2) {
                one..far
            } else {
                far..far
            };
        }
        if self.strays() {
            one.max(other)..one.min(other)
        } else {
            one.min(other)..one.max(other)
        }
    }

    fn text(&mut self) -> String {
        const CHARS: [char; 8] = ['a', 'b', ' ', 'ß', '漢', '\n', '\r', '🦀'];
        // Sometimes long enough for a rope.
        let len = if self.dice.one_in(12) {
            150 + self.dice.below(300)
        } else {
            self.dice.below(7)
        };
        (0..len)
            .map(|_| CHARS[self.dice.below(CHARS.len())])
            .collect()
    }

    fn attrs(&mut self) -> Vec<(String, Value)> {
        let mut keys = vec!["x", "y", "ключ"];
        (0..self.dice.below(4))
            .map(|_| {
                let key = keys.swap_remove(self.dice.below(keys.len()));
                let values = [
                    json!(null),
                    json!(1),
                    json!("1"),
                    json!([1.5, {"k": null}]),
                    json!(false),
                ];
                (
                    key.to_owned(),
                    values[self.dice.below(values.len())].clone(),
                )
            })
            .collect()
    }

    fn marks(&mut self, len: usize) -> Vec<RefMark> {
        (0..self.dice.below(5))
            .map(|_| {
                let (one, other) = (self.dice.below(len + 1), self.dice.below(len + 1));
                let end = one.max(other) + usize::from(self.strays());
                let attrs = match self.dice.below(3) {
                    0 => Map::new(),
                    n => Map::from_iter([("href".to_owned(), json!(n))]),
                };
                RefMark {
                    kind: ["bold", "link"][self.dice.below(2)].to_owned(),
                    range: (!self.dice.one_in(6)).then_some(one.min(other)..end),
                    attrs,
                }
            })
            .collect()
    }

    fn spec(&mut self) -> Spec {
        let mut free: Vec<&str> = NAMES.to_vec();
        if !self.strays() {
            free.retain(|name| !self.on.nodes.contains_key(*name));
        }
        self.spec_of(&mut free, 3)
    }

    fn spec_of(&mut self, free: &mut Vec<&str>, levels: usize) -> Spec {
        let named = self.aim != Aim::Unnamed || self.dice.one_in(2);
        let id = if named && !free.is_empty() {
            Some(free.swap_remove(self.dice.below(free.len())).to_owned())
        } else if self.aim == Aim::Unnamed {
            None
        } else {
            // All names are used; this one is unused.
            Some(format!("n{}", self.dice.next()))
        };
        let text = if self.dice.one_in(2) {
            self.text()
        } else {
            String::new()
        };
        let children = if levels > 1 { self.dice.below(3) } else { 0 };
        Spec {
            id,
            kind: ["paragraph", "item"][self.dice.below(2)].to_owned(),
            attrs: self.attrs(),
            marks: self.marks(text.chars().count()),
            text,
            children: (0..children)
                .map(|_| self.spec_of(free, levels - 1))
                .collect(),
        }
    }
}
