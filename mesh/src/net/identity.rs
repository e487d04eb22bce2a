//! Who a gateway is: the mesh's certificate authority, derived from the secret so that every gateway has the same one
//! and no file is needed; the short-lived certificate a gateway issues itself; and reading a peer's.
//!
//! Whoever has the secret can make any identity: the names bind peers against mistakes, not against a member turned bad.
//! Not here: TLS settings (`tls`), the clock (times and seeds are arguments).

use std::time::Duration;

use covey_crdt::id::{GatewayName, LifeId};
use covey_crdt::stamp::WallMs;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_ED25519, SanType, SerialNumber, date_time_ymd,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use x509_parser::prelude::{FromDer, GeneralName, ParsedExtension, X509Certificate};

use super::secret::derive;

/// The DNS name every mesh certificate carries; peers are told apart by their URI.
pub(super) const SERVER_NAME: &str = "covey.mesh";
/// How long a certificate is good for.
const VALID_FOR: Duration = Duration::from_secs(24 * 3_600);
/// How far it is back-dated, so that a clock this far behind still accepts it.
const BACK_DATED: Duration = Duration::from_secs(3_600);
/// When a gateway issues itself the next one.
pub(super) const REISSUE_AFTER: Duration = Duration::from_secs(8 * 3_600);

const URI_PREFIX: &str = "spiffe://covey/gateway/";
/// What comes before the 32 bytes of an Ed25519 seed in PKCS#8 version 1.
const PKCS8_ED25519: [u8; 16] =
    [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];

/// A gateway's name and life, as its certificate says them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) name: GatewayName,
    pub(super) life: LifeId,
}

impl Identity {
    fn uri(&self) -> String {
        let mut uri = String::from(URI_PREFIX);
        for byte in self.name.as_str().bytes() {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                uri.push(byte.into());
            } else {
                uri.push_str(&format!("%{byte:02X}"));
            }
        }
        uri.push_str(&format!("/{}", self.life));
        uri
    }

    fn from_uri(uri: &str) -> Option<Self> {
        let (name, life) = uri.strip_prefix(URI_PREFIX)?.split_once('/')?;
        if life.len() != 32 || !life.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)) {
            return None;
        }
        let name = String::from_utf8(unescape(name)?).ok()?;
        Some(Self { name: GatewayName::new(&name).ok()?, life: LifeId(u128::from_str_radix(life, 16).ok()?) })
    }

    /// Reads it from a certificate that TLS has verified already; `None` when it carries no covey URI.
    pub(super) fn from_certificate(certificate: &CertificateDer<'_>) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
        let names = certificate.extensions().iter().find_map(|extension| {
            if let ParsedExtension::SubjectAlternativeName(names) = extension.parsed_extension() {
                Some(&names.general_names)
            } else {
                None
            }
        })?;
        names.iter().find_map(|name| if let GeneralName::URI(uri) = name { Self::from_uri(uri) } else { None })
    }
}

fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let digits = [bytes.next()?, bytes.next()?];
            out.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
        } else {
            out.push(byte);
        }
    }
    Some(out)
}

/// The certificate authority of one mesh: bit-identical wherever the secret is the same.
pub(super) struct MeshCa {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
}

impl std::fmt::Debug for MeshCa {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MeshCa").finish_non_exhaustive()
    }
}

/// A certificate with its private key.
#[derive(Debug)]
pub(super) struct Leaf {
    pub(super) chain: Vec<CertificateDer<'static>>,
    pub(super) key: PrivateKeyDer<'static>,
}

impl MeshCa {
    /// Derives the authority. An error is a bug or a limit of the certificate library.
    pub(super) fn derive(secret: &[u8]) -> Result<Self, rcgen::Error> {
        let key = key_pair(&derive(secret, b"covey/ca/v1", &[]))?;
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "covey mesh");
        params.serial_number = Some(SerialNumber::from_slice(&[1]));
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2120, 1, 1);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let certificate = params.self_signed(&key)?.der().clone();
        Ok(Self { issuer: Issuer::new(params, key), certificate })
    }

    pub(super) fn certificate(&self) -> CertificateDer<'static> {
        self.certificate.clone()
    }

    /// Issues a certificate for `identity`, good from an hour before `now` until a day after.
    pub(super) fn issue(&self, identity: &Identity, now: WallMs, key_seed: [u8; 32]) -> Result<Leaf, rcgen::Error> {
        let key = key_pair(&key_seed)?;
        let mut params = CertificateParams::new([SERVER_NAME.to_owned()])?;
        params.subject_alt_names.push(SanType::URI(identity.uri().as_str().try_into()?));
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "covey gateway");
        let now = date_time_ymd(1970, 1, 1) + Duration::from_millis(now.0.min(FAR_FUTURE_MS));
        params.not_before = now - BACK_DATED;
        params.not_after = now + VALID_FOR;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&key, &self.issuer)?.der().clone();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        Ok(Leaf { chain: vec![certificate], key })
    }
}

/// The year 2100: what a broken clock is cut to, so that date arithmetic cannot overflow.
const FAR_FUTURE_MS: u64 = 4_102_444_800_000;

fn key_pair(seed: &[u8; 32]) -> Result<KeyPair, rcgen::Error> {
    let pkcs8 = [&PKCS8_ED25519[..], seed].concat();
    KeyPair::from_pkcs8_der_and_sign_algo(&PrivatePkcs8KeyDer::from(pkcs8), &PKCS_ED25519)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(name: &str) -> Identity {
        Identity { name: GatewayName::new(name).expect("a name"), life: LifeId(0xabc << 96 | 7) }
    }

    #[test]
    fn one_secret_gives_one_authority_everywhere() {
        let ca = |secret: [u8; 32]| MeshCa::derive(&secret).expect("derives").certificate();
        assert_eq!(ca([1; 32]), ca([1; 32]));
        assert_ne!(ca([1; 32]), ca([2; 32]));
    }

    #[test]
    fn a_peer_is_known_by_the_name_and_life_in_its_certificate() {
        let ca = MeshCa::derive(&[1; 32]).expect("derives");
        for name in ["g1", "eu-west/gw_1", "Zürich%20", "a.b~c"] {
            let leaf = ca.issue(&identity(name), WallMs(1_700_000_000_000), [9; 32]).expect("issues");
            assert_eq!(Identity::from_certificate(&leaf.chain[0]), Some(identity(name)));
        }
    }

    #[test]
    fn a_clock_at_either_end_of_time_still_issues() {
        let ca = MeshCa::derive(&[1; 32]).expect("derives");
        for now in [WallMs(0), WallMs(u64::MAX)] {
            assert!(ca.issue(&identity("g"), now, [9; 32]).is_ok());
        }
    }

    #[test]
    fn foreign_uris_and_certificates_are_nobody() {
        let life = "0".repeat(32);
        for bad in [
            "spiffe://other/gateway/g/".to_owned() + &life,
            format!("{URI_PREFIX}g"),
            format!("{URI_PREFIX}/{life}"),
            format!("{URI_PREFIX}g/{}", &life[1..]),
            format!("{URI_PREFIX}g/+{}", &life[1..]),
            format!("{URI_PREFIX}g%2/{life}"),
            format!("{URI_PREFIX}g%0A/{life}"),
            format!("{URI_PREFIX}g/{life}/x"),
        ] {
            assert_eq!(Identity::from_uri(&bad), None, "{bad}");
        }
        let ca = MeshCa::derive(&[1; 32]).expect("derives");
        assert_eq!(Identity::from_certificate(&ca.certificate()), None);
        assert_eq!(Identity::from_certificate(&CertificateDer::from(vec![0x30, 0x03, 1, 2, 3])), None);
    }
}
