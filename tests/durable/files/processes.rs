//! Files that another process has open, may not use, or cannot write. Each test starts itself again
//! as that process.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use doclock::durable::OpenError;
use doclock::{DataStore, TransactionManager, codes::CodedError, dsl::*};

use crate::{Folder, add};

const PATH: &str = "DOCLOCK_TEST_PATH";

/// The path of the document, in the process that a test has started.
fn path_of_child() -> Option<PathBuf> {
    std::env::var_os(PATH).map(PathBuf::from)
}

/// Starts a test of this module again, through another program.
fn again(test: &str, path: &Path, through: &[&str]) -> Command {
    let itself = std::env::current_exe().unwrap();
    let mut words = through.iter().map(|word| word.to_string());
    let mut command = match words.next() {
        Some(program) => Command::new(program),
        None => Command::new(&itself),
    };
    if !through.is_empty() {
        command.args(words).arg(itself);
    }
    let test = format!("files::processes::{test}");
    command.args(["--exact", &test, "--nocapture"]);
    command.env(PATH, path);
    command
}

/// The lines that a child reports.
fn lines(mut child: Command) -> Vec<String> {
    let output = child.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    text.lines().map(str::to_owned).collect()
}

/// Opens a document, and reports the code of the error.
fn report_open(path: &Path) -> Option<DataStore> {
    let opened = DataStore::open(path);
    let code = opened.as_ref().err().map_or("opened", OpenError::code);
    // The harness has begun a line.
    println!("\n{code}");
    opened.ok()
}

/// What the tests of this crate print is hidden if they pass.
fn skipped(why: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}

/// Whether another program can start the tests.
fn works(through: &[&str]) -> bool {
    let mut command = Command::new(through[0]);
    command.args(&through[1..]);
    let listed = command
        .arg(std::env::current_exe().unwrap())
        .arg("--list")
        .output();
    listed.is_ok_and(|listed| listed.status.success())
}

/// The program that starts the tests as a user to whom permissions matter: to root nothing is
/// refused. `None` if there is none.
fn as_user(directory: &Path) -> Option<&'static [&'static str]> {
    if fs::metadata(directory).unwrap().uid() != 0 {
        return Some(&[]);
    }
    let through = &[
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
    ];
    if !works(through) {
        skipped("setpriv cannot start the tests as another user");
        return None;
    }
    Some(through)
}

fn allow(path: &Path, mode: u32) -> std::io::Result<()> {
    fs::set_permissions(path, Permissions::from_mode(mode))
}

#[test]
fn durable_06_a_file_that_another_process_has_open_is_locked() {
    if let Some(path) = path_of_child() {
        let _store = report_open(&path);
        // Until the parent has seen that.
        std::io::stdin().read_line(&mut String::new()).unwrap();
        return;
    }
    let folder = Folder::new();
    let store = folder.open();
    add(&store, "a");
    store.close().unwrap();
    let name = "durable_06_a_file_that_another_process_has_open_is_locked";
    let mut child = again(name, &folder.path(), &[]);
    let mut child = child
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut lines = lines.map(|line| line.unwrap());
    assert!(lines.any(|line| line == "opened"));
    let bytes = fs::read(folder.path()).unwrap();
    assert_eq!(
        DataStore::open(folder.path()).unwrap_err(),
        OpenError::Locked
    );
    assert_eq!(fs::read(folder.path()).unwrap(), bytes);
    drop(child.stdin.take());
    lines.for_each(drop);
    assert!(child.wait().unwrap().success());
    assert_eq!(folder.open().version(), 1);
}

#[test]
fn durable_06_a_file_without_permission_is_refused_and_stays_as_it_is() {
    if let Some(path) = path_of_child() {
        report_open(&path);
        return;
    }
    let folder = Folder::new();
    let directory = folder.0.path();
    let Some(through) = as_user(directory) else {
        return;
    };
    let open = |path: &Path| {
        let name = "durable_06_a_file_without_permission_is_refused_and_stays_as_it_is";
        lines(again(name, path, through))
    };
    let store = folder.open();
    add(&store, "a");
    store.close().unwrap();
    let bytes = fs::read(folder.path()).unwrap();
    allow(directory, 0o755).unwrap();
    for mode in [0o444, 0o222, 0o000] {
        allow(&folder.path(), mode).unwrap();
        let lines = open(&folder.path());
        assert!(
            lines.iter().any(|line| line == "openNoPermission"),
            "{mode:o}: {lines:?}"
        );
        allow(&folder.path(), 0o644).unwrap();
        assert_eq!(fs::read(folder.path()).unwrap(), bytes, "{mode:o}");
    }
    // No new file, and no part of it.
    allow(directory, 0o555).unwrap();
    let lines = open(&directory.join("new"));
    assert!(
        lines.iter().any(|line| line == "openNoPermission"),
        "{lines:?}"
    );
    allow(directory, 0o755).unwrap();
    assert_eq!(fs::read_dir(directory).unwrap().count(), 1);
    assert_eq!(folder.open().version(), 1);
}

/// The whole file was left there beside the error, and the next attempt found that it exists.
#[test]
fn durable_06_in_a_folder_that_cannot_be_synced_a_failed_creation_leaves_no_file() {
    if let Some(path) = path_of_child() {
        report_open(&path);
        for _ in 0..2 {
            let error = DataStore::new().backup(&path).unwrap_err();
            println!("\n{}", error.code());
        }
        return;
    }
    let folder = Folder::new();
    let directory = folder.0.path();
    let Some(through) = as_user(directory) else {
        return;
    };
    // Files can be created there, but the folder cannot be opened.
    allow(directory, 0o333).unwrap();
    let name = "durable_06_in_a_folder_that_cannot_be_synced_a_failed_creation_leaves_no_file";
    let lines = lines(again(name, &folder.path(), through));
    allow(directory, 0o755).unwrap();
    let refused = lines.iter().filter(|line| *line == "openNoPermission");
    assert_eq!(refused.count(), 3, "{lines:?}");
    assert_eq!(fs::read_dir(directory).unwrap().count(), 0);
}

/// The shell limits the size of files, so a write fails as on a full disk.
#[test]
fn durable_06_a_file_that_cannot_grow_loses_no_acknowledged_commit() {
    if let Some(path) = path_of_child() {
        let Some(store) = report_open(&path) else {
            return;
        };
        let manager = TransactionManager::new(store.clone());
        let text = "some text ".repeat(2_000);
        for _ in 0..50 {
            match manager.execute(create(text_node("paragraph", &*text))) {
                Ok(result) => println!("version {}", result.version),
                Err(error) => return println!("{}", error.code()),
            }
        }
        return;
    }
    let open = |folder: &Folder, limit: usize| {
        let limit = format!("trap '' XFSZ; ulimit -f {limit}; exec \"$0\" \"$@\"");
        let name = "durable_06_a_file_that_cannot_grow_loses_no_acknowledged_commit";
        lines(again(name, &folder.path(), &["sh", "-c", &limit]))
    };
    let folder = Folder::new();
    // A new document does not fit.
    for limit in [0, 8, 32] {
        let lines = open(&folder, limit);
        assert!(
            lines.iter().any(|line| line == "journal"),
            "{limit}: {lines:?}"
        );
        assert_eq!(fs::read_dir(folder.0.path()).unwrap().count(), 0);
    }
    for limit in [300, 1_000, 0, 8, 100] {
        let lines = open(&folder, limit);
        let version = |line: &String| line.strip_prefix("version ")?.parse().ok();
        let acknowledged: u64 = lines.iter().filter_map(version).max().unwrap_or(0);
        let is_expected = |line: &String| ["journal", "commitUnknown"].contains(&line.as_str());
        assert!(lines.iter().any(is_expected), "{limit}: {lines:?}");
        assert!(limit < 300 || acknowledged > 0, "{limit}: {lines:?}");
        let version = folder.open().version();
        assert!(
            version >= acknowledged,
            "{limit}: version {version} of {acknowledged}"
        );
    }
}

/// What a call in a trace does with a new file or its directory.
fn effect(call: &str, directory: &str) -> Option<&'static str> {
    let is = |name: &str| call.contains(&format!("{name}("));
    let is_file = call.contains("/.doclock-");
    match () {
        () if is("linkat") || is("link") => Some("link"),
        () if is("pwrite64") || is("ftruncate") => is_file.then_some("write"),
        () if is("fdatasync") || is("fsync") => match is_file {
            true => Some("sync the file"),
            false => call.contains(directory).then_some("sync the directory"),
        },
        () => ["opened", "acknowledged", "copied"]
            .into_iter()
            .find(|mark| call.contains(&format!("{mark}\\n"))),
    }
}

/// The count of the open had a sync of its own, and each step of a copy.
#[test]
fn durable_06_a_new_file_and_its_directory_are_synced_once_before_it_is_open() {
    let name = "durable_06_a_new_file_and_its_directory_are_synced_once_before_it_is_open";
    if let Some(path) = path_of_child() {
        let store = DataStore::open(&path).unwrap();
        println!("\nopened");
        add(&store, "a");
        println!("acknowledged");
        // The file has to grow.
        let large = DataStore::new();
        add(&large, &"a".repeat(1 << 18));
        large.backup(path.with_extension("copy")).unwrap();
        println!("copied");
        return;
    }
    if !works(&["strace", "-o", "/dev/null"]) {
        return skipped("strace, which shows the order of syncs, cannot start the tests");
    }
    let folder = Folder::new();
    let trace = folder.0.path().join("trace");
    let traced = "strace -f -y -s 200 -o".split(' ');
    let traced = traced.chain([
        trace.to_str().unwrap(),
        "-e",
        "trace=link,linkat,fsync,fdatasync,ftruncate,pwrite64,write",
    ]);
    lines(again(name, &folder.path(), &traced.collect::<Vec<_>>()));
    let calls = fs::read_to_string(&trace).unwrap();
    let directory = fs::canonicalize(folder.0.path()).unwrap();
    let directory = format!("<{}>", directory.display());
    let effects = calls.lines().filter_map(|call| effect(call, &directory));
    let mut effects: Vec<&str> = effects.collect();
    effects.dedup_by(|next, last| next == last && *next == "write");
    let create = ["write", "sync the file", "link", "sync the directory"];
    let commit = ["write", "sync the file", "acknowledged"];
    let expected = [&create[..], &["opened"], &commit, &create, &["copied"]].concat();
    // The drop of the store follows.
    assert_eq!(effects[..expected.len().min(effects.len())], expected);
}
