//! A document that an earlier version has stored, in JSON.

use doclock::document::{Position, Selection};
use doclock::durable::{
    DurableFile, DurableOptions, Journal, JournalWrite, RedbJournal, Replica, SalvagedFile,
};
use doclock::inbox::Inbox;
use doclock::{DataStore, Editor, StoreOptions, TransactionManager, View, dsl::*};
use serde_json::json;

use crate::memory::Memory;
use crate::parts::{BINARY, JSON, part};
use crate::{Folder, later};

/// The entries of a checkpoint, as the last version with this format wrote them.
const ENTRIES: [(&str, &str); 4] = [
    (
        "head",
        concat!(
            r#"{"opens":2,"firstSession":21128494,"nextBlock":6,"lastBlock":[62,67,57,32],"document"#,
            r#"":{"version":5,"root":"list","tokens":{"lock":68719476741,"lease":68719476736,"claim"#,
            r#"":68719476736},"session":{"id":2675564263,"transactions":5,"nodes":1}}}"#,
        ),
    ),
    (
        "node/2675564263:1",
        r#"{"id":"2675564263:1","type":"item","text":"zwei","parent":"list"}"#,
    ),
    (
        "node/list",
        r#"{"id":"list","type":"list","children":["one","2675564263:1"]}"#,
    ),
    (
        "node/one",
        concat!(
            r#"{"id":"one","type":"item","attributes":{"list":[null,{"a":18446744073709551615}],"si"#,
            r#"ze":-0.5},"text":"one!","marks":[{"type":"em","range":[0,3]}],"parent":"list"}"#,
        ),
    ),
];

/// The blocks, as the same version wrote them. The first five are in the checkpoint. The end of the
/// lease alone is another: it would be over by now.
const BLOCKS: [(u64, &str); 6] = [
    (
        1,
        concat!(
            r#"{"commits":[{"transactionId":"tx-2675564263-1","version":1,"changed":true,"owner":"a"#,
            r#"nn","fencingToken":68719476737,"operations":[{"type":"create","created":["list","one"#,
            r#"","2675564263:1"]}],"changes":[{"type":"insertSubtree","at":null,"nodes":[{"id":"lis"#,
            r#"t","type":"list","children":["one","2675564263:1"]},{"id":"one","type":"item","text""#,
            r#":"one","parent":"list"},{"id":"2675564263:1","type":"item","text":"zwei","parent":"l"#,
            r#"ist"}]}]}],"steps":[[1,[]]],"notes":[]}"#,
        ),
    ),
    (
        2,
        concat!(
            r#"{"commits":[{"transactionId":"tx-2675564263-2","version":2,"changed":true,"owner":"a"#,
            r#"nn","fencingToken":68719476738,"operations":[{"type":"setRoot","nodeId":"list","crea"#,
            r#"ted":[]}],"changes":[{"type":"setRoot","before":null,"after":"list"}]}],"steps":[[2,"#,
            r#"[]]],"notes":[]}"#,
        ),
    ),
    (
        3,
        concat!(
            r#"{"commits":[{"transactionId":"tx-2675564263-3","version":3,"changed":true,"owner":"a"#,
            r#"nn","fencingToken":68719476739,"operations":[{"type":"insertText","nodeId":"one","cr"#,
            r#"eated":[]}],"changes":[{"type":"spliceText","id":"one","at":3,"inserted":"!"}],"sele"#,
            r#"ctionBefore":{"anchor":{"nodeId":"one","offset":3},"focus":{"nodeId":"one","offset":"#,
            r#"3}},"selectionAfter":{"anchor":{"nodeId":"one","offset":4},"focus":{"nodeId":"one",""#,
            r#"offset":4}}}],"steps":[[3,[]]],"notes":[]}"#,
        ),
    ),
    (
        4,
        concat!(
            r#"{"commits":[{"transactionId":"tx-2675564263-4","version":4,"changed":true,"owner":"a"#,
            r#"nn","fencingToken":68719476740,"operations":[{"type":"applyMark","nodeId":"one","cre"#,
            r#"ated":[]}],"changes":[{"type":"setMarks","id":"one","removed":[],"added":[{"type":"e"#,
            r#"m","range":[0,3]}]}],"selectionBefore":{"anchor":{"nodeId":"one","offset":4},"focus""#,
            r#":{"nodeId":"one","offset":4}},"selectionAfter":{"anchor":{"nodeId":"one","offset":4}"#,
            r#","focus":{"nodeId":"one","offset":4}}}],"steps":[[4,[]]],"notes":[]}"#,
        ),
    ),
    (
        5,
        concat!(
            r#"{"commits":[{"transactionId":"tx-2675564263-5","version":5,"changed":true,"owner":"a"#,
            r#"nn","fencingToken":68719476741,"operations":[{"type":"setAttrs","nodeId":"one","crea"#,
            r#"ted":[]}],"changes":[{"type":"patchAttrs","id":"one","patches":[{"key":"list","after"#,
            r#"":[null,{"a":18446744073709551615}]},{"key":"size","after":-0.5}]}],"selectionBefore"#,
            r#"":{"anchor":{"nodeId":"one","offset":4},"focus":{"nodeId":"one","offset":4}},"select"#,
            r#"ionAfter":{"anchor":{"nodeId":"one","offset":4},"focus":{"nodeId":"one","offset":4}}"#,
            r#"}],"steps":[[5,[]]],"notes":[]}"#,
        ),
    ),
    (
        6,
        concat!(
            r#"{"commits":[{"transactionId":"tx-1035032736-1","version":6,"changed":true,"owner":"a"#,
            r#"nn","fencingToken":137438953473,"operations":[{"type":"splitTextNode","nodeId":"one""#,
            r#","created":["1035032736:1"]}],"changes":[{"type":"splitNode","id":"one","at":{"text""#,
            r#":2,"children":0},"right":{"id":"1035032736:1","type":"item","attributes":{"list":[nu"#,
            r#"ll,{"a":18446744073709551615}],"size":-0.5}},"place":{"parent":"list","index":1}}]},"#,
            r#"{"transactionId":"tx-1035032736-2","version":7,"changed":true,"owner":"ann","fencing"#,
            r#"Token":137438953474,"operations":[{"type":"undo","created":[]}],"changes":[{"type":""#,
            r#"joinNodes","id":"one","at":{"text":2,"children":0},"right":{"id":"1035032736:1","typ"#,
            r#"e":"item","attributes":{"list":[null,{"a":18446744073709551615}],"size":-0.5}},"plac"#,
            r#"e":{"parent":"list","index":1}}]},{"transactionId":"tx-1035032736-3","version":8,"ch"#,
            r#"anged":true,"owner":"transaction-execution","fencingToken":137438953475,"idempotency"#,
            r#"Key":"key","operations":[{"type":"create","created":["1035032736:2"]}],"changes":[{""#,
            r#"type":"insertSubtree","at":null,"nodes":[{"id":"1035032736:2","type":"p","text":"onc"#,
            r#"e"}]}]}],"steps":[[6,[]],[7,[6]]],"notes":[{"kept":{"receipt":{"key":"key","number":"#,
            r#"1,"receipt":{"digest":150679585210571724674803098334366977969,"result":{"transaction"#,
            r#"Id":"tx-1035032736-3","version":8,"changed":true,"owner":"transaction-execution","fe"#,
            r#"ncingToken":137438953475,"idempotencyKey":"key","operations":[{"type":"create","crea"#,
            r#"ted":["1035032736:2"]}],"changes":[],"repeated":true}}}}},{"kept":{"event":{"inbox":"#,
            r#""bills","id":"done","sentAt":null,"attempts":1,"state":{"done":{"at":[1795969997,144"#,
            r#"203440]}}}}},{"kept":{"event":{"inbox":"bills","id":"dead","sentAt":null,"attempts":"#,
            r#"1,"state":{"dead":{"number":1,"at":[1795969997,144229859],"cause":"poison","error":""#,
            r#"torn"}}}}},{"kept":{"lease":{"targets":[{"node":"one"}],"owner":"w","token":13743895"#,
            r#"3473,"ends":[4102444800,0],"lasts":3600000000000}}}]}"#,
        ),
    ),
];

fn options() -> DurableOptions {
    let store = StoreOptions::new().kept_commits(1 << 20);
    later().store(store).keep_log(1 << 20)
}

/// The journal of that version.
pub(crate) fn journal() -> Memory {
    let memory = Memory::default();
    {
        let mut stored = memory.stored();
        for (key, json) in ENTRIES {
            let bytes = part(JSON, json.as_bytes());
            stored.entries.insert(key.to_owned(), bytes);
        }
        for (number, json) in BLOCKS {
            stored.blocks.insert(number, part(JSON, json.as_bytes()));
        }
    }
    memory
}

/// The file of that version.
pub(crate) fn file(folder: &Folder) {
    let mut journal = RedbJournal::open(folder.path(), |_| {}).unwrap();
    let mut write = JournalWrite::default();
    write.entries = ENTRIES
        .map(|(key, json)| (key.to_owned(), Some(part(JSON, json.as_bytes()))))
        .into();
    journal.write(&write).unwrap();
    for (number, json) in BLOCKS {
        let mut write = JournalWrite::default();
        write.block = Some((number, part(JSON, json.as_bytes())));
        journal.write(&write).unwrap();
    }
    journal.close().unwrap();
}

/// Checks everything that the document has, and that it goes on.
fn check_and_continue(store: &DataStore) {
    let document = store.snapshot();
    assert_eq!((document.version(), document.len()), (8, 4));
    let one = document.node("one").unwrap();
    assert_eq!(one.text(), &"one!");
    assert_eq!(one.attributes().get("size"), Some(&json!(-0.5)));
    let list = json!([null, {"a": u64::MAX}]);
    assert_eq!(one.attributes().get("list"), Some(&list));
    assert_eq!(one.marks().iter().count(), 1);
    let kept = store.commits_since(0).unwrap();
    assert_eq!(kept.len(), 8);
    let caret = Selection::new(Position::new("one", 4), Position::new("one", 4));
    assert_eq!(kept[2].selection_after, Some(caret));

    let manager = TransactionManager::new(store.clone());
    let once = || create(text_node("p", "once"));
    let again = manager.transaction(once()).idempotent("key").commit();
    let again = again.unwrap();
    assert_eq!((again.version, again.repeated), (8, true));
    let inbox = Inbox::new(store, "bills");
    let repeated = inbox.process(&("done", 1), |_, _: &_| panic!("a second effect"));
    repeated.unwrap();
    assert_eq!(inbox.dead_letters().len(), 1);
    assert_eq!(store.leases().list().len(), 1);

    let ann = Editor::new(store.clone(), "ann").with_restored_history();
    ann.undo().commit().unwrap();
    let one = store.snapshot().node("one").unwrap().clone();
    assert_eq!(one.attributes().get("size"), None);
}

/// The formats of the entries and of the blocks.
fn formats(memory: &Memory) -> (Vec<u8>, Vec<u8>) {
    let stored = memory.stored();
    let entries = stored.entries.values().map(|bytes| bytes[0]);
    let blocks = stored.blocks.values().map(|bytes| bytes[0]);
    (entries.collect(), blocks.collect())
}

#[test]
fn durable_12_a_document_in_json_opens_and_continues_in_the_binary_form() {
    // The checkpoint has the checksum of its last block.
    let of_last_block = &part(JSON, BLOCKS[4].1.as_bytes())[1..5];
    assert_eq!(of_last_block, [62, 67, 57, 32]);

    let memory = journal();
    let store = memory.open(options());
    check_and_continue(&store);
    let document = store.snapshot();
    store.close().unwrap();
    drop(store);
    let (entries, blocks) = formats(&memory);
    // What no one touched stays as it is.
    assert!(
        entries.contains(&JSON) && entries.contains(&BINARY),
        "{entries:?}"
    );
    assert!(
        blocks.contains(&JSON) && blocks.contains(&BINARY),
        "{blocks:?}"
    );
    let store = memory.open(options());
    assert_eq!(store.snapshot(), document);
    let file = DurableFile::read_journal(memory.copy()).unwrap();
    assert_eq!(file.verify().unwrap().commits, 9);
}

#[test]
fn durable_12_a_file_in_json_is_opened_read_verified_salvaged_and_copied() {
    let folder = Folder::new();
    file(&folder);
    let read = DurableFile::read(folder.path()).unwrap();
    assert_eq!((read.versions(), read.document().version()), (0..=8, 8));
    assert_eq!(read.verify().unwrap().commits, 8);
    let document = read.document().clone();
    drop(read);
    let salvaged = SalvagedFile::read(folder.path()).unwrap();
    assert!(salvaged.report().is_whole);
    assert_eq!(salvaged.document(), &document);

    let store = folder.open_with(options());
    let copy = folder.path().with_extension("copy");
    store.backup(&copy).unwrap();
    check_and_continue(&store);
    store.close().unwrap();
    let copied = DataStore::open(&copy).unwrap();
    assert_eq!(copied.snapshot(), document);
    drop(store);
    let read = DurableFile::read(folder.path()).unwrap();
    assert_eq!(read.verify().unwrap().commits, 9);
}

#[test]
fn durable_12_a_replica_follows_from_json_into_the_binary_form() {
    let mut memory = journal();
    let mut replica = Replica::load(&mut memory, &options()).unwrap();
    assert_eq!(replica.version(), 8);
    let store = memory.open(options());
    check_and_continue(&store);
    store.wait_durable(store.version()).wait().unwrap();
    replica.catch_up(&mut memory.clone(), drop).unwrap();
    assert_eq!(replica.snapshot(), store.snapshot());
}
