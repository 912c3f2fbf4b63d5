//! Operations: text.
