//! Targets of links and images, and the filter for those of untrusted text.

use doclock::{
    NodeId, Transaction, View,
    document::{Mark, NodeSpec},
};
use doclock_formats::markdown::{
    MarkdownOptions, TargetFilter, from_markdown, from_markdown_with, to_markdown, to_markdown_with,
};
use proptest::prelude::*;

use crate::common::{cases, store};
use crate::markdown::paragraph;

/// The scheme of a target as a browser finds it: leading controls and spaces stripped, tabs and
/// newlines removed.
pub(crate) fn browser_scheme(target: &str) -> Option<String> {
    let target = target.trim_start_matches(|char: char| char <= ' ');
    let target: String = target
        .chars()
        .filter(|char| !"\t\n\r".contains(*char))
        .collect();
    let (scheme, _) = target.split_once(':')?;
    let mut chars = scheme.chars();
    let named = chars
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic())
        && chars.all(|char| char.is_ascii_alphanumeric() || "+-.".contains(char));
    named.then(|| scheme.to_ascii_lowercase())
}

/// All targets in a document, and its text.
fn targets(document: NodeSpec) -> (Vec<String>, String) {
    let (transaction, root) = created(document);
    let marks = transaction
        .descendants(&root)
        .flat_map(|node| node.marks().iter());
    let attributes = marks.flat_map(|mark| mark.attributes.iter());
    let targets = attributes.filter(|(key, _)| ["href", "src"].contains(&key.as_str()));
    let targets = targets.map(|(_, value)| value.as_str().unwrap().to_owned());
    (targets.collect(), transaction.text_of(&root).unwrap())
}

fn created(document: NodeSpec) -> (Transaction, NodeId) {
    let mut transaction = store().begin("test").unwrap();
    let root = transaction.create(document).unwrap();
    (transaction, root)
}

fn untrusted() -> MarkdownOptions {
    MarkdownOptions::untrusted()
}

/// Targets that run code were silently kept.
#[test]
fn targets_that_run_code_are_left_out_of_untrusted_text() {
    for hostile in [
        "javascript:alert(1)",
        "JaVaScRiPt:alert(1)",
        "data:text/html,<script>alert(1)</script>",
        "vbscript:x",
        "file:///etc/passwd",
        "blob:x",
        "&#106;avascript:alert(1)",
        "&#x6A;avascript&#x3A;alert(1)",
        "javascript&colon;alert(1)",
        "javascript&amp;colon;alert(1)",
        "java&#10;script:alert(1)",
        "java&Tab;script:alert(1)",
        "&#1;javascript:alert(1)",
        "&nbsp;javascript:alert(1)",
        "java&#x200b;script:alert(1)",
        "java&shy;script:alert(1)",
        "javascript%3Aalert(1)",
        "java\\script:alert(1)&colon;",
    ] {
        for markdown in [
            format!("[words](<{}>)", hostile.replace(['<', '>'], "")),
            format!("![words](<{}>)", hostile.replace(['<', '>'], "")),
            format!("[words][r]\n\n[r]: <{}>", hostile.replace(['<', '>'], "")),
            format!("[r]\n\n[r]: <{}> 'words'", hostile.replace(['<', '>'], "")),
        ] {
            let (kept, text) = targets(from_markdown_with(&markdown, &untrusted()));
            // A backslash ends a possible scheme.
            if !hostile.contains("java\\") {
                assert_eq!(kept, [""; 0], "{markdown}");
            }
            assert!(text.contains("words") || text == "r", "{markdown}: {text}");
            let (all, _) = targets(from_markdown(&markdown));
            assert_eq!(all.len(), 1, "without the filter targets pass: {markdown}");
        }
    }
    let (kept, text) = targets(from_markdown_with(
        "<javascript:alert(1)> ![](data:x)",
        &untrusted(),
    ));
    assert_eq!((kept, text.as_str()), (vec![], "javascript:alert(1) "));
}

#[test]
fn harmless_targets_are_kept() {
    for harmless in [
        "http://example.org/a:b?c&d#e:f",
        "HTTPS://example.org",
        "mailto:ann@example.org",
        "page.html",
        "page.html?a=b&c=d:e",
        "../up/a:b",
        "#top:x&y",
        "?q=javascript:x",
        "//example.org",
        "",
        "a%20b.png",
    ] {
        assert!(TargetFilter::web().allows(harmless), "{harmless}");
        let markdown = format!("[words](<{harmless}>) ![words](<{harmless}>)");
        assert_eq!(
            from_markdown_with(&markdown, &untrusted()),
            from_markdown(&markdown)
        );
    }
    let (kept, _) = targets(from_markdown_with("<ann@example.org>", &untrusted()));
    assert_eq!(kept, ["mailto:ann@example.org"]);
}

#[test]
fn a_target_filter_selects_schemes_and_relative_targets() {
    let filter = TargetFilter::schemes(["HTTPS", "data"]).absolute_only();
    for (target, kept) in [
        ("https://a", true),
        ("Data:image/png", true),
        ("http://a", false),
        ("a.png", false),
        ("", false),
        ("javascript:x", false),
    ] {
        assert_eq!(filter.allows(target), kept, "{target}");
    }
    assert!(TargetFilter::any().absolute_only().allows("a"));
    let options = MarkdownOptions::new().targets(filter);
    let (kept, text) = targets(from_markdown_with("[a](b) [c](data:d)", &options));
    assert_eq!((kept, text.as_str()), (vec!["data:d".to_owned()], "a c"));
}

#[test]
fn a_document_is_written_without_the_targets_that_are_refused() {
    let link = |href: &str| Mark::new("link", 0..1).with_attributes([("href", href.into())]);
    let image = Mark::new("image", 2..3).with_attributes([("src", "data:x".into())]);
    let em = Mark::new("em", 0..1);
    let (transaction, root) = created(paragraph("a b", [link(" java\nscript:x"), image, em]));
    assert_eq!(
        to_markdown_with(&transaction, &root, &untrusted()).unwrap(),
        "*a* b\n"
    );
    let all = to_markdown(&transaction, &root).unwrap();
    assert!(all.contains("data:x"), "{all}");
    let (transaction, root) = created(paragraph("a", [link("https://x")]));
    assert_eq!(
        to_markdown_with(&transaction, &root, &untrusted()).unwrap(),
        "[a](https://x)\n"
    );
    assert!(to_markdown_with(&transaction, &"gone".into(), &untrusted()).is_err());
}

proptest! {
    #![proptest_config(cases(1000))]

    /// For any disguise, a browser finds only allowed schemes in the result.
    #[test]
    fn a_disguised_scheme_is_filtered(
        scheme in prop::sample::select(vec!["javascript", "data", "vbscript", "https", "x"]),
        disguise in prop::collection::vec((0..12usize, prop::sample::select(vec![
            " ", "\t", "\n", "\0", "\u{1}", "\u{7f}", "\u{85}", "\u{a0}", "\u{ad}", "\u{200b}", "\u{feff}", "&#9;", "&Tab;",
            "&#x6a;", "&colon;", "&#58", "&amp;", "\\", "%3a", "/", "é", "J", "A", ":",
        ])), 0..4),
        upper in any::<u16>(),
        image in any::<bool>(),
    ) {
        let mut target: Vec<String> = format!("{scheme}:alert(1)").chars().enumerate().map(|(at, char)| {
            match upper >> (at % 16) & 1 {
                1 => char.to_ascii_uppercase().to_string(),
                _ => char.to_string(),
            }
        }).collect();
        for (at, piece) in disguise {
            target.insert(at.min(target.len()), piece.to_owned());
        }
        let target = target.concat();
        let bang = if image { "!" } else { "" };
        let markdown = format!("{bang}[a](<{target}>) {bang}[b]({target}) <{target}>\n\n[c]: <{target}>\n\n{bang}[c]");
        let document = from_markdown_with(&markdown, &untrusted());
        let (transaction, root) = created(document.clone());
        for kept in targets(document).0 {
            let scheme = browser_scheme(&kept);
            let safe = scheme.is_none_or(|scheme| ["http", "https", "mailto"].contains(&scheme.as_str()));
            prop_assert!(safe, "{:?} in {:?}", kept, markdown);
        }
        // The same after writing and reading again, or if only writing filters.
        let written = to_markdown(&transaction, &root).unwrap();
        let (trusting, all) = created(from_markdown(&markdown));
        let filtered = to_markdown_with(&trusting, &all, &untrusted()).unwrap();
        for markdown in [written, filtered] {
            for kept in targets(from_markdown(&markdown)).0 {
                let scheme = browser_scheme(&kept);
                let safe = scheme.is_none_or(|scheme| ["http", "https", "mailto"].contains(&scheme.as_str()));
                prop_assert!(safe, "{:?} in {:?}", kept, markdown);
            }
        }
    }
}
