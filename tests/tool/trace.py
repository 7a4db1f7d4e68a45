# SPDX-License-Identifier: MIT
"""trace.py FILE...: traces of copse are JSON of Chrome's format, and their lanes are consistent: no span ends before it begins, and
two spans of a lane are apart or one is within the other. Prints, for each kind, the number of spans."""
import collections
import json
import sys
from decimal import Decimal

failed = False
for path in sys.argv[1:]:
    with open(path) as file:
        trace = json.load(file, parse_float=Decimal)
    lanes, kinds, names = collections.defaultdict(list), collections.Counter(), {}
    for event in trace["traceEvents"]:
        if event["ph"] == "M":
            if event["name"] == "thread_name":
                names[event["pid"], event["tid"]] = event["args"]["name"]
            continue
        begin = Decimal(event["ts"])
        lanes[event["pid"], event["tid"]].append((begin, -(begin + Decimal(event["dur"])), event["name"]))
        kinds[event["cat"]] += 1
        if event["ph"] != "X" or event["ts"] < 0 or event["dur"] < 0:
            print(f"FAILED: {path}: {event}")
            failed = True
    for lane, spans in lanes.items():
        outer = []
        for begin, end, name in sorted(spans):
            end = -end
            while outer and outer[-1] <= begin:
                outer.pop()
            if outer and end > outer[-1]:
                print(f"FAILED: {path}: {names.get(lane)}: '{name}' at {begin} ends after the span around it")
                failed = True
            outer.append(end)
    if set(lanes) != set(names):
        print(f"FAILED: {path}: lanes {sorted(lanes)}, names {names}")
        failed = True
    print(" ".join(f"{kind}={kinds[kind]}" for kind in sorted(kinds)), "lanes=" + ",".join(sorted(names.values())))
sys.exit(failed)
