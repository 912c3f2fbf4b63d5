//! Connections with TLS, by rustls.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use tokio_postgres::config::SslMode;

use super::{Authority, Connector, Encryption, Mode};
use crate::PostgresError;

/// What is checked of a server. Its signature always is.
#[derive(Debug)]
struct Verifier {
    /// `None` if any certificate is accepted.
    authorities: Option<Authorities>,
    checks_name: bool,
    algorithms: WebPkiSupportedAlgorithms,
}

/// The certificates of a client, and its key.
type ClientIdentity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

#[derive(Debug)]
struct Authorities {
    roots: RootCertStore,
    /// The same certificates. A server may have one of them itself.
    certificates: Vec<CertificateDer<'static>>,
}

impl Encryption {
    /// Reads the files that the parameters name, which can be others than for the last connection.
    pub(crate) fn connector(&self, mode: SslMode) -> Result<Connector, PostgresError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let is_plain = mode == SslMode::Disable;
        let verifier = Verifier {
            authorities: match is_plain {
                true => None,
                false => self.authorities()?,
            },
            checks_name: self.mode() == Mode::VerifyFull,
            algorithms: provider.signature_verification_algorithms,
        };
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(PostgresError::parameters)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        let identity = match is_plain {
            true => None,
            false => self.identity()?,
        };
        let mut config = match identity {
            Some((chain, key)) => config
                .with_client_auth_cert(chain, key)
                .map_err(PostgresError::parameters)?,
            None => config.with_no_client_auth(),
        };
        config.alpn_protocols = vec![b"postgresql".to_vec()];
        Ok(Connector::new(config))
    }

    /// Reads the certificates of the authorities, if there are any.
    fn authorities(&self) -> Result<Option<Authorities>, PostgresError> {
        let certificates = match &self.authority {
            Some(Authority::System) => rustls_native_certs::load_native_certs().certs,
            authority => {
                let path = match authority {
                    Some(Authority::File(path)) => Some(path.clone()),
                    _ => default_file("root.crt"),
                };
                match path.filter(|path| path.exists()) {
                    Some(path) => certificates(&path)?,
                    None if self.mode() < Mode::VerifyCa => return Ok(None),
                    None => {
                        return Err(PostgresError::parameters(
                            "the sslmode needs the certificate of an authority: sslrootcert, or \
                            ~/.postgresql/root.crt",
                        ));
                    }
                }
            }
        };
        let mut roots = RootCertStore::empty();
        let (added, _) = roots.add_parsable_certificates(certificates.iter().cloned());
        if added == 0 {
            let none = "sslrootcert has no certificate that can be used";
            return Err(PostgresError::parameters(none));
        }
        Ok(Some(Authorities {
            roots,
            certificates,
        }))
    }

    /// Reads the certificate and the key of this client, if it has any.
    fn identity(&self) -> Result<Option<ClientIdentity>, PostgresError> {
        let path = match &self.certificate {
            Some(path) => path.clone(),
            None => match default_file("postgresql.crt").filter(|path| path.exists()) {
                Some(path) => path,
                None => return Ok(None),
            },
        };
        let chain = certificates(&path)?;
        let key = self.key.clone().or_else(|| default_file("postgresql.key"));
        let Some(key) = key else {
            let missing = format_args!("there is no sslkey for {}", path.display());
            return Err(PostgresError::parameters(missing));
        };
        check_permissions(&key)?;
        let key = PrivateKeyDer::from_pem_file(&key).map_err(|error| of_file(&key, error))?;
        Ok(Some((chain, key)))
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, PostgresError> {
    let found = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let found: Vec<_> = found.map_err(|error| of_file(path, error))?;
    match found.is_empty() {
        true => Err(of_file(path, "it has no certificate")),
        false => Ok(found),
    }
}

fn of_file(path: &Path, error: impl std::fmt::Display) -> PostgresError {
    PostgresError::parameters(format_args!("the file {}: {error}", path.display()))
}

/// The file that is used if the parameters name none.
fn default_file(name: &str) -> Option<PathBuf> {
    let folder = match cfg!(windows) {
        true => PathBuf::from(std::env::var_os("APPDATA")?).join("postgresql"),
        false => PathBuf::from(std::env::var_os("HOME")?).join(".postgresql"),
    };
    Some(folder.join(name))
}

/// Refuses a key that other users of the machine can read. One of root may be read by a group.
#[cfg(unix)]
fn check_permissions(key: &Path) -> Result<(), PostgresError> {
    use std::os::unix::fs::MetadataExt;
    let file = key.metadata().map_err(|error| of_file(key, error))?;
    let allowed = if file.uid() == 0 { 0o740 } else { 0o700 };
    match file.mode() & 0o777 & !allowed {
        0 => Ok(()),
        _ => Err(of_file(key, "other users have access to the key")),
    }
}

#[cfg(not(unix))]
fn check_permissions(_: &Path) -> Result<(), PostgresError> {
    Ok(())
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        server: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if let Some(Authorities {
            roots,
            certificates,
        }) = &self.authorities
        {
            let parsed = ParsedCertificate::try_from(server)?;
            if !certificates.iter().any(|of| of == server) {
                let algorithms = self.algorithms.all;
                verify_server_cert_signed_by_trust_anchor(
                    &parsed,
                    roots,
                    intermediates,
                    now,
                    algorithms,
                )?;
            }
            if self.checks_name {
                verify_server_name(&parsed, name)?;
            }
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        server: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, server, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        server: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, server, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
