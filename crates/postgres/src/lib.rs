//! One doclock document on several machines, with PostgreSQL underneath.
//!
//! One process owns a document for a term, and opens it with the ordinary store. Each write of the
//! store is one statement, which locks the row of the lease and stores nothing if another owner has
//! begun. So the log itself refuses an owner that was paused, cut off or replaced.
//!
//! ```no_run
//! use doclock::{DataStore, TransactionManager, dsl::*, durable::DurableOptions};
//! use doclock_postgres::{Postgres, PostgresOptions, TermOptions};
//!
//! let server = Postgres::connect(PostgresOptions::new("host=/run/postgresql dbname=app")?)?;
//! let options = TermOptions::new("machine-1").address("10.0.0.7:8080");
//! // Waits until no other process owns the document.
//! let (term, journal) = server.acquire("notes", options)?;
//! let store = DataStore::open_journal(journal, DurableOptions::new())?;
//! let manager = TransactionManager::new(store.clone());
//! manager.execute(create(text_node("paragraph", "Hello")))?;
//! store.close()?;
//! term.hand_over()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Members
//!
//! A [`Member`] does all this for a process: it follows the owner of a document, serves snapshots,
//! and becomes the owner when there is none. Its [`execute`](Member::execute) runs a batch on every
//! machine: in the store if this process is the owner, and otherwise as a request. So the other
//! ways are for programs that decide themselves when to own a document.
//!
//! # Writing from any machine
//!
//! Any process can [submit](Requests::submit) a batch as a request. A [`RequestRunner`] beside the
//! owner's store runs requests in the order of their numbers, between local batches, under their
//! idempotency keys. The outcome is stored with the commit, so a request has one outcome, also if
//! its owner dies and another one continues.
//!
//! ```no_run
//! use doclock::{DataStore, TransactionManager, dsl::*};
//! use doclock_postgres::{
//!     PendingRequest, Postgres, RequestError, RequestOptions, RequestRunner, RunnerOptions, Term,
//! };
//!
//! /// On the machine of the owner: stop it before the store is closed.
//! fn run(term: &Term, store: DataStore) -> Result<RequestRunner, Box<dyn std::error::Error>> {
//!     let manager = move |owner: &str| TransactionManager::for_owner(store.clone(), owner);
//!     Ok(RequestRunner::start(term, RunnerOptions::new(), manager)?)
//! }
//!
//! /// On any machine.
//! fn submit(server: &Postgres) -> Result<PendingRequest, RequestError> {
//!     let requests = server.requests("notes", "machine-2")?;
//!     let batch = create(text_node("paragraph", "Hello"));
//!     requests.submit(batch, RequestOptions::new("ann").key("invoice 7"))
//! }
//! ```
//!
//! # When a term is lost
//!
//! The owner renews its term in the background. If it cannot do so in time, or if another owner has
//! begun, the term is lost, which is an [`OwnerEvent`]. The store then accepts no commit. A commit
//! that waits fails as fenced, which means that it is not stored, or as unknown. Drop the store and
//! the term, and [acquire](Postgres::acquire) the document again: that loads what the log has.
//!
//! # What the server must keep
//!
//! A role with `synchronous_commit` off is refused, and so is a server with `fsync` off: a crash
//! would lose commits that were confirmed. With `local` or `remote_write`, and with an
//! asynchronous standby, a crash of the server loses nothing, and a failover can: the standby may
//! not have received the last commits. The term is then lost, because the standby is on a new
//! timeline, and the document continues from what the standby has.
//!
//! # A server that does not answer
//!
//! No call waits longer for the server than the term lasts. A statement whose answer does not come
//! is looked up on another connection, and is sent again only if it cannot take effect twice.

mod codes;
mod connection;
mod encryption;
mod error;
mod event;
mod journal;
mod lease;
mod member;
mod options;
mod random;
mod request;
mod schema;
mod server;
mod term;

pub use error::PostgresError;
pub use event::{LostReason, OwnerEvent};
pub use journal::{PostgresJournal, PostgresReader};
pub use member::{DocumentOwner, Member, MemberError, MemberEvent, MemberOptions, MemberSnapshot};
pub use options::PostgresOptions;
pub use request::{
    PendingRequest, RequestError, RequestOptions, RequestRunner, Requests, RunnerEnded,
    RunnerOptions,
};
pub use server::Postgres;
pub use term::{Term, TermOptions};

/// Runs the examples of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/cluster.md")]
struct Guide;
