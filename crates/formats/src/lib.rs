//! Conversion of documents of [doclock] from and to Markdown, HTML and ProseMirror.
//!
//! Each format is a feature: `markdown`, `html` and `prosemirror`; none is on by default. All of
//! them have the same names of node types, marks and attributes, so a document can be read in one
//! format and written in another.
//!
//! The guide has a page about [documents of other editors](doclock::guide::other_editors); the
//! queries describe [Markdown](doclock::guide::queries#markdown).

#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(
    not(all(feature = "html", feature = "markdown", feature = "prosemirror")),
    allow(
        dead_code,
        unreachable_pub,
        unused_imports,
        reason = "each format uses its part of what they share"
    )
)]

mod dropped;
// Only the unit tests of the crate count steps.
#[cfg(all(test, not(loom)))]
#[path = "../tests/growth/mod.rs"]
mod growth;
#[cfg(feature = "html")]
#[cfg_attr(docsrs, doc(cfg(feature = "html")))]
pub mod html;
#[cfg(feature = "markdown")]
#[cfg_attr(docsrs, doc(cfg(feature = "markdown")))]
pub mod markdown;
mod names;
#[cfg(feature = "prosemirror")]
#[cfg_attr(docsrs, doc(cfg(feature = "prosemirror")))]
pub mod prosemirror;
mod rules;
mod steps;
mod target;

/// The character under a mark without text, such as an image.
const OBJECT: char = '\u{FFFC}';

/// The most levels of a document of Markdown or HTML: where browsers stop to nest.
const DEEPEST: usize = 512;

/// The README, whose example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
