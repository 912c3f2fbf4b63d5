//! Markdown into nodes and back.
//!
//! **Use it** to import and export documents: [`from_markdown`] and [`to_markdown`]. What is read
//! from Markdown is written so that it reads the same. **Do not use it** to store documents that
//! have types or marks of their own: Markdown cannot express them, and drops them.

mod inline;
mod read;
mod target;
mod write;

use pulldown_cmark::Options;

pub use self::target::{MarkdownOptions, TargetFilter};
use crate::document::{EditError, NodeSpec, View};
use crate::id::NodeId;

/// What stands for an image without a description or a link without words: a mark needs something
/// to cover.
const OBJECT: char = '\u{FFFC}';

/// What is read beside CommonMark.
const EXTENSIONS: Options = Options::ENABLE_TABLES
    .union(Options::ENABLE_FOOTNOTES)
    .union(Options::ENABLE_STRIKETHROUGH)
    .union(Options::ENABLE_TASKLISTS);

/// The document that a Markdown text describes. Every text describes one.
///
/// Read is CommonMark with GitHub's tables, task lists, strikethrough and footnotes. The top is of
/// the type `document`; below it are
///
/// | node | attributes | in it |
/// |---|---|---|
/// | `paragraph` | | text |
/// | `heading` | `level` | text |
/// | `block-quote` | | blocks |
/// | `list` | `ordered`, and `start` where it is | `list-item`s |
/// | `list-item` | `checked` for a task | blocks; text at once, without a paragraph, where the list is tight |
/// | `code-block` | `language` | text |
/// | `html-block` | | text: the HTML |
/// | `thematic-break` | | |
/// | `table` | `align`: `none`, `left`, `center` or `right` for each column | one `table-head`, then `table-row`s |
/// | `table-head`, `table-row` | | `table-cell`s |
/// | `table-cell` | | text |
/// | `footnote` | `label` | blocks |
///
/// Text is in children of the type `inline-text`. Marks over it are `em`, `bold`, `strikethrough`,
/// `code`, `html`, `link` with `href` and `title`, `image` with `src` and `title` over its
/// description, `footnote` with `label`. A link or an image without words covers U+FFFC. A hard
/// break is a newline, a soft one a space. U+0000 becomes U+FFFD.
///
/// # Untrusted text
///
/// Targets of links and images are kept as they are, also those that run code in a browser
/// (`javascript:`, `data:`). For text from an untrusted source, use [`from_markdown_with`] with
/// [`MarkdownOptions::untrusted`], which keeps `http`, `https`, `mailto` and relative targets. No
/// option looks into HTML: it is text under the mark `html` or in an `html-block`, and a program
/// that shows a document must show it as text, or sanitize it.
///
/// ```
/// use doclock::{
///     DataStore, View, document::{Mark, NodeSpec}, markdown::{from_markdown, to_markdown},
/// };
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
pub fn from_markdown(text: &str) -> NodeSpec {
    from_markdown_with(text, &MarkdownOptions::new())
}

/// As [`from_markdown`], with options: [`MarkdownOptions::untrusted`] for text from an untrusted
/// source.
///
/// ```
/// use doclock::markdown::{MarkdownOptions, from_markdown, from_markdown_with};
///
/// let text = "[a](https://example.org) [b](javascript:alert) ![c](data:text/html,x)";
/// let document = from_markdown_with(text, &MarkdownOptions::untrusted());
/// assert_eq!(document, from_markdown("[a](https://example.org) b c"));
/// ```
pub fn from_markdown_with(text: &str, options: &MarkdownOptions) -> NodeSpec {
    read::document(text, &options.targets)
}

/// A node with all below it as Markdown.
///
/// What [`from_markdown`] reads is read again from what this writes, node by node and mark by mark.
/// The spelling may differ: headings begin with `#`, code is fenced, lines are not wrapped.
///
/// Of a node of an unknown type, the text is a paragraph, and what is below it follows. Unknown
/// marks are left out, and so is what Markdown cannot say: an empty paragraph, for example. Where
/// two links overlap, the second begins where the first ends. A link or an image that begins in
/// another ends there at the latest. A mark over a part of a reference to a footnote covers all of
/// it.
///
/// # Errors
///
/// [`EditError`]: the node does not exist.
pub fn to_markdown(view: &impl View, id: &NodeId) -> Result<String, EditError> {
    to_markdown_with(view, id, &MarkdownOptions::new())
}

/// As [`to_markdown`], with options: [`MarkdownOptions::untrusted`] for a document from an
/// untrusted source.
///
/// # Errors
///
/// [`EditError`]: the node does not exist.
pub fn to_markdown_with(
    view: &impl View,
    id: &NodeId,
    options: &MarkdownOptions,
) -> Result<String, EditError> {
    let node = view.node(id).ok_or_else(|| view.missing(id))?;
    Ok(write::Writer::new(view, &options.targets).written(node))
}
