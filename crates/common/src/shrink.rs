//! Capacity limits of collections.

/// The capacity to which a collection shrinks if its capacity exceeds four times its length.
/// Capacity for `kept` elements is always kept, so small collections do not shrink and grow in
/// turns.
pub fn excess(capacity: usize, len: usize, kept: usize) -> Option<usize> {
    (capacity > kept.max(4 * len)).then_some(2 * len)
}
