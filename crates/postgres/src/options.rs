//! How a program connects to PostgreSQL.

use std::time::Duration;

use tokio::time::timeout;
use tokio_postgres::config::{Host, LoadBalanceHosts, SslMode};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, Connection, Socket};

use crate::PostgresError;
use crate::encryption::{Encrypted, Encryption};
use crate::random::random;
use crate::schema::checked_name;

/// Options of a connection to PostgreSQL.
///
/// ```
/// use std::time::Duration;
/// use doclock_postgres::PostgresOptions;
///
/// let options = PostgresOptions::new("host=/run/postgresql user=app dbname=app")?
///     .schema("documents")?
///     .connect_timeout(Duration::from_secs(2));
/// # Ok::<(), doclock_postgres::PostgresError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct PostgresOptions {
    pub(crate) config: tokio_postgres::Config,
    encryption: Encryption,
    pub(crate) schema: String,
    pub(crate) connect_timeout: Duration,
    pub(crate) allows_lossy_server: bool,
}

impl PostgresOptions {
    /// Creates options with connection parameters: a URL (`postgresql://…`), or names and values
    /// (`host=… user=…`), as libpq reads them.
    ///
    /// # Encryption
    ///
    /// `sslmode` says whether connections are encrypted with TLS, by the feature `tls`, which is on
    /// by default. A connection over a Unix socket never is.
    ///
    /// | `sslmode` | encrypted | what is checked of the server |
    /// |---|---|---|
    /// | `disable` | no | |
    /// | `allow` | if the server refuses others | as `prefer` |
    /// | `prefer`, the default | if the server can | as `require` |
    /// | `require` | yes | its certificate, if there is that of an authority |
    /// | `verify-ca` | yes | that an authority has certified it |
    /// | `verify-full` | yes | the same, and that the certificate is for its host name |
    ///
    /// `sslrootcert` is a file with the certificates of authorities, and `~/.postgresql/root.crt`
    /// by default; with `system` they are those that the machine trusts, and the mode is
    /// `verify-full`. `sslcert` and `sslkey` are the certificate and the key of this client, and by
    /// default `~/.postgresql/postgresql.crt` and `postgresql.key`. All are PEM files, and a key
    /// must not be readable by other users of the machine. The files are read for each connection,
    /// so they can be replaced. A key with a password and lists of revoked certificates cannot be
    /// used. The host name is compared with the alternative names of the certificate alone.
    ///
    /// ```
    /// use doclock_postgres::PostgresOptions;
    ///
    /// let options = PostgresOptions::new(
    ///     "host=db.example.com user=app dbname=app sslmode=verify-full sslrootcert=/etc/app/ca.crt",
    /// )?;
    /// # Ok::<(), doclock_postgres::PostgresError>(())
    /// ```
    ///
    /// # Several hosts
    ///
    /// With a standby, name both hosts and add `target_session_attrs=read-write`, so that a new
    /// connection finds the server that takes writes.
    ///
    /// # Errors
    ///
    /// [`PostgresError::Parameters`]. If a file of the encryption cannot be used, that is the error
    /// of a connection.
    pub fn new(parameters: &str) -> Result<Self, PostgresError> {
        let (rest, encryption) = Encryption::take(parameters)?;
        let mut config: tokio_postgres::Config = rest.parse().map_err(PostgresError::parameters)?;
        if config.get_application_name().is_none() {
            config.application_name("doclock");
        }
        Ok(Self {
            config,
            encryption,
            schema: "doclock".to_owned(),
            connect_timeout: Duration::from_secs(5),
            allows_lossy_server: false,
        })
    }

    /// Sets the schema of the tables. The default is `doclock`. It is created if it is missing.
    ///
    /// # Errors
    ///
    /// [`PostgresError::Name`]: it is empty, longer than 63 bytes, or contains a NUL.
    pub fn schema(mut self, schema: &str) -> Result<Self, PostgresError> {
        self.schema = checked_name(schema, 63)?.to_owned();
        Ok(self)
    }

    /// Sets how long a connection may take to be made and checked, up to an hour. The default is 5
    /// seconds. Of several hosts, each but the last has a part of it.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout.min(Duration::from_secs(60 * 60));
        self
    }

    /// Connects to the first host that answers, with this in addition to the name of the program.
    ///
    /// The limit of the connection parameters ends when a host has taken the connection, also if
    /// it answers nothing. So each host but the last has a part of the time, until it is usable.
    pub(crate) async fn connect(&self, name: &str) -> Result<Connected, PostgresError> {
        let config = self.limited(name);
        let hosts = hosts(&config);
        let of = |count: usize| count == 0 || count == hosts;
        let is_listed = of(config.get_hosts().len())
            && of(config.get_hostaddrs().len())
            && (of(config.get_ports().len()) || config.get_ports().len() == 1);
        // Otherwise this returns the error.
        if is_listed && hosts > 1 {
            let first = match config.get_load_balance_hosts() {
                LoadBalanceHosts::Random => random() as usize % hosts,
                _ => 0,
            };
            for nth in 0..hosts {
                let alone = of_host(&config, (first + nth) % hosts);
                if nth + 1 == hosts {
                    return self.connect_to(alone).await;
                }
                let given = config.get_connect_timeout().copied().unwrap_or_default();
                let limit = given.min(self.part_of(hosts));
                if let Ok(Ok(connected)) = timeout(limit, self.connect_to(alone)).await {
                    return Ok(connected);
                }
            }
        }
        self.connect_to(config).await
    }

    /// Connects to one host, encrypted or not.
    async fn connect_to(&self, mut config: Config) -> Result<Connected, PostgresError> {
        let is_socket = config.get_hostaddrs().is_empty()
            && config
                .get_hosts()
                .iter()
                .all(|host| !matches!(host, Host::Tcp(_)));
        let attempts = match is_socket {
            true => &[SslMode::Disable],
            false => self.encryption.attempts(),
        };
        if config.get_hosts().is_empty()
            && let [address] = config.get_hostaddrs()
        {
            // The name by which a certificate is checked.
            let name = address.to_string();
            config.host(name);
        }
        let mut refused = None;
        for mode in attempts {
            config.ssl_mode(*mode);
            match config.connect(self.encryption.connector(*mode)?).await {
                Ok(connected) => return Ok(connected),
                Err(error) => {
                    let error = refused.insert(error);
                    if !may_differ(error) {
                        break;
                    }
                }
            }
        }
        let none = || PostgresError::parameters("there is no way to connect");
        Err(refused.map_or_else(none, PostgresError::from))
    }

    /// Returns the parameters of a connection, with limits where they have none.
    fn limited(&self, name: &str) -> Config {
        let mut config = self.config.clone();
        let program = config.get_application_name().unwrap_or("doclock");
        config.application_name(format!("{program}{name}"));
        // Otherwise data that a vanished server does not confirm is sent again for minutes.
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(self.connect_timeout);
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(self.part_of(hosts(&config)));
        }
        config
    }

    /// How long each of several hosts may take, so that it leaves time for the next one.
    fn part_of(&self, hosts: usize) -> Duration {
        let hosts = u32::try_from(hosts).unwrap_or(u32::MAX);
        self.connect_timeout / hosts.saturating_add(1)
    }

    /// Allows a server with `fsync` off, whose crash can lose confirmed commits: for tests.
    #[doc(hidden)]
    pub fn allow_lossy_server(mut self) -> Self {
        self.allows_lossy_server = true;
        self
    }
}

/// A connection, and what reads and writes it.
pub(crate) type Connected = (Client, Connection<Socket, Encrypted>);

/// Whether a connection may be made with encryption or without it, after an attempt that was the
/// other way: the server has no rule for it, or the encryption has failed.
fn may_differ(error: &tokio_postgres::Error) -> bool {
    match error.code() {
        Some(code) => *code == SqlState::INVALID_AUTHORIZATION_SPECIFICATION,
        None => error.to_string().contains("TLS"),
    }
}

/// How many hosts the parameters name.
fn hosts(config: &Config) -> usize {
    config.get_hosts().len().max(config.get_hostaddrs().len())
}

/// The parameters of a connection to one of several hosts.
fn of_host(all: &Config, nth: usize) -> Config {
    let mut one = Config::new();
    match all.get_hosts().get(nth) {
        Some(Host::Tcp(host)) => drop(one.host(host)),
        #[cfg(unix)]
        Some(Host::Unix(path)) => drop(one.host_path(path)),
        None => {}
    }
    if let Some(address) = all.get_hostaddrs().get(nth) {
        one.hostaddr(*address);
    }
    let ports = all.get_ports();
    if let Some(port) = ports.get(nth).or(ports.first()) {
        one.port(*port);
    }
    if let Some(user) = all.get_user() {
        one.user(user);
    }
    if let Some(password) = all.get_password() {
        one.password(password);
    }
    if let Some(dbname) = all.get_dbname() {
        one.dbname(dbname);
    }
    if let Some(options) = all.get_options() {
        one.options(options);
    }
    if let Some(name) = all.get_application_name() {
        one.application_name(name);
    }
    if let Some(limit) = all.get_connect_timeout() {
        one.connect_timeout(*limit);
    }
    if let Some(limit) = all.get_tcp_user_timeout() {
        one.tcp_user_timeout(*limit);
    }
    if let Some(interval) = all.get_keepalives_interval() {
        one.keepalives_interval(interval);
    }
    if let Some(retries) = all.get_keepalives_retries() {
        one.keepalives_retries(retries);
    }
    one.keepalives(all.get_keepalives())
        .keepalives_idle(all.get_keepalives_idle())
        .ssl_mode(all.get_ssl_mode())
        .ssl_negotiation(all.get_ssl_negotiation())
        .channel_binding(all.get_channel_binding())
        .target_session_attrs(all.get_target_session_attrs())
        .load_balance_hosts(all.get_load_balance_hosts());
    one
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parameters_of_a_host_are_those_of_all_hosts() {
        let rest = "user=ann password=x dbname=app options=-cwork_mem=4MB application_name=p \
            sslmode=disable connect_timeout=3 tcp_user_timeout=4 keepalives=0 keepalives_idle=5 \
            keepalives_interval=6 keepalives_retries=7 target_session_attrs=read-write \
            channel_binding=disable load_balance_hosts=random";
        let config = |text: String| text.parse::<Config>().unwrap();
        let all = config(format!("host=a,/b hostaddr=::1,::2 port=1,2 {rest}"));
        for (nth, alone) in ["host=a hostaddr=::1 port=1", "host=/b hostaddr=::2 port=2"]
            .iter()
            .enumerate()
        {
            assert_eq!(of_host(&all, nth), config(format!("{alone} {rest}")));
        }
    }
}
