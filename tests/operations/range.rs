//! Operations: range.
