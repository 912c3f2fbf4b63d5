//! Where the cells of a table are, computed from their spans alone.

/// How many columns and rows a cell spans, at least one of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) columns: usize,
    pub(super) rows: usize,
}

/// A rectangle of places; the ends are exclusive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Area {
    pub(super) left: usize,
    pub(super) top: usize,
    pub(super) right: usize,
    pub(super) bottom: usize,
}

impl Area {
    /// The area of one place.
    pub(super) fn of_one(left: usize, top: usize) -> Self {
        Self {
            left,
            top,
            right: left + 1,
            bottom: top + 1,
        }
    }

    /// The same area, as many places further to the right and below.
    pub(super) fn moved(&self, right: usize, down: usize) -> Self {
        Self {
            left: self.left + right,
            top: self.top + down,
            right: self.right + right,
            bottom: self.bottom + down,
        }
    }

    /// The part in another area, which it meets.
    pub(super) fn within(&self, other: &Self) -> Self {
        Self {
            left: self.left.max(other.left),
            top: self.top.max(other.top),
            right: self.right.min(other.right),
            bottom: self.bottom.min(other.bottom),
        }
    }

    pub(super) fn span(&self) -> Span {
        Span {
            columns: self.right - self.left,
            rows: self.bottom - self.top,
        }
    }

    /// The smallest area with two others in it.
    pub(super) fn around(&self, other: &Self) -> Self {
        Self {
            left: self.left.min(other.left),
            top: self.top.min(other.top),
            right: self.right.max(other.right),
            bottom: self.bottom.max(other.bottom),
        }
    }

    pub(super) fn meets(&self, other: &Self) -> bool {
        self.left < other.right
            && other.left < self.right
            && self.top < other.bottom
            && other.top < self.bottom
    }

    /// Whether an area begins in this one.
    pub(super) fn has_start(&self, of: &Self) -> bool {
        (self.left..self.right).contains(&of.left) && (self.top..self.bottom).contains(&of.top)
    }
}

/// The areas of the cells. They do not overlap: where a cell would, it is narrower than its span,
/// and a cell ends with the last row.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) width: usize,
    /// In the order of the cells.
    pub(super) areas: Vec<Area>,
    /// How many places of each row no cell takes.
    pub(super) missing: Vec<usize>,
}

impl Layout {
    /// The most places of a table. More than that are not laid out.
    pub(super) const MOST: usize = 1 << 20;

    /// Lays out rows of cells. Takes time in proportion to the places, of which there are at most
    /// [`MOST`](Self::MOST).
    pub(super) fn new(rows: &[Vec<Span>]) -> Option<Self> {
        let height = rows.len();
        // The row in which each column is free again.
        let mut free_from: Vec<usize> = Vec::new();
        let mut areas = Vec::new();
        let mut taken = vec![0; height];
        for (top, row) in rows.iter().enumerate() {
            let mut left = 0;
            for span in row {
                while free_from.get(left).is_some_and(|&free| free > top) {
                    left += 1;
                }
                let next = free_from.iter().skip(left).take(span.columns);
                let columns = next.take_while(|&&free| free <= top).count();
                // Beyond the last column all is free.
                let columns = match left + columns < free_from.len() {
                    true => columns,
                    false => span.columns,
                };
                let right = left.checked_add(columns)?;
                if right.checked_mul(height)? > Self::MOST {
                    return None;
                }
                let bottom = height.min(top.saturating_add(span.rows));
                free_from.resize(free_from.len().max(right), 0);
                free_from[left..right].fill(bottom);
                taken[top..bottom]
                    .iter_mut()
                    .for_each(|taken| *taken += columns);
                areas.push(Area {
                    left,
                    top,
                    right,
                    bottom,
                });
                left = right;
            }
        }
        let width = free_from.len();
        let missing = taken.into_iter().map(|taken| width - taken).collect();
        Some(Self {
            width,
            areas,
            missing,
        })
    }
}

/// How many places the cells take at most, and how many [`Layout::new`] looks at.
pub(super) fn taken(rows: &[Vec<Span>]) -> usize {
    let mut places = 0_usize;
    for (top, row) in rows.iter().enumerate() {
        for span in row {
            let rows = span.rows.min(rows.len() - top);
            places = places.saturating_add(span.columns.saturating_mul(rows));
        }
    }
    places.min(Layout::MOST)
}

/// The most columns that a table is given so that not more than some places have no cell. It is the
/// width of one of its rows, and not less than the most cells in one. Cells that reach into rows
/// below theirs do not count there.
fn width_to_fill(rows: &[Vec<Span>], most_missing: usize) -> usize {
    let width = |row: &Vec<Span>| {
        let columns = row.iter().map(|span| span.columns);
        columns.fold(0, usize::saturating_add)
    };
    let mut widths: Vec<usize> = rows.iter().map(width).collect();
    widths.sort_unstable();
    let (mut found, mut below) = (0, 0_usize);
    for (rows, &width) in widths.iter().enumerate() {
        if width.saturating_mul(rows).saturating_sub(below) <= most_missing {
            found = width;
        }
        below = below.saturating_add(width);
    }
    let cells = rows.iter().map(Vec::len).max();
    found.max(cells.unwrap_or(0))
}

/// Cuts cells, the last of a row first, so that at most some places have no cell, unless there are
/// more because rows have fewer cells than others.
pub(super) fn cut_to_fill(rows: &mut [Vec<Span>], most_missing: usize) {
    let width = width_to_fill(rows, most_missing);
    for row in rows {
        // The cells after this one have at least one column each.
        let mut left = width;
        let mut after = row.len();
        for span in row {
            after -= 1;
            span.columns = span.columns.min(left - after);
            left -= span.columns;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of spans, laid out and drawn: one letter for each cell.
    fn drawn(rows: &[&[(usize, usize)]]) -> Option<Vec<String>> {
        let spans = |row: &&[(usize, usize)]| -> Vec<Span> {
            let spans = row.iter();
            spans
                .map(|&(columns, rows)| Span { columns, rows })
                .collect()
        };
        let layout = Layout::new(&rows.iter().map(spans).collect::<Vec<_>>())?;
        let mut places = vec![vec!['.'; layout.width]; rows.len()];
        for (letter, area) in ('a'..).zip(&layout.areas) {
            for row in &mut places[area.top..area.bottom] {
                for place in &mut row[area.left..area.right] {
                    assert_eq!(*place, '.', "no two cells overlap");
                    *place = letter;
                }
            }
        }
        let free = |row: &Vec<char>| row.iter().filter(|&&place| place == '.').count();
        assert_eq!(places.iter().map(free).collect::<Vec<_>>(), layout.missing);
        Some(places.iter().map(String::from_iter).collect())
    }

    #[test]
    fn cells_take_the_places_that_earlier_ones_leave() {
        let rows: [&[_]; 3] = [
            &[(1, 2), (2, 1), (1, 1)],
            &[(1, 1), (1, 2), (1, 1)],
            &[(2, 1), (1, 1)],
        ];
        assert_eq!(drawn(&rows).unwrap(), ["abbc", "adef", "ggeh"]);
    }

    #[test]
    fn a_cell_that_would_overlap_another_is_cut() {
        let rows: [&[_]; 2] = [&[(1, 1), (1, 2), (1, 1)], &[(3, 9)]];
        assert_eq!(drawn(&rows).unwrap(), ["abc", "db."]);
    }

    #[test]
    fn ragged_and_empty_rows_have_free_places() {
        let rows: [&[_]; 3] = [&[], &[(2, 1)], &[(1, 1)]];
        assert_eq!(drawn(&rows).unwrap(), ["..", "aa", "b."]);
        assert_eq!(drawn(&[]).unwrap(), Vec::<String>::new());
        assert_eq!(drawn(&[&[], &[]]).unwrap(), ["", ""]);
    }

    #[test]
    fn cells_are_cut_to_the_widest_row_that_the_others_can_fill() {
        let cut = |rows: &[&[usize]], most_missing| {
            let spans = |row: &&[usize]| -> Vec<Span> {
                let columns = row.iter();
                columns.map(|&columns| Span { columns, rows: 1 }).collect()
            };
            let mut rows: Vec<Vec<Span>> = rows.iter().map(spans).collect();
            cut_to_fill(&mut rows, most_missing);
            let columns = |row: &Vec<Span>| row.iter().map(|span| span.columns).collect();
            rows.iter().map(columns).collect::<Vec<Vec<_>>>()
        };
        let rows: [&[usize]; 3] = [&[9, 1], &[2], &[1, 3, 1]];
        assert_eq!(cut(&rows, 13), [vec![9, 1], vec![2], vec![1, 3, 1]]);
        assert_eq!(cut(&rows, 12), [vec![4, 1], vec![2], vec![1, 3, 1]]);
        // All have as many columns as there are cells in one row.
        assert_eq!(cut(&rows, 0), [vec![2, 1], vec![2], vec![1, 1, 1]]);
        assert_eq!(
            cut(&[&[], &[usize::MAX, usize::MAX]], 5),
            [vec![], vec![1, 1]]
        );
    }

    #[test]
    fn a_table_that_is_too_large_is_not_laid_out() {
        for columns in [Layout::MOST + 1, usize::MAX] {
            assert_eq!(drawn(&[&[(columns, 1)]]), None);
        }
        assert_eq!(
            drawn(&[&[(usize::MAX / 2, 1), (usize::MAX, usize::MAX)]]),
            None
        );
        assert!(drawn(&[&[(2, usize::MAX)], &[]]).is_some());
    }
}
