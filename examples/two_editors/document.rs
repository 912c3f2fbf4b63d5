//! The document: two sections, each with a title and some lines.

use doclock::{DataStore, NodeId, document::NodeSpec};

use crate::Failure;

/// An editor and its section.
pub struct Editor {
    pub name: &'static str,
    pub section: &'static str,
    pub title: &'static str,
    pub lines: [&'static str; 3],
}

pub const ANN: Editor = Editor {
    name: "ann",
    section: "route",
    title: "route-title",
    lines: ["route-1", "route-2", "route-3"],
};

pub const BOB: Editor = Editor {
    name: "bob",
    section: "costs",
    title: "costs-title",
    lines: ["costs-1", "costs-2", "costs-3"],
};

/// Writes the document, and returns its root.
pub fn fill(store: &DataStore) -> Result<NodeId, Failure> {
    let sections = [(&ANN, "Route"), (&BOB, "Costs")];
    let sections = sections.map(|(editor, title)| {
        let title = block("heading", editor.title, title).with_attributes([("level", 2.into())]);
        let lines = editor
            .lines
            .map(|id| block("paragraph", id, "To be written."));
        NodeSpec::new("section")
            .with_id(editor.section)
            .with_children([title].into_iter().chain(lines))
    });
    let mut transaction = store.begin("setup")?;
    let root = transaction.create(NodeSpec::new("document").with_children(sections))?;
    transaction.set_root(&root)?;
    transaction.commit()?;
    Ok(root)
}

/// A block whose text has the id.
fn block(kind: &str, id: &str, text: &str) -> NodeSpec {
    let text = NodeSpec::new("inline-text").with_id(id).with_text(text);
    NodeSpec::new(kind).with_children([text])
}
