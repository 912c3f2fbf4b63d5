//! The checker against a brute-force model: both give the same result for every history.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use crate::anomaly::Anomaly;
use crate::checker::{Level, check};
use crate::common::{Dice, cases};
use crate::history::History;
use crate::model::{can_be_serial, mutate, serial_histories};

fn agree(history: &History, level: Level) -> Result<(), TestCaseError> {
    let anomalies = check(history, level);
    let serial = can_be_serial(history, level);
    prop_assert_eq!(
        anomalies.is_empty(),
        serial,
        "{:?}: {:#?}",
        level,
        anomalies
    );
    Ok(())
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn serial_histories_are_clean_in_any_reported_order(
        history in serial_histories(0..200, 8),
    ) {
        prop_assert_eq!(check(&history, Level::Strict), []);
    }
}

proptest! {
    #![proptest_config(cases(3_000))]

    #[test]
    fn a_changed_history_is_found_faulty_exactly_if_no_order_explains_it(
        history in serial_histories(1..7, 3),
        changes in prop::collection::vec(any::<u64>(), 1..4),
    ) {
        let mut history = history;
        for seed in changes {
            mutate(&mut history, &mut Dice(seed));
        }
        agree(&history, Level::Serializable)?;
        agree(&history, Level::Strict)?;
    }
}

/// Otherwise the comparison with the model would be weaker than it seems.
#[test]
fn changed_histories_show_cycles_of_every_class() {
    let mut runner = TestRunner::deterministic();
    let mut dice = Dice(1);
    let mut shown: BTreeMap<String, usize> = BTreeMap::new();
    for _ in 0..3_000 {
        let histories = serial_histories(1..7, 3);
        let mut history = histories.new_tree(&mut runner).unwrap().current();
        mutate(&mut history, &mut dice);
        let kind = match &check(&history, Level::Strict)[..] {
            [] => "clean".to_owned(),
            [Anomaly::Cycle(cycle)] if cycle.real_time => "in real time".to_owned(),
            [Anomaly::Cycle(cycle)] => format!("{:?}", cycle.class),
            _ => "no cycle alone".to_owned(),
        };
        *shown.entry(kind).or_default() += 1;
    }
    println!("{shown:?}");
    assert_eq!(shown.len(), 7, "{shown:?}");
}
