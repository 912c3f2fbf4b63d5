//! Queries, the same for a snapshot and an open transaction; nested JSON, both ways.

#[path = "../common/mod.rs"]
mod common;

mod find;
mod json;
mod nesting;
mod positions;
mod walk;

use doclock::{DataStore, Draft, View, document::NodeSpec};
use proptest::prelude::*;
use proptest::sample::Index;

/// The depth of documents for which depth must not matter.
const DEEP: usize = 100_000;

/// A tree as its nodes, each after its parent. Node `n` is called `n<n>`.
#[derive(Clone, Debug)]
struct Tree {
    /// The parent of each node but the first, and an index among its current children.
    attached: Vec<(Index, Index)>,
    texts: Vec<String>,
}

/// A tree without a store: the children of each node.
struct Plain {
    children: Vec<Vec<usize>>,
    parent: Vec<Option<usize>>,
    /// All nodes in document order.
    order: Vec<usize>,
}

fn trees() -> impl Strategy<Value = Tree> {
    let nodes = prop::collection::vec((any::<(Index, Index)>(), "[aé漢 ]{0,4}"), 1..24);
    nodes.prop_map(|nodes| {
        let (attached, texts) = nodes.into_iter().unzip();
        Tree { attached, texts }
    })
}

fn name(node: usize) -> String {
    format!("n{node}")
}

impl Tree {
    fn plain(&self) -> Plain {
        let len = self.texts.len();
        let mut plain = Plain {
            children: vec![Vec::new(); len],
            parent: vec![None; len],
            order: Vec::new(),
        };
        for (node, (parent, place)) in self.attached.iter().enumerate().skip(1) {
            let parent = parent.index(node);
            let siblings = &mut plain.children[parent];
            siblings.insert(place.index(siblings.len() + 1), node);
            plain.parent[node] = Some(parent);
        }
        plain.order = plain.below(0);
        plain
    }

    /// The same tree in a store.
    fn grow(&self, transaction: &mut Draft) {
        let spec = |node: usize| {
            NodeSpec::new("node")
                .with_id(name(node))
                .with_text(self.texts[node].as_str())
        };
        transaction.create(spec(0)).unwrap();
        for (node, (parent, place)) in self.attached.iter().enumerate().skip(1) {
            let parent = common::id(&name(parent.index(node)));
            let siblings = transaction.children(&parent).count();
            let place = place.index(siblings + 1);
            transaction
                .insert(spec(node), &parent, Some(place))
                .unwrap();
        }
    }
}

impl Plain {
    fn below(&self, node: usize) -> Vec<usize> {
        let children = self.children[node].iter();
        let below = children.flat_map(|&child| self.below(child));
        std::iter::once(node).chain(below).collect()
    }

    fn ancestors(&self, node: usize) -> Vec<usize> {
        std::iter::successors(self.parent[node], |&above| self.parent[above]).collect()
    }
}

/// A chain of nodes from `top` down to `bottom`, each with a text of one character.
fn deep_chain() -> (DataStore, doclock::NodeId, doclock::NodeId) {
    let bottom = NodeSpec::new("box").with_id("bottom").with_text("b");
    let chain = (2..DEEP).fold(bottom, |inner, _| {
        NodeSpec::new("box").with_text("x").with_children([inner])
    });
    let top = NodeSpec::new("box")
        .with_id("top")
        .with_text("t")
        .with_children([chain]);
    let store = common::store();
    common::commit(&store, |transaction| drop(transaction.create(top).unwrap()));
    (store, common::id("top"), common::id("bottom"))
}
