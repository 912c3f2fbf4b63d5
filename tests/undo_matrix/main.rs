//! 16 everyday edits of Ann, beside 20 of Bob that come after hers: her undo leaves the document as
//! if she had never made her edit, or it is refused and changes nothing.
//!
//! A failed test prints each wrong cell in one line: the document at first, after Ann's edit, after
//! Bob's, and after her undo.

#[path = "../common/mod.rs"]
mod common;

mod cell;
mod deed;
mod local;
mod page;
mod reference;
mod remote;
mod table;

use std::sync::LazyLock;

use self::cell::{Cell, Outcome};
use self::page::shown;
use self::reference::Kind;

static MATRIX: LazyLock<Vec<Cell>> = LazyLock::new(|| {
    let locals = local::LOCALS.iter();
    let cells = locals.flat_map(|local| remote::REMOTES.iter().map(move |remote| (local, remote)));
    cells
        .map(|(local, remote)| Cell::of(local, remote))
        .collect()
});

/// How many undos may be refused.
const REFUSED: usize = 37;

fn count(is: impl Fn(&Outcome) -> bool) -> usize {
    MATRIX.iter().filter(|cell| is(&cell.outcome)).count()
}

/// The cells with faults of a kind.
fn faulty(kind: Kind) -> impl Iterator<Item = &'static Cell> {
    MATRIX
        .iter()
        .filter(move |cell| cell.faults.iter().any(|fault| fault.kind == kind))
}

fn names(kind: Kind) -> Vec<String> {
    faulty(kind).map(Cell::name).collect()
}

/// The documents of a cell, without the blocks that are the same in all of them.
fn documents(cell: &Cell) -> String {
    let Some(pages) = &cell.pages else {
        return String::new();
    };
    let versions = &pages.versions;
    let expected = pages.expected.as_ref().unwrap_or(&pages.undone);
    let all = [
        &versions.start,
        &versions.after_ann,
        &versions.after_bob,
        &pages.undone,
        expected,
    ];
    let [start, ann, bob, undone, expected] = shown(all.map(|page| page.blocks()));
    let undone = match undone == bob {
        true => String::new(),
        false => format!(" | undo: {undone}"),
    };
    let expected = match pages.expected {
        Some(_) => format!(" | Bob alone: {expected}"),
        None => String::new(),
    };
    format!("{start} | Ann: {ann} | Bob: {bob}{undone}{expected}")
}

/// Prints the cells with faults of some kinds. Returns how many there are.
fn print(kinds: &[Kind]) -> usize {
    let mut all = 0;
    for kind in kinds {
        let cells: Vec<&Cell> = faulty(*kind).collect();
        println!("{kind:?}: {}", cells.len());
        all += cells.len();
        for cell in cells {
            let faults = cell.faults.iter().filter(|fault| fault.kind == *kind);
            let faults: Vec<&str> = faults.map(|fault| fault.text.as_str()).collect();
            let (faults, documents) = (faults.join("; "), documents(cell));
            println!("    {}: {faults} | {documents}", cell.name());
        }
    }
    all
}

/// Whether the undo of a cell was refused although nothing is left to undo.
fn is_refused_in_vain(cell: &Cell) -> bool {
    let pages = cell.pages.as_ref();
    cell.outcome.is_refused() && pages.is_some_and(|pages| pages.versions.is_nothing_left())
}

fn print_counts() {
    println!(
        "{} cells: {} applicable, {} undone, {} without effect, {} refused, \
         of which {} had nothing left to undo",
        MATRIX.len(),
        count(|outcome| *outcome != Outcome::NotApplicable),
        count(|outcome| *outcome == Outcome::Undone),
        count(|outcome| *outcome == Outcome::NoEffect),
        count(Outcome::is_refused),
        MATRIX
            .iter()
            .filter(|cell| is_refused_in_vain(cell))
            .count(),
    );
}

/// What an edit of Bob copied from Ann's edit is his, and stays. So these cells differ from what
/// his edit alone would have made.
const COPIED: [(&str, &str); 8] = [
    (
        "Ann makes a word bold, Bob types inside it",
        "his letters are bold",
    ),
    (
        "Ann makes a word bold, Bob makes its beginning bold",
        "he made bold only what was not bold yet",
    ),
    (
        "Ann removes the italics of a word, Bob types inside it",
        "his letters are not italic",
    ),
    (
        "Ann lifts a paragraph out of a list, Bob joins the paragraph to the previous one",
        "the item of the paragraph is back, and is empty",
    ),
    (
        "Ann sets an attribute of a paragraph, Bob splits the paragraph before it",
        "his half has the attribute",
    ),
    (
        "Ann sets an attribute of a paragraph, Bob splits the paragraph inside it",
        "his half has the attribute",
    ),
    (
        "Ann changes the type of a paragraph, Bob splits the paragraph before it",
        "his half has the type",
    ),
    (
        "Ann changes the type of a paragraph, Bob splits the paragraph inside it",
        "his half has the type",
    ),
];

/// Bob moves the paragraph to which Ann's edit joined the next one. The next paragraph returns to
/// its own place, as if Ann had never joined it, and not behind the moved one.
const MOVED: &str =
    "Ann deletes from one paragraph into the next, Bob moves the paragraph to the end";

/// Letters that were visible together keep their order, except in [`MOVED`]. A refused undo
/// succeeds after that of Bob.
#[test]
fn undo_03_an_undo_beside_another_edit_puts_no_letter_in_a_wrong_place() {
    print_counts();
    assert_eq!(print(&[Kind::Letters, Kind::Invalid, Kind::Refusal]), 0);
    print(&[Kind::Misplaced]);
    assert_eq!(names(Kind::Misplaced), [MOVED]);
}

#[test]
fn undo_03_an_undo_beside_another_edit_leaves_what_that_edit_alone_makes() {
    print(&[Kind::Different]);
    let known: Vec<&str> = COPIED.iter().map(|(cell, _)| *cell).collect();
    assert_eq!(names(Kind::Different), known);
}

#[test]
fn undo_03_two_editors_undo_everything_and_redo_everything_in_any_order() {
    let kinds = [Kind::NotInitial, Kind::NotRedone, Kind::OtherOrder];
    assert_eq!(print(&kinds), 0);
}

#[test]
fn undo_03_few_undos_beside_another_edit_are_refused() {
    print_counts();
    for cell in MATRIX.iter() {
        if let Outcome::Refused(reason) = &cell.outcome {
            let nothing_left = match is_refused_in_vain(cell) {
                true => " (nothing is left to undo)",
                false => "",
            };
            let (name, documents) = (cell.name(), documents(cell));
            println!("    {name}: {reason}{nothing_left} | {documents}");
        }
    }
    let refused = count(Outcome::is_refused);
    assert!(refused <= REFUSED, "{refused} are refused");
}

#[test]
fn the_table_of_the_guide_is_that_of_the_matrix() {
    table::check(&MATRIX);
}
