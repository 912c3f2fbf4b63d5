//! The creation of a file.

use std::fs::{self, File};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::{Duration, SystemTime};

use doclock::document::schema::{NodeType, Schema};
use doclock::durable::{DurableFile, DurableOptions, OpenError, OpenProgress};
use doclock::{DataStore, Snapshot, StoreOptions, View};

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
        (".doclock-notes.new", true),
        (".doclock-0.new", true),
        (".doclock-A.new", true),
        (".doclock-123456789.new", true),
        (".doclock-.new", true),
        (".doclock-+1.new", true),
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
    assert!(
        !left[0] && left[1..].iter().all(|is_left| *is_left),
        "{left:?}"
    );
    assert_eq!(fs::read_dir(folder.0.path()).unwrap().count(), files.len());
}

/// Both were "missing", and a link to no file could not be opened.
#[test]
#[cfg(unix)]
fn durable_06_a_missing_folder_and_a_link_to_no_file_are_not_a_missing_file() {
    use std::os::unix::fs::symlink;

    let folder = Folder::new();
    let beside = |name: &str| folder.0.path().join(name);
    let existing = |path: &Path| {
        let options = DurableOptions::new().only_existing();
        DataStore::open_with(path, options).unwrap_err()
    };
    let shown = |path: PathBuf| path.display().to_string();
    // No folder, or a file in its place.
    fs::write(beside("file"), "").unwrap();
    for name in ["no/such", "file"] {
        let path = beside(name).join("e.doclock");
        let error = OpenError::NoFolder {
            folder: shown(beside(name)),
        };
        assert_eq!(DataStore::open(&path).unwrap_err(), error);
        assert_eq!(existing(&path), error);
        assert_eq!(DurableFile::read(&path).unwrap_err(), error);
        assert_eq!(folder.open().backup(&path).unwrap_err(), error);
    }
    // Links, one after the other, to a file that is not there yet.
    symlink("second", beside("first")).unwrap();
    symlink(beside("target"), beside("second")).unwrap();
    let error = OpenError::DanglingLink {
        target: shown(beside("target")),
    };
    assert_eq!(existing(&beside("first")), error);
    assert_eq!(DurableFile::read(beside("first")).unwrap_err(), error);
    let store = DataStore::open(beside("first")).unwrap();
    add(&store, "p");
    store.close().unwrap();
    drop(store);
    assert!(fs::symlink_metadata(beside("first")).unwrap().is_symlink());
    assert_eq!(DataStore::open(beside("target")).unwrap().version(), 1);
    // To a folder that is not there, and in a circle.
    symlink("no/such/file", beside("lost")).unwrap();
    let error = OpenError::NoFolder {
        folder: shown(beside("no/such")),
    };
    assert_eq!(DataStore::open(beside("lost")).unwrap_err(), error);
    symlink("circle", beside("circle")).unwrap();
    let error = DataStore::open(beside("circle")).unwrap_err();
    assert!(matches!(error, OpenError::Journal(_)), "{error}");
}

/// The first one would begin with an empty document, or replace the file of the faster one.
#[test]
fn durable_06_a_file_that_another_open_creates_faster_is_opened_or_refused_as_the_options_say() {
    let folder = Folder::new();
    let beside = |name: &str| folder.0.path().join(name);
    let overtaken = |name: &str, options: DurableOptions| {
        let (path, faster) = (beside(name), Once::new());
        // The new file is loaded, and not at its path yet.
        let overtake = move |reached| {
            if reached == OpenProgress::Nodes(0) {
                faster.call_once(|| {
                    add(&DataStore::open(&path).unwrap(), "faster");
                });
            }
        };
        DataStore::open_with(beside(name), options.progress(overtake))
    };
    assert_eq!(
        overtaken("may", DurableOptions::new()).unwrap().version(),
        1
    );
    let new = DurableOptions::new();
    for (name, options) in [
        ("new", new.clone().only_new()),
        ("with", new.document(Snapshot::default())),
    ] {
        assert_eq!(overtaken(name, options).unwrap_err(), OpenError::Exists);
        assert_eq!(DataStore::open(beside(name)).unwrap().version(), 1);
    }
    assert_eq!(fs::read_dir(folder.0.path()).unwrap().count(), 3);
}

/// It left a file with another document.
#[test]
fn durable_06_a_new_document_that_its_schema_refuses_leaves_no_file() {
    let folder = Folder::new();
    let other = DataStore::new();
    add(&other, "p");
    let schema = Schema::builder().node("heading", NodeType::new()).build();
    let schema = schema.unwrap();
    let options = DurableOptions::new()
        .store(StoreOptions::new().schema(schema))
        .document(other.snapshot());
    let refused = DataStore::open_with(folder.path(), options).unwrap_err();
    assert!(matches!(refused, OpenError::Schema(_)), "{refused}");
    assert_eq!(fs::read_dir(folder.0.path()).unwrap().count(), 0);
}

/// Its file stayed without a document, so the next creation was refused.
#[test]
fn durable_06_a_creation_that_fails_leaves_no_file() {
    let folder = Folder::new();
    let memory = DataStore::new();
    add(&memory, "p");
    let import = || DurableOptions::new().document(memory.snapshot());
    let schema = Schema::builder().node("doc", NodeType::new()).build();
    let strict = StoreOptions::new().schema(schema.unwrap());
    let refused = DataStore::open_with(folder.path(), import().store(strict));
    assert!(matches!(refused, Err(OpenError::Schema(_))), "{refused:?}");
    let panics = |at: OpenProgress| {
        let options = import().progress(move |reached| assert_ne!(reached, at, "enough"));
        let open = || DataStore::open_with(folder.path(), options);
        let panicked = catch_unwind(AssertUnwindSafe(open));
        assert!(panicked.is_err(), "{at:?}");
    };
    panics(OpenProgress::Nodes(0));
    panics(OpenProgress::Commits(0));
    assert_eq!(fs::read_dir(folder.0.path()).unwrap().count(), 0);
    let store = DataStore::open_with(folder.path(), import()).unwrap();
    drop(store);
    // A file that was there stays.
    let options = DurableOptions::new().progress(|_| panic!("enough"));
    let open = || DataStore::open_with(folder.path(), options);
    assert!(catch_unwind(AssertUnwindSafe(open)).is_err());
    assert!(folder.open().snapshot().contains("p"));
}
