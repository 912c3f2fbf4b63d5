//! The document of the matrix, and how it is read: each letter occurs once in it.

use std::collections::BTreeMap;

use doclock::{
    DataStore, Editor, NodeId, Snapshot, View,
    document::{Mark, Node, NodeSpec},
    dsl::*,
};

use crate::common::store;

/// The top of the document.
pub(crate) const TOP: &str = "doc";

/// A paragraph. Its text node has the id of the paragraph and `/text`.
fn paragraph(id: &str, text: &str, marks: impl IntoIterator<Item = Mark>) -> NodeSpec {
    let node = text_node("text", text).with_id(format!("{id}/text"));
    element("p", [node.with_marks(marks)]).with_id(id)
}

fn item(id: &str) -> NodeSpec {
    element("li", [paragraph(id, id, [])]).with_id(format!("{id}/item"))
}

/// A store with the document, and its two editors.
pub(crate) fn opened() -> (DataStore, Editor, Editor) {
    let store = store();
    let mut setup = store.begin("setup").unwrap();
    let blocks = [
        paragraph("phd", "phd", []),
        paragraph("tv", "tv jock-bags", [Mark::new("em", 3..7)]),
        paragraph("quiz", "quiz", []),
        element("ul", ["few", "lynx", "mr"].map(item)).with_id("ul"),
    ];
    let top = setup.create(element("doc", blocks).with_id(TOP)).unwrap();
    setup.set_root(&top).unwrap();
    setup.commit().unwrap();
    let [ann, bob] = ["ann", "bob"].map(|name| Editor::new(store.clone(), name));
    // Ann locks the document.
    let bob = bob.with_node_locks(2);
    (store, ann, bob)
}

#[derive(Clone, Debug)]
pub(crate) struct Letter {
    pub(crate) letter: char,
    /// Its text node.
    pub(crate) node: NodeId,
    /// Its offset in the text node.
    pub(crate) at: usize,
}

/// A version of the document, with its letters and its text nodes in document order.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    pub(crate) view: Snapshot,
    pub(crate) letters: Vec<Letter>,
    pub(crate) texts: Vec<NodeId>,
    /// The position of each letter among all.
    places: BTreeMap<char, usize>,
}

impl Page {
    pub(crate) fn of(store: &DataStore) -> Self {
        let view = store.snapshot();
        let (mut letters, mut texts) = (Vec::new(), Vec::new());
        for node in view.descendants(TOP) {
            if node.kind() == "text" {
                texts.push(node.id().clone());
            }
            let text = node.text().to_string();
            letters.extend(text.chars().enumerate().map(|(at, letter)| Letter {
                letter,
                node: node.id().clone(),
                at,
            }));
        }
        let places = letters.iter().enumerate();
        let places = places.map(|(place, letter)| (letter.letter, place));
        Self {
            places: places.collect(),
            view,
            letters,
            texts,
        }
    }

    pub(crate) fn has(&self, letter: char) -> bool {
        self.places.contains_key(&letter)
    }

    /// The position of a letter among all letters of the document.
    pub(crate) fn place(&self, letter: char) -> Option<usize> {
        self.places.get(&letter).copied()
    }

    pub(crate) fn letter(&self, letter: char) -> Option<&Letter> {
        Some(&self.letters[self.place(letter)?])
    }

    /// The letters of a text node.
    pub(crate) fn letters_in(&self, node: &NodeId) -> impl Iterator<Item = &Letter> {
        self.letters.iter().filter(move |there| there.node == *node)
    }

    /// The letters of all text nodes in a block.
    pub(crate) fn letters_of_block(&self, block: &NodeId) -> Vec<char> {
        let inside = |letter: &&Letter| {
            let node = self.view.ancestors(&letter.node);
            node.map(Node::id).any(|id| id == block)
        };
        let letters = self.letters.iter().filter(inside);
        letters.map(|letter| letter.letter).collect()
    }

    /// The letters of one document that another does not have.
    pub(crate) fn without(&self, other: &Self) -> Vec<char> {
        let letters = self.letters.iter().map(|letter| letter.letter);
        letters.filter(|letter| !other.has(*letter)).collect()
    }

    /// Whether some of the letters that both documents have are in another order.
    pub(crate) fn is_reordered(&self, other: &Self) -> bool {
        let both = self.letters.iter().map(|letter| letter.letter);
        !both.filter_map(|letter| other.place(letter)).is_sorted()
    }

    /// Nodes that no path leads to from the top of the document.
    pub(crate) fn outside(&self) -> Vec<&NodeId> {
        let top = NodeId::from(TOP);
        let nodes = self.view.nodes().map(Node::id);
        nodes
            .filter(|id| **id != top && !self.view.is_ancestor(TOP, *id))
            .collect()
    }

    /// The blocks of the document in a short form: `p(one _two_)`, `ul(li(p(three)))`. Italics are
    /// `_two_`, bold text is `*two*`, and a bar is between two text nodes.
    pub(crate) fn blocks(&self) -> Vec<String> {
        let blocks = self.view.children(TOP);
        blocks.map(|block| self.block(block)).collect()
    }

    fn block(&self, node: &Node) -> String {
        if node.kind() == "text" {
            return styled(node);
        }
        let attributes = node.attributes().iter();
        let attributes = attributes.map(|(key, value)| format!("[{key} {value}]"));
        let children: Vec<&Node> = self.view.children(node.id()).collect();
        let between = match children.iter().any(|child| child.kind() == "text") {
            true => "|",
            false => ", ",
        };
        let children: Vec<String> = children.iter().map(|child| self.block(child)).collect();
        let (kind, attributes) = (node.kind(), attributes.collect::<String>());
        format!("{kind}{attributes}({})", children.join(between))
    }
}

fn styled(node: &Node) -> String {
    let text = node.text().to_string();
    if text.is_empty() {
        return "\"\"".to_owned();
    }
    let mut styled = String::new();
    let letters: Vec<char> = text.chars().collect();
    let signs = [("em", '_'), ("bold", '*')];
    for at in 0..=letters.len() {
        for (kind, sign) in signs {
            let is_edge = node.marks().iter().any(|mark| {
                let range = mark.range.clone().unwrap_or(0..letters.len());
                mark.kind == kind && (range.start == at || range.end == at)
            });
            if is_edge {
                styled.push(sign);
            }
        }
        styled.extend(letters.get(at));
    }
    styled
}

/// The blocks of several documents, without those that begin or end all of them.
pub(crate) fn shown<const N: usize>(pages: [Vec<String>; N]) -> [String; N] {
    let equal = |nth: &dyn Fn(&[String]) -> Option<String>| {
        let mut each = pages.iter().map(|blocks| nth(blocks));
        let first = each.next().flatten();
        first.is_some() && each.all(|other| other == first)
    };
    let len = pages.iter().map(Vec::len).min().unwrap_or(0);
    let start = (0..len)
        .take_while(|at| equal(&|blocks| blocks.get(*at).cloned()))
        .count();
    let end = (1..=len - start)
        .take_while(|at| equal(&|blocks| blocks.get(blocks.len() - at).cloned()))
        .count();
    pages.map(|blocks| blocks[start..blocks.len() - end].join(" "))
}
