//! Operations: marks.
