//! `doclock timeline`.

use std::io::Write;
use std::process::Stdio;

use doclock::diagnostics::chrome_trace;
use doclock::lock::{FifoLock, LockOptions, Timeline};
use serde_json::Value;

use crate::{Ended, Folder};

/// The timeline of a lock that two owners have acquired, as a program writes it.
fn written() -> Vec<u8> {
    let lock = FifoLock::with_options(LockOptions::new().timeline(10));
    for owner in ["ann", "</script>", "ann"] {
        drop(lock.lock(owner).unwrap());
    }
    serde_json::to_vec(&lock.timeline().unwrap()).unwrap()
}

fn slices(trace: &[u8]) -> usize {
    let trace: Value = serde_json::from_slice(trace).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    events.iter().filter(|event| event["ph"] == "X").count()
}

#[test]
fn a_timeline_that_a_program_has_written_becomes_a_page_and_a_trace() {
    let folder = Folder::new();
    folder.write("lock.json", [b"\xef\xbb\xbf", &written()[..]].concat());
    let words = [
        "timeline",
        "lock.json",
        "--html",
        "lock.html",
        "--chrome",
        "trace.json",
    ];
    let ended = folder.doclock(&words).ended_with(0);
    let lines = "lock.html: 3 requests of 2 owners\ntrace.json: 3 requests of 2 owners\n";
    assert_eq!(ended.stdout, lines);
    let page = std::fs::read_to_string(folder.path("lock.html")).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    assert!(
        page.contains(r#""owners":["ann","\u003c/script>"]"#),
        "{page}"
    );
    assert!(page.contains("tests/tool/timeline.rs:"), "{page}");
    assert_eq!(
        slices(&std::fs::read(folder.path("trace.json")).unwrap()),
        3
    );
}

#[test]
fn a_timeline_is_read_from_the_standard_input() {
    let folder = Folder::new();
    let read = |input: &[u8]| {
        let mut command = folder.command(&["timeline", "-", "--chrome", "trace.json"]);
        let piped = [Stdio::piped(), Stdio::piped(), Stdio::piped()];
        let [input_pipe, output, errors] = piped;
        let mut doclock = command
            .stdin(input_pipe)
            .stdout(output)
            .stderr(errors)
            .spawn()
            .unwrap();
        doclock.stdin.take().unwrap().write_all(input).unwrap();
        Ended::of(doclock.wait_with_output().unwrap())
    };
    let ended = read(&written()).ended_with(0);
    assert_eq!(ended.stdout, "trace.json: 3 requests of 2 owners\n");
    let reason = read(b"{").refused_with(2);
    assert!(
        reason.starts_with("standard input: is not a timeline: EOF while parsing"),
        "{reason}"
    );
}

#[test]
fn a_run_writes_a_timeline_of_each_transaction() {
    let folder = Folder::new();
    folder.write("page.md", "Buy milk.\n");
    let script = r#"[{"type": "create", "payload": {"node": {"type": "note"}}}]"#;
    folder.write("s.json", script);
    let words = [
        "run",
        "page.md",
        "s.json",
        "--editors",
        "3",
        "--repeat",
        "20",
    ];
    let written = ["--timeline", "lock.json"];
    folder
        .doclock(&[&words[..], &written].concat())
        .ended_with(0);
    let json = std::fs::read(folder.path("lock.json")).unwrap();
    let timeline: Timeline = serde_json::from_slice(&json).unwrap();
    let by = |owner| {
        timeline
            .entries
            .iter()
            .filter(move |it| it.owner_id.as_str() == owner)
    };
    assert_eq!(by("editor-3").count(), 20);
    assert!(slices(&serde_json::to_vec(&chrome_trace(&timeline)).unwrap()) >= 60);
    let refused = [&words[..], &["--timeline", "."]].concat();
    folder.doclock(&refused).refused_with(2);
}

#[test]
fn what_is_no_timeline_is_refused_and_nothing_is_written() {
    let folder = Folder::new();
    let refused = |json: &str| {
        folder.write("bad.json", json);
        let words = ["timeline", "bad.json", "--html", "out.html"];
        folder.doclock(&words).refused_with(2)
    };
    let whole = String::from_utf8(written()).unwrap();
    let deep = "[".repeat(100_000);
    for json in ["", "[]", "{}", "nul", &whole[..whole.len() - 1], &deep] {
        let reason = refused(json);
        assert!(
            reason.starts_with("bad.json: is not a timeline: "),
            "{reason}"
        );
        assert!(reason.contains(" at line 1 column "), "{reason}");
    }
    let reason = refused(&whole.replace("\"released\"", "\"gone\""));
    assert!(reason.contains("unknown variant `gone`"), "{reason}");
    let reason = refused(&whole.replace("\"requestedAt\":", "\"requestedAt\":-"));
    assert!(reason.contains("a duration in milliseconds"), "{reason}");

    folder.write("lock.json", &whole);
    let refused = |words: &[&str]| folder.doclock(words).refused_with(2);
    let reason = refused(&["timeline", "none.json", "--html", "out.html"]);
    assert_eq!(reason, "none.json: there is no such file");
    let reason = refused(&["timeline", ".", "--html", "out.html"]);
    assert_eq!(reason, ".: is a folder, not a file");
    let reason = refused(&["timeline", "lock.json"]);
    assert!(reason.contains("--html <OUT>"), "{reason}");
    let reason = refused(&["timeline", "lock.json", "--html", "."]);
    assert_eq!(reason, ".: is no name of a file");
    assert!(!folder.path("out.html").exists());
}
