//! The picture as text.
