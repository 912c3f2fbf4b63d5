//! Operations: blocks.
