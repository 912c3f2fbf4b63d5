//! That operations are data: each reads back as it was written.

use serde_json::json;

use super::*;
use crate::transaction::dsl::*;

fn every_operation() -> Vec<Operation> {
    let mut list = vec![
        create(text_node("inline-text", "x")),
        control("n", [set_text("x"), delete()]),
    ];
    let on_a_node = [
        delete(),
        add_child(element("p", [text_node("t", "x")]), 0),
        add_child("other", None),
        remove_child("other"),
        move_node("other", 2),
        set_text("x"),
        insert_text(1, "x"),
        delete_text_range(1, 2),
        replace_text(1, 2, "x"),
        set_attrs([("level", json!(1))]),
    ];
    list.extend(on_a_node.map(|operation| operation.on("n")));
    list
}

#[test]
fn every_operation_reads_back_as_it_was_written_under_its_name() {
    for operation in every_operation() {
        let value = serde_json::to_value(&operation).unwrap();
        assert_eq!(value["type"], operation.name());
        assert_eq!(
            serde_json::from_value::<Operation>(value).unwrap(),
            operation
        );
    }
}
