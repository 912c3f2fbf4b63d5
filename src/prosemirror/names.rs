//! The names of node types, marks and attributes in ProseMirror's JSON and in the document.

use serde_json::{Map, Value};
use smol_str::SmolStr;

use crate::document::{Attributes, Mark, Node};
use crate::formats::OBJECT;

/// What a node type of ProseMirror contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProseMirrorContent {
    /// Other nodes.
    Blocks,
    /// Text with marks, hard breaks and inline nodes.
    Text,
    /// Text without marks, in which a newline is a character.
    Code,
    /// Nothing, between blocks, as a horizontal rule.
    Leaf,
    /// Nothing, within a text, as an image. In the document it is the character U+FFFC with a mark
    /// of the given name, which has the attributes.
    Inline,
    /// Nothing, within a text: a hard break. In the document it is a newline.
    Break,
}

/// A node type or a mark of ProseMirror, and its counterpart in the document.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) prosemirror: SmolStr,
    pub(super) document: SmolStr,
    /// An attribute of the document that ProseMirror has in the type.
    fixed: Option<(SmolStr, Value)>,
    /// The names that differ: in ProseMirror and in the document.
    attributes: Vec<(SmolStr, SmolStr)>,
}

impl Entry {
    fn new(prosemirror: SmolStr, document: SmolStr) -> Self {
        Self {
            prosemirror,
            document,
            fixed: None,
            attributes: Vec::new(),
        }
    }

    /// The attributes in the document.
    pub(super) fn read(&self, attributes: &Attributes) -> Attributes {
        let read = attributes.iter().map(|(name, value)| {
            let mut names = self.attributes.iter();
            let known = names.find(|(prosemirror, _)| prosemirror == name);
            (
                known.map_or(name, |(_, document)| document).clone(),
                of_javascript(value),
            )
        });
        read.chain(self.fixed.clone()).collect()
    }

    /// The attributes in ProseMirror.
    pub(super) fn written(&self, attributes: &Attributes) -> Map<String, Value> {
        let fixed = self.fixed.as_ref().map(|(name, _)| name);
        let free = attributes.iter().filter(|(name, _)| Some(*name) != fixed);
        let named = free.map(|(name, value)| (self.written_name(name).to_owned(), value.clone()));
        named.collect()
    }

    fn written_name<'e>(&'e self, document: &'e str) -> &'e str {
        let mut names = self.attributes.iter();
        let known = names.find(|(_, other)| other == document);
        known.map_or(document, |(prosemirror, _)| prosemirror)
    }

    /// An absent boolean is false.
    fn is_for(&self, node: &Node) -> bool {
        let fixed = self.fixed.as_ref().is_none_or(|(name, value)| {
            node.attributes().get(name).unwrap_or(&Value::Bool(false)) == value
        });
        fixed && self.document == node.kind()
    }
}

/// A value with the integers of JavaScript, where `2.0` is `2`. Its depth is limited.
fn of_javascript(value: &Value) -> Value {
    /// Beyond it, not every integer is a number of JavaScript.
    const LARGEST: f64 = 9_007_199_254_740_991.0;
    match value {
        Value::Number(number) if number.is_f64() => {
            let float = number.as_f64().unwrap_or_default();
            match float.fract() == 0.0 && float.abs() <= LARGEST {
                true => (float as i64).into(),
                false => value.clone(),
            }
        }
        Value::Array(values) => values.iter().map(of_javascript).collect(),
        Value::Object(fields) => {
            let fields = fields.iter();
            let read = fields.map(|(name, value)| (name.clone(), of_javascript(value)));
            Value::Object(read.collect())
        }
        _ => value.clone(),
    }
}

/// The names of node types, marks and attributes, for both directions.
///
/// The document has the names of [`from_markdown`](crate::guide::queries#markdown) by default, so
/// that a document can be read in one format and written in another. A definition replaces the
/// earlier ones with the same name in ProseMirror or in the document. Attributes without a
/// definition have the same name on both sides.
///
/// ```
/// use doclock::prosemirror::{
///     ProseMirrorContent, ProseMirrorNames, ProseMirrorOptions, from_prosemirror,
/// };
///
/// let names = ProseMirrorNames::tiptap()
///     .node("callout", "note", ProseMirrorContent::Blocks)
///     .node("mention", "mention", ProseMirrorContent::Inline)
///     .mark("highlight", "highlight")
///     .attribute("callout", "emoji", "icon");
/// let json = r#"{"type": "doc", "content": [
///     {"type": "callout", "attrs": {"emoji": "!"}, "content": [{"type": "paragraph"}]}
/// ]}"#;
/// let (document, dropped) = from_prosemirror(json, &ProseMirrorOptions::new(names))?;
/// let note = &document.into_children()[0];
/// assert_eq!((note.kind(), note.attributes().get("icon")), ("note", Some(&"!".into())));
/// assert!(dropped.is_empty());
/// # Ok::<(), doclock::prosemirror::ProseMirrorError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct ProseMirrorNames {
    text: SmolStr,
    nodes: Vec<(Entry, ProseMirrorContent)>,
    marks: Vec<Entry>,
    /// The mark in ProseMirror that no other mark can accompany.
    alone: Option<SmolStr>,
}

impl ProseMirrorNames {
    /// Creates names without node types and marks, for a schema of one's own.
    pub fn new() -> Self {
        Self {
            text: "inline-text".into(),
            nodes: Vec::new(),
            marks: Vec::new(),
            alone: None,
        }
    }

    /// Creates the names of the packages prosemirror-schema-basic and prosemirror-schema-list:
    /// `bullet_list`, `hard_break`, `strong`.
    pub fn basic() -> Self {
        use ProseMirrorContent::{Blocks, Break, Code, Inline, Leaf, Text};
        Self::new()
            .node("doc", "document", Blocks)
            .node("paragraph", "paragraph", Text)
            .node("blockquote", "block-quote", Blocks)
            .node("horizontal_rule", "thematic-break", Leaf)
            .node("heading", "heading", Text)
            .node("code_block", "code-block", Code)
            .node("image", "image", Inline)
            .node("hard_break", "hard-break", Break)
            .list("ordered_list", true)
            .list("bullet_list", false)
            .attribute("ordered_list", "order", "start")
            .node("list_item", "list-item", Blocks)
            .mark("link", "link")
            .mark("em", "em")
            .mark("strong", "bold")
            .mark("code", "code")
    }

    /// Creates the names of Tiptap's StarterKit: `bulletList`, `hardBreak`, `bold`. Its mark `code`
    /// accompanies no other mark.
    pub fn tiptap() -> Self {
        use ProseMirrorContent::{Blocks, Break, Code, Leaf, Text};
        let names = Self::new()
            .node("doc", "document", Blocks)
            .node("paragraph", "paragraph", Text)
            .node("blockquote", "block-quote", Blocks)
            .node("horizontalRule", "thematic-break", Leaf)
            .node("heading", "heading", Text)
            .node("codeBlock", "code-block", Code)
            .node("hardBreak", "hard-break", Break)
            .list("orderedList", true)
            .list("bulletList", false)
            .node("listItem", "list-item", Blocks)
            .mark("link", "link")
            .mark("bold", "bold")
            .mark("code", "code")
            .mark("italic", "em")
            .mark("strike", "strikethrough")
            .mark("underline", "underline");
        Self {
            alone: Some("code".into()),
            ..names
        }
    }

    /// Sets the name of the nodes with text in the document. The default is `inline-text`.
    pub fn text(mut self, document: impl Into<SmolStr>) -> Self {
        self.text = document.into();
        self
    }

    /// Defines a node type by its names in ProseMirror and in the document.
    pub fn node(
        self,
        prosemirror: impl Into<SmolStr>,
        document: impl Into<SmolStr>,
        content: ProseMirrorContent,
    ) -> Self {
        self.add(Entry::new(prosemirror.into(), document.into()), content)
    }

    /// The two lists of ProseMirror are one type in the document.
    fn list(self, prosemirror: &'static str, ordered: bool) -> Self {
        let entry = Entry {
            fixed: Some(("ordered".into(), ordered.into())),
            ..Entry::new(prosemirror.into(), "list".into())
        };
        self.add(entry, ProseMirrorContent::Blocks)
    }

    fn add(mut self, entry: Entry, content: ProseMirrorContent) -> Self {
        // The name of an inline node is that of a mark.
        let inline = content == ProseMirrorContent::Inline;
        self.nodes.retain(|(other, of)| {
            let same = other.document == entry.document
                && (other.fixed.is_none() || entry.fixed.is_none() || other.fixed == entry.fixed)
                && inline == (*of == ProseMirrorContent::Inline);
            other.prosemirror != entry.prosemirror && !same
        });
        if inline {
            self.marks.retain(|mark| mark.document != entry.document);
        }
        self.nodes.push((entry, content));
        self
    }

    /// Defines a mark by its names in ProseMirror and in the document. The order of the definitions
    /// is that of the marks of one text, as in the schema of ProseMirror.
    pub fn mark(mut self, prosemirror: impl Into<SmolStr>, document: impl Into<SmolStr>) -> Self {
        let entry = Entry::new(prosemirror.into(), document.into());
        self.marks.retain(|other| {
            other.prosemirror != entry.prosemirror && other.document != entry.document
        });
        self.nodes.retain(|(other, content)| {
            *content != ProseMirrorContent::Inline || other.document != entry.document
        });
        self.marks.push(entry);
        self
    }

    /// Defines the name of an attribute. `of` is the name of a node type or a mark in ProseMirror
    /// that is defined already; an attribute of neither has no effect.
    pub fn attribute(
        mut self,
        of: &str,
        prosemirror: impl Into<SmolStr>,
        document: impl Into<SmolStr>,
    ) -> Self {
        let names = (prosemirror.into(), document.into());
        let nodes = self.nodes.iter_mut().map(|(entry, _)| entry);
        for entry in nodes.chain(&mut self.marks) {
            if entry.prosemirror == of {
                let others = &mut entry.attributes;
                others.retain(|other| other.0 != names.0 && other.1 != names.1);
                others.push(names.clone());
            }
        }
        self
    }

    pub(super) fn of_text(&self) -> &SmolStr {
        &self.text
    }

    pub(super) fn is_text(&self, node: &Node) -> bool {
        node.kind() == self.text
    }

    /// The node type with this name in ProseMirror.
    pub(super) fn node_named(&self, name: &str) -> Option<(&Entry, ProseMirrorContent)> {
        let mut nodes = self.nodes.iter();
        let (entry, content) = nodes.find(|(entry, _)| entry.prosemirror == name)?;
        Some((entry, *content))
    }

    /// The mark with this name in ProseMirror.
    pub(super) fn mark_named(&self, name: &str) -> Option<&Entry> {
        self.marks.iter().find(|entry| entry.prosemirror == name)
    }

    /// The node type of a node of the document. An inline node is none there.
    pub(super) fn node_for(&self, node: &Node) -> Option<(&Entry, ProseMirrorContent)> {
        use ProseMirrorContent::{Break, Inline};
        let mut nodes = self.nodes.iter();
        let found =
            nodes.find(|(entry, content)| !matches!(content, Inline | Break) && entry.is_for(node));
        found.map(|(entry, content)| (entry, *content))
    }

    /// The inline node for a mark of the document.
    pub(super) fn inline_for(&self, mark: &Mark) -> Option<&Entry> {
        let inline = |content: &ProseMirrorContent| *content == ProseMirrorContent::Inline;
        let mut nodes = self.nodes.iter();
        let found = nodes.find(|(entry, of)| inline(of) && entry.document == mark.kind);
        found.map(|(entry, _)| entry)
    }

    /// The mark for a mark of the document, with its position in the order of marks.
    pub(super) fn mark_for(&self, mark: &Mark) -> Option<(usize, &Entry)> {
        let mut marks = self.marks.iter().enumerate();
        marks.find(|(_, entry)| entry.document == mark.kind)
    }

    /// Whether a mark of the document accompanies no other.
    pub(super) fn is_alone(&self, mark: &Mark) -> bool {
        let alone = self.alone.as_ref().and_then(|name| self.mark_named(name));
        alone.is_some_and(|entry| entry.document == mark.kind)
    }

    /// Whether the text under an inline node of the document is its description: of an image.
    pub(super) fn describes(&self, entry: &Entry) -> bool {
        entry.document == "image"
    }

    /// The attribute in ProseMirror for the description of an inline node.
    pub(super) fn description<'e>(&self, entry: &'e Entry, text: &str) -> Option<&'e str> {
        let described = self.describes(entry) && !text.starts_with(OBJECT);
        described.then(|| entry.written_name("alt"))
    }

    pub(super) fn has_break(&self) -> bool {
        self.first(ProseMirrorContent::Break).is_some()
    }

    /// The name in ProseMirror of the first type with this content.
    pub(super) fn first(&self, content: ProseMirrorContent) -> Option<&SmolStr> {
        let mut nodes = self.nodes.iter();
        let found = nodes.find(|(_, of)| *of == content);
        found.map(|(entry, _)| &entry.prosemirror)
    }
}

impl Default for ProseMirrorNames {
    fn default() -> Self {
        Self::new()
    }
}
