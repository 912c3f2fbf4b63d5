//! What a commit typed or deleted, from which a history knows what is undone together.

use crate::id::NodeId;
use crate::{Change, Position, Selection, TextSelection};

/// A commit that typed text, or deleted some. Its place moves with the commits of others.
#[derive(Clone, Debug)]
pub struct Typed {
    id: NodeId,
    /// Where it began.
    start: usize,
    /// Where what it inserted ends.
    end: usize,
    removed: u32,
    inserts: bool,
    /// Whether it did nothing before that. Otherwise it began with a deletion, as typing over a
    /// selection does.
    is_alone: bool,
}

impl Typed {
    /// What a commit typed or deleted, if that is the last thing that it did to the document apart
    /// from the marks of the same text.
    pub fn of(changes: &[Change]) -> Option<Self> {
        let (last, is_alone) = match changes {
            [only] => (only, true),
            _ => last_of_many(changes)?,
        };
        let Change::SpliceText {
            id,
            at,
            removed,
            inserted,
            ..
        } = last
        else {
            return None;
        };
        Some(Self {
            id: id.clone(),
            start: *at,
            end: at + inserted.chars().count(),
            removed: u32::try_from(removed.chars().count()).unwrap_or(u32::MAX),
            inserts: !inserted.is_empty(),
            is_alone,
        })
    }

    /// Whether another commit continues it: adjacent typing or adjacent deletion. Typing also
    /// continues the typing that replaced a selection.
    #[inline]
    pub fn is_continued_by(&self, next: &Self) -> bool {
        let typed = self.inserts && next.inserts && next.removed == 0;
        let deleted = !self.inserts && !next.inserts;
        next.is_alone
            && self.id == next.id
            && (typed && self.end == next.start
                // The Delete key removes the next character, Backspace the one before.
                || deleted
                    && (next.start == self.start || next.start + next.removed as usize == self.start))
    }

    /// Moves its place as the commits of others move a selection.
    pub fn follow(&mut self, follow: impl FnOnce(&mut Selection)) {
        let [start, end] = [self.start, self.end].map(|at| Position::new(self.id.clone(), at));
        let mut place = Selection::new(start, end);
        follow(&mut place);
        if let Selection::Text(TextSelection { anchor, focus, .. }) = place {
            let is_whole = anchor.node_id == focus.node_id;
            self.start = if is_whole {
                anchor.offset
            } else {
                focus.offset
            };
            (self.id, self.end) = (focus.node_id, focus.offset);
        }
    }
}

/// The last change of several, and whether it is alone. Marks of the same text may come after it.
/// If it is not alone, it is one that inserts text, and only deletions come before it.
fn last_of_many(changes: &[Change]) -> Option<(&Change, bool)> {
    let mut before = changes.iter().filter(|it| it.is_of_the_document());
    let mut last = before.next_back()?;
    let mut marked = None;
    while let Change::SetMarks { id, .. } = last {
        marked = Some(id);
        last = before.next_back()?;
    }
    let is_alone = before.clone().next().is_none();
    let deletes = |change: &Change| match change {
        Change::SpliceText { removed, .. } => !removed.is_empty(),
        Change::RemoveSubtree { .. } | Change::JoinNodes { .. } => true,
        _ => false,
    };
    let inserts = |change: &Change| match change {
        Change::SpliceText { inserted, .. } => !inserted.is_empty(),
        _ => false,
    };
    let is_typed = is_alone || inserts(last) && before.all(deletes);
    (is_typed && marked.is_none_or(|marked| last.node() == Some(marked)))
        .then_some((last, is_alone))
}
