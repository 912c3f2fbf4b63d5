//! A file that is removed, replaced or cut off while a store has it open.

use std::fs::{self, OpenOptions};

use doclock::durable::JournalErrorKind;
use doclock::{DataStore, TransactionManager, View, dsl::*};
use serde_json::json;

use crate::{Folder, add, later};

/// Commits and the close of such a store succeeded, and all was gone.
#[test]
#[cfg(unix)]
fn durable_01_a_store_whose_file_is_gone_does_not_close_as_if_nothing_was() {
    type Act = fn(&Folder);
    let acts: [(&str, Act); 4] = [
        ("removed", |folder| fs::remove_file(folder.path()).unwrap()),
        ("renamed", |folder| {
            fs::rename(folder.path(), folder.0.path().join("other")).unwrap();
        }),
        ("replaced", |folder| {
            let other = folder.0.path().join("other");
            drop(DataStore::open(&other).unwrap());
            fs::rename(other, folder.path()).unwrap();
        }),
        ("cut off", |folder| {
            let file = OpenOptions::new().write(true).open(folder.path()).unwrap();
            file.set_len(4096).unwrap();
        }),
    ];
    for (what, act) in acts {
        let folder = Folder::new();
        let store = folder.open_with(later());
        let version = add(&store, "before");
        store.wait_durable(version).wait().unwrap();
        act(&folder);
        let error = store.close().unwrap_err();
        assert!(error.to_string().contains("notes.doclock"), "{error}");
        let report = serde_json::to_value(&error).unwrap();
        assert_eq!(
            report["cause"]["kind"],
            json!(JournalErrorKind::Moved),
            "{what}"
        );
    }
}

/// The next checkpoint finds it, and the store becomes read-only.
#[test]
#[cfg(unix)]
fn durable_01_a_store_whose_file_was_removed_becomes_read_only() {
    let folder = Folder::new();
    let store = folder.open_with(later().checkpoint_after(1));
    add(&store, "before");
    fs::remove_file(folder.path()).unwrap();
    let manager = TransactionManager::new(store.clone());
    let mut commits = (0..).map(|_| manager.execute(create(text_node("p", "x"))));
    let error = commits.find_map(Result::err).unwrap();
    assert!(error.to_string().contains("removed"), "{error}");
    // The document is still there, to be saved elsewhere.
    let other = folder.0.path().join("other.doclock");
    assert_eq!(store.backup(&other).unwrap(), store.version());
    assert!(
        DataStore::open(other)
            .unwrap()
            .snapshot()
            .contains("before")
    );
}

/// It was found two seconds later, and the file was damaged until then.
#[test]
#[cfg(unix)]
fn durable_01_a_commit_after_the_file_was_removed_or_cut_off_is_not_stored() {
    for is_cut_off in [true, false] {
        let folder = Folder::new();
        let store = folder.open();
        add(&store, "before");
        let file = OpenOptions::new().write(true).open(folder.path()).unwrap();
        match is_cut_off {
            true => file.set_len(file.metadata().unwrap().len() - 4096).unwrap(),
            false => fs::remove_file(folder.path()).unwrap(),
        }
        let manager = TransactionManager::new(store.clone());
        let refused = manager.execute(create(text_node("p", "x"))).unwrap_err();
        assert!(refused.to_string().contains("the file was"), "{refused}");
    }
}
