//! Undo under a schema: the children that it requires are added, as a part of the commit.

use std::collections::HashSet;
use std::time::Duration;

use doclock::{
    CommitError, DataStore, Draft, Editor, NodeId, Snapshot, StoreOptions, View,
    document::{Change, EditError, NodeSpec, SplitPoint},
    dsl::*,
    history::{HistoryOptions, UndoError},
    lock::node::Scope,
    schema::{AttributeSpec, NodeType, Schema, SchemaViolation, ValueType},
    transaction::TransactionResult,
};
use doclock_formats::prosemirror::ProseMirrorNames;

use super::{exists, run};
use crate::common::{Dice, children, id, image, seed};

/// Lists whose items begin with a paragraph, and tables, with what else a document has.
fn lists_and_tables(document: &str) -> Schema {
    let node = |content: &str| NodeType::new().content(content);
    let types = Schema::builder()
        .node("document", node(document))
        .node("title", NodeType::new().text(true).group("heading"))
        .node("paragraph", node("inline-text*").group("block"))
        .node("list", node("list-item+").group("block"))
        .node("list-item", node("paragraph block*"))
        .node("table", node("table-row+").group("block"))
        .node("table-row", node("table-cell+"))
        .node("table-cell", node("block+"))
        .node("inline-text", NodeType::new().text(true));
    types.build().unwrap()
}

fn editors<const N: usize>(schema: Schema) -> [Editor; N] {
    let options = StoreOptions::new().schema(schema).kept_commits(1 << 20);
    let store = DataStore::with_options(options);
    let options = HistoryOptions::new().group_interval(Duration::ZERO);
    std::array::from_fn(|nth| {
        let editor = Editor::new(store.clone(), format!("editor {nth}"));
        editor.with_history(options.clone())
    })
}

fn paragraph(text: &str) -> NodeSpec {
    element("paragraph", [text_node("inline-text", text)])
}

fn item(name: &str) -> NodeSpec {
    element("list-item", [paragraph(name)]).with_id(name)
}

/// Ann has added an item to a list, and Bob has deleted the other one.
fn one_item_left() -> [Editor; 2] {
    let [ann, bob] = editors(lists_and_tables("block+"));
    let list = element("list", [item("one")]).with_id("list");
    run(&bob, create(element("document", [list]).with_id("page")));
    run(&ann, add_child(item("two"), 1).on("list"));
    run(&bob, delete_node().on("one"));
    [ann, bob]
}

fn of_list(editor: &Editor) -> Vec<String> {
    children(&editor.store().snapshot(), "list")
}

fn now(editor: &Editor) -> String {
    image(&editor.store().snapshot())
}

#[test]
fn undo_03_an_undo_that_takes_a_required_child_adds_another() {
    let [ann, _bob] = one_item_left();
    let commits = ann.store().subscribe();
    let before = now(&ann);
    let result = ann.undo().commit().unwrap();
    let undone = now(&ann);
    let [new] = &of_list(&ann)[..] else {
        panic!("{:?}", of_list(&ann));
    };
    assert!(new != "one" && new != "two");
    let view = ann.store().snapshot();
    assert_eq!(view.children(&id(new)).next().unwrap().kind(), "paragraph");

    // Others read of it in that version.
    let event = commits.try_recv().unwrap();
    assert_eq!(event.commit.changes, result.changes);
    let is_new = |change: &Change| matches!(change, Change::InsertSubtree { .. });
    assert!(result.changes.iter().any(is_new));

    ann.redo().commit().unwrap();
    assert_eq!(now(&ann), before);
    ann.undo().commit().unwrap();
    assert_eq!(now(&ann), undone, "the same child is there again");
}

#[test]
fn undo_03_an_added_child_stays_beside_one_that_returns() {
    let [ann, bob] = one_item_left();
    ann.undo().commit().unwrap();
    bob.undo().commit().unwrap();
    assert_eq!(of_list(&ann).len(), 2);
    ann.redo().commit().unwrap();
    assert_eq!(of_list(&ann), ["one", "two"]);
}

#[test]
fn undo_03_an_added_child_in_which_others_wrote_stays_after_the_redo() {
    let [ann, bob] = one_item_left();
    ann.undo().commit().unwrap();
    let view = ann.store().snapshot();
    let item = id(&of_list(&ann)[0]);
    let block = view.children(&item).next().unwrap().id().clone();
    let text = text_node("inline-text", "b").with_id("by-bob");
    run(&bob, add_child(text, 0).on(&block));
    ann.redo().commit().unwrap();
    assert!(exists(&ann, "by-bob") && exists(&ann, "two"));
    bob.undo().commit().unwrap();
    assert_eq!(of_list(&ann), ["two"]);
}

#[test]
fn undo_03_a_redo_that_takes_a_required_child_adds_another_until_it_is_undone() {
    let [ann, bob] = editors(lists_and_tables("block+"));
    let list = element("list", [item("one"), item("two")]).with_id("list");
    run(&bob, create(element("document", [list])));
    run(&ann, delete_node().on("one"));
    ann.undo().commit().unwrap();
    run(&bob, delete_node().on("two"));
    let before = now(&ann);
    ann.redo().commit().unwrap();
    let redone = now(&ann);
    assert_eq!(of_list(&ann).len(), 1);
    assert!(!exists(&ann, "one"));
    ann.undo().commit().unwrap();
    assert_eq!(now(&ann), before);
    ann.redo().commit().unwrap();
    assert_eq!(now(&ann), redone);
}

#[test]
fn undo_04_a_restored_history_knows_the_added_child() {
    let [ann, bob] = one_item_left();
    let store = ann.store().clone();
    let before = now(&ann);
    ann.undo().commit().unwrap();
    let undone = now(&ann);
    let restored = |editor: Editor| {
        let owner = editor.owner().clone();
        drop(editor);
        Editor::new(store.clone(), owner).with_restored_history()
    };
    let ann = restored(ann);
    ann.redo().commit().unwrap();
    assert_eq!(now(&ann), before);
    let ann = restored(ann);
    ann.undo().commit().unwrap();
    assert_eq!(now(&ann), undone);
    drop(bob);
}

#[test]
fn undo_03_an_undo_beside_a_held_node_adds_a_required_child() {
    let [ann, bob] = one_item_left();
    bob.undo().commit().unwrap();
    let other = element("list", [item("other")]).with_id("elsewhere");
    run(&bob, add_child(other, 1).on("page"));
    let carl = Editor::new(ann.store().clone(), "carl").with_node_locks(3);
    run(&carl, add_child(item("three"), 1).on("list"));
    for item in ["one", "two"] {
        run(&bob, delete_node().on(item));
    }
    let scope = Scope::new().write_subtree("elsewhere");
    let _held = ann.store().begin_on("dora", scope).unwrap();
    let counted = ann.store().node_locks().stats().total_acquisitions;
    std::thread::scope(|threads| {
        let undo = || carl.undo().timeout(Duration::ZERO).commit();
        threads.spawn(undo).join().unwrap().unwrap();
    });
    assert!(counted < ann.store().node_locks().stats().total_acquisitions);
    assert_eq!(of_list(&ann).len(), 1);
}

/// A node whose type has an attribute without a default cannot be made.
#[test]
fn undo_03_an_undo_is_refused_if_no_required_child_can_be_made() {
    let image =
        NodeType::new().attribute("source", AttributeSpec::new(ValueType::String).required());
    let types = Schema::builder().node("gallery", NodeType::new().content("image+"));
    let [ann, bob] = editors(types.node("image", image).build().unwrap());
    let image = |id: &str| {
        let image = element("image", []).with_id(id);
        image.with_attributes([("source", "cat.png".into())])
    };
    run(
        &bob,
        create(element("gallery", [image("one")]).with_id("list")),
    );
    run(&ann, add_child(image("two"), 1).on("list"));
    run(&bob, delete_node().on("one"));
    let before = now(&ann);
    let error = ann.undo().commit().unwrap_err();
    let UndoError::Commit(CommitError::Schema(violation)) = error else {
        panic!("{error}");
    };
    assert!(matches!(
        *violation,
        SchemaViolation::ChildrenMissing { .. }
    ));
    assert_eq!(now(&ann), before);
}

type RandomEdit = Box<dyn Fn(&mut Draft) -> Result<(), EditError> + Send + Sync>;

/// Several editors edit, undo and redo under a schema.
struct World {
    people: [Editor; 3],
    schema: Schema,
    kinds: [&'static str; 8],
    dice: Dice,
    nodes: usize,
    known: HashSet<NodeId>,
    /// How many undos and redos added a child, and how many were compared.
    added: usize,
    compared: usize,
    /// How many were refused because of a child where its type is not allowed at all.
    misplaced: usize,
}

impl World {
    fn new(schema: Schema, seed: u64) -> Self {
        let all = [
            "paragraph",
            "list",
            "list-item",
            "table",
            "table-row",
            "table-cell",
            "block-quote",
            "title",
        ];
        let mut world = Self {
            people: editors(schema.clone()),
            schema,
            kinds: all,
            dice: Dice(seed),
            nodes: 0,
            known: HashSet::new(),
            added: 0,
            compared: 0,
            misplaced: 0,
        };
        let blocks = ["list", "table", "paragraph"].map(|kind| world.spec(kind));
        let title = element("title", []).with_id("title");
        let with_title = element("document", [vec![title], blocks.to_vec()].concat());
        let setup = Editor::new(world.people[0].store().clone(), "setup");
        if transaction(&setup, create(with_title)).commit().is_err() {
            run(&setup, create(element("document", blocks)));
        }
        world
    }

    fn view(&self) -> Snapshot {
        self.people[0].store().snapshot()
    }

    /// A new node with what it needs.
    fn spec(&mut self, kind: &str) -> NodeSpec {
        let inner = match kind {
            "list" => Some("list-item"),
            "list-item" | "table-cell" | "block-quote" => Some("paragraph"),
            "table" => Some("table-row"),
            "table-row" => Some("table-cell"),
            _ => None,
        };
        let count = inner.map_or(0, |_| 1 + self.dice.below(2));
        let children: Vec<_> = (0..count).filter_map(|_| Some(self.spec(inner?))).collect();
        self.nodes += 1;
        let text = text_node("inline-text", "abc").with_id(format!("t{}", self.nodes).as_str());
        let children = match kind {
            "paragraph" => vec![text],
            _ => children,
        };
        element(kind, children).with_id(format!("n{}", self.nodes).as_str())
    }

    /// Edits at random. What the schema refuses changes nothing.
    fn edit(&mut self, who: usize) {
        let view = self.view();
        let mut nodes: Vec<NodeId> = view.nodes().map(|node| node.id().clone()).collect();
        nodes.sort_by_key(ToString::to_string);
        if nodes.is_empty() {
            return;
        }
        let mut edits: Vec<RandomEdit> = Vec::new();
        for _ in 0..=self.dice.below(2) {
            let at = nodes[self.dice.below(nodes.len())].clone();
            let to = nodes[self.dice.below(nodes.len())].clone();
            let room = view.node(&to).map_or(0, |node| node.children().len());
            let index = self.dice.below(room + 1);
            let is_root = view.root() == Some(&at);
            let next = view.next_sibling(&at).map(|next| next.id().clone());
            let what = self.dice.below(if nodes.len() > 60 { 4 } else { 9 });
            edits.push(match (what, next) {
                (0..=2, _) if !is_root => Box::new(move |on| on.delete(&at)),
                (3, Some(next)) => Box::new(move |on| on.join_nodes(&at, &next)),
                (4, _) => Box::new(move |on| on.move_node(&at, &to, index)),
                (5, _) => Box::new(move |on| {
                    let at = SplitPoint {
                        text: 0,
                        children: index,
                    };
                    on.split_node(&to, at, None).map(drop)
                }),
                (6, _) => Box::new(move |on| on.insert_text(&at, 0, "x")),
                _ => {
                    let kind = self.kinds[self.dice.below(self.kinds.len())];
                    let spec = self.spec(kind);
                    Box::new(move |on| on.insert(spec.clone(), &to, index).map(drop))
                }
            });
        }
        let edit = op(move |on: &mut Draft| edits.iter().try_for_each(|edit| edit(on)));
        drop(transaction(&self.people[who], edit).commit());
    }

    /// Notes whether an undo or a redo added a child that was never there before.
    fn note(&mut self, result: &TransactionResult) {
        let is_new = |change: &Change| match change {
            Change::InsertSubtree { nodes, .. } => !self.known.contains(nodes[0].id()),
            _ => false,
        };
        self.added += usize::from(result.changes.iter().any(is_new));
    }

    /// Undoes or redoes. Returns whether that was done: an edit of another editor can be in its
    /// way, or a child is where no added one would help.
    fn turn(&mut self, who: usize, redo: bool) -> Result<bool, String> {
        let person = &self.people[who];
        let outcome = match redo {
            true => person.redo().commit(),
            false => person.undo().commit(),
        };
        let violation = match outcome {
            Ok(result) => {
                self.note(&result);
                return Ok(true);
            }
            Err(UndoError::Commit(CommitError::Schema(violation))) => violation,
            Err(_) => return Ok(false),
        };
        let may_have = |content: &str, kind: &str| {
            let mut names = content.split([' ', '*', '+']);
            let is_block = ["paragraph", "list", "table", "block-quote"].contains(&kind);
            names.any(|name| name == kind || name == "block" && is_block)
        };
        match *violation {
            SchemaViolation::ChildNotAllowed { content, found, .. }
                if !may_have(&content, &found) =>
            {
                self.misplaced += 1;
                Ok(false)
            }
            violation => Err(violation.to_string()),
        }
    }

    /// An undo, its redo and another undo lead to the documents before and after the first one. So
    /// do a redo and its undo, which an edit of another editor can refuse.
    fn there_and_back(&mut self, who: usize, redo: bool) -> Result<(), String> {
        let before = image(&self.view());
        if !self.turn(who, redo)? {
            return Ok(());
        }
        let there = image(&self.view());
        if !self.turn(who, !redo)? {
            return redo
                .then_some(())
                .ok_or_else(|| "a refused redo".to_owned());
        }
        let mut are_same = image(&self.view()) == before;
        are_same &= self.turn(who, redo)? && image(&self.view()) == there;
        self.compared += 1;
        are_same
            .then_some(())
            .ok_or_else(|| "another document".to_owned())
    }

    fn step(&mut self) -> Result<(), String> {
        let nodes: Vec<NodeId> = self.view().nodes().map(|node| node.id().clone()).collect();
        self.known.extend(nodes);
        let who = self.dice.below(3);
        match self.dice.below(8) {
            0 => self.there_and_back(who, false)?,
            1 => self.there_and_back(who, true)?,
            2 => drop(self.turn(who, false)?),
            3 => drop(self.turn(who, true)?),
            _ => self.edit(who),
        }
        let checked = self.schema.check_all(&self.view());
        checked.map_err(|violation| violation.to_string())
    }
}

/// `SEED` is that of the first history, and `DOCLOCK_HISTORIES` sets how many there are.
fn histories(name: &str, schema: &Schema) {
    let count = std::env::var("DOCLOCK_HISTORIES").ok();
    let count = count.map_or(40, |count| count.parse().unwrap());
    let (first, mut added, mut compared, mut misplaced) = (seed(), 0, 0, 0);
    // Few undos need a child, so there are more histories until some did.
    for seed in first..first + 20 * count {
        if seed >= first + count && added * 10 > count {
            break;
        }
        let mut world = World::new(schema.clone(), seed);
        for step in 0..60 {
            if let Err(error) = world.step() {
                panic!("{name}, SEED={seed}, step {step}: {error}");
            }
        }
        added += world.added as u64;
        compared += world.compared as u64;
        misplaced += world.misplaced;
    }
    println!("{name}: {added} added a child, {compared} were compared, {misplaced} misplaced");
    assert!(added * 10 > count && compared > count);
}

#[test]
fn undo_03_no_undo_under_a_schema_of_lists_and_tables_is_refused() {
    histories("lists and tables", &lists_and_tables("block+"));
}

#[test]
fn undo_03_no_undo_under_the_schema_of_tiptap_is_refused() {
    let schema = ProseMirrorNames::tiptap().schema().unwrap();
    histories("tiptap", &schema);
}
