//! Changes of a sequence, of characters or children, as lengths.
//!
//! The algebra of operational transformation, with lengths instead of contents (Ellis and Gibbs,
//! 1989; the three kinds of steps are those of the ot-text formats). Deltas compose. Of two deltas
//! of the same sequence, one can be transformed to apply after the other.

use std::ops::Range;

use smallvec::SmallVec;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Keep(usize),
    Insert(usize),
    Remove(usize),
}

/// Steps from the start of a sequence; the rest after the last step is kept.
///
/// Neighbouring steps have different kinds. An insertion after a removed item stays after it, so an
/// undo restores the item to its original position.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Delta(SmallVec<[Step; 3]>);

/// More than the length of any sequence: the rest of it.
const REST: usize = usize::MAX / 4;

impl Delta {
    /// Items from `at` on are replaced.
    pub(super) fn splice(at: usize, removed: usize, inserted: usize) -> Self {
        let mut delta = Self::default();
        delta.push(Step::Keep(at));
        delta.push(Step::Insert(inserted));
        delta.push(Step::Remove(removed));
        delta.trimmed()
    }

    /// Removes all items from `at` on.
    pub(super) fn cut(at: usize) -> Self {
        Self::splice(at, REST, 0)
    }

    /// Whether a range overlaps the cut-off items, or lies among them if it is empty.
    pub(super) fn cuts(&self, range: &Range<usize>) -> bool {
        let mut before = 0usize;
        for step in &self.0 {
            match *step {
                Step::Keep(count) => before = before.saturating_add(count),
                Step::Remove(count) if count > REST / 2 => {
                    return before < range.end;
                }
                Step::Remove(count) => before = before.saturating_add(count),
                Step::Insert(_) => {}
            }
        }
        false
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn push(&mut self, step: Step) {
        let (Step::Keep(count) | Step::Insert(count) | Step::Remove(count)) = step;
        if count == 0 {
            return;
        }
        match (self.0.last_mut(), step) {
            (Some(Step::Keep(last)), Step::Keep(more))
            | (Some(Step::Insert(last)), Step::Insert(more))
            | (Some(Step::Remove(last)), Step::Remove(more)) => {
                *last = last.saturating_add(more).min(REST);
            }
            _ => self.0.push(step),
        }
    }

    fn trimmed(mut self) -> Self {
        while let Some(Step::Keep(_)) = self.0.last() {
            self.0.pop();
        }
        self
    }

    /// Composes this delta with a later one.
    pub(super) fn then(&self, next: &Self) -> Self {
        let (mut first, mut second) = (Cursor::new(self), Cursor::new(next));
        let mut composed = Self::default();
        while !(first.is_at_end() && second.is_at_end()) {
            if let Some(Step::Remove(count)) = first.peek() {
                composed.push(first.take(count));
            } else if let Some(Step::Insert(count)) = second.peek() {
                composed.push(second.take(count));
            } else {
                let count = first.left().min(second.left());
                match (first.take(count), second.take(count)) {
                    (Step::Keep(_), step) => composed.push(step),
                    (Step::Insert(_), Step::Keep(_)) => composed.push(Step::Insert(count)),
                    // The second removes an insertion of the first.
                    _ => {}
                }
            }
        }
        composed.trimmed()
    }

    /// Transforms this delta to apply after `other`, where both start from the same sequence. If
    /// both insert at one position, the insertion of `other` comes first.
    pub(super) fn after(&self, other: &Self) -> Self {
        let (mut own, mut theirs) = (Cursor::new(self), Cursor::new(other));
        let mut transformed = Self::default();
        while !(own.is_at_end() && theirs.is_at_end()) {
            if let Some(Step::Insert(count)) = theirs.peek() {
                theirs.take(count);
                transformed.push(Step::Keep(count));
            } else if let Some(Step::Insert(count)) = own.peek() {
                transformed.push(own.take(count));
            } else {
                let count = own.left().min(theirs.left());
                let step = own.take(count);
                // A removed item can be neither kept nor removed.
                if let Step::Keep(_) = theirs.take(count) {
                    transformed.push(step);
                }
            }
        }
        transformed.trimmed()
    }

    /// The new index of a position. Insertions at the position come after it.
    pub(super) fn place(&self, at: usize) -> usize {
        let (mut before, mut after) = (0, 0);
        for step in &self.0 {
            match *step {
                Step::Keep(count) => {
                    if before + count >= at {
                        break;
                    }
                    before += count;
                    after += count;
                }
                Step::Insert(_) if before == at => return after,
                Step::Insert(count) => after += count,
                Step::Remove(count) => {
                    before = before.saturating_add(count);
                    if before >= at {
                        return after;
                    }
                }
            }
        }
        after + (at - before)
    }

    /// The new index of a caret. Like a live caret (`Position::after`) it moves behind insertions
    /// at its position, and behind replacements of the characters around it.
    pub(super) fn caret(&self, at: usize) -> usize {
        let (mut before, mut after) = (0usize, 0);
        for step in &self.0 {
            match *step {
                Step::Keep(count) if before.saturating_add(count) > at => break,
                Step::Keep(count) => {
                    before += count;
                    after += count;
                }
                Step::Insert(count) => after += count,
                Step::Remove(count) => before = before.saturating_add(count),
            }
        }
        after + at.saturating_sub(before)
    }

    /// The remains of a range, in pieces between insertions.
    pub(super) fn remains(&self, range: Range<usize>) -> Vec<Range<usize>> {
        let mut pieces: Vec<Range<usize>> = Vec::new();
        for (_, piece) in self.survivors(range) {
            match pieces.last_mut() {
                Some(last) if last.end == piece.start => last.end = piece.end,
                _ => pieces.push(piece),
            }
        }
        pieces
    }

    /// The remains of a range, in pieces that are contiguous both before and after: old start and
    /// new range.
    pub(super) fn survivors(&self, range: Range<usize>) -> Vec<(usize, Range<usize>)> {
        let mut pieces = Vec::new();
        let mut cursor = Cursor::new(self);
        let (mut before, mut after) = (0, 0);
        while before < range.end {
            match cursor.peek() {
                Some(Step::Insert(count)) => {
                    cursor.take(count);
                    after += count;
                    continue;
                }
                Some(Step::Remove(count)) => {
                    cursor.take(count);
                    before = before.saturating_add(count);
                    continue;
                }
                _ => {}
            }
            let border = if before < range.start {
                range.start
            } else {
                range.end
            };
            let count = cursor.left().min(border - before);
            cursor.take(count);
            if before >= range.start {
                pieces.push((before, after..after + count));
            }
            before += count;
            after += count;
        }
        pieces
    }

    /// Divides a delta of a sequence that is split: one delta for each part. Insertions at the
    /// split point belong to the second.
    pub(super) fn divided(&self, at: usize) -> (Self, Self) {
        let mut cursor = Cursor::new(self);
        let mut left = Self::default();
        let mut reached = 0;
        while reached < at {
            match cursor.peek() {
                Some(Step::Insert(count)) => left.push(cursor.take(count)),
                _ => {
                    let count = cursor.left().min(at - reached);
                    left.push(cursor.take(count));
                    reached += count;
                }
            }
        }
        let mut right = Self::default();
        while !cursor.is_at_end() {
            let count = cursor.left();
            right.push(cursor.take(count));
        }
        (left.trimmed(), right.trimmed())
    }

    /// The delta of a sequence of `len` items, of which `now` were inserted, after a second
    /// sequence with the delta `next` is appended.
    pub(super) fn joined(&self, len: usize, now: usize, next: &Self) -> Self {
        let (mut whole, _) = self.divided(len);
        let (mut reached, mut known) = (0, 0);
        for step in &whole.0 {
            match *step {
                Step::Keep(count) => (reached, known) = (reached + count, known + count),
                Step::Remove(count) => reached += count,
                Step::Insert(count) => known += count,
            }
        }
        let rest = len.saturating_sub(reached);
        whole.push(Step::Keep(rest));
        // Items appended at the end: a join appends some that are in no delta.
        whole.push(Step::Insert(now.saturating_sub(known + rest)));
        next.0.iter().for_each(|step| whole.push(*step));
        whole.trimmed()
    }
}

/// Walks over steps, in pieces of any size; after the last step everything is kept.
struct Cursor<'a> {
    steps: &'a [Step],
    /// How much of the first step is consumed.
    taken: usize,
}

impl<'a> Cursor<'a> {
    fn new(delta: &'a Delta) -> Self {
        Self {
            steps: &delta.0,
            taken: 0,
        }
    }

    fn is_at_end(&self) -> bool {
        self.steps.is_empty()
    }

    /// The rest of the current step.
    fn peek(&self) -> Option<Step> {
        let taken = self.taken;
        self.steps.first().map(|step| match step {
            Step::Keep(count) => Step::Keep(count - taken),
            Step::Insert(count) => Step::Insert(count - taken),
            Step::Remove(count) => Step::Remove(count - taken),
        })
    }

    fn left(&self) -> usize {
        match self.peek() {
            Some(Step::Keep(count) | Step::Insert(count) | Step::Remove(count)) => count,
            None => REST,
        }
    }

    /// Consumes `count` of the current step, which has as many.
    fn take(&mut self, count: usize) -> Step {
        let step = match self.peek() {
            Some(Step::Keep(_)) | None => Step::Keep(count),
            Some(Step::Insert(_)) => Step::Insert(count),
            Some(Step::Remove(_)) => Step::Remove(count),
        };
        self.taken += count;
        if self.left() == 0 {
            self.steps = self.steps.get(1..).unwrap_or_default();
            self.taken = 0;
        } else if self.is_at_end() {
            self.taken = 0;
        }
        step
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A splice of a sequence of numbers: index, removed and inserted count.
    fn splice() -> impl Strategy<Value = (u8, u8, u8)> {
        (any::<u8>(), 0..4u8, 0..4u8)
    }

    fn splices(count: usize) -> impl Strategy<Value = Vec<(u8, u8, u8)>> {
        prop::collection::vec(splice(), 0..count)
    }

    /// Applies the splices, numbers the insertions from `first`, and returns the composed delta.
    fn make(on: &[u32], splices: &[(u8, u8, u8)], first: u32) -> (Vec<u32>, Delta) {
        let (mut items, mut whole, mut next) = (on.to_vec(), Delta::default(), first);
        for &(at, removed, inserted) in splices {
            let at = usize::from(at) % (items.len() + 1);
            let removed = usize::from(removed).min(items.len() - at);
            let new: Vec<u32> = (next..next + u32::from(inserted)).collect();
            next += u32::from(inserted);
            items.splice(at..at + removed, new.iter().copied());
            whole = whole.then(&Delta::splice(at, removed, new.len()));
        }
        (items, whole)
    }

    /// Applies a delta; the inserted items come from the known result.
    fn applied(on: &[u32], delta: &Delta, new: &[u32]) -> Vec<u32> {
        let (mut result, mut at, mut new) = (Vec::new(), 0, new.iter());
        for step in &delta.0 {
            match *step {
                Step::Keep(count) => {
                    result.extend(&on[at..at + count]);
                    at += count;
                }
                Step::Insert(count) => result.extend(new.by_ref().take(count)),
                Step::Remove(count) => at += count,
            }
        }
        result.extend(&on[at.min(on.len())..]);
        result
    }

    fn inserted(items: &[u32]) -> Vec<u32> {
        items.iter().copied().filter(|item| *item >= 100).collect()
    }

    proptest! {
        #[test]
        fn a_composed_delta_is_equivalent_to_its_parts(len in 0..12u32, edits in splices(8)) {
            let items: Vec<u32> = (0..len).collect();
            let (after, delta) = make(&items, &edits, 100);
            prop_assert_eq!(applied(&items, &delta, &inserted(&after)), after);
        }

        /// A splice transformed over the changes of others, and those transformed over the splice,
        /// converge.
        #[test]
        fn a_splice_and_concurrent_changes_converge_in_either_order(
            len in 0..12u32,
            ours in splice(),
            theirs in splices(5),
        ) {
            let items: Vec<u32> = (0..len).collect();
            let (after_ours, splice) = make(&items, &[ours], 100);
            let (mut after_theirs, theirs) = make(&items, &theirs, 200);
            let at = usize::from(ours.0) % (items.len() + 1);
            let removed = usize::from(ours.1).min(items.len() - at);
            let new_of_theirs = inserted(&after_theirs);

            for piece in theirs.remains(at..at + removed).into_iter().rev() {
                after_theirs.drain(piece);
            }
            let place = theirs.place(at);
            after_theirs.splice(place..place, inserted(&after_ours));
            let other_way = applied(&after_ours, &theirs.after(&splice), &new_of_theirs);
            prop_assert_eq!(after_theirs, other_way);
        }

        #[test]
        fn a_delta_maps_positions_and_ranges_to_their_items(len in 0..12u32, edits in splices(6), range in any::<(u8, u8)>()) {
            let items: Vec<u32> = (0..len).collect();
            let (after, delta) = make(&items, &edits, 100);
            let (one, other) = (usize::from(range.0) % (items.len() + 1), usize::from(range.1) % (items.len() + 1));
            let range = one.min(other)..one.max(other);
            let expected: Vec<u32> = after.iter().copied().filter(|item| items[range.clone()].contains(item)).collect();
            let pieces = delta.remains(range.clone());
            let found: Vec<u32> = pieces.iter().flat_map(|piece| after[piece.clone()].to_vec()).collect();
            prop_assert_eq!(found, expected);
            prop_assert!(pieces.windows(2).all(|pair| pair[0].end < pair[1].start));
            // All items before the position were before it, and no survivor after it was.
            let place = delta.place(one);
            let survivors_before = items[..one].iter().filter(|item| after.contains(item)).count();
            let before = after[..place].iter().filter(|item| **item < 100).count();
            prop_assert_eq!(before, survivors_before);
        }

        #[test]
        fn splitting_and_joining_restores_a_delta(len in 0..12u32, edits in splices(6), at in any::<u8>()) {
            let items: Vec<u32> = (0..len).collect();
            let (after, delta) = make(&items, &edits, 100);
            let at = usize::from(at) % (items.len() + 1);
            let (left, right) = delta.divided(at);
            let new = inserted(&after);
            let now = applied(&items[..at], &left, &new).len();
            prop_assert_eq!(applied(&items, &left.joined(at, now, &right), &new), after);
        }
    }

    #[test]
    fn items_that_a_delta_cuts_off_are_never_restored() {
        let cut = Delta::cut(3);
        assert_eq!(cut.remains(1..9), vec![1..3]);
        assert_eq!(cut.place(7), 3);
        assert!(cut.cuts(&(1..4)) && !cut.cuts(&(1..3)) && cut.cuts(&(5..5)) && !cut.cuts(&(3..3)));
        let more = cut
            .then(&Delta::splice(1, 0, 2))
            .then(&Delta::splice(5, 0, 4));
        assert_eq!(more.remains(0..9), [0..1, 3..5]);
    }
}
