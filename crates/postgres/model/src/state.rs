//! What a state of the model consists of.

/// The time for which an acquisition or a renewal lasts, in ticks of the server's clock.
pub const TERM: u8 = 3;
/// The part of its window that an owner leaves unused, in ticks: its clock may be slow by as much.
pub const MARGIN: u8 = 1;
/// How long an owner may acknowledge, in ticks of its monotonic clock from the start of a renewal.
pub const WINDOW: u8 = TERM - MARGIN;

/// What an owner appends under. A promoted standby begins a new timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Epoch {
    pub timeline: u8,
    pub counter: u8,
}

/// The lease row of the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    pub epoch: Epoch,
    /// Ticks until the row expires by the server's clock. Zero: it has expired.
    pub left: u8,
}

/// What one commit does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Work {
    /// The batch of a caller on the owner's machine.
    Local(u8),
    /// The request with this number.
    Request(u8),
}

/// A row of the log. The version is its primary key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Row {
    pub version: u8,
    pub epoch: Epoch,
    pub work: Work,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It is the commit of this version.
    Done(u8),
    /// Its machine cancelled it, or its deadline passed.
    Cancelled,
}

/// A row of the request table. Its number is its position, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    pub visible: bool,
    pub outcome: Option<Outcome>,
    /// The local commit whose caller has inserted it, because it is not stored.
    pub repeats: Option<u8>,
}

/// A row of the terms: the version with which one began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Begun {
    pub epoch: Epoch,
    /// The epoch of the row before.
    pub follows: Epoch,
    pub version: u8,
}

/// The tables, and the server that has them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Server {
    pub timeline: u8,
    pub lease: Lease,
    /// The lease row of a standby that lacks the last change, if that was a change of the lease.
    pub standby: Option<Lease>,
    pub log: Vec<Row>,
    pub requests: Vec<Request>,
    /// Kept if callers read them.
    pub begun: Vec<Begun>,
}

/// A statement that changes something. Each is a transaction of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Statement {
    Acquire,
    Renew {
        epoch: Epoch,
    },
    HandOver {
        epoch: Epoch,
    },
    Append {
        row: Row,
    },
    /// The second half of an append, which has read the clock and waits for the lock of the lease.
    Insert {
        row: Row,
    },
    /// The outcome of a request in a statement of its own, a fault.
    Settle {
        row: Row,
    },
}

/// Why an append changed nothing, or is not known to have changed something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Doubt {
    /// The reply was lost.
    Lost,
    /// The lease is not that of the epoch, or had expired.
    Fenced,
    /// The version has a row.
    Taken,
    /// The request has its outcome.
    Settled,
}

/// The answer of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reply {
    Acquired(Epoch),
    Renewed,
    Inserted,
    Refused(Doubt),
    /// Zero rows of any other statement, or a reply that says nothing.
    Nothing,
}

/// A statement on its way, and its answer on the way back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Call {
    pub statement: Statement,
    /// Ticks of the caller's clock since it sent an acquisition or a renewal, at most [`WINDOW`].
    pub since: u8,
    pub reply: Option<Reply>,
}

impl Call {
    /// Whether the reply begins a window.
    pub(crate) fn is_timed(&self) -> bool {
        matches!(self.statement, Statement::Acquire | Statement::Renew { .. })
    }
}

/// What an owner is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Task {
    Idle,
    /// An append is on its way.
    Sent(Work),
    /// It has to be looked up whether the append landed.
    Doubtful(Work, Doubt),
}

/// What a process knows that believes to own the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Term {
    pub epoch: Epoch,
    /// Ticks of its own clock for which it may acknowledge.
    pub window: u8,
    /// The version of the document in memory.
    pub version: u8,
    pub task: Task,
}

/// One of the two processes that own the document in turn. Without a term it is a candidate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Process {
    pub term: Option<Term>,
    pub call: Option<Call>,
}

/// What the caller of a local commit was told. It is told nothing of an unknown outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Told {
    Acknowledged,
    /// "The commit changed nothing."
    Fenced,
}

/// What happened, for the properties. No rule reads it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct History {
    pub highest_epoch: Epoch,
    /// By number of the local commit.
    pub told: Vec<Option<Told>>,
    pub stale_append: bool,
    pub epoch_returned: bool,
    pub late_acknowledgement: bool,
    pub outcome_changed: bool,
}

/// How much of each there may be, so that the states are finite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bounds {
    /// Acquisitions.
    pub epochs: u8,
    pub locals: u8,
    pub requests: u8,
    pub cancels: u8,
    pub crashes: u8,
    /// Connections that end while a statement or its reply is on the way.
    pub losses: u8,
    /// Ticks that the clock of an owner misses, at most [`MARGIN`].
    pub slow_ticks: u8,
    pub failovers: u8,
    /// Callers of local commits that find out what has become of an unknown one.
    pub callers: u8,
}

/// The whole world at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub server: Server,
    pub processes: [Process; 2],
    /// Statements whose caller does not wait any more. The server can still execute each.
    pub strays: Vec<Statement>,
    /// The rows that the follower has applied.
    pub follower: Vec<Row>,
    /// A local commit that is unknown to its process, and whose caller waits.
    pub unknown: Option<Row>,
    pub history: History,
    /// What may still happen.
    pub left: Bounds,
}

impl State {
    pub(crate) fn new(bounds: Bounds) -> State {
        let epoch = Epoch {
            timeline: 1,
            counter: 0,
        };
        State {
            server: Server {
                timeline: 1,
                lease: Lease { epoch, left: 0 },
                standby: None,
                log: Vec::new(),
                requests: Vec::new(),
                begun: Vec::new(),
            },
            processes: [Process::default(); 2],
            strays: Vec::new(),
            follower: Vec::new(),
            unknown: None,
            history: History {
                highest_epoch: epoch,
                told: Vec::new(),
                stale_append: false,
                epoch_returned: false,
                late_acknowledgement: false,
                outcome_changed: false,
            },
            left: bounds,
        }
    }
}

/// Returns the state that stands for all that behave alike: the processes are in one order, and
/// statements that can change nothing any more are left out. Without a fault only: with one, a
/// statement of an earlier epoch may change something.
pub fn representative(state: &State) -> State {
    let mut state = state.clone();
    state.processes.sort();
    let Server {
        lease, timeline, ..
    } = state.server;
    state.strays.retain(|stray| match stray {
        Statement::Acquire => true,
        Statement::Renew { epoch }
        | Statement::HandOver { epoch }
        | Statement::Append {
            row: Row { epoch, .. },
        } => *epoch == lease.epoch && epoch.timeline == timeline && lease.left > 0,
        Statement::Insert { row } | Statement::Settle { row } => {
            row.epoch == lease.epoch && row.epoch.timeline == timeline
        }
    });
    state
}
