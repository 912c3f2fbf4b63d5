//! The names of node types, marks and attributes in ProseMirror's JSON and in the document.

use doclock::NodeId;
use doclock::document::{Attributes, Mark, Node, NodeSpec, View};
use serde_json::{Map, Value};
use smol_str::SmolStr;

use super::error::ProseMirrorNamesError;
use crate::OBJECT;
use crate::steps::step;

/// What a node type of ProseMirror contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProseMirrorContent {
    /// Other nodes.
    Blocks,
    /// Text with marks, hard breaks and inline nodes. A newline is U+2028 in the document.
    Text,
    /// Text without marks, in which a newline is a newline.
    Code,
    /// Nothing, between blocks, as a horizontal rule.
    Leaf,
    /// Nothing, within a text, as an image. In the document it is the character U+FFFC with a mark
    /// of the given name, which has the attributes.
    Inline,
    /// Nothing, within a text: a hard break. In the document it is a newline.
    Break,
}

/// The type of a parent in ProseMirror, if it has one that is known, and its content.
pub(super) type ParentType<'n> = (Option<&'n TypeMapping>, ProseMirrorContent);

/// A node type or a mark of ProseMirror, and its counterpart in the document.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TypeMapping {
    pub(super) prosemirror: SmolStr,
    pub(super) document: SmolStr,
    /// Attributes of the document that ProseMirror has in the type.
    pub(super) fixed: Vec<(SmolStr, Value)>,
    /// The node type of ProseMirror in which the type of the document is this one.
    pub(super) parent: Option<SmolStr>,
    /// The names that differ: in ProseMirror and in the document.
    pub(super) attributes: Vec<(SmolStr, SmolStr)>,
    /// Of a node type the marks that its text may have, of a mark those that it excludes.
    pub(super) marks: MarkNames,
}

/// Some marks by their names in ProseMirror.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum MarkNames {
    All,
    These(Vec<SmolStr>),
}

impl MarkNames {
    /// Names separated by spaces, or `_` for all.
    fn new(names: &str) -> Self {
        match names.trim() {
            "_" => Self::All,
            names => Self::These(names.split_whitespace().map(SmolStr::new).collect()),
        }
    }

    pub(super) fn contains(&self, mark: &TypeMapping) -> bool {
        match self {
            Self::All => true,
            Self::These(names) => names.contains(&mark.prosemirror),
        }
    }
}

impl TypeMapping {
    fn new(prosemirror: SmolStr, document: SmolStr) -> Self {
        Self {
            prosemirror,
            document,
            fixed: Vec::new(),
            parent: None,
            attributes: Vec::new(),
            marks: MarkNames::All,
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

    /// The name of one attribute in the document; `None` for one that ProseMirror has in the type.
    pub(super) fn read_name<'e>(&'e self, prosemirror: &'e str) -> Option<&'e str> {
        let mut names = self.attributes.iter();
        let known = names.find(|(name, _)| name == prosemirror);
        let document = known.map_or(prosemirror, |(_, document)| document);
        (!self.fixes(document)).then_some(document)
    }

    /// The attributes in ProseMirror.
    pub(super) fn written(&self, attributes: &Attributes) -> Map<String, Value> {
        let free = attributes.iter().filter(|(name, _)| !self.fixes(name));
        let named = free.map(|(name, value)| (self.written_name(name).to_owned(), value.clone()));
        named.collect()
    }

    fn written_name<'e>(&'e self, document: &'e str) -> &'e str {
        let mut names = self.attributes.iter();
        let known = names.find(|(_, other)| other == document);
        known.map_or(document, |(prosemirror, _)| prosemirror)
    }

    /// Whether ProseMirror has an attribute of the document in the type.
    pub(super) fn fixes(&self, document: &str) -> bool {
        self.fixed.iter().any(|(name, _)| name == document)
    }

    /// An absent boolean is false.
    fn is_for(&self, kind: &str, attributes: &Attributes) -> bool {
        let mut fixed = self.fixed.iter();
        self.document == kind
            && fixed
                .all(|(name, value)| attributes.get(name).unwrap_or(&Value::Bool(false)) == value)
    }

    /// Whether all attributes that determine the other type determine this one, too.
    fn refines(&self, other: &Self) -> bool {
        let mut fixed = other.fixed.iter();
        fixed.all(|pair| self.fixed.contains(pair))
    }

    /// Whether no node of the document is both.
    fn excludes(&self, other: &Self) -> bool {
        let mut fixed = self.fixed.iter();
        fixed.any(|(name, value)| {
            let mut others = other.fixed.iter();
            others.any(|(other, of_other)| name == other && value != of_other)
        })
    }

    /// Whether one node of the document may be both, and neither type is the more precise one.
    fn is_ambiguous_with(&self, other: &Self) -> bool {
        !self.excludes(other) && self.refines(other) == other.refines(self)
    }
}

/// A value with the integers of JavaScript, where `2.0` is `2`. Its depth is limited.
pub(super) fn of_javascript(value: &Value) -> Value {
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
/// The document has the names of [`from_markdown`](doclock::guide::queries#markdown) by default, so
/// that a document can be read in one format and written in another. A definition replaces the
/// earlier ones with the same name in ProseMirror or in the document. Attributes without a
/// definition have the same name on both sides.
///
/// ```
/// use doclock_formats::prosemirror::{
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
/// # Ok::<(), doclock_formats::prosemirror::ProseMirrorError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct ProseMirrorNames {
    text: SmolStr,
    pub(super) nodes: Vec<(TypeMapping, ProseMirrorContent)>,
    pub(super) marks: Vec<TypeMapping>,
    pub(super) package: Package,
}

/// The package whose rules the types have by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Package {
    /// None: a schema of one's own.
    #[default]
    None,
    /// prosemirror-schema-basic and prosemirror-schema-list.
    Basic,
    /// Tiptap's StarterKit, tables, task lists and images.
    Tiptap,
}

/// Whether a node type with this content is a node in the document.
fn is_node(content: ProseMirrorContent) -> bool {
    !matches!(
        content,
        ProseMirrorContent::Inline | ProseMirrorContent::Break
    )
}

impl ProseMirrorNames {
    /// Creates names without node types and marks, for a schema of one's own.
    pub fn new() -> Self {
        Self {
            text: "inline-text".into(),
            nodes: Vec::new(),
            marks: Vec::new(),
            package: Package::None,
        }
    }

    fn of_package(mut self, package: Package) -> Self {
        self.package = package;
        self
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
            .of_package(Package::Basic)
    }

    /// Creates the names of Tiptap's StarterKit, and of its tables, task lists and images:
    /// `bulletList`, `hardBreak`, `bold`. Its mark `code` excludes all others.
    ///
    /// A list of tasks is a list with the attribute `kind`, and so is a task an item of a list. An
    /// image is a node between blocks, named `image`. Where the editor has images within text, add
    /// `.node("image", "image", ProseMirrorContent::Inline)`.
    pub fn tiptap() -> Self {
        use ProseMirrorContent::{Blocks, Break, Code, Leaf, Text};
        Self::new()
            .node("doc", "document", Blocks)
            .node("paragraph", "paragraph", Text)
            .node("blockquote", "block-quote", Blocks)
            .node("horizontalRule", "thematic-break", Leaf)
            .node("heading", "heading", Text)
            .node("codeBlock", "code-block", Code)
            .node("hardBreak", "hard-break", Break)
            .list("bulletList", false)
            .list("orderedList", true)
            .node("listItem", "list-item", Blocks)
            .variant(TypeMapping {
                fixed: vec![
                    ("ordered".into(), false.into()),
                    ("kind".into(), "task".into()),
                ],
                ..TypeMapping::new("taskList".into(), "list".into())
            })
            .variant(TypeMapping {
                parent: Some("taskList".into()),
                ..TypeMapping::new("taskItem".into(), "list-item".into())
            })
            .node("table", "table", Blocks)
            .node("tableRow", "table-row", Blocks)
            .node("tableCell", "table-cell", Blocks)
            .node("tableHeader", "table-header", Blocks)
            .node("image", "image", Leaf)
            .mark("link", "link")
            .mark("bold", "bold")
            .mark("code", "code")
            .mark("italic", "em")
            .mark("strike", "strikethrough")
            .mark("underline", "underline")
            .excludes("code", "_")
            .of_package(Package::Tiptap)
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
        let mut entry = TypeMapping::new(prosemirror.into(), document.into());
        if content == ProseMirrorContent::Code {
            entry.marks = MarkNames::new("");
        }
        self.add(entry, content)
    }

    /// The two lists of ProseMirror are one type in the document.
    fn list(self, prosemirror: &'static str, ordered: bool) -> Self {
        let entry = TypeMapping {
            fixed: vec![("ordered".into(), ordered.into())],
            ..TypeMapping::new(prosemirror.into(), "list".into())
        };
        self.add(entry, ProseMirrorContent::Blocks)
    }

    fn add(mut self, entry: TypeMapping, content: ProseMirrorContent) -> Self {
        // The name of an inline node is that of a mark.
        let inline = content == ProseMirrorContent::Inline;
        self.nodes.retain(|(other, of)| {
            let same = other.document == entry.document
                && (entry.fixed.is_empty() || !entry.excludes(other))
                && inline == (*of == ProseMirrorContent::Inline);
            other.prosemirror != entry.prosemirror && !same
        });
        if inline {
            self.marks.retain(|mark| mark.document != entry.document);
        }
        self.nodes.push((entry, content));
        self
    }

    /// Adds a node type around nodes beside the others of its type in the document.
    fn variant(mut self, entry: TypeMapping) -> Self {
        self.insert(entry, ProseMirrorContent::Blocks);
        self
    }

    /// Inserts a node type before those that are less precise.
    fn insert(&mut self, entry: TypeMapping, content: ProseMirrorContent) {
        let mut nodes = self.nodes.iter();
        let at =
            nodes.position(|(other, _)| other.document == entry.document && entry.refines(other));
        self.nodes
            .insert(at.unwrap_or(self.nodes.len()), (entry, content));
    }

    /// Defines a node type that is a type of the document where the attributes have these values,
    /// beside the definitions of this type that exist.
    ///
    /// A node that is read has the attributes, and ProseMirror does not. A node of the document is
    /// the type whose attributes it has, the most of them if there are several such types. An
    /// absent attribute counts as `false`. A later [`node`](Self::node) with the same name in the
    /// document replaces all of these definitions.
    ///
    /// # Errors
    ///
    /// - [`ProseMirrorNamesError::Ambiguous`]: a node of the document could be this type and an
    ///   earlier one, and neither has all attributes of the other.
    /// - [`ProseMirrorNamesError::Incomplete`]: no definition is for nodes of the document without
    ///   these values. Define that one first. Or the definition takes the node type from another
    ///   type of the document that needs it.
    /// - [`ProseMirrorNamesError::Definition`]: the content is that of a node within a text, or a
    ///   definition for a parent has another content.
    ///
    /// ```
    /// use doclock_formats::prosemirror::{ProseMirrorContent::Blocks, ProseMirrorNames};
    ///
    /// let names = ProseMirrorNames::basic()
    ///     .node("cell", "cell", Blocks)
    ///     .node_where("head_cell", "cell", Blocks, [("header", true.into())])?;
    ///
    /// let twice = names.node_where("title_cell", "cell", Blocks, [("header", true.into())]);
    /// assert_eq!(
    ///     twice.unwrap_err().to_string(),
    ///     "title_cell and head_cell are both cell where header is true",
    /// );
    /// # Ok::<(), doclock_formats::prosemirror::ProseMirrorNamesError>(())
    /// ```
    pub fn node_where(
        self,
        prosemirror: impl Into<SmolStr>,
        document: impl Into<SmolStr>,
        content: ProseMirrorContent,
        attributes: impl Into<Attributes>,
    ) -> Result<Self, ProseMirrorNamesError> {
        let attributes = attributes.into();
        let fixed = attributes
            .iter()
            .map(|(name, value)| (name.clone(), of_javascript(value)));
        let entry = TypeMapping {
            fixed: fixed.collect(),
            ..TypeMapping::new(prosemirror.into(), document.into())
        };
        self.beside(entry, content)
    }

    /// Defines a node type that is a type of the document where its parent has the type `parent` of
    /// ProseMirror, beside the definitions of this type that exist. So a task in a list of tasks is
    /// an item in other lists.
    ///
    /// Where an editor has another of these types in the parent, reading reports its type as
    /// dropped. It is written as the type for the parent.
    ///
    /// # Errors
    ///
    /// - [`ProseMirrorNamesError::Ambiguous`]: another node type is the same type of the document
    ///   in this parent.
    /// - [`ProseMirrorNamesError::Incomplete`]: no definition is for nodes of the document with
    ///   other parents. Define that one first. Or the definition takes the node type from another
    ///   type of the document that needs it.
    /// - [`ProseMirrorNamesError::Definition`]: the content is that of a node within a text, or
    ///   differs from that of the type in other parents.
    ///
    /// ```
    /// use doclock_formats::prosemirror::{ProseMirrorContent::Blocks, ProseMirrorNames};
    ///
    /// let check = [("ordered", false.into()), ("kind", "check".into())];
    /// let names = ProseMirrorNames::basic()
    ///     .node_where("check_list", "list", Blocks, check)?
    ///     .node_within("check_item", "list-item", Blocks, "check_list")?;
    /// # Ok::<(), doclock_formats::prosemirror::ProseMirrorNamesError>(())
    /// ```
    pub fn node_within(
        self,
        prosemirror: impl Into<SmolStr>,
        document: impl Into<SmolStr>,
        content: ProseMirrorContent,
        parent: impl Into<SmolStr>,
    ) -> Result<Self, ProseMirrorNamesError> {
        let entry = TypeMapping {
            parent: Some(parent.into()),
            ..TypeMapping::new(prosemirror.into(), document.into())
        };
        self.beside(entry, content)
    }

    fn beside(
        mut self,
        mut entry: TypeMapping,
        content: ProseMirrorContent,
    ) -> Result<Self, ProseMirrorNamesError> {
        if !is_node(content) {
            let reason = "it is within a text";
            return Err(ProseMirrorNamesError::definition(&entry, reason));
        }
        if content == ProseMirrorContent::Code {
            entry.marks = MarkNames::new("");
        }
        let same = |other: &TypeMapping| other.prosemirror == entry.prosemirror;
        let taken = self.nodes.iter().filter(|(other, _)| same(other));
        let taken: Vec<SmolStr> = taken.map(|(other, _)| other.document.clone()).collect();
        self.nodes.retain(|(other, _)| !same(other));
        // Positions are counted without the parents of nodes.
        let differs = |(other, of): (&TypeMapping, _)| {
            other.parent != entry.parent && of != content && !other.excludes(&entry)
        };
        if self.variants(&entry.document).any(differs) {
            let reason = "its content differs from that in other parents";
            return Err(ProseMirrorNamesError::definition(&entry, reason));
        }
        let mut rivals = self.variants(&entry.document);
        let rival = rivals
            .find(|(other, _)| other.parent == entry.parent && other.is_ambiguous_with(&entry));
        if let Some((other, _)) = rival {
            return Err(ProseMirrorNamesError::ambiguous(&entry, other));
        }
        drop(rivals);
        self.insert(entry.clone(), content);
        self.check_complete(&entry.document)?;
        for document in taken {
            self.check_complete(&document)?;
        }
        Ok(self)
    }

    /// The node types of ProseMirror that are one type of the document.
    pub(super) fn variants(
        &self,
        document: &str,
    ) -> impl Iterator<Item = (&TypeMapping, ProseMirrorContent)> {
        let nodes = self.nodes.iter().map(|(entry, content)| (entry, *content));
        nodes.filter(move |(entry, content)| entry.document == document && is_node(*content))
    }

    /// Checks that each node of a type of the document is a type of ProseMirror. For that, a
    /// definition is for all attributes, or two are for both values of a boolean.
    pub(super) fn check_complete(&self, document: &str) -> Result<(), ProseMirrorNamesError> {
        let variants = || self.variants(document).map(|(entry, _)| entry);
        let free = || variants().filter(|entry| entry.parent.is_none());
        let is_for_rest = |entry: &TypeMapping| match &*entry.fixed {
            [] => true,
            [(name, value)] => value.as_bool().is_some_and(|value| {
                let rest = [(name.clone(), Value::Bool(!value))];
                free().any(|other| other.fixed == rest)
            }),
            _ => false,
        };
        match variants().next() {
            Some(entry) if !free().any(is_for_rest) => {
                Err(ProseMirrorNamesError::incomplete(entry))
            }
            _ => Ok(()),
        }
    }

    /// Defines a mark by its names in ProseMirror and in the document. The order of the definitions
    /// is that of the marks of one text, as in the schema of ProseMirror.
    pub fn mark(mut self, prosemirror: impl Into<SmolStr>, document: impl Into<SmolStr>) -> Self {
        let mut entry = TypeMapping::new(prosemirror.into(), document.into());
        entry.marks = MarkNames::These(vec![entry.prosemirror.clone()]);
        self.marks.retain(|other| {
            other.prosemirror != entry.prosemirror && other.document != entry.document
        });
        self.nodes.retain(|(other, content)| {
            *content != ProseMirrorContent::Inline || other.document != entry.document
        });
        self.marks.push(entry);
        self
    }

    /// Sets the marks that a mark excludes, as `excludes` in the schema of ProseMirror: names
    /// separated by spaces, `_` for all, the empty string for none.
    ///
    /// `of` is the name of a mark in ProseMirror that is defined already; another name has no
    /// effect. By default a mark excludes the marks of its own type. A type that does not exclude
    /// itself can be several times on one text, as comments are.
    pub fn excludes(mut self, of: &str, marks: &str) -> Self {
        let mut own = self.marks.iter_mut();
        if let Some(entry) = own.find(|entry| entry.prosemirror == of) {
            entry.marks = MarkNames::new(marks);
        }
        self
    }

    /// Sets the marks that the text of a node type may have, as `marks` in the schema of
    /// ProseMirror: names separated by spaces, `_` for all, the empty string for none.
    ///
    /// `of` is the name of a node type in ProseMirror that is defined already; another name has no
    /// effect. By default all marks are allowed, and none in [`ProseMirrorContent::Code`].
    ///
    /// ```
    /// use doclock_formats::prosemirror::{ProseMirrorContent, ProseMirrorNames};
    ///
    /// let names = ProseMirrorNames::tiptap()
    ///     .node("title", "title", ProseMirrorContent::Text)
    ///     .marks("title", "italic link")
    ///     .mark("comment", "comment")
    ///     .excludes("comment", "");
    /// ```
    pub fn marks(mut self, of: &str, marks: &str) -> Self {
        let mut nodes = self.nodes.iter_mut().map(|(entry, _)| entry);
        if let Some(entry) = nodes.find(|entry| entry.prosemirror == of) {
            entry.marks = MarkNames::new(marks);
        }
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
    pub(super) fn node_named(&self, name: &str) -> Option<(&TypeMapping, ProseMirrorContent)> {
        let mut nodes = self.nodes.iter();
        let (entry, content) = nodes.find(|(entry, _)| entry.prosemirror == name)?;
        Some((entry, *content))
    }

    /// The mark with this name in ProseMirror.
    pub(super) fn mark_named(&self, name: &str) -> Option<&TypeMapping> {
        self.marks.iter().find(|entry| entry.prosemirror == name)
    }

    /// The node type of a node of the document. An inline node is none there.
    pub(super) fn node_for(&self, node: &Node) -> Option<(&TypeMapping, ProseMirrorContent)> {
        self.type_of(node.kind(), node.attributes())
    }

    fn type_of(
        &self,
        kind: &str,
        attributes: &Attributes,
    ) -> Option<(&TypeMapping, ProseMirrorContent)> {
        let mut nodes = self.nodes.iter();
        // The most precise type is the first.
        let found = nodes.find(|(entry, content)| {
            entry.is_for(kind, attributes) && entry.parent.is_none() && is_node(*content)
        });
        found.map(|(entry, content)| (entry, *content))
    }

    /// The node type of a node in a parent of this type.
    pub(super) fn node_in(
        &self,
        node: &Node,
        within: Option<&TypeMapping>,
    ) -> Option<(&TypeMapping, ProseMirrorContent)> {
        let (kind, attributes) = (node.kind(), node.attributes());
        let own = within.and_then(|parent| self.own_type(kind, parent));
        let own = own.filter(|(entry, _)| entry.is_for(kind, attributes));
        own.or_else(|| self.type_of(kind, attributes))
    }

    /// Whether a node is the first row of a table of Markdown, for which Tiptap has no own type.
    pub(super) fn is_table_head(&self, node: &Node) -> bool {
        self.package == Package::Tiptap
            && node.kind() == "table-head"
            && self.node_for(node).is_none()
            && self.node_named("tableRow").is_some()
    }

    /// The node type of a node under this root, where it can depend on the parent.
    pub(super) fn node_under(
        &self,
        view: &impl View,
        node: &Node,
        root: &NodeId,
    ) -> Option<(&TypeMapping, ProseMirrorContent)> {
        // The parent's type can depend on its own parent in turn.
        let mut path = vec![node];
        let mut top = node;
        while top.id() != root && self.depends_on_parent(top.kind()) {
            let Some(parent) = top.parent().and_then(|parent| view.node(parent)) else {
                break;
            };
            step();
            path.push(parent);
            top = parent;
        }
        let path = path.into_iter().rev();
        path.fold(None, |within, node| {
            self.node_in(node, within.map(|(parent, _)| parent))
        })
    }

    fn depends_on_parent(&self, document: &str) -> bool {
        let mut nodes = self.nodes.iter();
        nodes.any(|(entry, _)| entry.parent.is_some() && entry.document == document)
    }

    /// Whether types of the document are other types in this parent.
    pub(super) fn has_own_types(&self, parent: &str) -> bool {
        let mut nodes = self.nodes.iter();
        nodes.any(|(entry, _)| entry.parent.as_deref() == Some(parent))
    }

    /// The node type of a type of the document that is one in this parent only.
    fn own_type(
        &self,
        kind: &str,
        parent: &TypeMapping,
    ) -> Option<(&TypeMapping, ProseMirrorContent)> {
        let mut nodes = self.nodes.iter();
        let found = nodes.find(|(entry, content)| {
            entry.parent.as_ref() == Some(&parent.prosemirror)
                && entry.document == kind
                && is_node(*content)
        });
        found.map(|(entry, content)| (entry, *content))
    }

    /// The attributes that the type does not have and that make a node another type.
    pub(super) fn retyping(&self, entry: &TypeMapping, attributes: &Attributes) -> Vec<SmolStr> {
        let found = self.type_of(&entry.document, attributes);
        let other = found.filter(|(other, _)| other.prosemirror != entry.prosemirror);
        let fixed = other.into_iter().flat_map(|(other, _)| &other.fixed);
        let names = fixed.map(|(name, _)| name).filter(|name| {
            attributes.get(name).is_some() && !entry.fixes(name) && !self.has_attribute(entry, name)
        });
        names.cloned().collect()
    }

    /// Whether a node of this type would be written as another type in a parent of this type.
    pub(super) fn is_misplaced(&self, entry: &TypeMapping, parent: &TypeMapping) -> bool {
        match self.own_type(&entry.document, parent) {
            Some((own, _)) => own.prosemirror != entry.prosemirror,
            None => entry.parent.is_some(),
        }
    }

    /// The inline node for a mark of the document.
    pub(super) fn inline_for(&self, mark: &Mark) -> Option<&TypeMapping> {
        let inline = |content: &ProseMirrorContent| *content == ProseMirrorContent::Inline;
        let mut nodes = self.nodes.iter();
        let found = nodes.find(|(entry, of)| inline(of) && entry.document == mark.kind);
        found.map(|(entry, _)| entry)
    }

    /// The mark for a mark of the document, with its position in the order of marks.
    pub(super) fn mark_for(&self, mark: &Mark) -> Option<(usize, &TypeMapping)> {
        let mut marks = self.marks.iter().enumerate();
        marks.find(|(_, entry)| entry.document == mark.kind)
    }

    /// Whether the text of a node of the document may have a mark of the document.
    pub(super) fn allows(&self, node: &Node, mark: &Mark) -> bool {
        self.allows_in(self.node_for(node), mark)
    }

    /// The same of a new node.
    pub(super) fn allows_on(&self, spec: &NodeSpec, mark: &Mark) -> bool {
        self.allows_in(self.type_of(spec.kind(), spec.attributes()), mark)
    }

    fn allows_in(&self, node: Option<(&TypeMapping, ProseMirrorContent)>, mark: &Mark) -> bool {
        let pair = node.zip(self.mark_for(mark));
        pair.is_none_or(|((node, _), (_, mark))| node.marks.contains(mark))
    }

    /// Whether a mark replaces another one that is there, or `None` if it is not added there; for a
    /// mark that has a name.
    pub(super) fn replaces(&self, mark: &Mark) -> Option<impl Fn(&Mark) -> Option<bool>> {
        let (_, own) = self.mark_for(mark)?;
        Some(move |other: &Mark| {
            let Some((_, entry)) = self.mark_for(other) else {
                return Some(false);
            };
            let is_same = other.kind == mark.kind && other.attributes == mark.attributes;
            let replaces = own.marks.contains(entry);
            (!is_same && (replaces || !entry.marks.contains(own))).then_some(replaces)
        })
    }

    /// Whether the text under an inline node of the document is its description: of an image.
    pub(super) fn describes(&self, entry: &TypeMapping) -> bool {
        entry.document == "image"
    }

    /// The attribute in ProseMirror for the description of an inline node.
    pub(super) fn description<'e>(&self, entry: &'e TypeMapping, text: &str) -> Option<&'e str> {
        let described = self.describes(entry) && !text.starts_with(OBJECT);
        described.then(|| entry.written_name("alt"))
    }

    pub(super) fn has_break(&self) -> bool {
        self.first(ProseMirrorContent::Break).is_some()
    }

    /// The first type with this content, if possible one for all attributes and parents.
    pub(super) fn first(&self, content: ProseMirrorContent) -> Option<&TypeMapping> {
        let nodes = || self.nodes.iter().filter(|(_, of)| *of == content);
        let is_general = |entry: &TypeMapping| entry.parent.is_none() && entry.fixed.is_empty();
        let general = nodes().find(|(entry, _)| is_general(entry));
        general.or_else(|| nodes().next()).map(|(entry, _)| entry)
    }
}

impl Default for ProseMirrorNames {
    fn default() -> Self {
        Self::new()
    }
}
