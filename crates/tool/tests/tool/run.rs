//! `doclock run`.

use doclock::{Snapshot, View};

use crate::{CREATE, Folder, INSERT};

const CREATE_NOTE: &str = r#"[{"type": "create", "payload": {"node": {"type": "note"}}}]"#;

#[test]
fn a_script_runs_in_several_editors_and_the_statistics_are_printed() {
    let folder = Folder::new();
    folder.write("page.md", "# Notes\n\nBuy *milk*.\n");
    folder.write("s.json", CREATE_NOTE);
    let words = [
        "run",
        "page.md",
        "s.json",
        "--editors",
        "3",
        "--repeat",
        "2",
    ];
    let ended = folder.doclock(&words).ended_with(0);
    assert!(
        ended
            .stdout
            .starts_with("page.md: version 1 became 7\n6 transactions of 3 editors")
    );
    assert!(ended.stdout.contains("6 committed, 0 failed"), "{ended:?}");
    assert!(
        ended.stdout.contains("\nacquisitions             7\n"),
        "{ended:?}"
    );
    let json = folder
        .doclock(&[&words[..], &["--json"]].concat())
        .ended_with(0)
        .json();
    assert_eq!(
        (&json["committed"], &json["versionAfter"]),
        (&6.into(), &7.into())
    );
    assert_eq!(json["lock"]["totalAcquisitions"], 7);
}

#[test]
fn a_failed_transaction_is_reported_with_the_index_of_its_operation() {
    let folder = Folder::new();
    folder.write("s.json", CREATE);
    let words = ["run", "notes.doclock", "s.json", "--editors", "4", "--json"];
    let ended = folder.doclock(&words).ended_with(1).json();
    assert_eq!(
        (&ended["committed"], &ended["failed"]),
        (&1.into(), &3.into())
    );
    let failures = ended["failures"].as_array().unwrap();
    assert_eq!(failures.len(), 1);
    assert_eq!(failures[0]["count"], 3);
    let error = &failures[0]["error"];
    assert_eq!(
        (&error["code"], &error["index"]),
        (&"operationFailed".into(), &0.into())
    );
    let text = folder.doclock(&words[..3]).ended_with(1).stdout;
    let line = "failed 1 time, first for editor-1: operation 0 (create): node p exists already";
    assert!(text.contains(line), "{text}");
}

#[test]
fn each_kind_of_document_is_edited_and_written() {
    let folder = Folder::new();
    folder.write("create.json", CREATE);
    folder.write("insert.json", INSERT);
    folder
        .doclock(&["run", "n.doclock", "create.json", "--out", "n.json"])
        .ended_with(0);
    folder
        .doclock(&["run", "n.json", "insert.json", "--out", "m.json"])
        .ended_with(0);
    let json = std::fs::read(folder.path("m.json")).unwrap();
    let document: Snapshot = serde_json::from_slice(&json).unwrap();
    assert_eq!(document.version(), 2);
    assert_eq!(document.node("p").unwrap().text(), &"Hello big world");
    folder
        .doclock(&["run", "n.doclock", "insert.json", "--out", "n.html"])
        .ended_with(0);
    let read = |name| std::fs::read_to_string(folder.path(name)).unwrap();
    assert_eq!(read("n.html"), "<p>Hello big world</p>\n");
    folder.write("nothing.json", "[]");
    folder
        .doclock(&["run", "n.html", "nothing.json", "--out", "n.md"])
        .ended_with(0);
    assert_eq!(read("n.md"), "Hello big world\n");
    folder
        .doclock(&["run", "n.md", "nothing.json"])
        .ended_with(0);
}

#[test]
fn a_run_keeps_the_log_of_a_durable_file() {
    let folder = Folder::new();
    folder.write("create.json", CREATE);
    folder.write("insert.json", INSERT);
    folder
        .doclock(&["run", "n.doclock", "create.json"])
        .ended_with(0);
    for version in 2..5 {
        folder
            .doclock(&["run", "n.doclock", "insert.json", "--allow-readers"])
            .ended_with(0);
        let log = folder
            .doclock(&["log", "n.doclock", "--json"])
            .ended_with(0)
            .json();
        assert_eq!(
            (&log["firstVersion"], &log["version"]),
            (&0.into(), &version.into())
        );
    }
}

#[test]
fn bad_scripts_are_refused_with_the_position() {
    let folder = Folder::new();
    folder.write("page.md", "text");
    let refused = |script: &str| {
        folder.write("s.json", script);
        folder
            .doclock(&["run", "page.md", "s.json"])
            .refused_with(2)
    };
    assert_eq!(
        refused("[\n  {\"type\": \"insertTxt\", \"payload\": {}}]")
            .split(',')
            .next()
            .unwrap(),
        "s.json: operation 0: insertTxt: unknown variant `insertTxt`"
    );
    for script in [
        "",
        "{",
        "[1",
        "nul",
        "{\"type\": \"insertText\", \"payload\": {\"nodeId\": \"p\", \"offset\": 1e999}}",
        "{\"type\": \"insertText\", \"payload\": {\"nodeId\": \"p\", \"offset\": -1, \"text\": \"\"}}",
        &"[".repeat(100_000),
    ] {
        let reason = refused(script);
        assert!(reason.starts_with("s.json: "), "{reason}");
        assert!(reason.contains(" at line 1 column "), "{reason}");
    }
    folder.write("s.json", b"[\xff");
    let reason = folder
        .doclock(&["run", "page.md", "s.json"])
        .refused_with(2);
    assert_eq!(reason, "s.json: is not UTF-8 from byte 1 on");
}

#[test]
fn a_run_that_is_refused_creates_no_file() {
    let folder = Folder::new();
    folder.write("s.json", "[");
    folder
        .doclock(&["run", "n.doclock", "s.json"])
        .refused_with(2);
    folder.write("s.json", "[]");
    folder
        .doclock(&["run", "n.doclock", "s.json", "--out", "n.pdf"])
        .refused_with(2);
    folder.doclock(&["run", "n.txt", "s.json"]).refused_with(2);
    folder.doclock(&["run", "n.md", "s.json"]).refused_with(2);
    folder
        .doclock(&["run", "n.json", "s.json", "--allow-readers"])
        .refused_with(2);
    assert_eq!(std::fs::read_dir(folder.0.path()).unwrap().count(), 1);
    let reason = folder
        .doclock(&["run", "no/folder.doclock", "s.json"])
        .refused_with(2);
    assert_eq!(
        reason,
        "no/folder.doclock: the folder of the file does not exist: no"
    );
}
