//! The creation of a file.

use std::fs::{self, File};
use std::time::{Duration, SystemTime};

use doclock::DataStore;

use crate::{Folder, add};

/// The name of the unfinished file was longer than that of the document, so names over 242 bytes
/// failed.
#[test]
fn durable_06_a_document_may_have_the_longest_possible_name() {
    let folder = Folder::new();
    for length in [1, 242, 243, 255] {
        let path = folder.0.path().join("n".repeat(length));
        let store = DataStore::open(&path).unwrap();
        add(&store, "p");
        store.close().unwrap();
        drop(store);
        assert_eq!(DataStore::open(&path).unwrap().version(), 1);
    }
}

/// Unfinished files of processes that were killed stayed forever.
#[test]
fn durable_06_unfinished_files_of_killed_processes_are_removed_by_a_later_creation() {
    let folder = Folder::new();
    let beside = |name: &str| folder.0.path().join(name);
    let hours_ago = SystemTime::now() - Duration::from_secs(2 * 3600);
    let files = [
        (".doclock-1.new", true),
        (".doclock-2.new", false),
        ("mine.new", true),
        (".doclock-3", true),
    ];
    for (name, is_old) in files {
        let file = File::create(beside(name)).unwrap();
        if is_old {
            file.set_modified(hours_ago).unwrap();
        }
    }
    drop(folder.open());
    // Not the one that another process may be writing, and nothing of others.
    let left = files.map(|(name, _)| beside(name).exists());
    assert_eq!(left, [false, true, true, true]);
    assert_eq!(fs::read_dir(folder.0.path()).unwrap().count(), 4);
}
