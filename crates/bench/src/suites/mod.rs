//! The suites. Each suite defines the work as a trait, and has its peers, one small file each, in a
//! folder of its name. A new peer is one file and one line in the suite's list.

#[cfg(feature = "cluster")]
pub mod cluster;
#[cfg(not(feature = "cluster"))]
#[path = "cluster/missing.rs"]
pub mod cluster;
pub mod contended;
pub mod diagnostics;
pub mod document;
pub mod durable;
pub mod editors;
pub mod growth;
pub mod lock;
pub mod node_locks;
pub mod observed;
pub mod primitives;
pub mod replay;
pub mod tasks;
pub mod text;
pub mod transaction;
