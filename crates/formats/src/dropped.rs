//! Reports of what a conversion drops.

use std::collections::BTreeMap;

use doclock::{
    NodeId,
    document::{Mark, Node, View},
};
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

/// A part of a document or a text that the other form cannot express.
///
/// Names are those of the document. In JSON the field `part` has the variant in camelCase:
/// `{"part": "markAttribute", "mark": "bold", "attribute": "weight"}`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "part", rename_all = "camelCase")]
#[non_exhaustive]
pub enum DroppedPart {
    /// A node type, with the attributes of the node. Its text and its descendants are kept.
    NodeType {
        /// The node type.
        node: SmolStr,
    },
    /// An attribute of a node type that is kept.
    NodeAttribute {
        /// The node type.
        node: SmolStr,
        /// The attribute.
        attribute: SmolStr,
    },
    /// The text of a node whose type has no text in Markdown.
    Text {
        /// The node type.
        node: SmolStr,
    },
    /// A mark, with its attributes, on some of its characters at least. Its text is kept.
    Mark {
        /// The mark.
        mark: SmolStr,
    },
    /// An attribute of a mark that is kept.
    MarkAttribute {
        /// The mark.
        mark: SmolStr,
        /// The attribute.
        attribute: SmolStr,
    },
    /// The words after the language of a code block, when Markdown is read.
    CodeBlockInfo,
    /// An element of HTML, with its attributes; of scripts, styles and the like, with its content.
    Element {
        /// The name of the element.
        element: SmolStr,
    },
    /// An attribute of an element of HTML that is kept.
    ElementAttribute {
        /// The name of the element.
        element: SmolStr,
        /// The attribute.
        attribute: SmolStr,
    },
    /// A field of a node or a mark of ProseMirror that has no meaning there.
    Field {
        /// The name of the field.
        field: SmolStr,
    },
    /// The character U+FDD0 in a text of ProseMirror, which Unicode reserves for programs. It
    /// becomes U+FFFD.
    Noncharacter,
}

impl DroppedPart {
    pub(crate) fn mark(mark: &Mark) -> Self {
        Self::Mark {
            mark: mark.kind.clone(),
        }
    }

    pub(crate) fn node_type(node: &Node) -> Self {
        Self::NodeType {
            node: node.kind().into(),
        }
    }

    pub(crate) fn attribute(node: &Node, attribute: &str) -> Self {
        Self::NodeAttribute {
            node: node.kind().into(),
            attribute: attribute.into(),
        }
    }

    pub(crate) fn text(node: &Node) -> Self {
        Self::Text {
            node: node.kind().into(),
        }
    }
}

/// One entry of a report: a part that was dropped, and how often.
///
/// `P` is where: a [`NodeId`](doclock::NodeId) if a document was written, a line counted from one
/// if a text was read.
///
/// ```
/// use doclock::{DataStore, NodeId, document::{Mark, NodeSpec}};
/// use doclock_formats::markdown::{
///     Dropped, DroppedPart, MarkdownOptions, to_markdown_reported,
/// };
///
/// let mut transaction = DataStore::new().begin("export")?;
/// let note = Mark::new("comment", 0..5);
/// let text = NodeSpec::new("inline-text").with_id("t").with_text("Moons").with_marks([note]);
/// let page = transaction.create(NodeSpec::new("paragraph").with_children([text]))?;
///
/// let (markdown, dropped) = to_markdown_reported(&transaction, &page, &MarkdownOptions::new())?;
/// assert_eq!(markdown, "Moons\n");
/// let part = DroppedPart::Mark { mark: "comment".into() };
/// assert_eq!(dropped, [Dropped::<NodeId> { part, count: 1, first: "t".into() }]);
/// assert_eq!(
///     serde_json::to_string(&dropped)?,
///     r#"[{"part":"mark","mark":"comment","count":1,"first":"t"}]"#,
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dropped<P> {
    /// What was dropped.
    #[serde(flatten)]
    pub part: DroppedPart,
    /// How often.
    pub count: usize,
    /// The first place, in the order of writing or reading.
    pub first: P,
}

/// What was dropped so far.
pub(crate) struct DroppedReport<P>(BTreeMap<DroppedPart, (usize, P)>);

impl<P> Default for DroppedReport<P> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl DroppedReport<NodeId> {
    pub(crate) fn drop_type(&mut self, node: &Node) {
        self.add(DroppedPart::node_type(node), || node.id().clone());
    }

    pub(crate) fn drop_attribute(&mut self, node: &Node, attribute: &str) {
        let part = DroppedPart::attribute(node, attribute);
        self.add(part, || node.id().clone());
    }

    pub(crate) fn drop_text(&mut self, node: &Node) {
        if !node.text().is_empty() {
            self.add(DroppedPart::text(node), || node.id().clone());
        }
    }

    /// Notes all contents of a node as dropped.
    pub(crate) fn drop_contents(&mut self, view: &impl View, node: &Node) {
        for inner in view.descendants(node.id()) {
            self.drop_text(inner);
            if inner.id() != node.id() {
                self.drop_type(inner);
            }
        }
    }
}

impl<P> DroppedReport<P> {
    /// Counts a part. The place is computed for the first one only.
    pub(crate) fn add(&mut self, part: DroppedPart, place: impl FnOnce() -> P) {
        let (count, _) = self.0.entry(part).or_insert_with(|| (0, place()));
        *count += 1;
    }

    pub(crate) fn into_entries(self) -> Vec<Dropped<P>> {
        let entries = self.0.into_iter();
        let entries = entries.map(|(part, (count, first))| Dropped { part, count, first });
        entries.collect()
    }
}
