#!/usr/bin/env python3
"""Keeps a `lamina serve` busy, and says how many images/s it answered, how late, and what its memory did.

    scripts/race/load_serve.py --model digits [--url 127.0.0.1:8080] [--clients 64] [--seconds 10] [--photo photo.jpg] [--pid PID]

Without --photo each request is a tensor of one image, binary; with it, a photograph for /classify.
"""

import argparse
import collections
import http.client
import json
import multiprocessing
import os
import threading
import time


def request_for(options):
    if options.photo:
        return f"/classify?model={options.model}&top=1", open(options.photo, "rb").read(), {}
    connection = http.client.HTTPConnection(options.url)
    connection.request("GET", f"/v2/models/{options.model}")
    tensor = json.load(connection.getresponse())["inputs"][0]
    shape = [1, *tensor["shape"][1:]]
    size = 4
    for extent in shape:
        size *= extent
    head = json.dumps({"inputs": [{"name": tensor["name"], "shape": shape, "datatype": tensor["datatype"],
                                   "parameters": {"binary_data_size": size}}],
                       "parameters": {"binary_data_output": True}}).encode()
    return (f"/v2/models/{options.model}/infer", head + bytes(size),
            {"Inference-Header-Content-Length": str(len(head))})


def client(url, request, begin, end, found):
    path, body, headers = request
    connection = http.client.HTTPConnection(url, timeout=60)
    times, statuses = [], collections.Counter()
    while (start := time.time()) < end:
        try:
            connection.request("POST", path, body, headers)
            response = connection.getresponse()
            response.read()
            status = response.status
        except (OSError, http.client.HTTPException) as error:
            status = type(error).__name__
            connection.close()
        if start >= begin:
            statuses[status] += 1
            if status == 200:
                times.append(time.time() - start)
        if status != 200:
            time.sleep(0.02)  # the server said later
    found.append((times, statuses))


def several(url, request, count, begin, end, queue):
    found = []
    threads = [threading.Thread(target=client, args=(url, request, begin, end, found)) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    queue.put(found)


def resident(pid):
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) // 1024 for line in status if line.startswith("VmRSS"))


def processor_seconds(pid):
    """By its program and by the kernel for it."""
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return [int(field) / os.sysconf("SC_CLK_TCK") for field in fields[11:13]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="127.0.0.1:8080")
    parser.add_argument("--model", required=True)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--processes", type=int, default=2, help="that the clients are spread over")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--photo")
    parser.add_argument("--pid", type=int, help="the server's: also say what processors and, in the course of time, memory it takes")
    options = parser.parse_args()
    request = request_for(options)
    queue = multiprocessing.Queue()
    begin = time.time() + min(2, options.seconds / 4)
    end = begin + options.seconds
    share = -(-options.clients // options.processes)
    processes = [multiprocessing.Process(target=several, args=(options.url, request, share, begin, end, queue))
                 for _ in range(options.processes)]
    for process in processes:
        process.start()
    memory, used = [], processor_seconds(options.pid) if options.pid else []
    while options.pid and time.time() < end:
        memory.append(resident(options.pid))
        time.sleep(options.seconds / 20)
    found = [one for process in processes for one in queue.get()]
    for process in processes:
        process.join()
    times = sorted(t for one, _ in found for t in one)
    statuses = sum((s for _, s in found), collections.Counter())
    if times:
        at = [1e3 * times[int(q * (len(times) - 1))] for q in (0.5, 0.99)]
        print(f"{len(times) / options.seconds:.1f} images/s, p50 {at[0]:.1f} ms, p99 {at[1]:.1f} ms; {dict(statuses)}")
    else:
        print(f"no answer; {dict(statuses)}")
    if memory:
        program, kernel = (after - before for before, after in zip(used, processor_seconds(options.pid)))
        print(f"the server's processors: {program:.2f} s in the program, {kernel:.2f} s in the kernel; resident MiB:", *memory)


if __name__ == "__main__":
    main()
