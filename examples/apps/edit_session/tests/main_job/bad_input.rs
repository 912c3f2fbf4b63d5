//! Invalid input of the example `edit_session`: exit code 2 and one line with the reason.

use std::fs::{self, File};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{MARKDOWN, PROGRAM, file, gzipped, history, run, stderr, stdout};

/// Asserts exit code 2, one line with this reason, and nothing on standard output.
pub(super) fn assert_refused(arguments: &[&str], reason: &str) {
    let output = run(arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
    assert_eq!(stdout(&output), "", "{arguments:?}");
    let line = stderr(&output);
    assert_eq!(line.lines().count(), 1, "{arguments:?}: {line}");
    assert!(
        line.starts_with("edit_session: ") && line.ends_with('\n'),
        "{line}"
    );
    assert!(line.contains(reason), "{arguments:?}: {line}");
}

#[test]
fn bad_arguments_are_refused() {
    let file = file("arguments.md", MARKDOWN);
    let file = file.as_str();
    let cases: &[(&[&str], &str)] = &[
        (&["--editors", "0"], "--editors takes a number from 1"),
        (&["--editors", "-3"], "--editors takes a number from 1"),
        (&["--editors", "many"], "not `many`"),
        (&["--editors", "99999999999999999999"], "--editors takes"),
        (&["--editors"], "--editors"),
        (&["--transactions", "1.5"], "--transactions takes a number"),
        (
            &["--transactions", "10000001"],
            "--transactions takes a number",
        ),
        (&["--seed", "x"], "--seed takes a number"),
        (&["--json=yes"], "--json"),
        (&["--unknown"], "'--unknown'"),
        (&["-x"], "'-x'"),
        (&["--bad\nline"], "bad line"),
        (&[file, file], "more than one file"),
        (&["--trace"], "--trace"),
        (&["--trace", "a", "--trace", "b"], "more than one --trace"),
        (
            &["--transactions", "1", "--transactions", "2"],
            "more than one --transactions",
        ),
        (
            &["--editors", "1", "--editors=1"],
            "more than one --editors",
        ),
        (&["--seed", "1", "--seed", "1"], "more than one --seed"),
        (&["--json", "--json"], "more than one --json"),
        (&[file, "--trace", "a.json"], "not both"),
        (&["--trace", "a.json", "--seed", "1"], "--seed"),
        (
            &["--trace", "a.json", "--transactions", "1"],
            "--transactions",
        ),
    ];
    for (arguments, reason) in cases {
        assert_refused(arguments, reason);
    }
}

#[test]
fn bad_files_are_refused() {
    let missing = file("missing.md", "");
    fs::remove_file(&missing).unwrap();
    let cases = [
        (missing.clone(), "missing.md: there is no such file"),
        (
            env!("CARGO_TARGET_TMPDIR").to_owned(),
            "is a folder, not a file",
        ),
        (file("empty.md", ""), "empty.md: the file is empty"),
        (file("blank.md", " \n\t\n"), "nothing but blanks"),
        (file("bytes.md", b"ok\xFF\xFE"), "is not UTF-8 from byte 2"),
        (format!("{missing}\nno line"), "there is no such file"),
    ];
    for (file, reason) in &cases {
        assert_refused(&[file], reason);
        assert_refused(&["--json", file], reason);
    }
    let beneath = format!("{}/more", file("beneath.md", "a file"));
    assert_refused(&[&beneath], "beneath.md");
}

/// The reason could not be printed, so the program panicked and exited with 101.
#[cfg(target_os = "linux")]
#[test]
fn bad_input_exits_with_2_even_if_output_fails() {
    let full = || File::options().write(true).open("/dev/full").unwrap();
    let status = |arguments: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command.args(arguments).stderr(full()).stdout(full());
        command.status().unwrap().code()
    };
    assert_eq!(status(&["no such file.md"]), Some(2));
    assert_eq!(status(&["--unknown"]), Some(2));
    assert_eq!(status(&["--help"]), Some(1));
}

/// Like [`assert_refused`], for a program that would otherwise not end.
#[cfg(unix)]
fn assert_refused_soon(arguments: &[&str], reason: &str) {
    let mut command = Command::new(PROGRAM);
    command
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let began = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if began.elapsed() > Duration::from_secs(60) {
            child.kill().unwrap();
            panic!("{arguments:?}: it does not end");
        }
        thread::sleep(Duration::from_millis(10));
    }
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
    assert!(
        stderr(&output).contains(reason),
        "{arguments:?}: {output:?}"
    );
}

/// The program waited for a pipe without a writer, and read a device until memory was exhausted.
#[cfg(unix)]
#[test]
fn a_file_that_is_not_regular_is_refused_unopened() {
    let pipe = file("pipe.md", "");
    fs::remove_file(&pipe).unwrap();
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    for file in [pipe.as_str(), "/dev/zero"] {
        assert_refused_soon(&[file], "is no regular file");
        assert_refused_soon(&["--trace", file], "is no regular file");
    }
    fs::remove_file(&pipe).unwrap();
}

/// A small file was decompressed completely to a large one.
#[test]
fn files_are_read_up_to_a_limit_packed_and_unpacked() {
    let large = |name: &str, mebibytes: u64| {
        let path = file(name, "");
        let file = File::options().write(true).open(&path).unwrap();
        file.set_len((mebibytes << 20) + 1).unwrap();
        path
    };
    assert_refused(&[&large("large.md", 8)], "large.md: has more than 8 MiB");
    assert_refused(
        &["--trace", &large("large.json", 64)],
        "large.json: has more than 64 MiB",
    );
    let mebibyte = gzipped(&vec![b' '; 1 << 20]);
    let bomb = file("bomb.json.gz", mebibyte.repeat(65));
    assert!(fs::metadata(&bomb).unwrap().len() < 1 << 20);
    assert_refused(
        &["--trace", &bomb],
        "bomb.json.gz: unpacks to more than 64 MiB",
    );
    let mut history = history();
    history["startContent"] = "x".repeat(2 << 20).into();
    let wide = file("wide.json", history.to_string());
    assert_refused(
        &["--trace", &wide, "--editors", "600"],
        "600 editors have 600 texts of 2097152 bytes, more than 1024 MiB",
    );
}

#[test]
fn bad_traces_are_refused() {
    let missing = file("missing.json", "");
    fs::remove_file(&missing).unwrap();
    let sound = history();
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut history = sound.clone();
        change(&mut history);
        history.to_string()
    };
    let first_patch =
        |patch: Value| changed(&|history| history["txns"][0]["patches"][0] = patch.clone());
    let packed = gzipped(sound.to_string().as_bytes());
    let cases = [
        (missing, "there is no such file"),
        (
            env!("CARGO_TARGET_TMPDIR").to_owned(),
            "is a folder, not a file",
        ),
        (file("empty.json", ""), "the file is empty"),
        (file("empty.json.gz", ""), "the file is empty"),
        (
            file("plain.json.gz", sound.to_string()),
            "not sound gzip data",
        ),
        (
            file("half.json.gz", &packed[..packed.len() / 2]),
            "not sound gzip data",
        ),
        (
            file(
                "sum.json.gz",
                [&packed[..packed.len() - 8], &[0; 8]].concat(),
            ),
            "not sound gzip data",
        ),
        (file("packed.json", &packed), "is not a trace"),
        (file("list.json", "[1, 2"), "is not a trace"),
        (
            file("half.json", &sound.to_string()[..90]),
            "is not a trace",
        ),
        (
            file("bytes.json", b"{\"endContent\": \"\xFF\"}"),
            "is not a trace",
        ),
        (
            file("shape.json", "{\"txns\": []}"),
            "missing field `endContent`",
        ),
        (
            file("start.json", "{\"endContent\": \"\", \"txns\": []}"),
            "missing field `startContent`",
        ),
        (
            file("negative.json", first_patch(json!([-1, 0, "x"]))),
            "is not a trace",
        ),
        (
            file("short.json", first_patch(json!([0, 0]))),
            "is not a trace",
        ),
        (
            file("range.json", first_patch(json!([4, 2, "x"]))),
            "transaction 0 replaces 2 characters at 4 of a text that has 5",
        ),
        (
            file("overflow.json", first_patch(json!([u64::MAX, 2, "x"]))),
            "transaction 0 replaces 2 characters",
        ),
        (
            file(
                "concurrent.json",
                changed(&|history| history["txns"][1]["parents"] = json!([0])),
            ),
            "concurrent",
        ),
        (
            file(
                "agent.json",
                changed(&|history| history["txns"][0]["agent"] = json!(0)),
            ),
            "concurrent",
        ),
    ];
    for (trace, reason) in &cases {
        assert_refused(&["--trace", trace], reason);
    }
}
