"""A process of its own that calibrates with the device "FAULTY", once for each fault.

Usage: calibrate_faulty.py LIBRARY CASES, CASES being a list of [fault, nth] as JSON, "" for none. The last line
printed is JSON: for each case the calibration and the allocations that the device still had afterwards.
"""

import sys

import msgspec
from faulty_decoding import DEVICE, FaultyDevice
from llama_process import LlamaProcess

from app.engine import calibrate, protocol
from app.hardware.facts import Gpu, GpuKind

MIB = 1 << 20


def main() -> None:
    """Calibrate for every case."""
    process = LlamaProcess(with_device=True)  # its log must outlive what is measured
    faulty = FaultyDevice(sys.argv[1])
    # What is tested is what becomes of failures: little memory makes that quick.
    calibrate._LEAST_WEIGHTS = calibrate._MOST_WEIGHTS = 24 * MIB
    calibrate._BATCHES = (32,)
    calibrate._MOST_BATCH_SECONDS = 60.0  # a busy machine takes its time
    gpu = Gpu(
        name="Faulty", backend=DEVICE, device=DEVICE, kind=GpuKind.DISCRETE, total_bytes=1 << 30, free_bytes=1 << 30
    )
    told = []
    for fault, nth in msgspec.json.decode(sys.argv[2], type=list[tuple[str, int]]):
        print(f"case: {fault}", file=sys.stderr, flush=True)
        faulty.heal()
        if fault:
            faulty.fail(fault, nth)
        # Far more than it takes: everything must be measured, or the failure be met.
        request = protocol.Calibrate(id=1, types=("q4_0",), threads=(1,), devices=(DEVICE,), seconds=120.0, machine="m")
        found = calibrate.Calibrator(request, (gpu,), "engine", lambda _event: None, lambda: False).run()
        told.append({"calibration": msgspec.to_builtins(found), "buffers": faulty.buffers()})
    del process
    print(msgspec.json.encode(told).decode())


if __name__ == "__main__":
    main()
