# SPDX-License-Identifier: MIT
"""The command between two hosts, which are network namespaces: who reaches whom by default, and what is said if not."""
import os
import shutil
import subprocess
import unittest

import common
import tool
from common import DONE, FAILED, TIMEOUT
from sessions import Namespaces
from tool import HELLO

PORT = 7471


class TwoHosts(tool.TestCase):
    def setUp(self):
        self.spaces = Namespaces()
        self.addCleanup(self.spaces.remove)
        self.here, self.there = self.spaces.addresses
        self.place = f"{self.there}:{PORT}"

    def serve_there(self, *options, **kwargs):
        return self.serve(*options, prefix=[*self.spaces.prefix(1), *kwargs.pop("prefix", ())], **kwargs)

    def send(self, *args, **kwargs):
        return self.weft("send", "--timeout", "1s", *args,
                         prefix=[*self.spaces.prefix(0), *kwargs.pop("prefix", ())], timeout=60, **kwargs)

    def fails(self, *args, status=FAILED, **kwargs):
        """What is said where it fails so."""
        got, out, err = self.send(*args, **kwargs)
        self.assertEqual((got, out), (status, b""), err)
        return err.splitlines()[-1]

    def rules(self, rule):
        """Drops or rejects what comes to the other host."""
        script = f"add table ip weft; add chain ip weft in {{ type filter hook input priority 0; }}; {rule}"
        subprocess.run([*self.spaces.prefix(1), "nft", script], check=True, timeout=common.WAIT)


@unittest.skipIf(os.geteuid() != 0, "making network namespaces takes root")
class Tcp(TwoHosts):
    def test_the_host_of_a_rendezvous_is_bound_to(self):
        server = self.serve_there("--rendezvous", self.place)
        self.assertTrue(server.address.startswith(f"tcp://{self.there}:"), server.address)
        self.assertIsNone(server.err.find("from this host only"))
        self.assertEqual(self.send(self.place)[:2], (DONE, HELLO[::-1]))

    def test_a_rendezvous_without_a_host_is_where_the_server_is(self):
        for bind in self.there, "link1":
            server = self.serve_there("--bind", bind, "--rendezvous", "0")
            where = server.rendezvous()
            self.assertTrue(where.startswith(f"{self.there}:"), where)
            self.assertEqual(self.send(where)[:2], (DONE, HELLO[::-1]))

    def test_an_address_that_means_the_client_itself(self):
        server = self.serve_there("--rendezvous", f"0.0.0.0:{PORT}")
        server.err.wait(rf"^weft: warning: the rendezvous 0\.0\.0\.0:{PORT} is for other hosts, and .*--bind")
        said = self.fails(self.place)
        self.assertIn(f"the rendezvous {self.place} told {server.address}, which means this host itself", said)
        self.assertIn("with --bind", said)
        # There, it is as good as any.
        status, out, err = self.weft("send", self.place, prefix=self.spaces.prefix(1))
        self.assertEqual((status, out), (DONE, HELLO[::-1]), err)

    def test_other_binds_are_left_alone(self):
        for options, scheme in ((["--bind", "127.0.0.1"], "tcp://127.0.0.1:"), (["--domain", "lo"], "tcp://127.0.0.1:"),
                                (["--provider", "shm"], "shm://")):
            server = self.serve_there("--rendezvous", self.place, *options)
            self.assertTrue(server.address.startswith(scheme), server.address)
            server.err.wait("warning: the rendezvous")
            self.end(server)

    def test_a_refusal_is_told_from_silence(self):
        address = f"tcp://{self.there}:{PORT}"
        self.assertIn("nothing listens there", self.fails(address, status=TIMEOUT))
        self.assertIn("is weft serve --rendezvous running there?", self.fails(self.place))
        nobody = self.there.rsplit(".", 1)[0] + ".99"
        # The kernel asks for seconds before it says that there is none, longer than the command asks the kernel.
        said = self.fails(f"tcp://{nobody}:{PORT}", status=TIMEOUT)
        self.assertRegex(said, "no host (has this address|answers there)")
        self.assertIn("no such host on the network", self.fails("-t", "5s", f"{nobody}:{PORT}"))

    @unittest.skipUnless(shutil.which("nft"), "dropping packets takes nft")
    def test_a_firewall(self):
        self.rules(f"add rule ip weft in tcp dport {PORT} drop")
        self.assertIn("a firewall drops what is sent", self.fails(f"tcp://{self.place}", status=TIMEOUT))
        self.assertIn("or does a firewall drop it?", self.fails(self.place, status=TIMEOUT))
        # Refusals are rationed, and libfabric's own attempts would use them up.
        self.spaces.run(1, "sh", "-c", "echo 0 >/proc/sys/net/ipv4/icmp_ratelimit")
        self.rules(f"add rule ip weft in tcp dport {PORT + 1} reject with icmp type host-prohibited")
        said = self.fails(f"tcp://{self.there}:{PORT + 1}", status=TIMEOUT)
        self.assertIn("a firewall rejects it", said)

    def test_something_else_listens_there(self):
        script = (f"import socket; s = socket.create_server(('{self.there}', {PORT})); print('ready', flush=True); "
                  "c = [s.accept() for _ in range(100)]")
        other = self.start(common.Program, [*self.spaces.prefix(1), "python3", "-c", script])
        other.out.wait("ready")
        self.assertIn("it is no weft", self.fails(f"tcp://{self.place}", status=TIMEOUT))
        self.assertIn(f"if weft serve printed tcp://{self.place}", self.fails(self.place, status=TIMEOUT))


@unittest.skipIf(os.geteuid() != 0, "making network namespaces takes root")
class Software(TwoHosts):
    """The same with EFA made of software, as the README shows it."""

    variables = tool.SOFTWARE_VARIABLES

    def setUp(self):
        super().setUp()
        self.softefa = tool.softefa()
        if not self.softefa:
            self.skipTest("softefa is not built")

    def on_device(self, address):
        return {"prefix": [self.softefa], "env": common.environment(SOFTEFA_BIND=address, **self.variables)}

    def test_hello(self):
        server = self.serve_there(**self.on_device(self.there))
        command = server.err.wait(r"a client is started by: (.*)$")[1]
        self.assertTrue(command.startswith(f"SOFTEFA_BIND=ITS-OWN-IP {self.softefa} {tool.TOOL} send 'efa://"), command)
        status, out, err = self.send("-t", "20s", server.address, **self.on_device(self.here))
        self.assertEqual((status, out), (DONE, HELLO[::-1]), err)

    def test_who_is_not_bound_where_the_other_reaches_it(self):
        server = self.serve_there(**self.on_device(self.there))
        said = self.fails(server.address, status=TIMEOUT, **self.on_device(None))
        self.assertIn("between hosts, both ends need SOFTEFA_BIND", said)
        self.end(server)

    def test_nobody_is_there(self):
        address = self.serve_there(**self.on_device(self.there)).address
        nobody = address[:-20] + "ffff" + address[-16:]
        said = self.fails(nobody, status=TIMEOUT, **self.on_device(self.here))
        self.assertNotIn("security group", said)

    def test_a_rendezvous_that_tells_a_loopback_device(self):
        server = self.serve_there("--rendezvous", self.place, **self.on_device(None))
        server.err.wait(r"^weft: warning: the rendezvous .*SOFTEFA_BIND")
        self.assertIn("start weft serve there with SOFTEFA_BIND", self.fails(self.place, **self.on_device(self.here)))


if __name__ == "__main__":
    common.main()
