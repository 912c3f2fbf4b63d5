//! The suites. Each defines what a subject has to do as a trait and keeps its peers, one small
//! file each, in a folder of its name: adding a peer is that file and a line in the suite's list.

pub mod contended;
pub mod document;
pub mod faces;
pub mod growth;
pub mod lock;
pub mod node_locks;
pub mod replay;
pub mod text;
pub mod transaction;
