//! How the store keeps its log, and when the editors read it.

use std::time::Duration;

use doclock::{DataStore, Editor, StoreOptions, history::HistoryOptions};

use crate::common::SESSION;
use crate::search::{History, Outcome, Trace, fail};

pub(crate) const NAMES: [&str; 4] = ["ann", "bob", "cat", "dan"];

#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    pub(crate) log_limit: usize,
    pub(crate) kept: usize,
    /// Whether each editor reads each commit at once.
    pub(crate) reads: bool,
    /// Whether each commit is recorded at once. Otherwise some undos need no record.
    pub(crate) records: bool,
    /// How many entries a history has.
    pub(crate) limit: usize,
    /// Whether every other editor locks nodes in place of the document.
    pub(crate) on_nodes: bool,
}

impl Setting {
    pub(crate) const PLAIN: Self = Self {
        log_limit: 1 << 20,
        kept: 0,
        reads: false,
        records: false,
        limit: 1_000,
        on_nodes: false,
    };

    pub(crate) const ON_NODES: Self = Self {
        on_nodes: true,
        ..Self::PLAIN
    };

    pub(crate) const RECORDED: Self = Self {
        records: true,
        ..Self::PLAIN
    };

    pub(crate) fn store(self) -> DataStore {
        let options = StoreOptions::new().session(SESSION);
        let options = options.log_limit(self.log_limit);
        DataStore::with_options(options.kept_commits(self.kept))
    }

    pub(crate) fn editor(self, store: &DataStore, who: usize) -> Editor {
        let options = HistoryOptions::new().group_interval(Duration::ZERO);
        let editor = Editor::new(store.clone(), NAMES[who]);
        let editor = editor.with_history(options.limit(self.limit));
        match self.on_nodes && who.is_multiple_of(2) {
            true => editor.with_node_locks(2),
            false => editor,
        }
    }
}

/// The entries that one editor can undo, and those that it can redo.
#[derive(Debug)]
pub(crate) struct Stacks<E> {
    pub(crate) done: Vec<E>,
    pub(crate) undone: Vec<E>,
}

impl<E> Default for Stacks<E> {
    fn default() -> Self {
        Self {
            done: Vec::new(),
            undone: Vec::new(),
        }
    }
}

impl<E> Stacks<E> {
    /// Adds an entry. Returns the oldest one, if that is no longer kept.
    pub(crate) fn push(&mut self, entry: E, limit: usize) -> Option<E> {
        self.done.push(entry);
        (self.done.len() > limit).then(|| self.done.remove(0))
    }

    pub(crate) fn of(&mut self, redo: bool) -> &mut Vec<E> {
        if redo {
            &mut self.undone
        } else {
            &mut self.done
        }
    }
}

/// Runs a history with a setting and then with others, in which the same has to happen.
pub(crate) fn run_alike<A>(
    kind: &'static str,
    history: &History<A>,
    first: Setting,
    others: &[Setting],
    trace: &mut Trace,
    run: impl Fn(&History<A>, Setting, &mut Trace) -> Outcome,
) -> Outcome {
    let mut expected = Trace(Some(Vec::new()));
    let outcome = run(history, first, &mut expected);
    if let (Some(lines), Some(all)) = (&mut trace.0, &expected.0) {
        lines.clone_from(all);
    }
    outcome?;
    for setting in others {
        let mut found = Trace(Some(Vec::new()));
        let outcome = run(history, *setting, &mut found);
        let [expected, found] = [&expected, &found].map(|trace| trace.0.as_deref());
        let [expected, found] = [expected, found].map(Option::unwrap_or_default);
        let differs = expected.iter().zip(found).find(|(one, other)| one != other);
        if let Some((one, other)) = differs {
            let text = format!("with {setting:?} it is\n{other}\nnot\n{one}");
            return fail(kind, text);
        }
        outcome?;
    }
    Ok(())
}
