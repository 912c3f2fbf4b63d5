//! `doclock watch`: the diagnostics of a running program.

use std::io::{self, BufRead, BufReader, IsTerminal, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
#[cfg(unix)]
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use terminal_size::{Height, Width, terminal_size};

use crate::args::WatchArgs;
use crate::error::{CommandOutcome, ToolError};
use crate::{format, output};

/// The program answers within milliseconds, unless it is stopped.
const PATIENCE: Duration = Duration::from_secs(10);

/// The longest answer.
const LONGEST: u64 = 256 << 20;

/// Moves the cursor to the first cell, and clears the screen.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// An answer of the program.
#[derive(Deserialize)]
#[serde(untagged)]
enum WatchResponse {
    Picture(Box<Picture>),
    Refused { error: String },
}

#[derive(Deserialize)]
struct Picture {
    program: String,
    process: u32,
    store: Option<String>,
    table: String,
    diagnostics: Value,
}

trait ServerStream: Read + Write {}
impl<S: Read + Write> ServerStream for S {}

pub(crate) fn run(args: &WatchArgs) -> Result<CommandOutcome, ToolError> {
    let mut server = BufReader::new(connect(&args.address)?);
    let repeats = io::stdout().is_terminal() && !args.once;
    loop {
        let Some(answer) = ask(args, &mut server)? else {
            output::print("the program has ended\n")?;
            return Ok(CommandOutcome::Fine);
        };
        let picture = match serde_json::from_str(&answer) {
            Ok(WatchResponse::Picture(picture)) => picture,
            Ok(WatchResponse::Refused { error }) => {
                return Err(failed(args, format::printable(error)));
            }
            Err(_) => return Err(failed(args, "answers, but is no program of doclock")),
        };
        if args.json {
            output::print_json(&picture.diagnostics)?;
        } else {
            let text = TerminalText(&picture).to_string();
            let size = terminal_size().filter(|_| repeats);
            let text = match size {
                Some((Width(columns), Height(rows))) => fit(&text, rows.into(), columns.into()),
                None => text,
            };
            let clear = if repeats { CLEAR } else { "" };
            output::print(&format!("{clear}{text}"))?;
        }
        if !repeats {
            return Ok(CommandOutcome::Fine);
        }
        thread::sleep(Duration::from_millis(args.interval));
    }
}

/// Requests a picture. `None` if the program has ended.
fn ask(
    args: &WatchArgs,
    server: &mut BufReader<Box<dyn ServerStream>>,
) -> Result<Option<String>, ToolError> {
    let mut answer = Vec::new();
    let asked = server.get_mut().write_all(b"diagnostics\n");
    let read = asked.and_then(|()| server.take(LONGEST).read_until(b'\n', &mut answer));
    match read {
        Ok(0) => Ok(None),
        Ok(_) => Ok(Some(String::from_utf8_lossy(&answer).into_owned())),
        Err(error) => match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Ok(None),
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                let patience = PATIENCE.as_secs();
                Err(failed(
                    args,
                    format_args!("does not answer within {patience} s"),
                ))
            }
            _ => Err(failed(args, error)),
        },
    }
}

/// Connects to a port of this machine, or to a Unix socket.
fn connect(address: &str) -> Result<Box<dyn ServerStream>, ToolError> {
    let refused = |error: io::Error| ToolError::Server {
        address: address.to_owned(),
        reason: format!("no program answers: {error}"),
    };
    if let Some(address) = loopback(address)? {
        let stream = TcpStream::connect_timeout(&address, PATIENCE).map_err(refused)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(refused)?;
        stream.set_write_timeout(Some(PATIENCE)).map_err(refused)?;
        return Ok(Box::new(stream));
    }
    #[cfg(unix)]
    {
        let stream = UnixStream::connect(address).map_err(refused)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(refused)?;
        stream.set_write_timeout(Some(PATIENCE)).map_err(refused)?;
        Ok(Box::new(stream))
    }
    #[cfg(not(unix))]
    Err(ToolError::Usage(format!(
        "{address} is no port of this machine"
    )))
}

/// The address of a port, `127.0.0.1:PORT` or `PORT`. `None` for a path.
fn loopback(address: &str) -> Result<Option<SocketAddr>, ToolError> {
    if let Ok(port) = address.parse::<u16>() {
        return Ok(Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)));
    }
    let named = address
        .strip_prefix("localhost:")
        .map(|port| format!("127.0.0.1:{port}"));
    match named.as_deref().unwrap_or(address).parse::<SocketAddr>() {
        Ok(found) if found.ip().is_loopback() => Ok(Some(found)),
        Ok(_) => Err(ToolError::Usage(format!(
            "{address} is another machine: a program shows its diagnostics on its own machine only"
        ))),
        Err(_) => Ok(None),
    }
}

fn failed(args: &WatchArgs, reason: impl ToString) -> ToolError {
    ToolError::Server {
        address: args.address.clone(),
        reason: reason.to_string(),
    }
}

/// Cuts a text at its bottom so that a terminal of this size shows its first lines, among them the
/// holder of the lock. The last line says how many are missing.
fn fit(text: &str, rows: usize, columns: usize) -> String {
    // The cursor is in a row of its own, behind the text.
    let mut left = rows.saturating_sub(1);
    let lines: Vec<_> = text.lines().collect();
    let needed = |line: &&str| width(line).div_ceil(columns.max(1)).max(1);
    if lines.iter().map(needed).sum::<usize>() <= left {
        return text.to_owned();
    }
    left = left.saturating_sub(1);
    let fits = lines.iter().take_while(|line| {
        let rest = left.checked_sub(needed(line));
        left = rest.unwrap_or_default();
        rest.is_some()
    });
    let shown = fits.count();
    let missing = lines.len() - shown;
    let noun = if missing == 1 { "line" } else { "lines" };
    let mut shown = lines[..shown].join("\n");
    if !shown.is_empty() {
        shown.push('\n');
    }
    shown + &format!("… {missing} more {noun}\n")
}

/// How many columns a text takes at most. Wide characters are among those from U+1100 on.
fn width(text: &str) -> usize {
    let columns = text.chars().map(|character| match character {
        ..'\u{1100}' | '‐'..='…' => 1,
        _ => 2,
    });
    columns.sum()
}

/// A picture as text for a terminal.
struct TerminalText<'a>(&'a Picture);

impl std::fmt::Display for TerminalText<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Picture {
            program,
            process,
            store,
            table,
            ..
        } = self.0;
        let program = format::printable(program);
        write!(f, "{program}, process {process}")?;
        if let Some(store) = store {
            write!(f, ", store {}", format::printable(store))?;
        }
        writeln!(f)?;
        table
            .lines()
            .try_for_each(|line| writeln!(f, "{}", format::printable(line)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "program\nLOCK\n  holds\n  1.\n  2.\nCOUNTERS\n";

    #[test]
    fn a_picture_that_is_too_tall_is_cut_at_its_bottom_and_says_how_much_is_missing() {
        assert_eq!(fit(TEXT, 7, 100), TEXT);
        assert_eq!(
            fit(TEXT, 6, 100),
            "program\nLOCK\n  holds\n  1.\n… 2 more lines\n"
        );
        assert_eq!(
            fit(TEXT, 5, 100),
            "program\nLOCK\n  holds\n… 3 more lines\n"
        );
        assert_eq!(fit(TEXT, 0, 0), "… 6 more lines\n");
    }

    #[test]
    fn a_line_that_a_narrow_terminal_wraps_counts_as_several() {
        let text = format!("{}\nholds\n文文文\nlast\n", "a".repeat(10));
        assert_eq!(fit(&text, 5, 10), text);
        // The first line and the wide one take two rows each.
        assert_eq!(fit(&text, 7, 5), text);
        assert_eq!(
            fit(&text, 6, 5),
            format!("{}\nholds\n… 2 more lines\n", "a".repeat(10))
        );
    }

    #[test]
    fn the_cut_picture_fits_into_each_terminal() {
        for rows in 2..12 {
            for columns in 1..120 {
                let shown = fit(TEXT, rows, columns);
                let rows_of = |line: &str| width(line).div_ceil(columns).max(1);
                let (last, first) = (
                    shown.lines().next_back().unwrap(),
                    shown.lines().rev().skip(1),
                );
                // The last line of a terminal that is too narrow for it is wrapped.
                let used = first.map(rows_of).sum::<usize>() + 1;
                assert!(
                    used < rows || columns < width(last),
                    "{rows} {columns}: {shown}"
                );
                assert!(TEXT.starts_with(shown.strip_suffix(&format!("{last}\n")).unwrap()));
            }
        }
    }
}
