"""What stores call their errors is told in a few words, once; where credentials lack, at once."""

import os
import socket

import pytest

from app.cluster import stores

# As pyarrow tells them.
ERRORS = {
    "When uploading object with key 'a.png' in bucket 'b': AWS Error ACCESS_DENIED during "
    "PutObject operation: Access Denied": "permission denied",
    "When listing objects under key 'in/' in bucket 'b': AWS Error NO_SUCH_BUCKET during "
    "ListObjectsV2 operation: The specified bucket does not exist": "there is no such bucket",
    "AWS Error SIGNATURE_DOES_NOT_MATCH during PutObject operation: The request signature we "
    "calculated does not match the signature you provided.": "the credentials are wrong",
    "AWS Error INVALID_ACCESS_KEY_ID during PutObject operation: The AWS Access Key Id you "
    "provided does not exist in our records.": "the store doesn't know these credentials",
    "AWS Error NETWORK_CONNECTION during PutObject operation: curlCode: 7, Couldn't connect to "
    "server": "the store can't be reached",
}


@pytest.mark.parametrize("told", ERRORS)
def test_an_error_is_told_in_a_few_words_however_often_it_is_handed_on(told):
    error = OSError(told)
    assert stores.reason(error) == ERRORS[told]
    once = stores.StoreError("s3://b/a.png", error)
    assert str(once) == f"s3://b/a.png: {ERRORS[told]}"
    assert stores.reason(once) == ERRORS[told]
    assert str(stores.StoreError("s3://b", once)) == f"s3://b: {ERRORS[told]}"


@pytest.fixture
def nothing_configured(monkeypatch, tmp_path):
    """No credentials of AWS, and a place for a machine's role that takes calls and says nothing."""
    pytest.importorskip("botocore", reason="the cluster's requirements are not installed")
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    # What the check sets is taken back at the end, too.
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "false")
    for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
        monkeypatch.setenv(name, str(tmp_path / name))
    stores._check_s3_credentials.cache_clear()
    stores._filesystem.cache_clear()
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", address)
        yield monkeypatch
    stores._check_s3_credentials.cache_clear()
    stores._filesystem.cache_clear()


def test_without_credentials_the_store_is_not_asked(nothing_configured):
    with pytest.raises(stores.StoreError, match="no credentials for S3: set AWS_ACCESS_KEY_ID"):
        stores.read("s3://museum/a.png?endpoint_override=127.0.0.1:9&scheme=http")


def test_half_of_the_credentials_are_none(nothing_configured):
    nothing_configured.setenv("AWS_ACCESS_KEY_ID", "key")
    with pytest.raises(stores.StoreError, match="missing: AWS_SECRET_ACCESS_KEY"):
        stores.kind("s3://museum/a.png?endpoint_override=127.0.0.1:9&scheme=http")


def test_a_store_that_is_open_to_all_needs_none(nothing_configured):
    address = "s3://museum/a.png?anonymous=true&endpoint_override=127.0.0.1:9&scheme=http"
    filesystem, path = stores.opened(address)
    assert (filesystem.type_name, path) == ("s3", "museum/a.png")


@pytest.mark.parametrize(
    ("address", "base", "options"),
    [
        ("s3://b/?.png", "s3://b/?.png", ""),
        ("s3://b/?.png?region=x&scheme=http", "s3://b/?.png", "?region=x&scheme=http"),
        ("s3://b/a?anonymous=true", "s3://b/a", "?anonymous=true"),
    ],
)
def test_a_globs_question_mark_is_not_where_options_begin(address, base, options):
    assert stores.split(address) == (base, options)
