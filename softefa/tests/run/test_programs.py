# SPDX-License-Identifier: MIT
"""The examples of layer 2 over the device."""
import device  # first: it knows where the others are
import common
import test_examples


class Efa(test_examples.Examples, device.TestCase):
    provider = "efa"

    def example(self, program, *args, listens=True):
        options = ["-p", "efa"] if listens else []
        return self.start(test_examples.Example, device.SOFTEFA, program, *options, *args, env=device.environment())

    def plain(self, *command):
        env = device.environment(PROVIDER="efa")
        return self.start(common.Program, [device.SOFTEFA, *command], env=env)


if __name__ == "__main__":
    common.main()
