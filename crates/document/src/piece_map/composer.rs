//! Composing many maps and edits into one map.

use super::PieceMap;
use crate::SequenceEdit;

/// Composes consecutive maps and edits in pairs, so each is composed a logarithmic number of times.
#[derive(Debug, Default)]
pub struct Composer {
    /// What is composed, each with its weight.
    closed: Vec<(usize, PieceMap)>,
    /// The edits after these.
    open: PieceMap,
    edits: usize,
}

impl Composer {
    /// Takes in a map after all that is known. The weight says about how much it has.
    pub fn append(&mut self, weight: usize, map: PieceMap) {
        self.close();
        self.push(weight, map);
    }

    fn push(&mut self, weight: usize, map: PieceMap) {
        if map.is_empty() {
            return;
        }
        self.closed.push((weight, map));
        while let [.., (one, _), (next, _)] = self.closed[..]
            && one <= next
        {
            self.join_last();
        }
    }

    fn close(&mut self) {
        let edits = std::mem::take(&mut self.edits);
        let open = std::mem::take(&mut self.open);
        self.push(edits, open);
    }

    fn join_last(&mut self) {
        let last = self.closed.pop();
        if let (Some((weight, next)), Some((before, map))) = (last, self.closed.last_mut()) {
            map.append(&next);
            *before += weight;
        }
    }

    /// The composed map.
    pub fn compose(mut self) -> PieceMap {
        self.close();
        while self.closed.len() > 1 {
            self.join_last();
        }
        self.closed
            .pop()
            .map_or_else(PieceMap::default, |(_, map)| map)
    }
}

impl<'e> Extend<&'e SequenceEdit> for Composer {
    /// Takes in edits after all that is known.
    fn extend<I: IntoIterator<Item = &'e SequenceEdit>>(&mut self, edits: I) {
        for edit in edits {
            // One more edit would cost as much as a composition.
            if self.open.is_long() {
                self.close();
            }
            self.open.extend([edit]);
            self.edits += 1;
        }
    }
}
