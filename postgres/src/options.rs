//! How a program connects to PostgreSQL.

use std::time::Duration;

use crate::PostgresError;
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
    pub(crate) schema: String,
    pub(crate) connect_timeout: Duration,
    pub(crate) prepares: bool,
    pub(crate) allows_lossy_server: bool,
}

impl PostgresOptions {
    /// Creates options with connection parameters: a URL (`postgresql://…`), or names and values
    /// (`host=… user=…`), as libpq reads them. The connection is not encrypted.
    ///
    /// With a standby, name both hosts and add `target_session_attrs=read-write`, so that a new
    /// connection finds the server that takes writes.
    ///
    /// # Errors
    ///
    /// [`PostgresError::Parameters`].
    pub fn new(parameters: &str) -> Result<Self, PostgresError> {
        let mut config: tokio_postgres::Config =
            parameters.parse().map_err(PostgresError::parameters)?;
        if config.get_application_name().is_none() {
            config.application_name("doclock");
        }
        Ok(Self {
            config,
            schema: "doclock".to_owned(),
            connect_timeout: Duration::from_secs(5),
            prepares: false,
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
    /// seconds.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout.min(Duration::from_secs(60 * 60));
        self
    }

    /// Prepares the statement of an append once for each connection, so that the server does not
    /// parse it each time. The statement calls a function, whose plan the server keeps in any case.
    /// That is not for a pooler in transaction mode, which would run the prepared statement of
    /// another client. The default is off.
    pub fn prepared_statements(mut self) -> Self {
        self.prepares = true;
        self
    }

    /// Returns the parameters of a connection, with limits where they have none.
    pub(crate) fn limited(&self) -> tokio_postgres::Config {
        let mut config = self.config.clone();
        // Otherwise data that a vanished server does not confirm is sent again for minutes.
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(self.connect_timeout);
        }
        // A host that does not answer leaves time for the next one.
        if config.get_connect_timeout().is_none() {
            let hosts = config.get_hosts().len().max(config.get_hostaddrs().len());
            let hosts = u32::try_from(hosts).unwrap_or(u32::MAX);
            config.connect_timeout(self.connect_timeout / hosts.saturating_add(1));
        }
        config
    }

    /// Allows a server with `fsync` off, whose crash can lose confirmed commits: for tests.
    #[doc(hidden)]
    pub fn allow_lossy_server(mut self) -> Self {
        self.allows_lossy_server = true;
        self
    }
}
