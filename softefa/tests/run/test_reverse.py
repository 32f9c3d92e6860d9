# SPDX-License-Identifier: MIT
"""The reverse program over the device: between processes, between network namespaces, and many clients at once."""
import os
import subprocess
import unittest

import device  # first: it knows where the others are
import common

# ThreadSanitizer makes each process so slow that many of them leave the server no time.
CLIENTS = 10 if "TSAN_OPTIONS" in os.environ else 50


class Reverse(device.TestCase):
    def test_two_processes(self):
        server = self.efa_server()
        client = self.efa_exchange(server.address, "Hello, world!")
        self.assertEqual(client.reply(), (13, "!dlrow ,olleH"))
        for program in server, client:
            program.err.wait(device.SOFTWARE)
            program.out.wait(r"^provider: efa$")
            program.out.wait(r"^domain: softefa0-rdm$")
        self.assertEqual(len(server.address), len("efa://") + 64)
        own = client.out.wait(r"^own address: (\S+)$")[1]
        self.assertEqual(device.parts(own)[0], "127.0.0.1")
        server.out.wait(rf"^message received from {own} \(len=13\): Hello, world!$")
        self.end(server)

    def test_the_command_to_copy_works(self):
        # Without the launcher's variables, as in a terminal of its own.
        env = device.environment()
        for prefix, started_by in ([device.SOFTEFA], f"{device.SOFTEFA} "), ([], ""):
            provider = "efa" if prefix else "tcp"
            server = self.server(provider, prefix=prefix, env=env)
            command = server.out.wait(r"^a client is started by: (.*)$")[1]
            self.assertEqual(command, f"{started_by}{common.REVERSE} '{server.address}' 'Hello, world!'")
            status, out, err = self.run_program("sh", "-c", command, env=env)
            self.assertEqual(status, common.DONE, err)
            self.assertIn("reply (len=13): !dlrow ,olleH", out)
            self.end(server)

    def test_texts(self):
        server = self.efa_server()
        for text in "", "x", "y" * 8191:
            self.assertEqual(self.efa_exchange(server.address, text).reply(), (len(text), text[::-1]))
        self.end(server)

    def test_many_clients_at_once(self):
        # A sanitizer makes it slow to start so many processes; none waits in vain.
        server = self.efa_server("--timeout", "150", "--idle", "150")
        clients = [self.efa_client(server.address, f"client number {i}", options=("--timeout", "150"))
                   for i in range(CLIENTS)]
        for i, client in enumerate(clients):
            self.assertEqual(client.wait(200), common.DONE, client.err.text())
            text = f"client number {i}"
            client.out.text()
            self.assertEqual(client.reply(), (len(text), text[::-1]))
        self.end(server)


@unittest.skipUnless(os.geteuid() == 0, "network namespaces take root")
class Namespaces(device.TestCase):
    """Two network namespaces with a wire between them: nothing is shared but the wire."""

    def setUp(self):
        self.names = [f"softefa-{os.getpid()}-{side}" for side in "ab"]
        self.ips = ["10.218.7.1", "10.218.7.2"]
        for name in self.names:
            subprocess.run(["ip", "netns", "add", name], check=True)
            self.addCleanup(subprocess.run, ["ip", "netns", "delete", name], check=True)
        subprocess.run(["ip", "link", "add", "wire", "netns", self.names[0], "type", "veth",
                        "peer", "name", "wire", "netns", self.names[1]], check=True)
        for name, ip in zip(self.names, self.ips):
            self.ip(name, "address", "add", f"{ip}/24", "dev", "wire")
            self.ip(name, "link", "set", "wire", "up")
            self.ip(name, "link", "set", "lo", "up")

    def ip(self, name, *command):
        subprocess.run(["ip", "-n", name, *command], check=True)

    def side(self, number, **env):
        return {"prefix": ["ip", "netns", "exec", self.names[number]],
                "env": {"SOFTEFA_BIND": self.ips[number], **env}}

    def test_exchange(self):
        server = self.efa_server(**self.side(0))
        self.assertEqual(device.parts(server.address)[0], self.ips[0])
        text = "z" * 8000
        client = self.efa_exchange(server.address, text, **self.side(1))
        self.assertEqual(client.reply(), (8000, text))
        self.end(server)

    def test_killed_peer_is_known_at_once(self):
        server = self.efa_server(**self.side(0))
        server.kill()
        client = self.efa_client(server.address, **self.side(1))
        self.assertEqual(client.wait(), common.FAILED)
        client.err.wait(r"\(EFA code 9\); The peer's process is gone, or was restarted")

    def test_wire_is_cut(self):
        server = self.efa_server(**self.side(0))
        self.efa_exchange(server.address, **self.side(1))
        self.ip(self.names[0], "link", "set", "wire", "down")
        client = self.efa_client(server.address, **self.side(1))
        self.assertEqual(client.wait(), common.FAILED)
        client.err.wait(r"\(EFA code (13|15|4126)\); .* (network between is cut|never answered)")
        self.ip(self.names[0], "link", "set", "wire", "up")
        client = self.efa_exchange(server.address, **self.side(1))
        self.assertEqual(client.reply(), (13, "!dlrow ,olleH"))
        self.end(server)


if __name__ == "__main__":
    common.main()
