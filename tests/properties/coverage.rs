//! The generator covers everything, and most of its operations are possible.

use std::collections::{BTreeMap, BTreeSet};

use doclock::transaction::RunOperations;
use doclock::{document::Change, transaction::Operation};
use serde_json::json;
use strum::VariantArray;

use crate::furnished;
use crate::generator::{Kind, Step};

/// The variants of an enum, read from its source, because code outside the crate cannot match it
/// exhaustively.
fn variants(source: &str, head: &str) -> BTreeSet<String> {
    let (_, body) = source.split_once(head).expect(head);
    let (body, _) = body.split_once("\n}").expect(head);
    let name = |line: &str| {
        let line = line
            .strip_prefix("    ")
            .filter(|line| line.starts_with(char::is_uppercase))?;
        line.split(|c: char| !c.is_alphanumeric())
            .next()
            .map(str::to_owned)
    };
    body.lines().filter_map(name).collect()
}

/// The names between backticks that serde lists for an unknown tag.
fn expected_tags(error: &serde_json::Error) -> BTreeSet<String> {
    let message = error.to_string();
    let (_, listed) = message.split_once("expected one of").expect(&message);
    listed
        .split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

/// How often an operation succeeded, and how often it failed.
#[derive(Debug, Default)]
struct Outcomes {
    done: u32,
    refused: u32,
}

/// Fails as soon as the library has an operation that the generator does not draw.
#[test]
fn overlay_02_the_generator_draws_every_operation() {
    let source = include_str!("../../src/transaction/operation/mod.rs");
    let variants = variants(source, "pub enum Operation {");
    let unknown = json!({"type": "?"});
    let changes = expected_tags(&serde_json::from_value::<Change>(unknown).unwrap_err());
    assert!(variants.contains("Control") && changes.contains("spliceText"));

    let mut drawn: [BTreeSet<String>; 3] = Default::default();
    let mut outcomes: BTreeMap<&str, Outcomes> = BTreeMap::new();
    let store = furnished();
    for round in 0..150 {
        let mut transaction = store.begin("test").unwrap();
        // Each sometimes has each other one before it.
        for at in 0..Kind::VARIANTS.len() {
            let kind = Kind::VARIANTS[(at * 31 + round) % Kind::VARIANTS.len()];
            let seed = (round * 1000 + at) as u64;
            let operation = Step { kind, seed }.draw(&transaction);
            assert_eq!(operation.name(), kind.name());
            let shown = format!("{operation:?}");
            let variant = shown.split(|c: char| !c.is_alphanumeric()).next().unwrap();
            drawn[0].insert(variant.to_owned());
            drawn[1].insert(operation.name().to_owned());
            let outcome = transaction.attempt(|transaction| transaction.run(operation));
            let counted = outcomes.entry(kind.name()).or_default();
            match outcome {
                Ok(()) => counted.done += 1,
                Err(_) => counted.refused += 1,
            }
        }
        for change in transaction.changes() {
            let tag = serde_json::to_value(change).unwrap()["type"].clone();
            drawn[2].insert(tag.as_str().unwrap().to_owned());
        }
    }
    // Code has no name in JSON.
    let names = Operation::names()
        .chain(["op"])
        .map(str::to_owned)
        .collect();
    assert_eq!(drawn, [variants, names, changes]);

    // Without a schema no node is in a table.
    let on_tables = Kind::VARIANTS.iter().filter(|kind| kind.is_on_a_table());
    for kind in on_tables {
        let Outcomes { done, refused } = outcomes.remove(kind.name()).unwrap();
        assert!(done == 0 && refused > 0, "{}: {done}", kind.name());
    }
    for (name, Outcomes { done, refused }) in &outcomes {
        assert!(*done >= 20, "{name} hardly ever fits: {outcomes:?}");
        let refusable = *name != "clearSelection";
        assert!(
            *refused > 0 || !refusable,
            "{name} always fits: {outcomes:?}"
        );
    }
    let total = |of: fn(&Outcomes) -> u32| outcomes.values().map(of).sum::<u32>();
    let (done, refused) = (total(|all| all.done), total(|all| all.refused));
    assert!(done > 2 * refused, "{done} of {refused}: {outcomes:?}");
}
