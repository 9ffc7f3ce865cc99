"""The border on a real socket: what only bytes on a wire can show."""

import contextlib
import socket
import threading
import time

import pytest

from tests.judge_service.gate.border import Border
from tests.judge_service.serving import serving


def head(port: int, *, key: str | None, extra: str) -> bytes:
    authorization = f"Authorization: Bearer {key}\r\n" if key else ""
    start = f"POST /things HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
    return f"{start}{authorization}{extra}\r\n".encode()


def answer(connection: socket.socket) -> str:
    connection.settimeout(10)
    received = b""
    with contextlib.suppress(ConnectionError):
        while b"request_id" not in received and (piece := connection.recv(65536)):
            received += piece
    return received.decode()


@pytest.fixture(scope="module")
def border():
    return Border(limit=100_000, silence_s=0.3)


@pytest.fixture(scope="module")
def port(border):
    with serving(border.app, lifespan="off") as number:
        yield number


def send_chunks(connection: socket.socket, most: int) -> int:
    """Send chunks until the other side stops reading or `most` bytes are sent; bytes sent."""
    connection.settimeout(0.5)
    sent = 0
    chunk = b"2000\r\n" + b" " * 0x2000 + b"\r\n"
    with contextlib.suppress(OSError):
        while sent < most:
            connection.sendall(chunk)
            sent += 0x2000
            time.sleep(0)
    return sent


def test_chunks_without_a_length_are_cut_off(border, port):
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(head(port, key=border.key(), extra="Transfer-Encoding: chunked\r\n"))
        send_chunks(connection, 200_000)
        received = answer(connection)
    assert received.startswith("HTTP/1.1 413")
    assert '"code": "too_large"' in received


def test_chunks_without_a_key_are_answered_before_any_is_read(port):
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(head(port, key=None, extra="Transfer-Encoding: chunked\r\n"))
        received = answer(connection)
    assert received.startswith("HTTP/1.1 401")


@pytest.mark.parametrize("key", [True, False])
def test_a_large_length_is_answered_before_any_byte_of_the_body(border, port, key):
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(head(port, key=border.key() if key else None, extra="Content-Length: 9999999999\r\n"))
        received = answer(connection)
    assert received.startswith("HTTP/1.1 413")


def test_a_body_that_stops_half_way_is_408(border, port):
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(head(port, key=border.key(), extra="Content-Length: 50\r\n") + b'{"value": ')
        received = answer(connection)
    assert received.startswith("HTTP/1.1 408")
    assert '"code": "request_timeout"' in received


def test_a_slow_body_that_keeps_coming_is_served(border, port):
    body = b'{"value": [1, 2]}'
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(head(port, key=border.key(), extra=f"Content-Length: {len(body)}\r\nConnection: close\r\n"))
        for start in range(0, len(body), 6):
            threading.Event().wait(0.05)
            connection.sendall(body[start : start + 6])
        connection.settimeout(10)
        received = b""
        while piece := connection.recv(65536):
            received += piece
    assert received.startswith(b"HTTP/1.1 200")
    assert b'"value":[1,2]' in received


def test_a_client_that_leaves_half_way_harms_nobody(border, port):
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(head(port, key=border.key(), extra="Content-Length: 50\r\n") + b"{")
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(head(port, key=None, extra="Content-Length: 2\r\n") + b"{}")
        assert answer(connection).startswith("HTTP/1.1 401")


@pytest.mark.parametrize(
    "extra", ["Content-Length: -1\r\n", "Content-Length: ten\r\n", "Content-Length: 5\r\nContent-Length: 6\r\n"]
)
def test_a_nonsense_length_is_a_400_of_the_server(border, port, extra):
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(head(port, key=border.key(), extra=extra))
        connection.settimeout(10)
        assert connection.recv(65536).startswith(b"HTTP/1.1 400")
