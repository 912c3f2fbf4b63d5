//! Conversion from Markdown to nodes and back.
//!
//! **Use it** to import and export documents: [`from_markdown`] and [`to_markdown`]. A document
//! from Markdown is written so that it reads the same. A program with its own schema maps its names
//! with [`MarkdownNames`]. **Do not use it** to store documents with types or marks that Markdown
//! does not have: it cannot express them. [`to_markdown_reported`] reports what it drops.

mod inline;
mod read;
mod schema;
mod tables;
mod write;

use doclock::{
    NodeId,
    document::{EditError, NodeSpec, View},
};
use pulldown_cmark::Options;

pub use self::schema::MarkdownSchema;
pub use crate::dropped::{Dropped, DroppedPart};
pub use crate::names::{
    AmbiguousName, MarkdownAttribute, MarkdownMark, MarkdownNames, MarkdownNode,
};
pub use crate::target::{MarkdownOptions, TargetFilter};
use crate::{DEEPEST, OBJECT};

/// The extensions of CommonMark that are read.
const EXTENSIONS: Options = Options::ENABLE_TABLES
    .union(Options::ENABLE_FOOTNOTES)
    .union(Options::ENABLE_STRIKETHROUGH)
    .union(Options::ENABLE_TASKLISTS);

/// Reads a Markdown text into a document. Every text is valid.
///
/// The syntax is CommonMark with GitHub's tables, task lists, strikethrough and footnotes. The top
/// has the type `document`, and the attribute `front-matter` if the text begins with YAML between
/// two lines `---`; its descendants are:
///
/// | node | attributes | contents |
/// |---|---|---|
/// | `paragraph` | | text |
/// | `heading` | `level` | text |
/// | `block-quote` | | blocks |
/// | `list` | `ordered`, and `start` if it is ordered | `list-item`s |
/// | `list-item` | `checked` for a task | blocks; in a tight list text directly, without a paragraph |
/// | `code-block` | `language` | text |
/// | `html-block` | | text: the HTML |
/// | `thematic-break` | | |
/// | `table` | `align`: `none`, `left`, `center` or `right` for each column | one `table-head`, then `table-row`s |
/// | `table-head`, `table-row` | | `table-cell`s |
/// | `table-cell` | | text |
/// | `footnote` | `label` | blocks |
///
/// Text is in children of the type `inline-text`. Its marks are `em`, `bold`, `strikethrough`,
/// `code`, `html`, `link` with `href` and `title`, `image` with `src` and `title` over its
/// description, and `footnote` with `label`. A link or an image without words covers U+FFFC. A hard
/// break is a newline, and so is `<br>` in a cell. A soft break is a space. U+0000 becomes U+FFFD.
///
/// # Untrusted text
///
/// Targets of links and images are kept unchanged, including those that run code in a browser
/// (`javascript:`, `data:`). For text from an untrusted source, use [`from_markdown_with`] with
/// [`MarkdownOptions::untrusted`], which keeps `http`, `https`, `mailto` and relative targets. No
/// option filters HTML: it is text with the mark `html` or in an `html-block`. A program that
/// displays a document must display it as text, or sanitize it.
///
/// ```
/// use doclock::{DataStore, View, document::{Mark, NodeSpec}};
/// use doclock_formats::markdown::{from_markdown, to_markdown};
///
/// let document = from_markdown("A *small* page.");
/// let text = NodeSpec::new("inline-text").with_text("A small page.").with_marks([Mark::new("em", 2..7)]);
/// let paragraph = NodeSpec::new("paragraph").with_children([text]);
/// assert_eq!(document, NodeSpec::new("document").with_children([paragraph]));
///
/// let mut transaction = DataStore::new().begin("import")?;
/// let root = transaction.create(document)?;
/// assert_eq!(to_markdown(&transaction, &root)?, "A *small* page.\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A byte order mark at the beginning of the text is ignored.
///
/// # Limits
///
/// The document is never much larger than the text: it has at most four nodes for each byte, and
/// 512 levels. Each row of a table has a cell for each column, so a table in which nearly all cells
/// are missing would be much larger, and is read as a paragraph. A quote, a list or a footnote that
/// would nest deeper becomes a code block with its source.
pub fn from_markdown(text: &str) -> NodeSpec {
    from_markdown_with(text, &MarkdownOptions::new())
}

/// Reads a Markdown text as [`from_markdown`] does, with options. Use
/// [`MarkdownOptions::untrusted`] for text from an untrusted source.
///
/// ```
/// use doclock_formats::markdown::{MarkdownOptions, from_markdown, from_markdown_with};
///
/// let text = "[a](https://example.org) [b](javascript:alert) ![c](data:text/html,x)";
/// let document = from_markdown_with(text, &MarkdownOptions::untrusted());
/// assert_eq!(document, from_markdown("[a](https://example.org) b c"));
/// ```
pub fn from_markdown_with(text: &str, options: &MarkdownOptions) -> NodeSpec {
    from_markdown_reported(text, options).0
}

/// Reads a Markdown text as [`from_markdown_with`] does, and reports what it drops, sorted, each
/// with the first line, counted from one.
///
/// It drops the marks of links and images whose target the filter rejects, of a link without
/// brackets in another link, and of a footnote reference right before a link. HTML loses its mark
/// where only a link definition before it keeps it from being a block. Of the words after the fence
/// of a code block the first one is kept, the language. A table or a block that exceeds the
/// [limits](from_markdown#limits) loses its type. The report does not have the spelling and
/// link definitions that no link uses.
///
/// ```
/// use doclock_formats::markdown::{Dropped, DroppedPart, MarkdownOptions, from_markdown_reported};
///
/// let text = "Moons\n\n[Io](javascript:alert) and [Europa](data:text/html,x)";
/// let (_, dropped) = from_markdown_reported(text, &MarkdownOptions::untrusted());
/// let part = DroppedPart::Mark { mark: "link".into() };
/// assert_eq!(dropped, [Dropped { part, count: 2, first: 3 }]);
/// ```
pub fn from_markdown_reported(
    text: &str,
    options: &MarkdownOptions,
) -> (NodeSpec, Vec<Dropped<usize>>) {
    read::document(text.strip_prefix('\u{feff}').unwrap_or(text), options)
}

/// Writes a node with its subtree as Markdown.
///
/// A document of [`from_markdown`] is read back from this output unchanged, node by node and mark
/// by mark. The spelling may differ: headings begin with `#`, code is fenced, lines are not
/// wrapped.
///
/// The text of a node with an unknown type becomes a paragraph, and its children follow. Unknown
/// marks are dropped, and so is content that Markdown cannot express, such as an empty paragraph.
/// Where two links overlap, the second begins where the first ends. A link or an image that begins
/// in another ends with it at the latest. A mark over a part of a footnote reference covers all of
/// it.
///
/// # Errors
///
/// [`EditError`]: the node does not exist.
pub fn to_markdown(view: &impl View, id: &NodeId) -> Result<String, EditError> {
    to_markdown_with(view, id, &MarkdownOptions::new())
}

/// Writes Markdown as [`to_markdown`] does, with options. Use [`MarkdownOptions::untrusted`] for a
/// document from an untrusted source.
///
/// # Errors
///
/// [`EditError`]: the node does not exist.
pub fn to_markdown_with(
    view: &impl View,
    id: &NodeId,
    options: &MarkdownOptions,
) -> Result<String, EditError> {
    to_markdown_reported(view, id, options).map(|(text, _)| text)
}

/// Writes Markdown as [`to_markdown_with`] does, and reports what it drops, sorted, each with the
/// id of the first node. A report without entries means that Markdown has every type, mark and
/// attribute of the subtree.
///
/// A node that Markdown does not have where it is, such as a heading in a paragraph, loses its type
/// in the same way as a node of an unknown type. A mark counts if it is not written on some of its
/// characters. The report does not have the bounds between adjacent texts, which become one.
///
/// # Errors
///
/// [`EditError`]: the node does not exist.
pub fn to_markdown_reported(
    view: &impl View,
    id: &NodeId,
    options: &MarkdownOptions,
) -> Result<(String, Vec<Dropped<NodeId>>), EditError> {
    let node = view.node(id).ok_or_else(|| view.missing(id))?;
    Ok(write::MarkdownWriter::new(view, options).written(node))
}
