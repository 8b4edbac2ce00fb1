#!/usr/bin/env python3
import os, sys

states = [f"{number}" * 4096 for number in range(1, 4)]
saved = [int(line) for line in open(os.environ["TANTALUM_ACKS"])]
state = open("state").read() if os.path.exists("state") else ""
if saved and state not in states[saved[-1] - 1:]:
    sys.exit(f"{saved[-1]} was saved, but `state` has {len(state.strip(chr(0)))} bytes of it")
