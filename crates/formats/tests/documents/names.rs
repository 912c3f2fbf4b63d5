//! Names of types, marks and attributes in documents from and for Markdown.

use doclock::{View, codes::CodedError, document::NodeSpec};
use doclock_formats::markdown::{
    MarkdownAttribute, MarkdownMark, MarkdownNames, MarkdownNode, MarkdownOptions, from_markdown,
    from_markdown_with, to_markdown, to_markdown_with,
};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::common::{cases, store};
use crate::markdown::{TOKENS, pages};

/// Each default name with another one: node types, marks, attributes.
const NODES: &[(MarkdownNode, &str)] = &[
    (MarkdownNode::Document, "page"),
    (MarkdownNode::Text, "text"),
    (MarkdownNode::Paragraph, "heading"),
    (MarkdownNode::Heading, "paragraph"),
    (MarkdownNode::BlockQuote, "quote"),
    (MarkdownNode::List, "list-item"),
    (MarkdownNode::ListItem, "list"),
    (MarkdownNode::CodeBlock, "code"),
    (MarkdownNode::HtmlBlock, "html"),
    (MarkdownNode::ThematicBreak, "rule"),
    (MarkdownNode::Table, "grid"),
    (MarkdownNode::TableHead, "grid-head"),
    (MarkdownNode::TableRow, "grid-row"),
    (MarkdownNode::TableCell, "grid-cell"),
    (MarkdownNode::Footnote, "note"),
];

const MARKS: &[(MarkdownMark, &str)] = &[
    (MarkdownMark::Emphasis, "italic"),
    (MarkdownMark::Strong, "em"),
    (MarkdownMark::Strikethrough, "gone"),
    (MarkdownMark::Code, "mono"),
    (MarkdownMark::Html, "raw"),
    (MarkdownMark::Link, "image"),
    (MarkdownMark::Image, "link"),
    (MarkdownMark::Footnote, "reference"),
];

const ATTRIBUTES: &[(MarkdownAttribute, &str)] = &[
    (MarkdownAttribute::HeadingLevel, "depth"),
    (MarkdownAttribute::ListOrdered, "numbered"),
    (MarkdownAttribute::ListStart, "ordered"),
    (MarkdownAttribute::ListItemChecked, "done"),
    (MarkdownAttribute::CodeBlockLanguage, "syntax"),
    (MarkdownAttribute::TableAlign, "columns"),
    (MarkdownAttribute::FootnoteLabel, "name"),
    (MarkdownAttribute::FrontMatter, "matter"),
    (MarkdownAttribute::LinkTarget, "url"),
    (MarkdownAttribute::LinkTitle, "tip"),
    (MarkdownAttribute::ImageSource, "url"),
    (MarkdownAttribute::ImageTitle, "tip"),
    (MarkdownAttribute::FootnoteReferenceLabel, "name"),
];

fn renaming() -> MarkdownOptions {
    let mut names = MarkdownNames::new();
    for (node, name) in NODES {
        names = names.node(*node, *name);
    }
    for (mark, name) in MARKS {
        names = names.mark(*mark, *name);
    }
    for (attribute, name) in ATTRIBUTES {
        names = names.attribute(*attribute, *name);
    }
    MarkdownOptions::new().names(names).unwrap()
}

/// The JSON of a document with the other names. The names of attributes are unambiguous, because
/// each has one other name on all that have it.
fn renamed(document: &Value) -> Value {
    let named = |of: &Value, table: Vec<(&str, &str)>| {
        let name = of["type"].as_str().unwrap();
        let (_, other) = table.into_iter().find(|(known, _)| *known == name).unwrap();
        json!(other)
    };
    let attributes = |of: &Value| {
        let pairs = of["attributes"].as_object().into_iter().flatten();
        let renamed = pairs.map(|(name, value)| {
            let mut table = ATTRIBUTES.iter();
            let other = table.find(|(known, _)| known.default_name() == name);
            (other.unwrap().1.to_owned(), value.clone())
        });
        Value::Object(renamed.collect::<Map<_, _>>())
    };
    let nodes = NODES
        .iter()
        .map(|(node, other)| (node.default_name(), *other));
    let marks = MARKS
        .iter()
        .map(|(mark, other)| (mark.default_name(), *other));
    let mut other = document.clone();
    other["type"] = named(document, nodes.collect());
    other["attributes"] = attributes(document);
    let list = |key: &str| document[key].as_array().cloned().unwrap_or_default();
    let children = list("children");
    other["children"] = children.iter().map(renamed).collect();
    let marked = list("marks").into_iter().map(|mark| {
        let name = named(&mark, marks.clone().collect());
        json!({"type": name, "range": mark["range"], "attributes": attributes(&mark)})
    });
    other["marks"] = marked.collect();
    other
}

/// The document as a store keeps it, and its Markdown.
fn kept(document: NodeSpec, options: &MarkdownOptions) -> (NodeSpec, String) {
    let mut transaction = store().begin("test").unwrap();
    let root = transaction.create(document).unwrap();
    let markdown = to_markdown_with(&transaction, &root, options).unwrap();
    (transaction.to_spec(&root).unwrap().without_ids(), markdown)
}

fn is_the_same_up_to_names(page: &str) -> Result<(), TestCaseError> {
    let options = renaming();
    let default = from_markdown(page);
    let json: Value = serde_json::from_str(&default.to_json()).unwrap();
    let expected = NodeSpec::from_json(&renamed(&json).to_string()).unwrap();
    let (named, markdown) = kept(from_markdown_with(page, &options), &options);
    let (expected, same) = kept(expected, &options);
    prop_assert_eq!(&named, &expected);
    prop_assert_eq!(&markdown, &same);
    prop_assert_eq!(&markdown, &kept(default, &MarkdownOptions::new()).1);
    prop_assert_eq!(
        kept(from_markdown_with(&markdown, &options), &options).0,
        named
    );
    Ok(())
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn any_page_with_other_names_is_the_same_up_to_names(page in pages()) {
        is_the_same_up_to_names(&page)?;
    }

    #[test]
    fn any_characters_with_other_names_are_the_same_up_to_names(
        tokens in prop::collection::vec(prop::sample::select(TOKENS), 0..16),
    ) {
        is_the_same_up_to_names(&tokens.concat())?;
    }
}

#[test]
fn a_renamed_type_is_read_and_written() {
    let names = MarkdownNames::new()
        .node(MarkdownNode::Heading, "title")
        .mark(MarkdownMark::Strong, "strong");
    let options = MarkdownOptions::new().names(names).unwrap();
    let document = from_markdown_with("# **a**", &options);
    let json: Value = serde_json::from_str(&document.to_json()).unwrap();
    assert_eq!(
        json["children"],
        json!([{"type": "title", "attributes": {"level": 1}, "children": [
            {"type": "inline-text", "text": "a", "marks": [{"type": "strong", "range": [0, 1]}]},
        ]}])
    );
    assert_eq!(kept(document, &options).1, "# **a**\n");
}

/// The default name of a renamed type is an unknown name.
#[test]
fn a_name_that_was_replaced_is_unknown() {
    let names = MarkdownNames::new().node(MarkdownNode::Heading, "title");
    let options = MarkdownOptions::new().names(names).unwrap();
    assert_eq!(kept(from_markdown("# a"), &options).1, "a\n");
    assert_eq!(
        kept(from_markdown("# a"), &MarkdownOptions::new()).1,
        "# a\n"
    );
}

#[test]
fn names_with_two_meanings_are_refused() {
    let new = MarkdownNames::new;
    let ambiguous = [
        (
            new().node(MarkdownNode::Heading, "paragraph"),
            ("node type", "paragraph", "paragraph", "heading"),
        ),
        (
            new()
                .mark(MarkdownMark::Strong, "x")
                .mark(MarkdownMark::Emphasis, "x"),
            ("mark", "x", "em", "bold"),
        ),
        (
            new().attribute(MarkdownAttribute::LinkTitle, "href"),
            ("attribute", "href", "href", "title"),
        ),
    ];
    for (names, (kind, name, first, second)) in ambiguous {
        let error = MarkdownOptions::new().names(names).unwrap_err();
        let found = (error.kind, error.name.as_str(), error.first, error.second);
        assert_eq!(found, (kind, name, first, second));
        assert_eq!(error.code(), "markdownNameAmbiguous");
    }
}

/// Types, marks and the attributes of different types do not share their names.
#[test]
fn one_name_may_be_of_a_type_and_a_mark_and_two_attributes() {
    let names = MarkdownNames::new()
        .node(MarkdownNode::CodeBlock, "code")
        .attribute(MarkdownAttribute::ImageSource, "href");
    let options = MarkdownOptions::new().names(names).unwrap();
    let page = "`a` ![b](c)\n\n```\nd\n```\n";
    let document = from_markdown_with(page, &options);
    assert_eq!(kept(document, &options).1, page);
}

/// A swap of two names is ambiguous only between its two steps.
#[test]
fn two_types_can_swap_their_names() {
    let names = MarkdownNames::new()
        .node(MarkdownNode::Heading, "paragraph")
        .node(MarkdownNode::Paragraph, "heading");
    let options = MarkdownOptions::new().names(names).unwrap();
    let document = from_markdown_with("# a\n\nb", &options);
    let kinds: Vec<_> = document.clone().into_children();
    assert_eq!([kinds[0].kind(), kinds[1].kind()], ["paragraph", "heading"]);
    assert_eq!(kept(document, &options).1, "# a\n\nb\n");
}

#[test]
fn default_options_have_the_default_names() {
    let options = MarkdownOptions::new().names(MarkdownNames::new()).unwrap();
    assert_eq!(options, MarkdownOptions::new());
    let mut transaction = store().begin("test").unwrap();
    let root = transaction.create(from_markdown("# a")).unwrap();
    assert_eq!(
        to_markdown(&transaction, &root),
        to_markdown_with(&transaction, &root, &options)
    );
}
