"""Run by python/test: installs the package into an environment of its own, then this."""

import ast
import contextlib
import io
import os
import pathlib
import struct
import tempfile
import unittest

import tantalum

KERNEL, NO_PERMISSION, ENDED = 0, -5, -8
READ, WRITE = 1, 2


def section(number, body):
    return bytes([number, len(body)]) + body


def name(text):
    return bytes([len(text)]) + text.encode()


def module(function, body):
    """A program with one handler, whose function has a name."""
    named = b"\x01\x00" + name(function)
    code = b"\x00" + body + b"\x0b"
    return (
        b"\0asm\1\0\0\0"
        + section(1, b"\x01\x60\x02\x7f\x7f\x00")
        + section(3, b"\x01\x00")
        + section(7, b"\x01" + name("rpc_0") + b"\x00\x00")
        + section(10, bytes([1, len(code)]) + code)
        + section(0, name("name") + bytes([1, len(named)]) + named)
    )


class ProgramsTest(unittest.TestCase):
    def setUp(self):
        self.ssd = tantalum.Ssd(capacity_bytes=64 << 20)
        self.endpoint = self.ssd.endpoint()

    def tearDown(self):
        self.ssd.close()

    def count(self, endpoint):
        hits = endpoint.install(tantalum.shipped("hits"))
        return [endpoint.ask(3, hits, 0, struct.pack("<I", page)) for page in (7, 7, 8, 64)]

    def test_a_program_keeps_its_variables_and_time_is_the_drives(self):
        self.assertEqual(self.count(self.endpoint), [1, 2, 1, -10])
        with tantalum.Ssd(capacity_bytes=64 << 20) as other:
            self.count(other.endpoint())
            self.assertEqual(other.now_ns, self.ssd.now_ns)
            self.assertGreater(other.now_ns, 0)

    def test_what_cannot_be_is_refused(self):
        with self.assertRaises(ValueError):
            tantalum.Ssd("no such drive")
        with self.assertRaises(ValueError):
            tantalum.shipped("no such program")
        with self.assertRaises(ValueError):
            self.endpoint.install(b"\0asm")
        with tantalum.Ssd(capacity_bytes=64 << 20) as other, self.assertRaises(ValueError):
            other.endpoint(of=self.endpoint)
        with self.assertRaises(ValueError):
            self.ssd.endpoint(is_kernel=True, of=self.endpoint)
        hits = self.endpoint.install(tantalum.shipped("hits"))
        with self.assertRaises(ValueError):
            self.endpoint.ask(99, hits, 0)
        with self.assertRaises(tantalum.TantalumError):
            self.endpoint.grant(self.endpoint.process, 0, 4096, READ)
        another = self.ssd.endpoint(of=self.endpoint)
        self.assertEqual(another.process, self.endpoint.process)
        another.close()
        called = self.endpoint.install(tantalum.shipped("echo"))
        self.endpoint.allow_calls(hits, called, [0])
        self.endpoint.uninstall(called)
        with self.assertRaises(tantalum.TantalumError):
            self.endpoint.allow_calls(hits, called, [0])
        with self.assertRaises(tantalum.TantalumError):
            another.ask(0, hits, 0)
        self.endpoint.uninstall(hits)
        with self.assertRaises(tantalum.TantalumError):
            self.endpoint.output(hits, 0)

    def test_rights_are_granted_and_data_are_served(self):
        kernel = self.ssd.endpoint(is_kernel=True)
        direct = kernel.install(tantalum.shipped("direct_io"), is_open=True)
        address = 3 << 20
        kernel.write(direct, address, b"7" * 100_000)
        kernel.flush(direct)
        read = struct.pack("<QII", address, 8, 1)
        owner = self.ssd.owner(address)
        self.assertEqual(self.endpoint.ask(owner, direct, 0, read), NO_PERMISSION)
        told = self.endpoint.receive()
        self.assertEqual((told.kind, told.is_granted, told.range[0]), ("permission", False, address))
        kernel.grant(self.endpoint.process, address, address + 100_000, READ)
        sent = self.endpoint.send(owner, direct, 0, read, at_ns=self.ssd.now_ns + 1000)
        served, kinds = [], set()
        while event := self.endpoint.serve({0: served.append}):
            kinds.add(event.kind)
            if event.kind == "answer":
                self.assertEqual((event.request, event.status), (sent, 0))
        self.assertEqual(kinds, {"answer", "request"})
        self.assertEqual([event.body[16:] for event in served], [b"7" * 8])
        self.assertEqual(self.endpoint.read(direct, address, 100_000), b"7" * 100_000)
        with self.assertRaises(tantalum.TantalumError):
            self.endpoint.write(direct, address, b"8")

    def test_a_fault_ends_the_program_and_says_in_which_function(self):
        endless = self.endpoint.install(module("forever", b"\x03\x40\x0c\x00\x0b"))
        self.assertEqual(self.endpoint.ask(0, endless, 0), ENDED)
        told = self.endpoint.receive()
        self.assertEqual((told.kind, told.program, told.handler), ("ended", endless, 0))
        self.assertTrue(told.body.endswith(b"in `forever`"), told.body)
        self.assertIsNone(self.endpoint.receive())

    def test_power_goes_and_comes_back(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "drive.tant")
            with tantalum.Ssd(path=path, capacity_bytes=64 << 20) as ssd:
                kernel = ssd.endpoint(is_kernel=True)
                base_io = kernel.install(tantalum.shipped("base_io"))
                kernel.write(base_io, 8192, b"kept")
                kernel.flush(base_io)
                ssd.cut_power()
                with self.assertRaises(tantalum.PowerLostError):
                    kernel.read(base_io, 8192, 4)
                self.assertEqual(kernel.receive().kind, "power lost")
                ssd.power_on(17)
                base_io = kernel.install(tantalum.shipped("base_io"))
                self.assertEqual(kernel.read(base_io, 8192, 4), b"kept")
            with tantalum.Ssd(path=path) as ssd:
                kernel = ssd.endpoint(is_kernel=True)
                base_io = kernel.install(tantalum.shipped("base_io"))
                self.assertEqual(kernel.read(base_io, 8192, 4), b"kept")
        with self.assertRaises(tantalum.TantalumError):
            kernel.read(base_io, 0, 4)


class DocumentTest(unittest.TestCase):
    def test_the_example_of_the_page_about_programs_runs(self):
        page = pathlib.Path(__file__).parent.parent.parent / "docs" / "programs.md"
        blocks = [block.split("```")[0] for block in page.read_text().split("```python\n")[1:]]
        [example] = [block for block in blocks if "tantalum.Ssd(" in block]
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(example, {})
        self.assertRegex(out.getvalue(), r"^1 after \d+ ns\n$")


class StubTest(unittest.TestCase):
    """`tantalum.pyi` names what the library has, and nothing else."""

    def test_names(self):
        self.maxDiff = None
        stub = pathlib.Path(__file__).parent.parent / "tantalum/tantalum.pyi"
        told = {}
        for node in ast.parse(stub.read_text()).body:
            if isinstance(node, ast.FunctionDef):
                if not node.name.startswith("_"):
                    told[node.name] = set()
            elif isinstance(node, ast.AnnAssign):
                if not node.target.id.startswith("_"):
                    told[node.target.id] = set()
            elif isinstance(node, ast.ClassDef):
                # what only type checkers know
                if {"TypedDict", "Protocol"} & {base.id for base in node.bases if isinstance(base, ast.Name)}:
                    continue
                told[node.name] = {member.name for member in node.body if isinstance(member, ast.FunctionDef)}
                told[node.name] -= {"__init__", "__new__"}
        special = {"__enter__", "__exit__", "__iter__", "__len__", "__next__"}
        there = {}
        for name, value in vars(tantalum.tantalum).items():
            if isinstance(value, type) and issubclass(value, Exception):
                there[name] = set()
            elif isinstance(value, type):
                there[name] = {member for member in vars(value) if not member.startswith("_") or member in special}
            elif not name.startswith("_"):
                there[name] = set()
        self.assertEqual(told, there)


if __name__ == "__main__":
    unittest.main()
