//! Large batches, trees, transactions and pages.

use std::convert::Infallible;

use doclock::dsl::{create, set_attrs};
use doclock::{
    DataStore, TransactionManager,
    document::{EditError, NodeSpec},
};
use doclock_formats::markdown::from_markdown;

use super::inputs;
use super::ladder::Sample;
use crate::Result;

pub fn attributes(count: usize) -> Result<Sample> {
    let manager = TransactionManager::new(DataStore::new());
    manager.execute([create(NodeSpec::new("x").with_id("node"))])?;
    // Neither sorted nor in reverse: no size is a multiple of this prime.
    let key = |nth: usize| format!("k{}", nth * 7_919 % count);
    let set = set_attrs((0..count).map(|nth| (key(nth), nth.into()))).on("node");
    Ok(Sample::timed(|| manager.execute([set])))
}

pub fn aliases(count: usize) -> Result<Sample> {
    let manager = TransactionManager::new(DataStore::new());
    let named = |nth| create(NodeSpec::new("x")).named(format!("a{nth}"));
    let operations: Vec<_> = (0..count).map(named).collect();
    Ok(Sample::timed(|| manager.execute(operations)))
}

pub fn deep_child(levels: usize) -> Result<Sample> {
    let leaf = || NodeSpec::new("leaf");
    let level = |deep, _| NodeSpec::new("x").with_children([leaf(), deep]);
    Ok(infallible(|| (0..levels).fold(leaf(), level)))
}

pub fn attempts(count: usize) -> Result<Sample> {
    let mut transaction = DataStore::new().begin("growth")?;
    Ok(Sample::timed(|| {
        let attempt = |_| {
            transaction.attempt(|inner| {
                inner.create(NodeSpec::new("x"))?;
                Ok::<_, EditError>(())
            })
        };
        (0..count).try_for_each(attempt)
    }))
}

pub fn savepoints(count: usize) -> Result<Sample> {
    let mut transaction = DataStore::new().begin("growth")?;
    Ok(Sample::timed(|| {
        inputs::savepoints(&mut transaction, count)
    }))
}

pub fn footnotes(references: usize) -> Result<Sample> {
    let text = "[^note]<http://a.b> ".repeat(references);
    let page = format!("{text}\n\n[^note]: text\n");
    Ok(infallible(|| from_markdown(&page)))
}

fn infallible<T>(work: impl FnOnce() -> T) -> Sample {
    Sample::timed(|| Ok::<T, Infallible>(work()))
}
