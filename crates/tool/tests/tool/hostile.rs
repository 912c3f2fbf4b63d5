//! Files and words that no command expects: each is refused with one line and its exit code.

use std::fs;
use std::process::Stdio;

use crate::{CREATE, Ended, Folder};

/// Commands that read a durable file.
fn reading(file: &str) -> [Vec<&str>; 6] {
    [
        vec!["log", file],
        vec!["show", file],
        vec!["diff", file, "0", "1"],
        vec!["verify", file],
        vec!["compact", file],
        vec!["export", file, "--to", "out.md"],
    ]
}

pub(crate) fn noise(len: usize) -> Vec<u8> {
    let mut random = 7_u64;
    let mut byte = move || {
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1);
        (random >> 56) as u8
    };
    (0..len).map(|_| byte()).collect()
}

#[test]
fn damaged_and_foreign_files_are_refused_and_keep_every_byte() {
    let folder = Folder::new();
    folder.write("s.json", CREATE);
    folder
        .doclock(&["run", "n.doclock", "s.json"])
        .ended_with(0);
    let whole = fs::read(folder.path("n.doclock")).unwrap();
    // A flipped bit in the stored paragraph.
    let at = whole
        .windows(11)
        .position(|part| part == b"Hello world")
        .unwrap();
    let mut flipped = whole.clone();
    flipped[at] ^= 1;
    let files = [
        Vec::new(),
        noise(10),
        noise(200_000),
        [&whole[..512], &noise(whole.len() - 512)].concat(),
        whole[..1].to_vec(),
        whole[..whole.len() / 2].to_vec(),
        whole[..whole.len() - 1].to_vec(),
        flipped,
    ];
    for (nth, bytes) in files.iter().enumerate() {
        folder.write("bad.doclock", bytes);
        let run = vec!["run", "bad.doclock", "s.json"];
        for words in reading("bad.doclock").into_iter().chain([run]) {
            let reason = folder.doclock(&words).refused_with(4);
            assert!(reason.starts_with("bad.doclock: the "), "{nth}: {reason}");
            assert!(fs::read(folder.path("bad.doclock")).unwrap() == *bytes);
        }
    }
    assert!(!folder.path("out.md").exists());
}

#[test]
fn missing_files_and_folders_are_refused() {
    let folder = Folder::new();
    fs::create_dir(folder.path("folder.doclock")).unwrap();
    let salvage = vec!["salvage", "none.doclock"];
    for words in reading("none.doclock").into_iter().chain([salvage]) {
        let reason = folder.doclock(&words).refused_with(2);
        assert_eq!(reason, "none.doclock: there is no such file");
    }
    for words in reading("folder.doclock") {
        let reason = folder.doclock(&words).refused_with(2);
        assert_eq!(reason, "folder.doclock: is a folder, not a file");
    }
    folder.write("s.json", CREATE);
    folder
        .doclock(&["run", "folder.doclock", "s.json"])
        .refused_with(2);
    folder
        .doclock(&["run", "none.md", "s.json"])
        .refused_with(2);
    folder
        .doclock(&["run", "n.doclock", "folder.doclock"])
        .refused_with(2);
    folder.doclock(&["replay", "none.json"]).refused_with(2);
    folder
        .doclock(&["replay", "folder.doclock"])
        .refused_with(2);
    assert!(!folder.path("n.doclock").exists());
}

#[test]
fn bad_documents_are_refused_with_the_position() {
    let folder = Folder::new();
    folder.write("s.json", "[]");
    let refused = |name: &str, contents: &[u8]| {
        folder.write(name, contents);
        folder.doclock(&["run", name, "s.json"]).refused_with(2)
    };
    for json in ["", "{", "[]", "{\"version\": 1e400}", &"[".repeat(100_000)] {
        let reason = refused("d.json", json.as_bytes());
        assert!(
            reason.starts_with("d.json: is not a snapshot: "),
            "{reason}"
        );
        assert!(reason.contains("at line 1 column "), "{reason}");
    }
    assert_eq!(
        refused("d.md", b"a\xff"),
        "d.md: is not UTF-8 from byte 1 on"
    );
    let deep = refused("d.html", "<div>".repeat(10_000).as_bytes());
    assert!(
        deep.contains("elements nest more than 512 levels deep"),
        "{deep}"
    );
}

#[test]
fn bad_words_are_refused_in_one_line() {
    let folder = Folder::new();
    for words in [
        &[][..],
        &["frobnicate"],
        &["log"],
        &["log", "a", "b"],
        &["log", "a", "--from", "-1"],
        &["show", "a", "--version", "99999999999999999999"],
        &["show", "a", "--format", "pdf"],
        &["run", "a.md", "s.json", "--editors", "0"],
        &["run", "a.md", "s.json", "--editors", "1001"],
        &["run", "a.md"],
        &["diff", "a", "1"],
        &["completions", "tcsh"],
        &["log", "a\nb"],
        &["log", "--\u{1b}[31m"],
    ] {
        let reason = folder.doclock(words).refused_with(2);
        assert!(!reason.contains(char::is_control), "{reason}");
    }
    let reason = folder.doclock(&[]).refused_with(2);
    assert_eq!(reason, "a command is missing; see doclock --help");
}

#[cfg(unix)]
#[test]
fn a_path_that_is_not_utf_8_is_a_path_like_any_other() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    let folder = Folder::new();
    folder.write("s.json", CREATE);
    let name = OsStr::from_bytes(b"n\xff.doclock");
    let doclock = |before: &[&str], after: &[&str]| {
        let mut command = folder.command(before);
        Ended::of(command.arg(name).args(after).output().unwrap())
    };
    assert_eq!(
        doclock(&["log"], &[]).refused_with(2),
        "n\u{fffd}.doclock: there is no such file"
    );
    doclock(&["run"], &["s.json"]).ended_with(0);
    doclock(&["verify"], &[]).ended_with(0);
    assert!(folder.path(name).exists());
}

#[test]
fn a_closed_pipe_ends_a_command_quietly() {
    let folder = Folder::new();
    folder.write("s.json", CREATE);
    folder
        .doclock(&["run", "n.doclock", "s.json"])
        .ended_with(0);
    for (words, code) in [
        (&["log", "n.doclock"][..], 0),
        (&["diff", "n.doclock", "0", "1"], 1),
        (&["man"], 0),
        (&["--help"], 0),
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = folder.command(words);
        command.stdout(writer).stderr(Stdio::piped());
        let ended = Ended::of(command.spawn().unwrap().wait_with_output().unwrap());
        ended.ended_with(code);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn an_output_that_cannot_be_written_is_an_error() {
    let folder = Folder::new();
    let full = fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let mut command = folder.command(&["man"]);
    let ended = Ended::of(command.stdout(full).output().unwrap());
    assert!(ended.refused_with(5).starts_with("standard output: "));
}
