//! What the document has to be after an undo, decided without the history.

use std::collections::BTreeSet;

use doclock::{View, document::check};

use crate::deed::Deed;
use crate::page::{Page, opened};

/// The documents of one cell: at first, after Ann's edit, and after Bob's.
pub(crate) struct Versions {
    pub(crate) start: Page,
    pub(crate) after_ann: Page,
    pub(crate) after_bob: Page,
    /// What Bob's edit makes of the first document, in each form. Empty if there is no reference.
    pub(crate) alone: Vec<Page>,
}

/// What is wrong with an undo.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Letters are in another order.
    Misplaced,
    /// Letters are lost, are there twice, came back, or stayed.
    Letters,
    /// `check` fails, or a node is outside of the tree.
    Invalid,
    /// A refused undo changed something, or it still fails after Bob's undo.
    Refusal,
    /// The letters are right, and the document is not that of Bob's edit alone.
    Different,
    /// Both editors undid everything, and the document is not the first one.
    NotInitial,
    /// Both editors redid everything, and the document is not that after both edits.
    NotRedone,
    /// Bob undid first, and the document is another one.
    OtherOrder,
}

pub(crate) struct Fault {
    pub(crate) kind: Kind,
    pub(crate) text: String,
}

impl Fault {
    pub(crate) fn new(kind: Kind, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { kind, text }
    }
}

/// Bob's edit alone. A form that is not possible is left out.
pub(crate) fn alone(deed: &Deed, start: &Page, after_ann: &Page) -> Vec<Page> {
    let forms = deed.alone(start, after_ann).into_iter();
    let pages = forms.filter_map(|operations| {
        let (store, _, bob) = opened();
        bob.execute(operations).ok()?;
        Some(Page::of(&store))
    });
    pages.collect()
}

impl Versions {
    /// Whether the document after Bob's edit is as without Ann's.
    pub(crate) fn is_nothing_left(&self) -> bool {
        let blocks = self.after_bob.blocks();
        self.alone.iter().any(|alone| alone.blocks() == blocks)
    }

    /// The faults of a document after Ann's undo, and the reference that is closest to it.
    pub(crate) fn faults(&self, undone: &Page) -> (Vec<Fault>, Option<&Page>) {
        let references: Vec<Option<&Page>> = match self.alone.is_empty() {
            true => vec![None],
            false => self.alone.iter().map(Some).collect(),
        };
        let each = references.into_iter().map(|alone| {
            if alone.is_some_and(|alone| alone.blocks() == undone.blocks()) {
                return (Vec::new(), alone);
            }
            let mut faults = self.letters(undone, alone);
            faults.extend(self.order(undone, alone));
            let differs = alone.is_some_and(|alone| alone.blocks() != undone.blocks());
            if differs && faults.is_empty() {
                faults.push(Fault::new(Kind::Different, "not as without Ann's edit"));
            }
            (faults, alone)
        });
        let fewest = each.min_by_key(|(faults, _)| {
            let is_misplaced = faults.iter().any(|fault| fault.kind == Kind::Misplaced);
            (faults.len(), is_misplaced)
        });
        let (mut faults, alone) = fewest.unwrap();
        faults.extend(invalid(undone));
        (faults, alone)
    }

    /// The letters that are there, without their order.
    fn letters(&self, undone: &Page, alone: Option<&Page>) -> Vec<Fault> {
        let mut faults = Vec::new();
        let mut fault = |letters: Vec<char>, what: &str| {
            if !letters.is_empty() {
                let letters: String = letters.into_iter().collect();
                faults.push(Fault::new(Kind::Letters, format!("\"{letters}\" {what}")));
            }
        };
        let mut seen = BTreeSet::new();
        let letters = undone.letters.iter().map(|letter| letter.letter);
        let twice = letters.filter(|letter| !seen.insert(*letter)).collect();
        fault(twice, "twice");
        let deleted = self.after_ann.without(&self.after_bob);
        let mut back = deleted.clone();
        back.retain(|letter| self.start.has(*letter) && undone.has(*letter));
        fault(back, "of Bob's deletion came back");
        let mut stays = self.after_ann.without(&self.start);
        stays.retain(|letter| undone.has(*letter));
        fault(stays, "of Ann stays");
        let mut lost = self.after_bob.without(undone);
        lost.retain(|letter| self.start.has(*letter) || !self.after_ann.has(*letter));
        fault(lost, "lost");
        let mut missing = self.start.without(&self.after_ann);
        missing.retain(|letter| !undone.has(*letter) && self.has_to_return(*letter, alone));
        fault(missing, "did not come back");
        faults
    }

    /// Whether a letter that Ann deleted has to be there again. Where Bob deleted the node around
    /// it, it may.
    fn has_to_return(&self, letter: char, alone: Option<&Page>) -> bool {
        if let Some(alone) = alone {
            return alone.has(letter);
        }
        let node = &self.start.letter(letter).unwrap().node;
        let beside = self.start.letters_in(node);
        let mut beside = beside.filter_map(|letter| self.after_ann.letter(letter.letter));
        beside.all(|letter| self.after_bob.view.contains(&letter.node))
    }

    fn order(&self, undone: &Page, alone: Option<&Page>) -> Option<Fault> {
        let is_moved = self.start.is_reordered(&self.after_ann);
        let letters: Vec<char> = undone.letters.iter().map(|letter| letter.letter).collect();
        let before = |page: &Page, one: char, other: char| {
            Some(page.place(one)?.cmp(&page.place(other)?).is_lt())
        };
        let is_wrong = |one: char, other: char| {
            let there = [one, other].map(|letter| self.after_bob.letter(letter));
            let expected = match there {
                // Ann's edit moved a block, and its undo moves it back.
                [Some(one), Some(other)] if is_moved && one.node != other.node => None,
                [Some(_), Some(_)] => before(&self.after_bob, one, other),
                _ => before(alone.unwrap_or(&self.start), one, other),
            };
            expected == Some(false)
        };
        let pairs = letters.iter().enumerate();
        let mut pairs =
            pairs.flat_map(|(nth, one)| letters[nth + 1..].iter().map(move |b| (one, b)));
        let (one, other) = pairs.find(|(one, other)| is_wrong(**one, **other))?;
        let text = format!("\"{one}\" is before \"{other}\"");
        Some(Fault::new(Kind::Misplaced, text))
    }
}

fn invalid(page: &Page) -> Vec<Fault> {
    let mut faults = Vec::new();
    if let Err(error) = check(&page.view) {
        faults.push(Fault::new(Kind::Invalid, error.to_string()));
    }
    if let Some(id) = page.outside().first() {
        let text = format!("node {id} is outside of the document");
        faults.push(Fault::new(Kind::Invalid, text));
    }
    faults
}
