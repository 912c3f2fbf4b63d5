//! What an undo makes of a document does not depend on when the store recorded the commits before
//! it, or forgot what can no longer be redone.

use std::time::Duration;

use doclock::{
    Draft, Editor, NodeId, View,
    document::{Mark, SplitPoint},
    dsl::*,
    history::HistoryOptions,
    transaction::Operation,
};

use super::{image, run};
use crate::common::{Dice, record, store};

/// Editors of a page with a text, each edit an entry of its own.
struct Page {
    editors: [Editor; 2],
    /// One without a history.
    other: Editor,
    /// Whether each commit is recorded at once. Otherwise an undone edit that can no longer be
    /// redone is in no record.
    records: bool,
}

impl Page {
    fn edit(&self, who: usize, operation: Operation) {
        run(&self.editors[who], operation);
        self.record();
    }

    fn undo(&self, who: usize) {
        self.editors[who].undo().commit().unwrap();
        self.record();
    }

    fn redo(&self, who: usize) {
        self.editors[who].redo().commit().unwrap();
        self.record();
    }

    fn record(&self) {
        if self.records {
            record(self.editors[0].store());
        }
    }

    /// The texts of the page.
    fn texts(&self) -> Vec<String> {
        let document = self.editors[0].store().snapshot();
        let texts = document.children("page").map(|node| node.text());
        texts.map(ToString::to_string).collect()
    }

    /// An attribute of the node `t`.
    fn level(&self) -> Option<i64> {
        let document = self.editors[0].store().snapshot();
        document.node("t")?.attributes().get("level")?.as_i64()
    }
}

/// A page that has the text `xy` in the node `t`.
fn page(records: bool) -> Page {
    let store = store();
    let mut setup = store.begin("setup").unwrap();
    let text = text_node("item", "xy").with_id("t");
    let page = element("page", [text]).with_id("page");
    setup.create(page).unwrap();
    setup.commit().unwrap();
    let options = HistoryOptions::new().group_interval(Duration::ZERO);
    let editor = |name| Editor::new(store.clone(), name).with_history(options.clone());
    let editors = ["ann", "bob"].map(editor);
    let without = HistoryOptions::new().limit(0);
    let other = Editor::new(store.clone(), "other").with_history(without);
    Page {
        editors,
        other,
        records,
    }
}

/// Runs an example on a page, recorded at once and later.
fn in_both_ways(example: impl Fn(&Page)) {
    for records in [false, true] {
        println!("recorded at once: {records}");
        example(&page(records));
    }
}

fn split(at: usize) -> Operation {
    let at = SplitPoint {
        text: at,
        children: 0,
    };
    op(move |on| on.split_node("t", at, None).map(drop))
}

/// The hidden text was behind the edge of the split, before which the letter came.
#[test]
fn undo_03_hidden_text_returns_before_a_later_letter_beside_a_split_that_was_undone() {
    in_both_ways(|page| {
        page.edit(0, split(0));
        page.undo(0);
        page.edit(0, delete_text_range(0, 2).on("t"));
        page.edit(1, insert_text(0, "b").on("t"));
        page.undo(0);
        assert_eq!(page.texts(), ["xyb"]);
    });
}

/// The undone letter was hidden behind the edge of the split.
#[test]
fn undo_03_a_redone_letter_comes_before_a_later_one_beside_a_split_that_was_undone() {
    in_both_ways(|page| {
        page.edit(0, split(0));
        page.undo(0);
        page.edit(0, insert_text(1, "a").on("t"));
        page.undo(0);
        page.edit(1, delete_text_range(0, 1).on("t"));
        page.edit(1, insert_text(0, "b").on("t"));
        page.redo(0);
        assert_eq!(page.texts(), ["aby"]);
    });
}

/// Where a text is divided, the same counts.
#[test]
fn undo_03_hidden_text_returns_to_the_same_half_beside_a_split_that_was_undone() {
    in_both_ways(|page| {
        page.edit(0, split(0));
        page.undo(0);
        page.edit(0, delete_text_range(0, 2).on("t"));
        page.edit(1, split(0));
        page.undo(0);
        assert_eq!(page.texts(), ["xy", ""]);
    });
}

/// The text of the joined node came before the edge of another join, which was undone.
#[test]
fn undo_03_joined_text_comes_behind_hidden_text_beside_a_join_that_was_undone() {
    in_both_ways(|page| {
        let add = |id: &str, text: &str, at| {
            let node = text_node("item", text).with_id(id);
            add_child(node, at).on("page")
        };
        let join = |id: &'static str| op(move |on: &mut Draft| on.join_nodes("t", id));
        page.edit(1, add("m", "z", None));
        page.edit(0, split(1));
        page.edit(1, add("n", "", Some(1)));
        page.edit(0, join("n"));
        page.undo(0);
        page.edit(1, move_node("page", 3).on("n"));
        page.undo(0);
        page.edit(0, delete_text_range(1, 2).on("t"));
        page.edit(1, join("m"));
        page.undo(0);
        assert_eq!(page.texts(), ["xyz", ""]);
    });
}

/// A split that can be redone takes a letter that was typed beside it along to the right half.
#[test]
fn undo_03_a_redone_split_has_letters_in_the_order_in_which_they_were_visible() {
    in_both_ways(|page| {
        page.edit(0, split(1));
        page.undo(0);
        page.edit(1, insert_text(1, "b").on("t"));
        page.redo(0);
        assert_eq!(page.texts(), ["x", "by"]);
        page.undo(0);
        assert_eq!(page.texts(), ["xby"]);
    });
}

/// The node is there again for Ann's letter, and with it what Bob's edit wrote before it removed
/// the node.
#[test]
fn undo_03_a_node_that_returns_for_a_redo_has_the_last_value_in_effect() {
    in_both_ways(|page| {
        page.edit(
            0,
            op(|on| {
                on.set_attrs("t", [("level", 1.into())])?;
                on.insert_text("t", 0, "a")
            }),
        );
        page.undo(0);
        page.edit(
            1,
            op(|on| {
                on.set_attrs("t", [("level", 2.into())])?;
                on.delete("t")
            }),
        );
        page.redo(0);
        assert_eq!((page.texts(), page.level()), (vec!["a".into()], Some(2)));
        page.undo(1);
        assert_eq!((page.texts(), page.level()), (vec!["axy".into()], Some(1)));
        page.redo(1);
        assert_eq!((page.texts(), page.level()), (vec!["a".into()], Some(2)));
    });
}

/// Bob's write made the store record the later one, which is never undone.
#[test]
fn undo_03_a_created_node_stays_for_an_attribute_that_is_set_for_good() {
    in_both_ways(|page| {
        let node = text_node("item", "z").with_id("n");
        page.edit(0, add_child(node, None).on("page"));
        let level = |level: usize| set_attrs([("level", level.into())]).on("n");
        page.edit(1, level(1));
        page.undo(1);
        page.edit(1, insert_text(0, "b").on("t"));
        run(&page.other, level(2));
        page.record();
        page.undo(0);
        assert_eq!(page.texts(), ["bxy", ""]);
    });
}

/// The later edit is that of an editor that ends before it is recorded, so it is never undone.
#[test]
fn undo_03_a_node_that_is_there_for_others_stays_for_an_edit_for_good() {
    in_both_ways(|page| {
        let node = text_node("item", "z").with_id("n");
        page.edit(0, add_child(node, None).on("page"));
        page.edit(1, insert_text(0, "bb").on("n"));
        page.undo(0);
        let carl = Editor::new(page.other.store().clone(), "carl");
        run(&carl, delete_text_range(0, 1).on("n"));
        page.record();
        drop(carl);
        page.undo(1);
        assert_eq!(page.texts(), ["xy", ""]);
    });
}

/// A random edit of a page with few and short texts.
fn edit(dice: &mut Dice, editor: &Editor) {
    let document = editor.store().snapshot();
    let texts: Vec<NodeId> = document
        .children("page")
        .map(|it| it.id().clone())
        .collect();
    if texts.is_empty() {
        let insert = |on: &mut Draft| on.insert(text_node("item", "z"), "page", 0).map(drop);
        return run(editor, op(insert));
    }
    let (nth, what, at) = (dice.below(texts.len()), dice.below(20), dice.below(1_000));
    let (length, place) = (dice.below(4), dice.below(texts.len()));
    let (id, next) = (texts[nth].clone(), texts.get(nth + 1).cloned());
    let len = document.node(&id).unwrap().text().len();
    let at = at % (len + 1);
    let range = at..(at + length).min(len);
    let letter = char::from_u32(0x4e00 + document.version() as u32).unwrap();
    let change = move |on: &mut Draft| match (what, &next) {
        (0..6, _) => on.insert_text(&id, at, letter.to_string()),
        (6..10, _) => on.delete_text(&id, range.clone()),
        (10..13, _) => {
            let at = SplitPoint {
                text: at,
                children: 0,
            };
            on.split_node(&id, at, None).map(drop)
        }
        (13..15, Some(next)) => on.join_nodes(&id, next),
        (15, _) => on.set_marks(&id, [Mark::new("bold", range.clone())]),
        (16, _) => on.set_attrs(&id, [("level", length.into())]),
        (17, _) => on.move_node(&id, "page", place),
        (18, _) if place > 0 => on.delete(&id),
        _ => on.insert(text_node("item", "z"), "page", place).map(drop),
    };
    run(editor, op(change));
}

/// Two editors and one without a history edit a page at random, in both ways.
fn compare(seed: u64, steps: usize) -> Result<(), String> {
    let mut worlds = [false, true].map(|records| (page(records), Dice(seed)));
    for step in 0..steps {
        let images = worlds.each_mut().map(|(page, dice)| {
            let editor = &page.editors[dice.below(2)];
            match dice.below(20) {
                0..5 => drop(editor.undo().commit()),
                5..7 => drop(editor.redo().commit()),
                7..10 => edit(dice, &page.other),
                _ => edit(dice, editor),
            }
            page.record();
            image(editor)
        });
        let [waiting, recorded] = &images;
        if waiting != recorded {
            return Err(format!(
                "SEED={seed}, step {step}: {waiting} and {recorded}"
            ));
        }
    }
    Ok(())
}

/// `SEED` is that of the first history.
#[test]
fn undo_03_an_undo_does_not_depend_on_when_commits_are_recorded() {
    let number = |name: &str, default| {
        let value = std::env::var(name).ok().and_then(|it| it.parse().ok());
        value.unwrap_or(default)
    };
    let (seed, histories) = (number("SEED", 0), number("DOCLOCK_HISTORIES", 300));
    let all = seed..seed + histories;
    let failed: Vec<String> = all.filter_map(|seed| compare(seed, 30).err()).collect();
    assert!(
        failed.is_empty(),
        "{} of {histories}: {}",
        failed.len(),
        failed[0]
    );
}
