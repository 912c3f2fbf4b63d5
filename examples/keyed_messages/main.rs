//! A batch of messages, keyed by account and booked by a few threads: in order for one account, in
//! parallel for different accounts.
//!
//! ```text
//! cargo run --release --example keyed_messages -- [--messages N] [--workers N] [--work MS]
//! ```
//!
//! To book a message, a worker reads the account's balance, works for a while, and writes the new
//! balance. At first the workers book in any order, and bookings are lost. Then each message
//! reserves its turn at its account when it arrives, and timelines show the difference. Meanwhile
//! another thread joins a booking to get its result, and the bank closes: it waits for all
//! messages, first with a short timeout, whose error reports the remaining work, then without a
//! timeout.
//!
//! Exits with 0 if all checks passed, with 1 if one failed, and with 2 if the input was invalid.

#![expect(
    unreachable_pub,
    reason = "in a program, nothing is public further than this"
)]

mod args;
mod bank;
#[path = "../common/mod.rs"]
mod common;
mod timeline;

use std::error::Error;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use args::{Command, Options};
use bank::{ACCOUNTS, Bank, Intake, Ledger, Message};
use doclock::lock::LockError;

/// An error crosses threads.
type Failure = Box<dyn Error + Send + Sync>;

fn main() -> ExitCode {
    let command = match args::parse(lexopt::Parser::from_env()) {
        Ok(command) => command,
        Err(reason) => return complain(&reason, 2),
    };
    let shown = match command {
        Command::Help => print(args::HELP),
        Command::Run(options) => match show(options) {
            Ok(text) => print(&text),
            Err(error) => return complain(&error.to_string(), 1),
        },
    };
    match shown {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => complain(&error.to_string(), 1),
    }
}

fn print(text: &str) -> io::Result<()> {
    let mut output = io::stdout();
    output.write_all(text.as_bytes())?;
    output.flush()
}

fn complain(reason: &str, code: u8) -> ExitCode {
    common::complain(format_args!("keyed_messages: {reason}"));
    ExitCode::from(code)
}

/// The complete output.
fn show(options: Options) -> Result<String, Failure> {
    let batch = bank::batch(options);
    let Options {
        workers,
        work,
        messages,
    } = options;
    let mut text = format!(
        "{messages} messages for {} accounts, {workers} workers; a message takes {:.0} to {:.0} ms\n\
         a row for each account: the worker that books for it (* several at once, · none, but a message waits); its messages, in order of start\n\n",
        ACCOUNTS.len(),
        work.as_secs_f64() * 1e3,
        work.as_secs_f64() * 3e3,
    );

    let began = Instant::now();
    let ((), loose) = Bank::open(workers, |_, intake| {
        batch.iter().for_each(|&message| intake.take(message));
    });
    let drawn = timeline::draw(&loose, began);
    write!(text, "without a lock\n{drawn}\n")?;

    let began = Instant::now();
    let (told, ordered) = Bank::open(workers, |bank, intake| run_in_turns(bank, intake, &batch));
    let drawn = timeline::draw(&ordered, began);
    write!(text, "a turn for each message, at its account\n{drawn}\n")?;
    text.push_str(&balances(&batch, &loose, &ordered)?);
    text.push_str(&told?);
    check(&batch, &ordered)?;
    Ok(text)
}

/// Accepts a batch, joins a booking, and closes. Returns the output of the last two.
fn run_in_turns(bank: &Bank, intake: Intake<'_>, batch: &[Message]) -> Result<String, Failure> {
    for &message in batch {
        intake.take_in_turn(message)?;
    }
    // No further messages.
    drop(intake);
    let accounts = &bank.accounts;
    let joined = ACCOUNTS
        .iter()
        .find_map(|account| Some((account, accounts.current_execution(account)?)));
    thread::scope(|scope| {
        let viewer = joined.map(|(account, execution)| {
            let booking = execution.owner().clone();
            (account, booking, scope.spawn(|| execution.join()))
        });
        let mut text = close(bank)?;
        if let Some((account, booking, viewer)) = viewer {
            let balance = viewer.join().map_err(|_| "the viewer panicked")??;
            write!(
                text,
                "\nsomebody asked for {account}'s balance while {booking} was being booked, joined it, and was told {balance}\n"
            )?;
        }
        Ok(text)
    })
}

/// Waits for all accepted messages.
fn close(bank: &Bank) -> Result<String, Failure> {
    let accounts = &bank.accounts;
    let stats = accounts.stats();
    let began = Instant::now();
    let millis = || began.elapsed().as_secs_f64() * 1e3;
    let mut text = format!(
        "closing, with {} accounts active and {} messages waiting\n",
        stats.active_keys, stats.queue_length
    );
    let soon = Duration::from_millis(5);
    match accounts.request_drain("closing").timeout(soon).wait() {
        Ok(()) => writeln!(text, "  within 5 ms: all are booked")?,
        Err(LockError::Timeout(evidence)) => writeln!(text, "  within 5 ms: no. {evidence}")?,
        Err(other) => return Err(other.into()),
    }
    accounts.wait_for_all_existing_tasks()?;
    writeln!(
        text,
        "  for as long as it takes: all are booked after {:.0} ms; {} accounts are active, {} messages wait",
        millis(),
        accounts.active_keys_count(),
        accounts.stats().queue_length
    )?;
    Ok(text)
}

/// The expected and the actual balances.
fn balances(batch: &[Message], loose: &Ledger, ordered: &Ledger) -> Result<String, Failure> {
    let rows = [
        ("should be", ACCOUNTS.map(|account| sum(batch, account))),
        (
            "without a lock",
            ACCOUNTS.map(|account| loose.balance(account)),
        ),
        (
            "a turn for each",
            ACCOUNTS.map(|account| ordered.balance(account)),
        ),
    ];
    let mut text = format!("{:<18}", "balances");
    for account in ACCOUNTS {
        write!(text, "{account:>6}")?;
    }
    for (name, balances) in rows {
        write!(text, "\n  {name:<16}")?;
        for balance in balances {
            write!(text, "{balance:>6}")?;
        }
    }
    text.push_str("\n\n");
    Ok(text)
}

fn sum(batch: &[Message], account: &str) -> i64 {
    let of_account = batch.iter().filter(|message| message.account == account);
    of_account.map(|message| message.amount).sum()
}

/// Checks that, with turns, the messages of each account were booked one at a time, in the order of
/// arrival, and that none was lost.
fn check(batch: &[Message], ledger: &Ledger) -> Result<(), Failure> {
    if ledger.booked.len() != batch.len() {
        return Err("not every message was booked once".into());
    }
    for account in ACCOUNTS {
        let booked = timeline::of(ledger, account);
        let in_order = booked.windows(2).all(|pair| match pair {
            [one, next] => one.message.number < next.message.number && one.until <= next.from,
            _ => true,
        });
        if !in_order {
            return Err(format!("messages for {account} overtook each other").into());
        }
        if ledger.balance(account) != sum(batch, account) {
            return Err(format!("a booking for {account} was lost").into());
        }
    }
    Ok(())
}
