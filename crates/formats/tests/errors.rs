//! A sample of every error of the formats.

#[path = "../../../tests/common/errors.rs"]
mod page;

use doclock::codes::{CodedError, Retry};
use doclock::document::{EditError, NodeSpec};
use doclock::schema::SchemaViolation;
use doclock_formats::html::HtmlError;
use doclock_formats::markdown::{MarkdownMark, MarkdownNames, MarkdownOptions};
use doclock_formats::prosemirror::{
    ProseMirrorContent, ProseMirrorError, ProseMirrorNames, StepError,
};
use page::{Sample, samples_of};

/// The folders with the errors.
const FOLDERS: &[&str] = &["src"];

/// At least so many types are errors.
const ERRORS: usize = 5;

/// The part of the page about them.
fn own_part(page: &str) -> &str {
    let (_, own) = page.split_once("\n## Formats\n").unwrap();
    own
}

fn violation() -> SchemaViolation {
    SchemaViolation::UnknownType {
        id: "a".into(),
        kind: "x".into(),
    }
}

#[rustfmt::skip]
fn samples() -> Vec<Sample> {
    let outdated = EditError::Outdated { id: "a".into(), version: 2 };
    let mut all = Vec::new();
    let names = MarkdownNames::new().mark(MarkdownMark::Link, "image");
    all.extend(samples_of([("markdownNameAmbiguous", MarkdownOptions::new().names(names).unwrap_err())]));
    all.extend(samples_of([
        ("htmlTooDeep", HtmlError::TooDeep { line: 3, limit: 512 }),
        ("htmlTooLarge", HtmlError::TooLarge { line: 3 }),
    ]));
    let path = || "content[2]".to_owned();
    let cause = NodeSpec::from_json("{").unwrap_err();
    all.extend(samples_of([
        ("proseMirrorJson", ProseMirrorError::Json { path: path(), cause }),
        ("proseMirrorText", ProseMirrorError::Text { path: path(), kind: "text".to_owned(), reason: "has no text" }),
        ("proseMirrorStepType", ProseMirrorError::StepType { step_type: "attr".to_owned() }),
        ("proseMirrorDropped", ProseMirrorError::Dropped { dropped: Vec::new() }),
        ("proseMirrorSlice", ProseMirrorError::Slice { reason: "is open deeper than it nests" }),
        ("proseMirrorSchema", ProseMirrorError::Schema { path: path(), cause: violation() }),
    ]));
    let names = ProseMirrorNames::tiptap;
    let blocks = ProseMirrorContent::Blocks;
    all.extend(samples_of([
        ("proseMirrorNamesAmbiguous", names().node_within("check", "list-item", blocks, "taskList").unwrap_err()),
        ("proseMirrorNamesIncomplete", names().node_where("head", "cell", blocks, [("header", true.into())]).unwrap_err()),
        ("proseMirrorNamesDefinition", names().node_within("x", "x", ProseMirrorContent::Break, "doc").unwrap_err()),
        ("proseMirrorNamesSchema", names().text("").schema().unwrap_err()),
    ]));
    let position = 7;
    all.extend(samples_of([
        ("stepOutOfRange", StepError::OutOfRange { position, size: 6 }),
        ("stepMisfit", StepError::Misfit { position, reason: "it would overwrite content" }),
        ("stepJoin", StepError::Join { position, left: "paragraph".to_owned(), right: "list".to_owned() }),
        ("stepSchema", StepError::Schema { position, cause: violation() }),
        ("stepShape", StepError::Shape { id: "a".into(), reason: "it is no plain text" }),
        ("stepEdit", StepError::Edit { position, cause: outdated }),
    ]));
    all
}

/// doclock does not know the errors of the formats.
#[test]
fn a_boxed_error_has_the_values_of_the_error_of_doclock_in_it() {
    let of = |error: StepError| {
        let error: Box<dyn std::error::Error + Send + Sync> = error.into();
        (error.code(), error.retry(), error.http_status())
    };
    let cause = EditError::Outdated {
        id: "a".into(),
        version: 2,
    };
    let (position, reason) = (7, "it would overwrite content");
    let edit = StepError::Edit { position, cause };
    assert_eq!(edit.code(), "stepEdit");
    assert_eq!(of(edit), ("nodeOutdated", Retry::Now, 409));
    let misfit = StepError::Misfit { position, reason };
    assert_eq!(of(misfit), ("other", Retry::No, 500));
}
