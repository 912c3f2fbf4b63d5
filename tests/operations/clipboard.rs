//! Operations: clipboard.
