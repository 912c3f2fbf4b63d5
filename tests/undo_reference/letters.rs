//! Every letter that ever existed, and which edits are in effect.

use std::collections::HashMap;
use std::fmt::Write;

use doclock::document::Node;

use crate::search::{Outcome, fail};

/// The kinds of marks. The marks of a letter are a set of bits in this order.
pub(crate) const MARKS: [&str; 2] = ["bold", "em"];

/// A letter by its number, and its marks.
pub(crate) type Shown = (usize, u8);

/// The letter of a number: each is another one.
pub(crate) fn letter(number: usize) -> char {
    const FIRST: &[u8] = b"abcdefghijABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789klmnopqrstuvwxyz";
    // Some are two units of UTF-16.
    let code = match FIRST.get(number) {
        _ if number % 13 == 12 => 0x1F400 + number as u32 / 13,
        Some(letter) => u32::from(*letter),
        None => '一' as u32 + number as u32,
    };
    char::from_u32(code).expect("a letter")
}

#[derive(Debug, Default)]
struct Letter {
    /// The edit that inserted it.
    came: usize,
    /// The edits that removed it.
    gone: Vec<usize>,
    /// The marks with which it was inserted.
    base: u8,
    /// The edits that set or removed one of its marks, in their order.
    marked: Vec<(usize, usize, bool)>,
}

#[derive(Debug, Default)]
pub(crate) struct Letters {
    known: Vec<Letter>,
    numbers: HashMap<char, usize>,
    /// Whether an edit is in effect. The first one is the document at the start.
    edits: Vec<bool>,
}

impl Letters {
    /// A new letter, which the next edit can insert.
    pub(crate) fn draw(&mut self, count: usize) -> String {
        let numbers = self.known.len()..self.known.len() + count;
        let text: String = numbers.clone().map(letter).collect();
        self.numbers.extend(text.chars().zip(numbers));
        for _ in 0..count {
            self.known.push(Letter {
                came: usize::MAX,
                ..Letter::default()
            });
        }
        text
    }

    pub(crate) fn read(&self, node: &Node, into: &mut Vec<Shown>) -> Outcome {
        let start = into.len();
        for letter in node.text().to_string().chars() {
            match self.numbers.get(&letter) {
                Some(number) => into.push((*number, 0)),
                None => return fail("letter", format!("{letter} is unknown")),
            }
        }
        for mark in node.marks().iter() {
            let kind = MARKS.iter().position(|kind| *kind == mark.kind);
            let (Some(kind), Some(range)) = (kind, mark.range.clone()) else {
                return fail("mark", format!("{mark:?} is unknown"));
            };
            for (_, marks) in &mut into[start..][range] {
                *marks |= 1 << kind;
            }
        }
        Ok(())
    }

    /// Adds the edit that led from one document to another.
    pub(crate) fn commit(&mut self, before: &[Shown], after: &[Shown]) -> Outcome<usize> {
        let edit = self.edits.len();
        self.edits.push(true);
        let mut then = vec![None; self.known.len()];
        for (letter, marks) in before {
            then[*letter] = Some(*marks);
        }
        for (number, marks) in after {
            let letter = &mut self.known[*number];
            match then[*number].take() {
                Some(before) => {
                    for kind in 0..MARKS.len() {
                        let is_set = marks >> kind & 1 == 1;
                        if is_set != (before >> kind & 1 == 1) {
                            letter.marked.push((edit, kind, is_set));
                        }
                    }
                }
                None if letter.came == usize::MAX => {
                    letter.came = edit;
                    letter.base = *marks;
                }
                None => return fail("edit", format!("it restored {}", self::letter(*number))),
            }
        }
        for (letter, _) in then
            .iter()
            .enumerate()
            .filter(|(_, before)| before.is_some())
        {
            self.known[letter].gone.push(edit);
        }
        Ok(edit)
    }

    pub(crate) fn set(&mut self, edit: usize, is_in_effect: bool) {
        self.edits[edit] = is_in_effect;
    }

    pub(crate) fn in_effect(&self) -> &[bool] {
        &self.edits
    }

    /// Whether a letter has to be visible.
    pub(crate) fn is_shown(&self, letter: usize) -> bool {
        let letter = &self.known[letter];
        self.edits.get(letter.came).is_some_and(|came| *came)
            && letter.gone.iter().all(|edit| !self.edits[*edit])
    }

    fn marks(&self, letter: usize) -> u8 {
        let letter = &self.known[letter];
        let mut marks = letter.base;
        for (edit, kind, is_set) in &letter.marked {
            if self.edits[*edit] {
                marks = marks & !(1 << kind) | u8::from(*is_set) << kind;
            }
        }
        marks
    }

    /// Checks which letters are visible and how they are marked. Returns the letters that are
    /// missing.
    pub(crate) fn compare(&self, text: &[Shown]) -> Outcome<Vec<usize>> {
        let mut is_visible = vec![false; self.known.len()];
        for (number, marks) in text {
            let letter = letter(*number);
            if std::mem::replace(&mut is_visible[*number], true) {
                return fail("twice", format!("{letter} is there twice"));
            }
            if !self.is_shown(*number) {
                let why = self.why(*number);
                return fail("visible", format!("{letter} is visible, but {why}"));
            }
            let expected = self.marks(*number);
            if *marks != expected {
                let [marks, expected] = [*marks, expected].map(names);
                let text = format!("{letter} has the marks {marks}, not {expected}");
                return fail("marks", text);
            }
        }
        let all = 0..self.known.len();
        Ok(all
            .filter(|number| !is_visible[*number] && self.is_shown(*number))
            .collect())
    }

    /// The edits that decide whether a letter is visible.
    pub(crate) fn why(&self, number: usize) -> String {
        let letter = &self.known[number];
        let is = |edit: usize| match self.edits.get(edit) {
            Some(true) => format!("{edit} (in effect)"),
            _ => format!("{edit} (undone)"),
        };
        let gone: Vec<String> = letter.gone.iter().map(|edit| is(*edit)).collect();
        format!("inserted by edit {}, removed by {gone:?}", is(letter.came))
    }
}

fn names(marks: u8) -> String {
    let names = MARKS.iter().enumerate();
    let names = names.filter(|(kind, _)| marks >> kind & 1 == 1);
    format!("{:?}", names.map(|(_, name)| *name).collect::<Vec<_>>())
}

/// A text and its marks in readable form.
pub(crate) fn shown(text: &[Shown]) -> String {
    let mut shown: String = text.iter().map(|(number, _)| letter(*number)).collect();
    for (kind, name) in MARKS.iter().enumerate() {
        let marked = text.iter().filter(|(_, marks)| marks >> kind & 1 == 1);
        let marked: String = marked.map(|(number, _)| letter(*number)).collect();
        if !marked.is_empty() {
            let _ = write!(shown, " {name}:{marked}");
        }
    }
    shown
}
