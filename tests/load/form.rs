//! The saved form.

use doclock::{DataStore, Snapshot, View, document::check};
use serde_json::{Value, json};

use crate::common::{commit, id, image, store};
use crate::{loaded, restarted, saved, small};

#[test]
fn feed_05_the_saved_form_has_the_document_and_its_numberings() {
    let store = small();
    let lease = store
        .leases()
        .acquire("t", "ann", std::time::Duration::from_secs(1));
    assert_eq!(lease.unwrap().fencing_token().get(), 1);
    let form: Value = serde_json::from_slice(&saved(&store.snapshot())).unwrap();
    let expected = json!({
        "format": 1,
        "version": 2,
        "root": "page",
        "tokens": {"lock": 2, "lease": 1, "claim": 0},
        "session": {"id": 7, "transactions": 2, "nodes": 9},
        "len": 5,
        "nodes": [
            {"id": "page", "type": "page", "children": ["t", "7:1"]},
            {
                "id": "t", "type": "text", "text": "Io",
                "marks": [{"type": "bold", "range": [0, 2]}], "parent": "page",
            },
            {"id": "7:1", "type": "text", "parent": "page"},
            {
                "id": "loose", "type": "list",
                "attributes": {"depth": {"of": [1, 2.5, null]}}, "children": ["7:2"],
            },
            {"id": "7:2", "type": "item", "parent": "loose"},
        ],
    });
    assert_eq!(form, expected);
}

#[test]
fn feed_05_a_loaded_document_is_the_saved_one() {
    let store = small();
    let before = store.snapshot();
    let after = restarted(&before);
    assert_eq!(after, before);
    assert_eq!(image(&after), image(&before));
    assert_eq!((after.version(), after.len()), (2, 5));
    assert_eq!(after.root(), Some(&id("page")));
    assert_eq!(check(&after), Ok(()));
    assert_eq!(saved(&after), saved(&before));
    let empty = restarted(&DataStore::new().snapshot());
    assert_eq!((empty.version(), empty.len(), empty.root()), (0, 0, None));
}

#[test]
fn feed_05_detached_nodes_are_part_of_it() {
    let after = restarted(&small().snapshot());
    let loose = after.node("loose").unwrap();
    assert_eq!((loose.parent(), loose.children().len()), (None, 1));
    assert_eq!(after.root(), Some(&id("page")));
}

#[test]
fn feed_05_the_base_of_a_transaction_can_be_saved() {
    let store = small();
    let mut transaction = store.begin("ann").unwrap();
    transaction.delete("t").unwrap();
    let base = restarted(transaction.base());
    assert_eq!(base, store.snapshot());
    assert_eq!(base.version(), 2);
}

/// Two stores hash with the same secret, but their tables have grown in different ways.
#[test]
fn feed_05_equal_documents_are_saved_as_the_same_bytes() {
    let names = || (0..300).map(|nth| format!("n{nth}"));
    let [one, other] = [false, true].map(|is_reversed| {
        let store = store();
        commit(&store, |transaction| {
            let mut names: Vec<String> = names().collect();
            if is_reversed {
                names.reverse();
            }
            for name in names {
                let spec = doclock::document::NodeSpec::new("x").with_id(name);
                transaction.create(spec).unwrap();
            }
        });
        store.snapshot()
    });
    assert_eq!(saved(&one), saved(&other));
    assert_eq!(saved(&restarted(&one)), saved(&one));
}

#[test]
fn feed_05_fields_can_be_in_any_order_and_attributes_of_a_mark_stay() {
    let store = store();
    commit(&store, |transaction| {
        let link = doclock::document::Mark::new("link", 1..2);
        let link = link.with_attributes([("href", json!({"to": ["x"]}))]);
        let text = doclock::document::NodeSpec::new("text").with_text("漢字");
        transaction.create(text.with_marks([link])).unwrap();
    });
    let form = serde_json::to_value(store.snapshot()).unwrap();
    let Value::Object(fields) = &form else {
        panic!("not an object")
    };
    let reversed: Vec<String> = fields
        .iter()
        .rev()
        .map(|(name, value)| format!("{name:?}: {value}"))
        .collect();
    let reversed = format!("{{{}}}", reversed.join(", "));
    let after: Snapshot = loaded(reversed.as_bytes()).unwrap();
    assert_eq!(after, store.snapshot());
    assert_eq!(image(&after), image(&store.snapshot()));
}
