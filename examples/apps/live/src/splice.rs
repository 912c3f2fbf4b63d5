//! Edits of a text, in the UTF-16 units of a browser.

use serde::{Deserialize, Serialize};

/// Replaces `removed` units from `at` on by `inserted`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Splice {
    pub at: usize,
    #[serde(default)]
    pub removed: usize,
    #[serde(default)]
    pub inserted: String,
}

impl Splice {
    pub fn new(at: usize, removed: usize, inserted: impl Into<String>) -> Self {
        let inserted = inserted.into();
        Self {
            at,
            removed,
            inserted,
        }
    }

    fn end(&self) -> usize {
        self.at + self.removed
    }

    /// The end of the inserted text, after the splice.
    pub fn inserted_end(&self) -> usize {
        self.at + self.inserted.encode_utf16().count()
    }

    /// Maps a position over the splice: behind it, if it touches it.
    pub fn map(&self, position: usize) -> usize {
        match position < self.at {
            true => position,
            false => self.inserted_end() + position.saturating_sub(self.end()),
        }
    }

    /// Rebases an edit of the same text over this splice, which was committed first.
    ///
    /// The rules are those of `ChangeSet.map` of CodeMirror, so a tab computes the same. What is
    /// deleted already is not deleted again. What the splice inserted stays, also in the middle of
    /// characters that the edit removes. Of two insertions at one position, the splice comes first,
    /// unless the edit continues what its user has typed before it.
    fn rebase(&self, edit: Splice, continues: bool) -> [Option<Splice>; 2] {
        let end = edit.end();
        let is_behind = match continues {
            true => self.removed < edit.removed,
            false => self.removed <= edit.removed,
        };
        if edit.at > self.at || edit.at == self.at && is_behind {
            let at = self.map(edit.at);
            let removed = self.map(end).saturating_sub(at);
            return [
                Some(Splice {
                    at,
                    removed,
                    ..edit
                }),
                None,
            ];
        }
        let rest = (end > self.end()).then(|| {
            let rest = self.inserted_end();
            Splice::new(rest, end - self.end(), "")
        });
        let removed = end.min(self.at) - edit.at;
        [Some(Splice { removed, ..edit }), rest]
    }
}

/// Rebases the edits of one request over a splice that was committed first.
///
/// The edits are in order and do not overlap. All count positions in the text before any of them.
pub fn rebase(edits: Vec<Splice>, over: &Splice, continues: bool) -> Vec<Splice> {
    let edits = edits.into_iter();
    let rebased = edits.flat_map(|edit| over.rebase(edit, continues));
    rebased.flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply(text: &str, edits: &[Splice]) -> String {
        let mut units: Vec<u16> = text.encode_utf16().collect();
        for edit in edits.iter().rev() {
            units.splice(edit.at..edit.end(), edit.inserted.encode_utf16());
        }
        String::from_utf16(&units).unwrap()
    }

    /// The text after `over`, then the rebased edits.
    fn both(text: &str, over: (usize, usize, &str), edits: &[(usize, usize, &str)]) -> String {
        rebased(text, over, edits, false)
    }

    fn rebased(
        text: &str,
        over: (usize, usize, &str),
        edits: &[(usize, usize, &str)],
        continues: bool,
    ) -> String {
        let over = Splice::new(over.0, over.1, over.2);
        let edits = edits.iter().map(|edit| Splice::new(edit.0, edit.1, edit.2));
        let text = apply(text, std::slice::from_ref(&over));
        apply(&text, &rebase(edits.collect(), &over, continues))
    }

    #[test]
    fn an_edit_before_a_commit_stays_and_one_behind_it_moves() {
        assert_eq!(both("abcdef", (3, 1, "XYZ"), &[(1, 1, "-")]), "a-cXYZef");
        assert_eq!(both("abcdef", (1, 1, "XYZ"), &[(3, 1, "-")]), "aXYZc-ef");
        assert_eq!(both("abcdef", (1, 1, "🦀"), &[(3, 1, "-")]), "a🦀c-ef");
    }

    #[test]
    fn of_two_insertions_at_one_position_the_commit_comes_first() {
        assert_eq!(both("ab", (1, 0, "X"), &[(1, 0, "-")]), "aX-b");
        assert_eq!(both("ab", (1, 0, "X"), &[(1, 1, "-")]), "aX-");
        assert_eq!(both("ab", (1, 1, "X"), &[(1, 0, "-")]), "a-X");
    }

    #[test]
    fn what_a_user_types_on_comes_before_a_commit_at_its_position() {
        assert_eq!(rebased("ab", (1, 0, "X"), &[(1, 0, "-")], true), "a-Xb");
        assert_eq!(rebased("ab", (1, 1, "X"), &[(1, 1, "-")], true), "a-X");
        assert_eq!(rebased("ab", (1, 1, "X"), &[(1, 0, "-")], true), "a-X");
        assert_eq!(rebased("abc", (0, 1, "X"), &[(1, 1, "-")], true), "X-c");
    }

    #[test]
    fn deleted_characters_are_not_deleted_again() {
        assert_eq!(both("abcdef", (1, 3, ""), &[(2, 3, "")]), "af");
        assert_eq!(both("abcdef", (2, 3, ""), &[(1, 3, "")]), "af");
        assert_eq!(both("abcdef", (1, 4, ""), &[(2, 1, "-")]), "a-f");
        assert_eq!(both("abcdef", (1, 4, ""), &[(2, 1, ""), (3, 2, "")]), "af");
    }

    #[test]
    fn an_insertion_inside_of_a_deletion_stays() {
        assert_eq!(both("abcdef", (3, 0, "X"), &[(1, 4, "-")]), "a-Xf");
        assert_eq!(both("abcdef", (3, 1, "X"), &[(1, 2, "")]), "aXef");
        assert_eq!(
            both("abcdef", (1, 4, "X"), &[(2, 0, "-"), (3, 0, "+")]),
            "aX-+f"
        );
    }
}
