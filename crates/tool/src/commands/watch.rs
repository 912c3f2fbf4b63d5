//! `doclock watch`: the diagnostics of a running program.

use std::io::{self, BufRead, BufReader, IsTerminal, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
#[cfg(unix)]
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

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
            let clear = if repeats { CLEAR } else { "" };
            output::print(&format!("{clear}{}", TerminalText(&picture)))?;
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
