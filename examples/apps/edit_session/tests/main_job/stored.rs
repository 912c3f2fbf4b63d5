//! The main job on a document in a file: it continues in the next run, and survives a kill.

use std::fs::{self, File};
use std::path::Path;
#[cfg(target_os = "linux")]
use std::process::Command;

use serde_json::json;

use super::{MARKDOWN, bad_input::assert_refused, file, history, report_of, run, stdout};
#[cfg(target_os = "linux")]
use super::{PROGRAM, stderr};

/// A path in the folder that cargo keeps for tests, without a file.
fn free(name: &str) -> String {
    let path = file(name, "");
    fs::remove_file(&path).unwrap();
    path
}

#[test]
fn a_stored_document_is_edited_further_by_the_next_run() {
    let (markdown, store) = (file("stored.md", MARKDOWN), free("stored.doclock"));
    let few = ["--store", &store, "--transactions", "60", "--editors", "2"];
    let first = report_of(&[&[&*markdown], &few[..]].concat());
    let second = report_of(&few);
    assert_eq!(first["source"], json!(markdown));
    assert_eq!(second["source"], json!(store));
    assert_eq!(first["document"]["after"], second["document"]["before"]);
    let number = |report: &serde_json::Value, path: &str| {
        let value = report.pointer(path);
        value.and_then(serde_json::Value::as_u64).unwrap()
    };
    let committed = |report| number(report, "/transactions/committed");
    let durable = |report| number(report, "/store/closed/durableVersion");
    // The import is a commit too.
    assert_eq!(durable(&first), 1 + committed(&first));
    assert_eq!(durable(&second), durable(&first) + committed(&second));
    let nodes = number(&second, "/document/before/nodes");
    assert_eq!(number(&second, "/store/opens/0/nodes"), nodes);
    assert!(number(&second, "/store/closed/writes") <= committed(&second));
}

#[test]
fn a_recorded_history_is_stored() {
    let (trace, store) = (
        file("stored.json", history().to_string()),
        free("trace.doclock"),
    );
    let arguments = ["--trace", &trace, "--store", &store, "--editors", "2"];
    // The import, and for each editor those of its five transactions that change something.
    assert_eq!(
        report_of(&arguments)["store"]["closed"]["commits"],
        1 + 2 * 3
    );
    assert_refused(&arguments, "the file exists already");
    report_of(&["--store", &store, "--transactions", "20"]);
}

#[test]
fn every_acknowledged_commit_is_there_after_a_kill() {
    let (markdown, store) = (file("killed.md", MARKDOWN), free("killed.doclock"));
    let few = ["--store", &store, "--transactions", "40"];
    let new = [&[&*markdown, "--kill-after", "30"], &few[..]].concat();
    let existing = [&["--kill-after", "1", "--editors", "1"], &few[..]].concat();
    let again = [&["--kill-after", "99", "--editors", "9"], &few[..]].concat();
    for (arguments, kill_after) in [(new, 30), (existing, 1), (again, 99)] {
        let report = report_of(&arguments);
        let killed = |name: &str| report["store"]["killed"][name].as_u64().unwrap();
        assert!(killed("acknowledged") >= kill_after, "{report:#}");
        let versions = ["acknowledgedVersion", "version", "publishedVersion"].map(killed);
        assert!(versions.is_sorted(), "{versions:?}");
        let opens = &report["store"]["opens"];
        assert_eq!(opens[2]["commits"], 0);
        assert!(opens[1]["commits"].as_u64().unwrap() >= kill_after);
        let committed = report["transactions"]["committed"].as_u64().unwrap();
        let durable = &report["store"]["closed"]["durableVersion"];
        assert_eq!(*durable, killed("version") + committed);
    }
    let output = run([&["--kill-after", "5"], &few[..]].concat());
    assert!(output.status.success(), "{output:?}");
    for piece in ["after the kill", "durable ", "repeated"] {
        assert!(stdout(&output).contains(piece), "{piece}: {output:?}");
    }
}

/// A process that cannot commit any more would be waited for without end.
#[cfg(target_os = "linux")]
#[test]
fn a_process_that_fails_before_the_kill_is_reported() {
    let store = free("full.doclock");
    let limited = format!(
        "trap '' XFSZ; ulimit -f 500; exec timeout 60 '{PROGRAM}' --store '{store}' --kill-after 1000000"
    );
    let output = Command::new("sh").args(["-c", &limited]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let lines = stderr(&output);
    // The commit in the failed write, or one that came after it.
    assert!(lines.contains("File too large"), "{lines}");
    assert!(
        lines.contains("the editing process ended by itself"),
        "{lines}"
    );
    report_of(&["--store", &store, "--transactions", "20"]);
}

#[test]
fn a_store_that_cannot_be_opened_is_refused_and_stays_as_it_is() {
    let used = free("used.doclock");
    report_of(&["--store", &used, "--transactions", "0"]);
    let document = fs::read(&used).unwrap();
    let markdown = file("refused.md", MARKDOWN);
    let missing = format!("{}/x.doclock", free("missing-folder"));
    let beneath = format!("{used}/x.doclock");
    let cases: &[(&[&str], &str)] = &[
        (
            &[&markdown, "--store", &used],
            "used.doclock: the file exists already",
        ),
        (&["--store", &markdown], "is not a document of doclock"),
        (
            &["--store", env!("CARGO_TARGET_TMPDIR")],
            "is a folder, not a file",
        ),
        (
            &["--store", &missing],
            "the folder of the file does not exist",
        ),
        (&["--store", &beneath], "used.doclock/x.doclock"),
        (&["--store"], "--store"),
        (
            &["--store", &used, "--store", &used],
            "more than one --store",
        ),
        (&["--kill-after", "5"], "--kill-after needs --store"),
        (
            &["--store", &used, "--kill-after", "0"],
            "--kill-after takes a number from 1",
        ),
        (
            &["--trace", "a.json", "--store", &used, "--kill-after", "5"],
            "not of --trace",
        ),
    ];
    for (arguments, reason) in cases {
        assert_refused(arguments, reason);
    }
    // As another process does.
    let open = File::open(&used).unwrap();
    open.lock().unwrap();
    assert_refused(
        &["--store", &used],
        "another store or process has the file open",
    );
    drop(open);
    assert!(fs::read(&used).unwrap() == document, "the file has changed");
    assert_eq!(fs::read_to_string(&markdown).unwrap(), MARKDOWN);
    assert!(!Path::new(&missing).exists());

    let mut permissions = fs::metadata(&used).unwrap().permissions();
    permissions.set_readonly(true);
    fs::set_permissions(&used, permissions.clone()).unwrap();
    if File::options().write(true).open(&used).is_ok() {
        println!("skipped: this user may write a file that is only to be read");
    } else {
        assert_refused(&["--store", &used], "the file may not be read or written");
    }
    assert!(fs::read(&used).unwrap() == document, "the file has changed");
    #[expect(
        clippy::permissions_set_readonly_false,
        reason = "it is in the folder of the tests"
    )]
    permissions.set_readonly(false);
    fs::set_permissions(&used, permissions).unwrap();
}

/// The editors would add nodes outside of its tree.
#[test]
fn a_document_of_another_program_is_refused_and_stays_as_it_is() {
    use doclock::{DataStore, NodeId, TransactionManager, dsl::*};

    let store = free("other.doclock");
    let document = || DataStore::open(&store).unwrap();
    let paragraph = || create(text_node("paragraph", "Hello").with_id("p"));
    let manager = TransactionManager::new(document());
    manager.execute([paragraph()]).unwrap();
    drop(manager);
    let refused = |reason| {
        let before = document().snapshot();
        assert_refused(&["--store", &store], reason);
        assert_eq!(document().snapshot(), before);
    };
    refused("its document cannot be edited here: there is no root");
    let opened = document();
    let mut transaction = opened.begin("test").unwrap();
    transaction.set_root(&NodeId::from("p")).unwrap();
    transaction.commit().unwrap();
    drop(opened);
    refused("the root is of type `paragraph`, not `document`");
}
