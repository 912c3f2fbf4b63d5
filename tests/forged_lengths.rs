//! What a forged length in a stored part allocates. A separate binary, because all allocations of
//! the process count.

#![cfg(not(loom))]

use std::alloc::System;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use doclock::durable::{
    DurableOptions, Journal, JournalError, JournalWrite, OpenError, Replica, ReplicaError,
    StoredPart,
};
use doclock::inbox::Inbox;
use doclock::{DataStore, Editor, dsl::*};
use serde_json::json;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

type Parts = (Vec<(String, Vec<u8>)>, Vec<(u64, Vec<u8>)>);

/// A journal in memory.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Parts>>);

impl Journal for Memory {
    fn load(
        &mut self,
        part: &mut dyn FnMut(StoredPart<'_>) -> Result<(), JournalError>,
    ) -> Result<(), JournalError> {
        let (entries, blocks) = &*self.0.lock().unwrap();
        for (key, bytes) in entries {
            part(StoredPart::Entry { key, bytes })?;
        }
        for (number, bytes) in blocks {
            let number = *number;
            part(StoredPart::Block { number, bytes })?;
        }
        Ok(())
    }

    fn write(&mut self, write: &JournalWrite) -> Result<(), JournalError> {
        let (entries, blocks) = &mut *self.0.lock().unwrap();
        for (key, entry) in write.entries.clone() {
            entries.retain(|(other, _)| *other != key);
            entries.extend(entry.map(|entry| (key, entry)));
        }
        blocks.extend(write.block.clone());
        Ok(())
    }
}

/// The same content from a place on, with another head of a value there.
fn forged(part: &[u8], at: usize, head: &[u8]) -> Vec<u8> {
    let mut content = part[5..].to_vec();
    content.splice(at..=at, head.iter().copied());
    let mut forged = vec![part[0]];
    let mut checksum = crc32fast::Hasher::new();
    checksum.update(&forged);
    checksum.update(&content);
    forged.extend(checksum.finalize().to_le_bytes());
    forged.extend(content);
    forged
}

/// An open and a replica cannot be made to take more memory than a small multiple of the bytes.
#[test]
fn durable_06_a_forged_length_allocates_nothing_for_what_is_not_there() {
    let memory = Memory::default();
    let store = DataStore::open_journal(memory.clone(), DurableOptions::new()).unwrap();
    let ann = Editor::new(store.clone(), "ann");
    let page = element("page", [text_node("p", "some text").with_id("p")]);
    ann.execute(create(page.with_id("page"))).unwrap();
    ann.execute(apply_mark("em", 1..4).on("p")).unwrap();
    ann.execute(set_attrs([("list", json!([1, {"a": "b"}, null]))]).on("p"))
        .unwrap();
    ann.transaction(insert_text(0, "x").on("p"))
        .idempotent("key")
        .commit()
        .unwrap();
    Inbox::new(&store, "in")
        .process(&("id", 1), |_, _| Ok(()))
        .unwrap();
    let lease = store
        .leases()
        .acquire(["p"], "w", Duration::from_secs(60))
        .unwrap();
    let head_of_new = memory.0.lock().unwrap().0.clone();
    store.close().unwrap();
    drop((ann, lease));
    let (entries, blocks) = memory.0.lock().unwrap().clone();
    assert!(entries.len() > 4 && blocks.len() > 4, "{entries:?}");

    // Text, bytes, array and map of 2^32 items, and an array and a map without a length.
    let length = [0, 0, 0, 1, 0, 0, 0, 0];
    let long = [0x7b, 0x5b, 0x9b, 0xbb].map(|kind| [&[kind], &length[..]].concat());
    let heads = [vec![0x9f], vec![0xbf]].into_iter().chain(long);
    let (mut forgeries, mut refused) = (0, 0);
    for head in heads {
        let empty = Memory::default();
        empty.0.lock().unwrap().0 = head_of_new.clone();
        for (_, bytes) in &blocks {
            for at in 0..bytes.len() - 5 {
                let forged = forged(bytes, at, &head);
                let mut replica =
                    Replica::load(&mut empty.clone(), &DurableOptions::new()).unwrap();
                let region = Region::new(ALLOCATOR);
                let error = replica.apply(1, &forged).err();
                let allocated = region.change().bytes_allocated;
                assert!(
                    allocated < 64 << 10,
                    "{allocated} bytes for {head:x?} at {at} of {bytes:x?}"
                );
                assert!(
                    matches!(
                        error,
                        None | Some(
                            ReplicaError::Damaged { .. } | ReplicaError::MissingVersion { .. }
                        )
                    ),
                    "{error:?}"
                );
                forgeries += 1;
                refused += u32::from(error.is_some());
            }
        }
        for (nth, (_, bytes)) in entries.iter().enumerate() {
            for at in 0..bytes.len() - 5 {
                let mut journal = empty.clone();
                journal.0 = Arc::default();
                journal.0.lock().unwrap().0 = entries.clone();
                journal.0.lock().unwrap().0[nth].1 = forged(bytes, at, &head);
                let region = Region::new(ALLOCATOR);
                let error = Replica::load(&mut journal, &DurableOptions::new()).err();
                let allocated = region.change().bytes_allocated;
                assert!(
                    allocated < 64 << 10,
                    "{allocated} bytes for {head:x?} at {at} of {bytes:x?}"
                );
                assert!(
                    matches!(error, None | Some(OpenError::Corrupt(_))),
                    "{error:?}"
                );
                forgeries += 1;
                refused += u32::from(error.is_some());
            }
        }
    }
    println!("{refused} of {forgeries} are refused");
    assert!(refused > forgeries / 2);
}
