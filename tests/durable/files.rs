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
    let store = DataStore::create(folder.path()).unwrap();
    add(&store, "a");
    store.close().unwrap();
    assert_eq!(
        DataStore::create(folder.path()).unwrap_err(),
        OpenError::Exists
    );
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
    let files = [b"# A page\n".to_vec(), noise(100), noise(100_000)];
    for bytes in files {
        fs::write(folder.path(), &bytes).unwrap();
        assert_eq!(
            DataStore::open(folder.path()).unwrap_err(),
            OpenError::Foreign
        );
        assert_eq!(fs::read(folder.path()).unwrap(), bytes);
    }
    // A database of another program.
    fs::remove_file(folder.path()).unwrap();
    let table = redb::TableDefinition::<u64, u64>::new("other");
    let database = redb::Database::create(folder.path()).unwrap();
    let transaction = database.begin_write().unwrap();
    transaction.open_table(table).unwrap().insert(1, 1).unwrap();
    transaction.commit().unwrap();
    database.close().unwrap();
    let bytes = fs::read(folder.path()).unwrap();
    assert_eq!(
        DataStore::open(folder.path()).unwrap_err(),
        OpenError::Foreign
    );
    assert_eq!(fs::read(folder.path()).unwrap(), bytes);
}

#[test]
fn durable_06_a_newer_format_is_refused() {
    let folder = Folder::new();
    drop(folder.open());
    let mut journal = RedbJournal::open(folder.path(), |_| {}).unwrap();
    let mut head = b"\x07....{}".to_vec();
    let sum = crc32fast::hash(b"\x07{}").to_le_bytes();
    head[1..5].copy_from_slice(&sum);
    let mut write = JournalWrite::default();
    write.head = Some(head);
    journal.write(&write).unwrap();
    drop(journal);
    let error = DataStore::open(folder.path()).unwrap_err();
    assert_eq!(error, OpenError::Newer { found: 7, known: 1 });
    let expected = "the document is stored in format 7, and only format 1 is known";
    assert_eq!(error.to_string(), expected);
}

#[test]
#[cfg(unix)]
fn durable_06_a_path_that_cannot_be_a_file_is_refused() {
    let folder = Folder::new();
    fs::create_dir(folder.path()).unwrap();
    assert!(DataStore::open(folder.path()).is_err());
    let error = DataStore::open(folder.path().join("missing").join("x")).unwrap_err();
    assert_eq!(error, OpenError::Missing);
}

/// Either the open fails, or the document is the one that was written: a byte can be in a part of
/// the file that holds nothing.
#[test]
fn durable_06_no_damaged_or_truncated_file_is_opened_with_another_document() {
    let folder = Folder::new();
    let store = folder.open();
    for nth in 0..50 {
        add(&store, &format!("node {nth}"));
    }
    store.close().unwrap();
    let expected = store.snapshot();
    drop(store);
    let bytes = fs::read(folder.path()).unwrap();
    let (mut refused, mut opened) = (0, 0);
    let mut check = |damaged: Vec<u8>, what: String| {
        fs::write(folder.path(), damaged).unwrap();
        match DataStore::open(folder.path()) {
            Err(_) => refused += 1,
            Ok(store) => {
                opened += 1;
                assert_eq!(store.snapshot(), expected, "{what}");
            }
        }
    };
    // Each part of the file that holds something, in steps that are no multiple of a page.
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    for at in (0..used).step_by(127) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x55;
        check(damaged, format!("byte {at}"));
    }
    for len in (1..used).step_by(4099) {
        check(bytes[..len].to_vec(), format!("{len} bytes"));
    }
    assert!(refused > 20, "{refused} refused, {opened} opened");
}
