//! Every public error of a package as data: its code and evidence, compared with the page.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use doclock::codes::{CodedError, ErrorResponse, Retry};
use doclock_locks::codes::{Coded, Kind, camel_case};
use serde_json::{Map, Value};

use super::{ERRORS, FOLDERS, own_part, samples};

const PAGE: &str = include_str!("../../docs/errors.md");

/// One error for each line of its type.
pub(crate) struct Sample {
    pub(crate) error: &'static str,
    kinds: &'static [Option<Kind>],
    code: &'static str,
    retry: Retry,
    status: u16,
    message: String,
    json: Map<String, Value>,
    /// What a server answers.
    response: ErrorResponse,
}

/// One error for each line of a type, with its expected code. The functions below are tables, one
/// row for each.
pub(crate) fn samples_of<E: Coded + CodedError>(
    errors: impl IntoIterator<Item = (&'static str, E)>,
) -> Vec<Sample> {
    let samples: Vec<Sample> = errors
        .into_iter()
        .map(|(expected, error)| {
            let code = error.code();
            assert_eq!(code, expected, "the code of {} changed: {error}", E::NAME);
            let Ok(Value::Object(json)) = serde_json::to_value(&error) else {
                panic!("{error} is not an object in JSON");
            };
            Sample {
                error: E::NAME,
                kinds: E::KINDS,
                code,
                retry: error.retry(),
                status: error.http_status(),
                message: error.to_string(),
                json,
                response: error.into(),
            }
        })
        .collect();
    assert_eq!(samples.len(), E::KINDS.len(), "variants of {}", E::NAME);
    samples
}

/// The name of a type without its parameters.
pub(crate) fn bare(name: &str) -> String {
    name.split('<').next().unwrap_or_default().trim().to_owned()
}

fn names(evidence: &[&str]) -> BTreeSet<String> {
    evidence.iter().map(|name| camel_case(name)).collect()
}

#[test]
fn every_error_has_its_code_its_text_and_its_evidence_in_json() {
    for Sample {
        error,
        kinds,
        code,
        message,
        mut json,
        ..
    } in samples()
    {
        assert_eq!(json.remove("code"), Some(code.into()), "{error}");
        assert_eq!(json.remove("message"), Some(message.into()), "{error}");
        let own = kinds.iter().flatten().find(|kind| kind.code == code);
        let Some(kind) = own else {
            // It has the code of its inner error, which has its own sample.
            continue;
        };
        let found: BTreeSet<String> = json.keys().cloned().collect();
        assert_eq!(found, names(kind.evidence), "{error}: {code}");
        if let Some(cause) = json.get("cause") {
            assert!(cause["code"].is_string() && cause["message"].is_string());
        }
    }
}

#[test]
fn the_response_to_every_error_has_its_status_its_json_and_its_verdict() {
    for Sample {
        error,
        retry,
        status,
        mut json,
        response,
        ..
    } in samples()
    {
        let verdict = serde_json::to_value(retry).unwrap();
        assert_eq!(json.insert("retry".to_owned(), verdict), None, "{error}");
        assert_eq!(response.body, Value::Object(json), "{error}");
        assert_eq!(response.status, status, "{error}");
        assert_eq!(serde_json::to_value(&response).unwrap(), response.body);
    }
}

#[test]
fn every_code_of_every_error_has_a_sample() {
    let mut sampled: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut lines: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for sample in samples() {
        let own = sample.kinds.iter().flatten().map(|kind| kind.code);
        lines.entry(sample.error).or_default().extend(own);
        let codes = sampled.entry(sample.error).or_default();
        codes.insert(sample.code);
    }
    for (error, codes) in lines {
        let missing: Vec<_> = codes.difference(&sampled[error]).collect();
        assert!(missing.is_empty(), "{error}: {missing:?}");
    }
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
}

/// A new error without a code would have neither a JSON form nor a row in the page.
#[test]
fn every_type_that_is_an_error_has_codes() {
    let mut files = Vec::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for folder in FOLDERS {
        sources(&root.join(folder), &mut files);
    }
    let mut errors = BTreeSet::new();
    for file in files {
        let source = fs::read_to_string(file).unwrap();
        let mut derived = false;
        for line in source.lines() {
            derived |= line.contains("thiserror::Error)]");
            // It becomes an error of the store before a program sees it.
            derived &= line != "#[doc(hidden)]";
            let item = ["pub enum ", "pub struct "]
                .iter()
                .find_map(|item| line.strip_prefix(item));
            let by_hand = line.strip_prefix("impl std::error::Error for ");
            if let Some(name) = by_hand.or(item.filter(|_| derived)) {
                derived = false;
                errors.insert(bare(name.trim_end_matches(" {}").trim_end_matches(" {")));
            }
        }
    }
    let coded: BTreeSet<String> = samples().iter().map(|sample| bare(sample.error)).collect();
    let missing: Vec<_> = errors.difference(&coded).collect();
    assert!(errors.len() >= ERRORS && missing.is_empty(), "{missing:?}");
}

/// The row of a code on the page.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    evidence: BTreeSet<String>,
    /// `no`, `now`, `later` or `if`.
    retry: String,
    /// `None` if it is that of the cause.
    status: Option<u16>,
}

impl Row {
    /// What the line of an error says.
    fn of(kind: &Kind) -> Self {
        let retry = match kind.retry {
            [] => "no",
            ["true"] => "now",
            ["Retry::Later"] => "later",
            _ => "if",
        };
        let status = match kind.status {
            [] => Some(match retry {
                "no" => 422,
                "now" => 409,
                "later" => 503,
                _ => panic!("the status of {} depends on its verdict", kind.code),
            }),
            [status] => status.parse().ok(),
            _ => unreachable!("a line has one status"),
        };
        Self {
            evidence: names(kind.evidence),
            retry: retry.to_owned(),
            status,
        }
    }
}

/// The words of a cell that are code.
fn quoted(cell: &str) -> impl Iterator<Item = String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned)
}

/// The codes of a part of the page with the errors in its headings, and the rows by code.
fn rows_of(part: &str) -> (BTreeSet<(String, String)>, BTreeMap<String, Row>) {
    let mut headed: Vec<String> = Vec::new();
    let (mut codes, mut rows) = (BTreeSet::new(), BTreeMap::new());
    for line in part.lines() {
        if line.starts_with("## ") || line.starts_with("### ") {
            headed = quoted(line).collect();
        }
        let Some(cells) = line.strip_prefix("| `") else {
            continue;
        };
        let cells: Vec<&str> = cells.split('|').map(str::trim).collect();
        let [code, _, evidence, retry, status, _] = cells[..] else {
            panic!("{line}");
        };
        let code = code.trim_end_matches('`').to_owned();
        codes.extend(headed.iter().map(|error| (error.clone(), code.clone())));
        let retry = retry.split([' ', ':']).next().unwrap_or_default();
        let row = Row {
            evidence: quoted(evidence).collect(),
            retry: retry.to_owned(),
            status: match status {
                "that of `cause`" => None,
                status => Some(status.parse().unwrap_or_else(|_| panic!("{line}"))),
            },
        };
        assert!(rows.insert(code, row).is_none(), "twice: {line}");
    }
    (codes, rows)
}

#[test]
fn the_page_of_errors_has_every_code_with_its_evidence_its_verdict_and_its_status() {
    let (headed, rows) = rows_of(own_part(PAGE));
    let mut expected = BTreeMap::new();
    for sample in samples() {
        for kind in sample.kinds.iter().flatten() {
            let error = (bare(sample.error), kind.code.to_owned());
            assert!(
                headed.contains(&error),
                "not in a section of its own: {error:?}"
            );
            // A code has one meaning and one form in all errors.
            if let Some(before) = expected.insert(kind.code.to_owned(), Row::of(kind)) {
                assert_eq!(expected[kind.code], before, "{}", kind.code);
            }
        }
    }
    for (code, row) in &expected {
        assert_eq!(rows.get(code), Some(row), "{code}");
    }
    let unknown: Vec<_> = rows
        .keys()
        .filter(|code| !expected.contains_key(*code))
        .collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

/// The trait returns what the page says, for every sample of every error.
#[test]
fn every_error_has_the_verdict_and_the_status_of_its_row() {
    let (_, rows) = rows_of(PAGE);
    for sample in samples() {
        let (error, code) = (sample.error, sample.code);
        let row = &rows[code];
        let expected = match row.retry.as_str() {
            "no" => Retry::No,
            "later" => Retry::Later,
            "now" => Retry::Now,
            // The error of the sample is one of the program.
            _ if ["codeFailed", "openerFailed"].contains(&code) => Retry::No,
            // The other samples can be repeated wherever their kind can be.
            _ => Retry::Now,
        };
        assert_eq!(sample.retry, expected, "{error}: {code}");
        let of_cause = || rows[sample.json["cause"]["code"].as_str().unwrap()].status;
        let status = row.status.or_else(of_cause);
        assert_eq!(Some(sample.status), status, "{error}: {code}");
    }
}
