//! Operations are data: each reads back from JSON unchanged, and errors name the invalid field.

use doclock::transaction::RunOperations;
use doclock::{
    Draft,
    document::check,
    transaction::{Operation, parse_operations},
};
use proptest::prelude::*;
use serde_json::{Value, json};
use strum::VariantArray;

use crate::common::{Dice, cases, image};
use crate::furnished;
use crate::generator::{Kind, Step, steps};

/// The result of an operation, with the text of its error.
fn outcome(on: &mut Draft, operation: Operation) -> Result<(), String> {
    let outcome = on.attempt(|on| on.run(operation));
    outcome.map_err(|error| format!("{error}: {error:?}"))
}

proptest! {
    #![proptest_config(cases(150))]

    /// Two stores with the same numbering, so the same operations create nodes with the same ids.
    #[test]
    fn transaction_04_any_operation_read_back_from_json_does_the_same(
        transactions in prop::collection::vec(steps(1..16), 1..4),
    ) {
        let (one, other) = (furnished(), furnished());
        for steps in transactions {
            let mut written = one.begin("ann").unwrap();
            let mut read = other.begin("ann").unwrap();
            for step in steps.iter().filter(|step| step.kind != Kind::Op) {
                let operation = step.draw(&written);
                let script = serde_json::to_string_pretty(&operation).unwrap();
                let mut back = parse_operations(&script).unwrap();
                prop_assert_eq!(&back, std::slice::from_ref(&operation));
                let back = back.remove(0);
                let outcomes = (outcome(&mut written, operation), outcome(&mut read, back));
                prop_assert_eq!(outcomes.0, outcomes.1, "{}", script);
                prop_assert_eq!(image(&written), image(&read), "{}", script);
                prop_assert_eq!(written.selection(), read.selection(), "{}", script);
                prop_assert_eq!(written.clipboard(), read.clipboard(), "{}", script);
            }
            let committed = (written.commit().unwrap(), read.commit().unwrap());
            prop_assert_eq!(committed.0.operations, committed.1.operations);
            prop_assert_eq!(committed.0.changes, committed.1.changes);
            prop_assert_eq!(check(&other.snapshot()), Ok(()));
        }
    }
}

/// Values that hardly any field accepts.
fn misfits() -> [Value; 8] {
    [
        json!(null),
        json!(-1.5),
        json!(true),
        json!([[]]),
        json!({"surplus": 1}),
        json!([1]),
        json!(u64::MAX),
        json!(""),
    ]
}

/// Reads one operation with a changed payload. An error has to begin with the name of the operation
/// and to name the field.
fn misread(operation: &Value, field: &str, change: impl FnOnce(&mut Value)) -> bool {
    let mut spoilt = operation.clone();
    change(&mut spoilt["payload"]);
    let Err(error) = parse_operations(&spoilt.to_string()) else {
        return false;
    };
    let name = operation["type"].as_str().unwrap();
    let begins = error.message.starts_with(&format!("{name}: "));
    assert!(begins && error.message.contains(field), "{spoilt}: {error}");
    assert_eq!(error.index, Some(0));
    true
}

#[test]
fn transaction_04_a_misread_payload_names_its_operation_and_field() {
    let store = furnished();
    let mut transaction = store.begin("ann").unwrap();
    let mut dice = Dice(1);
    for kind in Kind::VARIANTS.iter().filter(|kind| **kind != Kind::Op) {
        let mut misreadings = 0;
        let mut fields_drawn = 0;
        for _ in 0..40 {
            let step = Step {
                kind: *kind,
                seed: dice.next(),
            };
            let operation = step.draw(&transaction);
            let json = serde_json::to_value(&operation).unwrap();
            let _ = outcome(&mut transaction, operation);
            assert!(misread(&json, "surplus", |payload| payload["surplus"] = json!(1)));
            let fields = json["payload"].as_object().unwrap();
            fields_drawn += fields.len();
            for field in fields.keys() {
                for misfit in misfits() {
                    misreadings +=
                        u32::from(misread(&json, field, |payload| payload[field] = misfit));
                }
                misread(&json, field, |payload| {
                    payload.as_object_mut().unwrap().remove(field);
                });
            }
        }
        assert!(
            misreadings > 0 || fields_drawn == 0,
            "{kind:?} takes anything"
        );
    }
}

#[test]
fn a_byte_order_mark_is_no_part_of_a_script() {
    let script = r#"[{"type": "createNode", "payload": {}}]"#;
    assert_eq!(parse_operations("\u{feff}[]").map(|all| all.len()), Ok(0));
    // Positions count without it.
    let [with, without] = [format!("\u{feff}{script}"), script.to_owned()];
    let [with, without] = [with, without].map(|script| parse_operations(&script).unwrap_err());
    assert_eq!(with, without);
}
