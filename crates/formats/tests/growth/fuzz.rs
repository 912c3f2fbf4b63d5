//! Pages of Markdown: constructs of every kind, random, repeated and nested.

use doclock::DataStore;

use super::budget::{self, SCALE, Shares, magnitude, weight};
use super::common::Dice;
use crate::markdown::{from_markdown, to_markdown};

/// Bytes of a page, about.
const LONGEST: usize = 10_000 * SCALE;

/// Openings with their endings.
const PAIRS: [(&str, &str); 24] = [
    ("*a ", " b*"),
    ("**a ", " b**"),
    ("_a ", " b_"),
    ("~~a ", " b~~"),
    ("[a ", " b](c \"d\")"),
    ("![a ", " b](c)"),
    ("[", "](<>)"),
    ("[a][", "]"),
    ("> ", "\n"),
    ("- ", "\n"),
    ("1. ", "\n"),
    ("- [ ] ", "\n"),
    ("> - ", "\n\n"),
    ("[^a]: ", "\n\n"),
    ("`", "`"),
    ("``` x\n", "\n```\n"),
    ("<a href='b'>", "</a>"),
    ("<!--", "-->"),
    ("\\", ""),
    ("(", ")"),
    ("&", ";"),
    ("|", "|\n"),
    ("***a ", "***"),
    ("*a **b ", "** c*"),
];

/// Constructs without an ending.
const PIECES: [&str; 34] = [
    "word ",
    "\n",
    "\n\n",
    "  \n",
    "# heading\n",
    "---\n",
    "***\n",
    "| a | b |\n|---|:-:|\n| c | d |\n",
    "|a|\n|-|\n",
    "\n\n|a|a|a|a|a|a|a|a|a|a|a|a\n|-|-|-|-|-|-|-|-|-|-|-|-\n",
    "|b\n",
    "|",
    "[^note]",
    "[^note]<http://a.b> ",
    "[^note][a](b)",
    "\n\n[^note]: text\n\n",
    "\n\n[a]: /b 'c'\n\n",
    "[a] ",
    "[a][b]",
    "<http://a.b> ",
    "<a@b.de>",
    "![](b)",
    "[](b)",
    "<div>\n",
    "<b>",
    "&amp; ",
    "&#0;",
    "`a` ",
    "**",
    "_",
    "~",
    "    code\n",
    "\t",
    "漢🦀\r\n",
];

fn page(dice: &mut Dice) -> String {
    let mut page = String::new();
    let longest = magnitude(dice, LONGEST);
    while page.len() < longest {
        let left = longest - page.len();
        let times = magnitude(dice, left);
        match dice.below(4) {
            0 => (0..times.min(200)).for_each(|_| page.push_str(any(dice))),
            1 => {
                // A repeated motif.
                let motif: String = (0..=dice.below(3)).map(|_| any(dice)).collect();
                page.push_str(&motif.repeat(1 + times / motif.len()));
            }
            // Nested, closed or not, with content in the middle.
            _ => {
                let pairs: Vec<_> = (0..=dice.below(2))
                    .map(|_| PAIRS[dice.below(PAIRS.len())])
                    .collect();
                let before: String = pairs.iter().map(|(before, _)| *before).collect();
                let after: String = pairs.iter().rev().map(|(_, after)| *after).collect();
                let levels = 1 + times / (before.len() + after.len());
                page.push_str(&before.repeat(levels));
                let motif = any(dice);
                page.push_str(&motif.repeat(1 + dice.below(1 + times / motif.len())));
                if !dice.one_in(3) {
                    page.push_str(&after.repeat(levels));
                }
            }
        }
    }
    page
}

fn any(dice: &mut Dice) -> &'static str {
    PIECES[dice.below(PIECES.len())]
}

#[test]
fn no_input_takes_more_steps_than_its_size_allows() {
    budget::draw(&[run]);
}

fn run(dice: &mut Dice, shares: &mut Shares) {
    let page = page(dice);
    let store = DataStore::new();
    let mut on = store.begin("fuzz").unwrap();
    let read = || from_markdown(&page);
    let spec = shares.within_budget("reading Markdown", page.len(), read, |spec| spec.len());
    let nodes = spec.len();
    assert!(
        nodes <= 16 + 4 * page.len(),
        "{nodes} nodes of {}",
        page.len()
    );
    let root = on.create(spec).unwrap();
    let write = || to_markdown(&on, &root).unwrap();
    let size = weight(&on);
    let written = shares.within_budget("writing Markdown", size, write, String::len);
    let read = || from_markdown(&written);
    shares.within_budget("reading what was written", written.len(), read, |spec| {
        spec.len()
    });
}
