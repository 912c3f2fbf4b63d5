//! Unit tests of `src/store/inbox/options.rs`.

use super::*;

const MS: Duration = Duration::from_millis(1);

#[test]
fn delays_double_up_to_the_longest() {
    let options = InboxOptions::new().backoff(10 * MS, 65 * MS);
    let delays = [1, 2, 3, 4, 32, 33, u32::MAX].map(|attempt| options.delay("e", attempt));
    assert_eq!(
        delays,
        [10, 20, 40, 65, 65, 65, 65].map(|millis| millis * MS)
    );
    let none = InboxOptions::new().backoff(Duration::ZERO, Duration::MAX);
    assert_eq!(none.delay("e", 40), Duration::ZERO);
    let long = InboxOptions::new()
        .backoff(Duration::MAX, Duration::MAX)
        .jitter(1);
    assert!(long.delay("e", 40) <= YEAR);
}

#[test]
fn jitter_takes_up_to_a_half_and_is_the_same_each_time() {
    let options = InboxOptions::new().backoff(100 * MS, 100 * MS).jitter(3);
    let delays: Vec<_> = (0..1_000)
        .map(|event| options.delay(&event.to_string(), 1))
        .collect();
    assert!(
        delays
            .iter()
            .all(|delay| (50 * MS..=100 * MS).contains(delay))
    );
    let (least, most) = (delays.iter().min(), delays.iter().max());
    assert!(
        least < Some(&(52 * MS)) && most > Some(&(98 * MS)),
        "they spread"
    );
    assert_eq!(options.delay("17", 1), delays[17]);
    assert_ne!(options.delay("17", 2), delays[17]);
    assert_ne!(options.jitter(4).delay("17", 1), delays[17]);
}
