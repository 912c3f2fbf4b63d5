//! Operations: tree.
