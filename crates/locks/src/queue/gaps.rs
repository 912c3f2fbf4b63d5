//! Positions whose values have left, counted in logarithmic time.

use crate::steps::step;

/// A Fenwick tree over positions. It counts the gaps before a position, and finds the next position
/// that is no gap.
#[derive(Debug, Default)]
pub(super) struct Gaps {
    /// `sums[i]` counts the gaps among the `lowest_bit(i)` positions before position `i`; `sums[0]`
    /// is unused. Empty, or one longer than a power of two, so that it grows without reading its
    /// entries. Positions past its end are no gaps.
    sums: Vec<usize>,
}

impl Gaps {
    /// Memory below this size is never freed.
    const KEPT: usize = 1024;

    pub(super) fn is_clear(&self) -> bool {
        self.sums.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.sums.clear();
        self.sums.shrink_to(Self::KEPT);
    }

    /// Makes a position a gap that is none.
    pub(super) fn add(&mut self, position: usize) {
        self.cover(position + 1);
        let mut node = position + 1;
        while let Some(sum) = self.sums.get_mut(node) {
            step();
            *sum += 1;
            node += lowest_bit(node);
        }
    }

    /// Returns how many gaps are before a position.
    pub(super) fn before(&self, position: usize) -> usize {
        let mut node = position.min(self.size());
        let mut gaps = 0;
        while node > 0 {
            step();
            gaps += self.sums[node];
            node -= lowest_bit(node);
        }
        gaps
    }

    /// Returns the first position from this one on that is no gap.
    pub(super) fn next_kept(&self, position: usize) -> usize {
        let mut kept = position - self.before(position);
        let mut reached = 0;
        let mut width = self.size();
        // Advances while there are no more than `kept` positions behind it that are no gaps.
        while width > 0 {
            step();
            if let Some(gaps) = self.sums.get(reached + width)
                && width - gaps <= kept
            {
                reached += width;
                kept -= width - gaps;
            }
            width /= 2;
        }
        reached + kept
    }

    /// Returns how many positions the tree covers.
    fn size(&self) -> usize {
        self.sums.len().saturating_sub(1)
    }

    fn cover(&mut self, positions: usize) {
        let covered = self.size();
        if positions <= covered {
            return;
        }
        let gaps = self.before(covered);
        let size = positions.next_power_of_two();
        self.sums.resize(size + 1, 0);
        // Of the new nodes only the powers of two reach back over what was covered.
        let mut node = covered * 2;
        while node != 0 && node <= size {
            self.sums[node] = gaps;
            node *= 2;
        }
    }

    #[cfg(test)]
    pub(super) fn allocated(&self) -> usize {
        self.sums.capacity()
    }
}

/// Returns how many positions a node of a Fenwick tree sums up.
fn lowest_bit(node: usize) -> usize {
    node & node.wrapping_neg()
}
