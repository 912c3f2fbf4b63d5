//! What the conversions of documents share: names, filters of targets, reports of dropped parts.

mod dropped;
mod names;
mod target;

pub use dropped::{Dropped, DroppedPart};
pub use names::{AmbiguousName, MarkdownAttribute, MarkdownMark, MarkdownNames, MarkdownNode};
pub use target::{MarkdownOptions, TargetFilter};

pub(crate) use dropped::Report;
#[cfg(feature = "markdown")]
pub(crate) use names::ends_front_matter;
pub(crate) use names::{Bearer, MAX_NUMBER};
pub(crate) use target::runs_code;

pub(crate) use crate::document::OBJECT;

/// The most levels of a document of Markdown or HTML: where browsers stop to nest.
#[cfg(any(feature = "markdown", feature = "html"))]
pub(crate) const DEEPEST: usize = 512;
