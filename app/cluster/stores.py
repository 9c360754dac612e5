"""Pictures on disks and in object stores, by their names: a path, or an address as s3://x/y.jpg."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import urllib.parse
import uuid
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from app import images

_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+)://")

_OPTIONS = re.compile(r"\?(?=[a-z_]+=)")  # where an address' options begin; a glob may have a "?"

_OBJECTS = ("s3", "gs", "gcs", "abfs", "abfss")  # where a put is whole by itself

_NO_BUCKET = "there is no such bucket"

# What an address says unless it says otherwise. S3: a picture is put by one request instead of
# three. Google: a store that can't be reached is given up after a minute, not a quarter of an hour.
_USUAL = {
    "s3": "allow_delayed_open=true",
    "gs": "retry_limit_seconds=60",
    "gcs": "retry_limit_seconds=60",
}

# What stores call their errors, and what they mean to whoever gave the command.
_MEANINGS = {
    "NO_SUCH_BUCKET": _NO_BUCKET,
    "NO_SUCH_KEY": "no such file",
    "ACCESS_DENIED": "permission denied",
    "INVALID_ACCESS_KEY_ID": "the store doesn't know these credentials",
    "SIGNATURE_DOES_NOT_MATCH": "the credentials are wrong",
    "NETWORK_CONNECTION": "the store can't be reached",
    "INTERNAL_FAILURE": "the store failed by itself",
    "couldn't connect": "the store can't be reached",
    "could not resolve host": "the store can't be reached: no such host",
    "no credentials": "no credentials",
    "path does not exist": "no such file",
    "bucket does not exist": _NO_BUCKET,
}


def is_address(name: str) -> bool:
    """Whether a name is an object store's; all others are paths."""
    return _SCHEME.match(name) is not None


def split(address: str) -> tuple[str, str]:
    """A name, or a glob, and its options with their question mark, or "" where there are none."""
    found = _OPTIONS.search(address)
    return (address[: found.start()], address[found.start() :]) if found else (address, "")


def join(folder: str, name: str) -> str:
    """A name in a folder; an address keeps its options (``?endpoint_override=...``)."""
    base, mark, options = folder.partition("?")
    return f"{base.rstrip('/')}/{name}{mark}{options}"


def path_of(address: str) -> PurePosixPath:
    """What of an address names files and folders."""
    return PurePosixPath("/" + _SCHEME.sub("", address.partition("?")[0], count=1))


def reason(error: BaseException) -> str:
    """Why a store didn't do what was asked of it, in a few words."""
    if isinstance(error, StoreError):
        return error.reason
    if isinstance(error, NoCredentialsError):
        return images.one_line(str(error))
    text = str(error)
    for sign, meaning in _MEANINGS.items():
        if sign.lower() in text.lower():
            return meaning
    if isinstance(error, FileNotFoundError):
        return "no such file"
    return images.one_line(text or type(error).__name__)


class NoCredentialsError(OSError):
    """This machine has none for a store; the message says how it gets some."""


class StoreError(OSError):
    """A store didn't do what was asked of it; the message names the address and the reason."""

    def __init__(self, address: str, error: BaseException) -> None:
        self.reason = reason(error)
        super().__init__(f"{images.one_line(address)}: {self.reason}")


@functools.cache
def _check_s3_credentials() -> None:
    """Raises NoCredentialsError.

    Without any, AWS' own code asks for them for a minute and more where nobody answers, and then
    goes on without; botocore looks in the same places and gives up after two seconds.
    """
    try:
        import botocore.exceptions
        import botocore.session
    except ImportError:  # the store will tell
        return
    try:
        found = botocore.session.get_session().get_credentials()
    except botocore.exceptions.BotoCoreError as error:
        raise NoCredentialsError(str(error)) from None
    if found is None:
        raise NoCredentialsError(
            "no credentials for S3: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, fill "
            "~/.aws/credentials, or add anonymous=true to an address that is open to all"
        )
    if found.method != "iam-role":
        # Nor is a machine's role asked for what else there is to know.
        os.environ.setdefault("AWS_EC2_METADATA_DISABLED", "true")


@functools.cache
def _check_google_credentials() -> None:
    """Raises NoCredentialsError."""
    try:
        import google.auth
        import google.auth.exceptions
    except ImportError:
        return
    try:
        google.auth.default()
    except google.auth.exceptions.GoogleAuthError:
        raise NoCredentialsError(
            "no credentials for Google's store: run `gcloud auth application-default login`, "
            "set GOOGLE_APPLICATION_CREDENTIALS, or add anonymous=true to an address that is open "
            "to all"
        ) from None


# By scheme; called before the store is asked, which takes its time to find out.
_CHECK_CREDENTIALS = {
    "s3": _check_s3_credentials,
    "gs": _check_google_credentials,
    "gcs": _check_google_credentials,
}


def _anonymous(root: str, given: dict[str, str]) -> Any:
    """A store that is open to all, with an address' other options."""
    from pyarrow import fs

    scheme, _, bucket = root.partition("://")
    if scheme != "s3":
        options = urllib.parse.urlencode(given)
        return fs.FileSystem.from_uri(f"gs://anonymous@{bucket}?{options}")[0]
    if not given.keys() & {"region", "endpoint_override"}:
        given["region"] = fs.resolve_s3_region(bucket)
    return fs.S3FileSystem(anonymous=True, **given)


@functools.lru_cache(64)
def _filesystem(root: str, options: str) -> Any:
    from pyarrow import fs

    address = f"{root}?{options}" if options else root
    scheme = root.partition("://")[0]
    if scheme in _CHECK_CREDENTIALS:
        given = dict(urllib.parse.parse_qsl(options))
        try:
            if given.pop("anonymous", "") == "true":
                return _anonymous(root, given)
            _CHECK_CREDENTIALS[scheme]()
        except Exception as error:
            raise StoreError(address, error) from None
    usual = _USUAL.get(scheme, "")
    if usual and usual.partition("=")[0] not in options:
        with contextlib.suppress(Exception):  # an older pyarrow knows nothing of it
            return fs.FileSystem.from_uri(f"{address}{'&' if options else '?'}{usual}")[0]
    try:
        filesystem, _ = fs.FileSystem.from_uri(address)
    except Exception as error:
        # What pyarrow doesn't know by itself, fsspec may.
        if "unrecognized filesystem type" not in str(error).lower():
            raise StoreError(address, error) from None
        import fsspec

        try:
            filesystem = fs.PyFileSystem(fs.FSSpecHandler(fsspec.filesystem(scheme)))
        except (ImportError, ValueError) as problem:
            raise StoreError(address, problem) from None
    return filesystem


def opened(address: str) -> tuple[Any, str]:
    """The pyarrow file system of an address, and the path in it."""
    base, _, options = address.partition("?")
    scheme, _, path = base.partition("://")
    root = path.partition("/")[0] or "/"  # a bucket; of file:// the disk's root
    return _filesystem(f"{scheme}://{root}", options), path.rstrip("/")


def read(address: str) -> bytes:
    """A whole file. Raises StoreError."""
    try:
        filesystem, path = opened(address)
        with filesystem.open_input_file(path) as file:
            return file.read()
    except StoreError:
        raise
    except Exception as error:
        raise StoreError(address, error) from None


def write(address: str, data: bytes, kind: str = "application/octet-stream") -> None:
    """A whole file or none. Raises StoreError.

    An object appears when its stream is closed; in stores of other kinds the file is moved to its
    place.
    """
    try:
        filesystem, path = opened(address)
        if address.partition("://")[0] in _OBJECTS:
            metadata = {"Content-Type": kind}
            _put(filesystem.open_output_stream(path, metadata=metadata, buffer_size=0), data)
            return
        folder = path.rpartition("/")[0]
        filesystem.create_dir(folder, recursive=True)
        part = f"{folder}/.repaint-{uuid.uuid4().hex}.part"
        try:
            _put(filesystem.open_output_stream(part, buffer_size=0), data)
            filesystem.move(part, path)
        except BaseException:
            with contextlib.suppress(Exception):
                filesystem.delete_file(part)
            raise
    except StoreError:
        raise
    except Exception as error:
        raise StoreError(address, error) from None


def _put(file: Any, data: bytes) -> None:
    file.write(data)
    # Not in a finally clause: what was written of it before an error must not appear.
    file.close()


def remove(address: str) -> None:
    """Removes a file. Raises StoreError."""
    try:
        filesystem, path = opened(address)
        filesystem.delete_file(path)
    except StoreError:
        raise
    except Exception as error:
        raise StoreError(address, error) from None


def kind(address: str) -> str:
    """What an address names: "file", "folder" or "nothing". Raises StoreError."""
    from pyarrow import fs

    try:
        filesystem, path = opened(address)
        found = filesystem.get_file_info(path).type
    except StoreError:
        raise
    except Exception as error:
        raise StoreError(address, error) from None
    return {fs.FileType.File: "file", fs.FileType.Directory: "folder"}.get(found, "nothing")


def has_bucket(address: str) -> bool:
    """Whether there is what an address begins with, as far as listing it tells."""
    try:
        next(files(address, recursive=False), None)
    except StoreError as error:
        return error.reason != _NO_BUCKET
    return True


def files(address: str, recursive: bool) -> Iterator[str]:
    """The addresses of a folder's files, sorted, a folder at a time; hidden ones left out.

    Only one folder's names are in memory at a time. Raises StoreError.
    """
    from pyarrow import fs

    _, _, options = address.partition("?")
    scheme = address.partition("://")[0]
    ending = f"?{options}" if options else ""
    try:
        filesystem, root = opened(address)
        waiting = [root]
        while waiting:
            entries = filesystem.get_file_info(fs.FileSelector(waiting.pop(0)))
            entries.sort(key=lambda entry: entry.path)
            for entry in entries:
                if entry.base_name.startswith("."):
                    continue
                if entry.type == fs.FileType.Directory:
                    if recursive:
                        waiting.append(entry.path)
                else:
                    yield f"{scheme}://{entry.path}{ending}"
    except StoreError:
        raise
    except Exception as error:
        raise StoreError(address, error) from None


def matches(pattern: str) -> Iterator[str]:
    """The addresses that a glob (``*``, ``?``, ``[a-z]``, ``**``) matches. Raises StoreError."""
    base, ending = split(pattern)
    fixed = base.split("/")
    first = next(i for i, part in enumerate(fixed) if any(sign in part for sign in "*?["))
    root = "/".join(fixed[:first])
    wanted = re.compile(_regular(base))
    deep = first < len(fixed) - 1
    for address in files(root + ending, recursive=deep):
        if wanted.fullmatch(address.removesuffix(ending) if ending else address):
            yield address


def root_of(pattern: str) -> str:
    """The folder that a glob's matches lie in."""
    parts = pattern.split("/")
    first = next(i for i, part in enumerate(parts) if any(sign in part for sign in "*?["))
    return "/".join(parts[:first])


def _regular(pattern: str) -> str:
    out, i = "", 0
    while i < len(pattern):
        if pattern.startswith("**/", i):
            out, i = out + "(?:[^/]+/)*", i + 3
        elif pattern[i] == "*":
            out, i = out + "[^/]*", i + 1
        elif pattern[i] == "?":
            out, i = out + "[^/]", i + 1
        elif pattern[i] == "[" and "]" in pattern[i:]:
            end = pattern.index("]", i)
            out, i = out + pattern[i : end + 1].replace("[!", "[^"), end + 1
        else:
            out, i = out + re.escape(pattern[i]), i + 1
    return out
