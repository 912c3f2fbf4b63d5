//! A follower of a document, which notes what it shows.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use doclock::durable::{Replica, ReplicaError};
use doclock_postgres::Postgres;

use crate::child::durable_options;
use crate::history::{Key, Value};
use crate::lists;

/// The lists as of a version.
pub(crate) type Seen = (u64, BTreeMap<Key, Vec<Value>>);

pub(crate) struct Follower {
    ends: Arc<AtomicBool>,
    thread: JoinHandle<(Option<Replica>, Vec<Seen>)>,
}

impl Follower {
    pub(crate) fn start(server: &Postgres, document: &str) -> Self {
        let (server, document) = (server.clone(), document.to_owned());
        let ends = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&ends);
        let thread = thread::spawn(move || {
            let (mut replica, mut seen) = (None, Vec::<Seen>::new());
            while !ended.load(Ordering::Relaxed) {
                let read = follow(&server, &document, &mut replica);
                match read {
                    Ok(()) | Err(ReplicaError::Journal(_) | ReplicaError::Load(_)) => {}
                    // It has told how far it has read, so the log was not cut before that.
                    Err(error) => panic!("the follower of {document}: {error}"),
                }
                if let Some(replica) = &replica
                    && lists::exist(&replica.snapshot())
                    && seen
                        .last()
                        .is_none_or(|(version, _)| *version < replica.version())
                {
                    seen.push((replica.version(), lists::read_all(&replica.snapshot())));
                }
                thread::sleep(Duration::from_millis(25));
            }
            (replica, seen)
        });
        Self { ends, thread }
    }

    /// Ends it, and returns it with all that it has shown.
    pub(crate) fn end(self) -> (Option<Replica>, Vec<Seen>) {
        self.ends.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

fn follow(
    server: &Postgres,
    document: &str,
    replica: &mut Option<Replica>,
) -> Result<(), ReplicaError> {
    let mut reader = server.reader(document).unwrap();
    // The owner cuts the log, and not behind a follower.
    let last = replica.as_ref().and_then(Replica::last_block).unwrap_or(0);
    let kept = reader.keep_after("follower", last);
    kept.map_err(|error| ReplicaError::Journal(std::io::Error::other(error).into()))?;
    match replica {
        Some(replica) => replica.catch_up(&mut reader, |_| {}),
        None => {
            let loaded = Replica::load(&mut reader, &durable_options());
            *replica = Some(loaded.map_err(|error| ReplicaError::Load(Box::new(error)))?);
            Ok(())
        }
    }
}
