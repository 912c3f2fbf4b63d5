//! Conversion from HTML to nodes and back.
//!
//! **Use it** to import pages and pasted content, and to display documents: [`from_html`] and
//! [`to_html`]. Scripts, styles and event handlers never survive, in either direction. **Do not use
//! it** to keep a page as it is: classes, styles and unknown elements are dropped and reported.
//!
//! The document is that of [`from_markdown`](doclock::guide::queries#markdown), with the same
//! names, so a document can be read in one format and written in the other.

mod read;
mod style;
mod tree;
mod write;

use doclock::{
    NodeId,
    codes::codes,
    document::{EditError, NodeSpec, View},
};

use crate::OBJECT;
pub use crate::dropped::{Dropped, DroppedPart};
pub use crate::names::{
    AmbiguousName, MarkdownAttribute, MarkdownMark, MarkdownNames, MarkdownNode,
};
use crate::target::runs_code;
pub use crate::target::{MarkdownOptions, TargetFilter};

/// Why a text is not read as HTML.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HtmlError {
    /// The elements nest too deep.
    #[error("elements nest more than {limit} levels deep in line {line}")]
    TooDeep {
        /// The line, counted from one.
        line: usize,
        /// The largest depth.
        limit: usize,
    },
    /// Unclosed elements would be repeated too often: the document would be much larger than the
    /// text.
    #[error("unclosed elements make the document too large in line {line}")]
    TooLarge {
        /// The line, counted from one.
        line: usize,
    },
}

codes! { HtmlError {
    Self::TooDeep { line, limit } => "htmlTooDeep";
    Self::TooLarge { line } => "htmlTooLarge";
}}

/// Reads a page or a part of one into a document, and reports what it drops, sorted, each with the
/// first line, counted from one.
///
/// The text is parsed as browsers do, with the [HTML standard](https://html.spec.whatwg.org/) and
/// the crate html5ever, so errors of syntax are no errors. The top has the type `document`:
///
/// | element | node or mark |
/// |---|---|
/// | `p`, `h1` to `h6`, `blockquote`, `hr` | `paragraph`, `heading`, `block-quote`, `thematic-break` |
/// | `ul`, `ol` with `start`, `li` with a checkbox | `list`, `list-item` |
/// | `pre` with a class `language-…` on it or on its `code` | `code-block` |
/// | `table`, `tr`, `th`, `td` | `table` with `align`, `table-head` or `table-row`, `table-cell` |
/// | `em`, `i`; `strong`, `b`; `del`, `s`, `strike`; `code` | the marks `em`, `bold`, `strikethrough`, `code` |
/// | the style `font-weight`, `font-style`, `text-decoration` of any element | the marks `bold`, `em`, `strikethrough`, or none of them |
/// | `a` with `href` and `title`; without `href` it is unknown | the mark `link` |
/// | `img` with `src` and `title` | the mark `image` over its `alt`, or over U+FFFC |
/// | `br`, except at the end of a block | a newline |
///
/// White space collapses as in browsers, except in `pre` and under the style `white-space:
/// pre-wrap`. Text between blocks becomes a paragraph, in a `li` it stays text. An unknown element
/// is dropped, and its content is kept. `script`, `style`, `template`, `title` and `iframe` are
/// dropped with their content, and so are elements that are hidden: by `display: none`, by
/// `visibility: hidden`, or by the attribute `hidden`. Comments are not reported.
///
/// A style counts as in browsers: the last valid declaration of a property does, weights of 600 and
/// more are bold, and a line goes through all descendants. Headings and cells of a head have no
/// mark `bold` for their own weight. Style sheets and classes do not count.
///
/// # Untrusted text
///
/// The options filter targets as for Markdown. Here a target with the scheme `javascript`,
/// `vbscript` or `data` is rejected in any case.
///
/// # Errors
///
/// [`HtmlError`]: elements nest more than 512 levels deep, in the text or in the HTML that
/// [`to_html`] would write of the document, or the document would be much larger than the text.
///
/// ```
/// use doclock_formats::html::{Dropped, DroppedPart, MarkdownOptions, from_html};
/// use doclock_formats::markdown::from_markdown;
///
/// let html = "<p onclick='x()'>A <i>small</i> <a href='javascript:x()'>page</a>.<script>x()</script>";
/// let (document, dropped) = from_html(html, &MarkdownOptions::untrusted())?;
/// assert_eq!(document, from_markdown("A *small* page."));
/// let parts: Vec<_> = dropped.into_iter().map(|dropped| dropped.part).collect();
/// assert_eq!(parts, [
///     DroppedPart::Mark { mark: "link".into() },
///     DroppedPart::Element { element: "script".into() },
///     DroppedPart::ElementAttribute { element: "p".into(), attribute: "onclick".into() },
/// ]);
/// # Ok::<(), doclock_formats::html::HtmlError>(())
/// ```
pub fn from_html(
    html: &str,
    options: &MarkdownOptions,
) -> Result<(NodeSpec, Vec<Dropped<usize>>), HtmlError> {
    let tree = tree::parsed(html)?;
    read::document(&tree, options)
}

/// Writes a node with its subtree as HTML, without a page around it, and reports what it drops,
/// sorted, each with the id of the first node.
///
/// A document of [`from_html`] is read back from this output unchanged. The output has no elements,
/// attributes or targets that run code; all text is escaped. HTML in a document of Markdown is
/// written as the text that it is.
///
/// The text of a node with an unknown type becomes a paragraph, and its children follow. Unknown
/// marks and attributes are dropped. Where two links overlap, the second begins where the first
/// ends. U+0000 becomes U+FFFD.
///
/// # Errors
///
/// [`EditError`]: the node does not exist.
///
/// ```
/// use doclock::DataStore;
/// use doclock_formats::html::{MarkdownOptions, to_html};
/// use doclock_formats::markdown::from_markdown;
///
/// let mut transaction = DataStore::new().begin("export")?;
/// let root = transaction.create(from_markdown("A *small* page & <b>more</b>."))?;
/// let (html, _) = to_html(&transaction, &root, &MarkdownOptions::new())?;
/// assert_eq!(html, "<p>A <em>small</em> page &amp; &lt;b&gt;more&lt;/b&gt;.</p>\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn to_html(
    view: &impl View,
    id: &NodeId,
    options: &MarkdownOptions,
) -> Result<(String, Vec<Dropped<NodeId>>), EditError> {
    let node = view.node(id).ok_or_else(|| view.missing(id))?;
    Ok(write::HtmlWriter::new(view, options).written(node))
}

fn allows(options: &MarkdownOptions, target: &str) -> bool {
    options.targets.allows(target) && !runs_code(target)
}
