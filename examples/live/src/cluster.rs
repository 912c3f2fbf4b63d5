//! The document in a cluster: one server has it, and another one goes on when that one ends.

use std::io::{self, Write};
use std::time::Duration;

use doclock::{DataStore, durable::OpenError};
use doclock_postgres::{
    Member, MemberError, MemberEvent, MemberOptions, OwnerEvent, Postgres, PostgresError,
    PostgresOptions, TermOptions,
};

use crate::document::{self, DocumentError, Report};
use crate::place::{Host, Place};
use crate::protocol::Machine;

/// The length of a term. When the server that has the document dies, another one follows after it.
const TERM: Duration = Duration::from_secs(2);

/// How long a check waits for the end of a term.
const CHECK: Duration = Duration::from_secs(10);

/// Why a server is in no cluster.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    #[error(transparent)]
    Server(#[from] PostgresError),
    #[error(transparent)]
    Member(#[from] MemberError),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Document(#[from] DocumentError),
    #[error("the thread of the cluster did not start: {0}")]
    Thread(#[from] io::Error),
}

/// Joins the cluster of a document. Other servers find this one at `address`.
///
/// The events of the member are printed, each as a line of JSON. The place ends when the member
/// has left.
pub fn join(
    parameters: &str,
    document: &str,
    address: String,
) -> Result<(Member, Place), ClusterError> {
    let server = Postgres::connect(PostgresOptions::new(parameters)?)?;
    let term = TermOptions::new(address.clone())
        .address(address.clone())
        .term(TERM);
    let options = MemberOptions::new(term).durable(document::options());
    let member = Member::join(&server, document, options)?;
    let seen = member.clone();
    let (place, host) = Place::new(move || {
        let owner = seen.snapshot().owner?;
        owner.address.filter(|owner| *owner != address)
    });
    let hosting = member.clone();
    std::thread::Builder::new().spawn(move || host_terms(&hosting, &host))?;
    Ok((member, place))
}

/// Hosts the document in each term of this process, until the member has left.
fn host_terms(member: &Member, host: &Host) {
    for event in member.events() {
        print(&event);
        match event {
            MemberEvent::Owner(OwnerEvent::Acquired { owner, epoch, .. }) => {
                // It may have lost the term since.
                let Some(store) = member.store() else {
                    continue;
                };
                let machine = Machine {
                    address: owner,
                    epoch,
                };
                match document::prepare(store.clone()) {
                    Ok(store) => host.host(&store, Some(machine)),
                    Err(error @ DocumentError::Foreign) => {
                        eprintln!("{error}");
                        let _ = member.leave();
                    }
                    // The term is lost, which is another event.
                    Err(error) => eprintln!("{error}"),
                }
            }
            MemberEvent::Left { .. } => break,
            _ => {}
        }
    }
}

fn print(event: &MemberEvent) {
    if let Ok(json) = serde_json::to_string(event) {
        // The output may be closed.
        let _ = writeln!(io::stdout(), "{json}");
    }
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
