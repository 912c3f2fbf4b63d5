//! What the editors of a text do, as data.

use crate::common::Dice;
use crate::search::{self, History, Step, name_of, named_kinds, with_one_simpler};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Insert,
    Delete,
    Replace,
    Mark,
    Unmark,
    SetMarks,
    SetText,
}

const ALL: [What; 7] = [
    What::Insert,
    What::Delete,
    What::Replace,
    What::Mark,
    What::Unmark,
    What::SetMarks,
    What::SetText,
];

/// One operation. Positions count modulo the text that exists by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Edit {
    pub(crate) what: What,
    pub(crate) at: usize,
    pub(crate) length: usize,
    /// How many letters it inserts, or which mark it sets.
    pub(crate) new: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Edit(Vec<Edit>),
    /// An edit with a name, into which others can be merged.
    Named(Vec<Edit>),
    /// An edit that belongs to a named one, if there is one.
    Merged(Vec<Edit>, usize),
    Undo,
    Redo,
    /// Opens a group, or closes it.
    Group,
    /// Another editor of the same owner restores the history.
    Restore,
    /// The store forgets what no history can undo or redo.
    Forget,
}

pub(crate) type TextStep = Step<Action>;

impl search::Action for Action {
    fn simpler(&self) -> Vec<Self> {
        match self {
            Self::Edit(edits) => {
                let alone = edits.iter().filter(|_| edits.len() > 1);
                let alone = alone.map(|edit| vec![*edit]);
                let simpler = with_one_simpler(edits, Edit::simpler);
                alone.chain(simpler).map(Self::Edit).collect()
            }
            Self::Named(edits) | Self::Merged(edits, _) => vec![Self::Edit(edits.clone())],
            _ => Vec::new(),
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Edit(edits) | Self::Named(edits) | Self::Merged(edits, _) => {
                name_of(edits.iter().map(|edit| edit.what))
            }
            action => format!("{action:?}"),
        }
    }
}

impl Edit {
    fn simpler(self) -> Vec<Self> {
        let what = match self.what {
            What::SetText => Some(What::Replace),
            What::SetMarks => Some(What::Mark),
            _ => None,
        };
        let lengths = (0..self.length).map(|length| Self { length, ..self });
        let at = (0..self.at.min(12)).map(|at| Self { at, ..self });
        let what = what.map(|what| Self { what, ..self });
        what.into_iter()
            .chain((0..self.new).map(|new| Self { new, ..self }))
            .chain(lengths)
            .chain(at)
            .collect()
    }
}

fn edit(dice: &mut Dice, kinds: Option<&[What]>) -> Edit {
    let what = match dice.below(20) {
        0..7 => What::Insert,
        7..12 => What::Delete,
        12..14 => What::Replace,
        14..17 => What::Mark,
        17 => What::Unmark,
        18 => What::SetMarks,
        _ if dice.one_in(3) => What::SetText,
        _ => What::Unmark,
    };
    let what = kinds.map_or(what, |kinds| kinds[dice.below(kinds.len())]);
    let at = match dice.below(8) {
        0 => 0,
        // Behind the last letter of most texts.
        1 => usize::MAX,
        _ => dice.below(16),
    };
    let length = match dice.below(10) {
        // The whole text.
        0 => 99,
        1 => 0,
        _ => 1 + dice.below(4),
    };
    let new = [0, 1, 1, 2, 2, 3][dice.below(6)];
    Edit {
        what,
        at,
        length,
        new,
    }
}

fn step(dice: &mut Dice, people: usize, restores: bool, kinds: Option<&[What]>) -> TextStep {
    let who = dice.below(people);
    let edits: Vec<Edit> = (0..if dice.one_in(8) { 2 } else { 1 })
        .map(|_| edit(dice, kinds))
        .collect();
    let action = match dice.below(40) {
        0..10 => Action::Undo,
        10..16 => Action::Redo,
        16..19 => Action::Group,
        // A merged edit ends a restored history.
        19 if !restores => Action::Named(edits),
        20 if !restores => Action::Merged(edits, dice.below(3)),
        19..22 if restores => Action::Restore,
        _ => Action::Edit(edits),
    };
    TextStep { who, action }
}

pub(crate) fn history(
    dice: &mut Dice,
    people: usize,
    longest: usize,
    restores: bool,
) -> History<Action> {
    let kinds = named_kinds(&ALL);
    let count = 2 + dice.below(longest - 1);
    let step = |_| step(dice, people, restores, kinds.as_deref());
    let steps = (0..count).map(step).collect();
    let end = dice.next();
    History { people, steps, end }
}
