//! How much room a collection keeps.

/// The capacity that a collection shrinks to, if it has room for more than four times its length.
/// Room for `kept` elements is never given back, so small collections do not shrink and grow in
/// turns.
pub(crate) fn excess(capacity: usize, len: usize, kept: usize) -> Option<usize> {
    (capacity > kept.max(4 * len)).then_some(2 * len)
}
