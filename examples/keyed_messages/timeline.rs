//! Timelines of the bookings of each account.

use std::fmt::Write;
use std::time::{Duration, Instant};

use crate::bank::{ACCOUNTS, Booked, Ledger};

/// The width of a timeline in characters.
const WIDTH: u32 = 60;

/// The most messages listed for each account.
const SHOWN: usize = 12;

/// A row for each account.
pub fn draw(ledger: &Ledger, began: Instant) -> String {
    let ends = ledger.booked.iter().map(|booked| booked.until);
    let took = ends.max().map_or(Duration::ZERO, |end| end - began);
    let mut text = String::new();
    for account in ACCOUNTS {
        let booked = of(ledger, account);
        let row: String = (0..WIDTH)
            .map(|at| sign(&booked, began + took * (2 * at + 1) / (2 * WIDTH)))
            .collect();
        // Writing to a string cannot fail.
        let _ = write!(text, "  {account} |{row}|");
        for booked in booked.iter().take(SHOWN) {
            let _ = write!(text, " {}", booked.message.number);
        }
        let more = if booked.len() > SHOWN { " ..." } else { "" };
        let _ = writeln!(text, "{more}");
    }
    text
}

/// The bookings of one account, in the order in which they began.
pub fn of<'a>(ledger: &'a Ledger, account: &str) -> Vec<&'a Booked> {
    let of_account = |booked: &&Booked| booked.message.account == account;
    let mut booked: Vec<_> = ledger.booked.iter().filter(of_account).collect();
    booked.sort_by_key(|booked| booked.from);
    booked
}

/// The state of an account at a moment: the number of its worker, `*` for several workers; `·` if
/// a message waited.
fn sign(booked: &[&Booked], moment: Instant) -> char {
    let mut working = booked
        .iter()
        .filter(|booked| (booked.from..booked.until).contains(&moment));
    match (working.next(), working.next()) {
        (Some(_), Some(_)) => '*',
        (Some(one), None) => char::from_digit(one.worker, 10).unwrap_or('?'),
        _ if booked.iter().any(|booked| booked.from > moment) => '·',
        _ => ' ',
    }
}
