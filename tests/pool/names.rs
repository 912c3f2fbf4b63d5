//! Names from outside.

use std::fs;
use std::future::IntoFuture;
use std::time::Duration;

use doclock::codes::CodedError;
use doclock::durable::DurableOptions;
use doclock::pool::{Documents, PoolError, PoolOptions};
use pollster::block_on;

use crate::{Counted, counted};

/// Names that would leave the folder, or be another file on some system.
fn refused() -> Vec<String> {
    let fixed = [
        "",
        ".",
        "..",
        "../notes",
        "a/b",
        "a\\b",
        "/etc/passwd",
        "C:notes",
        "notes.doclock",
        "notes\0",
        "\0",
        "no tes",
        "Notes",
        "nötes",
        "-rf",
        "_hidden",
        "a\nb",
        "a\u{202e}b",
        "%2e%2e",
        "~",
        "*",
        "a:b",
        "ａ",
        "a.",
    ];
    let long = [101, 1 << 20].map(|length| "a".repeat(length));
    fixed.into_iter().map(str::to_owned).chain(long).collect()
}

#[test]
fn pool_07_a_name_that_is_no_file_of_the_folder_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("documents");
    fs::create_dir(&folder).unwrap();
    let documents = Documents::in_folder(&folder, PoolOptions::new(1));
    // Documents in use would make a request wait.
    let held = documents.get("held").wait().unwrap();
    for name in refused() {
        let errors = [
            documents.get(&name).wait().unwrap_err(),
            documents.get_existing(&name).wait().unwrap_err(),
            documents.close(&name).wait().unwrap_err(),
            pollster::block_on(documents.get(&name).into_future()).unwrap_err(),
        ];
        for error in errors {
            assert_eq!(
                (error.code(), error.http_status()),
                ("documentNameInvalid", 400)
            );
            assert!(error.to_string().len() < 300, "{error}");
            let PoolError::Name { name: complete, .. } = error else {
                panic!("{error:?}");
            };
            assert_eq!(complete, name);
        }
    }
    drop(held);
    let mut longest = "a".repeat(100);
    for name in ["0", "a-b_c-", "con", &longest] {
        documents.get(name).wait().unwrap();
    }
    documents.close_idle(Duration::ZERO).wait().unwrap();
    longest.push_str(".doclock");
    let files = fs::read_dir(&folder)
        .unwrap()
        .map(|file| file.unwrap().file_name());
    let mut files: Vec<_> = files.map(|file| file.into_string().unwrap()).collect();
    files.sort();
    let expected = [
        "0.doclock",
        "a-b_c-.doclock",
        &longest,
        "con.doclock",
        "held.doclock",
    ];
    assert_eq!(files, expected);
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
}

#[test]
fn pool_07_another_rule_for_names_opens_no_file_outside_of_the_folder() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("documents");
    fs::create_dir(&folder).unwrap();
    let options = PoolOptions::new(1).names(|name| name != "bad");
    let documents = Documents::new(options, move |opening| {
        Ok((opening.open_in(&folder, DurableOptions::new())?, ()))
    });
    let error = documents.get("bad").wait().unwrap_err();
    assert_eq!(
        error.to_string(),
        "\"bad\" is not the name of a document: the rule of the pool refuses it"
    );
    for name in refused() {
        let error = documents.get(&name).wait().unwrap_err();
        assert_eq!(error.code(), "documentNameInvalid");
    }
    documents.get("good").wait().unwrap();
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
}

#[test]
fn pool_07_an_existing_document_is_not_created() {
    let folder = tempfile::tempdir().unwrap();
    let documents = Documents::in_folder(folder.path(), PoolOptions::new(1));
    let error = documents.get_existing("notes").wait().unwrap_err();
    assert_eq!((error.code(), error.http_status()), ("openMissing", 404));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    documents.get("notes").wait().unwrap();
    assert!(documents.get_existing("notes").wait().is_ok());
}

/// It took the slot of an idle document, or waited for one in use.
#[test]
fn pool_08_a_document_that_does_not_exist_takes_no_slot() {
    let missing = |documents: &Documents<Counted>| {
        let ways = [
            documents.get_existing("other").wait(),
            documents.get_existing("other").no_wait().wait(),
            block_on(documents.get_existing("other").into_future()),
        ];
        for error in ways.map(Result::unwrap_err) {
            assert_eq!((error.code(), error.http_status()), ("openMissing", 404));
        }
    };
    let options = PoolOptions::new(1).exists(|name| name == "notes");
    let (documents, count) = counted(options.timeout(Duration::from_millis(1)));
    let notes = documents.get("notes").wait().unwrap();
    missing(&documents);
    drop(notes);
    missing(&documents);
    assert!(documents.get_existing("notes").no_wait().wait().is_ok());
    assert_eq!(count.opens(), 1);
    // An open document is granted without a look.
    let other = documents.get("other").timeout(Duration::from_secs(60));
    let other = other.wait().unwrap();
    assert!(documents.get_existing("other").wait().is_ok());
    drop(other);
}

/// Each error is that of an open.
#[test]
fn pool_08_a_folder_knows_its_documents() {
    let folder = tempfile::tempdir().unwrap();
    let options = PoolOptions::new(1).timeout(Duration::ZERO).names(|_| true);
    let documents = Documents::in_folder(folder.path(), options);
    let notes = documents.get("notes").wait().unwrap();
    fs::write(folder.path().join("empty.doclock"), "").unwrap();
    let outside = "../other";
    for (name, code) in [
        ("other", "openMissing"),
        ("empty", "openForeign"),
        (outside, "documentNameInvalid"),
    ] {
        let error = documents.get_existing(name).wait().unwrap_err();
        assert_eq!(error.code(), code);
    }
    drop(notes);
    let away = Documents::in_folder(folder.path().join("away"), PoolOptions::new(1));
    let error = away.get_existing("notes").wait().unwrap_err();
    assert_eq!(error.code(), "openNoFolder");
}
