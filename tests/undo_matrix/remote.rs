//! The edits of Bob, each at the place of Ann's edit.

use doclock::{NodeId, View};

use crate::deed::{BlockDeed, Deed, Gap, Span};
use crate::local::Local;
use crate::page::Page;

/// An edit of Bob.
pub(crate) struct Remote {
    /// Its column in the table of the guide.
    pub(crate) group: &'static str,
    /// What he does, as the end of a sentence that begins with his name.
    pub(crate) name: &'static str,
    /// The same in its column.
    pub(crate) short: &'static str,
    /// The edit in the document after that of Ann. `None` if the place does not have what it needs.
    pub(crate) deed: fn(&Place<'_>) -> Option<Deed>,
}

/// The place of Ann's edit.
pub(crate) struct Place<'p> {
    pub(crate) page: &'p Page,
    letters: Vec<char>,
    around: [char; 2],
}

impl<'p> Place<'p> {
    pub(crate) fn new(page: &'p Page, local: &Local) -> Self {
        let letters = local.letters.chars().collect();
        let around = local.around;
        Self {
            page,
            letters,
            around,
        }
    }

    fn before(&self, letter: char) -> Gap {
        let letter = self.page.letter(letter).unwrap();
        Gap::new(letter.node.clone(), letter.at)
    }

    fn behind(&self, letter: char) -> Gap {
        let letter = self.page.letter(letter).unwrap();
        Gap::new(letter.node.clone(), letter.at + 1)
    }

    /// Whether the place is between two text nodes.
    fn is_between(&self) -> bool {
        let [before, after] = self.around.map(|letter| self.page.letter(letter).unwrap());
        self.letters.is_empty() && before.node != after.node
    }

    fn front(&self) -> Gap {
        match self.letters.first() {
            Some(first) => self.before(*first),
            None if self.is_between() => self.behind(self.around[0]),
            None => self.before(self.around[0]),
        }
    }

    fn end(&self) -> Gap {
        match self.letters.last() {
            Some(last) => self.behind(*last),
            None if self.is_between() => self.before(self.around[1]),
            None => self.behind(self.around[1]),
        }
    }

    /// The letters of the place in its first text node, up to the middle.
    fn first_half(&self) -> &[char] {
        let node = |letter: &char| &self.page.letter(*letter).unwrap().node;
        let mut nodes = self.letters.chunk_by(|one, other| node(one) == node(other));
        let first = nodes.next().unwrap_or_default();
        &first[..first.len().div_ceil(2)]
    }

    fn inside(&self) -> Option<Gap> {
        match self.first_half().last() {
            Some(letter) => Some(self.behind(*letter)),
            None => (!self.is_between()).then(|| self.behind(self.around[0])),
        }
    }

    /// The letters of the place.
    fn inner(&self) -> Option<Span> {
        (!self.letters.is_empty()).then(|| Span::new(self.letters.clone()))
    }

    /// The letters of the document from one to another.
    fn span(&self, first: char, last: char) -> Span {
        let [first, last] = [first, last].map(|letter| self.page.place(letter).unwrap());
        let letters = self.page.letters[first..=last].iter();
        Span::new(letters.map(|letter| letter.letter).collect())
    }

    /// The text node of the place.
    fn text(&self) -> &NodeId {
        let letter = self.letters.first().unwrap_or(&self.around[0]);
        &self.page.letter(*letter).unwrap().node
    }

    /// The paragraph of the place. Ann can have deleted it.
    fn paragraph(&self) -> Option<NodeId> {
        let text = (!self.is_between()).then(|| self.text())?;
        self.page.view.parent(text).cloned()
    }

    fn next_text(&self) -> Option<&NodeId> {
        let texts = &self.page.texts;
        let nth = texts.iter().position(|text| text == self.text())?;
        texts.get(nth + 1)
    }

    fn previous_text(&self) -> Option<&NodeId> {
        let texts = &self.page.texts;
        let nth = texts.iter().position(|text| text == self.text())?;
        texts.get(nth.checked_sub(1)?)
    }

    fn block(&self, deed: BlockDeed) -> Option<Deed> {
        Some(Deed::Block(self.paragraph()?, deed))
    }

    /// A new paragraph among the siblings of the paragraph, so many behind it.
    fn added(&self, behind: usize) -> Option<Deed> {
        let view = &self.page.view;
        let (block, index) = match self.paragraph() {
            Some(block) => {
                let index = view.index_in_parent(&block)? + behind;
                (block, index)
            }
            None if behind > 0 => return None,
            None => {
                let block = view.parent(self.text())?.clone();
                let index = view.index_in_parent(&block)? + 1;
                (block, index)
            }
        };
        let parent = view.parent(&block)?;
        let siblings: Vec<NodeId> = view
            .children(parent)
            .map(|node| node.id().clone())
            .collect();
        Some(Deed::Add {
            left: index.checked_sub(1).map(|left| siblings[left].clone()),
            right: siblings.get(index).cloned(),
        })
    }
}

pub(crate) static REMOTES: [Remote; 20] = [
    Remote {
        group: "types",
        name: "types before it",
        short: "before it",
        deed: |place| Some(Deed::Type(place.front(), "12")),
    },
    Remote {
        group: "types",
        name: "types inside it",
        short: "inside it",
        deed: |place| Some(Deed::Type(place.inside()?, "12")),
    },
    Remote {
        group: "types",
        name: "types after it",
        short: "after it",
        deed: |place| Some(Deed::Type(place.end(), "12")),
    },
    Remote {
        group: "types",
        name: "types in the next paragraph",
        short: "in the next paragraph",
        deed: |place| {
            let text = place.next_text()?;
            let middle = place.page.letters_in(text).count() / 2;
            Some(Deed::Type(Gap::new(text.clone(), middle), "12"))
        },
    },
    Remote {
        group: "deletes",
        name: "deletes it and a letter on each side",
        short: "it and a letter on each side",
        deed: |place| Some(Deed::Erase(place.span(place.around[0], place.around[1]))),
    },
    Remote {
        group: "types",
        name: "types over it",
        short: "over it",
        deed: |place| Some(Deed::Replace(place.inner()?, "12")),
    },
    Remote {
        group: "formats",
        name: "makes its beginning bold",
        short: "makes its beginning bold",
        deed: |place| {
            let last = place.first_half().last().unwrap_or(&place.around[1]);
            Some(Deed::Bold(place.span(place.around[0], *last)))
        },
    },
    Remote {
        group: "formats",
        name: "clears its formatting",
        short: "clears its formatting",
        deed: |place| Some(Deed::Clear(place.inner()?)),
    },
    Remote {
        group: "splits, joins",
        name: "splits the paragraph before it",
        short: "splits before it",
        deed: |place| {
            Some(Deed::Split(match place.is_between() {
                true => place.before(place.around[0]),
                false => place.front(),
            }))
        },
    },
    Remote {
        group: "splits, joins",
        name: "splits the paragraph inside it",
        short: "splits inside it",
        deed: |place| Some(Deed::Split(place.inside()?)),
    },
    Remote {
        group: "splits, joins",
        name: "joins the next paragraph to this one",
        short: "joins the next",
        deed: |place| Some(Deed::Join(place.text().clone(), place.next_text()?.clone())),
    },
    Remote {
        group: "splits, joins",
        name: "joins the paragraph to the previous one",
        short: "joins the previous",
        deed: |place| {
            let there = (!place.is_between()).then(|| place.previous_text())??;
            Some(Deed::Join(there.clone(), place.text().clone()))
        },
    },
    Remote {
        group: "deletes",
        name: "deletes the paragraph",
        short: "the paragraph",
        deed: |place| place.block(BlockDeed::Delete),
    },
    Remote {
        group: "deletes",
        name: "deletes the next paragraph",
        short: "the next paragraph",
        deed: |place| {
            let next = place.page.view.parent(place.next_text()?)?;
            Some(Deed::Block(next.clone(), BlockDeed::Delete))
        },
    },
    Remote {
        group: "moves, wraps",
        name: "moves the paragraph to the end",
        short: "moves it to the end",
        deed: |place| place.block(BlockDeed::MoveToEnd),
    },
    Remote {
        group: "moves, wraps",
        name: "wraps the paragraph in a list",
        short: "wraps it in a list",
        deed: |place| place.block(BlockDeed::WrapInList),
    },
    Remote {
        group: "sets",
        name: "sets the same attribute",
        short: "the same attribute",
        deed: |place| place.block(BlockDeed::SetAttribute),
    },
    Remote {
        group: "sets",
        name: "sets the type of the paragraph",
        short: "the type",
        deed: |place| place.block(BlockDeed::ChangeType),
    },
    Remote {
        group: "adds a paragraph",
        name: "adds a paragraph before this one",
        short: "before it",
        deed: |place| place.added(0),
    },
    Remote {
        group: "adds a paragraph",
        name: "adds a paragraph after this one",
        short: "after it",
        deed: |place| place.added(1),
    },
];
