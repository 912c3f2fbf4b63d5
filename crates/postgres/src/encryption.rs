//! Which connections are encrypted, as the parameters say it to libpq.

#[cfg(feature = "tls")]
mod tls;

use std::path::PathBuf;

use percent_encoding::percent_decode_str;
use tokio_postgres::Socket;
use tokio_postgres::config::SslMode;
use tokio_postgres::tls::MakeTlsConnect;

use crate::PostgresError;

/// What makes encrypted connections.
#[cfg(feature = "tls")]
pub(crate) type Connector = tokio_postgres_rustls::MakeRustlsConnect;
#[cfg(not(feature = "tls"))]
pub(crate) type Connector = tokio_postgres::NoTls;

/// An encrypted connection.
pub(crate) type Encrypted = <Connector as MakeTlsConnect<Socket>>::Stream;

/// How a connection is encrypted, and what is checked of the server: `sslmode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Mode {
    Disable,
    Allow,
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

/// Who certifies a server: `sslrootcert`.
#[cfg_attr(not(feature = "tls"), allow(dead_code))]
#[derive(Clone, Debug, PartialEq, Eq)]
enum Authority {
    /// What the machine trusts.
    System,
    /// The certificates in a file.
    File(PathBuf),
}

/// The parameters of the encryption.
#[cfg_attr(not(feature = "tls"), allow(dead_code))]
#[derive(Clone, Debug, Default)]
pub(crate) struct Encryption {
    mode: Option<Mode>,
    authority: Option<Authority>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
}

impl Encryption {
    /// Takes the parameters of the encryption out of those of a connection, and returns the rest.
    pub(crate) fn take(parameters: &str) -> Result<(String, Self), PostgresError> {
        let mut taken = Self::default();
        let is_url = ["postgresql://", "postgres://"];
        let rest = match is_url.iter().any(|scheme| parameters.starts_with(scheme)) {
            true => taken.take_of_url(parameters)?,
            false => taken.take_of_pairs(parameters)?,
        };
        let mode = taken.mode();
        if taken.authority == Some(Authority::System) && mode != Mode::VerifyFull {
            // Anyone can have a certificate of those authorities.
            let weak = "sslrootcert=system needs sslmode=verify-full";
            return Err(PostgresError::parameters(weak));
        }
        if cfg!(not(feature = "tls")) && mode > Mode::Prefer {
            let missing = "this sslmode needs the feature `tls` of doclock-postgres";
            return Err(PostgresError::parameters(missing));
        }
        Ok((rest, taken))
    }

    fn mode(&self) -> Mode {
        self.mode.unwrap_or(match self.authority {
            Some(Authority::System) => Mode::VerifyFull,
            _ => Mode::Prefer,
        })
    }

    /// Takes a parameter. Returns whether it is one of the encryption.
    fn add(&mut self, name: &str, value: &str) -> Result<bool, PostgresError> {
        let path = |value: &str| (!value.is_empty()).then(|| PathBuf::from(value));
        match name {
            "sslmode" => {
                self.mode = Some(match value {
                    "disable" => Mode::Disable,
                    "allow" => Mode::Allow,
                    "prefer" => Mode::Prefer,
                    "require" => Mode::Require,
                    "verify-ca" => Mode::VerifyCa,
                    "verify-full" => Mode::VerifyFull,
                    _ => {
                        let unknown = format_args!("there is no sslmode {value:?}");
                        return Err(PostgresError::parameters(unknown));
                    }
                });
            }
            "sslrootcert" => {
                self.authority = match value {
                    "system" => Some(Authority::System),
                    value => path(value).map(Authority::File),
                };
            }
            "sslcert" => self.certificate = path(value),
            "sslkey" => self.key = path(value),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn take_of_url(&mut self, url: &str) -> Result<String, PostgresError> {
        let Some((rest, query)) = url.split_once('?') else {
            return Ok(url.to_owned());
        };
        let mut kept = Vec::new();
        for pair in query.split('&') {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let decoded = |text| percent_decode_str(text).decode_utf8_lossy();
            if !self.add(&decoded(name), &decoded(value))? {
                kept.push(pair);
            }
        }
        Ok(match kept.is_empty() {
            true => rest.to_owned(),
            false => format!("{rest}?{}", kept.join("&")),
        })
    }

    fn take_of_pairs(&mut self, text: &str) -> Result<String, PostgresError> {
        let (mut kept, mut rest) = (String::new(), text.trim_start());
        while let Some((pair, name, value)) = first_pair(rest) {
            if !self.add(name, &value)? {
                kept.push_str(pair);
                kept.push(' ');
            }
            rest = rest.get(pair.len()..).unwrap_or_default().trim_start();
        }
        // What is no pair is refused with the rest.
        kept.push_str(rest);
        Ok(kept)
    }

    /// The modes of the attempts to connect, one after the other.
    pub(crate) fn attempts(&self) -> &'static [SslMode] {
        match self.mode() {
            Mode::Disable => &[SslMode::Disable],
            _ if cfg!(not(feature = "tls")) => &[SslMode::Disable],
            Mode::Allow => &[SslMode::Disable, SslMode::Require],
            Mode::Prefer => &[SslMode::Prefer, SslMode::Disable],
            Mode::Require | Mode::VerifyCa | Mode::VerifyFull => &[SslMode::Require],
        }
    }

    #[cfg(not(feature = "tls"))]
    pub(crate) fn connector(&self, _: SslMode) -> Result<Connector, PostgresError> {
        Ok(tokio_postgres::NoTls)
    }
}

/// The first `name = value` of a text that begins with one: all of it, the name, and the value
/// without quotes and escapes.
fn first_pair(text: &str) -> Option<(&str, &str, String)> {
    let (name, after) = text.split_once('=')?;
    let name = name.trim_end();
    if name.is_empty() || name.contains(char::is_whitespace) {
        return None;
    }
    let after = after.trim_start();
    let (is_quoted, from) = match after.strip_prefix('\'') {
        Some(from) => (true, from),
        None => (false, after),
    };
    let (mut value, mut chars) = (String::new(), from.chars());
    loop {
        let before = chars.as_str();
        match chars.next() {
            Some('\\') => value.extend(chars.next()),
            Some('\'') if is_quoted => break,
            None if is_quoted => return None,
            Some(end) if !is_quoted && end.is_whitespace() => {
                chars = before.chars();
                break;
            }
            Some(other) => value.push(other),
            None => break,
        }
    }
    let pair = text.len() - chars.as_str().len();
    Some((text.get(..pair)?, name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(parameters: &str) -> (String, Encryption) {
        Encryption::take(parameters).unwrap()
    }

    #[test]
    fn the_parameters_of_the_encryption_are_taken_out() {
        let (rest, none) = take(" host=a  user = 'a \\' b' dbname=x");
        assert_eq!(rest.trim(), "host=a user = 'a \\' b' dbname=x");
        assert_eq!((none.mode(), none.authority), (Mode::Prefer, None));
        for parameters in [
            "host=a sslmode=verify-ca sslrootcert = '/x y/\\'r' sslcert=/c\\ d sslkey=/k port=1",
            "sslkey='/k' sslcert='/c d' host=a port=1 sslrootcert='/x y/\\'r' sslmode='verify-ca'",
        ] {
            let (rest, taken) = take(parameters);
            assert_eq!(rest.trim(), "host=a port=1");
            let file = Authority::File("/x y/'r".into());
            assert_eq!(
                (taken.mode(), taken.authority),
                (Mode::VerifyCa, Some(file))
            );
            assert_eq!(taken.certificate, Some("/c d".into()));
            assert_eq!(taken.key, Some("/k".into()));
        }
        let url = "postgresql://ann:x%3f@a:1,b/app";
        for (query, kept) in [
            ("", ""),
            ("?sslmode=require&sslrootcert=%2Fx%20y", ""),
            (
                "?connect_timeout=3&sslmode=require&options=a",
                "?connect_timeout=3&options=a",
            ),
        ] {
            let (rest, taken) = take(&format!("{url}{query}"));
            assert_eq!(rest, format!("{url}{kept}"));
            assert_eq!(taken.mode.is_some(), query.contains("sslmode"));
            let file = query
                .contains("root")
                .then(|| Authority::File("/x y".into()));
            assert_eq!(taken.authority, file);
        }
        assert_eq!(take("host=a sslrootcert=system").1.mode(), Mode::VerifyFull);
    }

    #[test]
    fn parameters_that_cannot_be_used_are_refused_or_left_to_the_rest() {
        for refused in [
            "host=a sslmode=on",
            "host=a sslmode=",
            "host=a sslmode=require sslrootcert=system",
            "postgresql://a/b?sslmode",
        ] {
            let error = Encryption::take(refused).unwrap_err();
            assert!(matches!(error, PostgresError::Parameters { .. }), "{error}");
        }
        for text in [
            "",
            "host",
            "= a",
            "a b = c sslmode=require",
            "sslmode='require",
            "a='\\",
        ] {
            assert_eq!(take(text).0, text);
        }
    }
}
