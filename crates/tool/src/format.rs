//! Documents as text, Markdown, HTML and JSON.

use std::ffi::OsStr;
use std::fmt::Write;
use std::path::Path;

use doclock::document::Node;
use doclock::{NodeId, Snapshot, View};
use doclock_formats::html::{MarkdownOptions, to_html};
use doclock_formats::markdown::to_markdown;

use crate::args::Form;
use crate::error::ToolError;
use crate::output;

/// The form of a file that is written, by its name.
pub(crate) fn of_file(path: &Path) -> Result<Form, ToolError> {
    match path.extension().and_then(OsStr::to_str) {
        Some("md") => Ok(Form::Markdown),
        Some("html") => Ok(Form::Html),
        Some("json") => Ok(Form::Json),
        _ => Err(ToolError::input(
            path,
            "the name must end in .md, .html or .json",
        )),
    }
}

/// Writes a document to a file, in the form that its name says.
pub(crate) fn write_file(path: &Path, document: &Snapshot) -> Result<(), ToolError> {
    let text = written(document, of_file(path)?, path)?;
    output::write_file(path, text.as_bytes())
}

/// A document in a form. Errors name the path.
pub(crate) fn written(document: &Snapshot, form: Form, path: &Path) -> Result<String, ToolError> {
    let failed = |reason: String| ToolError::input(path, reason);
    let root = || {
        let reason = "the document has no root, which this form needs: use the form json or text";
        document.root().ok_or_else(|| failed(reason.to_owned()))
    };
    match form {
        Form::Text => Ok(outline(document)),
        Form::Markdown => to_markdown(document, root()?).map_err(|error| failed(error.to_string())),
        Form::Html => {
            let html = to_html(document, root()?, &MarkdownOptions::new());
            let (html, _) = html.map_err(|error| failed(error.to_string()))?;
            Ok(html)
        }
        Form::Json => {
            let json = serde_json::to_string(document);
            Ok(json.map_err(|error| failed(error.to_string()))? + "\n")
        }
    }
}

/// One line for each node, the root's tree first.
fn outline(document: &Snapshot) -> String {
    let nodes = count(document.len(), "node");
    let mut text = format!("version {}, {nodes}\n", document.version());
    let detached = document.nodes().filter(|node| node.parent().is_none());
    let detached = detached.filter(|node| Some(node.id()) != document.root());
    let mut detached: Vec<&NodeId> = detached.map(Node::id).collect();
    detached.sort_by_key(|id| id.to_string());
    let mut ahead: Vec<(&NodeId, usize)> = detached.iter().rev().map(|id| (*id, 0)).collect();
    ahead.extend(document.root().map(|root| (root, 0)));
    while let Some((id, depth)) = ahead.pop() {
        let Some(node) = document.node(id) else {
            continue;
        };
        let _ = write!(text, "{:1$}{2}", "", 2 * depth, line(node));
        if depth == 0 && document.root() != Some(id) {
            text.push_str(" (detached)");
        }
        text.push('\n');
        let children: Vec<&NodeId> = node.children().iter().collect();
        ahead.extend(children.into_iter().rev().map(|child| (child, depth + 1)));
    }
    text
}

/// A node in one line: type, id, attributes, text, marks.
pub(crate) fn line(node: &Node) -> String {
    let mut line = format!("{} {}", printable(node.kind()), printable(node.id()));
    for (key, value) in node.attributes().iter() {
        let _ = write!(line, " {}={}", printable(key), printable(value));
    }
    if !node.text().is_empty() {
        let _ = write!(line, " {}", quoted(&node.text().to_string()));
    }
    let marks = node.marks().iter();
    let marks: Vec<String> = marks
        .map(|mark| match &mark.range {
            Some(range) => format!("{} {}..{}", printable(&mark.kind), range.start, range.end),
            None => printable(&mark.kind),
        })
        .collect();
    if !marks.is_empty() {
        let _ = write!(line, " [{}]", marks.join(", "));
    }
    line
}

/// A number with its noun.
pub(crate) fn count(number: impl TryInto<u64> + Copy + ToString, noun: &str) -> String {
    match number.try_into() {
        Ok(1) => format!("1 {noun}"),
        _ => format!("{} {noun}s", number.to_string()),
    }
}

/// A text in quotation marks, without control characters.
pub(crate) fn quoted(text: &str) -> String {
    format!("{text:?}")
}

/// A name without control characters, which could change what a terminal shows.
pub(crate) fn printable(text: impl ToString) -> String {
    text.to_string().replace(char::is_control, "\u{fffd}")
}
