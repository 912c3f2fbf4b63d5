//! The documents and the edits for all subjects, and the comparison of results.

use crate::random::SplitMix;

/// Blocks of one kind, each with one text.
#[derive(Clone)]
pub struct Start {
    pub headings: bool,
    pub texts: Vec<String>,
}

/// One edit of one block, with positions in the initial document.
#[derive(Clone, Copy)]
pub struct Edit {
    pub block: usize,
    pub what: What,
}

/// Positions count characters of the block's initial text.
#[derive(Clone, Copy)]
pub enum What {
    Type {
        at: usize,
    },
    Delete {
        start: usize,
        end: usize,
    },
    Split {
        at: usize,
    },
    /// With the next block, at the end of its own text.
    Join {
        at: usize,
    },
    /// `marked`: all the characters have the mark, so it is removed.
    Toggle {
        start: usize,
        end: usize,
        marked: bool,
    },
    Level(u64),
}

#[derive(Clone, Copy)]
pub enum Kind {
    Type,
    Delete,
    Split,
    Join,
    Toggle,
    Level,
}

/// The inserted text; like all the text, one byte per character.
pub const TYPED: &str = "x";

/// The only mark.
pub const STRONG: &str = "strong";

/// The initial level of headings.
pub const LEVEL: u64 = 1;

/// Edits of one kind. At most one for two blocks, so that blocks can be joined in pairs.
pub const EDITS: usize = 50;

/// The number of new marks; the other edits remove some of them.
const MARKED: usize = 30;

/// The number of characters that are deleted or marked.
const SPAN: usize = 10;

const WORDS: &str = "The quick brown fox jumps over the lazy dogs, who do not mind and sleep on in the shade of an old tree.";

impl Start {
    pub fn new(kind: Kind, blocks: usize) -> Self {
        let mut random = SplitMix(7);
        let text = |_| WORDS[..20 + random.below(81)].to_owned();
        Self {
            headings: matches!(kind, Kind::Level),
            texts: (0..blocks).map(text).collect(),
        }
    }
}

impl Kind {
    pub const ALL: [Self; 6] = [
        Self::Type,
        Self::Delete,
        Self::Split,
        Self::Join,
        Self::Toggle,
        Self::Level,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Type => "type",
            Self::Delete => "delete range",
            Self::Split => "split",
            Self::Join => "join",
            Self::Toggle => "toggle mark",
            Self::Level => "set attribute",
        }
    }

    pub fn edits(self, start: &Start) -> Vec<Edit> {
        let mut random = SplitMix(42);
        // At most every second block, in no order.
        let mut blocks: Vec<_> = (0..start.texts.len() / 2).map(|pair| 2 * pair).collect();
        for last in (1..blocks.len()).rev() {
            blocks.swap(last, random.below(last + 1));
        }
        let edit = |index: usize| {
            let block = match self {
                Self::Toggle => blocks[index % MARKED],
                _ => blocks[index],
            };
            let length = start.texts[block].len();
            let middle = length / 2;
            let (from, to) = (middle - SPAN / 2, middle + SPAN / 2);
            let what = match self {
                Self::Type => What::Type { at: middle },
                Self::Delete => What::Delete {
                    start: from,
                    end: to,
                },
                Self::Split => What::Split { at: middle },
                Self::Join => What::Join { at: length },
                Self::Toggle => What::Toggle {
                    start: from,
                    end: to,
                    marked: index >= MARKED,
                },
                Self::Level => What::Level(LEVEL + 1),
            };
            Edit { block, what }
        };
        (0..EDITS).map(edit).collect()
    }
}

/// A block in one line: its level, then its text with `*` where the mark begins and ends.
pub fn line<T: AsRef<str>>(
    level: Option<u64>,
    runs: impl IntoIterator<Item = (T, bool)>,
) -> String {
    let mut line = level.map_or_else(String::new, |level| format!("{level} "));
    let mut strong = false;
    for (text, is_strong) in runs {
        if !text.as_ref().is_empty() && is_strong != strong {
            strong = is_strong;
            line.push('*');
        }
        line.push_str(text.as_ref());
    }
    if strong {
        line.push('*');
    }
    line
}
