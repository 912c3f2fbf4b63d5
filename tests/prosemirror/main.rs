//! Documents and steps of ProseMirror and Tiptap.

#[path = "../common/mod.rs"]
mod common;

mod documents;
mod dropped;
mod steps;

use doclock::prosemirror::{ProseMirrorNames, ProseMirrorOptions};
use doclock::schema::Schema;

/// The schema of the packages prosemirror-schema-basic and prosemirror-schema-list.
pub(crate) fn basic_schema() -> Schema {
    serde_json::from_str(include_str!("basic.schema.json")).unwrap()
}

pub(crate) fn basic() -> ProseMirrorOptions {
    ProseMirrorOptions::new(ProseMirrorNames::basic()).schema(basic_schema())
}

/// The schema of Tiptap's StarterKit.
pub(crate) fn tiptap() -> ProseMirrorOptions {
    let schema: Schema = serde_json::from_str(include_str!("tiptap.schema.json")).unwrap();
    ProseMirrorOptions::new(ProseMirrorNames::tiptap()).schema(schema)
}
