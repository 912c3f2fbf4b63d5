//! The document in a cluster: one server has it, and another one goes on when that one ends.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use doclock::{DataStore, durable::OpenError};
use doclock_postgres::{
    Member, MemberError, MemberEvent, MemberOptions, OwnerEvent, Postgres, PostgresError,
    PostgresOptions, TermOptions,
};

use crate::document::{self, DocumentError, Report};
use crate::location::{HubSlot, Location};
use crate::protocol::Machine;

/// The length of a term. When the server that has the document dies, another one follows after it.
const TERM: Duration = Duration::from_secs(2);
/// How long a check waits for the end of a term.
const CHECK: Duration = Duration::from_secs(10);

/// Why a server is in no cluster.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    #[error(
        "the other servers of a cluster cannot reach {0}: --listen needs an address of its own"
    )]
    Address(SocketAddr),
    #[error(transparent)]
    Server(#[from] PostgresError),
    #[error(transparent)]
    Member(#[from] MemberError),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Document(#[from] DocumentError),
    #[error("a thread of the cluster did not start: {0}")]
    Thread(#[from] io::Error),
}

/// The part of this server in a cluster.
#[derive(Debug)]
pub struct Cluster {
    pub member: Member,
    pub location: Location,
    terms: JoinHandle<Result<(), DocumentError>>,
}

impl Cluster {
    /// Joins the cluster of a document. The other servers find this one at `address`.
    ///
    /// The events of the member are printed, each as a line of JSON. The location ends when the
    /// member has left.
    pub fn join(
        parameters: &str,
        document: &str,
        address: SocketAddr,
    ) -> Result<Self, ClusterError> {
        if address.ip().is_unspecified() {
            return Err(ClusterError::Address(address));
        }
        let address = address.to_string();
        let server = Postgres::connect(PostgresOptions::new(parameters)?)?;
        let term = TermOptions::new(address.clone())
            .address(address.clone())
            .term(TERM);
        let options = MemberOptions::new(term).durable(document::options());
        let member = Member::join(&server, document, options)?;
        let seen = member.clone();
        let (location, slot) = Location::new(move || {
            let owner = seen.snapshot().owner?;
            owner.address.filter(|owner| *owner != address)
        });
        let (acquired, terms) = mpsc::channel();
        let (told, serving) = (member.clone(), member.clone());
        let thread = || thread::Builder::new();
        thread().spawn(move || tell(&told, &acquired))?;
        let terms = thread().spawn(move || serve_terms(&serving, &slot, &terms))?;
        Ok(Self {
            member,
            location,
            terms,
        })
    }

    /// Leaves the cluster. Returns the last version that this server has seen.
    ///
    /// # Errors
    ///
    /// Also the error because of which this server has left by itself.
    pub fn leave(self) -> Result<u64, ClusterError> {
        self.member.leave()?;
        match self.terms.join() {
            Ok(served) => served?,
            Err(panic) => std::panic::resume_unwind(panic),
        }
        Ok(self.member.snapshot().version())
    }
}

/// Prints the events of a member until it has left, and passes on each term that it has acquired.
fn tell(member: &Member, acquired: &mpsc::Sender<Machine>) {
    for event in member.events() {
        if let Ok(json) = serde_json::to_string(&event) {
            // The output may be closed.
            let _ = writeln!(io::stdout(), "{json}");
        }
        match event {
            MemberEvent::Owner(OwnerEvent::Acquired {
                owner,
                epoch,
                timeline,
                ..
            }) => {
                let machine = Machine {
                    address: owner,
                    epoch,
                    timeline,
                };
                let _ = acquired.send(machine);
            }
            MemberEvent::Left { .. } => break,
            _ => {}
        }
    }
}

/// Serves the document in each term of this process, until the member has left.
fn serve_terms(
    member: &Member,
    slot: &HubSlot,
    terms: &mpsc::Receiver<Machine>,
) -> Result<(), DocumentError> {
    // The term may be lost, and another one may have begun.
    let store_of = |epoch| {
        let owner = member.snapshot().owner;
        let is_of = owner.is_some_and(|owner| owner.epoch == epoch);
        member.store().filter(|_| is_of)
    };
    for machine in terms {
        let epoch = machine.epoch;
        let Some(store) = store_of(epoch) else {
            continue;
        };
        match document::prepare(store) {
            Ok(store) => slot.serve(&store, Some(machine)),
            Err(error @ DocumentError::Foreign) => {
                let _ = member.leave();
                return Err(error);
            }
            Err(error) => eprintln!("{error}"),
        }
        // Mostly the term has ended. A server that cannot serve the document in its term leaves it
        // to another one.
        if store_of(epoch).is_some() {
            let _ = member.hand_over();
        }
    }
    Ok(())
}

/// Becomes the owner of a document, and replays its log from the beginning.
pub fn check(parameters: &str, document: &str) -> Result<Report, ClusterError> {
    let server = Postgres::connect(PostgresOptions::new(parameters)?)?;
    let term = TermOptions::new("check").term(TERM).timeout(CHECK);
    let (term, journal) = server.acquire(document, term)?;
    let store = DataStore::open_journal(journal, document::options().only_existing())?;
    let report = document::report(&store)?;
    // The lease ends by itself otherwise.
    let _ = (store.close(), term.hand_over());
    Ok(report)
}
