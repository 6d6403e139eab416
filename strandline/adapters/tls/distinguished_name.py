"""The subject of a certificate as text (RFC 2253), from the bytes of the certificate.

One function for every listener: what gRPC and Python say of the same subject differs for surnames, unknown
attributes and blanks, and so one certificate was two principals.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from asn1crypto.core import Any as AnyValue
from asn1crypto.core import ObjectIdentifier, Sequence, SequenceOf, SetOf
from asn1crypto.x509 import Certificate

from strandline.security.login.steps import LoginRefused, Why


class _Attribute(Sequence):  # type: ignore[misc]  # asn1crypto ships no types
    _fields = [("type", ObjectIdentifier), ("value", AnyValue)]  # noqa: RUF012 - asn1crypto reads it


class _RelativeName(SetOf):  # type: ignore[misc]
    _child_spec = _Attribute


class _Name(SequenceOf):  # type: ignore[misc]
    _child_spec = _RelativeName


def subject_of(certificate: bytes) -> str:
    """The subject of a certificate in DER, the most special name first; "" if it is empty.

    Attributes that have a short name (`SHORT_NAMES`) are written with it, others with their number and the
    bytes of the value: `1.2.3=#0C024445`. Raises LoginRefused for bytes that are no certificate.
    """
    try:
        name = _Name.load(Certificate.load(certificate, strict=True)["tbs_certificate"]["subject"].dump())
        return ",".join("+".join(map(_attribute, reversed(list(part)))) for part in reversed(list(name)))
    except (ValueError, TypeError) as error:
        raise LoginRefused(f"the certificate cannot be read: {error}", Why.CERTIFICATE) from error


def _attribute(attribute: _Attribute) -> str:
    number: str = attribute["type"].dotted
    short = SHORT_NAMES.get(number)
    text = None if short is None else _text(attribute["value"])
    if text is None:
        return f"{short or number}=#{attribute['value'].dump().hex().upper()}"
    return f"{short}={_escaped(text)}"


_ENCODINGS: Final[Mapping[int, str]] = {
    12: "utf-8",  # UTF8String
    18: "latin-1",  # NumericString
    19: "latin-1",  # PrintableString
    20: "latin-1",  # TeletexString: as it is used
    22: "latin-1",  # IA5String
    26: "latin-1",  # VisibleString
    28: "utf-32-be",  # UniversalString
    30: "utf-16-be",  # BMPString
}
"""By tag."""


def _text(value: AnyValue) -> str | None:
    """None for a value that is no text."""
    parsed = value.parse()
    encoding = _ENCODINGS.get(parsed.tag)
    if parsed.class_ != 0 or encoding is None:
        return None
    try:
        text: str = parsed.contents.decode(encoding)
    except UnicodeDecodeError:
        return None
    return text


_ESCAPED: Final = frozenset(',+"\\<>;')


def _escaped(value: str) -> str:
    text = "".join(f"\\{char}" if char in _ESCAPED else char for char in value)
    if text[:1] in ("#", " "):
        text = f"\\{text}"
    return f"{text[:-1]}\\ " if len(value) > 1 and value.endswith(" ") else text


_X500: Final = "2.5.4"
_PILOT: Final = "0.9.2342.19200300.100.1"
_PKCS9: Final = "1.2.840.113549.1.9"

_BY_ARC: Final[Mapping[str, Mapping[int, str]]] = {
    _X500: {
        3: "CN",
        4: "SN",
        5: "serialNumber",
        6: "C",
        7: "L",
        8: "ST",
        9: "street",
        10: "O",
        11: "OU",
        12: "title",
        13: "description",
        14: "searchGuide",
        15: "businessCategory",
        16: "postalAddress",
        17: "postalCode",
        18: "postOfficeBox",
        19: "physicalDeliveryOfficeName",
        20: "telephoneNumber",
        21: "telexNumber",
        22: "teletexTerminalIdentifier",
        23: "facsimileTelephoneNumber",
        24: "x121Address",
        25: "internationaliSDNNumber",
        26: "registeredAddress",
        27: "destinationIndicator",
        31: "member",
        32: "owner",
        33: "roleOccupant",
        34: "seeAlso",
        41: "name",
        42: "GN",
        43: "initials",
        44: "generationQualifier",
        45: "x500UniqueIdentifier",
        46: "dnQualifier",
        49: "distinguishedName",
        50: "uniqueMember",
        51: "houseIdentifier",
        54: "dmdName",
        65: "pseudonym",
        72: "role",
    },
    _PILOT: {
        1: "UID",
        2: "textEncodedORAddress",
        3: "mail",
        4: "info",
        5: "favouriteDrink",
        6: "roomNumber",
        8: "userClass",
        9: "host",
        10: "manager",
        20: "homeTelephoneNumber",
        21: "secretary",
        25: "DC",
        37: "associatedDomain",
        38: "associatedName",
        39: "homePostalAddress",
        40: "personalTitle",
        41: "mobileTelephoneNumber",
        42: "pagerTelephoneNumber",
        43: "friendlyCountryName",
        45: "organizationalStatus",
        48: "buildingName",
    },
    _PKCS9: {1: "emailAddress", 2: "unstructuredName", 8: "unstructuredAddress", 20: "friendlyName"},
}

SHORT_NAMES: Final[Mapping[str, str]] = {
    f"{arc}.{number}": name for arc, names in _BY_ARC.items() for number, name in names.items()
}
"""By number, as gRPC's TLS library has them, so that principals are what they were over gRPC."""
