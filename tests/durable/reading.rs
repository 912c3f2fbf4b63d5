//! Files that are read without a store, and beside one in another process.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use doclock::durable::{
    DurableFile, DurableOptions, Journal, JournalWrite, OpenError, RedbJournal, StoredPart,
    VersionError,
};
use doclock::{Editor, View, dsl::*};
use serde_json::Value;

use crate::{Folder, add, later, parts};

fn keeping() -> DurableOptions {
    later().keep_log(1 << 20)
}

#[test]
fn durable_10_every_kept_version_is_restored_as_it_was() {
    let folder = Folder::new();
    let mut versions = vec![];
    for _ in 0..3 {
        let store = folder.open_with(keeping());
        if versions.is_empty() {
            versions.push(store.snapshot());
        }
        let editor = Editor::new(store.clone(), "ann");
        let id = format!("p{}", store.version());
        let page = element("page", [text_node("paragraph", "Hello").with_id(&*id)]);
        let edits = [
            vec![create(page.with_id(format!("page-{id}")))],
            vec![
                insert_text(5, " World").on(&*id),
                apply_mark("bold", 2..8).on(&*id),
            ],
            vec![
                split_text_node(4).on(&*id),
                set_attrs([("lang", "en".into())]).on(&*id),
            ],
            vec![delete_node().on(&*id), set_root().on(format!("page-{id}"))],
        ];
        for batch in edits {
            editor.execute(batch).unwrap();
            versions.push(store.snapshot());
        }
        editor.undo().commit().unwrap();
        versions.push(store.snapshot());
        store.close().unwrap();
    }
    let file = DurableFile::read(folder.path()).unwrap();
    assert_eq!(file.versions(), 0..=15);
    for (version, expected) in versions.iter().enumerate() {
        let found = file.snapshot(version as u64).unwrap();
        assert_eq!(found.version(), expected.version());
        assert_eq!(&found, expected, "version {version}");
    }
    let report = file.verify().unwrap();
    assert_eq!((report.first_version, report.commits), (0, 15));
    assert!(report.pages_checked);
    let missing = file.snapshot(16).unwrap_err();
    let expected = "the file does not have version 16: it has versions 0 to 15";
    assert_eq!(missing.to_string(), expected);
}

#[test]
fn durable_10_without_a_longer_log_a_closed_file_has_one_version() {
    let folder = Folder::new();
    let store = folder.open();
    add(&store, "a");
    add(&store, "b");
    store.close().unwrap();
    let file = DurableFile::read(folder.path()).unwrap();
    assert_eq!(file.versions(), 2..=2);
    assert_eq!(file.commits(..).len(), 0);
    assert_eq!(file.snapshot(2).unwrap(), store.snapshot());
    let missing = VersionError::Missing {
        version: 1,
        first: 2,
        last: 2,
    };
    assert_eq!(file.snapshot(1).unwrap_err(), missing);
}

#[test]
fn durable_10_a_range_of_commits_has_the_versions_in_it() {
    let folder = Folder::new();
    let store = folder.open_with(keeping());
    for id in ["a", "b", "c", "d"] {
        add(&store, id);
    }
    store.close().unwrap();
    let file = DurableFile::read(folder.path()).unwrap();
    let versions = |commits: &[std::sync::Arc<doclock::transaction::TransactionResult>]| {
        commits.iter().map(|it| it.version).collect::<Vec<_>>()
    };
    assert_eq!(versions(file.commits(2..=3)), [2, 3]);
    assert_eq!(versions(file.commits(2..3)), [2]);
    assert_eq!(versions(file.commits(..2)), [1]);
    assert_eq!(versions(file.commits(3..)), [3, 4]);
    assert_eq!(versions(file.commits(9..)), [0; 0]);
    // Bounds that come from a user.
    #[expect(clippy::reversed_empty_ranges, reason = "a caller may pass one")]
    let reversed = file.commits(4..=1);
    assert_eq!(versions(reversed), [0; 0]);
    assert_eq!(versions(file.commits(0..=u64::MAX)), [1, 2, 3, 4]);
}

#[test]
fn durable_10_a_read_changes_no_byte_also_after_a_kill() {
    for options in [keeping(), keeping().allow_readers()] {
        let folder = Folder::new();
        let store = folder.open_with(options.clone());
        add(&store, "a");
        let version = add(&store, "b");
        store.wait_durable(version).wait().unwrap();
        // As a kill would leave it now.
        let killed = fs::read(folder.path()).unwrap();
        store.close().unwrap();
        drop(store);
        let closed = fs::read(folder.path()).unwrap();
        for bytes in [closed, killed] {
            fs::remove_file(folder.path()).unwrap();
            fs::write(folder.path(), &bytes).unwrap();
            set_readonly(&folder, true);
            let file = DurableFile::read(folder.path()).unwrap();
            assert_eq!(file.versions(), 0..=2);
            file.verify().unwrap();
            assert!(fs::read(folder.path()).unwrap() == bytes);
            assert_eq!(fs::read_dir(folder.0.path()).unwrap().count(), 1);
            set_readonly(&folder, false);
        }
        assert_eq!(folder.open_with(options).version(), 2);
    }
}

fn set_readonly(folder: &Folder, readonly: bool) {
    let mut permissions = fs::metadata(folder.path()).unwrap().permissions();
    permissions.set_readonly(readonly);
    fs::set_permissions(folder.path(), permissions).unwrap();
}

#[test]
fn durable_10_a_store_that_allows_no_readers_locks_them_out() {
    let folder = Folder::new();
    let store = folder.open();
    assert_eq!(
        DurableFile::read(folder.path()).unwrap_err(),
        OpenError::Locked
    );
    assert_eq!(
        DurableFile::compact(folder.path()).unwrap_err(),
        OpenError::Locked
    );
    add(&store, "a");
    store.close().unwrap();
    assert_eq!(DurableFile::read(folder.path()).unwrap().versions(), 1..=1);
}

#[test]
fn durable_10_a_version_that_the_log_does_not_lead_to_is_found() {
    let folder = Folder::new();
    let store = folder.open_with(keeping());
    add(&store, "abc");
    add(&store, "d");
    store.close().unwrap();
    drop(store);
    // The log gets another text than the checkpoint has.
    let mut journal = RedbJournal::open(folder.path(), |_| {}).unwrap();
    let mut changed = JournalWrite::default();
    journal
        .load(&mut |part| {
            if let StoredPart::Block { number, bytes } = part {
                // The text of the node, in the commit that inserts it.
                let mut block = parts::tree(bytes);
                if let Some(text @ Value::String(_)) = block.pointer_mut("/0/0/7/0/2/0/3")
                    && *text == "abc"
                {
                    *text = "xyz".into();
                    changed.block = Some((number, parts::part_of(bytes[0], &block)));
                }
            }
            Ok(())
        })
        .unwrap();
    assert!(changed.block.is_some());
    journal.write(&changed).unwrap();
    drop(journal);
    let file = DurableFile::read(folder.path()).unwrap();
    let error = file.verify().unwrap_err();
    assert!(
        matches!(error, VersionError::Differs { version: 1, .. }),
        "{error}"
    );
    assert_eq!(file.snapshot(0).unwrap_err(), error);
    assert!(file.snapshot(2).is_ok());
}

#[test]
fn durable_10_a_compaction_makes_the_file_smaller_and_keeps_every_version() {
    let folder = Folder::new();
    let store = folder.open_with(keeping());
    let editor = Editor::new(store.clone(), "ann");
    let long = "x".repeat(100_000);
    editor
        .execute(create(text_node("paragraph", long).with_id("p")))
        .unwrap();
    editor.execute(set_text("short").on("p")).unwrap();
    store.close().unwrap();
    drop((store, editor));
    folder.open_with(later()).close().unwrap();
    let before = DurableFile::read(folder.path()).unwrap();
    let report = DurableFile::compact(folder.path()).unwrap();
    assert!(report.bytes_after < report.bytes_before, "{report:?}");
    let len = fs::metadata(folder.path()).unwrap().len();
    assert_eq!(len, report.bytes_after);
    let after = DurableFile::read(folder.path()).unwrap();
    assert_eq!(after.versions(), before.versions());
    assert_eq!(after.document(), before.document());
    assert_eq!(folder.open().snapshot(), *before.document());
}

#[test]
fn durable_10_a_damaged_file_is_not_compacted() {
    let folder = Folder::new();
    let store = folder.open();
    add(&store, "a");
    store.close().unwrap();
    drop(store);
    let bytes = fs::read(folder.path()).unwrap();
    for len in [0, 1, 1000, bytes.len() / 2, bytes.len() - 1] {
        fs::write(folder.path(), &bytes[..len]).unwrap();
        let error = DurableFile::read(folder.path()).unwrap_err();
        assert!(
            matches!(error, OpenError::Corrupt(_) | OpenError::Foreign),
            "{len}: {error}"
        );
        assert_eq!(DurableFile::compact(folder.path()).unwrap_err(), error);
        assert!(fs::read(folder.path()).unwrap() == bytes[..len]);
    }
    fs::remove_file(folder.path()).unwrap();
    assert_eq!(
        DurableFile::read(folder.path()).unwrap_err(),
        OpenError::Missing
    );
    assert_eq!(
        DurableFile::compact(folder.path()).unwrap_err(),
        OpenError::Missing
    );
    assert!(!folder.path().exists());
}

#[test]
fn durable_10_a_file_with_a_missing_block_is_not_compacted() {
    let folder = Folder::new();
    let store = folder.open();
    add(&store, "a");
    add(&store, "b");
    // As a kill would leave it now.
    let killed = fs::read(folder.path()).unwrap();
    store.close().unwrap();
    drop(store);
    fs::write(folder.path(), killed).unwrap();
    let mut journal = RedbJournal::open(folder.path(), |_| {}).unwrap();
    let mut without_first = JournalWrite::default();
    without_first.removed_through = Some(1);
    journal.write(&without_first).unwrap();
    drop(journal);
    let bytes = fs::read(folder.path()).unwrap();
    let error = DurableFile::compact(folder.path()).unwrap_err();
    assert!(matches!(error, OpenError::Corrupt(_)), "{error}");
    assert_eq!(DurableFile::read(folder.path()).unwrap_err(), error);
    assert!(fs::read(folder.path()).unwrap() == bytes);
}

const PATH: &str = "DOCLOCK_TEST_READ";

/// The process that a test has started reads the file as often as it gets a line, and reports.
fn report_reads(path: &std::ffi::OsStr) {
    for line in std::io::stdin().lines() {
        line.unwrap();
        let read = DurableFile::read(path);
        let read = read.map(|file| {
            let report = file.verify().unwrap();
            (file.versions(), report.pages_checked)
        });
        println!("\nread {read:?}");
    }
}

#[test]
fn durable_10_another_process_reads_beside_a_store_that_allows_readers() {
    if let Some(path) = std::env::var_os(PATH) {
        return report_reads(&path);
    }
    use std::io::Write;

    let folder = Folder::new();
    let options = || keeping().allow_readers();
    let store = folder.open_with(options());
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture"])
        .arg("reading::durable_10_another_process_reads_beside_a_store_that_allows_readers")
        .env(PATH, folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap())
        .lines()
        .map(|line| line.unwrap())
        .filter(|line| line.starts_with("read"));
    let mut read = || {
        writeln!(stdin).unwrap();
        lines.next().unwrap()
    };
    assert_eq!(read(), "read Ok((0..=0, false))");
    for id in ["a", "b", "c"] {
        let version = add(&store, id);
        store.wait_durable(version).wait().unwrap();
        assert_eq!(read(), format!("read Ok((0..={version}, false))"));
    }
    store.close().unwrap();
    assert_eq!(read(), "read Ok((0..=3, true))");
    drop(store);
    let store = folder.open_with(options());
    assert_eq!(read(), "read Ok((0..=3, false))");
    store.close().unwrap();
    drop(store);
    let store = folder.open_with(keeping());
    assert_eq!(read(), "read Err(Locked)");
    drop(store);
    drop(stdin);
    assert!(child.wait().unwrap().success());
}

#[test]
fn durable_10_every_read_beside_a_writer_is_of_one_moment() {
    let folder = Folder::new();
    // Often checkpoints, so that pages are reused.
    let options = || {
        later()
            .allow_readers()
            .checkpoint_after(400)
            .keep_log(1_200)
    };
    drop(folder.open_with(options()));
    let done = AtomicBool::new(false);
    let path = folder.path();
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let (mut reads, mut last) = (0, 0);
            while !done.load(Ordering::Acquire) || reads == 0 {
                match DurableFile::read(&path) {
                    Ok(file) => {
                        file.verify().unwrap();
                        let version = *file.versions().end();
                        assert!(version >= last);
                        (reads, last) = (reads + 1, version);
                    }
                    // Between two opens a reader and a writer can meet.
                    Err(OpenError::Locked) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            reads
        });
        for _ in 0..6 {
            let store = loop {
                match doclock::DataStore::open_with(&path, options()) {
                    Err(OpenError::Locked) => thread::yield_now(),
                    store => break store.unwrap(),
                }
            };
            let editor = Editor::new(store.clone(), "ann");
            let id = format!("p{}", store.version());
            editor
                .execute(create(text_node("paragraph", "").with_id(&*id)))
                .unwrap();
            for _ in 0..60 {
                let result = editor
                    .execute(insert_text(0, "some text ").on(&*id))
                    .unwrap();
                store.wait_durable(result.version).wait().unwrap();
            }
            store.close().unwrap();
        }
        done.store(true, Ordering::Release);
        assert!(reader.join().unwrap() > 0);
    });
    let document = DurableFile::read(&path).unwrap();
    assert_eq!(document.document().nodes().count(), 6);
}
