//! The steps between two versions lead from the one to the other, and are as small as they can be.

use doclock::codes::CodedError;
use doclock::document::{Mark, NodeSpec, SplitPoint};
use doclock::schema::{NodeType, Schema};
use doclock::{DataStore, Draft};
use serde_json::json;

use super::super::positions::tests::{block, edit};
use super::*;
use crate::growth::common::Dice;
use crate::prosemirror::{
    ProseMirrorNames, ProseMirrorStep, from_prosemirror, to_prosemirror, to_steps,
};

fn written(view: &impl View, root: &NodeId, options: &ProseMirrorOptions) -> Value {
    serde_json::from_str(&to_prosemirror(view, root, options).unwrap().0).unwrap()
}

/// Makes steps in a document, which become another document.
fn check(before: &Value, steps: &[Value], after: &Value, options: &ProseMirrorOptions) {
    let mut draft = DataStore::new().begin("test").unwrap();
    let (document, _) = from_prosemirror(&before.to_string(), options).unwrap();
    let root = draft.create(document).unwrap();
    for step in steps {
        let read = ProseMirrorStep::from_json(&step.to_string(), options).unwrap();
        let applied = read.apply(&mut draft, &root, options);
        assert!(
            applied.is_ok(),
            "{applied:?}: {step} of {steps:?} in {before}"
        );
    }
    let found = written(&draft, &root, options);
    // A text without characters is not written.
    let read = |json: &Value| from_prosemirror(&json.to_string(), options).unwrap().0;
    assert_eq!(read(&found), read(after), "{steps:?} in {before}");
}

fn item() -> NodeSpec {
    let text = NodeSpec::new("inline-text").with_text("Io");
    NodeSpec::new("list-item").with_children([NodeSpec::new("paragraph").with_children([text])])
}

/// A list of tasks with two items, one of which is done.
fn tasks() -> NodeSpec {
    let list = NodeSpec::new("list").with_attributes([("kind", "task".into())]);
    list.with_children([item().with_attributes([("checked", true.into())]), item()])
}

/// A random edit of a list or of one of its items.
fn edit_items(draft: &mut Draft, root: &NodeId, dice: &mut Dice) {
    let mut of_kind = |draft: &Draft, kind: &str| {
        let nodes = draft.descendants(root).filter(|node| node.kind() == kind);
        let all: Vec<NodeId> = nodes.map(|node| node.id().clone()).collect();
        (!all.is_empty()).then(|| all[dice.below(all.len())].clone())
    };
    let (list, other) = (of_kind(draft, "list"), of_kind(draft, "list"));
    let task = of_kind(draft, "list-item");
    let (Some(list), Some(other), Some(task)) = (list, other, task) else {
        return drop(draft.insert(tasks(), root, 0));
    };
    let at = |draft: &Draft, list| draft.node(list).unwrap().children().len();
    match dice.below(8) {
        0 => drop(draft.insert(item(), &list, dice.below(at(draft, &list) + 1))),
        1 => drop(draft.set_attrs(&list, [("kind", "task".into())])),
        2 => drop(draft.set_attrs(&list, [("kind", Value::Null)])),
        3 => drop(draft.set_attrs(&task, [("checked", dice.one_in(2).into())])),
        4 => drop(draft.set_attrs(&task, [("checked", Value::Null)])),
        5 => drop(draft.move_node(&task, &other, dice.below(at(draft, &other).max(1)))),
        6 => drop(draft.split_node(
            &task,
            SplitPoint {
                text: 0,
                children: 1,
            },
            None,
        )),
        _ => drop(draft.insert(tasks(), root, 0)),
    }
}

/// Each edit of a task leads to a document with tasks, also as a part of a larger document.
#[test]
fn the_items_of_a_list_of_tasks_stay_tasks() {
    let options = ProseMirrorOptions::new(ProseMirrorNames::tiptap());
    let list = tasks().with_id("list");
    let first = item()
        .with_id("first")
        .with_attributes([("checked", true.into())]);
    let list = list.with_children([first, item()]);
    type Edit = fn(&mut Draft);
    let edits: [(Edit, Edit); 5] = [
        (
            |_| {},
            |draft| drop(draft.insert(item(), "list", 1).unwrap()),
        ),
        (
            |_| {},
            |draft| {
                draft
                    .set_attrs("first", [("checked", Value::Null)])
                    .unwrap()
            },
        ),
        (
            |draft| draft.set_attrs("list", [("kind", Value::Null)]).unwrap(),
            |draft| draft.set_attrs("list", [("kind", "task".into())]).unwrap(),
        ),
        (|_| {}, |draft| draft.move_node("first", "list", 1).unwrap()),
        (
            |_| {},
            |draft| {
                let at = SplitPoint {
                    text: 0,
                    children: 1,
                };
                drop(draft.split_node("first", at, None).unwrap());
            },
        ),
    ];
    for (nth, (prepare, edit)) in edits.into_iter().enumerate() {
        let store = DataStore::new();
        let mut draft = store.begin("ann").unwrap();
        let document = NodeSpec::new("document").with_children([list.clone()]);
        let root = draft.create(document).unwrap();
        prepare(&mut draft);
        draft.commit().unwrap();
        let before = store.snapshot();
        let mut draft = store.begin("ann").unwrap();
        edit(&mut draft);
        let changes = draft.commit().unwrap().changes;
        let after = store.snapshot();
        let steps = to_steps(&before, &after, &changes, &root, &options).unwrap();
        let text = Value::from(steps.clone()).to_string();
        assert!(!text.contains("listItem"), "edit {nth}: {text}");
        let [one, other] = [&before, &after].map(|view| written(view, &root, &options));
        check(&one, &steps, &other, &options);
    }
}

/// A document of nodes that ProseMirror has, among them lists of many children, in which several
/// edits are made at once.
#[test]
fn random_edits_lead_back_and_forth() {
    let given = std::env::var("SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(|| u64::from(std::process::id()));
    println!("SEED={seed}");
    let names = ProseMirrorNames::tiptap();
    let names = names.node("image", "image", ProseMirrorContent::Inline);
    let options = ProseMirrorOptions::new(names);
    let (mut compared, mut made) = (0, 0);
    for nth in 0..60 {
        let mut dice = Dice(seed.wrapping_add(nth));
        let store = DataStore::new();
        let mut import = store.begin("import").unwrap();
        let blocks = (0..dice.below(8)).map(|_| block(&mut dice));
        let blocks: Vec<_> = blocks.chain([tasks()]).collect();
        let document = NodeSpec::new("document").with_children(blocks);
        let root = import.create(document).unwrap();
        import.commit().unwrap();
        let mut before = store.snapshot();
        for _ in 0..20 {
            let mut draft = store.begin("ann").unwrap();
            for _ in 0..1 + dice.below(4) {
                match dice.one_in(4) {
                    true => edit_items(&mut draft, &root, &mut dice),
                    false => edit(&mut draft, &root, &mut dice),
                }
            }
            let changes = draft.commit().unwrap().changes;
            let after = store.snapshot();
            // A document that ProseMirror has, perhaps without some marks.
            let read = |view: &Snapshot| {
                let (json, _) = to_prosemirror(view, &root, &options).unwrap();
                let read = from_prosemirror(&json, &options);
                let is_whole = read.is_ok_and(|(_, dropped)| dropped.is_empty());
                is_whole.then(|| written(view, &root, &options))
            };
            let steps = to_steps(&before, &after, &changes, &root, &options);
            let back = to_steps(&after, &before, &changes, &root, &options);
            if let (Ok(steps), Ok(back)) = (steps, back)
                && let (Some(one), Some(other)) = (read(&before), read(&after))
            {
                compared += 1;
                made += steps.len();
                check(&one, &steps, &other, &options);
                check(&other, &back, &one, &options);
            }
            before = after;
        }
    }
    println!("{compared} pairs of versions, {made} steps");
    assert!(compared > 100 && made > 100);
}

/// A paragraph with a text `t`, a heading, a quote of a paragraph, and a paragraph.
fn document() -> Value {
    let text = |text: &str| json!([{"type": "text", "text": text}]);
    let paragraph = |of: &str| json!({"type": "paragraph", "content": text(of)});
    json!({"type": "doc", "content": [
        paragraph("Hello"),
        {"type": "heading", "attrs": {"level": 1}, "content": text("Moons")},
        {"type": "blockquote", "content": [paragraph("Io")]},
        paragraph("Europa"),
    ]})
}

/// The steps of an edit, whose nodes are those of the document, in order.
fn steps_of(edit: impl FnOnce(&mut Draft, &[NodeId])) -> Value {
    let options = ProseMirrorOptions::new(ProseMirrorNames::basic());
    let store = DataStore::new();
    let mut draft = store.begin("ann").unwrap();
    let (document, _) = from_prosemirror(&document().to_string(), &options).unwrap();
    let root = draft.create(document).unwrap();
    let nodes = draft.descendants(&root).map(|node| node.id().clone());
    let nodes: Vec<NodeId> = nodes.collect();
    draft.commit().unwrap();
    let before = store.snapshot();
    let mut draft = store.begin("ann").unwrap();
    edit(&mut draft, &nodes);
    let changes = draft.commit().unwrap().changes;
    let after = store.snapshot();
    let steps = to_steps(&before, &after, &changes, &root, &options).unwrap();
    let [one, other] = [&before, &after].map(|view| written(view, &root, &options));
    check(&one, &steps, &other, &options);
    steps.into()
}

#[test]
fn everyday_edits_are_small_steps() {
    // The document is node 0. Each paragraph is before its text.
    let letter = steps_of(|draft, nodes| draft.insert_text(&nodes[2], 3, "l").unwrap());
    let slice = json!({"content": [{"type": "text", "text": "l"}]});
    let expected = json!([{"stepType": "replace", "from": 4, "to": 4, "slice": slice}]);
    assert_eq!(letter, expected, "between the two that look like it");

    let deleted = steps_of(|draft, nodes| draft.delete_text(&nodes[2], 1..3).unwrap());
    assert_eq!(
        deleted,
        json!([{"stepType": "replace", "from": 2, "to": 4}])
    );

    let marked = steps_of(|draft, nodes| {
        draft
            .set_marks(&nodes[4], [Mark::new("bold", 1..3)])
            .unwrap();
    });
    let strong = json!({"type": "strong"});
    let expected = json!([{"stepType": "addMark", "mark": strong, "from": 9, "to": 11}]);
    assert_eq!(marked, expected);

    let level = steps_of(|draft, nodes| {
        draft.set_attrs(&nodes[3], [("level", 2.into())]).unwrap();
    });
    let expected = json!([{"stepType": "attr", "pos": 7, "attr": "level", "value": 2}]);
    assert_eq!(level, expected);

    let retyped = steps_of(|draft, nodes| draft.set_type(&nodes[1], "code-block").unwrap());
    assert_eq!(retyped[0]["stepType"], "replaceAround");
    assert_eq!(
        retyped[0]["slice"],
        json!({"content": [{"type": "code_block"}]})
    );

    let split = steps_of(|draft, nodes| {
        let at = |text, children| SplitPoint { text, children };
        draft.split_node(&nodes[2], at(2, 0), None).unwrap();
        draft.split_node(&nodes[1], at(0, 1), None).unwrap();
    });
    let halves = json!([{"type": "paragraph"}, {"type": "paragraph"}]);
    let slice = json!({"content": halves, "openStart": 1, "openEnd": 1});
    let expected = json!([{"stepType": "replace", "from": 3, "to": 3, "slice": slice}]);
    assert_eq!(split, expected);

    let gone = steps_of(|draft, nodes| draft.delete(&nodes[5]).unwrap());
    assert_eq!(gone, json!([{"stepType": "replace", "from": 14, "to": 20}]));

    let unwrapped = steps_of(|draft, nodes| {
        draft.move_node(&nodes[6], &nodes[0], 2).unwrap();
        draft.delete(&nodes[5]).unwrap();
    });
    assert_eq!(unwrapped[0]["stepType"], "replaceAround");
    assert_eq!(
        (&unwrapped[0]["gapFrom"], &unwrapped[0]["gapTo"]),
        (&15.into(), &19.into())
    );
}

#[test]
fn a_described_image_in_code_has_the_size_of_its_text() {
    let options = ProseMirrorOptions::new(ProseMirrorNames::basic());
    let store = DataStore::new();
    let mut draft = store.begin("ann").unwrap();
    let line = |kind: &str, text: NodeSpec| NodeSpec::new(kind).with_children([text]);
    let text = |text: &str| NodeSpec::new("inline-text").with_text(text.to_owned());
    let described = text("alt").with_marks([Mark::new("image", 0..3)]);
    let code = line("code-block", described);
    let document = NodeSpec::new("document").with_children([code, line("paragraph", text("x"))]);
    let root = draft.create(document).unwrap();
    let last = draft.descendants(&root).last().unwrap().id().clone();
    draft.commit().unwrap();
    let before = store.snapshot();
    let mut draft = store.begin("ann").unwrap();
    draft.insert_text(&last, 1, "y").unwrap();
    let changes = draft.commit().unwrap().changes;
    let after = store.snapshot();
    let steps = to_steps(&before, &after, &changes, &root, &options).unwrap();
    let [one, other] = [&before, &after].map(|view| written(view, &root, &options));
    check(&one, &steps, &other, &options);
    // The code is from 0 to 5.
    assert_eq!(steps[0]["from"], 7, "{steps:?}");
}

#[test]
fn many_edits_of_one_node_stay_apart() {
    let of = |content: &str| NodeType::new().content(content);
    let schema = Schema::builder().node("document", of("paragraph (paragraph | heading)+"));
    let schema = schema.node("paragraph", of("inline-text*"));
    let schema = schema.node("heading", of("inline-text*"));
    let schema = schema.node("inline-text", NodeType::new().text(true));
    let schema = schema.build().unwrap();
    let options = ProseMirrorOptions::new(ProseMirrorNames::basic()).schema(schema);
    let many = 800;
    let count = |edit: &dyn Fn(&mut Draft, &[NodeId])| {
        let store = DataStore::new();
        let mut draft = store.begin("ann").unwrap();
        let nodes = (0..many).map(|_| NodeSpec::new("paragraph"));
        let document = NodeSpec::new("document").with_children(nodes);
        let root = draft.create(document).unwrap();
        let nodes: Vec<NodeId> = draft
            .children(&root)
            .map(|node| node.id().clone())
            .collect();
        draft.commit().unwrap();
        let before = store.snapshot();
        let mut draft = store.begin("ann").unwrap();
        edit(&mut draft, &nodes);
        let changes = draft.commit().unwrap().changes;
        let after = store.snapshot();
        let steps = to_steps(&before, &after, &changes, &root, &options).unwrap();
        let [one, other] = [&before, &after].map(|view| written(view, &root, &options));
        check(&one, &steps, &other, &options);
        steps.len()
    };
    let retyped = count(&|draft, nodes| {
        let others = nodes[1..].iter();
        others.for_each(|id| draft.set_type(id, "heading").unwrap());
    });
    assert_eq!(retyped, many - 1);
    let deleted = count(&|draft, nodes| {
        let others = nodes.iter().step_by(2);
        others.for_each(|id| draft.delete(id).unwrap());
    });
    assert_eq!(deleted, many / 2);
    // The document has to begin with a paragraph.
    let invalid = count(&|draft, nodes| {
        draft.set_type(&nodes[0], "heading").unwrap();
        let root = draft.parent(&nodes[0]).unwrap().clone();
        draft.insert(NodeSpec::new("paragraph"), &root, 0).unwrap();
    });
    assert_eq!(invalid, 1);
}

#[test]
fn a_document_that_prosemirror_does_not_have_is_an_error() {
    let options = ProseMirrorOptions::new(ProseMirrorNames::basic());
    let store = DataStore::new();
    let mut draft = store.begin("ann").unwrap();
    let root = draft.create(NodeSpec::new("document")).unwrap();
    draft.commit().unwrap();
    let before = store.snapshot();
    let mut draft = store.begin("ann").unwrap();
    draft.insert(NodeSpec::new("poll"), &root, 0).unwrap();
    let changes = draft.commit().unwrap().changes;
    let error = to_steps(&before, &store.snapshot(), &changes, &root, &options).unwrap_err();
    assert_eq!(error.code(), "stepShape", "{error}");
    let missing = NodeId::from("missing");
    let error = to_steps(&before, &before, &[], &missing, &options).unwrap_err();
    assert_eq!(error.code(), "stepEdit", "{error}");
}

/// A letter in the innermost of nested quotes, the deletion of all of them, and its undo.
fn nested(levels: usize) -> [Result<Vec<Value>, StepError>; 3] {
    let options = ProseMirrorOptions::new(ProseMirrorNames::basic());
    let store = DataStore::new();
    let mut draft = store.begin("ann").unwrap();
    let text = NodeSpec::new("inline-text").with_text("a").with_id("t");
    let paragraph = NodeSpec::new("paragraph").with_children([text]);
    let quoted = (0..levels).fold(paragraph, |inner, nth| {
        let quote = NodeSpec::new("block-quote").with_children([inner]);
        quote.with_id(format!("q{nth}"))
    });
    let document = NodeSpec::new("document").with_children([quoted]);
    let root = draft.create(document).unwrap();
    draft.commit().unwrap();
    let steps = |edit: &dyn Fn(&mut Draft)| {
        let before = store.snapshot();
        let mut draft = store.begin("ann").unwrap();
        edit(&mut draft);
        let changes = draft.commit().unwrap().changes;
        let after = before.after(&changes).unwrap();
        let between = |one, other| to_steps(one, other, &changes, &root, &options);
        [between(&before, &after), between(&after, &before)]
    };
    let outermost = NodeId::from(format!("q{}", levels - 1));
    let [letter, _] = steps(&|draft| draft.insert_text("t", 1, "b").unwrap());
    let [gone, back] = steps(&|draft| draft.delete(&outermost).unwrap());
    [letter, gone, back]
}

#[test]
fn nodes_that_nest_too_deep_are_an_error() {
    for levels in [50, 100, 10_000] {
        let [letter, gone, back] = nested(levels);
        assert_eq!(letter.is_ok(), levels < 10_000);
        assert_eq!(gone.unwrap().len(), 1);
        assert_eq!(back.is_ok(), levels < 60);
        for error in [letter.err(), back.err()].into_iter().flatten() {
            assert_eq!(error.code(), "stepShape", "{error}");
        }
    }
}
