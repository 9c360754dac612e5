"""What stores call their errors is told in a few words, once."""

import pytest

from app.cluster import stores

# As pyarrow tells them.
ERRORS = {
    "When uploading object with key 'a.png' in bucket 'b': AWS Error ACCESS_DENIED during "
    "PutObject operation: Access Denied": "permission denied, or no credentials",
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
