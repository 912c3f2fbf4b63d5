//! The progress of saving and loading.

use std::io::{self, Read, Write};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};

use doclock::{
    Snapshot,
    document::{NodeSpec, SnapshotProgress},
};

use crate::common::{commit, store};
use crate::saved;

const NODES: usize = 10_001;

fn wide() -> Snapshot {
    let store = store();
    commit(&store, |transaction| {
        let items = (1..NODES).map(|_| NodeSpec::new("item"));
        let list = NodeSpec::new("list").with_children(items);
        transaction.create(list).unwrap();
    });
    store.snapshot()
}

fn load(
    file: impl Read,
    progress: impl FnMut(SnapshotProgress) -> ControlFlow<()>,
) -> serde_json::Result<Snapshot> {
    let mut json = serde_json::Deserializer::from_reader(file);
    let snapshot = Snapshot::load(&mut json, progress)?;
    json.end()?;
    Ok(snapshot)
}

fn save(
    snapshot: &Snapshot,
    file: impl Write,
    progress: impl FnMut(SnapshotProgress) -> ControlFlow<()>,
) -> serde_json::Result<()> {
    snapshot.save(&mut serde_json::Serializer::new(file), progress)
}

fn assert_steady(reports: &[SnapshotProgress]) {
    let nodes: Vec<usize> = reports.iter().map(|report| report.nodes).collect();
    let steps = (0..NODES).step_by(1024).chain([NODES]);
    assert_eq!(nodes, steps.collect::<Vec<_>>());
    assert!(reports.iter().all(|report| report.total == Some(NODES)));
}

#[test]
fn feed_05_progress_rises_from_zero_to_the_number_of_nodes() {
    let before = wide();
    let (mut file, mut reports) = (Vec::new(), Vec::new());
    let note = |reports: &mut Vec<_>, report| {
        reports.push(report);
        ControlFlow::Continue(())
    };
    save(&before, &mut file, |report| note(&mut reports, report)).unwrap();
    assert_steady(&reports);
    assert_eq!(file, saved(&before));
    reports.clear();
    let after = load(&file[..], |report| note(&mut reports, report)).unwrap();
    assert_steady(&reports);
    assert_eq!(after, before);
}

#[test]
fn feed_05_a_callback_can_stop_the_load_and_the_save() {
    let before = wide();
    let file = saved(&before);
    for limit in [0, 1, 5_000, NODES] {
        let mut calls_after = 0;
        let mut stop = |report: SnapshotProgress| {
            if report.nodes < limit {
                return ControlFlow::Continue(());
            }
            calls_after += 1;
            ControlFlow::Break(())
        };
        let error = load(&file[..], &mut stop).unwrap_err().to_string();
        let text = "the progress callback ended the work after";
        assert!(error.starts_with(text), "{error}");
        let error = save(&before, io::sink(), &mut stop)
            .unwrap_err()
            .to_string();
        assert!(error.starts_with(text), "{error}");
        assert_eq!(calls_after, 2);
    }
    let end = |report: SnapshotProgress| match report.nodes > NODES {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    };
    assert_eq!(load(&file[..], end).unwrap(), before);
}

#[test]
fn feed_05_a_callback_that_panics_leaves_nothing() {
    let before = wide();
    let file = saved(&before);
    let panics = |report: SnapshotProgress| match report.nodes {
        0 => ControlFlow::Continue(()),
        _ => panic!("no paper"),
    };
    let code = AssertUnwindSafe(|| load(&file[..], panics));
    let payload = catch_unwind(code).unwrap_err();
    assert_eq!(payload.downcast_ref(), Some(&"no paper"));
    let code = AssertUnwindSafe(|| save(&before, io::sink(), panics));
    catch_unwind(code).unwrap_err();
    assert_eq!(saved(&before), file);
}

/// A stream that ends with an error.
struct Torn<T>(T, usize);

impl<T> Torn<T> {
    fn take(&mut self, bytes: usize) -> io::Result<usize> {
        if self.1 == 0 {
            return Err(io::Error::other("torn"));
        }
        let bytes = bytes.min(self.1);
        self.1 -= bytes;
        Ok(bytes)
    }
}

impl<T: Read> Read for Torn<T> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.take(buffer.len())?;
        self.0.read(&mut buffer[..bytes])
    }
}

impl<T: Write> Write for Torn<T> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let bytes = self.take(buffer.len())?;
        self.0.write(&buffer[..bytes])
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Half of the nodes are read or written when the stream ends in its middle.
#[test]
fn feed_05_nodes_are_read_and_written_one_by_one() {
    let before = wide();
    let file = saved(&before);
    let middle = file.len() / 2;
    let mut last = 0;
    let mut note = |report: SnapshotProgress| {
        last = report.nodes;
        ControlFlow::Continue(())
    };
    let error = load(Torn(&file[..], middle), &mut note).unwrap_err();
    assert!(error.is_io(), "{error}");
    save(&before, Torn(Vec::new(), middle), &mut note).unwrap_err();
    assert!((1..NODES).contains(&last), "{last}");
    last = 0;
    let mut note = |report: SnapshotProgress| {
        last = report.nodes;
        ControlFlow::Continue(())
    };
    load(Torn(&file[..], middle), &mut note).unwrap_err();
    assert!((NODES / 4..NODES).contains(&last), "{last}");
}
