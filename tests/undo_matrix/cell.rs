//! One cell of the matrix: Ann edits, Bob edits, Ann undoes.

use doclock::{
    DataStore, Editor, document::UndoConflict, history::UndoError, transaction::TransactionResult,
};

use crate::common::image;
use crate::deed::Deed;
use crate::local::Local;
use crate::page::{Page, opened, shown};
use crate::reference::{Fault, Kind, Versions, alone};
use crate::remote::{Place, Remote};

/// What Ann's undo did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Bob's edit is not possible after that of Ann.
    NotApplicable,
    Undone,
    /// Nothing of Ann's edit was left.
    NoEffect,
    /// The undo was refused, for this reason.
    Refused(String),
}

pub(crate) struct Cell {
    pub(crate) local: &'static Local,
    pub(crate) remote: &'static Remote,
    pub(crate) outcome: Outcome,
    pub(crate) faults: Vec<Fault>,
    pub(crate) pages: Option<Pages>,
}

/// The documents of a cell.
pub(crate) struct Pages {
    pub(crate) versions: Versions,
    pub(crate) undone: Page,
    /// The document of Bob's edit alone, if it has a meaning without Ann's.
    pub(crate) expected: Option<Page>,
}

/// A store in which both have edited.
struct Stage {
    store: DataStore,
    ann: Editor,
    bob: Editor,
    start: Page,
    after_ann: Page,
    deed: Deed,
}

impl Stage {
    /// `None` if Bob's edit is not applicable.
    fn new(local: &Local, remote: &Remote) -> Option<Self> {
        let (store, ann, bob) = opened();
        let start = Page::of(&store);
        ann.execute((local.operations)()).unwrap();
        let after_ann = Page::of(&store);
        let deed = (remote.deed)(&Place::new(&after_ann, local))?;
        let result = bob.execute(deed.operations(&after_ann)).unwrap();
        result.changed.then_some(Self {
            store,
            ann,
            bob,
            start,
            after_ann,
            deed,
        })
    }

    fn image(&self) -> String {
        image(&self.store.snapshot())
    }

    /// Lets editors undo or redo in turn, until nothing changes any more.
    fn repeat(&self, turns: [Turn; 2], step: Step) {
        while turns.map(|turn| step(self.editor(turn))).contains(&true) {}
    }

    fn editor(&self, turn: Turn) -> &Editor {
        match turn {
            Turn::Ann => &self.ann,
            Turn::Bob => &self.bob,
        }
    }

    /// How the document differs from the expected one. `None` if it is the same.
    fn other_than(&self, expected: &Page) -> Option<String> {
        let is_same = self.image() == image(&expected.view);
        let pages = [expected.blocks(), Page::of(&self.store).blocks()];
        let named = |blocks: String| match blocks.is_empty() {
            true => "nothing".to_owned(),
            false => blocks,
        };
        (!is_same).then(|| match shown(pages).map(named) {
            [one, other] if one == other => "other ids".to_owned(),
            [expected, other] => format!("{other} instead of {expected}"),
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Ann,
    Bob,
}

/// An undo or a redo. Returns whether it changed something.
type Step = fn(&Editor) -> bool;

fn undo(editor: &Editor) -> bool {
    editor.undo().commit().is_ok_and(|result| result.changed)
}

fn redo(editor: &Editor) -> bool {
    editor.redo().commit().is_ok_and(|result| result.changed)
}

impl Outcome {
    pub(crate) fn is_refused(&self) -> bool {
        matches!(self, Self::Refused(_))
    }
}

impl Cell {
    pub(crate) fn name(&self) -> String {
        format!("Ann {}, Bob {}", self.local.name, self.remote.name)
    }

    pub(crate) fn of(local: &'static Local, remote: &'static Remote) -> Self {
        let mut cell = Self {
            local,
            remote,
            outcome: Outcome::NotApplicable,
            faults: Vec::new(),
            pages: None,
        };
        if let Some(stage) = Stage::new(local, remote) {
            cell.run(&stage);
            cell.in_other_order();
        }
        cell
    }

    fn fault(&mut self, kind: Kind, text: &str) {
        self.faults.push(Fault::new(kind, text));
    }

    fn run(&mut self, stage: &Stage) {
        let versions = Versions {
            after_bob: Page::of(&stage.store),
            alone: alone(&stage.deed, &stage.start, &stage.after_ann),
            start: stage.start.clone(),
            after_ann: stage.after_ann.clone(),
        };
        let result = stage.ann.undo().commit();
        let undone = Page::of(&stage.store);
        self.outcome = outcome(&result);
        let expected = match self.outcome {
            Outcome::Refused(_) => {
                self.refused(stage, &versions);
                versions.alone.first()
            }
            _ => {
                let (faults, expected) = versions.faults(&undone);
                self.faults = faults;
                self.accepted(stage, &versions.after_bob);
                expected
            }
        };
        self.pages = Some(Pages {
            expected: expected.cloned(),
            versions,
            undone,
        });
    }

    fn refused(&mut self, stage: &Stage, versions: &Versions) {
        if let Some(other) = stage.other_than(&versions.after_bob) {
            let text = format!("the refused undo changed it: {other}");
            self.fault(Kind::Refusal, &text);
        }
        for (turn, expected) in [(Turn::Bob, &stage.after_ann), (Turn::Ann, &stage.start)] {
            if let Err(error) = stage.editor(turn).undo().commit() {
                let text = format!("{turn:?}'s undo after it is refused: {error}");
                self.fault(Kind::Refusal, &text);
            }
            if let Some(other) = stage.other_than(expected) {
                let text = format!("after {turn:?}'s undo: {other}");
                self.fault(Kind::Refusal, &text);
            }
        }
    }

    /// Ann's undo was accepted: she redoes it, then both undo and redo everything.
    fn accepted(&mut self, stage: &Stage, both: &Page) {
        if self.outcome == Outcome::Undone {
            let undone = Page::of(&stage.store);
            for (step, expected) in [(redo as Step, both), (undo, &undone)] {
                let is_done = step(&stage.ann);
                let other = stage.other_than(expected);
                if let Some(other) = other.or((!is_done).then(|| "it is refused".to_owned())) {
                    let text = format!("Ann's redo at once, or her undo of it: {other}");
                    return self.fault(Kind::NotRedone, &text);
                }
            }
        }
        for turns in [[Turn::Ann, Turn::Bob], [Turn::Bob, Turn::Ann]] {
            let stage = Stage::new(self.local, self.remote).unwrap();
            stage.repeat([Turn::Ann, Turn::Bob], undo);
            if let Some(other) = stage.other_than(&stage.start) {
                let text = format!("both undid everything: {other}");
                return self.fault(Kind::NotInitial, &text);
            }
            stage.repeat(turns, redo);
            if let Some(other) = stage.other_than(both) {
                let text = format!("both redid everything, {:?} first: {other}", turns[0]);
                self.fault(Kind::NotRedone, &text);
            }
        }
    }

    /// Bob undoes first, then Ann, and both redo: no edit of the other is between.
    fn in_other_order(&mut self) {
        let stage = Stage::new(self.local, self.remote).unwrap();
        let both = Page::of(&stage.store);
        let steps: [(Turn, Step, &Page); 4] = [
            (Turn::Bob, undo, &stage.after_ann),
            (Turn::Ann, undo, &stage.start),
            (Turn::Ann, redo, &stage.after_ann),
            (Turn::Bob, redo, &both),
        ];
        for (nth, (turn, step, expected)) in steps.into_iter().enumerate() {
            step(stage.editor(turn));
            if let Some(other) = stage.other_than(expected) {
                let text = format!("step {nth}, of {turn:?}: {other}");
                return self.fault(Kind::OtherOrder, &text);
            }
        }
    }
}

fn outcome(result: &Result<TransactionResult, UndoError>) -> Outcome {
    match result {
        Ok(result) if result.changed => Outcome::Undone,
        Ok(_) => Outcome::NoEffect,
        Err(UndoError::Conflict { conflict, .. }) => Outcome::Refused(reason(conflict)),
        Err(other) => Outcome::Refused(other.to_string()),
    }
}

/// The refusal in a few words.
fn reason(conflict: &UndoConflict) -> String {
    let aspect = || {
        let json = serde_json::to_value(conflict).unwrap();
        let aspect = json["aspect"].as_str().unwrap_or_default();
        aspect.trim_start_matches("set of ").to_owned()
    };
    match conflict.code() {
        "undoNodeGone" => "Bob deleted the node".to_owned(),
        "undoNodeMoved" => "Bob moved the node".to_owned(),
        "undoSubtreeChanged" => "Bob changed the new node".to_owned(),
        "undoNodeChanged" => format!("Bob changed the {}", aspect()),
        _ => conflict.to_string(),
    }
}
