//! Limits of the size and the capacity of collections.

/// The capacity to which a collection shrinks if its capacity exceeds four times its length.
/// Capacity for `kept` elements is always kept, so small collections do not shrink and grow in
/// turns.
pub fn excess(capacity: usize, len: usize, kept: usize) -> Option<usize> {
    (capacity > kept.max(4 * len)).then_some(2 * len)
}

/// Sorts a list by a key, and shortens it to the first elements.
pub fn to_first<T, O: Ord>(list: &mut Vec<T>, count: usize, order: impl Fn(&T) -> O) {
    if list.len() > count {
        list.select_nth_unstable_by_key(count, &order);
        list.truncate(count);
    }
    list.sort_by_key(order);
}
