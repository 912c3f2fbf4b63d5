//! Operations: attributes.
