//! Each stored value is read as it was written, and no bytes do harm.

use std::collections::HashSet;
use std::fmt::Debug;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use smol_str::SmolStr;

use super::words::WORDS;
use super::{Record, RecordReader, RecordWriter};
use crate::document::*;
use crate::id::{FencingToken, NodeId, OwnerId, TransactionId};
use crate::store::TransactionResult;
use crate::store::durable::format::{LogBlock, StoredHead};
use crate::store::notes::{Note, NoteChange, ReceiptNote};
use crate::store::receipts::{BatchDigest, Receipt};
use crate::store::result::ExecutedOperation;

fn written<T: Record>(value: &T) -> Vec<u8> {
    let mut writer = RecordWriter::after(Vec::new());
    value.write(&mut writer).unwrap();
    writer.into_bytes()
}

fn read<T: Record>(bytes: &[u8]) -> Result<T, String> {
    let mut reader = RecordReader::new(bytes);
    let value = reader.value().map_err(|error| error.to_string())?;
    reader.finish().map_err(|error| error.to_string())?;
    Ok(value)
}

fn check<T: Record + Debug + PartialEq>(value: &T) {
    let bytes = written(value);
    let again: T = read(&bytes).unwrap();
    assert_eq!(again, *value);
    // Also what is equal and not the same, as zero and minus zero.
    assert_eq!(written(&again), bytes);
}

fn number() -> BoxedStrategy<u64> {
    prop_oneof![
        0..40u64,
        Just(u64::MAX),
        Just(1 << 53),
        Just((1 << 53) + 1),
        any::<u64>(),
    ]
    .boxed()
}

fn index() -> BoxedStrategy<usize> {
    number().prop_map(|number| number as usize).boxed()
}

fn text() -> BoxedStrategy<String> {
    prop_oneof![
        Just(String::new()),
        Just("\0".to_owned()),
        Just("\u{10FFFF}\u{FFFD}\u{D7FF}".to_owned()),
        Just("insertText".to_owned()),
        Just("7:42".to_owned()),
        Just("x".repeat(70_000)),
        "[a-c]{1,3}",
        any::<String>(),
    ]
    .boxed()
}

fn small() -> BoxedStrategy<SmolStr> {
    text().prop_map(SmolStr::from).boxed()
}

fn id() -> BoxedStrategy<NodeId> {
    prop_oneof![
        (0..3u32, 0..30u64).prop_map(|(session, counter)| NodeId::generated(session, counter)),
        (any::<u32>(), number()).prop_map(|(session, counter)| NodeId::generated(session, counter)),
        text().prop_map(|text| NodeId::from(if text.is_empty() { "id" } else { &text })),
    ]
    .boxed()
}

fn json_value() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        number().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        Just(json!(i64::MIN)),
        Just(json!(-0.0)),
        Just(json!(1.0)),
        Just(json!(1e308)),
        Just(json!(5e-324)),
        any::<f64>().prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 12, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Value::from),
            vec((text(), inner), 0..3).prop_map(|fields| Value::Object(Map::from_iter(fields))),
        ]
    })
    .boxed()
}

fn attributes() -> BoxedStrategy<Attributes> {
    vec((small(), json_value()), 0..3)
        .prop_map(Attributes::from_iter)
        .boxed()
}

fn mark() -> BoxedStrategy<Mark> {
    (small(), index(), index(), attributes())
        .prop_map(|(kind, one, other, attributes)| {
            Mark::new(kind, one.min(other)..one.max(other)).with_attributes(attributes)
        })
        .boxed()
}

fn marks() -> BoxedStrategy<Marks> {
    vec(mark(), 0..4)
        .prop_map(|marks| Marks::normal(marks, usize::MAX).unwrap())
        .boxed()
}

fn node() -> BoxedStrategy<Arc<Node>> {
    let parts = (
        id(),
        small(),
        option::of(id()),
        text().prop_map(|text| Text::from(text.as_str())),
        vec(id(), 0..70),
        attributes(),
        marks(),
    );
    parts
        .prop_map(|(id, kind, parent, text, children, attributes, marks)| {
            let distinct: HashSet<_> = children.into_iter().collect();
            let children = distinct.into_iter().collect();
            let node = Node::stored(id, kind, parent, text, children, attributes, marks);
            Arc::new(node)
        })
        .boxed()
}

fn place() -> BoxedStrategy<ChildPosition> {
    (id(), index())
        .prop_map(|(parent, index)| ChildPosition { parent, index })
        .boxed()
}

fn selection() -> BoxedStrategy<Selection> {
    let at = || (id(), index()).prop_map(|(id, offset)| Position::new(id, offset));
    prop_oneof![
        id().prop_map(Selection::node),
        at().prop_map(|caret| Selection::new(caret.clone(), caret)),
        (at(), vec(mark(), 0..3))
            .prop_map(|(caret, marks)| Selection::new(caret.clone(), caret).with_marks(marks)),
        (at(), index()).prop_map(|(anchor, offset)| {
            let focus = Position::new(&anchor.node_id, offset);
            Selection::new(anchor, focus)
        }),
        (at(), at()).prop_map(|(anchor, focus)| Selection::new(anchor, focus)),
    ]
    .boxed()
}

fn marks_change() -> BoxedStrategy<MarksChange> {
    (marks(), marks())
        .prop_map(|(removed, added)| MarksChange { removed, added })
        .boxed()
}

fn patch() -> BoxedStrategy<AttributePatch> {
    let value = || json_value().prop_map(|value| Some(value).filter(|value| !value.is_null()));
    (small(), value(), value())
        .prop_map(|(key, before, after)| AttributePatch {
            key,
            before: before.map(Into::into),
            after: after.map(Into::into),
        })
        .boxed()
}

fn split() -> BoxedStrategy<(NodeId, SplitPoint, Box<RightHalf>, ChildPosition)> {
    let right = (id(), small(), attributes()).prop_map(|(id, kind, attributes)| {
        Box::new(RightHalf {
            id,
            kind,
            attributes,
        })
    });
    let at = (index(), index()).prop_map(|(text, children)| SplitPoint { text, children });
    (id(), at, right, place()).boxed()
}

fn change() -> BoxedStrategy<Change> {
    let subtree = || (option::of(place()), vec(node(), 0..3));
    prop_oneof![
        subtree().prop_map(|(at, nodes)| Change::InsertSubtree { at, nodes }),
        subtree().prop_map(|(at, nodes)| Change::RemoveSubtree { at, nodes }),
        (id(), option::of(place()), option::of(place()))
            .prop_map(|(id, from, to)| Change::MoveNode { id, from, to }),
        (id(), index(), small(), small(), option::of(marks_change())).prop_map(
            |(id, at, removed, inserted, marks)| Change::SpliceText {
                id,
                at,
                removed,
                inserted,
                marks,
            }
        ),
        (id(), marks_change()).prop_map(|(id, marks)| Change::SetMarks { id, marks }),
        (id(), vec(patch(), 0..3)).prop_map(|(id, patches)| Change::PatchAttrs { id, patches }),
        (id(), small(), small()).prop_map(|(id, before, after)| Change::SetType {
            id,
            before,
            after,
        }),
        split().prop_map(|(id, at, right, place)| Change::SplitNode {
            id,
            at,
            right,
            place,
        }),
        split().prop_map(|(id, at, right, place)| Change::JoinNodes {
            id,
            at,
            right,
            place,
        }),
        (option::of(id()), option::of(id()))
            .prop_map(|(before, after)| Change::SetRoot { before, after }),
        (option::of(selection()), option::of(selection()))
            .prop_map(|(before, after)| Change::SetSelection { before, after }),
    ]
    .boxed()
}

fn operation() -> BoxedStrategy<ExecutedOperation> {
    (small(), option::of(id()), vec(id(), 0..3))
        .prop_map(|(name, node_id, created)| ExecutedOperation {
            name,
            node_id,
            created,
        })
        .boxed()
}

fn commit() -> BoxedStrategy<TransactionResult> {
    let numbers = (any::<u32>(), number(), number(), number());
    let names = (small(), option::of(small()));
    let content = (vec(operation(), 0..3), vec(change(), 0..3));
    let selections = (option::of(selection()), option::of(selection()));
    let flags = (any::<bool>(), any::<bool>());
    let place = (id(), index()).prop_map(|(id, offset)| Position::new(id, offset));
    let flags = (flags, option::of(place));
    (numbers, names, content, selections, flags)
        .prop_map(
            |(
                (session, number, version, token),
                (owner, key),
                content,
                selections,
                (flags, first_place),
            )| {
                TransactionResult {
                    transaction_id: TransactionId { session, number },
                    version,
                    changed: flags.0,
                    owner: OwnerId::from(owner.as_str()),
                    fencing_token: FencingToken(token),
                    idempotency_key: key,
                    operations: content.0.into_iter().collect(),
                    changes: content.1.into_iter().collect(),
                    selection_before: selections.0,
                    selection_after: selections.1,
                    first_place: first_place.map(Box::new),
                    repeated: flags.1,
                    hook_failures: SharedList::default(),
                }
            },
        )
        .boxed()
}

fn receipt(key: SmolStr, number: u64, digest: u128, result: TransactionResult) -> NoteChange {
    let digest = BatchDigest(digest);
    let receipt = Arc::new(Receipt { digest, result });
    NoteChange::Kept(Note::Receipt(ReceiptNote {
        key,
        number,
        receipt,
    }))
}

/// The receipt of a commit, as a store makes it.
fn receipt_of(commit: &TransactionResult) -> NoteChange {
    let result = TransactionResult {
        repeated: true,
        changes: Changes::default(),
        ..commit.clone()
    };
    receipt("key".into(), 7, u128::MAX - 7, result)
}

/// Notes of the other kinds, with a text in all their names.
fn notes(text: &str, number: u64) -> Vec<NoteChange> {
    let id = if text.is_empty() { "id" } else { text };
    let dead = json!({"number": number, "at": [-7, -1], "cause": "poison", "error": text});
    let notes = json!([
        {"kept": {"event": {"inbox": text, "id": text, "sentAt": [0, 0], "attempts": u32::MAX,
            "state": {"dead": dead}}}},
        {"kept": {"event": {"inbox": text, "id": "", "sentAt": null, "attempts": 0,
            "state": "due"}}},
        {"kept": {"event": {"inbox": "", "id": text, "sentAt": null, "attempts": 1,
            "state": {"done": {"at": [7, 999_999_999]}}}}},
        {"kept": {"watermark": {"inbox": text, "sentAt": [1_u64 << 40, 1]}}},
        {"kept": {"lease": {"targets": ["document", {"node": id}], "owner": text,
            "token": number, "ends": [1, 2], "lasts": number}}},
        {"forgotten": {"receipt": text}},
        {"forgotten": {"event": [text, text]}},
        {"forgotten": {"letter": [text, number]}},
        {"forgotten": {"watermark": text}},
        {"forgotten": {"lease": number}},
    ]);
    serde_json::from_value(notes).unwrap()
}

fn block() -> BoxedStrategy<LogBlock> {
    let step = option::of(vec(number(), 0..3));
    (vec((commit(), step), 0..4), text(), number())
        .prop_map(|(parts, text, token)| {
            let (mut commits, mut steps) = (Vec::new(), Vec::new());
            for (nth, (mut commit, undone)) in parts.into_iter().enumerate() {
                commit.version = 100 + nth as u64;
                steps.extend(undone.map(|undone| (commit.version, undone.into())));
                commits.push(Arc::new(commit));
            }
            let mut notes = notes(&text, token);
            notes.extend(commits.iter().map(|commit| receipt_of(commit)));
            LogBlock {
                commits,
                steps,
                notes,
            }
        })
        .boxed()
}

/// What is equal if two blocks are, and their bytes, which have the notes.
fn check_block(block: &LogBlock) {
    let bytes = written(block);
    let again: LogBlock = read(&bytes).unwrap();
    assert_eq!(again.commits, block.commits);
    assert_eq!(again.steps, block.steps);
    assert_eq!(written(&again), bytes);
    let (one, other) = (format!("{:?}", again.notes), format!("{:?}", block.notes));
    assert_eq!(one, other);
}

fn head(number: u64, id: Option<&str>) -> StoredHead {
    let head = json!({
        "opens": number, "firstSession": u32::MAX, "nextBlock": number, "lastBlock": [0, 1, 2, 255],
        "document": {
            "version": number, "root": id,
            "tokens": {"lock": number, "lease": number, "claim": number},
            "session": {"id": u32::MAX, "transactions": number, "nodes": number},
        },
    });
    serde_json::from_value(head).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_node_is_read_as_it_was_written(node in node()) {
        check(&*node);
    }

    #[test]
    fn a_change_is_read_as_it_was_written(change in change()) {
        check(&change);
    }

    #[test]
    fn a_block_is_read_as_it_was_written(block in block()) {
        check_block(&block);
    }

    #[test]
    fn a_forged_part_is_refused_or_read_again(
        block in block(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        cut in any::<bool>(),
    ) {
        let mut bytes = written(&block);
        let at = at.index(bytes.len());
        match cut {
            true => bytes.truncate(at),
            false => bytes[at] = byte,
        }
        let found: Result<LogBlock, _> = read(&bytes);
        prop_assert!(!cut || found.is_err());
        if let Ok(found) = found {
            // Another form of the same, such as a number with more bytes, is read too.
            check_block(&found);
        }
    }
}

#[test]
fn a_head_and_each_kind_of_note_are_read_as_they_were_written() {
    for number in [0, 1, u64::from(u32::MAX), 1 << 53, u64::MAX] {
        for id in [None, Some("root"), Some("4294967295:18446744073709551615")] {
            let head = head(number, id);
            let again: StoredHead = read(&written(&head)).unwrap();
            assert_eq!(format!("{again:?}"), format!("{head:?}"));
        }
        for text in ["", "\0", "\u{10FFFF}", "a/b\"\n"] {
            for change in notes(text, number) {
                let NoteChange::Kept(note) = change else {
                    continue;
                };
                let again: Note = read(&written(&note)).unwrap();
                assert_eq!(format!("{again:?}"), format!("{note:?}"));
            }
        }
    }
}

#[test]
fn a_receipt_in_the_block_of_its_commit_takes_a_few_bytes() {
    let commit = Arc::new(TransactionResult {
        idempotency_key: Some("key".into()),
        ..TransactionResult::nothing_done(
            TransactionId {
                session: 7,
                number: 8,
            },
            9,
            "ann".into(),
        )
    });
    let mut block = LogBlock {
        notes: vec![receipt_of(&commit)],
        commits: vec![commit],
        steps: Vec::new(),
    };
    let one = written(&block).len();
    check_block(&block);
    // The second receipt of a commit is written out: no part can name one commit many times.
    block.notes.push(receipt_of(&block.commits[0]));
    check_block(&block);
    assert!(written(&block).len() > one + 24, "{one}");
}

#[test]
fn no_operation_has_two_numbers() {
    let distinct: HashSet<_> = WORDS.into_iter().collect();
    assert_eq!(distinct.len(), WORDS.len());
}

#[test]
fn damage_is_found_with_its_place_and_what_it_is() {
    let cases: [(&[u8], Option<usize>, &str); 12] = [
        (&[], None, "end of input bytes"),
        (
            &[0x83, 0x80, 0x80, 0x80],
            Some(0),
            "an array has 3 items, not 2",
        ),
        (
            &[0x82, 0x80, 0x80, 0x00],
            Some(3),
            "1 bytes follow the value",
        ),
        (&[0x82, 0x9f, 0xff, 0x80], Some(1), "an array has no length"),
        (&[0x82, 0x80], None, "end of input bytes"),
        (
            &[0x82, 0x81, 0x86, 1, 1, 1, 0, 1, 1, 0x80],
            Some(7),
            "there is no name 0",
        ),
        (
            &[0x82, 0x81, 0x86, 1, 1, 1, 0x61, 0xff],
            None,
            "invalid utf-8 at position 6",
        ),
        (
            &[
                0x82, 0x81, 0x86, 1, 1, 1, 0x60, 0x1a, 0x10, 0, 0, 0, 1, 0x80,
            ],
            Some(13),
            "no token has epoch 268435456 and number 1",
        ),
        (
            &[
                0x82, 0x81, 0x87, 1, 1, 1, 0x60, 1, 1, 0x81, 0x81, 0x18, 200, 0x80,
            ],
            Some(13),
            "no operation has number 200",
        ),
        (
            &[
                0x82, 0x81, 0x88, 1, 1, 1, 0x60, 1, 1, 0x80, 0x81, 0x83, 11, 0xf6, 0xf6, 0x80,
            ],
            Some(13),
            "there is no change 11",
        ),
        (
            &[0x82, 0x80, 0x81, 0x82, 9, 0xf6],
            Some(5),
            "no note 9 has 2 items",
        ),
        (
            &[0x82, 0x80, 0x81, 0x86, 1, 0x60, 0, 0, 0, 0],
            Some(10),
            "commit 0 has no receipt here",
        ),
    ];
    for (bytes, place, expected) in cases {
        let error = read::<LogBlock>(bytes).unwrap_err();
        let expected = match place {
            Some(place) => format!("decode error at position {place}: {expected}"),
            None => expected.to_owned(),
        };
        assert!(
            error.starts_with(&expected),
            "{error:?} is not {expected:?}"
        );
    }
}

/// Attributes nest 100 levels at most, and a node has them a few levels deep.
#[test]
fn the_deepest_value_is_read_and_a_deeper_one_refused() {
    let nested = |levels: usize| {
        let mut value = json!("leaf");
        for level in 0..levels {
            value = match level % 2 {
                0 => json!([value]),
                _ => json!({ "a": value }),
            };
        }
        let attributes = Attributes::from_iter([("deep", value)]);
        let (text, children) = (Text::default(), Children::default());
        let id = NodeId::from("id");
        Node::stored(
            id,
            "p".into(),
            None,
            text,
            children,
            attributes,
            Marks::default(),
        )
    };
    check(&nested(Attributes::MAX_LEVELS));
    let deeper = written(&nested(Attributes::MAX_LEVELS + 1));
    let mut forged = written(&nested(0));
    // An array of one item, again and again.
    let leaf = forged.len() - "leaf".len() - 1;
    forged.splice(leaf..leaf, std::iter::repeat_n(0x81, 1_000_000));
    for bytes in [deeper, forged] {
        let error = read::<Node>(&bytes).unwrap_err();
        assert!(error.contains("nested deeper than 100 levels"), "{error}");
    }
}

#[test]
fn a_forgotten_note_that_claims_more_items_is_refused() {
    let forgotten = || serde_json::from_value(json!({"forgotten": {"receipt": "k"}})).unwrap();
    let block = LogBlock {
        commits: Vec::new(),
        steps: Vec::new(),
        notes: vec![forgotten(), forgotten()],
    };
    let mut bytes = written(&block);
    assert!(read::<LogBlock>(&bytes).is_ok());
    // No commits, and two arrays of two items.
    assert_eq!(bytes[..5], [0x82, 0x80, 0x82, 0x82, 0x00]);
    bytes[3] = 0x83;
    assert!(read::<LogBlock>(&bytes).is_err());
}

/// A file could name the owner once and repeat it with one byte.
#[test]
fn commits_of_one_owner_share_its_name() {
    let commit = |version| {
        let owner = OwnerId::from("o".repeat(10_000));
        let id = TransactionId {
            session: 1,
            number: version,
        };
        Arc::new(TransactionResult::nothing_done(id, version, owner))
    };
    let block = LogBlock {
        commits: vec![commit(1), commit(2)],
        steps: Vec::new(),
        notes: Vec::new(),
    };
    let again: LogBlock = read(&written(&block)).unwrap();
    let [one, other] = &again.commits[..] else {
        panic!("{again:?}");
    };
    assert_eq!(one.owner.as_str().as_ptr(), other.owner.as_str().as_ptr());
}
