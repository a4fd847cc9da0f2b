"""Certificates that nobody but a test trusts."""

import datetime as dt
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = dt.timedelta(days=1)


class Authority:
    """Who signs them, and the file by which it is known."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._key = folder, ec.generate_private_key(ec.SECP256R1())
        self._name = _named("an authority of the tests")
        self.file = folder / "authority.pem"
        made = self._signed(self._name, self._key, x509.BasicConstraints(ca=True, path_length=0))
        self.file.write_bytes(made.public_bytes(serialization.Encoding.PEM))

    def issue(self, name: str) -> tuple[Path, Path]:
        """Return a certificate for a host, an address or a person, and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        made = self._signed(_named(name), key, x509.SubjectAlternativeName([_place(name)]))
        files = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        files[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
        form = serialization.PrivateFormat.PKCS8
        files[1].write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
        files[1].chmod(0o600)
        return files

    def _signed(self, name: x509.Name, key: ec.EllipticCurvePrivateKey, about: x509.ExtensionType) -> x509.Certificate:
        now = dt.datetime.now(dt.UTC)
        number = x509.random_serial_number()
        made = x509.CertificateBuilder(self._name, name, key.public_key(), number, now - DAY, now + DAY)
        return made.add_extension(about, critical=False).sign(self._key, hashes.SHA256())


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _place(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)
