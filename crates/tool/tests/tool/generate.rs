//! `doclock completions` and `doclock man`.

use std::fs;

use crate::Folder;

const COMMANDS: [&str; 13] = [
    "run",
    "replay",
    "log",
    "show",
    "diff",
    "verify",
    "salvage",
    "compact",
    "export",
    "timeline",
    "watch",
    "completions",
    "man",
];

#[test]
fn the_completions_of_each_shell_name_each_command() {
    let folder = Folder::new();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = folder.doclock(&["completions", shell]).ended_with(0).stdout;
        for command in COMMANDS {
            assert!(script.contains(command), "{shell}: {command}");
        }
        assert!(script.contains("allow-readers"), "{shell}");
    }
}

#[test]
fn the_man_page_names_each_command_and_each_exit_code() {
    let folder = Folder::new();
    let page = folder.doclock(&["man"]).ended_with(0).stdout;
    for command in COMMANDS {
        assert!(
            page.contains(&format!("doclock\\-{command}(1)")),
            "{command}"
        );
    }
    let (_, codes) = page.split_once(".SH \"EXIT STATUS\"\n").unwrap();
    for code in 0..=5 {
        assert!(codes.contains(&format!("\\fB{code}\\fR\n")), "{code}");
    }
    folder
        .doclock(&["man", "--out", "pages/man1"])
        .ended_with(0);
    for command in COMMANDS {
        let path = folder.path(format!("pages/man1/doclock-{command}.1"));
        let page = fs::read_to_string(path).unwrap();
        assert!(page.contains(".SH \"EXIT STATUS\"\n"), "{command}");
    }
    let whole = fs::read_to_string(folder.path("pages/man1/doclock.1")).unwrap();
    assert_eq!(whole, page);
    let pages = fs::read_dir(folder.path("pages/man1")).unwrap();
    assert_eq!(pages.count(), COMMANDS.len() + 1);
}

#[test]
fn the_help_of_each_command_names_each_exit_code() {
    let folder = Folder::new();
    for command in COMMANDS {
        let help = folder.doclock(&[command, "--help"]).ended_with(0).stdout;
        for code in 0..=5 {
            assert!(help.contains(&format!("\n  {code}  ")), "{command}: {help}");
        }
    }
    let version = folder.doclock(&["--version"]).ended_with(0).stdout;
    assert_eq!(
        version,
        concat!("doclock ", env!("CARGO_PKG_VERSION"), "\n")
    );
}
