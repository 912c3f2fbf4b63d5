//! Files that cannot be opened: each is refused with its own error, and left as it is.

mod damaged;
mod disk;
mod full;
#[cfg(unix)]
mod processes;

use std::fs;

use doclock::DataStore;
use doclock::durable::{
    DurableOptions, Journal, JournalWrite, OpenError, RedbJournal, check_journal,
};

use crate::{Folder, add};

#[test]
fn the_journal_of_a_file_keeps_the_contract() {
    let folder = Folder::new();
    check_journal(|| RedbJournal::open(folder.path(), |_| {}).unwrap()).unwrap();
}

#[test]
fn durable_06_a_file_is_created_opened_or_refused_as_the_options_say() {
    let folder = Folder::new();
    let open = |options: DurableOptions| DataStore::open_with(folder.path(), options);
    let existing = DurableOptions::new().only_existing();
    assert_eq!(open(existing.clone()).unwrap_err(), OpenError::Missing);
    assert!(!folder.path().exists());
    let new = DurableOptions::new().only_new();
    let store = open(new.clone()).unwrap();
    add(&store, "a");
    store.close().unwrap();
    assert_eq!(open(new).unwrap_err(), OpenError::Exists);
    assert_eq!(open(existing).unwrap().version(), 1);
}

#[test]
fn durable_06_a_file_that_another_store_has_open_is_locked() {
    let folder = Folder::new();
    let store = folder.open();
    let error = DataStore::open(folder.path()).unwrap_err();
    assert_eq!(error, OpenError::Locked);
    drop(store);
    folder.open();
}

/// Opens a file that is refused, and checks that it stays as it is, alone in its directory.
fn refusal(folder: &Folder) -> OpenError {
    let bytes = fs::read(folder.path()).unwrap();
    let error = DataStore::open(folder.path()).unwrap_err();
    assert!(
        fs::read(folder.path()).unwrap() == bytes,
        "{error}: the file has changed"
    );
    assert_eq!(fs::read_dir(folder.0.path()).unwrap().count(), 1);
    error
}

/// Writes a file as a kill would leave it now.
fn kill(folder: &Folder) {
    let bytes = fs::read(folder.path()).unwrap();
    fs::remove_file(folder.path()).unwrap();
    fs::write(folder.path(), bytes).unwrap();
}

#[test]
fn durable_06_foreign_files_are_refused_and_stay_as_they_are() {
    let folder = Folder::new();
    let mut random = 1_u64;
    let noise = |len: usize| {
        let mut bytes = move || {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1);
            (random >> 56) as u8
        };
        (0..len).map(|_| bytes()).collect::<Vec<u8>>()
    };
    let image = [&b"\x89PNG\r\n\x1a\n"[..], &noise(10_000)].concat();
    // An empty file may be a document that was truncated, so none is made in its place.
    let files = [
        b"# A page\n".to_vec(),
        image,
        noise(100),
        noise(100_000),
        Vec::new(),
    ];
    for bytes in files {
        fs::write(folder.path(), &bytes).unwrap();
        assert_eq!(refusal(&folder), OpenError::Foreign);
    }
    // A database of another program, that was killed or not.
    for is_killed in [true, false] {
        fs::remove_file(folder.path()).unwrap();
        let table = redb::TableDefinition::<u64, u64>::new("other");
        let database = redb::Database::create(folder.path()).unwrap();
        let transaction = database.begin_write().unwrap();
        transaction.open_table(table).unwrap().insert(1, 1).unwrap();
        transaction.commit().unwrap();
        if is_killed {
            kill(&folder);
        }
        database.close().unwrap();
        assert_eq!(refusal(&folder), OpenError::Foreign);
    }
}

#[test]
fn durable_06_a_newer_format_is_refused_and_stays_as_it_is() {
    for is_killed in [true, false] {
        let folder = Folder::new();
        drop(folder.open());
        let mut journal = RedbJournal::open(folder.path(), |_| {}).unwrap();
        let mut head = b"\x07....{}".to_vec();
        let sum = crc32fast::hash(b"\x07{}").to_le_bytes();
        head[1..5].copy_from_slice(&sum);
        let mut write = JournalWrite::default();
        write.entries = vec![("head".to_owned(), Some(head))];
        journal.write(&write).unwrap();
        if is_killed {
            kill(&folder);
        }
        drop(journal);
        let error = refusal(&folder);
        assert_eq!(error, OpenError::Newer { found: 7, known: 2 });
        let expected = "the document is stored in format 7, and formats up to 2 are known";
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
#[cfg(unix)]
fn durable_06_a_path_that_cannot_be_a_file_is_refused() {
    use std::path::Path;

    let folder = Folder::new();
    fs::create_dir(folder.path()).unwrap();
    for path in [
        &folder.path(),
        Path::new("/dev/null"),
        Path::new("/dev/zero"),
    ] {
        assert_eq!(DataStore::open(path).unwrap_err(), OpenError::Foreign);
    }
    let error = DataStore::open(folder.path().join("missing").join("x")).unwrap_err();
    assert!(matches!(error, OpenError::NoFolder { .. }), "{error}");
}

/// `damaged.rs` has every byte, on a disk in memory.
#[test]
fn durable_06_a_damaged_file_stays_as_it_is_killed_or_not() {
    for is_killed in [true, false] {
        let folder = Folder::new();
        let store = folder.open();
        for nth in 0..50 {
            add(&store, &format!("node {nth}"));
        }
        store.close().unwrap();
        drop(store);
        let store = folder.open();
        let snapshot = store.snapshot();
        if is_killed {
            kill(&folder);
        }
        drop(store);
        let bytes = fs::read(folder.path()).unwrap();
        assert_eq!(folder.open().snapshot(), snapshot);
        // The text of a node of the checkpoint, and what is left of the blocks before it.
        let parts = bytes.windows(7).enumerate();
        let texts = parts.filter(|(_, part)| *part == b"node 25");
        let texts: Vec<usize> = texts.map(|(at, _)| at).collect();
        let mut damaged = bytes.clone();
        texts.iter().for_each(|at| damaged[*at] ^= 1);
        let truncated = bytes[..texts[0]].to_vec();
        for bytes in [damaged, truncated] {
            fs::write(folder.path(), bytes).unwrap();
            let error = refusal(&folder);
            assert!(matches!(error, OpenError::Corrupt(_)), "{error}");
        }
    }
}
