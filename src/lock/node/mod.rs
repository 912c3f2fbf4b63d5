//! Locks on single nodes of a tree, below the global lock.
//!
//! Whoever locks nodes shares the global lock with others who do, and excludes those who want the whole. Who is alone keeps
//! what it asks for as a note: it holds the whole lock for the time being, and is narrowed to its nodes when a second comes.

mod ask;
mod error;
mod info;
mod members;
mod scope;

pub use error::{Deadlock, DeadlockLink, NodeWait};
pub use info::{NodeHolder, NodeLockStats, NodeWaiter};
pub(super) use members::{Asking, Member, Members};
pub use scope::Scope;
pub(crate) use scope::{Granule, Tree};
