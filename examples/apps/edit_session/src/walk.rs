//! Finds nodes to edit, in a snapshot or in an open transaction.

use doclock::{View, document::Node};

use crate::random::Random;

/// The type of the nodes that have the text; all others are blocks.
pub const TEXT: &str = "inline-text";

/// A path down the tree: the root, one of its children, and so on to a leaf.
pub struct Walk<'v>(Vec<&'v Node>);

impl<'v> Walk<'v> {
    /// Takes a random child at every step, so no list of all nodes is needed.
    pub fn down<V: View>(view: &'v V, random: &mut Random) -> Self {
        let root = view.root().and_then(|root| view.node(root));
        let step = |node: &&'v Node| {
            let children = node.children();
            view.node(children.get(random.below(children.len()))?)
        };
        Self(std::iter::successors(root, step).collect())
    }

    /// All nodes on the path, from the root on.
    pub fn path(&self) -> &[&'v Node] {
        &self.0
    }

    /// The text at the end of the path, if there is one.
    pub fn text(&self) -> Option<&'v Node> {
        self.0.last().copied().filter(|node| node.kind() == TEXT)
    }

    /// The blocks on the path that can be moved, each after its parent.
    fn blocks(&self) -> impl DoubleEndedIterator<Item = (&'v Node, &'v Node)> {
        let pairs = self.0.windows(2).map(|pair| (pair[0], pair[1]));
        pairs.filter(|(parent, child)| holds_blocks(parent) && child.kind() != TEXT)
    }

    /// One of the blocks on the path, after its parent.
    pub fn block(&self, random: &mut Random) -> Option<(&'v Node, &'v Node)> {
        self.blocks().nth(random.below(self.blocks().count()))
    }

    /// The block on the path with the fewest descendants, after its parent.
    pub fn innermost_block(&self) -> Option<(&'v Node, &'v Node)> {
        self.blocks().next_back()
    }

    /// The last node on the path that can contain blocks and is outside the subtree of `moving`.
    pub fn container(&self, moving: Option<&Node>) -> Option<&'v Node> {
        let apart = self
            .0
            .iter()
            .take_while(|node| moving.is_none_or(|moving| moving.id() != node.id()));
        apart.copied().filter(|node| holds_blocks(node)).last()
    }
}

fn holds_blocks(node: &Node) -> bool {
    matches!(node.kind(), "document" | "block-quote" | "list-item")
}
