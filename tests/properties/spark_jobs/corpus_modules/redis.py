"""As much of redis as the corpus uses: commands go through `execute_command`, over a socket."""

import socket


class RedisError(Exception): ...


class ConnectionError(RedisError): ...  # its own name


class Redis:
    def __init__(self, host="localhost", port=6379, db=0, password=None, decode_responses=False, **options):
        self.host, self.port, self.db, self.decode_responses = host, port, db, decode_responses
        self._socket = None

    def execute_command(self, *args, **options):
        if self._socket is None:
            try:
                self._socket = socket.create_connection((self.host, self.port), timeout=5)
            except OSError as error:
                raise ConnectionError(str(error)) from error
        parts = [str(arg).encode() for arg in args]
        head = b"*%d\r\n" % len(parts)
        self._socket.sendall(head + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts))
        return self._socket.recv(65536)

    def get(self, name):
        return self.execute_command("GET", name)

    def set(self, name, value, ex=None, nx=False):
        return self.execute_command("SET", name, value)

    def sadd(self, name, *values):
        return self.execute_command("SADD", name, *values)

    def hset(self, name, key=None, value=None, mapping=None):
        pairs = [item for pair in (mapping or {}).items() for item in pair]
        return self.execute_command("HSET", name, *((key, value) if key is not None else ()), *pairs)

    def hincrby(self, name, key, amount=1):
        return self.execute_command("HINCRBY", name, key, amount)

    def close(self):
        if self._socket is not None:
            self._socket.close()
            self._socket = None


StrictRedis = Redis
