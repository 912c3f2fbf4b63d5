//! Unit tests of `src/store/durable/redb/read.rs`.

use super::*;
use crate::DataStore;

#[test]
fn durable_10_reads_share_a_file_and_keep_writers_away() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes.doclock");
    DataStore::open(&path).unwrap().close().unwrap();
    let read = || RedbReader::open(&path, |_| {}).unwrap();
    let (first, second) = (read(), read());
    assert!(matches!(
        (&first, &second),
        (RedbReader::Alone(_), RedbReader::Alone(_))
    ));
    assert_eq!(DataStore::open(&path).unwrap_err(), OpenError::Locked);
    drop(first);
    assert_eq!(DataStore::open(&path).unwrap_err(), OpenError::Locked);
    drop(second);
    DataStore::open(&path).unwrap();
}
