//! Locks on single nodes of a tree, below the document lock.
//!
//! **Use it** where transactions take long and need different parts of a document: they run side by
//! side (`DataStore::begin_on`). **Do not use it** for keystrokes: a
//! commit takes a microsecond, and the document lock has neither deadlocks nor retries.
//!
//! ```
//! use doclock::dsl::*;
//! use doclock_locks::node::Scope;
//! use doclock::{DataStore, TransactionManager};
//!
//! let store = DataStore::new();
//! let texts = ["a", "b"].map(|id| create(text_node("paragraph", id).with_id(id)));
//! TransactionManager::new(store.clone()).execute(texts)?;
//!
//! let mut ann = store.begin_on("ann", Scope::new().write("a"))?;
//! ann.insert_text("a", 0, "x")?;
//! let other = store.clone();
//! std::thread::spawn(move || {
//!     let mut bob = other.begin_on("bob", Scope::new().write("b")).unwrap();
//!     bob.insert_text("b", 0, "y").unwrap();
//!     bob.commit().unwrap();
//! })
//! .join()
//! .unwrap();
//! assert_eq!(ann.commit()?.version, 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! In the crate, requests for nodes share the document lock with one another and exclude requests
//! for the whole document. A request that is alone holds the whole lock and keeps its nodes as a
//! note. When a second request comes, the first is downgraded to its nodes.

mod ask;
mod error;
pub(crate) mod scope;

pub use crate::stats::RefusedDeadlock;
pub use error::{Deadlock, DeadlockLink, NodeWait};
pub use scope::Scope;
pub(crate) use scope::{Granule, NodeSet, Tree};

/// Which request is refused if one for more nodes closes a cycle of waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub enum Refused {
    /// The one that closes the cycle.
    Itself,
    /// The one for which it waits. If that one has locked nothing yet, it is not refused either: it
    /// goes to the end of its queues.
    Another,
}
