//! Unit tests of `src/store/durable/redb/held.rs`.

use super::*;
use redb::backends::FileBackend;

#[test]
fn durable_06_held_changes_are_read_and_reach_the_storage_only_with_the_release() {
    let seed = std::env::var("SEED").ok().and_then(|it| it.parse().ok());
    let seed: u64 = seed.unwrap_or_else(|| u64::from(std::process::id()));
    println!("SEED={seed}");
    let mut state = seed | 1;
    let mut below = |bound: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 16) as usize % bound
    };
    for _ in 0..100 {
        let file = tempfile::NamedTempFile::new().unwrap();
        let stored = vec![7_u8; below(100)];
        std::fs::write(file.path(), &stored).unwrap();
        let file_storage = FileBackend::new(file.reopen().unwrap()).unwrap();
        let storage = HeldStorage::new(file_storage).unwrap();
        let mut expected = stored.clone();
        for step in 0..50 {
            match below(3) {
                0 => {
                    let len = below(120);
                    storage.set_len(len as u64).unwrap();
                    expected.resize(len, 0);
                }
                1 => storage.sync_data().unwrap(),
                _ => {
                    let (start, len) = (below(120), 1 + below(40));
                    let end = start + len;
                    expected.resize(expected.len().max(end), 0);
                    expected[start..end].fill(step);
                    storage.write(start as u64, &vec![step; len]).unwrap();
                }
            }
            assert_eq!(storage.len().unwrap(), expected.len() as u64);
            let start = below(expected.len() + 1);
            let mut out = vec![9; below(expected.len() - start + 1)];
            storage.read(start as u64, &mut out).unwrap();
            assert_eq!(out, expected[start..start + out.len()]);
            let mut beyond = vec![9; expected.len() - start + 1];
            let error = storage.read(start as u64, &mut beyond).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        }
        assert_eq!(std::fs::read(file.path()).unwrap(), stored);
        storage.release().unwrap();
        assert_eq!(std::fs::read(file.path()).unwrap(), expected);
        storage.write(0, b"later").unwrap();
        assert_eq!(std::fs::read(file.path()).unwrap()[..5], *b"later");
    }
}

#[test]
fn durable_10_an_exclusive_lock_keeps_readers_away_until_the_release() {
    use Bound::{Excluded, Included};

    let file = tempfile::NamedTempFile::new().unwrap();
    let open = || FileBackend::new(file.reopen().unwrap()).unwrap();
    let (storage, other) = (HeldStorage::new(open()).unwrap(), open());
    let (start, end) = (Included(0), Excluded(320));
    let others_can_read = || {
        let locked = other.try_lock_shared_range(start, end).unwrap();
        if locked {
            other.unlock_range(start, end).unwrap();
        }
        locked
    };
    storage.lock_shared_range(start, end).unwrap();
    storage.unlock_range(start, end).unwrap();
    assert!(others_can_read());
    storage.lock_range(start, end).unwrap();
    storage.unlock_range(start, end).unwrap();
    assert!(!others_can_read());
    storage.lock_shared_range(start, end).unwrap();
    assert!(!others_can_read());
    storage.unlock_range(start, end).unwrap();
    storage.lock_range(start, end).unwrap();
    storage.unlock_range(start, end).unwrap();
    storage.release().unwrap();
    assert!(others_can_read());
    storage.lock_range(start, end).unwrap();
    assert!(!others_can_read());
    storage.unlock_range(start, end).unwrap();
    assert!(others_can_read());
}
