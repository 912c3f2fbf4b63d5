//! What the processes report: a line of JSON for each step of an owner.

use std::io::{Write, stdout};

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::history::{Key, Op, Value};

/// A step of an owner. Times are nanoseconds of a clock that all processes of the machine share.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Report {
    /// The process has opened the document as its owner.
    Owns {
        epoch: u64,
        /// The version with which it began, if it is known.
        version: Option<u64>,
        /// Whether it continued as a follower, without loading the document.
        followed: bool,
    },
    Began {
        nth: u64,
        /// That of the process. Zero if it is not the owner.
        epoch: u64,
        at: u64,
        ops: Vec<Step>,
    },
    Ended {
        nth: u64,
        at: u64,
        ops: Vec<Step>,
        end: End,
    },
    /// The term has ended.
    Lost { epoch: u64, reason: String },
    /// Something that no fault explains.
    Wrong { what: String },
}

/// How a transaction ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum End {
    Committed {
        version: u64,
        token: u64,
        token_epoch: u64,
    },
    /// It has only read, and the owner had its term when it answered.
    Read,
    /// It has read a snapshot of this version.
    Showed {
        version: u64,
        /// The epoch of the process, if it showed the snapshot as the owner.
        epoch: Option<u64>,
        /// When it was asked for.
        at: u64,
        /// How long ago the version was the newest one. Zero for an owner while its term lasts.
        lag: u64,
    },
    /// It is certainly not stored.
    Fenced,
    /// It did not run.
    Refused,
    Unknown,
}

/// An operation of a transaction, with what a read has seen.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Step {
    Append(Key, Value),
    Read(Key, Vec<Value>),
}

impl From<&Step> for Op {
    fn from(step: &Step) -> Self {
        match step {
            Step::Append(key, value) => Self::Append {
                key: *key,
                value: *value,
            },
            Step::Read(key, observed) => Self::Read {
                key: *key,
                observed: observed.clone(),
            },
        }
    }
}

/// Now, in nanoseconds of the monotonic clock, which is the same in all processes.
pub(crate) fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Reports in one write, so that no line is half a line unless the process is killed in it.
pub(crate) fn report(report: &Report) {
    let mut line = serde_json::to_vec(report).unwrap();
    line.push(b'\n');
    let mut out = stdout().lock();
    // The other end is gone if this fails.
    if out.write_all(&line).and_then(|()| out.flush()).is_err() {
        std::process::exit(1);
    }
}
