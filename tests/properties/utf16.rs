//! Any operation in UTF-16 units has the same effect as in scalar values.

use doclock::transaction::RunOperations;
use doclock::{
    document::check,
    transaction::{Operation, parse_operations},
};
use proptest::prelude::*;

use crate::common::{cases, image, in_utf16};
use crate::furnished;
use crate::generator::{Kind, steps};

/// The operation in scalar values, for any drawn unit. Of a `control` only the first operation
/// stays: the others count in changed texts.
fn in_scalar_values(operation: Operation) -> Operation {
    match operation {
        Operation::Named { alias, operation } => in_scalar_values(*operation).named(alias),
        Operation::Control {
            node_id,
            operations,
            ..
        } => Operation::Control {
            node_id,
            operations: operations.into_iter().take(1).collect(),
            unit: None,
        },
        operation => {
            let mut value = serde_json::to_value(operation).unwrap();
            value.as_object_mut().unwrap().remove("unit");
            serde_json::from_value(value).unwrap()
        }
    }
}

proptest! {
    #![proptest_config(cases(150))]

    /// Two stores with the same numbering, so the same operations create nodes with the same ids. A
    /// failing operation may have used up an id, so the next one starts anew.
    #[test]
    fn text_01_any_operation_in_utf16_does_the_same(steps in steps(1..40)) {
        let (mut one, mut other) = (furnished(), furnished());
        for step in steps.iter().filter(|step| step.kind != Kind::Op) {
            let mut scalar = one.begin("ann").unwrap();
            let mut utf16 = other.begin("ann").unwrap();
            let operation = in_scalar_values(step.draw(&scalar));
            let converted = in_utf16(&utf16, &operation);
            let shown = converted.to_string();
            if shown.contains("\"container\"") {
                // In scalar values its unused marks are not checked.
                continue;
            }
            let converted = parse_operations(&shown).unwrap().remove(0);
            let done = (scalar.run(operation), utf16.run(converted));
            prop_assert_eq!(done.0.is_ok(), done.1.is_ok(), "{}: {:?}", shown, done);
            if done.0.is_err() {
                drop((scalar, utf16));
                (one, other) = (furnished(), furnished());
                continue;
            }
            prop_assert_eq!(image(&scalar), image(&utf16), "{}", shown);
            prop_assert_eq!(scalar.changes(), utf16.changes(), "{}", shown);
            prop_assert_eq!(scalar.selection(), utf16.selection(), "{}", shown);
            prop_assert_eq!(scalar.clipboard(), utf16.clipboard(), "{}", shown);
            let committed = (scalar.commit().unwrap(), utf16.commit().unwrap());
            prop_assert_eq!(committed.0.operations, committed.1.operations);
            prop_assert_eq!(check(&other.snapshot()), Ok(()));
        }
    }
}
