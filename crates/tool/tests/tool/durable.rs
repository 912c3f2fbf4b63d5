//! The commands on durable files.

use std::fs;

use doclock::durable::{DurableOptions, Journal, JournalWrite, RedbJournal, StoredPart};
use doclock::{DataStore, Editor, Snapshot, View, dsl::*};

use crate::hostile::noise;
use crate::{CREATE, Folder, INSERT};

/// A file with three versions.
fn filled() -> Folder {
    let folder = Folder::new();
    let options = DurableOptions::new().keep_log(1 << 20);
    let store = DataStore::open_with(folder.path("n.doclock"), options).unwrap();
    let ann = Editor::new(store.clone(), "ann");
    let paragraph = |id: &str, text: &str| text_node("paragraph", text).with_id(id);
    let page = element(
        "document",
        [
            paragraph("a", "One fish, two fish"),
            paragraph("b", "Red fish"),
            paragraph("c", "Blue fish"),
        ],
    );
    let edits = [
        vec![create(page.with_id("page")), set_root().on("page")],
        vec![
            replace_text(10, 13, "three").on("a"),
            set_attrs([("lang", "en".into())]).on("b"),
            apply_mark("bold", 0..3).on("b"),
        ],
        vec![
            move_node("page", 0).on("c"),
            delete_node().on("b"),
            add_child(paragraph("d", "New fish"), None).on("page"),
            transform_node("heading", [("level", 1.into())]).on("a"),
        ],
    ];
    for batch in edits {
        ann.execute(batch).unwrap();
    }
    store.close().unwrap();
    folder
}

#[test]
fn the_log_lists_commits_with_owner_operations_and_counts_of_changes() {
    let folder = filled();
    let text = folder.doclock(&["log", "n.doclock"]).ended_with(0).stdout;
    let expected = "\
versions 0 to 3, checkpoint 3
       1  ann  create  setRoot page  (1 inserted, 1 root)
       2  ann  replaceText a  setAttrs b  applyMark b  (1 text, 1 attributes, 1 marks)
       3  ann  moveNode c  delete b  addChild page  transformNode a  (1 moved, 1 removed, 1 inserted, 1 type, 1 attributes)
";
    assert_eq!(text, expected);
    let part = folder.doclock(&["log", "n.doclock", "--from", "2", "--to", "2", "--json"]);
    let json = part.ended_with(0).json();
    assert_eq!(json["commits"].as_array().unwrap().len(), 1);
    assert_eq!(json["commits"][0]["version"], 2);
    assert_eq!(json["commits"][0]["changes"][0]["type"], "spliceText");
    let none = folder
        .doclock(&["log", "n.doclock", "--from", "9"])
        .ended_with(0)
        .stdout;
    assert_eq!(none, "versions 0 to 3, checkpoint 3\n");
    let reason = folder.doclock(&["log", "n.doclock", "--from", "3", "--to", "2"]);
    assert!(
        reason
            .refused_with(2)
            .starts_with("--from 3 is after --to 2")
    );
}

#[test]
fn each_version_is_shown_in_each_format() {
    let folder = filled();
    let show = |words: &[&str]| {
        let words = [&["show", "n.doclock"], words].concat();
        folder.doclock(&words).ended_with(0).stdout
    };
    let expected = "\
version 3, 4 nodes
document page
  paragraph c \"Blue fish\"
  heading a level=1 \"One fish, three fish\"
  paragraph d \"New fish\"
";
    assert_eq!(show(&[]), expected);
    let expected = "\
version 2, 4 nodes
document page
  paragraph a \"One fish, three fish\"
  paragraph b lang=\"en\" \"Red fish\" [bold 0..3]
  paragraph c \"Blue fish\"
";
    assert_eq!(show(&["--version", "2"]), expected);
    assert_eq!(show(&["--version", "0"]), "version 0, 0 nodes\n");
    let markdown = show(&["--version", "2", "--format", "markdown"]);
    assert_eq!(
        markdown,
        "One fish, three fish\n\n**Red** fish\n\nBlue fish\n"
    );
    let html = show(&["--version", "1", "--format", "html"]);
    assert!(html.contains("<p>Red fish</p>"), "{html}");
    let json = show(&["--version", "1", "--format", "json"]);
    let document: Snapshot = serde_json::from_str(&json).unwrap();
    assert_eq!((document.version(), document.len()), (1, 4));
    let reason = folder.doclock(&["show", "n.doclock", "--version", "0", "--format", "html"]);
    assert!(reason.refused_with(2).contains("has no root"));
    let reason = folder
        .doclock(&["show", "n.doclock", "--version", "4"])
        .refused_with(2);
    let expected = "n.doclock: the file does not have version 4: it has versions 0 to 3";
    assert_eq!(reason, expected);
}

#[test]
fn a_diff_names_created_deleted_moved_and_changed_nodes() {
    let folder = filled();
    let text = folder
        .doclock(&["diff", "n.doclock", "1", "2"])
        .ended_with(1)
        .stdout;
    let expected = "\
~ a
    text: One fish, [-two-]{+three+} fish
~ b
    attributes: {} -> {\"lang\":\"en\"}
    marks: [] -> [{\"type\":\"bold\",\"range\":[0,3]}]
";
    assert_eq!(text, expected);
    let text = folder
        .doclock(&["diff", "n.doclock", "2", "3"])
        .ended_with(1)
        .stdout;
    let expected = "\
- paragraph b lang=\"en\" \"Red fish\" [bold 0..3]
~ c
    moved: page at 2 -> page at 0
~ a
    type: paragraph -> heading
    attributes: {} -> {\"level\":1}
+ paragraph d \"New fish\"
";
    assert_eq!(text, expected);
    let text = folder
        .doclock(&["diff", "n.doclock", "1", "0"])
        .ended_with(1)
        .stdout;
    assert!(
        text.starts_with("root: page -> none\n- document page\n"),
        "{text}"
    );
    let same = folder
        .doclock(&["diff", "n.doclock", "2", "2"])
        .ended_with(0)
        .stdout;
    assert_eq!(same, "");
    folder
        .doclock(&["diff", "n.doclock", "0", "18446744073709551615"])
        .refused_with(2);
}

#[test]
fn the_changes_of_a_diff_lead_from_one_version_to_the_other() {
    use doclock::document::Change;

    let folder = filled();
    for (before, after) in [(0, 3), (3, 0), (1, 2), (2, 1)] {
        let (from, to) = (before.to_string(), after.to_string());
        let words = ["diff", "n.doclock", &from, &to, "--json"];
        let json = folder.doclock(&words).ended_with(1).json();
        let changes: Vec<Change> = serde_json::from_value(json["changes"].clone()).unwrap();
        let show = |version: &str| {
            let words = [
                "show",
                "n.doclock",
                "--version",
                version,
                "--format",
                "json",
            ];
            let json = folder.doclock(&words).ended_with(0).stdout;
            serde_json::from_str::<Snapshot>(&json).unwrap()
        };
        let store = doclock::StoreOptions::new().document(show(&from)).unwrap();
        let mut transaction = store.begin("check").unwrap();
        for change in changes {
            transaction.apply(change).unwrap();
        }
        transaction.commit().unwrap();
        assert!(store.snapshot() == show(&to), "{before} to {after}");
    }
}

#[test]
fn a_file_verifies_and_an_export_becomes_a_document_again() {
    let folder = filled();
    let text = folder
        .doclock(&["verify", "n.doclock"])
        .ended_with(0)
        .stdout;
    let expected = "\
verified up to version 3
checked: the checksums of all pages and of all parts of the document
checked: 3 commits, repeated from version 0
checked: the checkpoint, version 3, is what the commits make
checked: the integrity of 4 nodes
";
    assert_eq!(text, expected);
    let json = folder
        .doclock(&["verify", "n.doclock", "--json"])
        .ended_with(0)
        .json();
    assert_eq!(
        (&json["verified"], &json["commits"]),
        (&true.into(), &3.into())
    );
    for (name, version) in [("n.json", "2"), ("n.md", "3"), ("n.html", "1")] {
        let words = ["export", "n.doclock", "--version", version, "--to", name];
        folder.doclock(&words).ended_with(0);
        folder.write("nothing.json", "[]");
        folder.doclock(&["run", name, "nothing.json"]).ended_with(0);
    }
    let json = fs::read(folder.path("n.json")).unwrap();
    let document: Snapshot = serde_json::from_slice(&json).unwrap();
    assert_eq!(document.node("a").unwrap().text(), &"One fish, three fish");
    let refused = |to: &str| folder.doclock(&["export", "n.doclock", "--to", to]);
    refused("n.txt").refused_with(2);
    refused("no/n.md").refused_with(5);
}

#[test]
fn a_log_that_does_not_lead_to_the_checkpoint_is_a_difference() {
    let folder = filled();
    let mut journal = RedbJournal::open(folder.path("n.doclock"), |_| {}).unwrap();
    let mut changed = JournalWrite::default();
    let loaded = journal.load(&mut |part| {
        if let StoredPart::Block { number, bytes } = part {
            let text = b"Blue fish";
            let found = bytes.windows(text.len()).position(|window| window == text);
            if let Some(at) = found {
                // The format, a checksum of it and the rest, and the rest.
                let mut block = [&bytes[..1], &bytes[5..]].concat();
                block[at - 4..][..text.len()].copy_from_slice(b"Grey fish");
                let sum = crc32fast::hash(&block).to_le_bytes();
                block.splice(1..1, sum);
                changed.block = Some((number, block));
            }
        }
        Ok(())
    });
    loaded.unwrap();
    assert!(changed.block.is_some());
    journal.write(&changed).unwrap();
    drop(journal);
    let text = folder
        .doclock(&["verify", "n.doclock"])
        .ended_with(1)
        .stdout;
    let expected = "not verified: the log and the document disagree at version 1: ";
    assert!(text.starts_with(expected), "{text}");
    let json = folder
        .doclock(&["verify", "n.doclock", "--json"])
        .ended_with(1)
        .json();
    assert_eq!(json["error"]["code"], "versionDiffers");
    assert_eq!(json["verified"], false);
    // The last version can be shown, and one before cannot.
    folder.doclock(&["show", "n.doclock"]).ended_with(0);
    folder
        .doclock(&["show", "n.doclock", "--version", "0"])
        .refused_with(4);
}

#[test]
fn a_compacted_file_is_smaller_and_the_same() {
    let folder = filled();
    let log = folder.doclock(&["log", "n.doclock"]).stdout;
    let before = fs::metadata(folder.path("n.doclock")).unwrap().len();
    let text = folder
        .doclock(&["compact", "n.doclock"])
        .ended_with(0)
        .stdout;
    let after = fs::metadata(folder.path("n.doclock")).unwrap().len();
    assert!(after < before);
    assert_eq!(
        text,
        format!("{before} bytes before, {after} bytes after\n")
    );
    assert_eq!(
        folder.doclock(&["log", "n.doclock"]).ended_with(0).stdout,
        log
    );
}

#[test]
fn a_file_that_another_process_has_open_is_in_use() {
    let folder = filled();
    folder.write("s.json", INSERT);
    let path = folder.path("n.doclock");
    let store = DataStore::open(&path).unwrap();
    for words in [
        &["log", "n.doclock"][..],
        &["show", "n.doclock"],
        &["diff", "n.doclock", "3", "3"],
        &["verify", "n.doclock"],
        &["export", "n.doclock", "--to", "n.md"],
        &["compact", "n.doclock"],
        &["run", "n.doclock", "s.json"],
    ] {
        let reason = folder.doclock(words).refused_with(3);
        assert!(
            reason.starts_with("n.doclock: another program has the file open"),
            "{reason}"
        );
    }
    store.close().unwrap();
}

#[test]
fn a_file_is_read_while_another_process_edits_it_and_allows_readers() {
    let folder = Folder::new();
    folder.write("s.json", CREATE);
    folder
        .doclock(&["run", "n.doclock", "s.json"])
        .ended_with(0);
    let options = DurableOptions::new().keep_log(1 << 20).allow_readers();
    let store = DataStore::open_with(folder.path("n.doclock"), options).unwrap();
    let editor = Editor::new(store.clone(), "ann");
    for version in 2..5 {
        editor.execute(insert_text(0, "!").on("p")).unwrap();
        let text = folder
            .doclock(&["verify", "n.doclock"])
            .ended_with(0)
            .stdout;
        assert!(
            text.starts_with(&format!("verified up to version {version}\n")),
            "{text}"
        );
        assert!(
            text.contains("not those of the pages, because another program"),
            "{text}"
        );
        let log = folder
            .doclock(&["log", "n.doclock", "--json"])
            .ended_with(0)
            .json();
        assert_eq!(log["commits"].as_array().unwrap().len(), version);
        let show = folder.doclock(&["show", "n.doclock"]).ended_with(0).stdout;
        assert!(
            show.contains(&format!("{}Hello world", "!".repeat(version - 1))),
            "{show}"
        );
    }
    folder.doclock(&["compact", "n.doclock"]).refused_with(3);
    folder
        .doclock(&["run", "n.doclock", "s.json", "--allow-readers"])
        .refused_with(3);
    store.close().unwrap();
}

#[test]
fn what_is_left_of_a_damaged_file_goes_to_new_files() {
    let folder = filled();
    let whole = fs::read(folder.path("n.doclock")).unwrap();
    let salvage = [
        "salvage",
        "n.doclock",
        "--to",
        "out.doclock",
        "--to",
        "out.json",
    ];
    let mut damaged = whole.clone();
    damaged[..4096].fill(0);
    folder.write("n.doclock", &damaged);
    folder.doclock(&["verify", "n.doclock"]).refused_with(4);
    let text = folder.doclock(&salvage).ended_with(0).stdout;
    let expected = "\
salvaged: version 3 of 3, 4 nodes
kept: 0 receipts, 0 marks of inboxes, 0 leases
written: out.doclock
written: out.json
";
    assert_eq!(text, expected);
    let shown = folder
        .doclock(&["show", "out.doclock", "--format", "json"])
        .ended_with(0)
        .stdout;
    let nodes = |json: &str| serde_json::from_str::<Snapshot>(json).unwrap();
    let json = fs::read_to_string(folder.path("out.json")).unwrap();
    assert_eq!(nodes(&shown), nodes(&json));
    // Nothing is replaced, not even by chance the damaged file.
    folder.doclock(&salvage).refused_with(2);
    folder
        .doclock(&["salvage", "n.doclock", "--to", "n.doclock"])
        .refused_with(2);
    folder
        .doclock(&["salvage", "n.doclock", "--to", "out.txt"])
        .refused_with(2);
    assert!(fs::read(folder.path("n.doclock")).unwrap() == damaged);

    // A node is lost, wherever it is stored.
    let mut damaged = whole;
    let places: Vec<usize> = (0..damaged.len() - 9)
        .filter(|at| damaged[*at..].starts_with(b"Blue fish"))
        .collect();
    places.iter().for_each(|at| damaged[*at] ^= 1);
    folder.write("n.doclock", &damaged);
    let report = folder
        .doclock(&["salvage", "n.doclock", "--json"])
        .ended_with(1)
        .json();
    assert_eq!(report["missingNodes"], serde_json::json!(["c"]));
    assert_eq!(
        (&report["isWhole"], &report["nodes"]),
        (&false.into(), &3.into())
    );
    assert!(fs::read(folder.path("n.doclock")).unwrap() == damaged);
    folder.write("n.doclock", noise(5_000));
    folder.doclock(&["salvage", "n.doclock"]).refused_with(4);
}
