#!/usr/bin/env python3
import os

for number in range(1, 4):
    with open("state.new", "w") as file:
        file.write(f"{number}" * 4096)
    os.rename("state.new", "state")  # replaces the old state in one step
    print("ack", number, flush=True)
