//! The edits of Ann.

use doclock::{
    document::Fragment,
    dsl::*,
    transaction::{Operation, TextSpan},
};

/// An edit of Ann, and the place of it in the document after it.
pub(crate) struct Local {
    /// What she does, as the end of a sentence that begins with her name.
    pub(crate) name: &'static str,
    pub(crate) operations: fn() -> Vec<Operation>,
    /// The letters of the place. The place can be empty.
    pub(crate) letters: &'static str,
    /// The letters before and after the place.
    pub(crate) around: [char; 2],
}

const WORD: [char; 2] = [' ', '-'];

pub(crate) static LOCALS: [Local; 16] = [
    Local {
        name: "types in a word",
        operations: || vec![insert_text(5, "AB").on("tv/text")],
        letters: "AB",
        around: ['o', 'c'],
    },
    Local {
        name: "deletes a word",
        operations: || vec![delete_text_range(3, 7).on("tv/text")],
        letters: "",
        around: WORD,
    },
    Local {
        name: "replaces a word",
        operations: || vec![replace_text(3, 7, "AB").on("tv/text")],
        letters: "AB",
        around: WORD,
    },
    Local {
        name: "makes a word bold",
        operations: || vec![apply_mark("bold", 3..7).on("tv/text")],
        letters: "jock",
        around: WORD,
    },
    Local {
        name: "removes the italics of a word",
        operations: || vec![remove_mark("em", 3..7).on("tv/text")],
        letters: "jock",
        around: WORD,
    },
    Local {
        name: "splits a paragraph in a word",
        operations: || vec![insert_paragraph(5).on("tv/text")],
        letters: "jock",
        around: WORD,
    },
    Local {
        name: "deletes from one paragraph into the next",
        operations: || vec![delete_range(TextSpan::to(11, "quiz/text", 1)).on("tv/text")],
        letters: "agui",
        around: ['b', 'z'],
    },
    Local {
        name: "deletes a paragraph",
        operations: || vec![delete_node().on("tv")],
        letters: "",
        around: ['d', 'q'],
    },
    Local {
        name: "inserts a paragraph",
        operations: || {
            let new = element("p", [text_node("text", "AB")]);
            vec![add_child(new, 2).on("doc")]
        },
        letters: "AB",
        around: ['s', 'q'],
    },
    Local {
        name: "moves a paragraph down",
        operations: || vec![move_block_down().on("tv")],
        letters: "jock",
        around: WORD,
    },
    Local {
        name: "wraps a paragraph in a list",
        operations: || vec![wrap_in_list(element("ul", []), element("li", [])).on("tv")],
        letters: "jock",
        around: WORD,
    },
    Local {
        name: "wraps a paragraph in a quote",
        operations: || vec![wrap_node(element("quote", [])).on("tv")],
        letters: "jock",
        around: WORD,
    },
    Local {
        name: "lifts a paragraph out of a list",
        operations: || vec![lift_node().on("lynx"), lift_node().on("lynx")],
        letters: "yn",
        around: ['l', 'x'],
    },
    Local {
        name: "sets an attribute of a paragraph",
        operations: || vec![set_attrs([("align", "center".into())]).on("tv")],
        letters: "jock",
        around: WORD,
    },
    Local {
        name: "changes the type of a paragraph",
        operations: || vec![transform_node::<&str>("heading", []).on("tv")],
        letters: "jock",
        around: WORD,
    },
    Local {
        name: "pastes two paragraphs into a word",
        operations: || {
            let nodes = ["AB", "CD"].map(|text| element("p", [text_node("text", text)]));
            let fragment = Fragment {
                nodes: nodes.into(),
                open_start: true,
                open_end: true,
                ..Fragment::default()
            };
            vec![paste_fragment(10, fragment).on("tv/text")]
        },
        letters: "ABCD",
        around: ['a', 'g'],
    },
];
