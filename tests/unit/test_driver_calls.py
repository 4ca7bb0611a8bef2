"""The driver layer on the software GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.on_sim import run_on_sim

UUIDS = ("GPU-00000000-0000-4000-8000-00000000000a", "GPU-00000000-0000-4000-8000-00000000000b")


def test_devices_are_those_of_the_machine() -> None:
    told = run_on_sim(
        """
        from torpor.driver import Driver
        driver = Driver()
        for d in driver.devices:
            print(d.ordinal, d.uuid, d.name, d.arch, d.memory)
        print(driver.version, driver.by_uuid(driver.devices[1].uuid).ordinal, driver.by_uuid("GPU-x"))
        driver.warm()
        print([driver.free_memory(n) <= d.memory for n, d in enumerate(driver.devices)])
        driver.close()
        """,
        TORPOR_SIM_DEVICES="2",
        TORPOR_SIM_UUID=",".join(UUIDS),
        TORPOR_SIM_MEMORY="1G,2G",
        TORPOR_SIM_ARCH="9.0,8.6",
        TORPOR_SIM_NAME="First,Second",
        TORPOR_SIM_DRIVER_VERSION="12080",
    )
    assert told.splitlines() == [
        f"0 {UUIDS[0]} First 9.0 {1 << 30}",
        f"1 {UUIDS[1]} Second 8.6 {2 << 30}",
        "12080 1 None",
        "[True, True]",
    ]


def test_without_a_driver_it_is_missing() -> None:
    run_on_sim(
        """
        from torpor.driver import Driver
        from torpor.errors import DriverMissing
        try:
            Driver()
        except DriverMissing as error:
            assert error.hint
        else:
            raise SystemExit("there is a driver")
        """,
        TORPOR_SIM_DEVICES="0",
        TORPOR_SIM_FAULT="cuInit@1+=fail:100",
    )


def test_an_old_driver_lacks_the_checkpoint_calls() -> None:
    run_on_sim(
        """
        from torpor.driver import Driver, Checkpointing
        from torpor.errors import MissingPart
        try:
            Checkpointing(Driver().version)
        except MissingPart as error:
            assert "cuCheckpointProcessLock" in error.message and "570" in error.hint, error.message
        else:
            raise SystemExit("nothing is missing")
        """,
        TORPOR_SIM_DRIVER_VERSION="12040",
    )


TARGET = """
import sys
from cuda.bindings import driver
assert driver.cuInit(0)[0] == 0
assert driver.cuCtxSetCurrent(driver.cuDevicePrimaryCtxRetain(driver.cuDeviceGet(0)[1])[1])[0] == 0
address = driver.cuMemAlloc(1 << 20)[1]
assert driver.cuMemsetD8(address, 5, 1 << 20)[0] == 0
print("ready", flush=True)
sys.stdin.readline()
data = bytearray(1 << 20)
assert driver.cuMemcpyDtoH(data, address, 1 << 20)[0] == 0
assert bytes(data) == bytes([5]) * (1 << 20)
print(driver.cuDeviceGetUuid(driver.cuDeviceGet(0)[1])[1].bytes.hex(), flush=True)
"""

CYCLE = """
import subprocess, sys
from torpor.driver import Driver, Checkpointing, ProcessState
old, new = sys.argv[1:3]
driver = Driver()
calls = Checkpointing(driver.version)
child = subprocess.Popen([sys.executable, "-c", sys.argv[3]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
assert child.stdout.readline() == "ready\\n"
states = [calls.state(child.pid)]
calls.lock(child.pid, 5.0)
states.append(calls.state(child.pid))
calls.checkpoint(child.pid)
states.append(calls.state(child.pid))
calls.restore(child.pid, {old: new, new: old} if old != new else None)
states.append(calls.state(child.pid))
calls.unlock(child.pid)
states.append(calls.state(child.pid))
print(*(state.value for state in states))
print(child.communicate("go\\n")[0].strip(), child.returncode)
print(calls.state(child.pid) is ProcessState.NONE)
"""


@pytest.mark.parametrize("target", UUIDS)
def test_the_checkpoint_calls_in_order(target: str) -> None:
    env = {"TORPOR_SIM_DEVICES": "2", "TORPOR_SIM_UUID": ",".join(UUIDS)}
    told = run_on_sim(CYCLE, UUIDS[0], target, TARGET, **env).splitlines()
    assert told[0] == "running locked checkpointed locked running"
    assert told[1] == f"{target.removeprefix('GPU-').replace('-', '')} 0"
    assert told[2] == "True"


@pytest.mark.parametrize(
    "call",
    [
        "cuMemcpyDtoHAsync",
        "cuMemcpyHtoDAsync",
        "cuStreamSynchronize",
        "cuMemHostRegister",
        "cuMemHostUnregister",
        "cuMemCreate",
        "cuMemSetAccess",
        "cuCheckpointProcessLock",
        "cuCheckpointProcessCheckpoint",
        "cuCheckpointProcessRestore",
        "cuCheckpointProcessUnlock",
    ],
)
def test_a_long_call_leaves_the_interpreter_to_others(call: str, tmp_path: Path) -> None:
    # The call hangs until the file is there, and it is this process's other thread that makes it.
    gate = tmp_path / "gate"
    run_on_sim(
        """
        import mmap, os, sys, threading
        from pathlib import Path
        from torpor.driver import Driver, Checkpointing, copies, vmm
        from torpor.keeper import hostmem
        gate, call = Path(sys.argv[1]), sys.argv[2]
        driver = Driver()
        calls = Checkpointing(driver.version)
        device = driver.devices[0]

        def everything():
            driver.bind(0)
            size = vmm.granularity(device)
            memory = os.memfd_create("test")
            os.ftruncate(memory, size)
            host = hostmem.map_shared(memory, size)
            copies.pin(host, size)
            handle = vmm.create(device, size)
            address = vmm.reserve(size)
            vmm.map_handle(address, size, handle)
            vmm.allow(address, size, device)
            with copies.Stream() as stream:
                stream.to_device(address, host, size)
                stream.to_host(host, address, size)
                stream.wait()
            copies.unpin(host)
            for step in (lambda: calls.lock(os.getpid(), 1), lambda: calls.checkpoint(os.getpid()),
                         lambda: calls.restore(os.getpid()), lambda: calls.unlock(os.getpid())):
                try:
                    step()
                except Exception:
                    pass  # what becomes of a process that checkpoints itself is not the question here
            done.set()

        done = threading.Event()
        thread = threading.Thread(target=everything, daemon=True)
        thread.start()
        assert not done.wait(0.05)
        gate.touch()
        assert done.wait(100)
        os._exit(0)
        """,
        str(gate),
        call,
        TORPOR_SIM_FAULT=f"{call}@1=hang:{gate}",
    )
