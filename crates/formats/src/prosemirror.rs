//! Conversion from the documents and the steps of ProseMirror and Tiptap, and to their documents.
//!
//! **Use it** if an editor in a browser is built with ProseMirror or Tiptap: [`from_prosemirror`]
//! and [`to_prosemirror`] convert whole documents, and report what they drop. A [`ProseMirrorStep`]
//! edits a document in a transaction.
//! **Do not use it** for a document with types that the names do not have: define them with
//! [`ProseMirrorNames::node`] and [`ProseMirrorNames::mark`].
//!
//! The format is that of `Node.toJSON`, as the [reference of
//! ProseMirror](https://prosemirror.net/docs/ref/#model.Node.toJSON) describes it.

mod difference;
mod edit;
mod error;
mod names;
mod newlines;
mod pieces;
mod positions;
mod read;
mod schema;
mod step;
mod write;

use std::sync::Arc;

use doclock::{
    NodeId,
    document::{Change, EditError, Mark, NodeSpec, Snapshot, View},
    schema::Schema,
};
use serde_json::Value;

pub use self::error::{ProseMirrorError, ProseMirrorNamesError, StepError};
pub use self::names::{ProseMirrorContent, ProseMirrorNames};
pub use self::step::ProseMirrorStep;
pub use crate::dropped::{Dropped, DroppedPart};
pub use crate::target::TargetFilter;

/// The attributes with targets that a filter can reject.
const TARGETS: [&str; 2] = ["href", "src"];

/// Options for reading and writing documents of ProseMirror.
#[derive(Clone, Debug)]
#[must_use]
pub struct ProseMirrorOptions {
    names: ProseMirrorNames,
    schema: Option<Arc<Schema>>,
    targets: TargetFilter,
}

impl ProseMirrorOptions {
    /// Creates options with these names, without a schema, which keep every target.
    pub fn new(names: ProseMirrorNames) -> Self {
        Self {
            names,
            schema: None,
            targets: TargetFilter::any(),
        }
    }

    /// Sets the schema that a document must follow when it is read. The names are those of the
    /// document. The default is no schema.
    pub fn schema(mut self, schema: impl Into<Arc<Schema>>) -> Self {
        self.schema = Some(schema.into());
        self
    }

    /// Sets the filter for the attributes `href` and `src` of the document, in both directions. A
    /// mark with a rejected target is dropped. In a node, a rejected target becomes empty. Use
    /// [`TargetFilter::web`] for documents from an untrusted source.
    pub fn targets(mut self, targets: TargetFilter) -> Self {
        self.targets = targets;
        self
    }

    fn rejects(&self, target: &Value) -> bool {
        let target = target.as_str();
        target.is_some_and(|target| !target.is_empty() && !self.targets.allows(target))
    }

    fn rejects_mark(&self, mark: &Mark) -> bool {
        let mut targets = TARGETS.iter().filter_map(|name| mark.attributes.get(name));
        targets.any(|target| self.rejects(target))
    }
}

/// Reads a document in ProseMirror's JSON, and reports what it drops, sorted, each with the path to
/// the first.
///
/// Text is in children of the type `inline-text`, one for all text between two blocks. Marks on
/// text are marks over its characters. An inline node such as an image is the character U+FFFC
/// under a mark with its attributes. A hard break is a newline, and a newline in a text is U+2028,
/// except in code. The lists of ProseMirror are the type `list` with the attribute `ordered`, and
/// with `kind` if it is a list of tasks.
/// An attribute that is `null` is absent, and a list that is `null` is empty. A number such as
/// `2.0` is the integer.
///
/// A node of an unknown type loses its type; its text and its descendants are kept. Between blocks
/// its text becomes a paragraph. Dropped are unknown marks, marks on nodes that are not in a line
/// of text, attributes of text and hard breaks, and fields that ProseMirror ignores. Reported and
/// kept are a node whose definition does not allow its parent, and a hard break or an inline node
/// with content.
///
/// # Errors
///
/// [`ProseMirrorError`]: the text is not JSON of this form, its nodes nest more than about 60
/// levels deep, or the document does not follow the schema of the options.
///
/// ```
/// use doclock::document::{Mark, NodeSpec};
/// use doclock_formats::prosemirror::{
///     Dropped, DroppedPart, ProseMirrorNames, ProseMirrorOptions, from_prosemirror,
/// };
///
/// let json = r#"{"type": "doc", "content": [{"type": "paragraph", "content": [
///     {"type": "text", "text": "A "},
///     {"type": "text", "marks": [{"type": "em"}, {"type": "wavy"}], "text": "small"}
/// ]}]}"#;
/// let options = ProseMirrorOptions::new(ProseMirrorNames::basic());
/// let (document, dropped) = from_prosemirror(json, &options)?;
///
/// let text = NodeSpec::new("inline-text").with_text("A small").with_marks([Mark::new("em", 2..7)]);
/// let paragraph = NodeSpec::new("paragraph").with_children([text]);
/// assert_eq!(document, NodeSpec::new("document").with_children([paragraph]));
/// let part = DroppedPart::Mark { mark: "wavy".into() };
/// let first = "content[0].content[1].marks[1]".to_owned();
/// assert_eq!(dropped, [Dropped { part, count: 1, first }]);
/// # Ok::<(), doclock_formats::prosemirror::ProseMirrorError>(())
/// ```
pub fn from_prosemirror(
    json: &str,
    options: &ProseMirrorOptions,
) -> Result<(NodeSpec, Vec<Dropped<String>>), ProseMirrorError> {
    read::document(json, options)
}

/// Writes a node with its subtree in ProseMirror's JSON, and reports what it drops, sorted, each
/// with the id of the first node.
///
/// A document of [`from_prosemirror`] is read back from this output unchanged. Text between blocks
/// becomes a paragraph, and the description of an image its attribute `alt`. A node of an unknown
/// type loses its type. Dropped are unknown marks, all but one of the marks of one kind over the
/// same characters, and attributes of texts.
///
/// # Errors
///
/// [`EditError`]: the node does not exist.
///
/// ```
/// use doclock::{DataStore, document::{Mark, NodeSpec}};
/// use doclock_formats::prosemirror::{ProseMirrorNames, ProseMirrorOptions, to_prosemirror};
///
/// let text = NodeSpec::new("inline-text").with_text("Hi\n").with_marks([Mark::new("bold", 0..2)]);
/// let mut transaction = DataStore::new().begin("export")?;
/// let paragraph = transaction.create(NodeSpec::new("paragraph").with_children([text]))?;
///
/// let options = ProseMirrorOptions::new(ProseMirrorNames::tiptap());
/// let (json, dropped) = to_prosemirror(&transaction, &paragraph, &options)?;
/// assert_eq!(
///     serde_json::from_str::<serde_json::Value>(&json)?,
///     serde_json::json!({"type": "paragraph", "content": [
///         {"type": "text", "marks": [{"type": "bold"}], "text": "Hi"},
///         {"type": "hardBreak"},
///     ]}),
/// );
/// assert!(dropped.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn to_prosemirror(
    view: &impl View,
    id: &NodeId,
    options: &ProseMirrorOptions,
) -> Result<(String, Vec<Dropped<NodeId>>), EditError> {
    let node = view.node(id).ok_or_else(|| view.missing(id))?;
    Ok(write::ProseMirrorWriter::new(view, options).written(node))
}

/// Returns the steps that lead from one version of a document to another, in the JSON of
/// ProseMirror. They make the document that [`to_prosemirror`] writes of the version after out of
/// the one that it writes of the version before.
///
/// `changes` are all changes between the two versions: those of one commit, whether it is an edit,
/// an undo or a redo, or those of several commits, one after the other. The steps back are those of
/// the two versions in the other order, with the same changes.
///
/// Typing is one `replace` step of the typed text. Marks are `addMark` and `removeMark` steps,
/// attributes are `attr` steps, and a split or a join is one `replace` step. A removed attribute of
/// the root is a `docAttr` step with the value `null`, also where the schema of the client has
/// another default. The order of two marks of one kind over the same text makes no step.
///
/// A node that gets another type, or is put around others, is a `replaceAround` step. Other nodes
/// that come and go are replaced by one step for each range among the children of a node. If the
/// options have no schema, it is one step for each node with such children, so set the schema of
/// the store.
///
/// The steps are made in their order, and fit clients whose schema has the names of the options.
/// The first call counts all nodes of both versions. A later one with the same root and names takes
/// time in proportion to the changes, times the depth, and to the nodes that are inserted, moved,
/// wrapped or in a block that is split or joined. The rest of a long text in which letters or marks
/// change is not read. Calls with two roots or two sets of names in turn count all nodes each time.
///
/// # Errors
///
/// [`StepError`]: the root does not exist in both versions, a node has no counterpart in
/// ProseMirror, the root has another type, inserted nodes nest more than about 60 levels deep, or
/// changed ones more than 128.
///
/// ```
/// use doclock::{DataStore, Editor, dsl::*};
/// use doclock_formats::prosemirror::{
///     ProseMirrorNames, ProseMirrorOptions, from_prosemirror, to_steps,
/// };
///
/// let options = ProseMirrorOptions::new(ProseMirrorNames::basic());
/// let json = r#"{"type": "doc", "content": [
///     {"type": "paragraph", "content": [{"type": "text", "text": "Moons"}]}
/// ]}"#;
/// let store = DataStore::new();
/// let mut import = store.begin("import")?;
/// let page = import.create(from_prosemirror(json, &options)?.0)?;
/// let text = import.find_by_text(&page, "Moons").next().unwrap().id().clone();
/// import.commit()?;
///
/// let ann = Editor::new(store.clone(), "ann");
/// let before = store.snapshot();
/// let commit = transaction(&ann, [insert_text(5, "!").on(text)]).commit()?;
/// let after = store.snapshot();
/// let steps = to_steps(&before, &after, &commit.changes, &page, &options)?;
/// assert_eq!(serde_json::to_string(&steps)?, concat!(
///     r#"[{"from":6,"slice":{"content":[{"text":"!","type":"text"}]},"#,
///     r#""stepType":"replace","to":6}]"#,
/// ));
/// let back = to_steps(&after, &before, &commit.changes, &page, &options)?;
/// assert_eq!(serde_json::to_string(&back)?, r#"[{"from":6,"stepType":"replace","to":7}]"#);
/// # use doclock::View;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn to_steps(
    before: &Snapshot,
    after: &Snapshot,
    changes: &[Change],
    root: &NodeId,
    options: &ProseMirrorOptions,
) -> Result<Vec<Value>, StepError> {
    difference::steps(before, after, changes, root, options)
}
