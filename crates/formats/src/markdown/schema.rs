//! The schema of documents that Markdown can express.

use doclock::schema::{AttributeSpec, MarkType, NodeType, Schema, SchemaError, ValueType};
use doclock::transaction::{InputRule, InputTarget};
use serde_json::Value;

use super::{MarkdownAttribute, MarkdownMark, MarkdownNames, MarkdownNode};
use crate::names::AttributeOwner;
use crate::rules::{LANGUAGE, LEVEL, NUMBER, RuleTargets};

/// Adds [`Schema::markdown`](MarkdownSchema::markdown).
pub trait MarkdownSchema {
    /// Returns the schema of the documents of [`from_markdown`](super::from_markdown), for an
    /// editor that saves its document as Markdown.
    ///
    /// Every document that is read from Markdown is valid under it. What it allows is written and
    /// read again as it was, except for:
    ///
    /// - paragraphs and HTML blocks without text, which are dropped;
    /// - texts side by side in one node, which become one text;
    /// - text where the syntax has none: white space at the ends of lines, a line break in a
    ///   heading, HTML at the beginning of a paragraph, or HTML that is no tag;
    /// - text and paragraphs in the items of one list, which become paragraphs, and the paragraph
    ///   of a list that contains nothing else, which becomes text;
    /// - a block right after text in an item, if Markdown needs an empty line between them, such as
    ///   a list that begins with another number than one;
    /// - an ordered list without `start`, which gets 1, and the `start` of another list;
    /// - numbers, languages, alignments and labels that Markdown does not have;
    /// - a row with fewer cells than the head, which gets the missing ones, and a row with more,
    ///   for which the head and the other rows get more cells;
    /// - code whose last line has no newline at its end, which gets one;
    /// - the mark of a footnote that has no definition, which becomes text without a report;
    /// - quotes, lists and footnotes that nest deeper than 512 levels, which become code;
    /// - marks that overlap in a way that Markdown cannot express.
    ///
    /// [`to_markdown_reported`](super::to_markdown_reported) reports the types, marks and
    /// attributes that are lost.
    ///
    /// For names of your own, use [`MarkdownNames::schema`].
    ///
    /// ```
    /// use doclock::schema::Schema;
    /// use doclock::{CommitError, DataStore, StoreOptions, View};
    /// use doclock_formats::markdown::{MarkdownSchema, from_markdown};
    ///
    /// let store = DataStore::with_options(StoreOptions::new().schema(Schema::markdown()));
    /// let mut transaction = store.begin("import")?;
    /// let page = transaction.create(from_markdown("# Moons\n\nIo and Europa"))?;
    /// transaction.set_root(&page)?;
    /// transaction.commit()?;
    ///
    /// // Markdown has headings of six levels.
    /// let mut transaction = store.begin("ann")?;
    /// let heading = transaction.children(&page).next().unwrap().id().clone();
    /// transaction.set_attrs(&heading, [("level", 7.into())])?;
    /// assert!(matches!(transaction.commit(), Err(CommitError::Schema(_))));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn markdown() -> Schema;
}

impl MarkdownSchema for Schema {
    fn markdown() -> Schema {
        let schema = MarkdownNames::new().schema();
        // A test builds it.
        schema.unwrap_or_else(|error| unreachable!("{error}"))
    }
}

impl MarkdownNames {
    /// Returns the schema of [`Schema::markdown`](MarkdownSchema::markdown) with these names.
    ///
    /// # Errors
    ///
    /// [`SchemaError`]: two names are the same, or one is empty, is `block`, or has a character of
    /// a content expression.
    ///
    /// ```
    /// use doclock_formats::markdown::{MarkdownNames, MarkdownNode};
    ///
    /// let schema = MarkdownNames::new().node(MarkdownNode::Paragraph, "p").schema()?;
    /// assert!(schema.allows_attribute("heading", "level"));
    /// let twice = MarkdownNames::new().node(MarkdownNode::Paragraph, "heading").schema();
    /// assert!(twice.is_err());
    /// # Ok::<(), doclock::schema::SchemaError>(())
    /// ```
    pub fn schema(&self) -> Result<Schema, SchemaError> {
        // A type whose content can begin with a block is no text block, also if it can begin with
        // text: the first type that fits decides.
        let blocks = MarkdownNode::ALL.iter().copied();
        let nodes = blocks.filter(|node| *node != MarkdownNode::Text);
        let nodes = nodes.chain([MarkdownNode::Text]);
        let schema = nodes.fold(Schema::builder(), |schema, node| {
            schema.node(self.of_node(node).clone(), self.node_type(node))
        });
        let schema = MarkdownMark::ALL.iter().fold(schema, |schema, mark| {
            schema.mark(self.of_mark(*mark).clone(), self.mark_type(*mark))
        });
        let schema = schema.root(self.of_node(MarkdownNode::Document).clone());
        schema.build()
    }

    /// Returns rules for [`apply_input_rules`](doclock::dsl::apply_input_rules) that make nodes and
    /// marks with these names of typed Markdown.
    ///
    /// | typed | becomes |
    /// |---|---|
    /// | `# ` to `###### ` | a heading |
    /// | `> ` | a quote |
    /// | `- `, `+ `, `* ` | a list |
    /// | `1. ` | an ordered list, which begins with the number |
    /// | ```` ``` ````, ```` ```rust ````, `~~~`, with a space behind | a block of code |
    /// | `---`, `___ `, `*** ` | a horizontal rule |
    /// | `**a**`, `__a__` | strong text |
    /// | `*a*`, `_a_` | emphasis |
    /// | `~~a~~` | text that is struck through |
    /// | `` `a` `` | code in a line of text |
    ///
    /// All but those for delimiters are for the beginning of a block of text. No rule applies in
    /// code.
    ///
    /// ```
    /// use doclock::schema::Schema;
    /// use doclock::{DataStore, Editor, StoreOptions, View, document::Selection, dsl::*};
    /// use doclock_formats::markdown::{MarkdownNames, MarkdownSchema};
    ///
    /// let store = DataStore::with_options(StoreOptions::new().schema(Schema::markdown()));
    /// let editor = Editor::new(store, "ann");
    /// let line = element("paragraph", [text_node("inline-text", "##Io").with_id("t")]).with_id("p");
    /// transaction(&editor, [create(element("document", [line]))]).commit()?;
    /// editor.select(Selection::caret("t", 2))?;
    ///
    /// transaction(&editor, [insert_text(2, " ").on("t")]).commit()?;
    /// transaction(&editor, [apply_input_rules(MarkdownNames::new().input_rules())]).commit()?;
    /// let page = editor.store().snapshot();
    /// assert_eq!(page.node("p").unwrap().attributes().get("level"), Some(&2.into()));
    /// assert_eq!(page.node("t").unwrap().text(), &"Io");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn input_rules(&self) -> Vec<InputRule> {
        let node = |node| Some(InputTarget::new(self.of_node(node).clone()));
        let mark = |mark| Some(InputTarget::new(self.of_mark(mark).clone()));
        let name = |attribute| self.of_attribute(attribute).clone();
        let list = |is_ordered: bool| {
            let ordered = name(MarkdownAttribute::ListOrdered);
            node(MarkdownNode::List).map(|it| it.with_attributes([(ordered, is_ordered.into())]))
        };
        let with = |target: Option<InputTarget>, attribute, capture| {
            target.map(|target| target.captured(name(attribute), capture))
        };
        use MarkdownAttribute::{CodeBlockLanguage, HeadingLevel, ListStart};
        RuleTargets {
            quote: node(MarkdownNode::BlockQuote),
            bullet_list: list(false),
            ordered_list: with(list(true), ListStart, NUMBER),
            heading: with(node(MarkdownNode::Heading), HeadingLevel, LEVEL),
            code_block: with(node(MarkdownNode::CodeBlock), CodeBlockLanguage, LANGUAGE),
            break_line: node(MarkdownNode::ThematicBreak),
            strong: mark(MarkdownMark::Strong),
            emphasis: mark(MarkdownMark::Emphasis),
            strike: mark(MarkdownMark::Strikethrough),
            code: mark(MarkdownMark::Code),
        }
        .rules()
    }

    fn node_type(&self, node: MarkdownNode) -> NodeType {
        use MarkdownNode as Node;
        let name = |node: Node| self.of_node(node);
        let text = || NodeType::new().content(format!("{}*", name(Node::Text)));
        let block = |of_type: NodeType| of_type.group("block");
        let of_type = match node {
            Node::Document => NodeType::new().content("block*"),
            Node::Text => NodeType::new(),
            Node::Paragraph => block(text()),
            Node::Heading => block(text()).defining(true),
            Node::BlockQuote => block(NodeType::new().content("block*")).defining(true),
            Node::List => block(NodeType::new().content(format!("{}+", name(Node::ListItem)))),
            // In a tight list text is in the item itself.
            Node::ListItem => {
                let content = format!("({} | block)*", name(Node::Text));
                NodeType::new().content(content).defining(true)
            }
            Node::CodeBlock => block(text()).code(true).marks("").defining(true),
            Node::HtmlBlock => block(text()).code(true).marks("").defining(true),
            Node::ThematicBreak => block(NodeType::new().content("")),
            Node::Table => {
                let content = format!("{} {}*", name(Node::TableHead), name(Node::TableRow));
                block(NodeType::new().content(content)).isolating(true)
            }
            Node::TableHead | Node::TableRow => {
                NodeType::new().content(format!("{}+", name(Node::TableCell)))
            }
            Node::TableCell => text().isolating(true),
            Node::Footnote => block(NodeType::new().content("block*")).defining(true),
        };
        let attributes = self.attributes_of(AttributeOwner::Node(node));
        attributes.fold(of_type, |of_type, (name, spec)| {
            of_type.attribute(name, spec)
        })
    }

    fn mark_type(&self, mark: MarkdownMark) -> MarkType {
        use MarkdownMark as Mark;
        let verbatim = || {
            let marks =
                [Mark::Code, Mark::Html, Mark::Footnote].map(|mark| self.of_mark(mark).as_str());
            MarkType::new().excludes(marks.join(" "))
        };
        let of_mark = match mark {
            Mark::Emphasis | Mark::Strong | Mark::Strikethrough => MarkType::new().inclusive(true),
            Mark::Code => verbatim().inclusive(true),
            Mark::Html | Mark::Footnote => verbatim(),
            Mark::Link => MarkType::new(),
            Mark::Image => MarkType::new().leaf(true),
        };
        let attributes = self.attributes_of(AttributeOwner::Mark(mark));
        attributes.fold(of_mark, |of_mark, (name, spec)| {
            of_mark.attribute(name, spec)
        })
    }

    fn attributes_of(
        &self,
        owner: AttributeOwner,
    ) -> impl Iterator<Item = (String, AttributeSpec)> {
        let all = MarkdownAttribute::ALL.iter();
        let own = all.filter(move |attribute| attribute.bearer() == owner);
        own.map(|attribute| (self.of_attribute(*attribute).to_string(), attribute.rule()))
    }
}

impl MarkdownAttribute {
    fn rule(self) -> AttributeSpec {
        let of = AttributeSpec::new;
        match self {
            Self::HeadingLevel => {
                let levels = (1..=6).map(Value::from);
                of(ValueType::Integer)
                    .required()
                    .with_default(1)
                    .with_values(levels)
            }
            Self::ListOrdered => of(ValueType::Boolean).required().with_default(false),
            Self::ListStart => of(ValueType::Integer),
            Self::ListItemChecked => of(ValueType::Boolean),
            Self::TableAlign => of(ValueType::Array),
            Self::FootnoteLabel | Self::FootnoteReferenceLabel => of(ValueType::String).required(),
            Self::FrontMatter
            | Self::CodeBlockLanguage
            | Self::LinkTarget
            | Self::LinkTitle
            | Self::ImageSource
            | Self::ImageTitle => of(ValueType::String),
        }
    }
}
