//! `doclock replay`.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::Folder;

const TRACE: &str = r#"{
    "startContent": "", "endContent": "Hé world!",
    "txns": [
        {"time": "x", "patches": [[0, 0, "Hé"]]},
        {"time": "x", "patches": [[2, 0, " there"], [2, 6, ""], [2, 0, " wurld"]]},
        {"time": "x", "patches": [[4, 1, "o"], [8, 0, "!"]]}
    ]
}"#;

fn packed(json: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(json.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn a_history_is_replayed_to_its_recorded_text_in_each_editor() {
    let folder = Folder::new();
    folder.write("t.json.gz", packed(TRACE));
    let words = ["replay", "t.json.gz", "--editors", "3"];
    let text = folder.doclock(&words).ended_with(0).stdout;
    assert!(
        text.starts_with("t.json.gz\n9 transactions of 3 editors in "),
        "{text}"
    );
    assert!(
        text.ends_with("3 of 3 texts equal the recorded one\n"),
        "{text}"
    );
    folder.write("t.json", TRACE);
    let json = folder
        .doclock(&["replay", "t.json", "--json"])
        .ended_with(0)
        .json();
    assert_eq!(
        (&json["transactions"], &json["versions"]),
        (&3.into(), &3.into())
    );
    assert_eq!(
        (&json["characters"], &json["asRecorded"]),
        (&9.into(), &1.into())
    );
}

#[test]
fn a_history_with_another_end_is_a_difference() {
    let folder = Folder::new();
    folder.write("t.json", TRACE.replace("Hé world!", "Hé world?"));
    let text = folder.doclock(&["replay", "t.json"]).ended_with(1).stdout;
    assert!(
        text.ends_with("0 of 1 texts equal the recorded one\n"),
        "{text}"
    );
}

#[test]
fn what_is_no_history_is_refused() {
    let folder = Folder::new();
    let refused = |name: &str, contents: &[u8]| {
        folder.write(name, contents);
        folder.doclock(&["replay", name]).refused_with(2)
    };
    let whole = packed(TRACE);
    let reason = refused("t.json.gz", &whole[..whole.len() / 2]);
    assert!(
        reason.starts_with("t.json.gz: is not sound gzip data: "),
        "{reason}"
    );
    refused("t.json.gz", b"");
    refused("t.json.gz", TRACE.as_bytes());
    let reason = refused("t.json", &TRACE.as_bytes()[..40]);
    assert!(reason.contains("at line 2 column "), "{reason}");
    let out = TRACE.replace("[0, 0,", "[1, 0,");
    assert_eq!(
        refused("t.json", out.as_bytes()),
        "t.json: is no sound history: transaction 0 replaces 0 characters at 1 of a text that has 0"
    );
    refused(
        "t.json",
        TRACE
            .replace("[0, 0,", "[18446744073709551615, 1,")
            .as_bytes(),
    );
    refused("t.json", TRACE.replace("[0, 0,", "[1e30, 0,").as_bytes());
    let concurrent = TRACE.replace("\"time\": \"x\"", "\"parents\": [], \"agent\": 0");
    let reason = refused("t.json", concurrent.as_bytes());
    assert!(reason.contains("concurrent"), "{reason}");
}
