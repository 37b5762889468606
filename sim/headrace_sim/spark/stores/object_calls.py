"""Calls that put objects into buckets: S3, Google's and Azure's blobs. An object is compared by its content, as a file is."""

import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from headrace_sim.spark.stores.client_objects import (
    ClientKind,
    ClientObject,
    ClientReply,
    error_of,
    nothing,
    recorder,
)
from headrace_sim.spark.stores.store_changes import StoreChange, kept_documents, put, remove

DONE = ClientReply(ResponseMetadata={"HTTPStatusCode": 200}, ETag="etag")


def objects_of(changes: list[StoreChange]) -> dict[str, bytes]:
    """Return the objects that are there after these changes, by address."""
    kept = kept_documents(change for change in changes if "://" in change.target)
    return {target: documents[0]["content"] for target, documents in kept.items() if documents}


def _put(at: ClientObject, action: str, target: str, content: Any, *, overwrite: bool = True) -> ClientReply:
    """Put an object in the place of the one that is there."""
    read = content.read() if hasattr(content, "read") else content
    if not overwrite and at._documents(target):
        raise error_of(at._client, f"{target} exists", "ResourceExistsError")
    at._write(action, put(target, {}, {"content": read.encode() if isinstance(read, str) else bytes(read)}))
    return DONE


def _get(at: ClientObject, target: str, missing: str) -> bytes:
    documents = at._documents(target)
    if not documents:
        raise error_of(at._client, f"{target} is not there", missing)
    return bytes(documents[0]["content"])


class _Download(io.BytesIO):
    """What minio gives of an object: to be read, closed and released."""

    @property
    def data(self) -> bytes:
        """All of it."""
        return self.getvalue()

    def release_conn(self) -> None:
        """Do nothing."""


def _s3(bucket: Any, key: Any) -> str:
    return f"s3://{bucket}/{key}"


def _list(_at: ClientObject, Bucket: str, Prefix: str = "") -> ClientReply:
    start = _s3(Bucket, Prefix)
    names = [target for target in objects_of(recorder().changes()) if target.startswith(start)]
    contents = [{"Key": name.removeprefix(_s3(Bucket, ""))} for name in names]
    return ClientReply(
        KeyCount=len(contents), IsTruncated=False, **({"Contents": contents} if contents else {})
    )


def _upload_file(at: ClientObject, Filename: str, Bucket: str, Key: str) -> None:
    _put(at, "upload_file", _s3(Bucket, Key), Path(Filename).read_bytes())


S3: Mapping[str, Callable[..., Any]] = {
    "put_object": lambda at, Bucket, Key, Body=b"": _put(at, "put_object", _s3(Bucket, Key), Body),
    "get_object": lambda at, Bucket, Key: ClientReply(Body=io.BytesIO(_get(at, _s3(Bucket, Key), "NoSuchKey"))),
    "head_object": lambda at, Bucket, Key: ClientReply(DONE, ContentLength=len(_get(at, _s3(Bucket, Key), "404"))),
    "list_objects_v2": _list,
    "delete_object": lambda at, Bucket, Key: at._write("delete_object", remove(_s3(Bucket, Key), {})),
    "upload_fileobj": lambda at, Fileobj, Bucket, Key: _put(at, "upload_fileobj", _s3(Bucket, Key), Fileobj),
    "upload_file": _upload_file,
}  # fmt: skip
S3_OBJECT = ClientKind(
    "boto3's S3 object",
    {
        "put": lambda at, Body=b"": _put(at, "put", _s3(*at._names[-2:]), Body),
        "get": lambda at: ClientReply(Body=io.BytesIO(_get(at, _s3(*at._names[-2:]), "NoSuchKey"))),
        "delete": lambda at: at._write("delete", remove(_s3(*at._names[-2:]), {})),
    },
)
S3_BUCKET = ClientKind(
    "boto3's S3 bucket",
    {"put_object": lambda at, Key, Body=b"": _put(at, "put_object", _s3(at._names[-1], Key), Body)},
    {"Object": S3_OBJECT},
)


def _minio_list(
    _at: ClientObject, bucket_name: str, prefix: str | None = None, **_: Any
) -> list[ClientReply]:
    contents = _list(_at, bucket_name, prefix or "").get("Contents", ())
    return [ClientReply(object_name=each["Key"], bucket_name=bucket_name) for each in contents]


MINIO = ClientKind(
    "minio's client",
    {
        "put_object": lambda at, bucket_name, object_name, data, length=-1, *_, **__: _put(
            at, "put_object", _s3(bucket_name, object_name), data
        ),
        "fput_object": lambda at, bucket_name, object_name, file_path, *_, **__: _put(
            at, "fput_object", _s3(bucket_name, object_name), Path(file_path).read_bytes()
        ),
        "get_object": lambda at, bucket_name, object_name, *_, **__: _Download(
            _get(at, _s3(bucket_name, object_name), "S3Error")
        ),
        "stat_object": lambda at, bucket_name, object_name, *_, **__: ClientReply(
            size=len(_get(at, _s3(bucket_name, object_name), "S3Error"))
        ),
        "remove_object": lambda at, bucket_name, object_name, *_, **__: at._write(
            "remove_object", remove(_s3(bucket_name, object_name), {})
        ),
        "list_objects": _minio_list, "list_buckets": nothing(()), "bucket_exists": nothing(True), "make_bucket": nothing(),
    },
)  # fmt: skip


def _blob(at: ClientObject) -> str:
    return f"gs://{'/'.join(at._names)}"


_GOOGLE_BLOB = ClientKind(
    "google.cloud.storage's blob",
    {
        "upload_from_string": lambda at, data, content_type=None: _put(at, "upload_from_string", _blob(at), data),
        "exists": lambda at: bool(at._documents(_blob(at))),
        "download_as_bytes": lambda at: _get(at, _blob(at), "NotFound"),
        "download_as_text": lambda at: _get(at, _blob(at), "NotFound").decode(),
        "delete": lambda at: at._write("delete", remove(_blob(at), {})),
    },
)  # fmt: skip
_GOOGLE_BUCKET = ClientKind("google.cloud.storage's bucket", opens={"blob": _GOOGLE_BLOB})
GOOGLE_STORAGE = ClientKind(
    "google.cloud.storage's client", opens={"bucket": _GOOGLE_BUCKET, "get_bucket": _GOOGLE_BUCKET}
)


def _azure(at: ClientObject, *more: str) -> str:
    return f"azure://{'/'.join((*at._names, *more))}"


_AZURE_BLOB = ClientKind(
    "azure's blob client",
    {
        "upload_blob": lambda at, data, overwrite=False: _put(at, "upload_blob", _azure(at), data, overwrite=overwrite),
        "exists": lambda at: bool(at._documents(_azure(at))),
        "delete_blob": lambda at: at._write("delete_blob", remove(_azure(at), {})),
    },
)  # fmt: skip
_AZURE_CONTAINER = ClientKind(
    "azure's container client",
    {
        "upload_blob": lambda at, name, data, overwrite=False: _put(
            at, "upload_blob", _azure(at, name), data, overwrite=overwrite
        )
    },
    {"get_blob_client": _AZURE_BLOB},
)
AZURE_STORAGE = ClientKind(
    "azure's blob service", opens={"get_blob_client": _AZURE_BLOB, "get_container_client": _AZURE_CONTAINER}
)
