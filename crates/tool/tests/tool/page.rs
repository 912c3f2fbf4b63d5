//! The page of the guide: its commands print what it shows.

use std::process::Command;

use crate::Folder;

const PAGE: &str = include_str!("../../../../docs/guide/tool.md");

/// The fenced blocks of a language, each with the paragraph before it.
fn blocks(language: &str) -> Vec<(&'static str, &'static str)> {
    let mut parts = PAGE.split("```");
    let mut blocks = Vec::new();
    while let (Some(text), Some(block)) = (parts.next(), parts.next()) {
        let before = text.trim_end().rsplit("\n\n").next().unwrap_or_default();
        if let Some(code) = block.strip_prefix(language) {
            blocks.push((before, code.trim_start_matches('\n')));
        }
    }
    blocks
}

/// Whether a text is as shown, where `...` stands for any text.
fn is_as_shown(text: &str, shown: &str) -> bool {
    let mut parts = shown.split("...");
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else {
        return false;
    };
    for part in parts {
        let Some((_, after)) = rest.split_once(part.trim_end_matches('\n')) else {
            return false;
        };
        rest = match part.trim_end_matches('\n') {
            "" => "",
            _ => after,
        };
    }
    rest.trim_end_matches('\n').is_empty()
}

#[test]
fn the_commands_of_the_guide_print_what_it_shows() {
    let folder = Folder::new();
    for (before, script) in blocks("json") {
        let name = before.split('`').nth(1).unwrap();
        folder.write(name, script);
    }
    let sessions = blocks("console").into_iter().map(|(_, session)| session);
    let mut ran = 0;
    for command in sessions.flat_map(|session| session.split("$ ").skip(1)) {
        let (line, shown) = command.split_once('\n').unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!(words[0], "doclock");
        let mut doclock = Command::new(env!("CARGO_BIN_EXE_doclock"));
        let output = doclock
            .args(&words[1..])
            .current_dir(folder.0.path())
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(
            is_as_shown(&text, shown),
            "{line}\n{text}\n{:?}",
            output.status
        );
        ran += 1;
    }
    assert_eq!(ran, 12);
}
