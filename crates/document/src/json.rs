//! Positions and messages of errors in JSON texts.

/// The offset of an error that serde_json found. It counts lines and, within them, bytes, both from
/// one; zero stands for no position, or for the end of a text whose last line is empty.
pub fn offset(text: &str, error: &serde_json::Error) -> usize {
    let Some(lines_before) = error.line().checked_sub(1) else {
        return 0;
    };
    let lines = text.split_inclusive('\n').take(lines_before);
    let line_start: usize = lines.map(str::len).sum();
    (line_start + error.column().saturating_sub(1)).min(text.len())
}

/// The message without the position that serde_json appends.
pub fn reason(error: &serde_json::Error) -> String {
    let message = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    match message.strip_suffix(&place) {
        Some(message) => message.to_owned(),
        None => message,
    }
}

/// Line and column of a byte offset in a text. Both are counted from one, columns in characters.
pub fn line_and_column(text: &str, at: usize) -> (usize, usize) {
    let before = &text[..text.floor_char_boundary(at)];
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let line = before.matches('\n').count() + 1;
    (line, before[line_start..].chars().count() + 1)
}
