//! Filters for the targets of links and images.

use std::collections::BTreeSet;

use super::names::{AmbiguousName, MarkdownNames};

/// Filters the targets of links and images by their schemes.
///
/// A target has a scheme if it has a colon before its first `/`, `\`, `?` or `#`; otherwise it is
/// relative. Schemes are compared as in browsers, but more strictly: case, white space, control
/// characters and invisible characters are ignored at any position. A relative target with `&` or
/// an encoded colon (`%3A`) before its first `/`, `\`, `?` or `#` is rejected, because another
/// decoding could give it a scheme.
///
/// ```
/// use doclock_formats::markdown::TargetFilter;
///
/// let filter = TargetFilter::web();
/// for target in ["https://example.org", "MAILTO:ann@example.org", "page.html#top", "//host/a.png"] {
///     assert!(filter.allows(target), "{target}");
/// }
/// for target in ["javascript:x", "\u{1}JaVa\tScript:x", "data:text/html,x", "javascript&colon;x"] {
///     assert!(!filter.allows(target), "{target}");
/// }
/// assert!(TargetFilter::any().allows("javascript:x"));
/// assert!(TargetFilter::schemes(["https", "data"]).allows("data:image/png;base64,"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetFilter {
    /// In lower case. `None` for any target.
    schemes: Option<BTreeSet<String>>,
    relative: bool,
}

impl TargetFilter {
    /// Creates a filter that keeps every target.
    pub fn any() -> Self {
        Self {
            schemes: None,
            relative: true,
        }
    }

    /// Creates a filter that keeps `http`, `https`, `mailto` and relative targets.
    pub fn web() -> Self {
        Self::schemes(["http", "https", "mailto"])
    }

    /// Creates a filter that keeps these schemes and relative targets.
    pub fn schemes<S: AsRef<str>>(schemes: impl IntoIterator<Item = S>) -> Self {
        let schemes = schemes.into_iter();
        Self {
            schemes: Some(
                schemes
                    .map(|name| name.as_ref().to_ascii_lowercase())
                    .collect(),
            ),
            relative: true,
        }
    }

    /// Rejects relative targets as well. It has no effect on [`any`](Self::any).
    #[must_use]
    pub fn absolute_only(mut self) -> Self {
        self.relative = self.schemes.is_none();
        self
    }

    /// Returns whether a target is kept.
    pub fn allows(&self, target: &str) -> bool {
        let Some(schemes) = &self.schemes else {
            return true;
        };
        let head = head(target);
        match head.split_once(':') {
            Some((scheme, _)) => schemes.contains(scheme),
            None => self.relative && !head.contains('&') && !head.contains("%3a"),
        }
    }
}

/// Whether a browser may run code for a target.
pub(crate) fn runs_code(target: &str) -> bool {
    let head = head(target);
    let scheme = head.split_once(':').map(|(scheme, _)| scheme);
    matches!(scheme, Some("javascript" | "vbscript" | "data"))
}

/// The beginning of a target, in which a scheme would be, as a browser sees it.
fn head(target: &str) -> String {
    let shown = target.chars().filter(|char| !is_skipped(*char));
    let head = shown.take_while(|char| !matches!(char, '/' | '\\' | '?' | '#'));
    head.map(|char| char.to_ascii_lowercase()).collect()
}

/// Whether a browser or a reader skips a character in a scheme.
fn is_skipped(char: char) -> bool {
    char.is_control()
        || char.is_whitespace()
        || matches!(
            char,
            '\u{AD}'
                | '\u{34F}'
                | '\u{61C}'
                | '\u{180B}'..='\u{180F}'
                | '\u{200B}'..='\u{200F}'
                | '\u{202A}'..='\u{202E}'
                | '\u{2060}'..='\u{206F}'
                | '\u{FE00}'..='\u{FE0F}'
                | '\u{FEFF}'
                | '\u{FFF9}'..='\u{FFFB}'
                | '\u{E0000}'..='\u{E0FFF}'
        )
}

/// Options for reading and writing Markdown and HTML.
///
/// ```
/// use doclock::document::NodeSpec;
/// use doclock_formats::markdown::{MarkdownOptions, from_markdown_with};
///
/// let document = from_markdown_with("[a](javascript:x)", &MarkdownOptions::untrusted());
/// let text = NodeSpec::new("inline-text").with_text("a");
/// let paragraph = NodeSpec::new("paragraph").with_children([text]);
/// assert_eq!(document, NodeSpec::new("document").with_children([paragraph]));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct MarkdownOptions {
    pub(crate) targets: TargetFilter,
    pub(crate) names: MarkdownNames,
}

impl MarkdownOptions {
    /// Creates options for text from a trusted source, which keep every target.
    pub fn new() -> Self {
        Self {
            targets: TargetFilter::any(),
            names: MarkdownNames::new(),
        }
    }

    /// Creates options for text from an untrusted source, which keep the targets that
    /// [`TargetFilter::web`] allows.
    pub fn untrusted() -> Self {
        Self::new().targets(TargetFilter::web())
    }

    /// Sets the filter for targets of links and images. A link or an image with a rejected target
    /// loses its mark; its words or its description are kept.
    pub fn targets(self, targets: TargetFilter) -> Self {
        Self { targets, ..self }
    }

    /// Sets the names of node types, marks and attributes.
    ///
    /// # Errors
    ///
    /// [`AmbiguousName`]: two node types, two marks, or two attributes of one node type or mark
    /// have the same name.
    ///
    /// ```
    /// use doclock_formats::markdown::{MarkdownNames, MarkdownNode, MarkdownOptions};
    ///
    /// let names = MarkdownNames::new().node(MarkdownNode::Heading, "paragraph");
    /// let error = MarkdownOptions::new().names(names).unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "node type name paragraph is ambiguous: it stands for paragraph and heading",
    /// );
    /// ```
    pub fn names(self, names: MarkdownNames) -> Result<Self, AmbiguousName> {
        let names = names.checked()?;
        Ok(Self { names, ..self })
    }
}

impl Default for MarkdownOptions {
    fn default() -> Self {
        Self::new()
    }
}
