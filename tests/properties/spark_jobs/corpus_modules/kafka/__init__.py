"""As much of kafka-python as the corpus uses: a thread of its own sends what `send` is given."""

import socket
import threading
from concurrent.futures import Future


class KafkaProducer:
    def __init__(self, bootstrap_servers="localhost:9092", key_serializer=None, value_serializer=None, **options):
        host, _, port = bootstrap_servers.partition(":")
        self._address = (host, int(port))
        self._serializers = key_serializer, value_serializer
        self._waiting = []
        self._wake = threading.Condition()
        self._sender = threading.Thread(target=self._send_all, daemon=True)
        self._sender.start()

    def send(self, topic, value=None, key=None, headers=None, partition=None, timestamp_ms=None):
        key, value = (
            part if part is None or serializer is None else serializer(part)
            for serializer, part in zip(self._serializers, (key, value))
        )
        future = Future()
        with self._wake:
            self._waiting.append((topic, key, value, future))
            self._wake.notify()
        return future

    def flush(self, timeout=None):
        with self._wake:
            waiting = [future for *_, future in self._waiting]
        for future in waiting:
            future.result(timeout)

    def close(self, timeout=None):
        self.flush(timeout)

    def _send_all(self):
        connection = None
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._waiting)
                topic, key, value, future = self._waiting.pop(0)
            connection = connection or socket.create_connection(self._address)
            connection.sendall(b"\0".join((topic.encode(), key or b"", value or b"")) + b"\n")
            future.set_result(None)
