//! Positions of operations in UTF-16 units, counted as JavaScript does: in the JSON of the
//! operation, by `encode_utf16`.

use doclock::{
    Draft, View,
    transaction::{NodeRef, Operation},
};
use serde_json::{Value, json};

/// The UTF-16 offset of a position. Positions after the end keep their distance to it.
pub(crate) fn utf16_offset(text: &str, offset: usize) -> usize {
    let before: String = text.chars().take(offset).collect();
    let behind = offset - before.chars().count();
    before.encode_utf16().count().saturating_add(behind)
}

/// The same operation in UTF-16 units.
pub(crate) fn in_utf16(on: &Draft, operation: &Operation) -> Value {
    let mut value = serde_json::to_value(operation).unwrap();
    each_position(on, &mut value, &mut |text, position| {
        let offset = position.as_u64().unwrap() as usize;
        *position = json!(utf16_offset(text, offset));
    });
    value["unit"] = json!("utf16");
    value
}

/// Visits each position of an operation, with the text that contains it.
pub(crate) fn each_position(
    on: &Draft,
    operation: &mut Value,
    visit: &mut impl FnMut(&str, &mut Value),
) {
    let text_of = |node: Option<&Value>| {
        let node: NodeRef = serde_json::from_value(node?.clone()).ok()?;
        let id = match &node {
            NodeRef::Id(id) => id,
            NodeRef::Alias(named) => on.named(&named.alias).ok()?,
        };
        Some(on.node(id)?.text().to_string())
    };
    let payload = operation["payload"].as_object_mut().unwrap();
    let node = payload.get("nodeId").cloned();
    if let Some(operations) = payload.get_mut("operations").and_then(Value::as_array_mut) {
        for operation in operations {
            operation["payload"]["nodeId"] = node.clone().unwrap();
            each_position(on, operation, visit);
            let payload = operation["payload"].as_object_mut().unwrap();
            payload.remove("nodeId");
        }
        return;
    }
    let own = text_of(node.as_ref()).unwrap_or_default();
    let last = match payload.get("endNodeId") {
        Some(last) => text_of(Some(last)).unwrap_or_default(),
        None => own.clone(),
    };
    let new = payload.get("text").and_then(Value::as_str);
    let marked = new.unwrap_or(&own).to_owned();
    for (name, value) in payload {
        match name.as_str() {
            "offset" | "start" => visit(&own, value),
            "end" => visit(&last, value),
            "at" => {
                let text = text_of(value.get("nodeId")).unwrap_or_default();
                visit(&text, &mut value["offset"]);
            }
            "marks" => in_marks(&marked, value, visit),
            "node" | "child" | "container" | "list" | "item" => in_new_node(value, visit),
            "fragment" => {
                let nodes = value["nodes"].as_array_mut().unwrap();
                nodes.iter_mut().for_each(|node| in_new_node(node, visit));
            }
            "selection" => {
                let ends = value.as_object_mut().unwrap().values_mut();
                for end in ends.filter(|end| end.is_object()) {
                    let text = text_of(end.get("nodeId")).unwrap_or_default();
                    visit(&text, &mut end["offset"]);
                }
            }
            _ => {}
        }
    }
}

fn in_new_node(node: &mut Value, visit: &mut impl FnMut(&str, &mut Value)) {
    let Some(node) = node.as_object_mut() else {
        return;
    };
    let text = node.get("text").and_then(Value::as_str).unwrap_or_default();
    let text = text.to_owned();
    if let Some(marks) = node.get_mut("marks") {
        in_marks(&text, marks, visit);
    }
    if let Some(children) = node.get_mut("children").and_then(Value::as_array_mut) {
        children
            .iter_mut()
            .for_each(|node| in_new_node(node, visit));
    }
}

fn in_marks(text: &str, marks: &mut Value, visit: &mut impl FnMut(&str, &mut Value)) {
    let marks = marks.as_array_mut().into_iter().flatten();
    let ranges = marks.filter_map(|mark| mark.get_mut("range")?.as_array_mut());
    ranges.flatten().for_each(|position| visit(text, position));
}
