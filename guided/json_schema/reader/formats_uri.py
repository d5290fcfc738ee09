"""Addresses: IP (RFC 2673, RFC 4291), URI (RFC 3986), IRI (RFC 3987) and templates (RFC 6570)."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["IPV4", "IPV6", "IRI", "IRI_REFERENCE", "URI", "URI_REFERENCE", "URI_TEMPLATE"]

_OCTET = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
IPV4 = rf"{_OCTET}(?:\.{_OCTET}){{3}}"


def _ipv6() -> str:
    # RFC 3986, section 3.2.2: "::" stands for one group of zeros or more.
    group = r"[0-9A-Fa-f]{1,4}"
    last = rf"(?:{group}:{group}|{IPV4})"
    options = [f"(?:{group}:){{6}}{last}"]
    for behind in range(5, -1, -1):
        before = 5 - behind
        head = rf"(?:(?:{group}:){{0,{before - 1}}}{group})?" if before else ""
        options.append(rf"{head}::(?:{group}:){{{behind}}}{last}")
    options.append(rf"(?:(?:{group}:){{0,5}}{group})?::{group}")
    options.append(rf"(?:(?:{group}:){{0,6}}{group})?::")
    return f"(?:{'|'.join(options)})"


IPV6 = _ipv6()

_UCS = (
    r"\u{A0}-\u{D7FF}\u{F900}-\u{FDCF}\u{FDF0}-\u{FFEF}"
    + "".join(rf"\u{{{plane:X}0000}}-\u{{{plane:X}FFFD}}" for plane in range(1, 14))
    + r"\u{E1000}-\u{EFFFD}"
).replace(r"\u{E0000}", r"\u{E1000}")
_PRIVATE = r"\u{E000}-\u{F8FF}\u{F0000}-\u{FFFFD}\u{100000}-\u{10FFFD}"
_ESCAPED = "%[0-9A-Fa-f]{2}"


@dataclass(frozen=True, slots=True)
class _Grammar:
    """The rules of RFC 3986, appendix A, with the further characters of RFC 3987."""

    characters: str = ""
    private: str = ""

    def _any_of(self, more: str) -> str:
        return rf"(?:[A-Za-z0-9\-._~!$&'()*+,;={self.characters}{more}]|{_ESCAPED})"

    @property
    def _authority(self) -> str:
        user = rf"(?:{self._any_of(':')}*@)?"
        future = r"[Vv][0-9A-Fa-f]+\.[A-Za-z0-9\-._~!$&'()*+,;=:]+"
        # The dotted quad is a registered name as well.
        return rf"{user}(?:\[(?:{IPV6}|{future})\]|{self._any_of('')}*)(?::\d*)?"

    @property
    def _tail(self) -> str:
        return rf"(?:\?{self._any_of(':@/?' + self.private)}*)?(?:#{self._any_of(':@/?')}*)?"

    @property
    def absolute(self) -> str:
        """URI."""
        segment = self._any_of(":@")
        rest = rf"(?://{self._authority}(?:/{segment}*)*|/(?:{segment}+(?:/{segment}*)*)?"
        return rf"[A-Za-z][A-Za-z0-9+.\-]*:{rest}|(?:{segment}+(?:/{segment}*)*)?){self._tail}"

    @property
    def reference(self) -> str:
        """URI-reference: absolute, or relative to another one."""
        segment = self._any_of(":@")
        relative = (
            rf"(?://{self._authority}(?:/{segment}*)*|/(?:{segment}+(?:/{segment}*)*)?"
            rf"|(?:{self._any_of('@')}+(?:/{segment}*)*)?){self._tail}"
        )
        return f"(?:{self.absolute}|{relative})"


URI = _Grammar().absolute
URI_REFERENCE = _Grammar().reference
IRI = _Grammar(_UCS, _PRIVATE).absolute
IRI_REFERENCE = _Grammar(_UCS, _PRIVATE).reference

# RFC 6570, section 2. The apostrophe is a literal by erratum 6937; the operators that are kept for
# later versions are left out.
_LITERAL = rf"(?:[!#-$&-;=?-\[\]_a-z~{_UCS}{_PRIVATE}]|{_ESCAPED})"
_LETTER = rf"(?:[A-Za-z0-9_]|{_ESCAPED})"
_VARIABLE = rf"{_LETTER}(?:\.?{_LETTER})*(?::[1-9]\d{{0,3}}|\*)?"
URI_TEMPLATE = rf"(?:{_LITERAL}|\{{[+#./;?&]?{_VARIABLE}(?:,{_VARIABLE})*\}})*"
