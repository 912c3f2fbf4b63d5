//! `doclock diff`: what differs between two versions of a durable file.

use std::collections::HashSet;
use std::fmt::{self, Write};
use std::time::{Duration, Instant};

use doclock::document::{Attributes, Change, Marks, Node};
use doclock::durable::DurableFile;
use doclock::{NodeId, Snapshot, View};
use serde::Serialize;
use similar::{Algorithm, ChangeTag, DiffTag, TextDiff, capture_diff_slices_deadline};

use crate::args::DiffArgs;
use crate::error::{CommandOutcome, ToolError};
use crate::format::{line, printable, quoted};
use crate::{output, progress};

/// After so long a comparison of texts or children takes the best that it has.
const TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Serialize)]
struct DiffOutput<'a> {
    before: u64,
    after: u64,
    nodes: Vec<NodeDiff<'a>>,
    /// Applied to the version before, they make the version after.
    changes: Vec<Change>,
}

/// What differs in one node.
#[derive(Serialize)]
#[serde(rename_all = "camelCase", tag = "what")]
enum NodeDiff<'a> {
    Created {
        node: &'a Node,
    },
    Deleted {
        node: &'a Node,
    },
    Changed {
        id: &'a NodeId,
        #[serde(skip_serializing_if = "Option::is_none")]
        place: Option<BeforeAfter<TreePosition<'a>>>,
        #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
        kind: Option<BeforeAfter<&'a str>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        text: Option<BeforeAfter<String>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        attributes: Option<BeforeAfter<&'a Attributes>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        marks: Option<BeforeAfter<&'a Marks>>,
    },
}

#[derive(Serialize)]
struct BeforeAfter<T> {
    before: T,
    after: T,
}

impl<T: PartialEq> BeforeAfter<T> {
    /// Both, if they differ.
    fn of(before: T, after: T) -> Option<Self> {
        (before != after).then_some(Self { before, after })
    }
}

/// Where a node is.
#[derive(Serialize)]
struct TreePosition<'a> {
    parent: Option<&'a NodeId>,
    /// The number of siblings before it.
    index: Option<usize>,
}

pub(crate) fn run(args: &DiffArgs) -> Result<CommandOutcome, ToolError> {
    let file = progress::read(&args.file)?;
    let version = |version| {
        let document = file.snapshot(version);
        document.map_err(ToolError::version(&args.file))
    };
    let (before, after) = (version(args.before)?, version(args.after)?);
    let root = BeforeAfter::of(before.root(), after.root());
    let nodes = compared(&before, &after);
    let is_equal = nodes.is_empty() && root.is_none();
    match args.json {
        true => output::print_json(&DiffOutput {
            before: args.before,
            after: args.after,
            nodes,
            changes: changes(&file, args.before, args.after),
        })?,
        false => {
            let mut text = String::new();
            if let Some(BeforeAfter { before, after }) = root {
                let name = |id: Option<&NodeId>| id.map_or("none".to_owned(), printable);
                let _ = writeln!(text, "root: {} -> {}", name(before), name(after));
            }
            for node in &nodes {
                let _ = writeln!(text, "{node}");
            }
            output::print(&text)?;
        }
    }
    Ok(CommandOutcome::of(is_equal))
}

/// The changes from one version to another, which may be an earlier one.
fn changes(file: &DurableFile, before: u64, after: u64) -> Vec<Change> {
    let (low, high) = (before.min(after), before.max(after));
    let commits = file.commits(low.saturating_add(1)..=high);
    let changes = commits.iter().flat_map(|commit| commit.changes.iter());
    let changes = changes.filter(|change| !matches!(change, Change::SetSelection { .. }));
    match before <= after {
        true => changes.cloned().collect(),
        false => {
            let mut inverses: Vec<_> = changes.map(Change::inverse).collect();
            inverses.reverse();
            inverses
        }
    }
}

/// The nodes that differ: deleted ones first, then the others, each in document order.
fn compared<'a>(before: &'a Snapshot, after: &'a Snapshot) -> Vec<NodeDiff<'a>> {
    let deleted = in_order(before).into_iter();
    let deleted = deleted.filter(|node| !after.contains(node.id()));
    let mut diffs: Vec<_> = deleted.map(|node| NodeDiff::Deleted { node }).collect();
    let moved = moved(before, after);
    for node in in_order(after) {
        let Some(old) = before.node(node.id()) else {
            diffs.push(NodeDiff::Created { node });
            continue;
        };
        let is_moved = moved.contains(node.id());
        let place = is_moved.then(|| BeforeAfter {
            before: TreePosition::of(before, old),
            after: TreePosition::of(after, node),
        });
        diffs.extend(changed(place, old, node));
    }
    diffs
}

/// The nodes of both versions that have another parent, or another place among the siblings that
/// they keep: as few of those as possible.
fn moved<'a>(before: &'a Snapshot, after: &'a Snapshot) -> HashSet<&'a NodeId> {
    let mut moved = HashSet::new();
    for node in after.nodes() {
        let Some(old) = before.node(node.id()) else {
            continue;
        };
        if old.parent() != node.parent() {
            moved.insert(node.id());
        }
        if old.children() == node.children() {
            continue;
        }
        let olds: Vec<&NodeId> = old.children().iter().collect();
        let news: Vec<&NodeId> = node.children().iter().collect();
        let kept: HashSet<&NodeId> = olds.iter().copied().collect();
        let deadline = Some(Instant::now() + TIMEOUT);
        let parts = capture_diff_slices_deadline(Algorithm::Myers, &olds, &news, deadline);
        let parts = parts.iter().filter(|part| part.tag() != DiffTag::Equal);
        let others = parts.flat_map(|part| &news[part.new_range()]);
        moved.extend(others.filter(|id| kept.contains(*id)));
    }
    moved
}

impl<'a> TreePosition<'a> {
    fn of(document: &'a Snapshot, node: &'a Node) -> Self {
        Self {
            parent: node.parent(),
            index: document.index_in_parent(node.id()),
        }
    }
}

/// All nodes: those of the root's tree first.
fn in_order(document: &Snapshot) -> Vec<&Node> {
    let tops = document.nodes().filter(|node| node.parent().is_none());
    let mut tops: Vec<&NodeId> = tops.map(Node::id).collect();
    tops.sort_by_key(|id| (Some(*id) != document.root(), id.to_string()));
    let nodes = tops.into_iter().flat_map(|top| document.descendants(top));
    nodes.collect()
}

fn changed<'a>(
    place: Option<BeforeAfter<TreePosition<'a>>>,
    old: &'a Node,
    new: &'a Node,
) -> Option<NodeDiff<'a>> {
    let kind = BeforeAfter::of(old.kind(), new.kind());
    let text = BeforeAfter::of(old.text(), new.text()).map(|texts| BeforeAfter {
        before: texts.before.to_string(),
        after: texts.after.to_string(),
    });
    let attributes = BeforeAfter::of(old.attributes(), new.attributes());
    let marks = BeforeAfter::of(old.marks(), new.marks());
    let is_same = place.is_none()
        && kind.is_none()
        && text.is_none()
        && attributes.is_none()
        && marks.is_none();
    (!is_same).then_some(NodeDiff::Changed {
        id: new.id(),
        place,
        kind,
        text,
        attributes,
        marks,
    })
}

impl fmt::Display for NodeDiff<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (id, place, kind, text, attributes, marks) = match self {
            Self::Created { node } => return write!(f, "+ {}", line(node)),
            Self::Deleted { node } => return write!(f, "- {}", line(node)),
            Self::Changed {
                id,
                place,
                kind,
                text,
                attributes,
                marks,
            } => (id, place, kind, text, attributes, marks),
        };
        write!(f, "~ {}", printable(id))?;
        if let Some(BeforeAfter { before, after }) = place {
            write!(f, "\n    moved: {before} -> {after}")?;
        }
        if let Some(BeforeAfter { before, after }) = kind {
            write!(
                f,
                "\n    type: {} -> {}",
                printable(before),
                printable(after)
            )?;
        }
        if let Some(BeforeAfter { before, after }) = text {
            write!(f, "\n    text: {}", words(before, after))?;
        }
        if let Some(BeforeAfter { before, after }) = attributes {
            write!(f, "\n    attributes: {} -> {}", json(before), json(after))?;
        }
        if let Some(BeforeAfter { before, after }) = marks {
            write!(f, "\n    marks: {} -> {}", json(before), json(after))?;
        }
        Ok(())
    }
}

impl fmt::Display for TreePosition<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.parent, self.index) {
            (Some(parent), Some(index)) => write!(f, "{} at {index}", printable(parent)),
            _ => f.write_str("no parent"),
        }
    }
}

/// JSON has no control characters.
fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// Both texts in one, with deleted words as `[-…-]` and inserted ones as `{+…+}`.
fn words(before: &str, after: &str) -> String {
    let diff = TextDiff::configure()
        .timeout(TIMEOUT)
        .diff_words(before, after);
    let mut parts: Vec<(ChangeTag, String)> = Vec::new();
    for change in diff.iter_all_changes() {
        match parts.last_mut() {
            Some((tag, part)) if *tag == change.tag() => part.push_str(change.value()),
            _ => parts.push((change.tag(), change.value().to_owned())),
        }
    }
    let last = parts.len().saturating_sub(1);
    let parts = parts.iter().enumerate();
    let shown = parts.map(|(nth, (tag, part))| match tag {
        ChangeTag::Delete => format!("[-{}-]", escaped(part)),
        ChangeTag::Insert => format!("{{+{}+}}", escaped(part)),
        ChangeTag::Equal => escaped(&shortened(part, nth == 0, nth == last)),
    });
    shown.collect()
}

/// A text without control characters, as in a string of Rust.
fn escaped(text: &str) -> String {
    let quoted = quoted(text);
    quoted[1..quoted.len() - 1].to_owned()
}

/// The ends of an unchanged text that are next to a change.
fn shortened(text: &str, is_first: bool, is_last: bool) -> String {
    /// So many characters of each end are shown.
    const SHOWN: usize = 30;
    let chars: Vec<char> = text.chars().collect();
    if chars.len() <= 2 * SHOWN {
        return text.to_owned();
    }
    let head: String = chars[..SHOWN].iter().collect();
    let tail: String = chars[chars.len() - SHOWN..].iter().collect();
    match (is_first, is_last) {
        (true, _) => format!("…{tail}"),
        (_, true) => format!("{head}…"),
        _ => format!("{head}…{tail}"),
    }
}
