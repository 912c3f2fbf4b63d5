//! Unit tests of `src/transaction/retry.rs`.

use super::*;

#[test]
fn pauses_grow_to_a_bound_and_differ() {
    assert_eq!(pause(1, 7), Duration::ZERO);
    let micros = |attempt, random| pause(attempt, random).as_micros();
    assert_eq!((micros(2, 0), micros(3, 0), micros(10, 0)), (25, 50, 6400));
    assert_eq!(micros(u32::MAX, 0), micros(10, 0));
    assert_eq!((micros(3, 50_000), micros(3, 50_001)), (100, 50));
}
