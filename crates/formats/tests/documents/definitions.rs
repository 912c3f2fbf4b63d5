//! Markdown with links, code, definitions and footnotes, whose characters have a meaning that
//! depends on their order.

use doclock::{View, document::Mark};
use doclock_formats::markdown::{from_markdown, to_markdown};
use proptest::prelude::*;
use serde_json::Value;

use crate::common::{cases, store};
use crate::markdown::{leads_back, paragraph, written};

/// Links over code, beginnings of definitions, footnotes with and without contents, and their
/// surroundings.
const TOKENS: &[&str] = &[
    "[",
    "]",
    "](u)",
    "](<u>)",
    "]( u )",
    "](u \"t\")",
    "]:",
    "]: ",
    "]:x",
    "[r]",
    "[r]: /u\n",
    "\n[r]: /u 't'\n",
    "`",
    "`` ` ``",
    "` ",
    " `",
    "`]:x`",
    "` ]:x `",
    "` ]: `",
    "`]:<x`",
    "`]:x \"`",
    "`]:(`",
    "[`",
    "`](u)",
    "<i a=\"]:x\">",
    "<i\na=\"]:\">",
    ":",
    "x",
    "<",
    ">",
    "\"",
    "'",
    "(",
    ")",
    "\\",
    "\\\n",
    "&#10;",
    "!",
    "*",
    "**",
    "~~",
    "^",
    "[^1]",
    "[^2]",
    "[^1]: n\n",
    "[^1]:\n",
    "[^2]:\n",
    "\n\n[^1]:\n",
    "[^1]: - a\n",
    "    ",
    "  ",
    "\n",
    "\n\n",
    "- ",
    "- ",
    "- a\n",
    "- a\n\n",
    "1. ",
    "> ",
    "a",
    "b ",
    "[x] ",
    "# ",
    "|",
    "\n|-|\n",
    "<!-- -->",
    "\0",
    "&#0;",
];

/// Lists, and empty footnotes.
const NOTES: &[&str] = &[
    "- ",
    "- a\n",
    "- a",
    "1. ",
    "  ",
    "    ",
    "\n",
    "\n",
    "[^1]:",
    "[^1]: ",
    "[^1]:\n",
    "[^2]:\n",
    "[^2]:",
    "[^1]",
    "> ",
    "b",
    "[r]: /u\n",
    "- [^1]:\n",
    "  [^1]:\n",
];

/// A link over code with `]:` in it was written as a link definition, and the paragraph was lost.
/// lost.
#[test]
fn a_link_over_code_that_looks_like_a_definition_round_trips() {
    for (code, behind) in [
        ("]:x", ""),
        ("]:", ""),
        ("]: x", " \"t\""),
        ("]:x \"t", " t\""),
        ("]:<x", ">"),
        ("]:(", ")"),
        ("a]:b", "\nnext"),
        ("]:", "\nnext"),
    ] {
        let text = format!("{code}{behind}");
        for (linked, title) in [(code, ""), (text.as_str(), "t")] {
            let len = code.chars().count();
            let link = Mark::new("link", 0..linked.chars().count());
            let title = Some(title)
                .filter(|title| !title.is_empty())
                .map(Value::from);
            let link =
                link.with_attributes([("href", "u".into()), ("title", title.unwrap_or_default())]);
            let page = paragraph(&text, [Mark::new("code", 0..len), link]);
            let markdown = written(page.clone());
            let written = from_markdown(&markdown);
            let mut transaction = store().begin("test").unwrap();
            let page = transaction.create(page).unwrap();
            let page = transaction.to_spec(&page).unwrap().without_ids();
            assert_eq!(written.to_json(), page.to_json(), "{markdown:?}");
        }
    }
    leads_back("[` ]:x `](u)").unwrap();
    // Without that danger, the ordinary spelling is used.
    assert_eq!(
        written(from_markdown("[`]:` a](u) \"b\"\n")),
        "[`]:` a](u) \"b\"\n"
    );
}

/// Invisible parts must be kept if the line has another meaning without them.
#[test]
fn unusual_lists_and_footnotes_round_trip() {
    for markdown in [
        // A tight list with empty footnotes became loose.
        "- [^1]:[^1]:- \n- [^1]",
        "- a\n  [^1]:\n  [^2]: [r]: /u\n- b",
        // An empty item made a heading of the paragraph before it.
        "- a\n  - [r]: /u\n",
        "- a\n  1. [r]: /u\n",
        "> a\n> - [r]: /u\n",
        // A bracket after a footnote was read as a part of it.
        "[^1]: n\n[^1]\\[]:`]:x`",
        "a\0b `c\0d` [e\0](f\0 'g\0')\n\n    \0\n\n<p>\0",
    ] {
        leads_back(markdown).unwrap_or_else(|error| panic!("{markdown:?}: {error}"));
    }
}

/// U+0000 was kept, and read back as U+FFFD.
#[test]
fn the_null_character_is_replaced_when_it_is_read() {
    let replaced = from_markdown("a\u{FFFD}b `c\u{FFFD}`\n\n    \u{FFFD}\n");
    assert_eq!(from_markdown("a\0b `c\0`\n\n    \0\n"), replaced);
    assert_eq!(from_markdown("a&#0;b `c\0`\n\n    \0\n"), replaced);
    // A document that has it from another source.
    assert_eq!(written(paragraph("a\0", [])), "a\u{FFFD}\n");
}

proptest! {
    #![proptest_config(cases(1500))]

    #[test]
    fn links_code_definitions_and_footnotes_round_trip(
        tokens in prop::collection::vec(prop::sample::select(TOKENS), 0..12),
    ) {
        leads_back(&tokens.concat())?;
    }

    #[test]
    fn lists_with_footnotes_round_trip(
        tokens in prop::collection::vec(prop::sample::select(NOTES), 0..10),
    ) {
        leads_back(&tokens.concat())?;
    }

    /// For any links and code of an editor, no character is lost.
    #[test]
    fn a_paragraph_that_begins_with_a_link_over_code_keeps_its_text(
        code in "[]:<>\"'()x `\\[!&]{1,7}",
        code_at in 0..3usize,
        link_len in 1..14usize,
        behind in "[\"')>a \n]{0,5}",
        title in prop::option::of("[a\"' )]{1,3}"),
    ) {
        let text = format!("{}{code}{behind}", &"ab"[..code_at]);
        let len = text.chars().count();
        let code_len = code.chars().count();
        let mut link = vec![("href", "u".into())];
        link.extend(title.map(|title| ("title", title.into())));
        let marks = [
            Mark::new("link", 0..link_len.min(len)).with_attributes(doclock::document::Attributes::from_iter(link)),
            Mark::new("code", code_at..code_at + code_len),
        ];
        let store = store();
        let mut transaction = store.begin("test").unwrap();
        let root = transaction.create(paragraph(&text, marks)).unwrap();
        let markdown = to_markdown(&transaction, &root).unwrap();
        let again = transaction.create(from_markdown(&markdown)).unwrap();
        let read = transaction.text_of(&again).unwrap();
        prop_assert_eq!(&read, &text, "{:?}", markdown);
        let marked = transaction.find_by_type(&again, "inline-text").any(|node| {
            node.marks().iter().any(|mark| mark.kind == "link")
        });
        prop_assert!(marked, "{:?}", markdown);
    }
}
