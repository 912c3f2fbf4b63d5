//! Keys with one hash, which a test from outside cannot make.

use super::*;

#[test]
fn keys_with_one_hash_are_found_and_removed_one_by_one() {
    let number = |key: u64| KeyId {
        hash: 7,
        number: key,
    };
    for first in 0..3 {
        for second in (0..3).filter(|&key| key != first) {
            let mut table = KeyTable::<_, _, 3, 1>::default();
            for key in 0..3 {
                let is = |own: &u64, key: &Option<u64>| Some(*own) == *key;
                let mut added = |number| {
                    let found = table.find_or_add(7, &mut Some(key), is, || number, || ());
                    found.map(|(entry, added)| (entry.id.number, added))
                };
                assert_eq!(added(None), None);
                assert_eq!(added(Some(key)), Some((key, true)));
                assert_eq!(added(Some(9)), Some((key, false)));
            }
            let mut left = vec![0, 1, 2];
            for key in [first, second, 3 - first - second] {
                assert_eq!(table.remove_if(number(key), |_| false), None);
                assert_eq!(table.remove_if(number(key), |_| true), Some(key));
                assert_eq!(table.remove_if(number(key), |_| true), None);
                left.retain(|&other| other != key);
                for key in 0..3 {
                    let found = table.find(7, |own| *own == key).is_some();
                    assert_eq!(found, left.contains(&key));
                    assert_eq!(table.get_mut(number(key)).is_some(), found);
                }
                assert_eq!(table.sizes()[0], left.len());
                // A search for another hash compares none of them.
                assert_eq!(table.collided.len(), left.len().saturating_sub(1));
            }
        }
    }
}
