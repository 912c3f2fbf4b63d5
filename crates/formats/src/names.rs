//! The names of types, marks and attributes in a document that is read from Markdown or written as
//! Markdown.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use doclock::codes::{Brief, codes};
use serde_json::Value;
use smol_str::SmolStr;

/// Declares the parts of a document of one kind, with their default names.
macro_rules! parts {
    (
        $(#[$doc:meta])*
        $type:ident { $($(#[$of:meta])* $variant:ident = $name:literal,)* }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum $type { $($(#[$of])* $variant,)* }

        impl $type {
            /// All of them, in the order of their numbers.
            pub(crate) const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Returns the name by default.
            pub const fn default_name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            fn default_names() -> Vec<SmolStr> {
                let all = Self::ALL.iter();
                all.map(|part| part.default_name().into()).collect()
            }
        }
    };
}

parts! {
    /// A node type of a document that is read from Markdown or written as Markdown.
    ///
    /// ```
    /// use doclock_formats::markdown::MarkdownNode;
    ///
    /// assert_eq!(MarkdownNode::Text.default_name(), "inline-text");
    /// ```
    MarkdownNode {
        /// The top of a document. Named `document` by default.
        Document = "document",
        /// A node with the text of a block. Named `inline-text` by default.
        Text = "inline-text",
        /// A paragraph. Named `paragraph` by default.
        Paragraph = "paragraph",
        /// A heading. Named `heading` by default.
        Heading = "heading",
        /// A block quote. Named `block-quote` by default.
        BlockQuote = "block-quote",
        /// A list, ordered or not. Named `list` by default.
        List = "list",
        /// An item of a list. Named `list-item` by default.
        ListItem = "list-item",
        /// A block of code. Named `code-block` by default.
        CodeBlock = "code-block",
        /// A block of HTML. Named `html-block` by default.
        HtmlBlock = "html-block",
        /// A horizontal rule. Named `thematic-break` by default.
        ThematicBreak = "thematic-break",
        /// A table. Named `table` by default.
        Table = "table",
        /// The first row of a table. Named `table-head` by default.
        TableHead = "table-head",
        /// Another row of a table. Named `table-row` by default.
        TableRow = "table-row",
        /// A cell of a row. Named `table-cell` by default.
        TableCell = "table-cell",
        /// The definition of a footnote. Named `footnote` by default.
        Footnote = "footnote",
    }
}

parts! {
    /// A mark of a document that is read from Markdown or written as Markdown.
    ///
    /// ```
    /// use doclock_formats::markdown::MarkdownMark;
    ///
    /// assert_eq!(MarkdownMark::Emphasis.default_name(), "em");
    /// ```
    MarkdownMark {
        /// Emphasis, usually italic. Named `em` by default.
        Emphasis = "em",
        /// Strong emphasis, usually bold. Named `bold` by default.
        Strong = "bold",
        /// Text that is struck through. Named `strikethrough` by default.
        Strikethrough = "strikethrough",
        /// Code in a line of text. Named `code` by default.
        Code = "code",
        /// HTML in a line of text. Named `html` by default.
        Html = "html",
        /// A link. Named `link` by default.
        Link = "link",
        /// An image, over its description. Named `image` by default.
        Image = "image",
        /// A reference to a footnote. Named `footnote` by default.
        Footnote = "footnote",
    }
}

parts! {
    /// An attribute of a [`MarkdownNode`] or a [`MarkdownMark`].
    ///
    /// ```
    /// use doclock_formats::markdown::MarkdownAttribute;
    ///
    /// assert_eq!(MarkdownAttribute::LinkTarget.default_name(), "href");
    /// ```
    MarkdownAttribute {
        /// The lines of YAML before a document, without the `---` around them. Named
        /// `front-matter` by default.
        FrontMatter = "front-matter",
        /// The level of a heading: 1 to 6. Named `level` by default.
        HeadingLevel = "level",
        /// Whether a list is ordered. Named `ordered` by default.
        ListOrdered = "ordered",
        /// The first number of an ordered list, at most 999,999,999. Named `start` by default.
        ListStart = "start",
        /// Whether a task is done. Named `checked` by default.
        ListItemChecked = "checked",
        /// The language of a code block: one word. Named `language` by default.
        CodeBlockLanguage = "language",
        /// The alignment of each column of a table: an array of `none`, `left`, `center` and
        /// `right`. Named `align` by default.
        TableAlign = "align",
        /// The label of a footnote. Named `label` by default.
        FootnoteLabel = "label",
        /// The target of a link. Named `href` by default.
        LinkTarget = "href",
        /// The title of a link. Named `title` by default.
        LinkTitle = "title",
        /// The source of an image. Named `src` by default.
        ImageSource = "src",
        /// The title of an image. Named `title` by default.
        ImageTitle = "title",
        /// The label of the footnote that a reference refers to. Named `label` by default.
        FootnoteReferenceLabel = "label",
    }
}

/// A node type or a mark, which has attributes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AttributeOwner {
    Node(MarkdownNode),
    Mark(MarkdownMark),
}

impl MarkdownAttribute {
    pub(crate) const fn bearer(self) -> AttributeOwner {
        match self {
            Self::FrontMatter => AttributeOwner::Node(MarkdownNode::Document),
            Self::HeadingLevel => AttributeOwner::Node(MarkdownNode::Heading),
            Self::ListOrdered | Self::ListStart => AttributeOwner::Node(MarkdownNode::List),
            Self::ListItemChecked => AttributeOwner::Node(MarkdownNode::ListItem),
            Self::CodeBlockLanguage => AttributeOwner::Node(MarkdownNode::CodeBlock),
            Self::TableAlign => AttributeOwner::Node(MarkdownNode::Table),
            Self::FootnoteLabel => AttributeOwner::Node(MarkdownNode::Footnote),
            Self::LinkTarget | Self::LinkTitle => AttributeOwner::Mark(MarkdownMark::Link),
            Self::ImageSource | Self::ImageTitle => AttributeOwner::Mark(MarkdownMark::Image),
            Self::FootnoteReferenceLabel => AttributeOwner::Mark(MarkdownMark::Footnote),
        }
    }
}

impl MarkdownAttribute {
    /// Whether Markdown can express a value.
    pub(crate) fn accepts(self, value: &Value) -> bool {
        let is_in = |range: RangeInclusive<u64>| {
            value.as_u64().is_some_and(|number| range.contains(&number))
        };
        match self {
            Self::FrontMatter => value.as_str().is_some_and(is_front_matter),
            Self::HeadingLevel => is_in(1..=6),
            Self::ListStart => is_in(0..=MAX_NUMBER),
            Self::ListOrdered | Self::ListItemChecked => value.is_boolean(),
            Self::CodeBlockLanguage => value
                .as_str()
                .is_some_and(|language| !language.contains(char::is_whitespace)),
            Self::TableAlign => value.as_array().is_some_and(|columns| {
                let mut columns = columns.iter().map(Value::as_str);
                columns.all(|align| matches!(align, Some("none" | "left" | "center" | "right")))
            }),
            Self::FootnoteLabel
            | Self::LinkTarget
            | Self::LinkTitle
            | Self::ImageSource
            | Self::ImageTitle
            | Self::FootnoteReferenceLabel => value.is_string(),
        }
    }
}

/// Whether a text is read again between two lines `---` at the beginning of a Markdown text.
fn is_front_matter(text: &str) -> bool {
    let is_plain = !text.contains(['\r', '\0']);
    let first = text.split('\n').next().unwrap_or_default();
    is_plain && !first.trim().is_empty() && !text.split('\n').any(ends_front_matter)
}

/// Whether a line ends the front matter.
pub(crate) fn ends_front_matter(line: &str) -> bool {
    matches!(line.trim_end(), "---" | "...")
}

/// The largest number of an item of an ordered list.
pub(crate) const MAX_NUMBER: u64 = 999_999_999;

/// The names of node types, marks and attributes, for reading and for writing Markdown.
///
/// A program with its own schema sets the names that differ from the defaults once. Both directions
/// use the same names, so a round trip keeps them. Names of node types, of marks and of the
/// attributes of one node type or mark are independent of each other.
///
/// ```
/// use doclock::DataStore;
/// use doclock_formats::markdown::{
///     MarkdownAttribute, MarkdownMark, MarkdownNames, MarkdownNode, MarkdownOptions,
///     from_markdown_with, to_markdown_with,
/// };
///
/// let names = MarkdownNames::new()
///     .node(MarkdownNode::Heading, "title")
///     .attribute(MarkdownAttribute::HeadingLevel, "depth")
///     .mark(MarkdownMark::Strong, "strong");
/// let options = MarkdownOptions::new().names(names)?;
///
/// let document = from_markdown_with("## **Moons**", &options);
/// let title = &document.clone().into_children()[0];
/// assert_eq!((title.kind(), title.attributes().get("depth")), ("title", Some(&2.into())));
///
/// let mut transaction = DataStore::new().begin("import")?;
/// let root = transaction.create(document)?;
/// assert_eq!(to_markdown_with(&transaction, &root, &options)?, "## **Moons**\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct MarkdownNames {
    /// By the number of the part.
    nodes: Vec<SmolStr>,
    marks: Vec<SmolStr>,
    attributes: Vec<SmolStr>,
}

impl MarkdownNames {
    /// Creates the default names.
    pub fn new() -> Self {
        Self {
            nodes: MarkdownNode::default_names(),
            marks: MarkdownMark::default_names(),
            attributes: MarkdownAttribute::default_names(),
        }
    }

    /// Sets the name of a node type.
    pub fn node(mut self, node: MarkdownNode, name: impl Into<SmolStr>) -> Self {
        self.nodes[node as usize] = name.into();
        self
    }

    /// Sets the name of a mark.
    pub fn mark(mut self, mark: MarkdownMark, name: impl Into<SmolStr>) -> Self {
        self.marks[mark as usize] = name.into();
        self
    }

    /// Sets the name of an attribute.
    pub fn attribute(mut self, attribute: MarkdownAttribute, name: impl Into<SmolStr>) -> Self {
        self.attributes[attribute as usize] = name.into();
        self
    }

    pub(crate) fn of_node(&self, node: MarkdownNode) -> &SmolStr {
        &self.nodes[node as usize]
    }

    pub(crate) fn of_mark(&self, mark: MarkdownMark) -> &SmolStr {
        &self.marks[mark as usize]
    }

    pub(crate) fn of_attribute(&self, attribute: MarkdownAttribute) -> &SmolStr {
        &self.attributes[attribute as usize]
    }

    pub(crate) fn node_named(&self, name: &str) -> Option<MarkdownNode> {
        let nth = self.nodes.iter().position(|node| node == name)?;
        MarkdownNode::ALL.get(nth).copied()
    }

    pub(crate) fn mark_named(&self, name: &str) -> Option<MarkdownMark> {
        let nth = self.marks.iter().position(|mark| mark == name)?;
        MarkdownMark::ALL.get(nth).copied()
    }

    pub(crate) fn attribute_named(
        &self,
        of: AttributeOwner,
        name: &str,
    ) -> Option<MarkdownAttribute> {
        let mut all = MarkdownAttribute::ALL.iter().copied();
        all.find(|attribute| attribute.bearer() == of && self.of_attribute(*attribute) == name)
    }

    /// Checks that each name has one meaning.
    pub(crate) fn checked(self) -> Result<Self, AmbiguousName> {
        let nodes = MarkdownNode::ALL.iter().map(|node| {
            let name = self.of_node(*node);
            ((NameSpace::NodeTypes, name), node.default_name())
        });
        let marks = MarkdownMark::ALL.iter().map(|mark| {
            let name = self.of_mark(*mark);
            ((NameSpace::Marks, name), mark.default_name())
        });
        let attributes = MarkdownAttribute::ALL.iter().map(|attribute| {
            let space = NameSpace::Attributes(attribute.bearer());
            let name = self.of_attribute(*attribute);
            ((space, name), attribute.default_name())
        });
        let mut meanings = BTreeMap::new();
        for (name, second) in nodes.chain(marks).chain(attributes) {
            if let Some(first) = meanings.insert(name, second) {
                return Err(AmbiguousName {
                    kind: name.0.kind(),
                    name: name.1.clone(),
                    first,
                    second,
                });
            }
        }
        Ok(self)
    }
}

impl Default for MarkdownNames {
    fn default() -> Self {
        Self::new()
    }
}

/// Names that have to differ from each other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum NameSpace {
    NodeTypes,
    Marks,
    Attributes(AttributeOwner),
}

impl NameSpace {
    const fn kind(self) -> &'static str {
        match self {
            Self::NodeTypes => "node type",
            Self::Marks => "mark",
            Self::Attributes(_) => "attribute",
        }
    }
}

/// Two parts of Markdown with the same name, so that the names would not determine the Markdown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{kind} name {} is ambiguous: it stands for {first} and {second}",
    Brief(name)
)]
#[non_exhaustive]
pub struct AmbiguousName {
    /// What the name is of: `node type`, `mark` or `attribute`.
    pub kind: &'static str,
    /// The name.
    pub name: SmolStr,
    /// The default name of the first part that has it.
    pub first: &'static str,
    /// The default name of the second part that has it.
    pub second: &'static str,
}

codes! { AmbiguousName {
    Self { kind, name, first, second } => "markdownNameAmbiguous", 500;
}}
