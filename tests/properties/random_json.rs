//! Mutated scripts, and arbitrary JSON.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread;

use doclock::{
    DataStore, TransactionManager,
    document::check,
    transaction::{Operation, ScriptError, TransactionError, parse_operations},
};
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};
use strum::VariantArray;

use crate::common::{Dice, image, seed, spoil};
use crate::furnished;
use crate::generator::{Generator, Kind};

/// A debug build runs a sample.
const CASES: u64 = if cfg!(debug_assertions) {
    5_000
} else {
    1_000_000
};

/// The cases for one document, unless it grows too large.
const PER_DOCUMENT: u64 = 500;
const LARGE: usize = 120;

/// Operations drawn for the document, as JSON.
fn valid(store: &DataStore, dice: &mut Dice) -> Value {
    let snapshot = store.snapshot();
    let mut generator = Generator::new(&snapshot, dice.next());
    let mut list = Vec::new();
    for _ in 0..=dice.below(3) {
        let kind = Kind::VARIANTS[dice.below(Kind::VARIANTS.len())];
        if kind != Kind::Op {
            list.push(serde_json::to_value(generator.operation(kind)).unwrap());
        }
    }
    match dice.one_in(6) {
        true => json!({"unit": "utf16", "operations": list}),
        false => Value::from(list),
    }
}

/// Arbitrary JSON, often with the words of scripts.
fn any_json(dice: &mut Dice, levels: usize) -> Value {
    const WORDS: [&str; 14] = [
        "type",
        "payload",
        "nodeId",
        "create",
        "cut",
        "control",
        "operations",
        "node",
        "a",
        "children",
        "alias",
        "text",
        "unit",
        "utf16",
    ];
    let word = |dice: &mut Dice| WORDS[dice.below(WORDS.len())].to_owned();
    match dice.below(if levels > 0 { 8 } else { 6 }) {
        0 => Value::Null,
        1 => dice.one_in(2).into(),
        2 => (dice.next() as i64).into(),
        3 => f64::from_bits(dice.next()).into(),
        4 => dice.below(4).into(),
        5 => word(dice).into(),
        6 => (0..dice.below(4))
            .map(|_| any_json(dice, levels - 1))
            .collect(),
        _ => {
            let fields = (0..dice.below(4)).map(|_| (word(dice), any_json(dice, levels - 1)));
            Value::from(fields.collect::<Map<_, _>>())
        }
    }
}

/// A random part of a value.
fn piece(of: &Value, dice: &mut Dice) -> Value {
    let inner: Vec<&Value> = match of {
        Value::Array(items) => items.iter().collect(),
        Value::Object(fields) => fields.values().collect(),
        _ => Vec::new(),
    };
    match inner.is_empty() || dice.one_in(4) {
        true => of.clone(),
        false => piece(inner[dice.below(inner.len())], dice),
    }
}

/// Replaces a random part.
fn graft(value: &mut Value, dice: &mut Dice, graft_in: Value) {
    let inner: Vec<&mut Value> = match value {
        Value::Array(items) => items.iter_mut().collect(),
        Value::Object(fields) => fields.values_mut().collect(),
        _ => Vec::new(),
    };
    match inner.is_empty() || dice.one_in(6) {
        true => *value = graft_in,
        false => {
            let at = dice.below(inner.len());
            if let Some(inner) = inner.into_iter().nth(at) {
                graft(inner, dice, graft_in);
            }
        }
    }
}

fn script(store: &DataStore, dice: &mut Dice) -> String {
    if dice.one_in(12) {
        return any_json(dice, 5).to_string();
    }
    let mut value = valid(store, dice);
    for _ in 0..=dice.below(3) {
        match dice.below(8) {
            0 => {
                let piece = piece(&value, dice);
                graft(&mut value, dice, piece);
            }
            1 => {
                let made_up = any_json(dice, 2);
                graft(&mut value, dice, made_up);
            }
            _ => spoil(&mut value, dice),
        }
    }
    let mut script = value.to_string();
    if dice.one_in(16) {
        // Truncated, or without a character.
        let at = script.floor_char_boundary(dice.below(script.len() + 1));
        match script[at..].chars().next() {
            Some(_) if dice.one_in(2) => drop(script.remove(at)),
            _ => script.truncate(at),
        }
    }
    script
}

/// Whether the batch is well-formed, with any operations.
fn is_batch(fields: &Map<String, Value>) -> bool {
    let is_unit = |unit: &Value| unit == "utf16" || unit == "scalar";
    fields.len() == 2
        && fields.get("unit").is_some_and(is_unit)
        && fields.contains_key("operations")
}

/// The operation of an error, counted in the flattened script.
fn nth(script: &Value, index: &mut usize) -> Option<Value> {
    match script {
        Value::Array(items) => items.iter().find_map(|item| nth(item, index)),
        Value::Object(fields) if is_batch(fields) => nth(&fields["operations"], index),
        _ if *index == 0 => Some(script.clone()),
        _ => {
            *index -= 1;
            None
        }
    }
}

/// Checks that the error has a position, and the name of its operation if that exists.
fn explained(script: &str, error: &ScriptError, names: &HashSet<&str>) {
    let is_json = serde_json::from_str::<IgnoredAny>(script).is_ok();
    assert_eq!(error.index.is_some(), is_json, "{error}");
    let line = script
        .split('\n')
        .nth(error.line - 1)
        .expect("the line is there");
    assert!(
        (1..=line.chars().count() + 1).contains(&error.column),
        "{error}"
    );
    assert!(!error.message.is_empty());
    // Numbers beyond the range of JSON readers are still JSON.
    let (Some(mut index), Ok(value)) = (error.index, serde_json::from_str::<Value>(script)) else {
        return;
    };
    let about = nth(&value, &mut index).expect("the operation is there");
    let named = about["type"].as_str().filter(|name| names.contains(name));
    let whole = about["payload"].is_object() && about.get("alias").is_none();
    if let Some(name) =
        named.filter(|_| whole && about.as_object().is_some_and(|all| all.len() == 2))
    {
        let says = error.message.starts_with(&format!("{name}: "));
        assert!(says, "{about}: {error}");
    }
}

fn survives(store: &DataStore, script: &str, names: &HashSet<&str>) {
    let operations = match parse_operations(script) {
        Ok(operations) => operations,
        Err(error) => return explained(script, &error, names),
    };
    let before = store.snapshot();
    let before_image = image(&before);
    match TransactionManager::new(store.clone()).execute(operations) {
        Ok(result) => {
            let now = store.snapshot();
            assert_eq!(check(&now), Ok(()));
            assert_eq!(result.changed, now.version() > before.version());
        }
        Err(TransactionError::Operation { name, cause, .. }) => {
            assert!(names.contains(name) && !cause.to_string().is_empty());
            assert_eq!(image(&store.snapshot()), before_image, "half done: {cause}");
            assert_eq!(store.version(), before.version());
        }
        Err(other) => panic!("{other}"),
    }
    assert!(!store.is_locked());
}

fn document(seed: u64, names: &HashSet<&str>) {
    let mut dice = Dice(seed);
    let mut store = furnished();
    for _ in 0..PER_DOCUMENT {
        let script = script(&store, &mut dice);
        let outcome = catch_unwind(AssertUnwindSafe(|| survives(&store, &script, names)));
        if let Err(payload) = outcome {
            println!("seed {seed}, script {script}");
            resume_unwind(payload);
        }
        if store.snapshot().len() > LARGE {
            store = furnished();
        }
    }
}

/// `SEED` sets the first of the seeds, one for each document.
#[test]
fn transaction_04_random_json_never_panics_and_leaves_nothing_half_done() {
    let first = seed();
    let names: HashSet<&str> = Operation::names().collect();
    let threads = thread::available_parallelism().map_or(1, usize::from) as u64;
    thread::scope(|scope| {
        for thread in 0..threads {
            let names = &names;
            scope.spawn(move || {
                let seeds = (thread..CASES / PER_DOCUMENT).step_by(threads as usize);
                seeds.for_each(|seed| document(first.wrapping_add(seed), names));
            });
        }
    });
}
