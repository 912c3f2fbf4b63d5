//! Documents from and to Markdown and HTML.

#[path = "../../../../tests/common/mod.rs"]
mod common;

mod definitions;
mod dropped;
mod html;
mod markdown;
mod names;
mod schema;
mod targets;
