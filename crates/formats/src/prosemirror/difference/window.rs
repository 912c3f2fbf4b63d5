//! The part of a text that changes replace, so that the rest of a long text is not read.

use std::collections::HashMap;
use std::ops::Range;

use doclock::{
    NodeId,
    document::{Change, Mark, Marks, MarksChange, Node, Text},
};

use crate::prosemirror::pieces::marks_of;

/// The part of a text that changes replace. Before and behind it, the text and its marks stay.
#[derive(Clone, Debug)]
pub(super) struct Window {
    start: usize,
    /// Its end after the changes.
    end: usize,
    /// How many characters more there are after the changes.
    growth: isize,
}

impl Window {
    /// Makes it include a range.
    fn include(&mut self, range: Range<usize>) {
        self.start = self.start.min(range.start);
        self.end = self.end.max(range.end);
    }

    fn include_all(&mut self, marks: &Marks) {
        for range in marks.iter().filter_map(|mark| mark.range.clone()) {
            self.include(range);
        }
    }

    /// Follows a replacement of characters, and a change of marks.
    fn follow(
        &mut self,
        (at, removed, inserted): (usize, usize, usize),
        marks: Option<&MarksChange>,
    ) {
        marks
            .into_iter()
            .for_each(|marks| self.include_all(&marks.removed));
        if removed + inserted > 0 {
            self.include(at..at + removed);
            self.end = self.end - removed + inserted;
            self.growth += inserted as isize - removed as isize;
        }
        marks
            .into_iter()
            .for_each(|marks| self.include_all(&marks.added));
    }

    /// Its characters in two versions of the text with these lengths, of which either one is that
    /// before the changes.
    pub(super) fn ranges(&self, one: usize, other: usize) -> Option<(Range<usize>, Range<usize>)> {
        let end_before = self.end.checked_add_signed(-self.growth)?;
        let is_forward = one.checked_add_signed(self.growth) == Some(other);
        let (end, end_of_other) = match is_forward {
            true => (end_before, self.end),
            false => (self.end, end_before),
        };
        let is_known = is_forward || other.checked_add_signed(self.growth) == Some(one);
        let is_within =
            (self.start..=one).contains(&end) && (self.start..=other).contains(&end_of_other);
        (is_known && is_within).then_some((self.start..end, self.start..end_of_other))
    }
}

/// What changes replace of each text; `None` for a node that they change otherwise.
pub(super) fn windows(changes: &[Change]) -> HashMap<NodeId, Option<Window>> {
    let mut windows: HashMap<NodeId, Option<Window>> = HashMap::new();
    let mut follow = |id: &NodeId, splice, marks: Option<&MarksChange>| {
        let unchanged = Window {
            start: usize::MAX,
            end: 0,
            growth: 0,
        };
        let window = windows.entry(id.clone()).or_insert(Some(unchanged));
        if let Some(window) = window {
            window.follow(splice, marks);
        }
    };
    let mut others = Vec::new();
    for change in changes {
        match change {
            Change::SpliceText {
                id,
                at,
                removed,
                inserted,
                marks,
            } => {
                let splice = (*at, removed.chars().count(), inserted.chars().count());
                follow(id, splice, marks.as_ref());
            }
            Change::SetMarks { id, marks } => follow(id, (0, 0, 0), Some(marks)),
            other => other.each_stored_node(|id| others.push(id), |_| {}),
        }
    }
    for id in others {
        windows.insert(id.clone(), None);
    }
    windows
}

/// Whether a mark of some kind meets a range and is also over other characters.
pub(super) fn cuts(text: &Node, range: &Range<usize>, kind: impl Fn(&Mark) -> bool) -> bool {
    text.marks().iter().filter(|mark| kind(mark)).any(|mark| {
        let of_mark = mark.range.clone().unwrap_or_default();
        let meets = of_mark.start <= range.end && range.start <= of_mark.end;
        meets && (of_mark.start < range.start || range.end < of_mark.end)
    })
}

/// A node with a part of the text of another, and the marks of that part.
pub(super) fn part_of(text: &Node, range: Range<usize>) -> Node {
    let part = text.text().slice(range.clone()).unwrap_or_default();
    let marks = marks_of(text, &range);
    let marks = Marks::normal(marks, range.len()).unwrap_or_default();
    Node::stored(
        text.id().clone(),
        text.kind().into(),
        None,
        Text::from(part.as_str()),
        Default::default(),
        Default::default(),
        marks,
    )
}
