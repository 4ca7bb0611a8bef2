"""What an S3 server or the way to it says of a failure, as Torpor's errors."""

from __future__ import annotations

from botocore import exceptions as said
from botocore.parsers import ResponseParserError

from torpor.errors import MissingPart, NoRights, NoSpace, NotFound, StepFailed, TorporError
from torpor.store.backend import NoObject, Passing

_ABSENT = {"NoSuchKey", "NotFound", "404"}
_FULL = {"InsufficientStorage", "QuotaExceeded", "XMinioStorageFull", "507"}
_FORBIDDEN = {
    "AccessDenied",
    "AllAccessDisabled",
    "ExpiredToken",
    "InvalidToken",
    "RequestTimeTooSkewed",
    "TokenRefreshRequired",
}
_PASSING = {
    "BadDigest",
    "ConditionalRequestConflict",
    "IncompleteBody",
    "InternalError",
    "NoSuchUpload",  # its parts were removed meanwhile; all of it can be written again
    "OperationAborted",
    "RequestTimeout",
    "ServiceUnavailable",
    "SlowDown",
    "Throttling",
    "TooManyRequests",
    "XAmzContentSHA256Mismatch",
}
_PASSING_STATUS = {408, 429, 500, 502, 503, 504}


class _NoBucket(NoObject):
    """Nothing is in the store: its bucket is missing."""

    def __init__(self, url: str, name: str) -> None:
        NotFound.__init__(
            self,
            f"there can be no store at {url}: its bucket is not there",
            hint="make the bucket first; Torpor makes none",
            details={"object": name},
        )


def translated(error: Exception, url: str, what: str) -> TorporError:
    """The error for `what` (an object's name, or a kind of objects) of the store at `url`."""
    where = f"{what} of the store {url}"
    if isinstance(error, said.ClientError):
        return _answered(error, url, what)
    if isinstance(error, _CREDENTIALS):
        return NoRights(
            f"no credentials for {where}: {error}",
            hint="as for any S3 tool: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile in ~/.aws",
        )
    if isinstance(error, said.MissingDependencyException):
        return MissingPart(f"the credentials for {where} need a package that is not here: {error}")
    if isinstance(error, said.SSLError) and "CERTIFICATE" in str(error).upper():
        return StepFailed(step="store", reason=f"{where}: {error}", hint="name the certificates in AWS_CA_BUNDLE")
    if isinstance(error, _BROKEN_OFF):
        return Passing(step="store", reason=f"{where}: {error}", hint="check the network, and the server's address")
    return StepFailed(step="store", reason=f"{where}: {error}")


def code_of(error: said.ClientError) -> str:
    """The word by which the server names the failure; the HTTP status where it gives none."""
    return str(error.response.get("Error", {}).get("Code") or status_of(error))


def status_of(error: said.ClientError) -> int:
    """The HTTP status, 0 where there is none."""
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") or 0)


def refused(code: str, status: int, message: str, url: str, what: str) -> TorporError:
    """The error for an answer with that code, status and text."""
    where = f"{what} of the store {url}"
    told = f"{where}: the server says {code}" + (f", {message.rstrip('.')}" if message else "")
    if code == "NoSuchBucket":
        return _NoBucket(url, what)
    if code in _ABSENT:
        return NoObject(f"the store {url}", what)
    if code in _FULL or status == 507:
        return NoSpace(f"no space for {told}", hint="make room, or `torpor rm` images and `torpor prune`")
    if code in _PASSING or status in _PASSING_STATUS:
        return Passing(step="store", reason=told, hint="the server is busy or has a fault; try again later")
    if code in _FORBIDDEN or status in (401, 403):
        return NoRights(f"no right to {told}", hint="check the credentials, and what they may do in this bucket")
    return StepFailed(step="store", reason=told)


def _answered(error: said.ClientError, url: str, what: str) -> TorporError:
    message = str(error.response.get("Error", {}).get("Message") or "")
    return refused(code_of(error), status_of(error), message, url, what)


_CREDENTIALS = (
    said.NoCredentialsError,
    said.PartialCredentialsError,
    said.CredentialRetrievalError,
    said.TokenRetrievalError,
    said.SSOError,
)
_BROKEN_OFF = (
    said.ConnectionError,
    said.HTTPClientError,
    said.IncompleteReadError,
    said.FlexibleChecksumError,
    ResponseParserError,
)
