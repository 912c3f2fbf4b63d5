//! Documents and steps of ProseMirror and Tiptap.

#[path = "../../../../tests/common/mod.rs"]
mod common;

mod collab;
mod documents;
mod dropped;
mod opened;
mod operations;
mod rows;
mod schemas;
mod sent;
mod steps;
mod typing;

use std::path::{Path, PathBuf};

use doclock::schema::Schema;
use doclock_formats::prosemirror::{ProseMirrorContent, ProseMirrorNames, ProseMirrorOptions};
use serde_json::{Value, json};

/// The folder of the scripts, which run ProseMirror, if its packages are installed there.
pub(crate) fn scripts() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/prosemirror");
    let are_installed = folder.join("node_modules").exists();
    if !are_installed {
        println!("skipped: run npm ci in crates/formats/tests/prosemirror");
    }
    are_installed.then_some(folder)
}

/// The schema of the packages prosemirror-schema-basic and prosemirror-schema-list.
pub(crate) fn basic_schema() -> Schema {
    serde_json::from_str(include_str!("basic.schema.json")).unwrap()
}

pub(crate) fn basic() -> ProseMirrorOptions {
    ProseMirrorOptions::new(ProseMirrorNames::basic()).schema(basic_schema())
}

/// The options and the schema of the store for one of the four schemas of `generate.mjs`.
pub(crate) fn of_schema(name: &str) -> (ProseMirrorOptions, Schema) {
    let patch: Value = match name {
        "basic" => return (basic(), basic_schema()),
        "tiptap" => return (tiptap(), tiptap_schema()),
        "list" => json!({
            "nodes": {
                "document": {"attributes": {"title": {"type": "string"}}},
                "heading": {"marks": "em link note image"},
            },
            "marks": {
                "note": {"attributes": {"id": {"type": "string"}}, "excludes": "", "inclusive": true},
                "bold": {"excludes": "bold em"},
                "code": {"excludes": "_"},
            },
        }),
        _ => {
            let cell = |role: &str| {
                json!({"content": "block+", "isolating": true, "tableRole": role, "attributes": {
                    "colspan": {"type": "integer", "default": 1},
                    "rowspan": {"type": "integer", "default": 1},
                    "colwidth": {"type": "array"},
                }})
            };
            let table = "table-row+";
            json!({"nodes": {
                "table": {"group": "block", "content": table, "isolating": true, "tableRole": "table"},
                "table-row": {"content": "(table-cell | table-header)*", "tableRole": "row"},
                "table-cell": cell("cell"),
                "table-header": cell("header_cell"),
            }})
        }
    };
    let mut schema: Value = serde_json::from_str(include_str!("basic.schema.json")).unwrap();
    for (part, fields) in patch.as_object().unwrap() {
        for (of, more) in fields.as_object().unwrap() {
            let more = more.as_object().unwrap().clone();
            match schema[part].get_mut(of).and_then(Value::as_object_mut) {
                Some(fields) => fields.extend(more),
                None => schema[part][of] = more.into(),
            }
        }
    }
    let schema: Schema = serde_json::from_str(&in_order(&schema)).unwrap();
    (
        ProseMirrorOptions::new(names_of(name)).schema(schema.clone()),
        schema,
    )
}

/// The JSON of a schema, whose types are in the order of the packages: where several types of
/// block fit, the first is made.
fn in_order(schema: &Value) -> String {
    let basic = include_str!("basic.schema.json");
    let mut nodes: Vec<_> = schema["nodes"].as_object().unwrap().iter().collect();
    nodes.sort_by_key(|(name, _)| basic.find(&format!("\"{name}\": {{")).unwrap_or(usize::MAX));
    let nodes = nodes
        .iter()
        .map(|(name, rules)| format!("\"{name}\":{rules}"));
    let nodes: Vec<String> = nodes.collect();
    let mut rest = schema.clone();
    rest.as_object_mut().unwrap().remove("nodes");
    format!(
        "{{\"nodes\":{{{}}},{}",
        nodes.join(","),
        &rest.to_string()[1..]
    )
}

/// The names of one of the four schemas.
pub(crate) fn names_of(name: &str) -> ProseMirrorNames {
    use ProseMirrorContent::Blocks;
    let names = ProseMirrorNames::basic();
    match name {
        "basic" => names,
        "tiptap" => ProseMirrorNames::tiptap(),
        "list" => names
            .marks("heading", "em link note")
            .mark("note", "note")
            .excludes("note", "")
            .excludes("strong", "strong em")
            .excludes("code", "_"),
        _ => names
            .node("table", "table", Blocks)
            .node("table_row", "table-row", Blocks)
            .node("table_cell", "table-cell", Blocks)
            .node("table_header", "table-header", Blocks),
    }
}

/// The schema of Tiptap's StarterKit.
pub(crate) fn tiptap_schema() -> Schema {
    serde_json::from_str(include_str!("tiptap.schema.json")).unwrap()
}

pub(crate) fn tiptap() -> ProseMirrorOptions {
    ProseMirrorOptions::new(ProseMirrorNames::tiptap()).schema(tiptap_schema())
}
