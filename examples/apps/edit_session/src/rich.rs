//! Edits of a rich text editor on a text and the blocks around it: every operation beyond typing,
//! deleting and moving.

use std::ops::Range;

use doclock::dsl::*;
use doclock::{
    Snapshot, View,
    document::{Attributes, EditError, Fragment, Node, Selection},
    transaction::{Operation, TextSpan},
};

use crate::random::Random;
use crate::walk::{TEXT, Walk};

/// A text, its block, and the parent of that block.
struct Place<'v> {
    document: &'v Snapshot,
    path: &'v [&'v Node],
    container: &'v Node,
    block: &'v Node,
    text: &'v Node,
    len: usize,
}

/// One such edit, for the text at the end of the walk.
pub fn edit(document: &Snapshot, walk: &Walk<'_>, random: &mut Random) -> Option<Vec<Operation>> {
    let path = walk.path();
    let [.., container, block, text] = path else {
        return None;
    };
    if text.kind() != TEXT {
        return None;
    }
    let place = Place {
        document,
        path,
        container,
        block,
        text,
        len: text.text().len(),
    };
    // A family that does not fit here passes to the next.
    let families = [
        cut_and_join,
        mark,
        write,
        around,
        list,
        paste_and_copy,
        tell,
        shape,
    ];
    let first = random.below(families.len());
    let turns = families.iter().cycle().skip(first).take(families.len());
    turns.into_iter().find_map(|family| family(&place, random))
}

fn cut_and_join(place: &Place<'_>, random: &mut Random) -> Option<Vec<Operation>> {
    let (text, block) = (place.text.id(), place.block.id());
    let at = random.below(place.len + 1);
    let children = place.block.children().len();
    Some(match random.below(7) {
        0 => vec![insert_paragraph(at).on(text)],
        1 => vec![insert_paragraph_of(at, "paragraph").on(text)],
        2 => vec![split_text_node(at).on(text)],
        3 => vec![
            split_text_node(at).on(text).named("right"),
            merge_text_nodes(alias("right")).on(text),
        ],
        4 => vec![
            split_block_node(random.below(children + 1))
                .on(block)
                .named("right"),
            merge_block_nodes(alias("right")).on(block),
        ],
        5 => vec![split_block_node(random.below(children + 1)).on(block)],
        _ => vec![auto_merge_text_nodes().on(block)],
    })
}

fn mark(place: &Place<'_>, random: &mut Random) -> Option<Vec<Operation>> {
    let kind = random.pick(["bold", "em", "code", "strikethrough"]);
    let Range { start, end } = place.stretch(random)?;
    let link = || Attributes::from_iter([("href", "#".into())]);
    // Into a later text of the same block, if there is one.
    let extent = match place.later_text(random) {
        Some(later) => TextSpan::to(start, later.id(), random.below(later.text().len() + 1)),
        None => TextSpan::from(start..end),
    };
    let text = place.text.id();
    Some(match random.below(8) {
        0 => vec![apply_mark(kind, extent).on(text)],
        1 => vec![apply_mark_with("link", link(), extent).on(text)],
        2 => vec![toggle_mark(kind, extent).on(text)],
        3 => vec![remove_mark(kind, extent).on(text)],
        4 => vec![clear_formatting(extent).on(text)],
        5 => vec![control(
            text,
            [
                apply_mark_with("link", link(), start..end),
                update_mark("link", [("title", "here".into())], start..end),
            ],
        )],
        6 => vec![set_marks([]).on(text)],
        _ => vec![toggle_mark(kind, ..).on(text)],
    })
}

fn write(place: &Place<'_>, random: &mut Random) -> Option<Vec<Operation>> {
    let Range { start, end } = place.stretch(random)?;
    let text = place.text.id();
    Some(match random.below(7) {
        0 => vec![wrap_text("“", "”", start..end).on(text)],
        1 => vec![control(
            text,
            [
                wrap_text("(", ")", start..end),
                unwrap_text("(", ")", start..end + 2),
            ],
        )],
        2 => vec![indent_text("  ", ..).on(text)],
        3 => vec![outdent_text("  ", ..).on(text)],
        4 => vec![replace_pattern("(an)d|(t)urn", "$1$2").on(text)],
        5 => match place.later_text(random) {
            Some(later) => vec![delete_range(TextSpan::to(start, later.id(), 0)).on(text)],
            None => vec![delete_range(start..end).on(text)],
        },
        _ => vec![update_node([("lang", "en".into())], Some(random.words().into()), None).on(text)],
    })
}

/// Moves, copies and wraps the block.
fn around(place: &Place<'_>, random: &mut Random) -> Option<Vec<Operation>> {
    let quote = || element("block-quote", []);
    let block = place.block.id();
    Some(match random.below(7) {
        0 => vec![move_block_up().on(block)],
        1 => vec![move_block_down().on(block)],
        2 => vec![
            copy_node().on(block).named("copy"),
            delete_node().on(alias("copy")),
        ],
        3 => vec![clone_node_with_children().on(block)],
        4 => vec![wrap_node(quote()).on(block)],
        5 if place.container.kind() == "block-quote" => vec![lift_node().on(block)],
        _ => vec![wrap_node(quote()).on(block), lift_node().on(block)],
    })
}

fn list(place: &Place<'_>, random: &mut Random) -> Option<Vec<Operation>> {
    let in_list = |pair: &&[&Node]| pair[0].kind() == "list" && pair[1].kind() == "list-item";
    let Some(pair) = place.path.windows(2).rfind(in_list) else {
        let wrapped = wrap_in_list(element("list", []), element("list-item", []));
        return Some(vec![wrapped.on(place.block.id())]);
    };
    let item = pair[1].id();
    let at = random.below(place.len + 1);
    Some(match random.below(3) {
        0 => vec![split_list_item(at, "list-item").on(place.text.id())],
        1 => vec![indent_node_in(element("list", [])).on(item)],
        _ => vec![
            indent_node_in(element("list", [])).on(item),
            outdent_node().on(item),
        ],
    })
}

fn paste_and_copy(place: &Place<'_>, random: &mut Random) -> Option<Vec<Operation>> {
    let Range { start, end } = place.stretch(random)?;
    let text = place.text.id();
    let fragment = Fragment {
        nodes: vec![text_node(TEXT, random.words())],
        ..Fragment::default()
    };
    Some(match random.below(3) {
        0 => vec![control(text, [copy_range(start..end), paste(start)])],
        1 => vec![control(text, [cut_range(start..end), paste(start)])],
        _ => vec![paste_fragment(start, fragment).on(text)],
    })
}

/// Selects, names, and checks preconditions.
fn tell(place: &Place<'_>, random: &mut Random) -> Option<Vec<Operation>> {
    let Range { start, end } = place.stretch(random)?;
    let (text, block) = (place.text.id(), place.block.id());
    let nothing = |_: &mut doclock::Draft| Ok::<(), EditError>(());
    Some(match random.below(6) {
        0 => vec![select_range(start..end).on(text)],
        1 => vec![select_node().on(block)],
        2 => vec![
            set_selection(Selection::caret(text, start)),
            clear_selection(),
        ],
        3 => vec![if_unchanged(place.document.version())],
        4 => vec![set_root().on(place.document.root()?)],
        _ => vec![op_with_inverse(nothing, nothing)],
    })
}

/// Changes the type of a block, and the order of its children.
fn shape(place: &Place<'_>, random: &mut Random) -> Option<Vec<Operation>> {
    let block = place.block.id();
    let children: Vec<_> = place.block.children().iter().cloned().collect();
    Some(match random.below(5) {
        0 => {
            let kind = random.pick(["paragraph", "heading"]);
            vec![transform_node(kind, [("level", (1 + random.below(6)).into())]).on(block)]
        }
        1 => vec![remove_attrs(["align", "level"]).on(block)],
        2 => vec![reorder_children(children.iter().rev()).on(block)],
        3 => vec![move_children(children.iter(), block, 0).on(block)],
        _ => {
            let back = children.iter().map(|child| add_child(child, None));
            vec![
                remove_children(children.iter()).on(block),
                control(block, back),
            ]
        }
    })
}

impl<'v> Place<'v> {
    /// Some characters of the text.
    fn stretch(&self, random: &mut Random) -> Option<Range<usize>> {
        let start = random.below(self.len);
        let end = (start + 1 + random.below(20)).min(self.len);
        (start < end).then_some(start..end)
    }

    /// A text that comes later in the same block.
    fn later_text(&self, random: &mut Random) -> Option<&'v Node> {
        let children = self.document.children(self.block.id());
        let later = children
            .skip_while(|node| node.id() != self.text.id())
            .skip(1);
        let later: Vec<_> = later.filter(|node| node.kind() == TEXT).collect();
        later.get(random.below(2 * later.len())).copied()
    }
}
